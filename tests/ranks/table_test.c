/* Tables: what is pushed is applied once, in every mode, placement and shape, and is there when the clocks say so; rows
 * are never torn; staleness 0 gives the bits of an all-reduce of the updates with the same rule. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "table_parts.h"

static void run(struct rank *rank) {
    table_run_part(rank, rank->team->argument);
}

static void run_setup(const struct table_setup *setup, int ranks) {
    harness_run(&(struct team){.ranks = ranks, .run = run, .argument = setup});
}

static void run_pushes(int ranks) {
    static const int64_t stalenesses[] = {0, 1, 5, KOLO_STALENESS_UNBOUNDED};
    static const size_t shapes[][2] = {{1, 1}, {7, 3}, {100, 1}, {64, 64}, {3, 200}, {0, 0}};
    for (size_t s = 0; s < 4; s++)
        for (size_t shape = 0; shape < 6; shape++)
            for (int placement = 0; placement < KOLO_PLACEMENTS; placement++) {
                struct table_setup setup = {.part = table_push_all,
                                            .options =
                                                table_options_of(shapes[shape][0], shapes[shape][1], stalenesses[s])};
                if (arguments.quick && (s + shape + (size_t)placement) % 3)
                    continue;
                setup.differ = shapes[shape][0] == 0;
                setup.options.placement = (kolo_placement)placement;
                setup.options.shards = placement == 2 ? 5 : 0;
                run_setup(&setup, ranks);
                setup.options.servers = ranks > 2 ? 2 : ranks - 1;
                if (setup.options.servers)
                    run_setup(&setup, ranks);
                setup.options.servers = 0;
                setup.options.hogwild = s > 0;
                if (s > 0)
                    run_setup(&setup, ranks);
            }
}

/* Rows of up to four pieces to a cache line, which have loops of their own for some widths. */
static void run_widths(int ranks) {
    for (size_t columns = 1; columns <= 9; columns++)
        for (int shards = 1; shards <= 2; shards++) {
            struct table_setup setup = {.part = table_push_all,
                                        .options = table_options_of(41, columns, KOLO_STALENESS_UNBOUNDED)};
            setup.options.shards = shards;
            run_setup(&setup, ranks);
        }
}

/* Rank 0 comes late and rank 1 not at all: it is rank 1 that the others name, which has come further in the collective
 * before. Nobody warns of a wait in a collective meanwhile. */
static void name_the_late(struct rank *rank) {
    enum { GATHERED = 1024 };
    static int32_t own[GATHERED], all[3 * GATHERED];
    setenv("KOLO_LOG", "warn,stall:100", 1);
    const int rc = kolo_comm_create(&rank->comm, &rank->options);
    unsetenv("KOLO_LOG");
    if (!expect_status(rank, rc, 0, "kolo_comm_create"))
        return;
    const kolo_table_options options = table_options_of(4, 4, 0);
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    expect_status(rank, kolo_gather(rank->comm, own, all, GATHERED, KOLO_I32, 1), 0, "kolo_gather");
    const int64_t timeout_ms = rank->team->timeout_ms;
    if (rank->rank < 2) {
        usleep((useconds_t)(rank->rank ? 3 * timeout_ms : timeout_ms / 4) * 1000);
    } else {
        char log[8192] = "";
        const int file = memfd_create("log", MFD_CLOEXEC), terminal = dup(STDERR_FILENO);
        dup2(file, STDERR_FILENO);
        const int status = kolo_table_clock(table);
        dup2(terminal, STDERR_FILENO);
        expect_timely(rank, rank->comm, status, KOLO_ERR_TIMEOUT, 1, "kolo_table_clock");
        expect(rank, pread(file, log, sizeof log - 1, 0) >= 0 && !strstr(log, "has waited"), "the log is:\n%s", log);
        close(file);
        close(terminal);
    }
    if (rank->rank == 0)
        kolo_table_clock(table);
    kolo_table_destroy(table);
    kolo_comm_destroy(rank->comm);
}

static void count_call(void *calls) {
    ++*(uint64_t *)calls;
}

/* While rank 0 waits in a table, its send goes on, and so does the program's own work. */
static void send_meanwhile(struct rank *rank) {
    enum { BYTES = 1 << 20 };
    static uint8_t message[BYTES];
    uint64_t calls = 0;
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .idle = count_call, .context = &calls};
    const kolo_table_options options = table_options_of(4, 4, 0);
    kolo_table *table = table_make(rank, &options);
    kolo_request *request = NULL;
    if (!table)
        return;
    if (rank->rank == 0) {
        expect_status(rank, kolo_comm_set_hooks(rank->comm, &hooks), 0, "kolo_comm_set_hooks");
        expect_status(rank, kolo_isend(rank->comm, message, BYTES, KOLO_U8, 1, 0, &request), 0, "kolo_isend");
    } else {
        sleep_ms(50);
        expect_status(rank, kolo_recv(rank->comm, message, BYTES, KOLO_U8, 0, 0, NULL), 0, "kolo_recv");
    }
    expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
    expect(rank, rank->rank || calls, "the hook was not called");
    if (request)
        expect_status(rank, kolo_request_wait(request), 0, "kolo_request_wait");
    kolo_comm_set_hooks(rank->comm, NULL);
    kolo_table_destroy(table);
}

/* Rows that are not there are named, where they wrap around, too. */
static void refuse_rows(struct rank *rank) {
    const kolo_table_options options = table_options_of(10, 1, 0);
    kolo_table *table = table_make(rank, &options);
    float value = 0;
    if (!table)
        return;
    refused(rank, kolo_table_pull(table, 5, UINT64_MAX, &value), "row 10: the table has rows 0 to 9");
    refused(rank, kolo_table_push(table, 12, 1, &value), "row 12: the table has rows 0 to 9");
    kolo_table_destroy(table);
}

/* Rank 0 leaves, and ends its communicator, while the others have clocks to end. */
static void leave_early(struct rank *rank) {
    const kolo_table_options options = table_options_of(4, 4, 0);
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    for (int clock = 0; clock < (rank->rank ? 4 : 1); clock++) {
        if (rank->rank == 2)
            usleep(50000);
        expect(rank, kolo_table_clock(table) == 0, "clock %d: %s", clock, kolo_error_message());
    }
    kolo_table_destroy(table);
}

/* Both other ranks end their communicators, but not their tables: one more than the backup worker that there may be. */
static void leave_without(struct rank *rank) {
    kolo_table_options options = table_options_of(4, 4, 0);
    options.backup_workers = 1;
    kolo_table *table = table_make(rank, &options);
    if (rank->rank || !table) {
        kolo_comm_destroy(rank->comm);
        raise(SIGKILL);
    }
    expect_status(rank, kolo_table_clock(table), KOLO_ERR_PEER_DEAD, "kolo_table_clock without the others");
    kolo_table_destroy(table);
}

/* Servers that own no shard hear that the workers have gone. */
static void serve_nothing(struct rank *rank) {
    kolo_table_options options = table_options_of(4, 4, *(const int64_t *)rank->team->argument);
    options.servers = rank->ranks - 1;
    options.shards = 1;
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    if (rank->rank)
        refused(rank, kolo_table_save(table, "none"), "this rank is a server of the table");
    const int rc = rank->rank ? kolo_table_serve(table) : kolo_table_clock(table);
    expect(rank, rc == 0, "%s: %s", rank->rank ? "kolo_table_serve" : "kolo_table_clock", kolo_error_message());
    kolo_table_destroy(table);
    kolo_barrier(rank->comm);
}

static void *set_limit(void *comm) {
    sleep_ms(50);
    kolo_comm_set_timeout(comm, 100);
    return NULL;
}

/* Waits for a while until some rank is done. */
static void hesitate(void) {
    for (int64_t ms = 0; ms < patience_ms(5000) && counter_add(0) == 0; ms++)
        sleep_ms(1);
}

/* A wait that goes on has the limit that another thread sets. */
static void limit_meanwhile(struct rank *rank) {
    const kolo_table_options options = table_options_of(1, 1, 1);
    kolo_table *table = table_make(rank, &options);
    pthread_t thread;
    if (!table)
        return;
    if (rank->rank > 0) {
        hesitate();
    } else if (pthread_create(&thread, NULL, set_limit, rank->comm) == 0) {
        expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
        expect_status(rank, kolo_table_clock(table), KOLO_ERR_TIMEOUT, "kolo_table_clock without rank 1");
        counter_add(1);
        pthread_join(thread, NULL);
    }
    kolo_table_destroy(table);
}

/* The last rank ends, and those that watch it wait for rank 1 in another table: rank 0, which waits for it, looks. */
static void end_unwatched(struct rank *rank) {
    const kolo_table_options options = table_options_of(1, 1, 1);
    kolo_table *const first = table_make(rank, &options), *const second = table_make(rank, &options);
    kolo_barrier(rank->comm);
    if (!first || !second || rank->rank == rank->ranks - 1)
        raise(SIGKILL);
    kolo_table_destroy(rank->rank ? first : second);
    if (rank->rank == 1)
        hesitate();
    const int64_t begin_ns = now_ns();
    for (int clock = 0; clock < 2; clock++)
        expect_status(rank, kolo_table_clock(rank->rank ? second : first), 0, "kolo_table_clock");
    if (rank->rank == 0) {
        expect_prompt(rank, now_ns() - begin_ns, 1000, "a wait for a rank that has ended");
        counter_add(1);
    }
    kolo_table_destroy(rank->rank ? second : first);
}

/* Queues of which a size_t does not hold the bytes. */
static void refuse_queues(struct rank *rank) {
    kolo_table_options options = table_options_of(4, 4, 1);
    kolo_table *table = NULL;
    options.shards = 1 << 10;
    options.queue_bytes = SIZE_MAX / 1024 + 1;
    expect_status(rank, kolo_table_create(rank->comm, &options, &table), KOLO_ERR_ARG, "kolo_table_create");
    expect(rank, kolo_barrier(rank->comm) == 0, "kolo_barrier: %s", kolo_error_message());
}

static void refuse_one(const struct rank *rank, const kolo_table_options *options, const char *words) {
    kolo_table *table = NULL;
    if (expect_status(rank, kolo_table_create(rank->comm, options, &table), KOLO_ERR_ARG, words))
        expect_message(rank, words, words, NULL);
}

/* One option differs on rank 1, and the message has both values on all ranks. */
static void refuse_differences(struct rank *rank) {
    const bool is_odd = rank->rank == 1;
    kolo_table_options options = table_options_of(is_odd ? 100 : 200, 4, 1);
    refuse_one(rank, &options, "rows is 100 on rank 1, 200 on rank 0");
    options = table_options_of(4, 4, is_odd ? 3 : INT64_MAX);
    refuse_one(rank, &options, "staleness is 3 on rank 1, 9223372036854775807 on rank 0");
    options = table_options_of(4, 4, 1);
    options.dtype = is_odd ? KOLO_F64 : KOLO_F32;
    refuse_one(rank, &options, "dtype is f64 on rank 1, f32 on rank 0");
    options.dtype = KOLO_F32;
    options.rule = is_odd ? KOLO_TABLE_ADD : KOLO_TABLE_SGD;
    refuse_one(rank, &options, "rule is add on rank 1, sgd on rank 0");
    options.rule = KOLO_TABLE_SGD;
    options.learning_rate = is_odd ? 0.01 : 0.1;
    refuse_one(rank, &options, "learning_rate is 0.01 on rank 1, 0.1 on rank 0");
    options.learning_rate = 0.1;
    options.name = is_odd ? NULL : "weights";
    refuse_one(rank, &options, "name is \"\" on rank 1, \"weights\" on rank 0");
    options = table_options_of(1000, 4, 1);
    size_t own[1000];
    for (int i = 0; i < 1000; i++)
        own[i] = (size_t)i + 1;
    own[999] += is_odd;
    options.row_columns = is_odd ? own : NULL;
    refuse_one(rank, &options, "row_columns is \"given\" on rank 1, \"NULL\" on rank 0");
    options.row_columns = own;
    refuse_one(rank, &options, "row_columns[999] is 1001 on rank 1, 1000 on rank 0");
    expect(rank, kolo_barrier(rank->comm) == 0, "kolo_barrier: %s", kolo_error_message());
}

/* Rank 0 ends a clock, but does not see the clock's end. */
static void end_alone(const struct rank *rank, kolo_table *table) {
    const int64_t timeout_ms = info_of(rank->comm).timeout_ms;
    kolo_comm_set_timeout(rank->comm, 50);
    expect_status(rank, kolo_table_clock(table), KOLO_ERR_TIMEOUT, "kolo_table_clock");
    kolo_comm_set_timeout(rank->comm, timeout_ms);
}

/* The others end the clock that rank 0 has ended alone, and one more: what it pushes then is part of the one after. */
static void push_after_one_more(const struct rank *rank, kolo_table *table) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    float value = 100;
    if (rank->rank == 0)
        end_alone(rank, table);
    kolo_barrier(rank->comm);
    for (int clock = 0; rank->rank && clock < 2; clock++)
        expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
    kolo_barrier(rank->comm);
    if (rank->rank == 0) {
        expect_status(rank, kolo_table_push(table, 0, 1, &value), 0, "kolo_table_push");
        end_alone(rank, table);
    }
    kolo_barrier(rank->comm);
    expect_status(rank, rank->rank ? kolo_table_clock(table) : kolo_table_wait(table), 0, "the end of clock 3");
    kolo_table_get_stats(table, &stats);
    kolo_table_pull(table, 0, 1, &value);
    expect(rank, value == 111 && stats.left_out == 0, "the row is %g, not 111, with %llu pushes left out",
           (double)value, (unsigned long long)stats.left_out);
}

/* Rank 0 has ended its clock, but has not seen the clock's end: what it pushes then is no part of that clock. */
static void push_after_timeout(struct rank *rank) {
    kolo_table_options options = table_options_of(1, 1, 0);
    options.backup_workers = 1;
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    float value = 1;
    if (rank->rank == 0) {
        expect_status(rank, kolo_table_push(table, 0, 1, &value), 0, "kolo_table_push");
        const int64_t timeout_ms = info_of(rank->comm).timeout_ms;
        kolo_comm_set_timeout(rank->comm, 50);
        expect_status(rank, kolo_table_clock(table), KOLO_ERR_TIMEOUT, "kolo_table_clock");
        value = 10;
        expect_status(rank, kolo_table_push(table, 0, 1, &value), KOLO_ERR_TIMEOUT, "kolo_table_push");
        kolo_comm_set_timeout(rank->comm, timeout_ms);
        event_set();
        expect_status(rank, kolo_table_push(table, 0, 1, &value), 0, "kolo_table_push");
    } else {
        while (event_ns() == 0)
            usleep(1000);
        expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
    }
    kolo_table_pull(table, 0, 1, &value);
    expect(rank, value == 1, "clock 0 has %g, not 1", (double)value);
    kolo_barrier(rank->comm);
    push_after_one_more(rank, table);
    kolo_barrier(rank->comm);
    kolo_table_destroy(table);
}

/* Pushes of several rows have numbers, which begin again after 2^21: no row counts as named that is not. */
static void push_often(struct rank *rank) {
    enum { PUSHES = (1 << 21) + 100 };
    kolo_table_options options = table_options_of(4, 1, KOLO_STALENESS_UNBOUNDED);
    options.dtype = KOLO_I64;
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    const int64_t updates[] = {1, 10, 100};
    int64_t rows[4], sums[4] = {0};
    int status = 0;
    for (uint64_t i = 0; i < PUSHES && status == 0; i++) {
        const uint64_t ids[] = {i % 3, 3, i / 2 % 3}; /* the first and the last may be the same */
        status = kolo_table_push_rows(table, ids, 3, updates);
        for (int at = 0; at < 3; at++)
            sums[ids[at]] += updates[at];
    }
    expect_status(rank, status, 0, "kolo_table_push_rows");
    expect_status(rank, kolo_table_wait(table), 0, "kolo_table_wait");
    expect_status(rank, kolo_table_pull(table, 0, 4, rows), 0, "kolo_table_pull");
    for (int row = 0; row < 4; row++)
        expect(rank, rows[row] == sums[row], "row %d is %lld, not %lld", row, (long long)rows[row],
               (long long)sums[row]);
    kolo_table_destroy(table);
}

/* Rank 0 ends a clock when the others have ended four without it: it passes those in one call. */
static void pass_clocks(struct rank *rank) {
    enum { CLOCKS = 4 };
    kolo_table_options options = table_options_of(1, 1, 0);
    options.backup_workers = 1;
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    const float one = 1;
    float value = 0;
    for (int clock = 0; rank->rank && clock < CLOCKS; clock++) {
        kolo_table_push(table, 0, 1, &one);
        expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
    }
    kolo_barrier(rank->comm);
    if (rank->rank == 0) {
        expect_status(rank, kolo_table_push(table, 0, 1, &one), 0, "kolo_table_push");
        expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
    }
    kolo_table_get_stats(table, &stats);
    expect(rank, stats.clock == CLOCKS, "the worker is in clock %llu, not %d", (unsigned long long)stats.clock, CLOCKS);
    expect(rank, stats.left_out == (rank->rank == 0), "%llu pushes are left out", (unsigned long long)stats.left_out);
    kolo_table_pull(table, 0, 1, &value);
    expect(rank, value == (float)(CLOCKS * (rank->ranks - 1)), "the row is %g", (double)value);
    kolo_barrier(rank->comm);
    kolo_table_destroy(table);
}

/* A worker that is left behind in clock 0 sets that clock's rate when clock 4 has another. */
static void set_late(struct rank *rank) {
    kolo_table_options options = table_options_of(1, 1, 0);
    options.backup_workers = 1;
    options.rule = KOLO_TABLE_SGD;
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    float value = 1;
    for (int clock = 0; clock < (rank->rank ? 1 : 5); clock++) {
        if (rank->rank)
            kolo_barrier(rank->comm);
        const double rate = clock == 4 ? 0.125 : 1;
        expect_status(rank, kolo_table_set_learning_rate(table, rate), 0, "kolo_table_set_learning_rate");
        if (rank->rank == 0)
            kolo_table_push(table, 0, 1, &value);
        if (rank->rank == 0 && clock == 4)
            kolo_barrier(rank->comm);
        if (rank->rank || clock == 4)
            kolo_barrier(rank->comm);
        expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
    }
    kolo_barrier(rank->comm);
    kolo_table_pull(table, 0, 1, &value);
    expect(rank, value == -4.125f, "the row is %g, not -4.125", (double)value);
    kolo_table_destroy(table);
}

/* More rates in one clock than there are numbers for: each counts, or is refused. */
static void set_often(struct rank *rank) {
    enum { RATES = 1 << 20 };
    kolo_table_options options = table_options_of(1, 1, 1);
    options.rule = KOLO_TABLE_SGD;
    kolo_table *table = table_make(rank, &options);
    float update = 1, before, after;
    if (!table)
        return;
    for (int clock = 0; clock < 2 && rank->rank == 0; clock++) {
        int rate = 1, status = 0;
        while (status == 0 && rate <= RATES + 1)
            status = kolo_table_set_learning_rate(table, rate++);
        expect(rank, status == KOLO_ERR_ARG && rate > RATES - 2, "rate %d of a clock got %d", rate - 1, status);
        kolo_table_pull(table, 0, 1, &before);
        kolo_table_push(table, 0, 1, &update);
        kolo_table_clock(table);
        kolo_table_wait(table);
        kolo_table_pull(table, 0, 1, &after);
        expect(rank, before - after == (float)(rate - 2), "the rate is %g, not %d", (double)(before - after), rate - 2);
    }
    kolo_table_destroy(table);
}

/* The last rank names another table or root than the others, or makes another call: all hear of it. */
static void name_others(struct rank *rank) {
    const int way = *(const int *)rank->team->argument;
    const bool is_odd = rank->rank == rank->ranks - 1;
    const kolo_table_options options = table_options_of(1, 1, 0);
    const float value = 5;
    kolo_table *tables[2];
    tables[0] = table_make(rank, &options);
    tables[1] = table_make(rank, &options);
    if (!tables[0] || !tables[1])
        return;
    expect_status(rank, kolo_table_initialize(tables[0], rank->rank ? &value : NULL, 0), KOLO_ERR_ARG,
                  "kolo_table_initialize with NULL");
    expect_status(rank, kolo_table_initialize(tables[0], &value, 0), 0, "kolo_table_initialize");
    int status = !is_odd    ? kolo_table_initialize(tables[0], &value, 0)
                 : way == 0 ? kolo_table_initialize(tables[1], &value, 0)
                 : way == 1 ? kolo_table_initialize(tables[0], &value, 1)
                            : kolo_table_load(tables[0], "none");
    if (expect_status(rank, status, KOLO_ERR_MISMATCH, "a call that differs"))
        expect_message(rank, "a call that differs", "table of call ", NULL);
    kolo_table_destroy(tables[0]);
    kolo_table_destroy(tables[1]);
}

static void run_waits(void) {
    static const int64_t stalenesses[] = {0, 2};
    harness_run(&(struct team){.ranks = 3, .creates_itself = true, .run = name_the_late, .timeout_ms = 1000});
    harness_run(&(struct team){.ranks = 2, .run = send_meanwhile});
    harness_run(&(struct team){.ranks = 1, .run = refuse_rows});
    harness_run(&(struct team){.ranks = 3, .run = leave_early});
    for (int i = 0; i < 2; i++)
        harness_run(&(struct team){.ranks = 3, .run = serve_nothing, .argument = &stalenesses[i]});
    harness_run(&(struct team){.ranks = 2, .run = limit_meanwhile});
    if (!arguments.threads)
        harness_run(&(struct team){.ranks = 11, .victim = 11, .run = end_unwatched});
    if (!arguments.threads)
        harness_run(&(struct team){.ranks = 3, .victims = 6, .run = leave_without});
    harness_run(&(struct team){.ranks = 2, .run = refuse_queues});
    harness_run(&(struct team){.ranks = 3, .run = refuse_differences});
    harness_run(&(struct team){.ranks = 3, .run = push_after_timeout});
    harness_run(&(struct team){.ranks = 3, .run = pass_clocks});
    harness_run(&(struct team){.ranks = 2, .run = set_late});
    harness_run(&(struct team){.ranks = 2, .run = set_often});
    harness_run(&(struct team){.ranks = 1, .run = push_often});
    for (int way = 0; way < 3; way++)
        harness_run(&(struct team){.ranks = 3, .run = name_others, .argument = &way});
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "tables of a parameter server");
    static const int counts[] = {1, 2, 3, 5};
    for (size_t i = 0; i < 4; i++) {
        const int ranks = counts[i];
        if (arguments.ranks && arguments.ranks != ranks)
            continue;
        if (!arguments.calls) {
            run_pushes(ranks);
            run_widths(ranks);
        }
        for (int64_t staleness = 0; staleness < 4; staleness++)
            run_setup(&(struct table_setup){.part = table_keep_bound,
                                            .options = table_options_of((uint64_t)ranks, 40, staleness)},
                      ranks);
        run_setup(
            &(struct table_setup){.part = table_tear, .options = table_options_of(3, 60, KOLO_STALENESS_UNBOUNDED)},
            ranks);
        run_setup(&(struct table_setup){.part = table_tear, .options = table_options_of(3, 60, 2)}, ranks);
        run_setup(&(struct table_setup){.part = table_read_under_load,
                                        .options = table_options_of(64, 16, KOLO_STALENESS_UNBOUNDED)},
                  ranks);
        struct table_setup setup = {.part = table_same_bits, .options = table_options_of(50, 30, 0)};
        run_setup(&setup, ranks);
        setup.options.rule = KOLO_TABLE_SGD;
        setup.options.learning_rate = 0.125;
        setup.options.op = KOLO_AVG;
        run_setup(&setup, ranks);
    }
    if (!arguments.ranks)
        run_waits();
    return harness_end();
}
