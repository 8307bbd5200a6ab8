/* Each push has a bit of its own, which it adds to all rows that it names, so that a row tells which pushes it
 * contains. Only every second bit is used: the others are set if a push is applied twice. With staleness 0 rows are
 * floats instead, and must have exactly the bits that folds by the reducer's kernels give. Both elements of a row get
 * the same, so that a row is torn if they differ. */
#include "sched_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce/instances.h"
#include "sched_engine.h"
#include "sched_memory.h"
#include "splitmix64.h"
#include "table/table.h"

enum {
    RANKS_MAX = 3,
    CLOCKS_MAX = 5,
    PUSHES_MAX = 2, /* in a clock */
    ROWS_MAX = 6,
    SHARDS_MAX = 3,
    COLUMNS = 2,
    THINKS_MAX = 60, /* steps between two calls */
    MEMORY_BYTES = 128 << 10,
    PAGE_BYTES = 4096,
    TEXT_BYTES = 300
};

static_assert(2 * RANKS_MAX * CLOCKS_MAX * PUSHES_MAX < 63, "a bit for each push, and one between two");

typedef struct push {
    uint32_t rows; /* a bit for each; 0: there is no push */
    bool is_range; /* rows are consecutive */
    uint32_t thinks;
    bool pulls; /* afterwards */
    float values[ROWS_MAX];
} push;

typedef struct worker {
    uint32_t clocks; /* that it ends; it pushes once more before it leaves */
    bool waits;      /* before that */
    push pushes[CLOCKS_MAX + 1][PUSHES_MAX];
    uint32_t clock;                              /* in the run: which it is in */
    uint64_t returned[CLOCKS_MAX + 1][ROWS_MAX]; /* bits of pushes that have returned */
} worker;

static struct {
    kolo_table_options options;
    bool is_synchronous, may_die;
    uint32_t ranks, workers, rows;
    uint32_t made;    /* ranks that have the table */
    bool is_given_up; /* since a rank died before all had it */
    worker worker[RANKS_MAX];
    float sums[CLOCKS_MAX + 1][ROWS_MAX]; /* staleness 0: rows in each clock */
    uint8_t *memory;
    size_t used[RANKS_MAX];  /* of that */
    struct kolo_table table; /* for where all is: what it points to of a rank's own is freed. comm NULL: nobody has made
                                it yet */
    bool is_calling[RANKS_MAX];
    uint64_t begun[ROWS_MAX];   /* bits of pushes that have begun */
    uint64_t settled[ROWS_MAX]; /* and of those that had returned before a clock ended that has waited for them */
    char problem[TEXT_BYTES];
} run;

static uint64_t bit_of(uint32_t worker, uint32_t clock, uint32_t push) {
    return UINT64_C(1) << 2 * ((clock * RANKS_MAX + worker) * PUSHES_MAX + push);
}

/* Drawing. */

static uint32_t below(uint64_t *random, uint64_t limit) {
    return (uint32_t)random_below(random, limit);
}

static void draw_push(push *push, uint64_t *random) {
    const uint32_t all = (1u << run.rows) - 1;
    push->thinks = below(random, 3) ? 0 : below(random, THINKS_MAX);
    push->pulls = below(random, 3) == 0;
    push->is_range = below(random, 2);
    if (below(random, 5) == 0)
        return;
    push->rows = below(random, 2) ? all : 1 + below(random, all);
    if (push->is_range) { /* from its lowest row to its highest */
        const uint32_t first = (uint32_t)__builtin_ctz(push->rows), last = 31 - (uint32_t)__builtin_clz(push->rows);
        push->rows = ((2u << last) - 1) & ~((1u << first) - 1);
    }
    for (uint32_t row = 0; row < run.rows; row++)
        push->values[row] = (float)(1 + below(random, 1000)) / 7;
}

static void draw_worker(worker *worker, uint32_t clocks, uint64_t *random) {
    worker->clocks = below(random, 4) ? clocks : below(random, clocks + 1); /* or it leaves early */
    worker->waits = below(random, 2);
    for (uint32_t clock = 0; clock <= worker->clocks && clock < CLOCKS_MAX; clock++)
        for (uint32_t i = 0; i < PUSHES_MAX; i++)
            draw_push(&worker->pushes[clock][i], random);
}

/* Of one row in one clock: what its worker's pushes add up to; false: there are none. */
static bool add_pushes(const worker *worker, uint32_t clock, uint32_t row, float *sum) {
    bool has_pushed = false;
    for (uint32_t i = 0; i < PUSHES_MAX; i++) {
        const push *push = &worker->pushes[clock][i];
        if (push->rows >> row & 1) {
            *sum = has_pushed ? *sum + push->values[row] : push->values[row];
            has_pushed = true;
        }
    }
    return has_pushed;
}

/* Staleness 0: what rows are in each clock. */
static void expect_sums(void) {
    const kolo_kernel *kernel = &kolo_reducer_select(0)->kernels[KOLO_F32][KOLO_SUM];
    for (uint32_t clock = 0; clock < CLOCKS_MAX; clock++)
        for (uint32_t row = 0; row < run.rows; row++) {
            float updates[RANKS_MAX] = {0}, sum = 0;
            const void *sources[RANKS_MAX];
            uint32_t ended = 0;
            bool has_pushed = false;
            for (uint32_t i = 0; i < run.workers; i++)
                if (run.worker[i].clocks > clock) {
                    has_pushed |= add_pushes(&run.worker[i], clock, row, &updates[ended]);
                    sources[ended] = &updates[ended];
                    ended++;
                }
            if (has_pushed)
                kernel->fold(&sum, sources, ended, 1, ended);
            run.sums[clock + 1][row] = run.sums[clock][row] + sum;
        }
}

static size_t pages(size_t bytes) {
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static int64_t draw_staleness(uint64_t *random, bool dies) {
    static const int64_t bounds[] = {1, 2, KOLO_STALENESS_UNBOUNDED};
    return bounds[below(random, dies ? 2 : 3)];
}

void sched_table_begin(const sched_plan *plan, bool synchronous, uint64_t seed) {
    uint64_t random = seed ^ UINT64_C(0x7461626c65);
    memset(&run, 0, sizeof run);
    run.memory = sched_memory_arena() + pages(team_layout_of(&plan->shape.team).begin[TEAM_PARTS]);
    if (run.memory + MEMORY_BYTES > sched_memory_arena() + SCHED_ARENA_BYTES)
        abort();
    memset(run.memory, 0, MEMORY_BYTES);
    run.is_synchronous = synchronous;
    run.may_die = plan->fault == SCHED_DEATH;
    run.ranks = plan->shape.team.ranks;
    run.rows = 1 + below(&random, ROWS_MAX);
    run.options = (kolo_table_options)KOLO_TABLE_OPTIONS_INIT;
    run.options.rows = run.rows;
    run.options.columns = COLUMNS;
    run.options.dtype = synchronous ? KOLO_F32 : KOLO_I64;
    run.options.staleness = synchronous ? 0 : draw_staleness(&random, run.may_die);
    run.options.servers = below(&random, 3) ? 0 : (int)(1 + below(&random, run.ranks - 1));
    run.options.shards = (int)below(&random, SHARDS_MAX + 1);
    run.options.placement = (kolo_placement)below(&random, KOLO_PLACEMENTS);
    run.options.queue_bytes = 1; /* the least */
    run.workers = run.ranks - (uint32_t)run.options.servers;
    const uint32_t clocks = 1 + below(&random, CLOCKS_MAX - 1);
    for (uint32_t i = 0; i < run.workers; i++)
        draw_worker(&run.worker[i], clocks, &random);
    expect_sums();
}

/* Memory. */

void *sched_table_allocate(uint32_t rank, size_t bytes) {
    uint8_t *allocated = run.memory + run.used[rank];
    run.used[rank] += pages(bytes);
    if (run.used[rank] > MEMORY_BYTES)
        sched_fail("the arena has no room for the table");
    return allocated;
}

bool sched_table_has_allocated(const void *address) {
    return run.memory && (uintptr_t)address - (uintptr_t)run.memory < MEMORY_BYTES;
}

static uint64_t word_at(const kolo_atomic_u64 *word) {
    return sched_memory_peek(word, sizeof *word);
}

static sched_word word_of_rank(size_t offset) {
    return offset == offsetof(struct kolo_shared_table_rank, reached) ? SCHED_WORD_REACHED : SCHED_WORD_OTHER;
}

static sched_word word_of_shard(size_t offset) {
    switch (offset) {
    case offsetof(struct kolo_shared_shard, pending):
        return SCHED_WORD_PENDING;
    case offsetof(struct kolo_shared_shard, place):
        return SCHED_WORD_PLACE;
    default:
        return SCHED_WORD_OTHER;
    }
}

static sched_word word_of_queue(size_t offset) {
    switch (offset) {
    case offsetof(struct kolo_shared_queue, filled):
        return SCHED_WORD_FILLED;
    case offsetof(struct kolo_shared_queue, taken):
        return SCHED_WORD_TAKEN;
    default:
        return SCHED_WORD_OTHER;
    }
}

sched_word sched_table_word(const void *address) {
    const struct kolo_table *table = &run.table;
    const uint8_t *at = address;
    if (!table->comm || !sched_table_has_allocated(address) || at < (const uint8_t *)table->members)
        return SCHED_WORD_OTHER;
    if (at < (const uint8_t *)table->shard)
        return word_of_rank((size_t)(at - (const uint8_t *)table->members) % sizeof *table->members);
    if (at < table->piece)
        return word_of_shard((size_t)(at - (const uint8_t *)table->shard) % sizeof *table->shard);
    if (at < table->pushes)
        return (size_t)(at - table->piece) % table->stride == 0 ? SCHED_WORD_SEQUENCE : SCHED_WORD_OTHER;
    if (run.is_synchronous || at >= table->rings)
        return SCHED_WORD_OTHER;
    return word_of_queue((size_t)(at - table->pushes) % sizeof(struct kolo_shared_queue));
}

uint32_t sched_table_queue_worker(const void *address) {
    const size_t queue = (size_t)((const uint8_t *)address - run.table.pushes) / sizeof(struct kolo_shared_queue);
    return (uint32_t)(queue / run.table.shards);
}

bool sched_table_writes(void) {
    for (uint32_t shard = 0; shard < run.table.shards; shard++)
        if (word_at(&run.table.shard[shard].writer) == sched_self() + 1)
            return true;
    return false;
}

void sched_describe(const void *address, size_t bytes, char *text, size_t text_bytes) {
    static const char *const names[] = {[SCHED_WORD_REACHED] = "a clock",
                                        [SCHED_WORD_PENDING] = "a shard's pending bits",
                                        [SCHED_WORD_PLACE] = "a place",
                                        [SCHED_WORD_FILLED] = "what is filled of a queue",
                                        [SCHED_WORD_TAKEN] = "what is taken of a queue",
                                        [SCHED_WORD_SEQUENCE] = "the sequence of a piece"};
    if (!sched_table_has_allocated(address)) {
        team_describe(address, bytes, text, text_bytes);
        return;
    }
    const size_t begin = (size_t)((const uint8_t *)address - run.memory);
    const sched_word word = sched_table_word(address);
    snprintf(text, text_bytes, "bytes %zu to %zu of the table%s%s", begin, begin + bytes,
             word == SCHED_WORD_OTHER ? "" : ", ", word == SCHED_WORD_OTHER ? "" : names[word]);
}

/* What is checked. */

/* The bits that a pull of that worker must find in a row. */
static uint64_t required(uint32_t self, uint32_t row) {
    const uint64_t clock = run.worker[self].clock, staleness = (uint64_t)run.options.staleness;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < run.workers; i++) {
        const worker *other = &run.worker[i];
        for (uint32_t c = 0; c < CLOCKS_MAX; c++) {
            if (i == self || (sched_has_died(i) && c + staleness < clock))
                bits |= other->returned[c][row];
            else if (c + staleness < clock)
                for (uint32_t p = 0; p < PUSHES_MAX; p++)
                    bits |= other->pushes[c][p].rows >> row & 1 ? bit_of(i, c, p) : 0;
        }
    }
    return bits;
}

static void check_row(uint32_t self, uint32_t row, const int64_t *values) {
    const uint64_t bits = (uint64_t)values[0], wanted = required(self, row);
    const char *wrong = values[0] != values[1]                ? "is torn"
                        : bits & UINT64_C(0xaaaaaaaaaaaaaaaa) ? "contains a push twice"
                        : bits & ~run.begun[row]              ? "contains what nobody has pushed"
                        : wanted & ~bits                      ? "misses pushes"
                                                              : NULL;
    if (wrong)
        sched_fail("rank %" PRIu32 ": row %" PRIu32 ", pulled in clock %" PRIu32 ", %s: %#" PRIx64 " and %#" PRIx64
                   ", where at least %#" PRIx64 " and at most %#" PRIx64 " is right",
                   self, row, run.worker[self].clock, wrong, bits, (uint64_t)values[1], wanted, run.begun[row]);
}

static void check_sums(uint32_t self, uint32_t row, const float *values) {
    const float *wanted = &run.sums[run.worker[self].clock][row];
    if (memcmp(&values[0], wanted, sizeof *wanted) != 0 || memcmp(&values[1], wanted, sizeof *wanted) != 0)
        sched_fail("rank %" PRIu32 ": row %" PRIu32 ", pulled in clock %" PRIu32 ", is %.9g and %.9g instead of %.9g",
                   self, row, run.worker[self].clock, (double)values[0], (double)values[1], (double)*wanted);
}

/* When nobody is in a call, all that has been pushed is applied: nobody would do it before the next call. */
static void check_idle(uint32_t self) {
    const struct kolo_table *table = &run.table;
    if (run.is_synchronous || run.options.servers || run.may_die)
        return;
    for (uint32_t rank = 0; rank < run.ranks; rank++)
        if (run.is_calling[rank])
            return;
    for (uint32_t worker = 0; worker < run.workers; worker++)
        for (uint32_t shard = 0; shard < table->shards; shard++) {
            const struct kolo_shared_queue *queue = kolo_table_queue(table, worker, shard);
            if (word_at(&queue->filled) != word_at(&queue->taken))
                sched_fail("rank %" PRIu32 ": nobody is in a call, and the queue of rank %" PRIu32 " and shard %" PRIu32
                           " is not empty",
                           self, worker, shard);
        }
}

/* Ranks. */

static int leave_call(uint32_t self, int rc) {
    run.is_calling[self] = false;
    if (rc < 0 && run.table.comm && !run.is_synchronous)
        sched_fail("rank %" PRIu32 ": a call on the table fails: status %d", self, rc);
    return rc;
}

/* Pulls all rows, in one of two ways. */
static int pull(kolo_table *table, uint32_t self, bool by_ids) {
    union {
        int64_t bits[ROWS_MAX][COLUMNS];
        float sums[ROWS_MAX][COLUMNS];
    } values;
    uint64_t ids[ROWS_MAX];
    for (uint32_t row = 0; row < run.rows; row++)
        ids[row] = row;
    run.is_calling[self] = true;
    const int rc = leave_call(self, by_ids ? kolo_table_pull_rows(table, ids, run.rows, &values)
                                           : kolo_table_pull(table, 0, run.rows, &values));
    for (uint32_t row = 0; rc == 0 && row < run.rows; row++)
        if (run.is_synchronous)
            check_sums(self, row, values.sums[row]);
        else
            check_row(self, row, values.bits[row]);
    return rc;
}

static int push_rows(kolo_table *table, uint32_t self, uint32_t index) {
    const uint32_t clock = run.worker[self].clock;
    const push *push = &run.worker[self].pushes[clock][index];
    int64_t bits[ROWS_MAX][COLUMNS];
    float sums[ROWS_MAX][COLUMNS];
    uint64_t ids[ROWS_MAX];
    uint32_t rows = 0;
    for (uint32_t row = 0; row < run.rows; row++)
        if (push->rows >> row & 1) {
            run.begun[row] |= bit_of(self, clock, index);
            for (uint32_t column = 0; column < COLUMNS; column++) {
                bits[rows][column] = (int64_t)bit_of(self, clock, index);
                sums[rows][column] = push->values[row];
            }
            ids[rows++] = row;
        }
    const void *updates = run.is_synchronous ? (const void *)sums : bits;
    run.is_calling[self] = true;
    const int rc = leave_call(self, push->is_range ? kolo_table_push(table, ids[0], rows, updates)
                                                   : kolo_table_push_rows(table, ids, rows, updates));
    for (uint32_t i = 0; rc == 0 && i < rows; i++)
        run.worker[self].returned[clock][ids[i]] |= bit_of(self, clock, index);
    if (rc == 0)
        check_idle(self);
    return rc;
}

/* What a worker does in one clock. */
static int spend_clock(kolo_table *table, uint32_t self) {
    const push *pushes = run.worker[self].pushes[run.worker[self].clock];
    int rc = 0;
    for (uint32_t i = 0; i < PUSHES_MAX && rc == 0; i++) {
        for (uint32_t step = 0; step < pushes[i].thinks; step++)
            sched_step();
        if (pushes[i].rows)
            rc = push_rows(table, self, i);
        if (rc == 0 && pushes[i].pulls)
            rc = pull(table, self, pushes[i].is_range);
    }
    return rc;
}

static int end_clock(kolo_table *table, uint32_t self) {
    uint64_t returned[ROWS_MAX] = {0};
    for (uint32_t row = 0; row < run.rows; row++)
        for (uint32_t i = 0; i < run.workers; i++)
            for (uint32_t clock = 0; clock < CLOCKS_MAX; clock++)
                returned[row] |= run.worker[i].returned[clock][row];
    run.is_calling[self] = true;
    const int rc = leave_call(self, kolo_table_clock(table));
    if (rc < 0)
        return rc;
    run.worker[self].clock++;
    for (uint32_t row = 0; row < run.rows && run.options.staleness != KOLO_STALENESS_UNBOUNDED; row++)
        run.settled[row] |= returned[row];
    return pull(table, self, false);
}

static int work(kolo_table *table, uint32_t self) {
    const worker *worker = &run.worker[self];
    int rc = 0;
    while (rc == 0 && worker->clock < worker->clocks) {
        rc = spend_clock(table, self);
        if (rc == 0)
            rc = end_clock(table, self);
    }
    if (rc == 0)
        rc = spend_clock(table, self);
    run.is_calling[self] = true;
    if (rc == 0 && worker->waits)
        rc = leave_call(self, kolo_table_wait(table));
    return rc;
}

static bool has_anyone_died(void) {
    bool has_died = false;
    for (uint32_t rank = 0; rank < run.ranks; rank++)
        has_died |= sched_has_died(rank);
    return has_died;
}

/* If a rank dies while the table is made, some have it and others do not: those that have it leave. */
static bool have_all_made_it(void) {
    run.made++;
    while (run.may_die && run.made < run.ranks && !run.is_given_up) {
        sched_give_way();
        sched_step();
        run.is_given_up |= run.made < run.ranks && has_anyone_died();
    }
    return !run.is_given_up;
}

int sched_table_work(kolo_comm *comm) {
    kolo_table *table;
    const uint32_t self = comm->rank;
    int rc = kolo_table_create(comm, &run.options, &table);
    if (rc < 0)
        return rc;
    if (!run.table.comm)
        run.table = *table;
    run.is_calling[self] = true;
    if (have_all_made_it())
        rc = self < run.workers ? work(table, self) : leave_call(self, kolo_table_serve(table));
    run.is_calling[self] = true;
    kolo_table_destroy(table);
    run.is_calling[self] = false;
    return rc;
}

/* After the run. */

static const char *judge_row(uint32_t row) {
    const struct kolo_table *table = &run.table;
    const uint8_t *piece = table->piece + row * table->stride;
    const uint64_t sequence = word_at((const kolo_atomic_u64 *)(const void *)piece);
    uint64_t bits, wanted = run.settled[row];
    memcpy(&bits, piece + sizeof sequence + sequence % 2 * table->version_bytes, sizeof bits);
    for (uint32_t i = 0; i < run.workers; i++)
        for (uint32_t clock = 0; clock < CLOCKS_MAX && !sched_has_died(i); clock++)
            wanted |= run.worker[i].returned[clock][row];
    const bool is_exact = !has_anyone_died();
    if (is_exact ? bits == wanted : (bits & wanted) == wanted && (bits & ~run.begun[row]) == 0)
        return NULL;
    snprintf(run.problem, sizeof run.problem,
             "in the end row %" PRIu32 " is %#" PRIx64 ", where %s%#" PRIx64 " and at most %#" PRIx64 " is right", row,
             bits, is_exact ? "" : "at least ", wanted, run.begun[row]);
    return run.problem;
}

const char *sched_table_judge(void) {
    const char *wrong = NULL;
    for (uint32_t row = 0; row < run.rows && !wrong && run.table.comm && !run.is_synchronous; row++)
        wrong = judge_row(row);
    return wrong;
}
