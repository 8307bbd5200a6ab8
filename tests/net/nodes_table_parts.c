/* What tests of tables on several nodes do as a rank: see nodes_table_parts.h. */
#include "nodes_table_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "table_parts.h"

void nodes_begin_with_values(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const size_t elements = options->rows * options->columns;
    float *values = malloc(elements * sizeof *values), *pulled = malloc(elements * sizeof *values);
    for (size_t i = 0; i < elements; i++)
        values[i] = (float)(i % 1001);
    const int root = rank->ranks - 1;
    expect_status(rank, kolo_table_initialize(table, rank->rank == root ? values : NULL, root), 0, "initialize");
    expect_status(rank, kolo_table_pull(table, 0, options->rows, pulled), 0, "pull");
    expect(rank, memcmp(values, pulled, elements * sizeof *values) == 0, "other values than the root's");
    kolo_table_destroy(table);
    free(values);
    free(pulled);
}

void nodes_set_rate(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const size_t elements = options->rows * options->columns;
    float *values = malloc(elements * sizeof *values);
    for (int clock = 0; clock < 2; clock++) {
        for (size_t i = 0; i < elements; i++)
            values[i] = 1;
        if (rank->rank == 0 && clock == 1)
            kolo_table_set_learning_rate(table, 0.25);
        kolo_table_push(table, 0, options->rows, values);
        expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message());
    }
    kolo_table_pull(table, 0, options->rows, values);
    const float wanted = -(float)rank->ranks * (0.5f + 0.25f);
    for (size_t i = 0; i < elements; i++)
        if (!expect(rank, values[i] == wanted, "element %zu is %g, not %g", i, (double)values[i], (double)wanted))
            break;
    kolo_table_destroy(table);
    free(values);
}

/* Waits until what is set is everywhere. */
static void pass_rounds(struct rank *rank, kolo_table *table, const kolo_table_options *options) {
    const bool is_unbounded = options->staleness == KOLO_STALENESS_UNBOUNDED;
    for (int i = 0; i < 3; i++)
        expect_status(rank, is_unbounded ? kolo_table_wait(table) : kolo_table_clock(table), 0, "a round");
    kolo_barrier(rank->comm);
}

void nodes_agree_on_rate(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const float one = 1;
    float before = 0, after, rates[HARNESS_RANKS_MAX];
    int owner = -1;
    uint64_t row = 0;
    while (kolo_table_owner(table, row, 0, &owner) == 0 && owner != rank->rank)
        row++;
    for (int step = 1; step <= 3; step++) {
        kolo_table_set_learning_rate(table, 1.0 / (1 + rank->rank));
        if (step > 1)
            kolo_barrier(rank->comm); /* rank 0 sets another one in the same clock, twice */
        for (int i = 0; step > 1 && rank->rank == 0 && i < 2; i++)
            kolo_table_set_learning_rate(table, 1.0 / (64 * step + i));
        pass_rounds(rank, table, options);
        expect_status(rank, kolo_table_push_rows(table, &row, 1, &one), 0, "kolo_table_push_rows");
        pass_rounds(rank, table, options);
        kolo_table_pull(table, row, 1, &after);
        const float rate = before - after;
        before = after;
        kolo_allgather(rank->comm, &rate, rates, 1, KOLO_F32);
        for (int i = 1; i < rank->ranks; i++)
            expect(rank, rates[i] - rates[0] < 1e-5f && rates[0] - rates[i] < 1e-5f,
                   "step %d: the rate is %g for rank %d and %g for rank 0", step, (double)rates[i], i,
                   (double)rates[0]);
    }
    kolo_table_destroy(table);
}

static kolo_table_stats stats_of(kolo_table *table) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    kolo_table_get_stats(table, &stats);
    return stats;
}

/* Every second row: how many of them are this node's, and how many others'. */
static void count_rows(struct rank *rank, kolo_table *table, uint64_t rows, uint64_t *own, uint64_t *foreign) {
    int node = info_of(rank->comm).node, node_of[HARNESS_RANKS_MAX];
    kolo_allgather(rank->comm, &node, node_of, 1, KOLO_I32);
    *own = *foreign = 0;
    for (uint64_t id = 0; id < rows; id += 2) {
        int owner = 0;
        kolo_table_owner(table, id, 0, &owner);
        *(node_of[owner] == node ? own : foreign) += 1;
    }
}

/* What a node sends in a clock: the formula of lib/table/nodes/rounds.h. */
static uint64_t clock_bytes(uint64_t nodes, uint64_t foreign, uint64_t own, uint64_t row_bytes) {
    enum { NOTICE_BYTES = 72 };
    return (nodes - 1) * NOTICE_BYTES + foreign * (8 + row_bytes) + (nodes - 1) * (8 + own * (8 + row_bytes));
}

void nodes_count_bytes(struct rank *rank, const kolo_table_options *options) {
    enum { WARM = 3, CLOCKS = 10, HEADERS_BYTES = 8192 };
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const uint64_t nodes = (uint64_t)kolo_comm_nodes(rank->comm), row_bytes = options->columns * sizeof(float);
    float *row = calloc(options->columns, sizeof *row);
    uint64_t foreign = 0, own = 0, sent = 0, net_sent = 0, rounds = 0;
    count_rows(rank, table, options->rows, &own, &foreign);
    for (int clock = 0; clock < WARM + CLOCKS; clock++) {
        for (uint64_t id = 0; id < options->rows; id += 2)
            for (int again = 0; again < 3; again++)
                kolo_table_push_rows(table, &id, 1, row);
        expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message());
        if (clock != WARM - 1 && clock != WARM + CLOCKS - 1)
            continue;
        /* With staleness 1 nobody pushes until the others have seen the rounds end. */
        kolo_barrier(rank->comm);
        kolo_table_stats stats = stats_of(table);
        for (int64_t left = 0; stats.rounds < (uint64_t)clock + 1 && left < patience_ms(10000); left++) {
            sleep_ms(1);
            stats = stats_of(table);
        }
        kolo_barrier(rank->comm);
        sent = stats.sent_bytes - sent;
        net_sent = stats.net_sent_bytes - net_sent;
        rounds = stats.rounds - rounds;
    }
    const uint64_t each = clock_bytes(nodes, foreign, own, row_bytes);
    expect(rank, rounds == CLOCKS, "%llu rounds", (unsigned long long)rounds);
    /* With staleness 1 a round may have carried what a worker pushed in the next clock already. */
    expect(rank, options->staleness == 0 ? sent == CLOCKS * each : sent <= CLOCKS * each,
           "%llu bytes sent, %llu by the formula", (unsigned long long)sent, (unsigned long long)(CLOCKS * each));
    expect(rank, net_sent >= sent && net_sent <= sent + sent / 50 + CLOCKS * HEADERS_BYTES,
           "%llu bytes with headers, of %llu", (unsigned long long)net_sent, (unsigned long long)sent);
    kolo_table_destroy(table);
    free(row);
}

void nodes_save_and_load(struct rank *rank, const kolo_table_options *options) {
    enum { CLOCKS = 5 };
    char path[96];
    const size_t elements = options->rows * options->columns;
    float *values = malloc(elements * sizeof *values);
    int pid = (int)getpid();
    expect(rank, kolo_broadcast(rank->comm, &pid, 1, KOLO_I32, 0) == 0, "kolo_broadcast: %s", kolo_error_message());
    snprintf(path, sizeof path, "/tmp/kolo-nodes-table-%d", pid);
    kolo_table *table = table_make(rank, options);
    for (int clock = 0; table && clock < 2 * CLOCKS; clock++) {
        for (size_t i = 0; i < elements; i++)
            values[i] = (float)(i % 7 + 1);
        expect(rank, kolo_table_push(table, 0, options->rows, values) == 0, "push: %s", kolo_error_message());
        expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message());
        if (clock == CLOCKS - 1)
            expect(rank, kolo_table_save(table, path) == 0, "kolo_table_save: %s", kolo_error_message());
    }
    expect(rank, !table || kolo_table_wait(table) == 0, "kolo_table_wait: %s", kolo_error_message());
    kolo_table_destroy(table);
    kolo_barrier(rank->comm);
    kolo_table_options other = *options;
    other.placement = KOLO_PLACEMENT_ROUND_ROBIN;
    other.shards = 7;
    table = table_make(rank, &other);
    expect(rank, table && kolo_table_load(table, path) == 0, "kolo_table_load: %s", kolo_error_message());
    expect(rank, table && kolo_table_pull(table, 0, options->rows, values) == 0, "pull: %s", kolo_error_message());
    for (size_t i = 0; i < elements; i++)
        if (!expect(rank, values[i] == (float)((i % 7 + 1) * CLOCKS * (size_t)rank->ranks), "element %zu is %g", i,
                    (double)values[i]))
            break;
    kolo_table_destroy(table);
    kolo_barrier(rank->comm);
    unlink(path);
    free(values);
}

void nodes_save_without_first(struct rank *rank, const kolo_table_options *options) {
    char path[96];
    float *values = calloc(options->rows * options->columns, sizeof *values);
    int pid = (int)getpid();
    kolo_broadcast(rank->comm, &pid, 1, KOLO_I32, 0);
    snprintf(path, sizeof path, "/tmp/kolo-nodes-left-%d", pid);
    kolo_table *table = table_make(rank, options);
    for (int clock = 0; table && clock < (info_of(rank->comm).node == 0 ? 2 : 4); clock++) {
        expect_status(rank, kolo_table_push(table, 0, options->rows, values), 0, "kolo_table_push");
        expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
    }
    if (table && info_of(rank->comm).node > 0) {
        expect_status(rank, kolo_table_save(table, path), 0, "kolo_table_save");
        expect_status(rank, kolo_table_wait(table), 0, "kolo_table_wait");
    }
    kolo_table_destroy(table);
    kolo_barrier(rank->comm);
    expect(rank, rank->rank || unlink(path) == 0, "a save without workers on the first node: no file");
    free(values);
}

void nodes_load_differently(struct rank *rank, const kolo_table_options *options) {
    char paths[3][96]; /* the last one is of no file */
    const size_t elements = options->rows * options->columns;
    float *values = malloc(elements * sizeof *values);
    int pid = (int)getpid();
    kolo_broadcast(rank->comm, &pid, 1, KOLO_I32, 0);
    kolo_table *table = table_make(rank, options);
    for (int i = 0; table && i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "/tmp/kolo-nodes-load-%d-%d", i, pid);
        for (size_t element = 0; element < elements; element++)
            values[element] = (float)i;
        expect_status(rank, kolo_table_initialize(table, values, 0), 0, "kolo_table_initialize");
        if (i < 2 && expect_status(rank, kolo_table_save(table, paths[i]), 0, "kolo_table_save"))
            expect_status(rank, kolo_table_wait(table), 0, "kolo_table_wait");
        kolo_barrier(rank->comm);
    }
    const bool is_last = info_of(rank->comm).node == kolo_comm_nodes(rank->comm) - 1;
    for (int way = 1; table && way < 3; way++) {
        expect_status(rank, kolo_table_load(table, paths[is_last ? way : 0]), KOLO_ERR_ARG, "another file");
        if (way == 1)
            expect_message(rank, "another file", "the file's checksum is ", " on rank 0", NULL);
        kolo_table_pull(table, 0, options->rows, values);
        expect(rank, values[0] == 2, "a load that failed: a row is %g", (double)values[0]);
    }
    kolo_barrier(rank->comm);
    kolo_table_destroy(table);
    unlink(paths[0]), unlink(paths[1]);
    free(values);
}

void nodes_push_clocks(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const uint64_t nodes = (uint64_t)kolo_comm_nodes(rank->comm);
    float *row = calloc(options->columns, sizeof *row);
    uint64_t own, foreign;
    count_rows(rank, table, options->rows, &own, &foreign);
    for (uint32_t clock = 0; clock < arguments.calls; clock++) {
        for (uint64_t id = 0; id < options->rows; id += 2)
            kolo_table_push_rows(table, &id, 1, row);
        expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message());
    }
    printf("bytes|%d|%d|%llu\n", rank->rank, info_of(rank->comm).node,
           (unsigned long long)clock_bytes(nodes, foreign, own, options->columns * sizeof *row));
    kolo_table_destroy(table);
    free(row);
}

void nodes_record_bits(struct rank *rank, const kolo_table_options *options) {
    enum { CLOCKS = 5 };
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const size_t elements = options->rows * options->columns;
    float *values = malloc(elements * sizeof *values);
    uint64_t random = arguments.seed + (uint64_t)rank->rank, hash = UINT64_C(0xcbf29ce484222325);
    for (int clock = 0; clock < CLOCKS; clock++) {
        for (size_t i = 0; i < elements; i++)
            values[i] = (float)(random_next(&random) >> 40) / (float)(1 << 20) - 8;
        kolo_table_push(table, 0, options->rows, values);
        expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message());
    }
    kolo_table_pull(table, 0, options->rows, values);
    for (size_t i = 0; i < elements * sizeof *values; i++)
        hash = (hash ^ ((unsigned char *)values)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    record_result(rank, 0, hash);
    kolo_table_destroy(table);
    free(values);
}

void nodes_leave_first(struct rank *rank, const kolo_table_options *options) {
    enum { EARLY = 2, PUSHES = 6 };
    const uint64_t clocks = PUSHES + (uint64_t)options->staleness + 1; /* then a pull has all pushes */
    kolo_table *const tables[] = {table_make(rank, options), table_make(rank, options)};
    float *values = malloc(options->rows * options->columns * sizeof *values);
    for (uint64_t clock = 0; tables[0] && tables[1] && clock < (rank->rank ? clocks : EARLY); clock++)
        for (int i = 0; i < 2; i++) {
            for (size_t k = 0; k < options->rows * options->columns; k++)
                values[k] = 1;
            if (clock < PUSHES)
                kolo_table_push(tables[i], 0, options->rows, values);
            expect_status(rank, kolo_table_clock(tables[i]), 0, "kolo_table_clock");
        }
    for (int i = 1; i >= 0; i--) {
        kolo_table_pull(tables[i], 0, options->rows, values);
        const float wanted = (float)(EARLY + (rank->ranks - 1) * PUSHES);
        for (size_t k = 0; rank->rank && k < options->rows * options->columns; k++)
            if (!expect(rank, values[k] == wanted, "element %zu is %g, not %g", k, (double)values[k], (double)wanted))
                break;
        kolo_table_destroy(tables[i]);
    }
    free(values);
}
