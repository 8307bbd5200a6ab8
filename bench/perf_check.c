/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_check.h"

#include <stdio.h>
#include <string.h>

/* What recv holds before a verified call: differs from the expected result nearly everywhere. */
enum { POISON = 0xa7 };

static void set_guards(const perf_run *run, size_t bytes) {
    perf_buffer_guard(&run->send, bytes);
    if (!run->in_place)
        perf_buffer_guard(&run->recv, bytes);
}

int perf_check_call(perf_run *run, size_t count, uint64_t *wrong) {
    size_t element_bytes = kolo_dtype_bytes(run->options->dtype);
    set_guards(run, count * element_bytes);
    if (!run->in_place)
        memset(run->recv.data, POISON, count * element_bytes);
    perf_table_fill(run->send.data, count, element_bytes, run->tables->input[PERF_SEED_VERIFIED]);
    int status = perf_run_call(run, count);
    if (status == KOLO_OK)
        *wrong += perf_check_result(run, count, PERF_SEED_VERIFIED);
    return status;
}

static uint64_t element_bits(const void *elements, size_t index, size_t element_bytes) {
    uint64_t bits = 0;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    memcpy((char *)&bits + sizeof(bits) - element_bytes, (const char *)elements + index * element_bytes, element_bytes);
#else
    memcpy(&bits, (const char *)elements + index * element_bytes, element_bytes);
#endif
    return bits;
}

/* `table` is what the first `count` elements of `data` should repeat. */
static size_t compare(const perf_run *run, const char *what, const void *data, size_t count, const void *table) {
    const perf_options *options = run->options;
    size_t element_bytes = kolo_dtype_bytes(options->dtype);
    size_t first = 0;
    size_t wrong = perf_table_wrong(data, count, element_bytes, table, &first);
    if (wrong > 0) {
        int digits = (int)element_bytes * 2;
        fprintf(
            stderr,
            "kolo-perf: rank %d: %s of %zu %s: %s element %zu is 0x%0*llx, should be 0x%0*llx (wrong elements: %zu)\n",
            run->rank, perf_collective_name(options->collective), count, kolo_dtype_name(options->dtype), what, first,
            digits, (unsigned long long)element_bits(data, first, element_bytes), digits,
            (unsigned long long)element_bits(table, first % PERF_TABLE_PERIOD, element_bytes), wrong);
    }
    return wrong;
}

static size_t compare_guards(const perf_run *run, const char *what, const perf_buffer *buffer, size_t bytes) {
    size_t changed = perf_buffer_guards_changed(buffer, bytes);
    if (changed > 0)
        fprintf(stderr, "kolo-perf: rank %d: %s of %zu bytes: bytes overwritten beside %s: %zu\n", run->rank,
                perf_collective_name(run->options->collective), bytes, what, changed);
    return changed;
}

uint64_t perf_check_result(const perf_run *run, size_t count, int seed) {
    size_t bytes = count * kolo_dtype_bytes(run->options->dtype);
    uint64_t wrong = compare(run, "result", perf_run_result(run)->data, count, run->tables->expected[seed]);
    wrong +=
        compare_guards(run, perf_run_result(run) == &run->send ? "the buffer" : "recv", perf_run_result(run), bytes);
    if (!run->in_place) {
        wrong += compare(run, "send, which must stay as it is,", run->send.data, count, run->tables->input[seed]);
        wrong += compare_guards(run, "send", &run->send, bytes);
    }
    return wrong;
}
