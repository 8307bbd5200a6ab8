/* SPDX-License-Identifier: Apache-2.0
 */
#include "driver_buffers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { LARGE_BYTES = 2 << 20 };

void *driver_buffer_allocate(size_t bytes) {
    size_t alignment = bytes >= LARGE_BYTES ? LARGE_BYTES : (size_t)sysconf(_SC_PAGESIZE);
    void *buffer;
    if (posix_memalign(&buffer, alignment, bytes) != 0)
        return NULL;
    memset(buffer, 0, bytes); /* no call shall pay for page faults */
    return buffer;
}

#if defined(__x86_64__)

bool driver_buffer_can_flush(void) {
    return true;
}

void driver_buffer_flush(const void *buffer, size_t bytes) {
    enum { LINE_BYTES = 64 };
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        _mm_clflush((const char *)buffer + at);
    _mm_mfence(); /* clflush is ordered by this alone; the timed call must not begin before the last line is gone */
}

#elif defined(__aarch64__)

bool driver_buffer_can_flush(void) {
    return true;
}

void driver_buffer_flush(const void *buffer, size_t bytes) {
    uint64_t cache_type; /* CTR_EL0.DminLine: log2 of the words in the smallest data cache line */
    __asm__ volatile("mrs %0, ctr_el0" : "=r"(cache_type));
    size_t line_bytes = (size_t)4 << (cache_type >> 16 & 15);
    for (size_t at = 0; at < bytes; at += line_bytes)
        __asm__ volatile("dc civac, %0" : : "r"((const char *)buffer + at) : "memory");
    __asm__ volatile("dsb sy" : : : "memory");
}

#else

bool driver_buffer_can_flush(void) {
    return false;
}

void driver_buffer_flush(const void *buffer, size_t bytes) {
    (void)buffer;
    (void)bytes;
}

#endif
