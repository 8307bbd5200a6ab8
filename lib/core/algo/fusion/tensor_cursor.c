/* The cursor's copies into a list of tensors and out of it. */
#include "algo/fusion/tensor_cursor.h"

#include <assert.h>
#include <string.h>

#include "algo/lines.h"
#include "reduce/copy.h"

enum { SHORT_BYTES = 128 };

/* Moves the cursor on to the tensor that has element `first`, which exists. */
static inline void advance(struct kolo_tensor_cursor *cursor, size_t first) {
    assert(first >= cursor->begin);
    while (first - cursor->begin >= cursor->tensor->count) {
        cursor->begin += cursor->tensor->count;
        cursor->tensor++;
    }
}

/* Returns where element `first` lies. *count becomes how many elements from there on lie in one piece, at most
 * `count`. */
static inline uint8_t *piece_at(struct kolo_tensor_cursor *cursor, size_t first, size_t *count) {
    advance(cursor, first);
    const size_t at = first - cursor->begin, left = cursor->tensor->count - at;
    if (left < *count)
        *count = left;
    return (uint8_t *)cursor->tensor->data + at * cursor->element_bytes;
}

/* Copies bytes, inline where a call would take longer than the copy. */
static inline void copy(uint8_t *to, const uint8_t *from, size_t bytes) {
    if (bytes <= SHORT_BYTES)
        kolo_copy_short(to, from, bytes);
    else
        kolo_copy(to, from, bytes);
}

void kolo_tensor_cursor_pack(struct kolo_tensor_cursor *cursor, size_t first, size_t count, uint8_t *to) {
    while (count > 0) {
        size_t part = count;
        const uint8_t *from = piece_at(cursor, first, &part);
        copy(to, from, part * cursor->element_bytes);
        to += part * cursor->element_bytes;
        first += part;
        count -= part;
    }
}

void kolo_tensor_cursor_unpack(struct kolo_tensor_cursor *cursor, size_t first, size_t count, const uint8_t *from) {
    while (count > 0) {
        size_t part = count;
        uint8_t *to = piece_at(cursor, first, &part);
        copy(to, from, part * cursor->element_bytes);
        from += part * cursor->element_bytes;
        first += part;
        count -= part;
    }
}

uint8_t *kolo_tensor_cursor_piece(struct kolo_tensor_cursor *cursor, size_t first, size_t *count) {
    return piece_at(cursor, first, count);
}
