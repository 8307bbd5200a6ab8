/* Partial access: reading and writing the first bytes of a vector, where the instruction set has no masked access. The
 * bytes are accessed as 64-bit words, the last one in parts that may overlap. No other byte is touched. */
#pragma once

#include "reduce/template/vector_types.h"

enum { WORD_BYTES = 8, VECTOR_WORDS = VECTOR_BYTES / WORD_BYTES };

/* Loads the first `bytes` bytes, at least 1 and at most a word, with zeros above. */
static ALWAYS_INLINE uint64_t load_word(const unsigned char *from, size_t bytes) {
    if (bytes >= WORD_BYTES) {
        uint64_t word;
        memcpy(&word, from, sizeof word);
        return word;
    }
    if (bytes >= 4) {
        uint32_t low, high;
        memcpy(&low, from, sizeof low);
        memcpy(&high, from + bytes - sizeof high, sizeof high);
        return low | (uint64_t)high << 8 * (bytes - sizeof high);
    }
    size_t middle = bytes / 2, last = bytes - 1;
    return from[0] | (uint64_t)from[middle] << 8 * middle | (uint64_t)from[last] << 8 * last;
}

static ALWAYS_INLINE void store_word(unsigned char *to, uint64_t word, size_t bytes) {
    if (bytes >= WORD_BYTES) {
        memcpy(to, &word, sizeof word);
        return;
    }
    if (bytes >= 4) {
        uint32_t low = (uint32_t)word, high = (uint32_t)(word >> 8 * (bytes - sizeof high));
        memcpy(to, &low, sizeof low);
        memcpy(to + bytes - sizeof high, &high, sizeof high);
        return;
    }
    size_t middle = bytes / 2, last = bytes - 1;
    to[0] = (unsigned char)word;
    to[middle] = (unsigned char)(word >> 8 * middle);
    to[last] = (unsigned char)(word >> 8 * last);
}

/* Loads the first `bytes` bytes, 1 to VECTOR_BYTES, and zeros. Not inlined: a kernel's code has many, and runs few. */
static __attribute__((noinline)) vector load_partial(const unsigned char *from, size_t bytes) {
    u64v words = {0};
    for (size_t i = 0; i < VECTOR_WORDS; i++) {
        if (bytes > i * WORD_BYTES)
            words[i] = load_word(from + i * WORD_BYTES, bytes - i * WORD_BYTES);
    }
    return (vector)words;
}

static __attribute__((noinline)) void store_partial(unsigned char *to, vector value, size_t bytes) {
    u64v words = (u64v)value;
    for (size_t i = 0; i < VECTOR_WORDS; i++) {
        if (bytes > i * WORD_BYTES)
            store_word(to + i * WORD_BYTES, words[i], bytes - i * WORD_BYTES);
    }
}
