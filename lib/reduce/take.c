/* Taking over what was read: see take.h. */
#include "reduce/take.h"

#include "reduce/copy.h"
#include "sync/atomic.h"

enum {
    LINE_BYTES = 64,
    PIECE_BYTES = 16384 /* what is read before it is taken over: less than the first cache */
};

void kolo_take(void *memory, size_t bytes) {
    kolo_atomic_u64 *line = memory; /* atomic, for the compiler to leave it in */
    for (size_t at = 0; at < bytes; at += LINE_BYTES, line += LINE_BYTES / sizeof *line)
        kolo_store_relaxed(line, kolo_load_relaxed(line));
}

void kolo_copy_take(void *dst, void *src, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        const size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        kolo_copy((unsigned char *)dst + at, (unsigned char *)src + at, part);
        kolo_take((unsigned char *)src + at, part);
    }
}

void kolo_copy_take_stream(void *dst, void *src, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        const size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        kolo_copy_stream((unsigned char *)dst + at, (unsigned char *)src + at, part, NULL);
        kolo_take((unsigned char *)src + at, part);
    }
}
