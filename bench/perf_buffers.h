/* The buffers that a rank makes its calls with: ordinary memory as a program gets it from posix_memalign, or that of
 * kolo_alloc, with room for guard bytes on both sides; and what drops them from the caches. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kolo.h"

typedef struct perf_buffer {
    void *data; /* `offset` bytes behind a page, or behind 2 MiB where it is as large */
    void *allocation;
    kolo_comm *comm; /* whose kolo_alloc it is from; NULL: posix_memalign's */
} perf_buffer;

/* Zeroed. Returns 0, or -1 where memory is short. `offset` is less than a page. With comm not NULL it is collective,
 * and the memory is of kolo_alloc. Free with perf_buffer_free, which may also be given a zeroed buffer. */
int perf_buffer_allocate(perf_buffer *buffer, size_t bytes, size_t offset, kolo_comm *comm);
void perf_buffer_free(perf_buffer *buffer);

/* Guard bytes: written around the first `bytes` bytes of a buffer; later, how many of them have changed. */
void perf_buffer_guard(const perf_buffer *buffer, size_t bytes);
size_t perf_buffer_guards_changed(const perf_buffer *buffer, size_t bytes);

/* Writes the first `bytes` bytes of a buffer back to memory and drops them from the caches of all cores. */
void perf_flush(const void *buffer, size_t bytes);

/* Whether this machine lets a program flush. */
bool perf_can_flush(void);
