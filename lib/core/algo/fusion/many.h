/* A tensor cursor is a place in a list of tensors, whose elements are numbered through from the first tensor's to the
 * last one's. Schedules walk through a list from its beginning to its end, chunk by chunk, so a cursor only goes
 * forward, over each tensor once, and needs no list of where tensors begin. To go back: a copy. Tensors may be
 * empty. */
#pragma once

#include "kolo.h"

struct kolo_tensor_cursor {
    const kolo_tensor *tensor;
    size_t element_bytes;
    size_t begin; /* of that tensor in the list, in elements */
};

/* Returns a cursor before element 0 of the list. */
static inline struct kolo_tensor_cursor kolo_tensor_cursor_make(const kolo_tensor *tensors, size_t element_bytes) {
    return (struct kolo_tensor_cursor){tensors, element_bytes, 0};
}

/* Copies `count` elements of the list, from element `first` on, to `to`, or from `from` into the list. `first` must not
 * lie before the tensor at which the last copy has left the cursor. */
void kolo_tensor_cursor_pack(struct kolo_tensor_cursor *cursor, size_t first, size_t count, uint8_t *to);
void kolo_tensor_cursor_unpack(struct kolo_tensor_cursor *cursor, size_t first, size_t count, const uint8_t *from);
