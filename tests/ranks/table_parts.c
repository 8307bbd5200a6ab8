/* What tests of tables do as a rank: see table_parts.h. */
#include "table_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCKS = 20, VARIABLES = 40, PERIOD = 11 };

static uint64_t columns_of(const kolo_table_options *options, uint64_t row) {
    return options->row_columns ? options->row_columns[row] : options->columns;
}

static uint64_t elements_of(const kolo_table_options *options, uint64_t rows) {
    uint64_t elements = 0;
    for (uint64_t row = 0; row < rows; row++)
        elements += columns_of(options, row);
    return elements;
}

/* A worker's update of an element in a clock: whole numbers, so that any order gives the same sum. Elements whose
 * numbers are the same modulo PERIOD have the same. */
static float update_of(int rank, uint64_t clock, uint64_t element) {
    return (float)((element * 7 + clock * 3 + (uint64_t)rank * 5) % PERIOD) - 5;
}

/* The sum of all workers' updates of clocks 0 .. clocks - 1. */
static float sum_of(int workers, uint64_t clocks, uint64_t element) {
    float sum = 0;
    for (int rank = 0; rank < workers; rank++)
        for (uint64_t clock = 0; clock < clocks; clock++)
            sum += update_of(rank, clock, element);
    return sum;
}

static bool wait_all(struct rank *rank, kolo_table *table) {
    return expect(rank, kolo_table_wait(table) == 0, "kolo_table_wait: %s", kolo_error_message()) &&
           expect(rank, kolo_barrier(rank->comm) == 0, "kolo_barrier: %s", kolo_error_message());
}

kolo_table *table_make(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = NULL;
    expect(rank, kolo_table_create(rank->comm, options, &table) == 0, "kolo_table_create: %s", kolo_error_message());
    return table;
}

/* Workers push the whole table, and parts of it by rows, some of them twice; in the end all is there. */
void table_push_all(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const uint64_t rows = options->rows, elements = elements_of(options, rows);
    const int workers = rank->ranks - options->servers;
    float *values = malloc(2 * elements * sizeof *values);
    uint64_t *ids = malloc(2 * rows * sizeof *ids);
    if (rank->rank >= workers) {
        expect(rank, kolo_table_serve(table) == 0, "kolo_table_serve: %s", kolo_error_message());
        goto leave;
    }
    for (uint64_t clock = 0; clock < CLOCKS; clock++) {
        if (clock % 3 == 0) {
            for (uint64_t i = 0; i < elements; i++)
                values[i] = update_of(rank->rank, clock, i);
            if (!expect(rank, kolo_table_push(table, 0, rows, values) == 0, "kolo_table_push: %s",
                        kolo_error_message()))
                goto leave;
        } else { /* all rows backwards, the first half of each update in one naming and the rest in another */
            uint64_t at = 0, first = 0;
            for (uint64_t i = 0; i < 2 * rows; i++) {
                const uint64_t row = rows - 1 - i % rows, end = i % rows ? first : elements;
                first = end - columns_of(options, row);
                ids[i] = row;
                for (uint64_t element = first; element < end; element++) {
                    const float update = update_of(rank->rank, clock, element);
                    values[at++] = i < rows ? update - 1 : 1;
                }
            }
            if (!expect(rank, kolo_table_push_rows(table, ids, 2 * rows, values) == 0, "kolo_table_push_rows: %s",
                        kolo_error_message()))
                goto leave;
        }
        if (!expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message()))
            goto leave;
    }
    expect(rank, kolo_table_wait(table) == 0, "kolo_table_wait: %s", kolo_error_message());
    /* Where there are servers, they make no collective while they serve. */
    for (kolo_table_stats stats = {.stats_bytes = sizeof stats};;) {
        kolo_table_get_stats(table, &stats);
        if (stats.slowest_clock == CLOCKS)
            break;
        sleep_ms(1);
    }
    kolo_table_wait(table);
    float sums[PERIOD];
    for (uint64_t i = 0; i < PERIOD; i++)
        sums[i] = sum_of(workers, CLOCKS, i);
    for (bool is_late = true; is_late;) { /* another worker's last pushes may be under way */
        expect(rank, kolo_table_pull(table, 0, rows, values) == 0, "kolo_table_pull: %s", kolo_error_message());
        is_late = false;
        for (uint64_t i = 0; i < elements && !is_late; i++)
            is_late = values[i] != sums[i % PERIOD];
        if (options->staleness != KOLO_STALENESS_UNBOUNDED && options->staleness == 0)
            expect(rank, !is_late, "an element differs from the sum of all updates");
        if (is_late && options->staleness == 0)
            break;
        if (is_late)
            sleep_ms(1);
    }
leave:
    free(values);
    free(ids);
    expect(rank, kolo_table_destroy(table) == 0, "kolo_table_destroy: %s", kolo_error_message());
}

/* What a worker pulls in clock c contains all pushes of clocks up to c - s - 1 and its own: each worker counts in a row
 * of its own, and nobody's count is behind. */
void table_keep_bound(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const size_t columns = options->columns;
    float *one = malloc(columns * sizeof *one), *row = malloc(columns * sizeof *row);
    for (size_t i = 0; i < columns; i++)
        one[i] = 1;
    const uint64_t clocks = arguments.quick ? 5 * CLOCKS : 20 * CLOCKS;
    for (uint64_t clock = 0; clock < clocks; clock++) {
        for (int other = 0; other < rank->ranks; other++) {
            const uint64_t id = (uint64_t)other;
            kolo_table_pull_rows(table, &id, 1, row);
            const int64_t least = other == rank->rank                   ? (int64_t)clock
                                  : options->staleness > (int64_t)clock ? 0
                                                                        : (int64_t)clock - options->staleness;
            for (size_t i = 0; i < columns; i++)
                if (!expect(rank, row[i] == row[0] && row[i] >= (float)least,
                            "clock %llu: element %zu of rank %d's row is %g, element 0 %g; at least %lld expected",
                            (unsigned long long)clock, i, other, (double)row[i], (double)row[0], (long long)least))
                    goto leave;
        }
        const uint64_t own = (uint64_t)rank->rank;
        if (!expect(rank, kolo_table_push_rows(table, &own, 1, one) == 0, "push: %s", kolo_error_message()) ||
            !expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message()))
            break;
    }
leave:
    free(one);
    free(row);
    kolo_table_destroy(table);
}

/* All push to the same rows, and pull them: every element of a row is the same. */
void table_tear(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const size_t columns = options->columns;
    float *one = malloc(columns * sizeof *one), *row = malloc(columns * sizeof *row);
    for (size_t i = 0; i < columns; i++)
        one[i] = 1;
    const int pushes = arguments.quick ? 2000 : 20000;
    for (int i = 0; i < pushes; i++) {
        const uint64_t id = (uint64_t)i % options->rows;
        if (!expect(rank, kolo_table_push_rows(table, &id, 1, one) == 0, "push: %s", kolo_error_message()))
            goto leave;
        for (int again = 0; again < 4; again++) {
            kolo_table_pull_rows(table, &id, 1, row);
            for (size_t k = 1; k < columns; k++)
                if (!expect(rank, row[k] == row[0], "element %zu is %g, element 0 %g", k, (double)row[k],
                            (double)row[0]))
                    goto leave;
        }
    }
    /* On several nodes pushes travel at the end of a clock. */
    for (int64_t clock = 0; options->staleness != KOLO_STALENESS_UNBOUNDED && clock <= options->staleness; clock++)
        expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message());
    if (!wait_all(rank, table))
        goto leave;
    for (uint64_t id = 0; id < options->rows; id++) {
        const uint64_t times = (uint64_t)pushes / options->rows + (id < (uint64_t)pushes % options->rows);
        kolo_table_pull_rows(table, &id, 1, row);
        if (!expect(rank, row[0] == (float)(times * (uint64_t)rank->ranks),
                    "row %llu is %g after %llu pushes of each rank", (unsigned long long)id, (double)row[0],
                    (unsigned long long)times))
            break;
    }
leave:
    free(one);
    free(row);
    kolo_table_destroy(table);
}

enum { READS = 200000 }; /* --quick: a tenth; --calls N: so many */

void table_read_under_load(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    float one[16], row[16], last[64] = {0};
    const size_t columns = options->columns < 16 ? options->columns : 16;
    const uint32_t reads = arguments.calls ? arguments.calls : arguments.quick ? READS / 10 : READS;
    uint64_t random = arguments.seed + (uint64_t)rank->rank;
    for (size_t i = 0; i < 16; i++)
        one[i] = 1;
    for (uint32_t read = 0; rank->rank == 0 && read < reads; read++) {
        const uint64_t id = read % options->rows;
        kolo_table_pull_rows(table, &id, 1, row);
        bool is_whole = row[0] >= last[id];
        for (size_t i = 1; i < columns; i++)
            is_whole &= row[i] == row[0];
        if (!expect(rank, is_whole, "read %u: row %llu is %g .. %g, and was %g before", read, (unsigned long long)id,
                    (double)row[0], (double)row[columns - 1], (double)last[id]))
            break;
        last[id] = row[0];
    }
    if (rank->rank == 0)
        counter_add(1); /* the others may stop */
    for (uint32_t push = 0; rank->rank > 0 && (push % 64 || counter_add(0) == 0); push++) {
        const uint64_t id = random_next(&random) % options->rows;
        /* Where a float can count no further, it stays: rows do not go back. */
        if (!expect(rank, kolo_table_push_rows(table, &id, 1, one) == 0, "push: %s", kolo_error_message()))
            break;
    }
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    kolo_table_get_stats(table, &stats);
    if (rank->rank == 0 && arguments.calls)
        printf("%u rows read, %llu of them again\n", reads, (unsigned long long)stats.pulled_again);
    kolo_table_destroy(table);
}

/* The same rule by an all-reduce and a local step. */
void table_same_bits(struct rank *rank, const kolo_table_options *options) {
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const uint64_t elements = elements_of(options, options->rows);
    float *updates = malloc(elements * sizeof *updates), *sums = malloc(elements * sizeof *sums);
    float *parameters = calloc(elements, sizeof *parameters), *values = malloc(elements * sizeof *values);
    uint64_t random = arguments.seed + (uint64_t)rank->rank;
    for (uint64_t clock = 0; clock < CLOCKS; clock++) {
        for (uint64_t i = 0; i < elements; i++)
            updates[i] = (float)(random_next(&random) >> 40) / (float)(1 << 20) - 8;
        const uint64_t half = options->rows / 2;
        kolo_table_push(table, half, options->rows - half, updates + elements_of(options, half));
        kolo_table_push(table, 0, half, updates);
        if (!expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message()) ||
            !expect(rank, kolo_allreduce(rank->comm, updates, sums, elements, KOLO_F32, options->op) == 0,
                    "kolo_allreduce: %s", kolo_error_message()))
            break;
        for (uint64_t i = 0; i < elements; i++)
            if (options->rule == KOLO_TABLE_ADD)
                parameters[i] = parameters[i] + sums[i];
            else
                parameters[i] = parameters[i] + sums[i] * -(float)options->learning_rate;
        kolo_table_pull(table, 0, options->rows, values);
        if (!expect(rank, memcmp(values, parameters, elements * sizeof *values) == 0,
                    "clock %llu: the table differs from an all-reduce with the same rule", (unsigned long long)clock))
            break;
    }
    free(updates);
    free(sums);
    free(parameters);
    free(values);
    kolo_table_destroy(table);
}

void table_run_part(struct rank *rank, const struct table_setup *setup) {
    kolo_table_options options = setup->options;
    size_t lengths[VARIABLES];
    if (setup->differ) {
        for (size_t row = 0; row < VARIABLES; row++)
            lengths[row] = 1 + row * row % 97 * 3;
        options.rows = VARIABLES;
        options.row_columns = lengths;
    }
    setup->part(rank, &options);
}

kolo_table_options table_options_of(uint64_t rows, size_t columns, int64_t staleness) {
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = rows;
    options.columns = columns;
    options.staleness = staleness;
    options.split_bytes = 256;
    options.queue_bytes = 1; /* the least that there is: queues are full all the time */
    return options;
}
