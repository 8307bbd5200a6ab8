/* kolo_comm_shrink of a communicator of several nodes, which here are ranks of one machine that inherit different
 * files: whoever dies, the others go on with the ranks in their old order and right sums, once and again, also where
 * more die while they agree; or all of those that are left learn why they cannot. The same where ranks are stopped, and
 * these, continued after that, learn that they are left out. Where one cannot reach the others they do not try for
 * ever. Nothing is left behind, no listener either. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "losses.h"
#include "node_files.h"
#include "oracle.h"

enum {
    CALLS_BEFORE = 3,
    ROUNDS = 8,
    ROUNDS_QUICK = 3,
    MEANWHILE_US = 30000,
    TIMEOUT_MS = 4000,
    STOPS_TIMEOUT_MS = 600,
    STOPS_SILENCE_MS = 300,
    STOPS_AWAITED_MS = 900, /* before the deadline of who is host without them */
    CONTINUED_MS = 30000,
    CUT_OFF_TIMEOUT_MS = 1500,
    SETTLING_MS = 20,
    SMALL = 8192, /* bytes of a file */
    FDS = 256
};

/* Who is lost, as sets with a bit a rank. */
struct loss {
    int counts[NODES_MAX]; /* ranks of each node; 0: no more nodes */
    uint64_t first;        /* die after some calls */
    uint64_t second;       /* die after some calls of those that were left */
    bool rank_order;       /* rank 0's KOLO_NET_ORDER is rank, which is then that of those that are left */
    uint64_t meanwhile;    /* die at a random moment from when they begin to shrink for the first time */
    const char *refusal;   /* what kolo_comm_shrink says to those that are left, where they cannot go on */
    bool lacks_streams;    /* standard streams are closed: nothing may come into their place */
};

/* Who is stopped after some calls, and is continued when the others have gone on, or failed. */
struct stop {
    int counts[NODES_MAX];
    uint64_t stopped;
    uint64_t awaited;  /* of those, who is continued while the others wait */
    uint64_t going_on; /* all others fail */
    bool quick;        /* the others wait for no deadline */
    bool beats;        /* their processes are not stopped, but they do not call */
};

/* What the ranks go by. */
struct setup {
    struct loss loss;
    struct stop stop;
    int node_of[HARNESS_RANKS_MAX];
    uint64_t doubtful; /* who may be left out, see find_doubtful */
    uint64_t seed;
};

enum { STREAMS = 3, APART = 100 };

static bool lacks_streams;
static unsigned taken; /* descriptors in place of standard streams that were seen */

/* In place of the C library's, which the library calls. */
int poll(struct pollfd *polled, nfds_t count, int wait_ms) {
    const struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000L};
    for (nfds_t i = 0; i < count && lacks_streams; i++)
        taken += polled[i].fd >= 0 && polled[i].fd < STREAMS;
    return ppoll(polled, count, wait_ms < 0 ? NULL : &wait, NULL);
}

static bool cut_off;      /* this rank's connections fail */
static unsigned meetings; /* which it has then tried to come to */

/* In place of the C library's, too. */
int connect(int fd, const struct sockaddr *address, socklen_t bytes) {
    static in_port_t last;
    if (!cut_off || address->sa_family != AF_INET)
        return (int)syscall(SYS_connect, fd, address, bytes);
    const in_port_t port = ((const struct sockaddr_in *)address)->sin_port;
    meetings += port != last;
    last = port;
    errno = EHOSTUNREACH;
    return -1;
}

static void close_streams(void) {
    for (int fd = 0; fd < STREAMS; fd++)
        fcntl(fd, F_DUPFD_CLOEXEC, APART);
    for (int fd = 0; fd < STREAMS; fd++)
        close(fd);
    lacks_streams = true;
}

static void open_streams(const struct rank *rank) {
    lacks_streams = false;
    for (int fd = 0; fd < STREAMS; fd++) {
        taken += fcntl(fd, F_GETFD) >= 0;
        dup2(APART + fd, fd);
        close(APART + fd);
    }
    expect(rank, taken == 0, "descriptors are in place of standard streams");
}

static bool create(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_options options = rank->options;
    if (rank->rank > 0 && !arguments.threads) /* threads have one environment */
        unsetenv("KOLO_NET_ORDER");
    nodes_place(&options, setup->node_of[rank->rank]);
    return expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create");
}

/* The bits are those of the order of ranks, however these are spread. */
static bool sums_in_order(const struct rank *rank, uint64_t alive) {
    enum { COUNT = 5000 };
    float(*inputs)[COUNT] = malloc((size_t)rank->ranks * sizeof *inputs), expected[COUNT], found[COUNT];
    const void *sources[HARNESS_RANKS_MAX];
    int left = 0;
    for (int peer = 0; peer < rank->ranks; peer++) {
        if (!has(alive, peer))
            continue;
        input_fill(INPUT_NEAR, KOLO_F32, KOLO_SUM, inputs[peer], COUNT, random_seed((uint64_t)peer, 3));
        sources[left++] = inputs[peer];
    }
    oracle_reduce(KOLO_F32, KOLO_SUM, sources, left, COUNT, expected);
    const int status = kolo_allreduce(rank->comm, inputs[rank->rank], found, COUNT, KOLO_F32, KOLO_SUM);
    const bool right = expect_status(rank, status, 0, "allreduce") &&
                       expect(rank, memcmp(found, expected, sizeof expected) == 0, "the sum is in another order");
    free(inputs);
    return right;
}

/* The communicator is that of the ranks in `alive`. */
static bool works(const struct rank *rank, uint64_t alive) {
    const struct setup *setup = rank->team->argument;
    kolo_comm *comm = rank->comm;
    const int wanted = count_of(alive & all_of(rank->rank));
    int local = 0;
    uint64_t nodes = 0;
    for (int peer = 0; peer < rank->ranks; peer++) {
        nodes |= has(alive, peer) ? RANK(setup->node_of[peer]) : 0;
        local += has(alive, peer) && setup->node_of[peer] == setup->node_of[rank->rank];
    }
    if (!expect(rank,
                kolo_comm_size(comm) == count_of(alive) && kolo_comm_rank(comm) == wanted &&
                    kolo_comm_nodes(comm) == count_of(nodes) && info_of(comm).local_size == local,
                "is rank %d of %d on %d nodes, %d on this one, not %d of %d on %d, %d", kolo_comm_rank(comm),
                kolo_comm_size(comm), kolo_comm_nodes(comm), info_of(comm).local_size, wanted, count_of(alive),
                count_of(nodes), local))
        return false;
    static const size_t counts[] = {3, 500, 5000};
    bool right = !setup->loss.rank_order || sums_in_order(rank, alive);
    for (size_t call = 0; right && call < sizeof counts / sizeof *counts; call++)
        right = sums_are_right(rank, comm, alive, counts[call]);
    return right && expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
}

static void end_after_calls(struct rank *rank) {
    sleep_ms(SETTLING_MS); /* until the others, too, are through with the calls before */
    end_rank(rank);
}

/* Shrinks until none but those in `alive` are left; false where that ends otherwise. */
static bool shrink_to(struct rank *rank, uint64_t alive) {
    const struct setup *setup = rank->team->argument;
    const uint64_t fewest = alive & ~setup->doubtful;
    uint64_t random = setup->seed + (uint64_t)rank->rank;
    bool armed = !has(setup->loss.meanwhile, rank->rank);
    while (kolo_comm_size(rank->comm) > count_of(alive)) {
        kolo_comm *left = NULL;
        call_until_failure(rank->comm, count_for(rank->comm));
        if (!armed)
            arm(SIGKILL, random_below(&random, MEANWHILE_US));
        armed = true;
        const int64_t begin_ns = now_ns();
        const int status = kolo_comm_shrink(rank->comm, &left);
        const int64_t ms = (now_ns() - begin_ns) / 1000000;
        expect(rank, ms < patience_ms(TIMEOUT_MS), "kolo_comm_shrink took %d ms", (int)ms);
        if (setup->loss.refusal) {
            expect_status(rank, status, KOLO_ERR_PEER_DEAD, "kolo_comm_shrink of too few");
            expect_message(rank, "kolo_comm_shrink of too few", setup->loss.refusal, NULL);
            return false;
        }
        if (status < 0 && has(setup->doubtful, rank->rank))
            return false;
        if (!expect_status(rank, status, 0, "kolo_comm_shrink"))
            return false;
        expect_status(rank, kolo_comm_shrink(rank->comm, &left), KOLO_ERR_STATE, "kolo_comm_shrink once more");
        kolo_comm_destroy(rank->comm);
        rank->comm = left;
        if (kolo_comm_size(left) == count_of(fewest))
            alive = fewest;
    }
    return works(rank, alive);
}

static void run(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const struct loss *loss = &setup->loss;
    const int descriptors = open_descriptors();
    float data[10] = {0};
    if (loss->lacks_streams)
        close_streams();
    bool good = create(rank);
    for (int i = 0; good && i < CALLS_BEFORE; i++)
        good = expect_status(rank, kolo_allreduce(rank->comm, data, data, 10, KOLO_F32, KOLO_MAX), 0, "allreduce");
    if (good && has(loss->first, rank->rank))
        end_after_calls(rank);
    uint64_t alive = all_of(rank->ranks) & ~loss->first & ~loss->meanwhile;
    if (good && rank->comm)
        good = shrink_to(rank, alive);
    if (good && rank->comm && has(loss->second, rank->rank))
        end_after_calls(rank);
    if (good && rank->comm && loss->second)
        shrink_to(rank, alive & ~loss->second);
    if (loss->lacks_streams)
        open_streams(rank);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
    if (!arguments.threads)
        expect(rank, open_descriptors() == descriptors, "%d descriptors are open, not %d", open_descriptors(),
               descriptors);
}

/* Whose leader dies after it has said that it is ready, and before it hears that all are, is left out: the others of
 * its node. */
static uint64_t find_doubtful(const struct setup *setup, int ranks) {
    const uint64_t victim = setup->loss.meanwhile;
    uint64_t mates = 0;
    bool leads = true;
    for (int rank = 0; rank < ranks; rank++) {
        const int node = setup->node_of[rank];
        if (victim == 0 || victim == RANK(rank) || has(setup->loss.first, rank) ||
            node != setup->node_of[__builtin_ctzll(victim)])
            continue;
        mates |= RANK(rank);
        leads &= RANK(rank) > victim;
    }
    return leads ? mates : 0;
}

/* liburing maps by system calls that the thread sanitizer does not see: a ring at the address of one that another
 * thread has closed would look as if they shared it. */
static bool polls(uint64_t seed) {
    return arguments.threads || seed % 2;
}

/* Returns how many ranks there are. */
static int prepare(struct setup *setup, const int *counts, bool any_part) {
    char links[64];
    snprintf(links, sizeof links, "%s,quorum:%s", polls(setup->seed) ? "poll" : "auto", any_part ? "any" : "majority");
    setenv("KOLO_NET", links, 1);
    nodes_meet_at("127.0.0.1");
    return nodes_lay_out(counts, setup->node_of);
}

static void run_loss(const struct loss *loss, uint64_t seed) {
    struct setup setup = {.loss = *loss, .seed = seed};
    const int ranks = prepare(&setup, loss->counts, true); /* the losses take what they like, and there is one part */
    setup.doubtful = find_doubtful(&setup, ranks);
    if (!wants_ranks(ranks) || (arguments.threads && (loss->meanwhile || loss->lacks_streams)))
        return;
    setenv("KOLO_NET_ORDER", loss->rank_order ? "rank" : "node", 1);
    harness_run(&(struct team){.ranks = ranks,
                               .slot_bytes = 16384,
                               .creates_itself = true,
                               .timeout_ms = patience_ms(TIMEOUT_MS),
                               .victims = arguments.threads ? 0 : loss->first | loss->second | loss->meanwhile,
                               .run = run,
                               .argument = &setup});
}

static void run_chosen(void) {
    static const struct loss losses[] = {
        {.counts = {2, 2}, .first = RANK(3)},                       /* not a leader */
        {.counts = {2, 2}, .first = RANK(2)},                       /* a leader */
        {.counts = {2, 2}, .first = RANK(0)},                       /* rank 0 */
        {.counts = {2, 2}, .first = RANK(0) | RANK(1)},             /* a node */
        {.counts = {1, 1, 1}, .first = RANK(1)},                    /* a node */
        {.counts = {1, 1, 1}, .first = RANK(0), .second = RANK(2)}, /* one after another, to the last one */
        {.counts = {3, 1, 2}, .first = RANK(0), .second = RANK(3)}, /* leaders, one after another */
        {.counts = {3, 1, 2}, .first = RANK(0) | RANK(3), .second = RANK(1)},
        {.counts = {3, 1, 2}, .first = RANK(1) | RANK(2) | RANK(4)},
        {.counts = {3, 1, 2}, .first = RANK(0), .rank_order = true},
        {.counts = {1, 3}, .first = RANK(1) | RANK(2) | RANK(3)}, /* the larger node */
        {.counts = {3, 1}, .first = RANK(0) | RANK(1) | RANK(2)},
        {.counts = {2, 2}, .first = RANK(0) | RANK(2), .refusal = "no other node's"}, /* all leaders */
        {.counts = {1, 1, 1}, .first = RANK(1), .lacks_streams = true},
        {.counts = {1, 1, 2}, .first = RANK(0), .lacks_streams = true},
    };
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        run_loss(&losses[i], i);
}

/* One dies, and another one while the rest agree; a leader stays. */
static void run_random(void) {
    static const int layouts[][NODES_MAX] = {{2, 2}, {1, 1, 1, 1}, {3, 1, 2}, {2, 2, 2}};
    const uint64_t rounds = arguments.quick ? ROUNDS_QUICK : ROUNDS;
    for (uint64_t round = 0; round < rounds; round++) {
        struct loss loss = {.counts = {0}};
        uint64_t random = random_seed(7, round);
        memcpy(loss.counts, layouts[round % 4], sizeof loss.counts);
        int ranks = 0;
        uint64_t leading = 0;
        for (int node = 0; node < NODES_MAX && loss.counts[node]; ranks += loss.counts[node++])
            leading |= RANK(ranks);
        loss.first = RANK(random_below(&random, (uint64_t)ranks));
        loss.meanwhile = RANK(random_below(&random, (uint64_t)ranks)) & ~loss.first;
        if (leading & ~(loss.first | loss.meanwhile))
            run_loss(&loss, random_next(&random));
    }
}

/* Stops. */

/* Waits until so many ranks have come to their end; all live until then. */
static bool await_ends(int count) {
    const int64_t deadline_ns = now_ns() + patience_ms(CONTINUED_MS) * 1000000;
    while (counter_add(0) < (uint64_t)count && now_ns() < deadline_ns)
        sleep_ms(1);
    return counter_add(0) >= (uint64_t)count;
}

/* Whether a message tells one that cannot go on why. */
static bool is_told(const char *message) {
    return strstr(message, "went on without this") || strstr(message, "may be going on without them") ||
           strstr(message, "see that rank's message");
}

static void shrink_without_stopped(struct rank *rank) {
    const struct stop *stop = &((const struct setup *)rank->team->argument)->stop;
    const bool stops = has(stop->stopped, rank->rank), fails = !has(stop->going_on, rank->rank);
    kolo_comm *left = NULL;
    if (stops && stop->beats)
        await_ends(rank->ranks - count_of(stop->stopped));
    else if (stops)
        raise(SIGSTOP);
    call_until_failure(rank->comm, count_for(rank->comm));
    if (!stops)
        event_set();
    const int64_t begin_ns = now_ns();
    const int status = kolo_comm_shrink(rank->comm, &left);
    const int64_t took_ns = now_ns() - begin_ns;
    const bool waits = stops || !stop->quick;
    expect_prompt(rank, took_ns, waits ? 10 * STOPS_TIMEOUT_MS : 3 * STOPS_SILENCE_MS, "a shrink");
    if (expect_status(rank, status, fails ? KOLO_ERR_TIMEOUT : 0, "kolo_comm_shrink") && !fails) {
        kolo_comm_destroy(rank->comm);
        rank->comm = left;
        kolo_comm_set_timeout(left, patience_ms(TIMEOUT_MS)); /* on a busy machine one may return that much later */
        works(rank, stop->going_on);
    } else if (fails) {
        expect(rank, is_told(kolo_error_message()), "kolo_comm_shrink says \"%s\"", kolo_error_message());
    }
}

static void run_stopped(struct rank *rank) {
    const int descriptors = open_descriptors();
    float data[10] = {0};
    bool good = create(rank);
    for (int i = 0; good && i < CALLS_BEFORE; i++)
        good = expect_status(rank, kolo_allreduce(rank->comm, data, data, 10, KOLO_F32, KOLO_MAX), 0, "allreduce");
    if (good)
        shrink_without_stopped(rank);
    counter_add(1);
    expect(rank, await_ends(rank->ranks), "not all came to an end");
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
    expect(rank, open_descriptors() == descriptors, "%d descriptors are open, not %d", open_descriptors(), descriptors);
}

static void continue_ranks(const pid_t *pids, uint64_t ranks) {
    for (int rank = 0; rank < 64; rank++)
        if (has(ranks, rank))
            kill(pids[rank], SIGCONT);
}

static void continue_stopped(const struct team *team, const pid_t *pids) {
    const struct stop *stop = &((const struct setup *)team->argument)->stop;
    const int64_t deadline_ns = now_ns() + patience_ms(CONTINUED_MS) * 1000000;
    while (stop->awaited && event_ns() == 0 && now_ns() < deadline_ns)
        sleep_ms(1);
    if (stop->awaited)
        sleep_ms(patience_ms(STOPS_AWAITED_MS));
    continue_ranks(pids, stop->awaited);
    await_ends(team->ranks - count_of(stop->stopped & ~stop->awaited));
    continue_ranks(pids, stop->stopped);
}

static void run_stop(const struct stop *stop, uint64_t seed) {
    struct setup setup = {.stop = *stop, .seed = seed};
    const int ranks = prepare(&setup, stop->counts, false);
    char silence[16];
    snprintf(silence, sizeof silence, "%d", (int)patience_ms(STOPS_SILENCE_MS));
    setenv("KOLO_NET_SILENCE_MS", silence, 1);
    if (wants_ranks(ranks))
        harness_run(&(struct team){.ranks = ranks,
                                   .slot_bytes = 16384,
                                   .creates_itself = true,
                                   .timeout_ms = patience_ms(STOPS_TIMEOUT_MS),
                                   .run = run_stopped,
                                   .argument = &setup,
                                   .meanwhile = continue_stopped});
    unsetenv("KOLO_NET_SILENCE_MS");
}

static void run_stops(void) {
    static const struct stop stops[] = {
        /* Who would have been the host; both such; a guest; the same, where others are of one node. */
        {.counts = {1, 1, 1}, .stopped = RANK(0), .going_on = RANK(1) | RANK(2), .quick = true},
        {.counts = {1, 1, 1, 1, 1},
         .stopped = RANK(0) | RANK(1),
         .going_on = RANK(2) | RANK(3) | RANK(4),
         .quick = true},
        {.counts = {1, 1, 1}, .stopped = RANK(1), .going_on = RANK(0) | RANK(2), .quick = true},
        {.counts = {3, 1}, .stopped = RANK(3), .going_on = RANK(0) | RANK(1) | RANK(2), .quick = true},
        /* The other ranks of its node live, and come once they have left it out. */
        {.counts = {3, 1}, .stopped = RANK(0), .going_on = RANK(1) | RANK(2) | RANK(3)},
        {.counts = {2, 2}, .stopped = RANK(2), .going_on = RANK(0) | RANK(1) | RANK(3)},
        {.counts = {2, 2}, .stopped = RANK(0), .going_on = RANK(1) | RANK(2) | RANK(3)},
        /* A whole node, and those without whom the rest may not go on. */
        {.counts = {2, 2}, .stopped = RANK(2) | RANK(3), .going_on = RANK(0) | RANK(1)},
        {.counts = {1, 1, 1}, .stopped = RANK(0) | RANK(1), .going_on = RANK(0) | RANK(1)},
        /* One comes to before the one that has taken its place gives up. */
        {.counts = {1, 1, 1}, .stopped = RANK(0) | RANK(2), .awaited = RANK(0), .going_on = RANK(0) | RANK(1)},
        {.counts = {1, 1, 1}, .stopped = RANK(0) | RANK(2), .awaited = RANK(2), .going_on = RANK(1) | RANK(2)},
        /* It shows signs of life. */
        {.counts = {1, 1, 1}, .stopped = RANK(0), .going_on = RANK(1) | RANK(2), .beats = true},
    };
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        if (i % 2 == 0 || !arguments.quick)
            run_stop(&stops[i], i);
}

/* All come to terms on who is left, but one cannot come to where they meet. */
static void run_cut_off(struct rank *rank) {
    kolo_comm *left = NULL;
    if (!create(rank))
        return;
    if (rank->rank == 0)
        kolo_comm_abort(rank->comm, 1);
    call_until_failure(rank->comm, count_for(rank->comm));
    cut_off = rank->rank == rank->ranks - 1;
    expect_status(rank, kolo_comm_shrink(rank->comm, &left), KOLO_ERR_TIMEOUT, "kolo_comm_shrink with one cut off");
    expect(rank, meetings <= 2, "the ranks met %u times", meetings);
    cut_off = false;
    if (!expect_status(rank, kolo_comm_shrink(rank->comm, &left), 0, "kolo_comm_shrink once more"))
        return;
    kolo_comm_destroy(rank->comm);
    rank->comm = left;
    works(rank, all_of(rank->ranks));
}

static void cut_one_off(void) {
    struct setup setup = {.seed = 1};
    const int ranks = prepare(&setup, (const int[NODES_MAX]){2, 2}, false);
    if (wants_ranks(ranks))
        harness_run(&(struct team){.ranks = ranks,
                                   .slot_bytes = 16384,
                                   .creates_itself = true,
                                   .timeout_ms = patience_ms(CUT_OFF_TIMEOUT_MS),
                                   .run = run_cut_off,
                                   .argument = &setup});
}

static int count_listeners(void) {
    int found = 0;
    for (int fd = 0, listens = 0; fd < FDS; fd++, listens = 0)
        found += getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &(socklen_t){sizeof listens}) == 0 && listens;
    return found;
}

/* The last rank's node leaves, so that one node is left, which shrinks again: once without space. */
static void run_alone(struct rank *rank) {
    kolo_comm *alone = NULL, *left = NULL;
    struct rlimit before;
    if (!create(rank))
        return;
    if (rank->rank < rank->ranks - 1) {
        call_until_failure(rank->comm, count_for(rank->comm));
        expect_status(rank, kolo_comm_shrink(rank->comm, &alone), 0, "kolo_comm_shrink to one node");
    }
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
    if (!alone)
        return;
    if (rank->rank == 0)
        kolo_comm_abort(alone, 1);
    call_until_failure(alone, count_for(alone));
    getrlimit(RLIMIT_FSIZE, &before);
    if (rank->rank == 0)
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){SMALL, before.rlim_max});
    expect_status(rank, kolo_comm_shrink(alone, &left), KOLO_ERR_NO_SPACE, "kolo_comm_shrink without space");
    setrlimit(RLIMIT_FSIZE, &before);
    expect_status(rank, kolo_comm_shrink(alone, &left), 0, "kolo_comm_shrink with space");
    kolo_comm_destroy(alone);
    kolo_comm_destroy(left);
    expect(rank, count_listeners() == 0, "%d listeners are left", count_listeners());
}

static void leave_one_alone(void) {
    struct setup setup = {.seed = 1};
    const int ranks = prepare(&setup, (const int[NODES_MAX]){2, 1}, false);
    if (wants_ranks(ranks))
        harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run_alone, .argument = &setup});
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "kolo_comm_shrink of several nodes.");
    setenv("KOLO_SECRET", "none", 1);
    nodes_open();
    run_chosen();
    run_random();
    if (!arguments.threads) {
        run_stops();
        cut_one_off();
        leave_one_alone();
    }
    return harness_end();
}
