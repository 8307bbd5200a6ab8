#include "table_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "fault_leftovers.h"
#include "fault_team.h"
#include "kolo_table.h"
#include "table/rows/versions.h"

#define ASP KOLO_STALENESS_UNBOUNDED

/* A rank that pauses when it holds a role makes others queue their pushes. */
#define PAUSE(rank_)                                                                                                   \
    {                                                                                                                  \
        { .point = "piece.writing", .rank = rank_, .passage = 1 }                                                      \
    }

const struct table_case table_cases[] = {
    {.name = "bsp-3", .ranks = 3},
    {.name = "bsp-server", .ranks = 3, .servers = 1},
    {.name = "bsp-servers", .ranks = 4, .servers = 2},
    {.name = "bsp-idle-server", .ranks = 4, .servers = 2, .shards = 1, .pauses = {{"synchronous.ending", 0, 2}}},
    {.name = "bsp-save", .ranks = 3, .saves = true},
    {.name = "backup-3", .ranks = 3, .backup_workers = 1},
    {.name = "backup-save", .ranks = 3, .backup_workers = 1, .saves = true},
    {.name = "backup-server", .ranks = 4, .servers = 1, .backup_workers = 1},
    {.name = "backup-late", .ranks = 3, .backup_workers = 1, .pauses = {{"synchronous.ending", 2, 2}}},
    {.name = "backup-second", .ranks = 4, .backup_workers = 2, .first = {"synchronous.noted", 0, 2}},
    {.name = "backup-second-closing", .ranks = 4, .backup_workers = 2, .first = {"synchronous.closing", 1, 1}},
    {.name = "ssp-3", .ranks = 3, .staleness = 2},
    {.name = "ssp-paused", .ranks = 3, .staleness = 2, .pauses = PAUSE(0)},
    {.name = "ssp-save", .ranks = 3, .staleness = 2, .saves = true},
    {.name = "ssp-second-direct", .ranks = 3, .staleness = 2, .first = {"piece.written", 0, 3}, .pauses = PAUSE(0)},
    {.name = "ssp-second-noting", .ranks = 3, .staleness = 2, .first = {"shard.noting", 0, 2}, .pauses = PAUSE(0)},
    {.name = "ssp-second-noted", .ranks = 3, .staleness = 2, .first = {"shard.noted", 0, 1}, .pauses = PAUSE(0)},
    {.name = "ssp-second-current", .ranks = 3, .staleness = 2, .first = {"piece.current", 0, 5}, .pauses = PAUSE(0)},
    {.name = "asp-3", .ranks = 3, .staleness = ASP},
    {.name = "asp-paused", .ranks = 3, .staleness = ASP, .pauses = PAUSE(1)},
    {.name = "asp-full", .ranks = 3, .staleness = ASP, .is_narrow = true, .pauses = PAUSE(0)},
    {.name = "asp-save", .ranks = 3, .staleness = ASP, .saves = true, .pauses = PAUSE(0)},
    {.name = "asp-second-taken", .ranks = 3, .staleness = ASP, .first = {"shard.taken", 0, 1}, .pauses = PAUSE(0)},
    {.name = "asp-server", .ranks = 3, .servers = 1, .staleness = ASP},
    {.name = "asp-server-save", .ranks = 3, .servers = 1, .staleness = ASP, .saves = true},
    {.name = "asp-servers", .ranks = 4, .servers = 2, .staleness = ASP},
    {.name = "asp-servers-second", .ranks = 5, .servers = 2, .staleness = ASP, .first = {"shard.noted", 4, 3}},
    {.name = "asp-servers-both", .ranks = 4, .servers = 2, .staleness = ASP, .first = {"piece.current", 3, 2}},
    {.name = "ssp-server", .ranks = 3, .servers = 1, .staleness = 2},
    {.name = "bsp-create", .ranks = 3, .creates = true},
    {.name = "asp-create", .ranks = 3, .staleness = ASP, .creates = true},
    {.name = "nodes-bsp", .ranks = 3, .nodes = {1, 2}},
    {.name = "nodes-bsp-3", .ranks = 4, .nodes = {1, 2, 1}},
    {.name = "nodes-bsp-3-late",
     .ranks = 4,
     .nodes = {1, 2, 1},
     .pauses = {{"synchronous.ending", 0, 2}, {"rounds.failing", 1, 1}, {"proxy.hearing", 3, 1}}},
    {.name = "nodes-bsp-second", .ranks = 4, .first = {"synchronous.ending", 2, 2}, .nodes = {1, 2, 1}},
    {.name = "nodes-ssp", .ranks = 4, .staleness = 1, .nodes = {2, 2}},
    {.name = "nodes-ssp-3", .ranks = 4, .staleness = 2, .nodes = {1, 2, 1}},
    {.name = "nodes-ssp-paused", .ranks = 4, .staleness = 2, .nodes = {2, 2}, .pauses = PAUSE(1)},
    {.name = "nodes-ssp-second", .ranks = 4, .staleness = 2, .first = {"rounds.applied", 3, 3}, .nodes = {1, 2, 1}},
    {.name = "nodes-ssp-told", .ranks = 4, .staleness = 2, .first = {"rounds.told", 0, 3}, .nodes = {1, 2, 1}},
    {.name = "nodes-ssp-4", .ranks = 4, .staleness = 2, .first = {"rounds.collected", 3, 3}, .nodes = {1, 1, 1, 1}},
    {.name = "nodes-asp", .ranks = 4, .staleness = ASP, .nodes = {2, 2}},
};

const int table_cases_count = sizeof table_cases / sizeof *table_cases;

struct table_board *table_board;

/* A rank at work. */
struct worker {
    const struct table_mode *mode;
    const struct table_case *what;
    struct table_record *record;
    int rank, elements; /* of a piece */
    kolo_comm *comm;
    kolo_table *table;
    int64_t begin_ns;
};

static const struct table_mode *spoiled;
static kolo_table *spoiled_table;

void table_cases_begin(void) {
    table_board = mmap(NULL, sizeof *table_board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table_board == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
}

bool table_is_tolerant(const struct table_case *what) {
    return what->staleness > 0 || what->backup_workers > 0;
}

int table_workers(const struct table_case *what) {
    return what->ranks - what->servers;
}

uint64_t table_pushes_of(const struct table_case *what, int piece, uint64_t pushes) {
    const bool is_full = what->full_pushes == 0 || piece / TABLE_ROW_PIECES == TABLE_SPARSE_ROW;
    return is_full || pushes < what->full_pushes ? pushes : what->full_pushes;
}

int table_node(const struct table_case *what, int rank) {
    int node = 0;
    for (int end = what->nodes[0]; end > 0 && end <= rank; end += what->nodes[node])
        node++;
    return what->nodes[0] ? node : -1;
}

int table_leader(const struct table_case *what, int rank) {
    int leader = rank;
    while (leader > 0 && table_node(what, leader - 1) == table_node(what, rank))
        leader--;
    return what->nodes[0] ? leader : -1;
}

static void sleep_us(long us) {
    const struct timespec time = {.tv_nsec = us * 1000};
    nanosleep(&time, NULL);
}

/* Calls of the library, with their times and the first error. */

static void begin(struct worker *worker) {
    worker->begin_ns = now_ns();
}

static int end(struct worker *worker, const char *call, int status) {
    struct table_record *record = worker->record;
    const int64_t took_ns = now_ns() - worker->begin_ns;
    if (took_ns > record->longest_ns) {
        record->longest_ns = took_ns;
        snprintf(record->longest, sizeof record->longest, "%s", call);
    }
    if (status < 0 && record->status == 0) {
        record->status = status;
        snprintf(record->call, sizeof record->call, "%s", call);
        snprintf(record->message, sizeof record->message, "%s", kolo_error_message());
    }
    return status;
}

#define CALL(worker, name, call) (begin(worker), end(worker, name, call))

/* What a push adds to each of its pieces: one, and its number, in the rank's own two elements. */
static int push(struct worker *worker) {
    static int64_t updates[TABLE_PIECES * 2 * TABLE_RANKS_MAX];
    static const uint64_t backwards[TABLE_ROWS] = {5, 4, 3, 2, 1, 0}, sparse = TABLE_SPARSE_ROW;
    struct table_record *record = worker->record;
    const uint64_t number = record->begun + 1;
    for (int piece = 0; piece < TABLE_PIECES; piece++) {
        updates[piece * worker->elements + 2 * worker->rank] = 1;
        updates[piece * worker->elements + 2 * worker->rank + 1] = (int64_t)number;
    }
    record->begun = number;
    int rc;
    if (table_pushes_of(worker->what, 0, number) < number)
        rc = CALL(worker, "kolo_table_push_rows", kolo_table_push_rows(worker->table, &sparse, 1, updates));
    else if (number % 2)
        rc = CALL(worker, "kolo_table_push", kolo_table_push(worker->table, 0, TABLE_ROWS, updates));
    else
        rc = CALL(worker, "kolo_table_push_rows", kolo_table_push_rows(worker->table, backwards, TABLE_ROWS, updates));
    if (rc == 0)
        record->returned = number;
    return rc;
}

static void count(const struct worker *worker, const int64_t *values,
                  struct table_count counts[TABLE_PIECES][TABLE_RANKS_MAX]) {
    for (int piece = 0; piece < TABLE_PIECES; piece++)
        for (int rank = 0; rank < worker->what->ranks; rank++) {
            const int64_t *pair = values + piece * worker->elements + 2 * rank;
            counts[piece][rank] = (struct table_count){pair[0], pair[1]};
        }
}

/* Pulls all; what other pushes are in it is for the mode to say, but its own are. */
static int pull(struct worker *worker, uint64_t own) {
    static int64_t values[TABLE_PIECES * 2 * TABLE_RANKS_MAX];
    struct table_record *record = worker->record;
    const int rc = CALL(worker, "kolo_table_pull", kolo_table_pull(worker->table, 0, TABLE_ROWS, values));
    if (rc < 0)
        return rc;
    count(worker, values, record->counts);
    record->has_counts = true;
    for (int piece = 0; piece < TABLE_PIECES; piece++)
        if (record->counts[piece][worker->rank].pushes != (int64_t)table_pushes_of(worker->what, piece, own) &&
            !record->complaint[0])
            snprintf(record->complaint, sizeof record->complaint, "it pulls %lld of its own %llu pushes of piece %d",
                     (long long)record->counts[piece][worker->rank].pushes, (unsigned long long)own, piece);
    return 0;
}

/* After an error pulls fail; the pieces are there all the same. */
static void read_pieces(struct worker *worker) {
    static int64_t values[TABLE_PIECES * 2 * TABLE_RANKS_MAX];
    const size_t bytes = (size_t)worker->elements * sizeof *values;
    const size_t all = kolo_version_bytes(&worker->table->rule, (size_t)worker->elements);
    for (int piece = 0; piece < TABLE_PIECES; piece++)
        kolo_versions_read(worker->table, kolo_piece_memory(worker->table, (uint64_t)piece), all,
                           values + piece * worker->elements, bytes);
    count(worker, values, worker->record->counts);
    worker->record->has_counts = true;
}

static kolo_table_stats stats_of(const struct worker *worker) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    kolo_table_get_stats(worker->table, &stats);
    return stats;
}

/* Ends a clock; staleness 0: notes whether what it had pushed is in. */
static int end_clock(struct worker *worker, uint64_t *in) {
    struct table_record *record = worker->record;
    const uint64_t call = record->calls, left_out = stats_of(worker).left_out;
    record->pushed_in[call] = record->returned;
    record->outcomes[call] = OUTCOME_ENDING;
    record->calls = call + 1;
    const int rc = CALL(worker, "kolo_table_clock", kolo_table_clock(worker->table));
    if (rc < 0)
        return rc;
    const bool is_in = stats_of(worker).left_out == left_out;
    record->outcomes[call] = is_in ? OUTCOME_IN : OUTCOME_OUT;
    *in += is_in ? record->returned - (call ? record->pushed_in[call - 1] : 0) : 0;
    return 0;
}

/* A save fails, and the table goes on, if the rank dies that saves. Keeps the status of that, and returns 0. */
static int excuse_save(struct worker *worker, int status) {
    struct table_record *record = worker->record;
    if (status != KOLO_ERR_PEER_DEAD || !strstr(kolo_error_message(), "while it saved the table"))
        return status;
    record->save_status = status;
    snprintf(record->save_message, sizeof record->save_message, "%s", kolo_error_message());
    return 0;
}

static int save(struct worker *worker) {
    struct table_record *record = worker->record;
    record->saved_calls = record->calls;
    record->saved_begun = record->begun;
    record->is_saving = true;
    return CALL(worker, "kolo_table_save", excuse_save(worker, kolo_table_save(worker->table, worker->mode->path)));
}

/* The end of all clocks, and of a save, which may have failed. */
static int wait_all(struct worker *worker) {
    struct table_record *record = worker->record;
    const int rc = CALL(worker, "kolo_table_wait", excuse_save(worker, kolo_table_wait(worker->table)));
    record->has_saved = record->is_saving && record->save_status == 0 && rc == 0;
    return rc;
}

static bool is_dead(int rank) {
    if (rank < 0)
        return false;
    for (int i = 0; i < BOARD_FAULTS; i++)
        if (board->faults[i].action == ACTION_KILL && board->faults[i].rank == rank && board->struck[i])
            return true;
    return table_board->killed[rank];
}

/* Where all workers meet that are alive, outside the library. */
static void meet(struct worker *worker) {
    const int times = worker->record->met + 1;
    const int64_t begin_ns = now_ns();
    worker->record->met = times;
    for (int rank = 0; rank < table_workers(worker->what); rank++)
        while (table_board->ranks[rank].met < times && !is_dead(rank) && now_ns() - begin_ns < 5 * TABLE_WITHIN_NS)
            sleep_us(100);
}

/* What a node that is lost has pushed need not come to the others. */
static bool is_everything_there(const struct worker *worker) {
    for (int piece = 0; piece < TABLE_PIECES; piece++)
        for (int rank = 0; rank < table_workers(worker->what); rank++)
            if (worker->record->counts[piece][rank].pushes <
                    (int64_t)table_pushes_of(worker->what, piece, table_board->ranks[rank].returned) &&
                !is_dead(table_leader(worker->what, rank)))
                return false;
    return true;
}

/* What is in the table in the end, also of ranks that have died; from other nodes it comes when clocks have ended. */
static int pull_last(struct worker *worker, uint64_t in) {
    const int64_t begin_ns = now_ns();
    int rc = CALL(worker, "kolo_table_wait", kolo_table_wait(worker->table));
    while (rc == 0) {
        rc = pull(worker, in);
        if (rc < 0 || !worker->what->nodes[0] || worker->what->staleness == 0 || is_everything_there(worker) ||
            now_ns() - begin_ns > TABLE_WITHIN_NS)
            break;
        sleep_us(200);
    }
    return rc;
}

static bool is_synchronous(const struct worker *worker) {
    return worker->what->staleness == 0;
}

/* Pushes, and clocks up to `clocks`. Clocks in which it is left out may be several in one call. */
static int train(struct worker *worker, uint64_t clocks, uint64_t *in) {
    int rc = 0;
    while (rc == 0 && stats_of(worker).clock < clocks && worker->record->calls < TABLE_CALLS_MAX) {
        if (worker->what->saves && worker->record->calls == TABLE_SAVED_CALL && !worker->what->backup_workers)
            rc = save(worker);
        for (int i = 0; i < TABLE_PUSHES && rc == 0; i++)
            rc = push(worker);
        if (rc == 0)
            rc = pull(worker, is_synchronous(worker) ? *in : worker->record->returned);
        if (rc == 0)
            rc = end_clock(worker, in);
    }
    return rc;
}

static int work(struct worker *worker) {
    uint64_t in = 0, clocks = (uint64_t)(worker->what->calls ? worker->what->calls : TABLE_CALLS);
    if (worker->mode->is_random)
        clocks = TABLE_CALLS_MAX - 1;
    int rc = train(worker, clocks, &in);
    /* With backup workers ranks are not between the same two clocks before all have ended the last one. */
    if (rc == 0 && worker->what->saves && worker->what->backup_workers)
        rc = save(worker);
    if (rc == 0)
        rc = wait_all(worker);
    if (rc == 0) {
        meet(worker);
        rc = train(worker, clocks + 1, &in); /* somebody takes each role once more */
    }
    if (rc == 0)
        rc = CALL(worker, "kolo_table_wait", kolo_table_wait(worker->table));
    if (rc == 0) {
        meet(worker); /* those that live have had all of their own applied */
        rc = pull_last(worker, is_synchronous(worker) ? in : worker->record->returned);
    }
    return rc;
}

static void spoil_point(const char *point) {
    spoiled->spoil_point(spoiled_table, point);
}

static int make_table(struct worker *worker) {
    const struct table_case *what = worker->what;
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = TABLE_ROWS;
    options.columns = (size_t)(TABLE_ROW_PIECES * worker->elements);
    options.split_bytes = (size_t)worker->elements * sizeof(int64_t);
    options.dtype = KOLO_I64;
    options.staleness = what->staleness;
    options.backup_workers = what->backup_workers;
    options.servers = what->servers;
    options.shards = what->shards;
    options.queue_bytes = what->is_narrow ? 1 : 0;
    options.placement = what->staleness ? KOLO_PLACEMENT_ROUND_ROBIN : KOLO_PLACEMENT_RANGE;
    return kolo_table_create(worker->comm, &options, &worker->table);
}

static int create(struct worker *worker, int rank, int ranks) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = rank;
    options.size = ranks;
    options.job = worker->mode->job;
    options.timeout_ms = TABLE_TIMEOUT_MS;
    options.create_timeout_ms = 2 * TABLE_TIMEOUT_MS;
    if (worker->what->nodes[0]) {
        options.job = NULL;
        options.shm_fd = worker->mode->node_fds[table_node(worker->what, rank)];
        options.rendezvous = worker->mode->rendezvous;
    }
    const int rc = kolo_comm_create(&worker->comm, &options);
    board->ranks[rank].is_counting = rc == 0 && worker->what->creates;
    return rc < 0 ? rc : make_table(worker);
}

static struct worker enter(const void *mode, int rank) {
    struct worker worker = {.mode = mode, .rank = rank};
    worker.what = worker.mode->what;
    worker.record = &table_board->ranks[rank];
    worker.elements = worker.what->ranks > 4 ? 2 * worker.what->ranks : 8;
    return worker;
}

void table_run_rank(const void *mode, int rank) {
    struct worker worker = enter(mode, rank);
    struct rank_record *record = &board->ranks[rank];
    board_enter(rank);
    record->before = leftovers_count();
    int rc = CALL(&worker, "create", create(&worker, rank, worker.what->ranks));
    if (rc == 0) {
        if (worker.mode->spoil)
            worker.mode->spoil(worker.table);
        spoiled = worker.mode;
        spoiled_table = worker.table;
        board_hook = worker.mode->spoil_point ? spoil_point : NULL;
        record->is_counting = true;
        rc = rank < table_workers(worker.what) ? work(&worker)
                                               : CALL(&worker, "kolo_table_serve", kolo_table_serve(worker.table));
        if (rc < 0)
            read_pieces(&worker);
    }
    worker.record->met = INT32_MAX;
    if (worker.comm) {
        worker.record->failure.failure_bytes = sizeof worker.record->failure;
        kolo_comm_failure(worker.comm, &worker.record->failure);
    }
    CALL(&worker, "kolo_table_destroy", kolo_table_destroy(worker.table));
    record->is_counting = false;
    board_hook = NULL;
    kolo_comm_destroy(worker.comm);
    record->after = leftovers_count();
    record->finished = true;
}

void table_load_counts(const void *mode, int rank) {
    struct worker worker = enter(mode, rank);
    static int64_t values[TABLE_PIECES * 2 * TABLE_RANKS_MAX];
    struct table_case alone = *worker.what;
    struct table_mode quiet = *worker.mode;
    char job[80];
    snprintf(job, sizeof job, "%s-load", quiet.job);
    quiet.job = job;
    alone.servers = alone.backup_workers = alone.nodes[0] = 0;
    worker.what = &alone;
    worker.mode = &quiet;
    if (create(&worker, 0, 1) < 0 || kolo_table_load(worker.table, quiet.path) < 0 ||
        kolo_table_pull(worker.table, 0, TABLE_ROWS, values) < 0) {
        snprintf(worker.record->message, sizeof worker.record->message, "%s", kolo_error_message());
        exit(1);
    }
    count(&worker, values, worker.record->counts);
    kolo_table_destroy(worker.table);
    kolo_comm_destroy(worker.comm);
    exit(0);
}
