/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_buffers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GUARD_BYTES = 256, GUARD_VALUE = 0xa5, LARGE_BYTES = 2 << 20 };

int perf_buffer_allocate(perf_buffer *buffer, size_t bytes, kolo_comm *comm) {
    /* One whole alignment unit in front keeps `data` aligned; of it, only the guard bytes' page is ever touched. */
    size_t alignment = bytes >= LARGE_BYTES ? LARGE_BYTES : (size_t)sysconf(_SC_PAGESIZE);
    *buffer = (perf_buffer){0};
    if (bytes > PTRDIFF_MAX - alignment - GUARD_BYTES)
        return -1;
    size_t whole_bytes = alignment + bytes + GUARD_BYTES;
    void *allocation;
    if (comm != NULL ? kolo_alloc(comm, whole_bytes, &allocation) < 0
                     : posix_memalign(&allocation, alignment, whole_bytes) != 0)
        return -1;
    buffer->allocation = allocation;
    buffer->comm = comm;
    buffer->data = (char *)buffer->allocation + alignment;
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
