/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_check.h"

#include <stdio.h>
#include <string.h>

/* What recv holds before a verified call: differs from the expected result nearly everywhere. */
enum { POISON = 0xa7 };

void perf_check_begin(perf_sampler *sampler, size_t count) {
    size_t element_bytes = kolo_dtype_bytes(sampler->options->dtype), bytes = count * element_bytes;
    perf_buffer_guard(&sampler->send, bytes);
    if (!sampler->in_place) {
        perf_buffer_guard(&sampler->recv, bytes);
        memset(sampler->recv.data, POISON, bytes);
    }
    perf_table_fill(sampler->send.data, count, element_bytes, sampler->tables->input[PERF_SEED_VERIFIED]);
}

static uint64_t element_bits(const void *elements, size_t index, size_t element_bytes) {
    uint64_t bits = 0; /* all supported machines are little-endian */
    memcpy(&bits, (const char *)elements + index * element_bytes, element_bytes);
    return bits;
}

/* `table` is what the first `count` elements of `data` should repeat. */
static size_t compare(const perf_sampler *sampler, const char *what, const void *data, size_t count,
                      const void *table) {
    const perf_options *options = sampler->options;
    size_t element_bytes = kolo_dtype_bytes(options->dtype);
    size_t first = 0;
    size_t wrong = perf_table_wrong(data, count, element_bytes, table, &first);
    if (wrong > 0) {
        int digits = (int)element_bytes * 2;
        fprintf(stderr,
                "%s: rank %d: %s of %zu %s: %s element %zu is 0x%0*llx, should be 0x%0*llx (wrong elements: %zu)\n",
                sampler->program, kolo_comm_rank(sampler->comm), sampler->collective, count,
                kolo_dtype_name(options->dtype), what, first, digits,
                (unsigned long long)element_bits(data, first, element_bytes), digits,
                (unsigned long long)element_bits(table, first % PERF_TABLE_PERIOD, element_bytes), wrong);
    }
    return wrong;
}

static size_t compare_guards(const perf_sampler *sampler, const char *what, const perf_buffer *buffer, size_t bytes) {
    size_t changed = perf_buffer_guards_changed(buffer, bytes);
    if (changed > 0)
        fprintf(stderr, "%s: rank %d: %s of %zu bytes: bytes overwritten beside %s: %zu\n", sampler->program,
                kolo_comm_rank(sampler->comm), sampler->collective, bytes, what, changed);
    return changed;
}

uint64_t perf_check_result(const perf_sampler *sampler, size_t count, int seed) {
    const perf_tables *tables = sampler->tables;
    const perf_buffer *result = perf_sampler_result(sampler);
    size_t bytes = count * kolo_dtype_bytes(sampler->options->dtype);
    uint64_t wrong = compare(sampler, "result", result->data, count, tables->expected[seed]);
    wrong += compare_guards(sampler, sampler->in_place ? "the buffer" : "recv", result, bytes);
    if (!sampler->in_place) {
        wrong += compare(sampler, "send, which must stay as it is,", sampler->send.data, count, tables->input[seed]);
        wrong += compare_guards(sampler, "send", &sampler->send, bytes);
    }
    return wrong;
}
