#include "perf_buffers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { GUARD_BYTES = 256, GUARD_VALUE = 0xa5, LARGE_BYTES = 2 << 20 };

int perf_buffer_allocate(perf_buffer *buffer, size_t bytes, size_t offset, kolo_comm *comm) {
    /* One whole alignment unit in front keeps `data` where it belongs; of it, only the guard bytes' page is ever
     * touched. */
    size_t alignment = bytes >= LARGE_BYTES ? LARGE_BYTES : (size_t)sysconf(_SC_PAGESIZE);
    *buffer = (perf_buffer){0};
    if (bytes > PTRDIFF_MAX - alignment - offset - GUARD_BYTES)
        return -1;
    size_t whole_bytes = alignment + offset + bytes + GUARD_BYTES;
    void *allocation;
    if (comm != NULL ? kolo_alloc(comm, whole_bytes, &allocation) < 0
                     : posix_memalign(&allocation, alignment, whole_bytes) != 0)
        return -1;
    buffer->allocation = allocation;
    buffer->comm = comm;
    buffer->data = (char *)buffer->allocation + alignment + offset;
    memset(buffer->data, 0, bytes); /* no timed call shall pay for page faults */
    return 0;
}

void perf_buffer_free(perf_buffer *buffer) {
    if (buffer->comm != NULL)
        kolo_free(buffer->comm, buffer->allocation);
    else
        free(buffer->allocation);
    *buffer = (perf_buffer){0};
}

void perf_buffer_guard(const perf_buffer *buffer, size_t bytes) {
    memset((char *)buffer->data - GUARD_BYTES, GUARD_VALUE, GUARD_BYTES);
    memset((char *)buffer->data + bytes, GUARD_VALUE, GUARD_BYTES);
}

size_t perf_buffer_guards_changed(const perf_buffer *buffer, size_t bytes) {
    const unsigned char *before = (const unsigned char *)buffer->data - GUARD_BYTES;
    const unsigned char *after = (const unsigned char *)buffer->data + bytes;
    size_t changed = 0;
    for (int i = 0; i < GUARD_BYTES; i++)
        changed += (before[i] != GUARD_VALUE) + (after[i] != GUARD_VALUE);
    return changed;
}

bool perf_can_flush(void) {
#if defined(__x86_64__) || defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

void perf_flush(const void *buffer, size_t bytes) {
#if defined(__x86_64__)
    enum { LINE_BYTES = 64 };
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        _mm_clflush((const char *)buffer + at);
    _mm_mfence(); /* clflush is ordered by this alone; the timed call must not begin before the last line is gone */
#elif defined(__aarch64__)
    uint64_t cache_type; /* CTR_EL0.DminLine: log2 of the words in the smallest data cache line */
    __asm__ volatile("mrs %0, ctr_el0" : "=r"(cache_type));
    size_t line_bytes = (size_t)4 << (cache_type >> 16 & 15);
    for (size_t at = 0; at < bytes; at += line_bytes)
        __asm__ volatile("dc civac, %0" : : "r"((const char *)buffer + at) : "memory");
    __asm__ volatile("dsb sy" : : : "memory");
#else
    (void)buffer;
    (void)bytes;
#endif
}
