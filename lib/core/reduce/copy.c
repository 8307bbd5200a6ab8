/* Copies that do not fetch the destination first. A core that stores to a line first fetches its contents, though all
 * of the line is about to be overwritten. Where another core has the line, above all in the slots of a segment, that is
 * most of a copy's time. Two kinds of stores avoid it.
 *
 * String instructions tell the CPU the length beforehand, so it takes over whole lines without fetching their contents,
 * and the lines are then in its caches as after any store. The C library uses them too, but goes back to plain stores
 * from about the size of the second cache on: measured on a Zen 5, 1 MiB of lines that a peer had read took the C
 * library 136 us, and string instructions 24 us. Their start costs more than a few plain stores do.
 *
 * String instructions have a weakness on AMD's processors, and so have the C library's copies: where the destination's
 * place in its page is 1 to 15 bytes behind the source's, a Zen 5 moves 2 GB/s instead of 43; with 16 to 63 bytes it
 * moves 28 to 33. malloc's large blocks begin 16 bytes behind a page, slots at one. And where nobody else has the
 * destination, as mostly in the buffers of the program, there is nothing to gain: with plain stores in such buffers, a
 * broadcast of 256 KiB to 4 MiB between two ranks took 0.7 to 0.85 of the time, a gather into cold buffers 0.5 to 0.8.
 * On an Intel (Emerald Rapids) the C library's copies are faster than a loop of plain stores in such buffers: a
 * broadcast of 1 MiB took 0.87 of the time.
 *
 * Non-temporal stores gather a line and write it to memory, past the caches; 16 bytes at a time or 64 made no
 * difference. Memory can be read meanwhile: prefetching the data that is needed next, line by line between the stores,
 * lets an all-reduce of 16 and 64 MiB go from 2/3 to 4/5 of what memory allows (Zen 4). The same lines prefetched
 * before the stores, or while others are read, make the all-reduce slower. */
#include "reduce/copy.h"

#include <stdint.h>
#include <string.h>

#include "cpu/features.h"
#include "sync/racing.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

/* Sanitizers see the accesses of memcpy, but not those of inline assembler. */
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer) || KOLO_THREAD_CHECKER
#define IS_CHECKED 1
#else
#define IS_CHECKED 0
#endif

enum {
    LINE_BYTES = 64,
    STREAM_BYTES_MIN = 4096, /* shorter copies gain nothing; at least PREFETCH_BYTES */
    PREFETCH_BYTES = 4096,   /* how far ahead of the loads the source is prefetched, where nothing else is */
    STRING_BYTES_MIN = 4096, /* where string instructions have caught up with plain stores */
    PAGE_BYTES = 4096
};

/* kolo_copy uses string instructions from so many bytes on. */
static kolo_atomic_u64 string_bytes_min = UINT64_MAX;

#if defined(__x86_64__)

/* kolo_copy_plain uses a loop of its own from so many bytes on. */
static kolo_atomic_u64 loop_bytes_min = UINT64_MAX;

/* Returns whether the CPU has enhanced rep movsb and stosb: bit 9 of EBX of leaf 7. */
static int has_enhanced_strings(void) {
    uint32_t eax, ebx, ecx, edx;
    return !IS_CHECKED && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ebx >> 9 & 1;
}

void kolo_copy_select(void) {
    kolo_store_relaxed(&string_bytes_min, has_enhanced_strings() ? STRING_BYTES_MIN : UINT64_MAX);
    kolo_store_relaxed(&loop_bytes_min, kolo_cpu_is_intel() ? UINT64_MAX : STRING_BYTES_MIN);
}

/* Returns whether string instructions are slow with these two addresses. */
static inline int is_slow_string(const void *dst, const void *src) {
    const uintptr_t behind = ((uintptr_t)dst - (uintptr_t)src) % PAGE_BYTES;
    return behind > 0 && behind < LINE_BYTES;
}

void kolo_copy_plain(void *dst, const void *src, size_t bytes) {
    if (bytes < kolo_load_relaxed(&loop_bytes_min)) {
        memcpy(dst, src, bytes);
        return;
    }
    const size_t head = -(uintptr_t)dst % LINE_BYTES;
    memcpy(dst, src, head);
    size_t at = head;
    for (; bytes - at >= LINE_BYTES; at += LINE_BYTES) {
        __m128i *to = (__m128i *)((unsigned char *)dst + at);
        const __m128i *from = (const __m128i *)((const unsigned char *)src + at);
        const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
        const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
        _mm_store_si128(to, a);
        _mm_store_si128(to + 1, b);
        _mm_store_si128(to + 2, c);
        _mm_store_si128(to + 3, d);
    }
    memcpy((unsigned char *)dst + at, (const unsigned char *)src + at, bytes - at);
}

/* Copies by string instruction. The operands in memory say that any byte behind the pointers may be used. */
static void copy_string(void *dst, const void *src, size_t bytes) {
    typedef unsigned char all_bytes[UINT64_C(1) << 46];
    if (is_slow_string(dst, src)) {
        kolo_copy_plain(dst, src, bytes);
        return;
    }
    void *to = dst;
    const void *from = src;
    size_t left = bytes;
    __asm__("rep movsb" : "+D"(to), "+S"(from), "+c"(left), "+m"(*(all_bytes *)dst) : "m"(*(const all_bytes *)src));
}

/* Stores one line past the caches; `to` is aligned to lines. */
static inline void stream_line(unsigned char *to, const unsigned char *from) {
    const __m128i *parts = (const __m128i *)from;
    __m128i a = _mm_loadu_si128(parts), b = _mm_loadu_si128(parts + 1);
    __m128i c = _mm_loadu_si128(parts + 2), d = _mm_loadu_si128(parts + 3);
    _mm_stream_si128((__m128i *)to, a);
    _mm_stream_si128((__m128i *)to + 1, b);
    _mm_stream_si128((__m128i *)to + 2, c);
    _mm_stream_si128((__m128i *)to + 3, d);
}

void kolo_copy_stream(void *dst, const void *src, size_t bytes, const void *next) {
    if (bytes < STREAM_BYTES_MIN) {
        memcpy(dst, src, bytes);
        return;
    }
    unsigned char *to = dst;
    const unsigned char *from = src, *ahead = next ? next : from + PREFETCH_BYTES;
    const size_t ahead_bytes = next ? bytes : bytes - PREFETCH_BYTES;
    const size_t head = -(uintptr_t)dst % LINE_BYTES;
    memcpy(to, from, head);
    size_t at = head;
    for (; at + 2 * LINE_BYTES <= ahead_bytes; at += 2 * LINE_BYTES) {
        _mm_prefetch((const char *)ahead + at, _MM_HINT_T0);
        _mm_prefetch((const char *)ahead + at + LINE_BYTES, _MM_HINT_T0);
        stream_line(to + at, from + at);
        stream_line(to + at + LINE_BYTES, from + at + LINE_BYTES);
    }
    for (; bytes - at >= LINE_BYTES; at += LINE_BYTES)
        stream_line(to + at, from + at);
    memcpy(to + at, from + at, bytes - at);
}

#else

void kolo_copy_select(void) {}

void kolo_copy_plain(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
}

static void copy_string(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
}

void kolo_copy_stream(void *dst, const void *src, size_t bytes, const void *next) {
    (void)next;
    memcpy(dst, src, bytes);
}

#endif

void kolo_copy(void *dst, const void *src, size_t bytes) {
    if (bytes < kolo_load_relaxed(&string_bytes_min))
        memcpy(dst, src, bytes);
    else
        copy_string(dst, src, bytes);
}

/* Taking over, and recalling. */

enum {
    PIECE_BYTES = 16384, /* that are read before they are taken over: less than the first cache */
    RECALLED_BYTES_MAX = 65536
};

kolo_atomic_u64 kolo_recalls;

void kolo_take_choose(bool worth_it) {
    kolo_store_relaxed(&kolo_recalls, !worth_it);
}

void kolo_recall(const void *memory, size_t bytes) {
    for (size_t at = 0; at < bytes && at < RECALLED_BYTES_MAX; at += LINE_BYTES)
        kolo_recall_line((const unsigned char *)memory + at);
}

void kolo_take(void *memory, size_t bytes) {
    const size_t first = -(uintptr_t)memory % sizeof(kolo_atomic_u64);
    if (kolo_load_relaxed(&kolo_recalls))
        return;
    for (size_t at = first; at + sizeof(kolo_atomic_u64) <= bytes; at += LINE_BYTES) {
        kolo_atomic_u64 *word = (void *)((uint8_t *)memory + at);
        kolo_store_relaxed(word, kolo_load_relaxed(word));
    }
}

void kolo_copy_take(void *dst, void *src, size_t bytes, bool streams) {
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        const size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (streams)
            kolo_copy_stream((unsigned char *)dst + at, (unsigned char *)src + at, part, NULL);
        else
            kolo_copy_plain((unsigned char *)dst + at, (unsigned char *)src + at, part);
        kolo_take((unsigned char *)src + at, part);
    }
}
