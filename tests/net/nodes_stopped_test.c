/* A job on several machines, which here are ranks of one machine that inherit different files, is stopped as a whole
 * for longer than its deadlines and KOLO_NET_SILENCE_MS, and goes on when it is continued: in calls and in its
 * creation. Likewise one whose last connection takes so long to make, and one whose hooks take so long in a call. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"
#include "node_files.h"
#include "losses.h"

enum { TIMEOUT_MS = 800, SILENCE_MS = 600, STOPPED_MS = 1800, STOPS = 2, LATE_MS = 60, COUNT = 100000 };
enum { HOOKS_SILENCE_MS = 2000, HOOK_MS = 3000, HOOKS_TIMEOUT_MS = 60000 };

struct setup {
    int node_of[HARNESS_RANKS_MAX];
    int late;        /* the rank that comes last to the creation; -1: it is stopped later, in calls */
    bool links_late; /* nothing is stopped: the last leader is late to connect to the second one */
};

static _Thread_local int ports_left; /* until this thread's connections take long */

/* In place of the C library's, which the library calls. */
int connect(int fd, const struct sockaddr *to, socklen_t bytes) {
    static _Thread_local in_port_t last;
    const in_port_t port = ((const struct sockaddr_in *)to)->sin_port;
    if (ports_left > 0 && port != last && --ports_left == 0)
        sleep_ms(patience_ms(STOPPED_MS));
    last = port;
    return (int)syscall(SYS_connect, fd, to, bytes);
}

static int stops_of(const struct setup *setup) {
    return setup->late < 0 ? STOPS : 1;
}

static void stop(const struct team *team, const pid_t *pids) {
    stop_all(team, pids, stops_of(team->argument), 3 * LATE_MS, patience_ms(STOPPED_MS));
}

static bool create(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_options options = rank->options;
    nodes_place(&options, setup->node_of[rank->rank]);
    if (setup->links_late && rank->rank == rank->ranks - 1)
        ports_left = 3; /* the rendezvous, the first leader's and the second's */
    if (setup->late >= 0) {
        options.create_timeout_ms = patience_ms(TIMEOUT_MS);
        counter_add(1);
    }
    if (rank->rank == setup->late)
        await_counter((uint64_t)rank->ranks + 1);
    return expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create");
}

/* Rank 0 keeps the others waiting in every other call, and says with it whether there are more. */
static void make_calls(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    int32_t *data = calloc(COUNT, sizeof *data);
    bool over = false;
    if (setup->late < 0)
        counter_add(1);
    for (int call = 0; !over; call++) {
        const size_t count = call % 2 ? COUNT : 1;
        if (rank->rank == 0 && call % 2 == 0)
            sleep_ms(LATE_MS);
        data[0] = rank->rank == 0 && counter_add(0) == (uint64_t)(rank->ranks + stops_of(setup));
        if (!expect_status(rank, kolo_allreduce(rank->comm, data, data, count, KOLO_I32, KOLO_SUM), 0,
                           "kolo_allreduce of a job that was stopped"))
            break;
        over = data[0] != 0;
    }
    free(data);
}

static void run(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    int32_t sum = 1;
    if (create(rank) && !setup->links_late)
        make_calls(rank);
    else if (rank->comm)
        expect_status(rank, kolo_allreduce(rank->comm, &sum, &sum, 1, KOLO_I32, KOLO_SUM), 0,
                      "kolo_allreduce of leaders that were linked late");
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* The first time it takes longer than KOLO_NET_SILENCE_MS. */
static int take_long(void *has_taken) {
    if (!*(bool *)has_taken) {
        *(bool *)has_taken = true;
        sleep_ms(patience_ms(HOOK_MS));
        counter_add(1);
    }
    return 0;
}

static void take_long_idly(void *has_taken) {
    take_long(has_taken);
}

/* Rank 0's hook runs while the others, which are on another node, come late. */
static void wait_with_hook(struct rank *rank, kolo_hooks hooks, uint64_t hook) {
    bool has_taken = false;
    int32_t sum = 1;
    hooks.hooks_bytes = sizeof hooks;
    hooks.context = &has_taken;
    if (rank->rank == 0)
        kolo_comm_set_hooks(rank->comm, &hooks);
    else
        await_counter(hook);
    if (expect_status(rank, kolo_allreduce(rank->comm, &sum, &sum, 1, KOLO_I32, KOLO_SUM), 0,
                      "kolo_allreduce while a hook takes long"))
        expect(rank, sum == rank->ranks, "the sum is %d", sum);
    kolo_comm_set_hooks(rank->comm, NULL);
}

static void wait_with_hooks(struct rank *rank) {
    if (create(rank))
        wait_with_hook(rank, (kolo_hooks){.interrupt = take_long}, 1);
    if (rank->comm)
        wait_with_hook(rank, (kolo_hooks){.idle = take_long_idly}, 2);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_hooks(void) {
    struct setup setup = {.late = -1};
    const int ranks = nodes_lay_out((const int[NODES_MAX]){1, 1}, setup.node_of);
    char silence[16];
    snprintf(silence, sizeof silence, "%d", (int)patience_ms(HOOKS_SILENCE_MS));
    setenv("KOLO_NET_SILENCE_MS", silence, 1);
    nodes_meet_at("127.0.0.1");
    if (wants_ranks(ranks))
        harness_run(&(struct team){.ranks = ranks,
                                   .timeout_ms = patience_ms(HOOKS_TIMEOUT_MS),
                                   .creates_itself = true,
                                   .run = wait_with_hooks,
                                   .argument = &setup});
}

static void run_ranks(const struct setup *setup, int ranks,
                      void (*meanwhile)(const struct team *team, const pid_t *pids)) {
    nodes_meet_at("127.0.0.1");
    if (wants_ranks(ranks))
        harness_run(&(struct team){.ranks = ranks,
                                   .slot_bytes = 16384,
                                   .timeout_ms = patience_ms(TIMEOUT_MS),
                                   .creates_itself = true,
                                   .run = run,
                                   .argument = setup,
                                   .meanwhile = meanwhile});
}

int main(int argc, char **argv) {
    static const int layouts[][NODES_MAX] = {{1, 1}, {2, 2}};
    static const char *const transports[] = {"auto", "poll"};
    char silence[16];
    harness_begin(argc, argv, "Stops and continues all ranks of a job on several machines.");
    snprintf(silence, sizeof silence, "%d", (int)patience_ms(SILENCE_MS));
    setenv("KOLO_SECRET", "none", 1);
    setenv("KOLO_NET_SILENCE_MS", silence, 1);
    nodes_open();
    for (int i = arguments.quick ? 1 : 0; i < 2; i++)
        for (int late = -1; late < (arguments.quick ? 1 : 2); late++) {
            struct setup setup = {.late = late};
            const int ranks = nodes_lay_out(layouts[i], setup.node_of);
            setenv("KOLO_NET", transports[(i + late + 1) % 2], 1);
            run_ranks(&setup, ranks, stop);
        }
    struct setup setup = {.late = -1, .links_late = true};
    const int ranks = nodes_lay_out((const int[NODES_MAX]){1, 1, 1}, setup.node_of);
    run_ranks(&setup, ranks, NULL);
    run_hooks();
    return harness_end();
}
