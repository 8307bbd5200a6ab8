/* What kolo takes of memory depends on the number of ranks, not on how large the messages are: at most 8 MiB a rank.
 * And hundreds of communicators take as much memory, and as many descriptors, as kolo-info says. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kolo_tools.h"

enum { BYTES_A_RANK_MAX = 8 << 20, SLACK_BYTES = 1 << 20 /* the allocator's, and thread stacks */ };

static uint64_t resident_bytes(bool shared_alone) {
    char line[256];
    uint64_t kib = 0, all_kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if ((!shared_alone && sscanf(line, "RssAnon: %" SCNu64, &kib) == 1) ||
            sscanf(line, "RssShmem: %" SCNu64, &kib) == 1)
            all_kib += kib;
    if (status)
        fclose(status);
    return all_kib * 1024;
}

static uint64_t segment_bytes(const kolo_comm *comm) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(comm, &stats);
    return stats.segment_bytes;
}

static void run_sizes(struct rank *rank) {
    const size_t largest = (size_t)(arguments.quick ? 8 : 64) << 20;
    const uint64_t segment = segment_bytes(rank->comm);
    uint8_t *buffer = malloc(largest);
    memset(buffer, 1, largest);
    const uint64_t before = resident_bytes(false);
    for (size_t bytes = 8; bytes <= largest; bytes *= 8)
        if (!expect_status(rank, kolo_allreduce(rank->comm, buffer, buffer, bytes, KOLO_U8, KOLO_MAX), 0,
                           "kolo_allreduce"))
            break;
    const uint64_t after = resident_bytes(false);
    expect(rank, segment > 0 && segment <= (uint64_t)rank->ranks * BYTES_A_RANK_MAX,
           "the segment of %d ranks has %" PRIu64 " bytes", rank->ranks, segment);
    expect(rank, segment_bytes(rank->comm) == segment, "the segment had %" PRIu64 " bytes and has %" PRIu64, segment,
           segment_bytes(rank->comm));
    if (!arguments.threads) /* of all threads together it would not tell */
        expect(rank, after <= before + segment + SLACK_BYTES,
               "all-reduces up to %zu bytes took %" PRIu64 " bytes, with a segment of %" PRIu64, largest,
               after - before, segment);
    free(buffer);
}

/* Many communicators. */

enum { MANY = 500, MANY_RANKS = 8, TOKEN_BYTES = 4096, SLACK_PERCENT = 10 };

struct used {
    uint64_t allocated_bytes; /* on the heap */
    int descriptors;
};

static struct used used(void) {
    return (struct used){.allocated_bytes = heap_bytes(), .descriptors = open_descriptors()};
}

/* The rank in a communicator of that index: every other one has the ranks in reverse order. */
static int place_of(const struct rank *rank, int index) {
    return index % 2 ? rank->ranks - 1 - rank->rank : rank->rank;
}

static bool derive(const struct rank *rank, int index, kolo_comm **comm) {
    const int status = index % 2 ? kolo_comm_split(rank->comm, 1, -rank->rank, comm) : kolo_comm_dup(rank->comm, comm);
    return expect_status(rank, status, 0, "making a communicator");
}

static bool use(const struct rank *rank, int index, kolo_comm *comm) {
    int32_t data[2] = {index + place_of(rank, index), -index};
    const int ranks = rank->ranks, sum = ranks * index + ranks * (ranks - 1) / 2;
    return expect_status(rank, kolo_allreduce(comm, data, data, 2, KOLO_I32, KOLO_SUM), 0, "kolo_allreduce") &&
           expect(rank, kolo_comm_rank(comm) == place_of(rank, index) && data[0] == sum && data[1] == -ranks * index,
                  "communicator %d: rank %d, sums %d and %d", index, kolo_comm_rank(comm), data[0], data[1]);
}

static void run_many(struct rank *rank) {
    static kolo_comm *comms[MANY];
    kolo_plan plan = {.plan_bytes = sizeof plan};
    const int many = MANY / (arguments.quick ? 10 : 1);
    int made = 0;
    if (!expect_status(rank, kolo_plan_query(&plan, &rank->options, rank->ranks, KOLO_ALLREDUCE, 2, KOLO_I32, KOLO_SUM),
                       0, "kolo_plan_query"))
        return;
    const struct used before = used();
    const uint64_t shared_before = resident_bytes(true);
    while (made < many && derive(rank, made, &comms[made]))
        made++;
    for (int i = 0; i < made && use(rank, i, comms[i]); i++)
        expect(rank, segment_bytes(comms[i]) == plan.segment_bytes, "segment %d has %" PRIu64 " bytes, not %zu", i,
               segment_bytes(comms[i]), plan.segment_bytes);
    const struct used after = used();
    const uint64_t shared = resident_bytes(true) - shared_before, count = (uint64_t)made;
    const uint64_t own = after.allocated_bytes - before.allocated_bytes + count * TOKEN_BYTES;
    expect(rank, shared > 0 && shared <= count * plan.segment_bytes + SLACK_BYTES,
           "%d segments take %" PRIu64 " bytes, not %zu each", made, shared, plan.segment_bytes);
    const bool is_counted = after.allocated_bytes > before.allocated_bytes; /* a sanitizer's allocator tells nothing */
    expect(rank,
           !is_counted || (own <= count * plan.rank_bytes * (100 + SLACK_PERCENT) / 100 &&
                           own >= count * plan.rank_bytes * (100 - SLACK_PERCENT) / 100),
           "%d communicators take %" PRIu64 " bytes of this rank's, not %zu each", made, own, plan.rank_bytes);
    expect(rank, after.descriptors <= before.descriptors + plan.descriptors, "%d descriptors, and %d before",
           after.descriptors, before.descriptors);
    for (int i = 0; i < made; i++)
        kolo_comm_destroy(comms[i]);
    expect(rank, resident_bytes(true) <= shared_before + SLACK_BYTES, "segments are left");
}

int main(int argc, char **argv) {
    static const int counts[] = {2, 3, 8};
    harness_begin(argc, argv, "Checks that memory does not grow with the size of messages.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
            if (wants_ranks(counts[i]) && wants_algorithm((kolo_algorithm)algorithm) &&
                (algorithm == 0 || counts[i] == 3))
                harness_run(
                    &(struct team){.ranks = counts[i], .algorithm = (kolo_algorithm)algorithm, .run = run_sizes});
    if (wants_ranks(MANY_RANKS) && !arguments.threads) /* of all threads together it would not tell */
        harness_run(&(struct team){.ranks = MANY_RANKS, .slot_bytes = 4096, .run = run_many});
    return harness_end();
}
