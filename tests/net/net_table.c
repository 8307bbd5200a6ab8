/* A rank of a job with tables, for net_tables_test.py, which makes its nodes:
 *
 *   net_table parts [--quick] [--seed N]     what nodes_table_test does, but the deaths, in one communicator
 *   net_table bytes --calls N                N clocks; prints what nodes_push_clocks says
 *   net_table train STALENESS WANTED MARKED  CLOCKS clocks of some milliseconds; staleness -1 is without bound. Prints
 *                                            "training|RANK" when it has begun, and
 * "trained|RANK|STATUS|PUSHES|MESSAGE" in the end: of the call that failed, if one has; and how many pushes of ranks
 * that are not among the bits MARKED are in every element, once they are WANTED, or after a time. -1: not the same in
 * all
 *
 * Exit code 0, 1 where something was wrong, 2 wrong arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "nodes_table_parts.h"
#include "table_parts.h"

enum { CLOCKS = 150, CLOCK_MS = 10, BEGUN = 5, ROWS = 24, COLUMNS = 20, MARK = 1000, SETTLE_MS = 10000 };

static void run_part(struct rank *rank, void (*part)(struct rank *rank, const kolo_table_options *options),
                     kolo_table_options options) {
    table_run_part(rank, &(struct table_setup){.part = part, .options = options});
}

static void run_parts(struct rank *rank) {
    static const int64_t bounds[] = {0, 1, 5, KOLO_STALENESS_UNBOUNDED};
    for (int i = 0; i < 4; i++)
        for (int placement = 0; placement < KOLO_PLACEMENTS; placement++) {
            kolo_table_options options = table_options_of(placement % 2 ? 64 : 3, placement % 2 ? 64 : 200, bounds[i]);
            options.placement = (kolo_placement)placement;
            options.shards = placement == KOLO_PLACEMENT_HASH ? 5 : 0;
            options.servers = placement == KOLO_PLACEMENT_GREEDY ? 1 : 0;
            run_part(rank, table_push_all, options);
        }
    for (int i = 0; i < 3; i++)
        run_part(rank, table_keep_bound, table_options_of((uint64_t)rank->ranks, 40, bounds[i]));
    run_part(rank, table_tear, table_options_of(3, 60, KOLO_STALENESS_UNBOUNDED));
    run_part(rank, table_tear, table_options_of(3, 60, 2));
    run_part(rank, nodes_begin_with_values, table_options_of(1000, 1500, 1));
    run_part(rank, nodes_save_and_load, table_options_of(100, 50, 0));
    run_part(rank, nodes_save_and_load, table_options_of(100, 50, 2));
    run_part(rank, nodes_count_bytes, table_options_of(100, 50, 0));
    kolo_table_options options = table_options_of(50, 30, 0);
    run_part(rank, table_same_bits, options);
    options.rule = KOLO_TABLE_SGD;
    options.learning_rate = 0.5;
    options.placement = KOLO_PLACEMENT_HASH;
    run_part(rank, table_same_bits, options);
    run_part(rank, nodes_set_rate, options);
}

static void run_bytes(struct rank *rank) {
    run_part(rank, nodes_push_clocks, table_options_of(200, 64, 0));
}

/* Another node may be away for longer than the deadline, until it is known to have ended. */
static int end_clock(kolo_table *table) {
    int rc = kolo_table_clock(table);
    for (int again = 0; rc == KOLO_ERR_TIMEOUT && again < 10; again++)
        rc = kolo_table_wait(table);
    return rc;
}

/* Pushes of ranks without a mark, in every element; -1: they differ. */
static int pushes_of(kolo_table *table) {
    float values[ROWS * COLUMNS];
    if (kolo_table_pull(table, 0, ROWS, values) < 0)
        return -1;
    for (size_t i = 1; i < ROWS * COLUMNS; i++)
        if ((int)values[i] % MARK != (int)values[0] % MARK)
            return -1;
    return (int)values[0] % MARK;
}

struct training {
    int64_t staleness;
    int wanted; /* pushes of ranks without a mark, in the end */
    uint64_t marked;
};

static int push_clocks(struct rank *rank, kolo_table *table, float update) {
    float updates[ROWS * COLUMNS];
    int rc = 0;
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        updates[i] = update;
    for (int clock = 0; clock < CLOCKS && rc == 0; clock++) {
        if (clock == BEGUN)
            printf("training|%d\n", rank->rank);
        fflush(stdout);
        sleep_ms(CLOCK_MS);
        rc = kolo_table_push(table, 0, ROWS, updates);
        if (rc == 0)
            rc = end_clock(table);
    }
    return rc;
}

static void train(struct rank *rank, const struct training *training) {
    kolo_table_options options = table_options_of(ROWS, COLUMNS, training->staleness);
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    const int rc = push_clocks(rank, table, training->marked >> rank->rank & 1 ? MARK : 1);
    const char *message = rc < 0 ? kolo_error_message() : "";
    char kept[512];
    snprintf(kept, sizeof kept, "%s", message);
    for (int ms = 0; rc == 0 && ms < SETTLE_MS && pushes_of(table) != training->wanted; ms++)
        sleep_ms(1);
    printf("trained|%d|%s|%d|%s\n", rank->rank, kolo_strerror(rc), rc == 0 ? pushes_of(table) : -1, kept);
    fflush(stdout);
    kolo_table_destroy(table);
}

static int use(const char *program) {
    fprintf(stderr, "usage: %s parts ... | bytes --calls N | train STALENESS WANTED MARKED\n", program);
    return 2;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const bool trains = strcmp(what, "train") == 0 && argc == 5;
    if (!trains && strcmp(what, "parts") != 0 && strcmp(what, "bytes") != 0)
        return use(argv[0]);
    struct training training = {0};
    if (trains) {
        const long long staleness = strtoll(argv[2], NULL, 10);
        training.staleness = staleness < 0 ? KOLO_STALENESS_UNBOUNDED : staleness;
        training.wanted = atoi(argv[3]);
        training.marked = strtoull(argv[4], NULL, 0);
    }
    argv[1] = argv[0];
    harness_begin(trains ? 1 : argc - 1, argv + 1, "Tables on several nodes.");
    struct team team = {0};
    struct rank rank = {.team = &team};
    if (!expect(NULL, kolo_comm_create(&rank.comm, NULL) == 0, "kolo_comm_create: %s", kolo_error_message()))
        return 1;
    rank.rank = kolo_comm_rank(rank.comm);
    rank.ranks = team.ranks = kolo_comm_size(rank.comm);
    if (trains)
        train(&rank, &training);
    else if (strcmp(what, "bytes") == 0)
        run_bytes(&rank);
    else
        run_parts(&rank);
    kolo_comm_destroy(rank.comm);
    return harness_end();
}
