/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_stream.h"

#include <string.h>

enum {
    LINE_BYTES = 64,
    AHEAD_BYTES = 8192 /* two pages: a page walk is under way before the stream arrives */
};

#define STREAM(name) base_##name
#define STREAM_TARGET
#define STREAM_VECTOR_BYTES 16
#if defined(__x86_64__)
#include <immintrin.h>
#define STREAM_STORE_BYPASS(p, v) _mm_stream_si128((__m128i *)(p), (__m128i)(v))
#define STREAM_BYPASS_DONE()      _mm_sfence()
#endif
#include "perf_stream_template.h"

#if defined(__x86_64__)

#define STREAM(name)              avx2_##name
#define STREAM_TARGET             __attribute__((target("avx2")))
#define STREAM_VECTOR_BYTES       32
#define STREAM_STORE_BYPASS(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
#define STREAM_BYPASS_DONE()      _mm_sfence()
#include "perf_stream_template.h"

#define STREAM(name)              avx512_##name
#define STREAM_TARGET             __attribute__((target("avx512f")))
#define STREAM_VECTOR_BYTES       64
#define STREAM_STORE_BYPASS(p, v) _mm512_stream_si512((__m512i *)(p), (__m512i)(v))
#define STREAM_BYPASS_DONE()      _mm_sfence()
#include "perf_stream_template.h"

static int widest_ways(perf_stream_way *ways) {
    if (__builtin_cpu_supports("avx512f"))
        return avx512_ways(ways);
    if (__builtin_cpu_supports("avx2"))
        return avx2_ways(ways);
    return base_ways(ways);
}

#else

static int widest_ways(perf_stream_way *ways) {
    return base_ways(ways);
}

#endif

static void copy_libc(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

static void fill_libc(void *to, uint64_t value, size_t bytes) {
    memset(to, (int)(value & 0xff), bytes);
}

int perf_stream_ways(perf_stream_way ways[PERF_STREAM_WAYS_MAX]) {
    int count = widest_ways(ways);
    ways[count++] = (perf_stream_way){.name = "libc", .copy = copy_libc, .fill = fill_libc};
    return count;
}
