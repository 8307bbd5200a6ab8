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
#include "table_parts.h"

struct setup {
    struct table_setup table;
    int node_of[HARNESS_RANKS_MAX];
};

static void run(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    nodes_place(&rank->options, setup->node_of[rank->rank]);
    if (expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        table_run_part(rank, &setup->table);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_setup(const struct table_setup *table, const int *layout) {
    struct setup setup = {.table = *table};
    const int ranks = nodes_lay_out(layout, setup.node_of);
    nodes_meet_at("127.0.0.1");
    harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run, .argument = &setup});
}

/* The last rank's values are everybody's. */
static void begin_with_values(struct rank *rank, const kolo_table_options *options) {
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

/* Staleness 0 and SGD: in clock 1 the rate is the one that rank 0 has set, on all nodes. */
static void set_rate(struct rank *rank, const kolo_table_options *options) {
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

static kolo_table_stats stats_of(kolo_table *table) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    kolo_table_get_stats(table, &stats);
    return stats;
}

/* Each rank pushes every second row, several times: what a clock sends is what lib/api/table/rounds.h says. */
static void count_bytes(struct rank *rank, const kolo_table_options *options) {
    enum { WARM = 3, CLOCKS = 10, NOTICE_BYTES = 72, HEADERS_BYTES = 8192 };
    kolo_table *table = table_make(rank, options);
    if (!table)
        return;
    const uint64_t nodes = (uint64_t)kolo_comm_nodes(rank->comm), row_bytes = options->columns * sizeof(float);
    float *row = calloc(options->columns, sizeof *row);
    uint64_t foreign = 0, own = 0, sent = 0, net_sent = 0, rounds = 0;
    const struct setup *setup = rank->team->argument;
    for (uint64_t id = 0; id < options->rows; id += 2) {
        int owner = -1;
        kolo_table_owner(table, id, 0, &owner);
        if (setup->node_of[owner] == setup->node_of[rank->rank])
            own++;
        else
            foreign++;
    }
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
    const uint64_t each =
        (nodes - 1) * NOTICE_BYTES + foreign * (8 + row_bytes) + (nodes - 1) * (8 + own * (8 + row_bytes));
    expect(rank, rounds == CLOCKS, "%llu rounds", (unsigned long long)rounds);
    /* With staleness 1 a round may have carried what a worker pushed in the next clock already. */
    expect(rank, options->staleness == 0 ? sent == CLOCKS * each : sent <= CLOCKS * each,
           "%llu bytes sent, %llu by the formula", (unsigned long long)sent, (unsigned long long)(CLOCKS * each));
    expect(rank, net_sent >= sent && net_sent <= sent + sent / 50 + CLOCKS * HEADERS_BYTES,
           "%llu bytes with headers, of %llu", (unsigned long long)net_sent, (unsigned long long)sent);
    kolo_table_destroy(table);
    free(row);
}

/* A table is saved between two clocks, and another one, of other shards, has that afterwards. */
static void save_and_load(struct rank *rank, const kolo_table_options *options) {
    enum { CLOCKS = 5 };
    char path[96];
    const size_t elements = options->rows * options->columns;
    float *values = malloc(elements * sizeof *values);
    snprintf(path, sizeof path, "/tmp/kolo-nodes-table-%d-%llu", (int)getppid(), (unsigned long long)arguments.seed);
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

enum { LOSS_CLOCKS = 30, MARK = 1000, MEANWHILE_US = 1000 };

struct loss {
    int layout[NODES_MAX];
    uint64_t victims;      /* a bit for each */
    uint64_t disconnected; /* who is on the node of a leader that ends */
    int64_t staleness;
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
    else if (loss->staleness == 0 || is_disconnected)
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
        {{1, 1}, 2, 0, 0},    {{2, 1, 3}, 4, 0, 0},
        {{1, 2}, 4, 0, 0},    {{2, 1, 2}, 4, 0, 1},
        {{1, 2}, 1, 0, 2},    {{1, 2, 1}, 1, 0, 1},
        {{1, 2, 1}, 2, 4, 3}, {{1, 2, 1}, 4, 0, 1},
        {{1, 1, 2}, 3, 0, 2}, {{1, 1, 1}, 4, 0, KOLO_STALENESS_UNBOUNDED},
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
    static const size_t shapes[][2] = {{1, 1}, {7, 3}, {64, 64}, {3, 200}, {0, 0}};
    for (size_t s = 0; s < 4; s++)
        for (size_t shape = 0; shape < 5; shape++)
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
                run_setup(&setup, layout);
                setup.options.hogwild = 0;
                setup.options.servers = ranks > 3 ? 3 : 1; /* a node may have no worker, or no server */
                run_setup(&setup, layout);
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
    run_setup(&(struct table_setup){.part = begin_with_values, .options = table_options_of(1000, 1500, 1)}, layout);
    for (int64_t staleness = 0; staleness < 4; staleness += 2)
        run_setup(&(struct table_setup){.part = save_and_load, .options = table_options_of(100, 50, staleness)},
                  layout);
    for (int64_t staleness = 0; staleness < 2; staleness++)
        run_setup(&(struct table_setup){.part = count_bytes, .options = table_options_of(100, 50, staleness)}, layout);
    struct table_setup setup = {.part = table_same_bits, .options = table_options_of(50, 30, 0)};
    run_setup(&setup, layout);
    setup.options.rule = KOLO_TABLE_SGD;
    setup.options.learning_rate = 0.125;
    setup.options.op = KOLO_AVG;
    setup.options.placement = KOLO_PLACEMENT_HASH;
    run_setup(&setup, layout);
    setup.options.op = KOLO_SUM;
    setup.options.learning_rate = 0.5;
    setup.part = set_rate;
    run_setup(&setup, layout);
}

int main(int argc, char **argv) {
    static const int layouts[][NODES_MAX] = {{1, 1}, {1, 2}, {2, 1, 3}};
    harness_begin(argc, argv, "Checks tables of several nodes.");
    nodes_open();
    setenv("KOLO_NET_AUTH", "none", 1);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        int node_of[HARNESS_RANKS_MAX];
        const int ranks = nodes_lay_out(layouts[i], node_of);
        if (wants_ranks(ranks) && !arguments.calls) /* --calls N: ends only, each so many times */
            run_layout(layouts[i], ranks);
    }
    if (!arguments.threads) /* which cannot be killed one by one */
        run_losses();
    return harness_end();
}
