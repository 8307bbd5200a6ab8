#include "row_store.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "complain.h"

enum { BOARD_COLUMNS = 2, STEPS = 0, STOPS = 1, PAUSE_NS = 200000 };
enum { BOARD_STALENESS = 1 }; /* nobody ends a clock of it but the worker that waits for all others to leave */
static const double momentum = 0.9;

static void open_table(row_store *store, train_rule rule, double rate) {
    static const kolo_table_rule rules[] = {[TRAIN_RULE_SGD] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_MOMENTUM] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_ADAGRAD] = KOLO_TABLE_ADAGRAD,
                                            [TRAIN_RULE_ADAM] = KOLO_TABLE_ADAM};
    const problem *p = store->problem;
    const server_settings *settings = &p->settings->server;
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT, board = KOLO_TABLE_OPTIONS_INIT;
    options.name = train_problem_name(settings->problem);
    options.rows = p->rows;
    options.columns = p->columns;
    options.row_columns = p->row_columns;
    options.rule = rules[rule];
    options.learning_rate = rate;
    options.momentum = rule == TRAIN_RULE_MOMENTUM ? momentum : 0;
    options.staleness = settings->server == TRAIN_BSP   ? 0
                        : settings->server == TRAIN_ASP ? KOLO_STALENESS_UNBOUNDED
                                                        : (int64_t)settings->staleness;
    options.backup_workers = settings->backup_workers;
    options.hogwild = settings->hogwild;
    options.servers = settings->servers;
    check(store->comm, kolo_table_create(store->comm, &options, &store->table), "cannot make the table");
    board.name = "board";
    board.rows = (uint64_t)kolo_comm_size(store->comm);
    board.columns = BOARD_COLUMNS;
    board.dtype = KOLO_F64;
    board.rule = KOLO_TABLE_ASSIGN;
    board.staleness = BOARD_STALENESS;
    store->board_rows = allocate(board.rows, BOARD_COLUMNS * sizeof *store->board_rows);
    check(store->comm, kolo_table_create(store->comm, &board, &store->board), "cannot make the board");
}

static void open_replicas(row_store *store, train_rule rule, double rate) {
    const size_t count = store->problem->elements;
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.kind = rule == TRAIN_RULE_ADAM ? KOLO_OPTIMIZER_ADAM : KOLO_OPTIMIZER_SGD;
    options.count = group.end = count;
    options.op = KOLO_SUM;
    group.learning_rate = rate;
    group.momentum = rule == TRAIN_RULE_MOMENTUM ? momentum : 0;
    store->values = allocate(count, sizeof *store->values);
    store->gradients = allocate(count, sizeof *store->gradients);
    check(store->comm, kolo_optimizer_create(store->comm, &options, &group, 1, &store->optimizer),
          "cannot make the optimizer");
}

void row_store_create(row_store *store, kolo_comm *comm, const problem *p, train_rule rule, double rate) {
    const server_settings *settings = &p->settings->server;
    *store = (row_store){.comm = comm, .problem = p, .workers = kolo_comm_size(comm) - settings->servers};
    if (settings->server == TRAIN_ALLREDUCE)
        open_replicas(store, rule, rate);
    else
        open_table(store, rule, rate);
    float *values = store->table == NULL ? store->values : allocate(p->elements, sizeof *values);
    if (kolo_comm_rank(comm) == 0)
        p->kind->initialize(p, values); /* and the others take these over */
    check(comm,
          store->table == NULL ? kolo_broadcast(comm, values, p->elements, KOLO_F32, 0)
                               : kolo_table_initialize(store->table, values, 0),
          "cannot share the first values");
    if (store->table != NULL)
        free(values);
}

void row_store_destroy(row_store *store) {
    kolo_table_destroy(store->board); /* first, as a server does: all leave the tables in one order */
    kolo_table_destroy(store->table);
    kolo_optimizer_destroy(store->optimizer);
    free(store->board_rows);
    free(store->values);
    free(store->gradients);
    *store = (row_store){0};
}

void row_store_pull_all(row_store *store, float *values) {
    const problem *p = store->problem;
    if (store->table == NULL)
        memcpy(values, store->values, p->elements * sizeof *values);
    else
        check(store->comm, kolo_table_pull(store->table, 0, p->rows, values), "cannot pull rows");
}

void row_store_pull(row_store *store, float *values) {
    const problem *p = store->problem;
    if (p->kind->choose == NULL)
        row_store_pull_all(store, values);
    else if (store->table != NULL && p->ids_count > 0)
        check(store->comm, kolo_table_pull_rows(store->table, p->ids, p->ids_count, values), "cannot pull rows");
    for (size_t i = 0; i < p->ids_count && store->table == NULL; i++)
        memcpy(values + i * p->columns, store->values + p->ids[i] * p->columns, p->columns * sizeof *values);
}

void row_store_push(row_store *store, const float *gradients) {
    const problem *p = store->problem;
    const bool all = p->kind->choose == NULL;
    store->steps++;
    if (store->table == NULL && all)
        memcpy(store->gradients, gradients, p->elements * sizeof *gradients);
    for (size_t i = 0; i < p->ids_count && store->table == NULL; i++)
        memcpy(store->gradients + p->ids[i] * p->columns, gradients + i * p->columns, p->columns * sizeof *gradients);
    if (store->table == NULL || (!all && p->ids_count == 0))
        return;
    check(store->comm,
          all ? kolo_table_push(store->table, 0, p->rows, gradients)
              : kolo_table_push_rows(store->table, p->ids, p->ids_count, gradients),
          "cannot push rows");
}

void row_store_clock(row_store *store) {
    const problem *p = store->problem;
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    store->clocks++;
    if (store->table == NULL) {
        check(store->comm, kolo_optimizer_step(store->optimizer, store->gradients, store->values, NULL),
              "cannot sum the gradients");
        for (size_t i = 0; i < p->ids_count; i++)
            memset(store->gradients + p->ids[i] * p->columns, 0, p->columns * sizeof *store->gradients);
        return;
    }
    check(store->comm, kolo_table_clock(store->table), "cannot end the clock");
    if (p->settings->server.backup_workers > 0 && kolo_table_get_stats(store->table, &stats) == 0)
        store->clocks = stats.clock; /* it may have been left out of some */
}

void row_store_note(row_store *store, bool stops) {
    const uint64_t own = (uint64_t)kolo_comm_rank(store->comm);
    if (store->table != NULL) {
        const double row[BOARD_COLUMNS] = {[STEPS] = (double)store->steps, [STOPS] = stops};
        check(store->comm, kolo_table_push_rows(store->board, &own, 1, row), "cannot write on the board");
    } else if (store->problem->settings->server.until > 0) {
        int32_t stop = stops;
        check(store->comm, kolo_allreduce(store->comm, &stop, &stop, 1, KOLO_I32, KOLO_MAX),
              "cannot agree on when to stop");
        store->stops = stop;
    }
}

uint64_t row_store_look(row_store *store) {
    uint64_t steps = 0;
    if (store->table == NULL)
        return (uint64_t)store->workers * store->steps;
    check(store->comm, kolo_table_pull(store->board, 0, (uint64_t)store->workers, store->board_rows),
          "cannot read the board");
    for (int worker = 0; worker < store->workers; worker++) {
        steps += (uint64_t)store->board_rows[worker * BOARD_COLUMNS + STEPS];
        store->stops |= store->board_rows[worker * BOARD_COLUMNS + STOPS] > 0;
    }
    return steps;
}

/* Ends a clock, however long that takes. */
static void end_clock(row_store *store, kolo_table *table) {
    int rc = kolo_table_clock(table);
    while (rc == KOLO_ERR_TIMEOUT)
        rc = kolo_table_wait(table);
    check(store->comm, rc, "cannot wait for the other workers");
}

void row_store_outlast(row_store *store) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats, .workers = 2};
    const train_server server = store->problem->settings->server.server;
    while (server == TRAIN_SSP && stats.workers > 1) { /* others may wait for this worker, until they leave */
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
        end_clock(store, store->table);
        kolo_table_get_stats(store->table, &stats);
    }
    for (int clock = 0; server == TRAIN_ASP && clock <= BOARD_STALENESS; clock++)
        end_clock(store, store->board);
}

void row_store_serve(row_store *store) {
    kolo_table_destroy(store->board); /* nobody is to wait for this rank */
    store->board = NULL;
    check(store->comm, kolo_table_serve(store->table), "cannot serve");
}
