#include "perf_stream.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum {
    LINE_BYTES = 64,
    AHEAD_BYTES = 8192 /* two pages: a page walk is under way before the stream arrives */
};

#define STREAM(name) base_##name
#define STREAM_TARGET
#define STREAM_VECTOR_BYTES 16
#include "perf_stream_template.h"

#if defined(__x86_64__)

#define STREAM(name)        avx2_##name
#define STREAM_TARGET       __attribute__((target("avx2")))
#define STREAM_VECTOR_BYTES 32
#include "perf_stream_template.h"

#define STREAM(name)        avx512_##name
#define STREAM_TARGET       __attribute__((target("avx512f")))
#define STREAM_VECTOR_BYTES 64
#include "perf_stream_template.h"

static const perf_stream_way *widest_ways(void) {
    return __builtin_cpu_supports("avx512f") ? avx512_ways : __builtin_cpu_supports("avx2") ? avx2_ways : base_ways;
}

/* Past the caches. The parts of a line are put together before it leaves, so that their width does not matter. */
static inline void bypass(void *to, const void *from, size_t bytes, size_t ahead_bytes) {
    for (size_t at = 0; at < bytes; at += LINE_BYTES) {
        if (ahead_bytes > 0)
            __builtin_prefetch((const char *)from + at + ahead_bytes, 0, 3);
        for (size_t i = at; i < at + LINE_BYTES; i += sizeof(__m128i))
            _mm_stream_si128((__m128i *)((char *)to + i), *(const __m128i *)((const char *)from + i));
    }
    _mm_sfence();
}

static void copy_bypass(void *to, const void *from, size_t bytes) {
    bypass(to, from, bytes, 0);
}

static void copy_bypass_prefetch(void *to, const void *from, size_t bytes) {
    bypass(to, from, bytes, AHEAD_BYTES);
}

static void fill_bypass(void *to, uint64_t value, size_t bytes) {
    for (size_t at = 0; at < bytes; at += sizeof(__m128i))
        _mm_stream_si128((__m128i *)((char *)to + at), _mm_set1_epi64x((long long)value));
    _mm_sfence();
}

#else

static const perf_stream_way *widest_ways(void) {
    return base_ways;
}

#endif

static void copy_libc(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

static void fill_libc(void *to, uint64_t value, size_t bytes) {
    memset(to, (int)(value & 0xff), bytes);
}

static const perf_stream_way other_ways[] = {
#if defined(__x86_64__)
    {.name = "bypass", .copy = copy_bypass, .fill = fill_bypass},
    {.name = "bypass+prefetch", .copy = copy_bypass_prefetch},
#endif
    {.name = "libc", .copy = copy_libc, .fill = fill_libc}};

int perf_stream_ways(perf_stream_way ways[PERF_STREAM_WAYS_MAX]) {
    memcpy(ways, widest_ways(), sizeof(base_ways));
    memcpy(ways + sizeof(base_ways) / sizeof(*ways), other_ways, sizeof(other_ways));
    return (sizeof(base_ways) + sizeof(other_ways)) / sizeof(*ways);
}
