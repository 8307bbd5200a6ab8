/* What kolo takes of memory depends on the number of ranks, not on how large the messages are: at most 8 MiB a rank. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { BYTES_A_RANK_MAX = 8 << 20, SLACK_BYTES = 1 << 20 /* the allocator's, and thread stacks */ };

static uint64_t resident_bytes(void) {
    char line[256];
    uint64_t kib = 0, all_kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1 || sscanf(line, "RssShmem: %" SCNu64, &kib) == 1)
            all_kib += kib;
    if (status)
        fclose(status);
    return all_kib * 1024;
}

static uint64_t segment_bytes(const struct rank *rank) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(rank->comm, &stats);
    return stats.segment_bytes;
}

static void run_sizes(struct rank *rank) {
    const size_t largest = (size_t)(arguments.quick ? 8 : 64) << 20;
    const uint64_t segment = segment_bytes(rank);
    uint8_t *buffer = malloc(largest);
    memset(buffer, 1, largest);
    const uint64_t before = resident_bytes();
    for (size_t bytes = 8; bytes <= largest; bytes *= 8)
        if (!expect_status(rank, kolo_allreduce(rank->comm, buffer, buffer, bytes, KOLO_U8, KOLO_MAX), 0,
                           "kolo_allreduce"))
            break;
    const uint64_t after = resident_bytes();
    expect(rank, segment > 0 && segment <= (uint64_t)rank->ranks * BYTES_A_RANK_MAX,
           "the segment of %d ranks has %" PRIu64 " bytes", rank->ranks, segment);
    expect(rank, segment_bytes(rank) == segment, "the segment had %" PRIu64 " bytes and has %" PRIu64, segment,
           segment_bytes(rank));
    if (!arguments.threads) /* of all threads together it would not tell */
        expect(rank, after <= before + segment + SLACK_BYTES,
               "all-reduces up to %zu bytes took %" PRIu64 " bytes, with a segment of %" PRIu64, largest,
               after - before, segment);
    free(buffer);
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
    return harness_end();
}
