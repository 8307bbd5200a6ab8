/* The stamps of calls: no two of millions that differ in anything are alike, nor are those of programs of two calls,
 * and a stamp tells the one before. What calls differ in: divisions of the same elements, large counts, elements of the
 * program's own, and every field of a key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/arguments.h"
#include "comm/step/call_key.h"

enum { STAMPS_MAX = 3000000, RANKS = 4 };

static uint64_t *stamps;
static size_t nstamps;
static kolo_comm *comm;

static int compare(const void *a, const void *b) {
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

/* No two of those that were added are alike; then there are none. */
static void expect_all_differ(void) {
    assert_true(nstamps <= STAMPS_MAX);
    qsort(stamps, nstamps, sizeof *stamps, compare);
    for (size_t i = 1; i < nstamps; i++)
        assert_true(stamps[i] != stamps[i - 1]);
    nstamps = 0;
}

static void add(kolo_collective collective, const struct kolo_arguments *call) {
    stamps[nstamps++] =
        kolo_stamp_after(UINT64_C(0x123456789abcdef), kolo_arguments_key(&kolo_registry[collective], call));
}

/* Elements of so many bytes of an operation of the program's own; 0: a dtype. */
static struct kolo_arguments with_elements(size_t element_bytes) {
    static kolo_kernel kernels[KOLO_OP_ELEMENT_BYTES_MAX + 1];
    kernels[element_bytes].element_bytes = (uint32_t)element_bytes;
    return (struct kolo_arguments){.dtype = element_bytes ? KOLO_OPAQUE : KOLO_U32,
                                   .op = KOLO_SUM,
                                   .flags = element_bytes ? KOLO_CALL_OWN : 0,
                                   .kernel = &kernels[element_bytes]};
}

static void add_many(const kolo_tensor *tensors, size_t ntensors, size_t element_bytes) {
    struct kolo_arguments call = with_elements(element_bytes);
    call.tensors = tensors;
    call.ntensors = ntensors;
    assert_int_equal(kolo_arguments_count_tensors("", comm, &call), 0);
    add(KOLO_ALLREDUCE_MANY, &call);
}

/* 100,000 elements, and 2^36, in two tensors and in three, of dtypes and of operations of the program's own. */
static void test_divisions(void **state) {
    static uint8_t data;
    (void)state;
    for (int is_own = 0; is_own < 2; is_own++)
        for (uint64_t total = 100000; total <= UINT64_C(1) << 36; total += (UINT64_C(1) << 36) - 100000)
            for (size_t i = 0; i < 300000; i++) {
                const size_t first = i % 100000, second = i / 100000 * 7;
                const kolo_tensor tensors[] = {{&data, first}, {&data, second}, {&data, total - first - second}};
                if (first + second <= total)
                    add_many(tensors, 3, is_own ? 4 : 0);
                if (second == 0)
                    add_many((kolo_tensor[]){tensors[0], tensors[2]}, 2, is_own ? 4 : 0);
            }
    expect_all_differ();
}

/* Counts that are alike in their lower bits, and elements of every size. */
static void test_counts(void **state) {
    static const unsigned bits[] = {0, 28, 34, 40, 50};
    (void)state;
    for (size_t element_bytes = 0; element_bytes <= 2048; element_bytes += element_bytes < 40 ? 1 : 8)
        for (size_t low = 0; low < (element_bytes == 8 ? 20000 : 20); low++)
            for (size_t b = 0; b < 5; b++)
                for (size_t high = b > 0; high <= (b > 0 ? 3 : 0); high++) {
                    struct kolo_arguments call = with_elements(element_bytes);
                    call.count = low + (high << bits[b]);
                    add(KOLO_ALLREDUCE, &call);
                    call.flags |= KOLO_CALL_BY_LANES;
                    add(KOLO_ALLREDUCE, &call);
                    call.flags = element_bytes ? KOLO_CALL_ORDERED : 0;
                    call.op = element_bytes ? KOLO_SUM : KOLO_MAX;
                    add(KOLO_ALLREDUCE, &call);
                }
    expect_all_differ();
}

/* Blocks' counts, large and small, in any order. */
static void test_blocks(void **state) {
    static const size_t values[] = {
        0, 1, 2, 3, 100, 100000, 1 << 28, 1 << 30, 3 << 28, UINT64_C(1) << 34, UINT64_C(1) << 40, UINT64_C(3) << 40};
    enum { VALUES = sizeof values / sizeof *values };
    static size_t first[RANKS], second[RANKS];
    size_t *const offsets[] = {first, second};
    static uint8_t data[2];
    (void)state;
    for (uint32_t element_bytes = 0; element_bytes <= 24; element_bytes += 8)
        for (size_t i = 0; i < (size_t)VALUES * VALUES * VALUES * VALUES; i++) {
            const kolo_kernel kernel = {.element_bytes = element_bytes ? element_bytes : 4};
            const size_t counts[RANKS] = {values[i % VALUES], values[i / VALUES % VALUES],
                                          values[i / VALUES / VALUES % VALUES], values[i / VALUES / VALUES / VALUES]};
            struct kolo_arguments call = with_elements(element_bytes);
            call.send_blocks.counts = counts;
            call.send = call.recv = data;
            call.kernel = &kernel;
            assert_int_equal(kolo_arguments_resolve(&kolo_registry[KOLO_REDUCE_SCATTERV], "", comm, &call, offsets), 0);
            add(KOLO_REDUCE_SCATTERV, &call);
        }
    expect_all_differ();
}

/* Programs of two calls, of 1600 whose keys differ in every field: a difference in the second makes up for one in the
 * first with no stamp. */
static void test_programs(void **state) {
    enum { KEYS = 1600 };
    static struct kolo_call_key keys[KEYS];
    size_t nkeys = 0;
    (void)state;
    for (uint8_t collective = 1; collective <= KOLO_ALLOC; collective += 3)
        for (uint8_t dtype = 0; dtype < KOLO_DTYPES; dtype += 5)
            for (uint8_t bit = 0; bit < 3; bit++)
                for (uint32_t root = 0; root < 1024; root = root * 32 + 1)
                    for (uint64_t count = 0; count <= UINT64_C(1) << 50; count = count * 4000 + 1)
                        keys[nkeys++] = (struct kolo_call_key){.collective = collective,
                                                               .dtype = dtype,
                                                               .op = bit,
                                                               .flags = (uint8_t)(bit << 3),
                                                               .root = (uint16_t)root,
                                                               .element_bytes = (uint16_t)(bit * root),
                                                               .count = count,
                                                               .digest = count << (7 * bit)};
    assert_true(nkeys <= KEYS);
    for (size_t i = 0; i < nkeys; i++)
        for (size_t j = 0; j < nkeys; j++) {
            const uint64_t stamp = kolo_stamp_after(kolo_stamp_after(7, keys[i]), keys[j]);
            assert_true(kolo_stamp_before(kolo_stamp_before(stamp, keys[j]), keys[i]) == 7);
            stamps[nstamps++] = stamp;
        }
    expect_all_differ();
}

/* What a key says comes out of its packed form, and what it says to a reader. */
static void test_packed(void **state) {
    const struct kolo_call_key key = {.collective = KOLO_REDUCE + 1,
                                      .dtype = KOLO_OPAQUE,
                                      .flags = KOLO_CALL_ORDERED | KOLO_CALL_BY_LANES,
                                      .root = 1023,
                                      .element_bytes = KOLO_OP_ELEMENT_BYTES_MAX,
                                      .count = UINT64_C(1) << 50,
                                      .digest = UINT64_MAX};
    const struct kolo_packed_key packed = kolo_call_key_pack(key);
    char text[KOLO_CALL_TEXT_BYTES];
    (void)state;
    assert_true(kolo_call_keys_equal(kolo_call_key_unpack(&packed), key));
    kolo_call_key_describe(key, text);
    assert_string_equal(text, "reduce of 1125899906842624 elements of 2048 bytes, tensors with digest "
                              "ffffffffffffffff, own operation, not commutative, root 1");
    for (unsigned wrong = 0; wrong < 256; wrong++) {
        kolo_call_key_describe((struct kolo_call_key){.collective = (uint8_t)wrong, .dtype = 200, .op = 200}, text);
        assert_string_equal(text, "an unknown call");
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divisions), cmocka_unit_test(test_counts), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_programs),  cmocka_unit_test(test_packed),
    };
    stamps = malloc(STAMPS_MAX * sizeof *stamps);
    comm = calloc(1, sizeof *comm);
    if (!stamps || !comm)
        return 1;
    comm->size = comm->global_size = RANKS;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(stamps);
    free(comm);
    return failed;
}
