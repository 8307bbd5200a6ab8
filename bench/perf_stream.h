/* The ways of running through memory that are tried to find the fastest: for each instruction set, plain, with software
 * prefetch, and with stores that bypass the caches. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { PERF_STREAM_BLOCK_BYTES = 256, PERF_STREAM_WAYS_MAX = 8 };

/* All pointers are aligned to 64 bytes, all sizes multiples of PERF_STREAM_BLOCK_BYTES. */
typedef struct perf_stream_way {
    const char *name;
    void (*copy)(void *to, const void *from, size_t bytes);
    void (*update)(void *buffer, size_t bytes);                       /* every byte read and written back, changed */
    void (*join)(void *box, const void *in, void *out, size_t bytes); /* the sum of box and in, to both box and out */
    void (*fill)(void *to, uint64_t value, size_t bytes);
    uint64_t (*read)(const void *from, size_t bytes); /* the result depends on every byte */
} perf_stream_way;

/* The ways of this machine, best first guess first; a function that a way lacks is NULL. Returns how many. */
int perf_stream_ways(perf_stream_way ways[PERF_STREAM_WAYS_MAX]);
