/* Prints kolo-top's tables with the widest values that a job may have, which no job of a test has. */
#include <stdio.h>
#include <string.h>

#include "kolo_tools.h"
#include "top_report.h"

enum { RANK = 1023, RANKS = RANK + 1, PID = 4194303 };

static top_rank ranks[RANKS];
static top_table_rank table_ranks[RANKS];

/* The rank waits in each of the collectives in turn. */
static top_rank widest_rank(int rank) {
    const kolo_collective collective = (kolo_collective)(rank % KOLO_COLLECTIVES);
    const double shares[] = {0, 0.999, 1, 9.99, 99.99};
    const double rates[] = {0, 99.94, 99.96, 999.4, 999.6, 99.94e9, 999.4e12};
    const uint64_t number = 123456789;
    return (top_rank){.seen = {.pid = PID, .process = 'S', .calls = number, .waits_for = RANK},
                      .last_calls = {{.number = number,
                                      .collective = collective,
                                      .dtype = KOLO_BF16,
                                      .op = KOLO_SUM_EXACT,
                                      .root = RANK,
                                      .count = 999999}},
                      .last_calls_count = 1,
                      .calls_per_s = rates[rank % 7],
                      .bytes_per_s = rates[rank % 7],
                      .cpu_share = shares[rank % 5],
                      .waiting_share = 1,
                      .spinning_share = 1,
                      .waited_most_for = RANK};
}

int main(void) {
    top_comm comm = {.seen = {.ranks = RANKS, .segment_bytes = UINT64_C(1023) << 30, .failure = KOLO_ERR_PEER_DEAD},
                     .ranks = ranks,
                     .straggler = RANK};
    top_table table = {.seen = {.ranks = RANKS,
                                .shards = RANKS,
                                .rows = 999999,
                                .memory_bytes = UINT64_C(1023) << 30,
                                .staleness = 999999,
                                .slowest_rank = RANK,
                                .slowest_clock = 123456789,
                                .fastest_clock = 999999999,
                                .waiting = RANK},
                       .ranks = table_ranks};
    const top_sample sample = {.comms = &comm, .count = 1, .tables = &table, .tables_count = 1};
    memset(comm.seen.job, 'j', sizeof comm.seen.job - 1);
    memset(table.seen.name, 't', sizeof table.seen.name - 1);
    comm.seen.failure_rank = comm.seen.failure_reporter = RANK;
    for (int rank = 0; rank < RANKS; rank++) {
        ranks[rank] = widest_rank(rank);
        table_ranks[rank] =
            (top_table_rank){.seen = {.pid = PID, .process = 'S', .clock = 999999999, .waits_for = RANK},
                             .pulled_per_s = 999.4e12,
                             .pushed_per_s = 999.4e12,
                             .applied_per_s = 999.4e12,
                             .waiting_share = 1};
    }
    top_report_table(&sample);
    return 0;
}
