/* What the ring sends: kolo_comm_stats counts exactly the slices of 2(N-1) hops, computed here from the definition: a
 * chunk is cut into one slice a rank, all but the last ones equal and of whole 128-byte lines; rank r passes on the
 * partial results of slices r, r-1, ..., r-N+2 in the accumulation type, then the final results of slices r+1, r, ...,
 * r-N+3 in the dtype. */
#include <stdlib.h>

#include "kolo_tools.h"
#include "harness.h"
#include "oracle.h"

enum { SLOT_BYTES = 4096, LINE_BYTES = 128 };

static size_t slice_count(size_t chunk_count, size_t element_bytes, int ranks, int slice) {
    const size_t line_count = LINE_BYTES / element_bytes;
    size_t lines = (chunk_count + line_count - 1) / line_count;
    size_t each = (lines + (size_t)ranks - 1) / (size_t)ranks * line_count, begin = each * (size_t)slice;
    return begin >= chunk_count ? 0 : chunk_count - begin < each ? chunk_count - begin : each;
}

static size_t accumulation_bytes(kolo_dtype dtype) {
    return dtype == KOLO_F16 || dtype == KOLO_BF16 ? 4 : kolo_dtype_bytes(dtype);
}

/* Bytes that rank r sends for one chunk. */
static uint64_t chunk_sent(size_t chunk_count, kolo_dtype dtype, int ranks, int r) {
    const size_t element_bytes = kolo_dtype_bytes(dtype);
    uint64_t sent = 0;
    for (int hop = 0; hop < ranks - 1; hop++)
        sent += slice_count(chunk_count, element_bytes, ranks, (r - hop + ranks) % ranks) * accumulation_bytes(dtype);
    for (int hop = 0; hop < ranks - 1; hop++)
        sent += slice_count(chunk_count, element_bytes, ranks, (r + 1 - hop + ranks) % ranks) * element_bytes;
    return sent;
}

static uint64_t message_sent(const struct rank *rank, size_t count, kolo_dtype dtype) {
    kolo_plan plan = {.plan_bytes = sizeof plan};
    uint64_t sent = 0;
    int status = kolo_plan_query(&plan, &rank->options, rank->ranks, KOLO_ALLREDUCE, count, dtype, KOLO_SUM);
    if (!expect_status(rank, status, 0, "kolo_plan_query"))
        return 0;
    expect(rank, plan.algorithm == KOLO_ALGORITHM_RING, "the plan is %s",
           kolo_name(KOLO_NAME_ALGORITHM, plan.algorithm));
    const size_t chunk_count = plan.chunk_bytes / kolo_dtype_bytes(dtype);
    for (size_t left = count; left > 0;) {
        const size_t part = left < chunk_count ? left : chunk_count;
        sent += chunk_sent(part, dtype, rank->ranks, rank->rank);
        left -= part;
    }
    return sent;
}

/* One all-reduce: what this rank sent must be what it should; what all sent together, and received, is added up. */
static bool run_call(const struct rank *rank, size_t count, kolo_dtype dtype) {
    kolo_stats before = {.stats_bytes = sizeof before}, after = before;
    void *data = calloc(count + 1, kolo_dtype_bytes(dtype));
    kolo_comm_stats(rank->comm, &before);
    int status = kolo_allreduce(rank->comm, data, data, count, dtype, KOLO_SUM);
    kolo_comm_stats(rank->comm, &after);
    free(data);
    if (!expect_status(rank, status, 0, "kolo_allreduce"))
        return false;
    const uint64_t sent = after.sent_bytes - before.sent_bytes, wanted = message_sent(rank, count, dtype);
    counter_add(sent - (after.received_bytes - before.received_bytes));
    expect(rank, after.calls_by_algorithm[KOLO_ALGORITHM_RING] == before.calls_by_algorithm[KOLO_ALGORITHM_RING] + 1,
           "not by ring");
    return expect(rank, sent == wanted, "%zu %s: %llu bytes sent instead of %llu", count,
                  kolo_name(KOLO_NAME_DTYPE, dtype), (unsigned long long)sent, (unsigned long long)wanted);
}

static void run_uneven(struct rank *rank) {
    uint64_t random = random_seed(1, (uint64_t)rank->ranks);
    static const size_t counts[] = {0, 1, 2, 31, 32, 33, 511, 512, 513, 1024, 3000};
    static const kolo_dtype dtypes[] = {KOLO_F32, KOLO_BF16, KOLO_I8, KOLO_F16, KOLO_F64, KOLO_U16};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!run_call(rank, counts[i], KOLO_F32))
            return;
    for (int i = 0; i < (arguments.quick ? 6 : rank->ranks > 8 ? 12 : 60); i++)
        if (!run_call(rank, random_below(&random, 20000), dtypes[i % 6]))
            return;
}

/* Slices of the same size on all ranks: each sends 2(N-1)/N of the message, exactly. */
static void run_even(struct rank *rank) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    const size_t count = (size_t)rank->ranks * LINE_BYTES / sizeof(float);
    const uint64_t share = 2 * (uint64_t)(rank->ranks - 1) * LINE_BYTES;
    if (!run_call(rank, count, KOLO_F32))
        return;
    kolo_comm_stats(rank->comm, &stats);
    expect(rank, stats.sent_bytes == share, "an even split sends %llu bytes instead of %llu",
           (unsigned long long)stats.sent_bytes, (unsigned long long)share);
}

int main(int argc, char **argv) {
    static const int counts[] = {2, 3, 4, 5, 7, 8, 16, 33};
    harness_begin(argc, argv, "Checks the ring's byte counters against the definition of its 2(N-1) hops.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!wants_ranks(counts[i]))
            continue;
        struct team team = {
            .ranks = counts[i], .algorithm = KOLO_ALGORITHM_RING, .slot_bytes = SLOT_BYTES, .run = run_uneven};
        harness_run(&team);
        expect(NULL, counter_add(0) == 0, "%d ranks: the ranks together did not receive what they sent", counts[i]);
        team.run = run_even;
        team.slot_bytes = 65536;
        harness_run(&team);
    }
    return harness_end();
}
