#include "row_store.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "complain.h"

enum { BOARD_COLUMNS = 2, STEPS = 0, STOPS = 1, PAUSE_NS = 200000 };
enum { BOARD_STALENESS = 1 }; /* nobody ends a clock of it but the worker that waits for all others to leave */
static const double momentum = 0.9;

static int open_board(row_store *store) {
    const int ranks = kolo_comm_size(store->comm);
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.name = "board";
    options.rows = (uint64_t)ranks;
    options.columns = BOARD_COLUMNS;
    options.dtype = KOLO_F64;
    options.rule = KOLO_TABLE_ASSIGN;
    options.staleness = BOARD_STALENESS;
    store->board_rows = calloc((size_t)ranks, BOARD_COLUMNS * sizeof *store->board_rows);
    if (store->board_rows == NULL)
        return complain(store->comm, "not enough memory for %d ranks", ranks);
    if (kolo_table_create(store->comm, &options, &store->board) < 0)
        return complain_kolo(store->comm, "cannot make the board");
    return 0;
}

static int open_table(row_store *store, train_rule rule, double rate) {
    static const kolo_table_rule rules[] = {[TRAIN_RULE_SGD] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_MOMENTUM] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_ADAGRAD] = KOLO_TABLE_ADAGRAD,
                                            [TRAIN_RULE_ADAM] = KOLO_TABLE_ADAM};
    const problem *p = store->problem;
    const server_settings *settings = &p->settings->server;
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.name = train_problem_name(settings->problem);
    options.rows = p->rows;
    options.columns = p->row_columns == NULL ? p->columns : 0;
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
    if (kolo_table_create(store->comm, &options, &store->table) < 0)
        return complain_kolo(store->comm, "cannot make the table");
    return open_board(store);
}

static int open_replicas(row_store *store, train_rule rule, double rate) {
    const problem *p = store->problem;
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.kind = rule == TRAIN_RULE_ADAM ? KOLO_OPTIMIZER_ADAM : KOLO_OPTIMIZER_SGD;
    options.count = group.end = p->elements;
    options.op = KOLO_SUM;
    group.learning_rate = rate;
    group.momentum = rule == TRAIN_RULE_MOMENTUM ? momentum : 0;
    store->values = calloc(p->elements, sizeof *store->values);
    store->gradients = calloc(p->elements, sizeof *store->gradients);
    store->firsts = calloc(p->rows + 1, sizeof *store->firsts);
    if (store->values == NULL || store->gradients == NULL || store->firsts == NULL)
        return complain(store->comm, "not enough memory for %zu parameters", p->elements);
    for (uint64_t row = 0; row < p->rows; row++)
        store->firsts[row + 1] = store->firsts[row] + (p->row_columns != NULL ? p->row_columns[row] : p->columns);
    if (kolo_optimizer_create(store->comm, &options, &group, 1, &store->optimizer) < 0)
        return complain_kolo(store->comm, "cannot make the optimizer");
    return 0;
}

/* Rank 0's first values become everybody's. */
static int initialize(row_store *store) {
    float *values = store->values != NULL ? store->values : calloc(store->problem->elements, sizeof *values);
    if (values == NULL)
        return complain(store->comm, "not enough memory for %zu parameters", store->problem->elements);
    if (kolo_comm_rank(store->comm) == 0)
        store->problem->kind->initialize(store->problem, values);
    int rc = store->table != NULL ? kolo_table_initialize(store->table, values, 0)
                                  : kolo_broadcast(store->comm, values, store->problem->elements, KOLO_F32, 0);
    if (store->values == NULL)
        free(values);
    return rc < 0 ? complain_kolo(store->comm, "cannot share the first values") : 0;
}

int row_store_create(row_store *store, kolo_comm *comm, const problem *p, train_rule rule, double rate) {
    const server_settings *settings = &p->settings->server;
    *store = (row_store){.comm = comm, .problem = p, .workers = kolo_comm_size(comm) - settings->servers};
    int rc = settings->server == TRAIN_ALLREDUCE ? open_replicas(store, rule, rate) : open_table(store, rule, rate);
    return rc == 0 ? initialize(store) : rc;
}

void row_store_destroy(row_store *store) {
    kolo_table_destroy(store->board); /* first, as a server does: all leave the tables in one order */
    kolo_table_destroy(store->table);
    kolo_optimizer_destroy(store->optimizer);
    free(store->board_rows);
    free(store->values);
    free(store->gradients);
    free(store->firsts);
    *store = (row_store){0};
}

int row_store_pull_all(row_store *store, float *values) {
    if (store->table == NULL)
        memcpy(values, store->values, store->problem->elements * sizeof *values);
    else if (kolo_table_pull(store->table, 0, store->problem->rows, values) < 0)
        return complain_kolo(store->comm, "cannot pull rows");
    return 0;
}

int row_store_pull(row_store *store, float *values) {
    const problem *p = store->problem;
    if (p->kind->choose == NULL)
        return row_store_pull_all(store, values);
    if (store->table != NULL) {
        if (p->ids_count > 0 && kolo_table_pull_rows(store->table, p->ids, p->ids_count, values) < 0)
            return complain_kolo(store->comm, "cannot pull rows");
        return 0;
    }
    for (size_t i = 0; i < p->ids_count; i++, values += p->columns)
        memcpy(values, store->values + store->firsts[p->ids[i]], p->columns * sizeof *values);
    return 0;
}

int row_store_push(row_store *store, const float *gradients) {
    const problem *p = store->problem;
    const bool all = p->kind->choose == NULL;
    store->steps++;
    if (store->table == NULL) {
        if (all)
            memcpy(store->gradients, gradients, p->elements * sizeof *gradients);
        for (size_t i = 0; i < p->ids_count && !all; i++, gradients += p->columns)
            memcpy(store->gradients + store->firsts[p->ids[i]], gradients, p->columns * sizeof *gradients);
        return 0;
    }
    int rc = 0;
    if (all)
        rc = kolo_table_push(store->table, 0, p->rows, gradients);
    else if (p->ids_count > 0)
        rc = kolo_table_push_rows(store->table, p->ids, p->ids_count, gradients);
    return rc < 0 ? complain_kolo(store->comm, "cannot push rows") : 0;
}

/* The gradients are zero again afterwards. */
static int step(row_store *store) {
    const problem *p = store->problem;
    if (kolo_optimizer_step(store->optimizer, store->gradients, store->values, NULL) < 0)
        return complain_kolo(store->comm, "cannot sum the gradients");
    for (size_t i = 0; i < p->ids_count; i++)
        memset(store->gradients + store->firsts[p->ids[i]], 0, p->columns * sizeof *store->gradients);
    return 0;
}

int row_store_clock(row_store *store) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    store->clocks++;
    if (store->table == NULL)
        return step(store);
    if (kolo_table_clock(store->table) < 0)
        return complain_kolo(store->comm, "cannot end the clock");
    if (store->problem->settings->server.backup_workers > 0 && kolo_table_get_stats(store->table, &stats) == 0)
        store->clocks = stats.clock; /* it may have been left out of some */
    return 0;
}

int row_store_note(row_store *store, bool stops) {
    if (store->table == NULL) {
        int32_t stop = stops;
        if (!store->problem->settings->server.has_until)
            return 0;
        if (kolo_allreduce(store->comm, &stop, &stop, 1, KOLO_I32, KOLO_MAX) < 0)
            return complain_kolo(store->comm, "cannot agree on when to stop");
        store->stops = stop;
        return 0;
    }
    double row[BOARD_COLUMNS] = {[STEPS] = (double)store->steps, [STOPS] = stops};
    const uint64_t own = (uint64_t)kolo_comm_rank(store->comm);
    if (kolo_table_push_rows(store->board, &own, 1, row) < 0)
        return complain_kolo(store->comm, "cannot write on the board");
    return 0;
}

int row_store_look(row_store *store, uint64_t *iterations) {
    *iterations = (uint64_t)store->workers * store->steps;
    if (store->table == NULL)
        return 0;
    if (kolo_table_pull(store->board, 0, (uint64_t)store->workers, store->board_rows) < 0)
        return complain_kolo(store->comm, "cannot read the board");
    *iterations = 0;
    for (int worker = 0; worker < store->workers; worker++) {
        *iterations += (uint64_t)store->board_rows[worker * BOARD_COLUMNS + STEPS];
        store->stops |= store->board_rows[worker * BOARD_COLUMNS + STOPS] > 0;
    }
    return 0;
}

/* Ends a clock, however long that takes. */
static int end_clock(kolo_table *table) {
    int rc = kolo_table_clock(table);
    while (rc == KOLO_ERR_TIMEOUT)
        rc = kolo_table_wait(table);
    return rc;
}

int row_store_outlast(row_store *store) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats, .workers = 2};
    const train_server server = store->problem->settings->server.server;
    int rc = 0;
    /* Others may wait for this worker, until they leave. */
    while (server == TRAIN_SSP && rc == 0 && stats.workers > 1) {
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
        rc = end_clock(store->table);
        kolo_table_get_stats(store->table, &stats);
    }
    for (int clock = 0; server == TRAIN_ASP && rc == 0 && clock <= BOARD_STALENESS; clock++)
        rc = end_clock(store->board);
    return rc < 0 ? complain_kolo(store->comm, "cannot wait for the other workers") : 0;
}

int row_store_serve(row_store *store) {
    kolo_table_destroy(store->board); /* nobody is to wait for this rank */
    store->board = NULL;
    return kolo_table_serve(store->table) < 0 ? complain_kolo(store->comm, "cannot serve") : 0;
}
