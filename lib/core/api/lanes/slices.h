/* Slices: which calls are divided among a communicator's lanes, and which part of a call's data each lane does. */
#pragma once

#include "api/arguments.h"
#include "api/lanes/lanes.h"

/* The smallest slice. Below it the least cost of a call, an exchange between all, is more than a thread saves. */
#define KOLO_SLICE_BYTES_MIN 4096

/* A call takes helpers only if a rank sends or receives so many bytes: a helper takes some 50 us to come. */
#ifndef KOLO_HELPED_BYTES_MIN /* tests/faults has no such large ones */
#define KOLO_HELPED_BYTES_MIN (512 << 10)
#endif

/* The number of lanes among which a call is divided, the first ones: as many as get a slice of at least that size. 1:
 * the call is not divided. The number is the same on all ranks. `longest`: elements of the message or of the longest
 * block. bytes_min: the call is divided only if a rank sends or receives at least so many bytes. */
uint32_t kolo_slices_count(const struct kolo_descriptor *descriptor, const kolo_comm *first, size_t longest,
                           size_t element_bytes, size_t bytes_min);

/* Returns a place in a buffer that memcpy takes. The caller's may be NULL with a count of 0, or not at the root. */
static inline uint8_t *kolo_buffer_at(const void *buffer, size_t bytes) {
    static uint8_t nothing;
    return buffer ? (uint8_t *)buffer + bytes : &nothing;
}

/* Fills in slice `lane` of `lanes` of a call's data: the same part of the message or of each block. Slices begin on
 * lines of 128 bytes, counted from where message or block begins. Where blocks have counts of their own, the tables get
 * the slices' counts and offsets. One lane of one gets all. */
void kolo_slice_make(struct kolo_message *slice, const struct kolo_descriptor *descriptor, const kolo_comm *first,
                     const struct kolo_arguments *call, const kolo_kernel *kernel, uint32_t lane, uint32_t lanes);
