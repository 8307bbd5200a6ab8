/* Taking over lines that were read: see take.h. */
#include "reduce/take.h"

#include <stdint.h>
#include <string.h>

#include "reduce/copy.h"
#include "sync/atomic.h"

enum {
    LINE_BYTES = 64,
    PIECE_BYTES = 16384 /* bytes that are read before they are taken over: less than the first cache */
};

static kolo_atomic_u64 is_left; /* 1: nothing is taken over */

void kolo_take_choose(bool worth_it) {
    kolo_store_relaxed(&is_left, !worth_it);
}

void kolo_take(void *memory, size_t bytes) {
    uint8_t *line = memory;
    uint64_t held;
    if (kolo_load_relaxed(&is_left))
        return;
    for (size_t at = 0; at + sizeof held <= bytes; at += LINE_BYTES, line += LINE_BYTES) {
        memcpy(&held, line, sizeof held);
        __asm__("" : "+r"(held)); /* otherwise the compiler would see that the store changes nothing */
        memcpy(line, &held, sizeof held);
    }
}

void kolo_copy_take(void *dst, void *src, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        const size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        kolo_copy_plain((unsigned char *)dst + at, (unsigned char *)src + at, part);
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
