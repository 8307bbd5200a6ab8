/* The heap: the buffers of kolo_alloc on one communicator. Of each buffer either every rank has a part of its own, or
 * all ranks have the same memory. All ranks allocate and free the same buffers in the same order, so all have the same
 * list: an index and an offset mean the same on each rank. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shm/region.h"

#define KOLO_HEAP_OFFSET_BITS 44

struct kolo_heap {
    struct kolo_region *regions; /* base is NULL where an index is free */
    uint32_t capacity;
    uint32_t live;  /* buffers that are not freed */
    uint64_t bytes; /* of this rank's parts of them */
};

/* Makes room for one region more. KOLO_ERR_SYSTEM: out of memory. */
int kolo_heap_reserve(struct kolo_heap *heap);

/* Takes over the region, at the lowest free index. kolo_heap_reserve must have been called. */
void kolo_heap_add(struct kolo_heap *heap, const struct kolo_region *region);

/* Returns the index of the buffer that begins at `buffer` in part `own`; -1: there is none. */
int64_t kolo_heap_index(const struct kolo_heap *heap, const void *buffer, uint32_t own);

/* Unmaps buffer `index`. keeps_memory: in a forked child, and where a rank that has been stopped in a call may still
 * write into it: it goes with its last mapping. */
void kolo_heap_remove(struct kolo_heap *heap, uint32_t index, bool keeps_memory);

/* Returns the place of `bytes` at `address` in part `own` of a buffer, a word for all ranks; 0: not in one buffer. */
uint64_t kolo_heap_place(const struct kolo_heap *heap, const void *address, size_t bytes, uint32_t own);

/* Returns the address of `place` in part `rank`; NULL if it is no place, or `bytes` bytes from there do not fit. */
uint8_t *kolo_heap_address(const struct kolo_heap *heap, uint64_t place, size_t bytes, uint32_t rank);

/* Returns whether all ranks have the same memory at `place`, which is the place of a buffer. */
bool kolo_heap_is_common(const struct kolo_heap *heap, uint64_t place);

/* Unmaps all buffers, likewise. */
void kolo_heap_destroy(struct kolo_heap *heap, bool keeps_memory);
