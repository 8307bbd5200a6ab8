/* Copies put every byte in its place and touch no other, whatever the length and the alignments, before and after the
 * CPU has been looked at. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reduce/copy.h"
#include "reducer_support.h"

enum {
    BYTES_MAX = 3 << 20, /* beyond where a C library changes its way of copying */
    SWEPT_BYTES = 400,   /* every length up to this is tried */
    SAMPLES = 400        /* of lengths beyond that */
};

static test_arguments arguments;
static guarded source_area, result_area;

typedef void copy_fn(void *dst, const void *src, size_t bytes);

static void stream(void *dst, const void *src, size_t bytes) {
    kolo_copy_stream(dst, src, bytes, NULL);
}

/* Bringing in what is read next must not matter, whatever it is. */
static void stream_and_fetch(void *dst, const void *src, size_t bytes) {
    kolo_copy_stream(dst, src, bytes, dst);
}

/* What is read is written again, but nothing beside it. */
static void take(void *dst, const void *src, size_t bytes) {
    kolo_copy_take(dst, (void *)src, bytes, false);
}

static void take_and_stream(void *dst, const void *src, size_t bytes) {
    kolo_copy_take(dst, (void *)src, bytes, true);
}

/* What is recalled stays as it is, and so does what is beside it. */
static void recall(void *dst, const void *src, size_t bytes) {
    kolo_copy(dst, src, bytes);
    kolo_recall(dst, bytes);
}

static const struct {
    const char *name;
    copy_fn *copy;
} copies[] = {
    {"kolo_copy", kolo_copy},     {"kolo_copy_plain", kolo_copy_plain},
    {"kolo_copy_stream", stream}, {"kolo_copy_stream with next", stream_and_fetch},
    {"kolo_copy_take", take},     {"kolo_copy_take, streams", take_and_stream},
    {"kolo_recall", recall},
};

/* Bytes that differ from their neighbours, so that none can take another's place unseen. */
static void fill_bytes(unsigned char *bytes, size_t count, uint64_t *state) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16));
    for (size_t i = 0; i < count; i += 97)
        bytes[i] ^= (unsigned char)random_next(state);
}

static void run_case(size_t which, size_t bytes, uint64_t *state) {
    unsigned char *src = guarded_place(source_area, bytes, state);
    fill_bytes(src, bytes, state);
    unsigned char *dst = guarded_place(result_area, bytes, state);
    copies[which].copy(dst, src, bytes);
    const unsigned shift = (unsigned)((uintptr_t)dst % 64), from = (unsigned)((uintptr_t)src % 64);
    if (memcmp(dst, src, bytes) != 0)
        fail_msg("%s of %zu bytes, from address modulo 64 %u to %u: wrong bytes; --seed %" PRIu64, copies[which].name,
                 bytes, from, shift, arguments.seed);
    if (!guarded_intact(result_area, dst, bytes) || !guarded_intact(source_area, src, bytes))
        fail_msg(
            "%s of %zu bytes, from address modulo 64 %u to %u: bytes beside a buffer were written; --seed %" PRIu64,
            copies[which].name, bytes, from, shift, arguments.seed);
}

static void sweep(uint64_t seed) {
    uint64_t random = seed;
    for (size_t which = 0; which < sizeof copies / sizeof *copies; which++) {
        for (size_t bytes = 0; bytes <= SWEPT_BYTES; bytes++)
            run_case(which, bytes, &random);
        for (uint64_t i = 0; i < SAMPLES / arguments.thin; i++)
            run_case(which, (size_t)random_below(&random, UINT64_C(1) << (9 + i % 9)), &random);
        for (size_t bytes = BYTES_MAX - 2; bytes <= BYTES_MAX; bytes++)
            run_case(which, bytes, &random);
    }
}

static void test_before_selection(void **state) {
    (void)state;
    sweep(arguments.seed);
}

static void test_after_selection(void **state) {
    (void)state;
    assert_non_null(kolo_reducer_select(0));
    sweep(arguments.seed + 1);
    kolo_take_choose(false);
    sweep(arguments.seed + 2);
    kolo_take_choose(true); /* whatever is best here */
    sweep(arguments.seed + 3);
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    source_area = guarded_create(BYTES_MAX);
    result_area = guarded_create(BYTES_MAX);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_selection),
        cmocka_unit_test(test_after_selection),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    guarded_destroy(source_area);
    guarded_destroy(result_area);
    return failed;
}
