/* Tables of several nodes, of different numbers of ranks: the parts that tests of one node have, in every mode and
 * placement; rows that all start with; the learning rate that one worker sets; and what a clock sends to other nodes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "losses.h"
#include "node_files.h"
#include "nodes_table_parts.h"
#include "table_parts.h"

enum { SHAPES = 5 };

struct setup {
    struct table_setup tables[2 * SHAPES * KOLO_PLACEMENTS]; /* one after another, of one communicator */
    size_t count;                                            /* of them */
    int node_of[HARNESS_RANKS_MAX];
    bool stops; /* be_late: the first leader */
};

static void run(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    nodes_place(&rank->options, setup->node_of[rank->rank]);
    if (expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        for (size_t i = 0; i < setup->count; i++)
            table_run_part(rank, &setup->tables[i]);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_tables(struct setup *setup, const int *layout) {
    const int ranks = nodes_lay_out(layout, setup->node_of);
    nodes_meet_at("127.0.0.1");
    harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run, .argument = setup});
}

static void run_setup(const struct table_setup *table, const int *layout) {
    run_tables(&(struct setup){.tables = {*table}, .count = 1}, layout);
}

enum { LOSS_CLOCKS = 30, MARK = 1000, MEANWHILE_US = 1000 };

struct loss {
    int layout[NODES_MAX];
    uint64_t victims;      /* a bit for each */
    uint64_t disconnected; /* who is on the node of a leader that ends */
    int64_t staleness;
    int backup_workers; /* with one worker on each node, so that none is left out; all shards are in several parts */
};

struct loss_setup {
    struct loss loss;
    int node_of[HARNESS_RANKS_MAX];
    uint64_t seed;
};

/* Pushes until all clocks are over, or a call fails; its status. It ends about so long after the beginning of its last
 * clock. */
static int train(struct rank *rank, kolo_table *table, const kolo_table_options *options, float update, int last_clock,
                 uint64_t us) {
    const size_t elements = options->rows * options->columns;
    float *updates = malloc(elements * sizeof *updates);
    int rc = 0;
    for (size_t i = 0; i < elements; i++)
        updates[i] = update;
    for (int clock = 0; clock < LOSS_CLOCKS && rc == 0; clock++) {
        const int64_t begin_ns = now_ns();
        if (clock == last_clock)
            arm(SIGKILL, us);
        if (clock == LOSS_CLOCKS - 1 && last_clock < LOSS_CLOCKS)
            sleep_ms(1000); /* until it is killed */
        rc = kolo_table_push(table, 0, options->rows, updates);
        if (rc == 0)
            rc = kolo_table_clock(table);
        expect_prompt(rank, now_ns() - begin_ns, 1000, "a clock while another node ends");
    }
    free(updates);
    return rc;
}

/* What those that are left have pushed is in all rows, once. */
static void check_rows(struct rank *rank, kolo_table *table, const kolo_table_options *options, int left, int victims) {
    const size_t elements = options->rows * options->columns;
    float *values = malloc(elements * sizeof *values);
    size_t wrong = 0;
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    const int64_t end_ns = now_ns() + patience_ms(20000) * 1000000;
    while (now_ns() < end_ns) {
        kolo_table_pull(table, 0, options->rows, values);
        for (wrong = 0; wrong < elements; wrong++)
            if ((int)values[wrong] % MARK != left * LOSS_CLOCKS || (int)values[wrong] / MARK > victims * LOSS_CLOCKS)
                break;
        kolo_table_get_stats(table, &stats);
        if (wrong == elements && stats.workers_dead == victims) /* a victim may end after its last clock but one */
            break;
        sleep_ms(1);
    }
    expect(rank, wrong == elements && stats.workers_dead == victims,
           "element %zu is %g: not %d pushes of those that are left; %llu rounds, %d dead; kolo_table_wait: %s", wrong,
           (double)values[wrong < elements ? wrong : 0], left * LOSS_CLOCKS, (unsigned long long)stats.rounds,
           stats.workers_dead, wrong == elements || kolo_table_wait(table) == 0 ? "" : kolo_error_message());
    free(values);
}

static void lose(struct rank *rank) {
    const struct loss_setup *setup = rank->team->argument;
    const struct loss *loss = &setup->loss;
    kolo_table_options options = table_options_of(40, 30, loss->staleness);
    uint64_t random = setup->seed + (uint64_t)rank->rank;
    options.placement = (kolo_placement)(setup->seed % KOLO_PLACEMENTS);
    options.backup_workers = loss->backup_workers;
    options.shards = loss->backup_workers ? 7 : 0;
    nodes_place(&rank->options, setup->node_of[rank->rank]);
    kolo_table *table = NULL;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") ||
        !(table = table_make(rank, &options)))
        return;
    const bool is_victim = has(loss->victims, rank->rank), is_disconnected = has(loss->disconnected, rank->rank);
    const int lost = count_of(loss->victims), left = rank->ranks - lost - count_of(loss->disconnected);
    kolo_barrier(rank->comm);
    const int last_clock = is_victim ? 2 + (int)random_below(&random, LOSS_CLOCKS - 10) : LOSS_CLOCKS;
    /* Of those that are disconnected it is not known what came to the others. */
    const int status = train(rank, table, &options, is_victim || is_disconnected ? MARK : 1, last_clock,
                             random_below(&random, MEANWHILE_US));
    if (is_victim)
        sleep_ms(1000); /* a failure of another victim's may have come first */
    else if ((loss->staleness == 0 && loss->backup_workers == 0) || is_disconnected)
        expect_status(rank, status, KOLO_ERR_PEER_DEAD, "kolo_table_clock of those that cannot go on");
    else if (expect_status(rank, status, 0, "kolo_table_clock of those that are left"))
        check_rows(rank, table, &options, left, rank->ranks - left);
    if (is_victim)
        raise(SIGKILL);
    kolo_table_destroy(table);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_losses(void) {
    static const struct loss losses[] = {
        {{1, 1}, 2, 0, 0, 0},    {{2, 1, 3}, 4, 0, 0, 0},
        {{1, 2}, 4, 0, 0, 0},    {{2, 1, 2}, 4, 0, 1, 0},
        {{1, 2}, 1, 0, 2, 0},    {{1, 2, 1}, 1, 0, 1, 0},
        {{1, 2, 1}, 2, 4, 3, 0}, {{1, 2, 1}, 4, 0, 1, 0},
        {{1, 1, 2}, 3, 0, 2, 0}, {{1, 1, 1}, 4, 0, KOLO_STALENESS_UNBOUNDED, 0},
        {{1, 1}, 2, 0, 0, 1},    {{1, 1, 1}, 2, 0, 0, 1},
    };
    const int times = arguments.calls ? (int)arguments.calls : arguments.quick ? 2 : 12;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        for (int time = 0; time < times; time++) {
            struct loss_setup setup = {.loss = losses[i], .seed = random_seed(100 + i, (uint64_t)time)};
            const int ranks = nodes_lay_out(setup.loss.layout, setup.node_of);
            if (!wants_ranks(ranks))
                continue;
            nodes_meet_at("127.0.0.1");
            harness_run(&(struct team){.ranks = ranks,
                                       .creates_itself = true,
                                       .victims = setup.loss.victims,
                                       .run = lose,
                                       .argument = &setup});
        }
}

static void run_pushes(const int *layout, int ranks) {
    static const int64_t stalenesses[] = {0, 1, 5, KOLO_STALENESS_UNBOUNDED};
    static const size_t shapes[SHAPES][2] = {{1, 1}, {7, 3}, {64, 64}, {3, 200}, {0, 0}};
    for (size_t s = 0; s < 4; s++) {
        struct setup all = {.count = 0};
        for (size_t shape = 0; shape < SHAPES; shape++)
            for (int placement = 0; placement < KOLO_PLACEMENTS; placement++) {
                struct table_setup setup = {.part = table_push_all,
                                            .options =
                                                table_options_of(shapes[shape][0], shapes[shape][1], stalenesses[s])};
                if ((s + shape + (size_t)placement) % (arguments.quick ? 5 : 2))
                    continue;
                setup.differ = shapes[shape][0] == 0;
                setup.options.placement = (kolo_placement)placement;
                setup.options.shards = placement == 2 ? 5 : 0;
                setup.options.hogwild = s > 0 && shape == 1;
                all.tables[all.count++] = setup;
                setup.options.hogwild = 0;
                setup.options.servers = ranks > 3 ? 3 : 1; /* a node may have no worker, or no server */
                all.tables[all.count++] = setup;
            }
        run_tables(&all, layout);
    }
}

static void run_layout(const int *layout, int ranks) {
    run_pushes(layout, ranks);
    for (int64_t staleness = 0; staleness < 4; staleness += 1 + arguments.quick)
        run_setup(&(struct table_setup){.part = table_keep_bound,
                                        .options = table_options_of((uint64_t)ranks, 40, staleness)},
                  layout);
    run_setup(&(struct table_setup){.part = table_tear, .options = table_options_of(3, 60, KOLO_STALENESS_UNBOUNDED)},
              layout);
    run_setup(&(struct table_setup){.part = table_tear, .options = table_options_of(3, 60, 2)}, layout);
    run_setup(&(struct table_setup){.part = table_read_under_load,
                                    .options = table_options_of(64, 16, KOLO_STALENESS_UNBOUNDED)},
              layout);
    run_setup(&(struct table_setup){.part = nodes_begin_with_values, .options = table_options_of(1000, 1500, 1)},
              layout);
    for (int64_t staleness = 0; staleness < 4; staleness += 2)
        run_setup(&(struct table_setup){.part = nodes_save_and_load, .options = table_options_of(100, 50, staleness)},
                  layout);
    run_setup(&(struct table_setup){.part = nodes_save_without_first, .options = table_options_of(10, 5, 1)}, layout);
    run_setup(&(struct table_setup){.part = nodes_load_differently, .options = table_options_of(10, 5, 1)}, layout);
    for (int64_t staleness = 0; staleness < 2; staleness++)
        run_setup(&(struct table_setup){.part = nodes_count_bytes, .options = table_options_of(100, 50, staleness)},
                  layout);
    for (int64_t staleness = 0; staleness < 4; staleness += 3) {
        const struct table_setup leave = {.part = nodes_leave_first, .options = table_options_of(10, 30, staleness)};
        run_tables(&(struct setup){.tables = {leave, leave}, .count = 2}, layout);
    }
    struct table_setup setup = {.part = table_same_bits, .options = table_options_of(50, 30, 0)};
    run_setup(&setup, layout);
    setup.options.rule = KOLO_TABLE_SGD;
    setup.options.learning_rate = 0.125;
    setup.options.op = KOLO_AVG;
    setup.options.placement = KOLO_PLACEMENT_HASH;
    run_setup(&setup, layout);
    setup.options.op = KOLO_SUM;
    setup.options.learning_rate = 0.5;
    setup.part = nodes_set_rate;
    run_setup(&setup, layout);
    setup.part = nodes_agree_on_rate;
    setup.options = table_options_of((uint64_t)ranks, 1, 0);
    setup.options.rule = KOLO_TABLE_SGD;
    for (int way = 0; way < 3; way++) {
        setup.options.staleness = way < 2 ? way : KOLO_STALENESS_UNBOUNDED;
        run_setup(&setup, layout);
    }
}

/* The last rank, which is alone on its node, does not end its clock in time: all name it, and nobody goes on. Or it
 * stops rank 0 meanwhile, which rank 1 names. Of three ranks rank 1 has a shorter limit. */
static void be_late(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const kolo_table_options options = table_options_of(4, 4, 0);
    const int last = rank->ranks - 1;
    int32_t first = getpid();
    nodes_place(&rank->options, setup->node_of[rank->rank]);
    kolo_table *table = NULL;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") ||
        !(table = table_make(rank, &options)))
        return;
    expect_status(rank, kolo_broadcast(rank->comm, &first, 1, KOLO_I32, 0), 0, "kolo_broadcast");
    if (rank->rank == 1 && last == 2)
        kolo_comm_set_timeout(rank->comm, rank->team->timeout_ms / 10);
    const uint64_t waiting = setup->stops ? 1 : (uint64_t)last;
    for (int64_t ms = 0; rank->rank == last && ms < patience_ms(5000) && counter_add(0) < waiting; ms++) {
        if (setup->stops && ms == 100)
            kill(first, SIGSTOP);
        sleep_ms(1);
    }
    const bool has_stopped = setup->stops && rank->rank == last;
    if (has_stopped)
        kill(first, SIGCONT);
    const int status = has_stopped ? kolo_barrier(rank->comm) : kolo_table_clock(table);
    expect_timely(rank, rank->comm, status, KOLO_ERR_TIMEOUT, setup->stops ? 0 : last, "kolo_table_clock");
    counter_add(1);
    if (!has_stopped)
        expect_status(rank, kolo_table_clock(table), KOLO_ERR_STATE, "kolo_table_clock of a broken table");
    expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_STATE, "kolo_barrier");
    kolo_table_destroy(table);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_late(void) {
    static const int layouts[][NODES_MAX] = {{1, 1}, {2, 1}, {1, 2, 1}, {2, 1}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts - (arguments.threads ? 1 : 0); i++) {
        struct setup setup = {.stops = i == 3};
        const int ranks = nodes_lay_out(layouts[i], setup.node_of);
        nodes_meet_at("127.0.0.1");
        if (wants_ranks(ranks))
            harness_run(&(struct team){
                .ranks = ranks, .creates_itself = true, .timeout_ms = 2000, .run = be_late, .argument = &setup});
    }
}

static int interrupt(void *code) {
    return *(const int *)code;
}

/* Rank 0 leaves two tables, and is interrupted while it waits for the others to do so, who go on: the end of the
 * communicator aborts it. */
static void be_interrupted(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const kolo_table_options options = table_options_of(4, 4, 1);
    int code = 130;
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .interrupt = interrupt, .context = &code};
    nodes_place(&rank->options, setup->node_of[rank->rank]);
    kolo_table *tables[2] = {NULL, NULL};
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") ||
        !(tables[0] = table_make(rank, &options)) || !(tables[1] = table_make(rank, &options)))
        return;
    int status = 0;
    if (rank->rank == 0)
        kolo_comm_set_hooks(rank->comm, &hooks);
    for (int64_t ms = 0; rank->rank > 0 && status == 0 && ms < patience_ms(5000); ms++) {
        status = kolo_table_clock(tables[ms % 2]);
        sleep_ms(1);
    }
    expect_status(rank, status, rank->rank ? KOLO_ERR_ABORTED : 0, "kolo_table_clock");
    kolo_table_destroy(tables[0]);
    kolo_table_destroy(tables[1]);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_interrupted(void) {
    struct setup setup = {.count = 0};
    const int ranks = nodes_lay_out((const int[NODES_MAX]){2, 1}, setup.node_of);
    nodes_meet_at("127.0.0.1");
    if (wants_ranks(ranks))
        harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = be_interrupted, .argument = &setup});
}

/* KOLO_NET_ORDER is the all-reduce's: tables have the same bits with either. */
static void run_orders(const int *layout) {
    const struct table_setup setup = {.part = nodes_record_bits, .options = table_options_of(20, 30, 0)};
    run_setup(&setup, layout);
    const uint64_t bits = recorded_result(0);
    setenv("KOLO_NET_ORDER", "rank", 1);
    run_setup(&setup, layout);
    unsetenv("KOLO_NET_ORDER");
    expect(NULL, recorded_result(0) == bits, "other bits with KOLO_NET_ORDER=rank");
}

int main(int argc, char **argv) {
    static const int layouts[][NODES_MAX] = {{1, 1}, {1, 2}, {2, 1, 3}};
    harness_begin(argc, argv, "Checks tables of several nodes.");
    nodes_open();
    setenv("KOLO_SECRET", "none", 1);
    setenv("KOLO_NET", "quorum:any", 1); /* any node may be lost */
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        int node_of[HARNESS_RANKS_MAX];
        const int ranks = nodes_lay_out(layouts[i], node_of);
        if (wants_ranks(ranks) && !arguments.calls) /* --calls N: ends only, each so many times */
            run_layout(layouts[i], ranks);
    }
    if (wants_ranks(6) && !arguments.calls)
        run_orders(layouts[2]);
    if (!arguments.calls) {
        run_late();
        run_interrupted();
    }
    if (!arguments.threads) /* which cannot be killed one by one */
        run_losses();
    return harness_end();
}
