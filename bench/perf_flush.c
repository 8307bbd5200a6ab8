/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_flush.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#if defined(__x86_64__)

bool perf_can_flush(void) {
    return true;
}

void perf_flush(const void *buffer, size_t bytes) {
    enum { LINE_BYTES = 64 };
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        _mm_clflush((const char *)buffer + at);
    _mm_mfence(); /* clflush is ordered by this alone; the timed call must not begin before the last line is gone */
}

#elif defined(__aarch64__)

bool perf_can_flush(void) {
    return true;
}

void perf_flush(const void *buffer, size_t bytes) {
    uint64_t cache_type; /* CTR_EL0.DminLine: log2 of the words in the smallest data cache line */
    __asm__ volatile("mrs %0, ctr_el0" : "=r"(cache_type));
    size_t line_bytes = (size_t)4 << (cache_type >> 16 & 15);
    for (size_t at = 0; at < bytes; at += line_bytes)
        __asm__ volatile("dc civac, %0" : : "r"((const char *)buffer + at) : "memory");
    __asm__ volatile("dsb sy" : : : "memory");
}

#else

bool perf_can_flush(void) {
    return false;
}

void perf_flush(const void *buffer, size_t bytes) {
    (void)buffer;
    (void)bytes;
}

#endif
