/* Messages between two ranks of several nodes: the parts of tests/ranks/channel_parts.c and in_flight_parts.c, on 2 and
 * 3 nodes of several ranks; and what a mismatch, a death and a rank that has left leave. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel_parts.h"
#include "node_files.h"

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&              \
    !defined(__SANITIZE_THREAD__)
#define MEMORY_IS_LIMITED 1
#else
#define MEMORY_IS_LIMITED 0 /* emulators know no such limit, and clang's sanitizers do not outlive it */
#endif

enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, which old headers do not have */

enum { WITHIN_MS = 100, COMPUTING_MS = 600, TIMEOUT_MS = 1000, LARGE = 200000, MESSAGES_MAX = 1000000 };
enum { FULL_TIMEOUT_MS = 3000, FULL_SILENCE_MS = 300 };
enum { ROOM = 1 << 18, BARRIERS_MAX = 10000 }; /* bytes of a file, without rings */

/* The ranks of each node; 0: no more nodes. */
static const int layouts[][NODES_MAX] = {{1, 1}, {2, 1}, {2, 3}, {1, 1, 1}, {3, 1, 2}};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

struct setup {
    int node_of[HARNESS_RANKS_MAX];
    void (*part)(struct rank *rank);
    int victim; /* who dies in `death` */
};

static bool is_full; /* the shared memory of this process's node */

/* In place of the C library's, which the library calls. */
int madvise(void *address, size_t bytes, int advice) {
    if (is_full && advice == POPULATE_WRITE) {
        errno = EFAULT;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

static bool lacks_memory; /* for frames, which kolo's threads queue */

#if MEMORY_IS_LIMITED
void *__libc_calloc(size_t count, size_t bytes);

void *calloc(size_t count, size_t bytes) {
    if (!lacks_memory || gettid() == getpid())
        return __libc_calloc(count, bytes);
    errno = ENOMEM;
    return NULL;
}
#endif

/* Rank 0, which leads its node, sends until the relay has no memory for that many frames at once. */
static void lack_of_frames(struct rank *rank) {
    const int last = rank->ranks - 1;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    int32_t value = 0;
    int status = 0;
    for (int i = 0; status == 0 && i < MESSAGES_MAX; i++, lacks_memory = rank->rank == 0)
        status = rank->rank == 0      ? kolo_send(rank->comm, &value, 1, KOLO_I32, last, 1)
                 : rank->rank == last ? kolo_recv(rank->comm, &value, 1, KOLO_I32, 0, 1, NULL)
                                      : kolo_barrier(rank->comm);
    lacks_memory = false;
    const bool is_far = rank->rank > 1; /* rank 0's node may find no memory to tell the other one, either */
    expect_status(rank, status, is_far && status == KOLO_ERR_PEER_DEAD ? status : KOLO_ERR_SYSTEM, "no memory");
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.rank == 0 && (is_far || failure.reporter == 0), "rank %d is at fault, says rank %d",
           failure.rank, failure.reporter);
}

static void run_part(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_options options = rank->options;
    nodes_place(&options, setup->node_of[rank->rank]);
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create"))
        return;
    setup->part(rank);
    if (rank->comm)
        kolo_barrier(rank->comm); /* the first rank of a node carries the others' messages */
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* Each rank sends its neighbours in the ring of all ranks a large message. */
static void exchange(struct rank *rank, kolo_comm *comm) {
    static _Thread_local unsigned char sent[LARGE], taken[LARGE];
    const int self = kolo_comm_rank(comm), size = kolo_comm_size(comm), left = (self + size - 1) % size;
    kolo_received received = {.received_bytes = sizeof received};
    memset(sent, self + 1, sizeof sent);
    if (expect_status(
            rank,
            kolo_sendrecv(comm, sent, LARGE, (self + 1) % size, 3, taken, LARGE, KOLO_ANY_RANK, 3, KOLO_U8, &received),
            0, "kolo_sendrecv among the survivors"))
        expect(rank,
               received.rank == left && received.count == LARGE && taken[0] == left + 1 && taken[LARGE - 1] == left + 1,
               "%zu elements of rank %d: %d ... %d", received.count, received.rank, taken[0], taken[LARGE - 1]);
}

/* Where more than half are left, they go on. */
static void go_on(struct rank *rank) {
    kolo_comm *left = NULL;
    if (rank->ranks < 4)
        return;
    expect_status(rank, kolo_comm_shrink(rank->comm, &left), 0, "kolo_comm_shrink");
    kolo_comm_destroy(rank->comm);
    rank->comm = left;
    if (left)
        exchange(rank, left);
}

/* The last rank, of another node than rank 0, and rank 0 do not agree; the others hear of it in a barrier. */
static void mismatch(struct rank *rank) {
    static _Thread_local int32_t data[300];
    const int last = rank->ranks - 1;
    int status;
    if (rank->rank == 0)
        status = kolo_recv(rank->comm, data, 100, KOLO_I32, last, KOLO_ANY_TAG, NULL);
    else if (rank->rank == last)
        status = kolo_send(rank->comm, data, 300, KOLO_I32, 0, 7);
    else
        status = kolo_barrier(rank->comm);
    if (expect_status(rank, status, KOLO_ERR_MISMATCH, "a message that does not fit"))
        expect_message(rank, "a mismatch", "recv of 100 i32", "send of 300 i32", "tag 7", NULL);
}

/* Rank 0 waits for the last rank, which is killed before it has sent anything, or the first rank of its node is. The
 * others compute. */
static void death(struct rank *rank) {
    const int last = rank->ranks - 1;
    const struct setup *setup = rank->team->argument;
    static _Thread_local unsigned char sent[LARGE];
    kolo_request *request = NULL;
    int32_t value = 0;
    exchange(rank, rank->comm);
    kolo_barrier(rank->comm);
    if (rank->rank == setup->victim) {
        sleep_ms(50);
        event_set();
        raise(SIGKILL);
    }
    if (rank->rank == 0) {
        expect_status(rank, kolo_isend(rank->comm, sent, LARGE, KOLO_U8, last, 1, &request), 0, "kolo_isend");
        const int status = kolo_recv(rank->comm, &value, 1, KOLO_I32, last, 0, NULL);
        const int64_t took_ns = now_ns() - event_ns();
        expect_status(rank, status, KOLO_ERR_PEER_DEAD, "the death of who is waited for");
        expect_prompt(rank, took_ns, WITHIN_MS, "a death");
        expect_status(rank, kolo_request_wait(request), KOLO_ERR_PEER_DEAD, "a message in flight");
    } else {
        sleep_ms(COMPUTING_MS);
        expect(rank, kolo_barrier(rank->comm) < 0, "a barrier with a rank that is dead");
    }
    go_on(rank);
}

/* The last rank sends one message and leaves: rank 0 gets that, and learns that there are no more. Or the first rank of
 * its node leaves, and with it the node's connections: that one is named. */
static void leaving(struct rank *rank) {
    const int last = rank->ranks - 1, leaver = ((const struct setup *)rank->team->argument)->victim;
    const int64_t end_ns = now_ns() + patience_ms(20000) * 1000000;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    int32_t value = 5;
    kolo_barrier(rank->comm);
    if (rank->rank == leaver) {
        if (leaver == last)
            expect_status(rank, kolo_send(rank->comm, &value, 1, KOLO_I32, 0, 0), 0, "kolo_send");
        kolo_comm_destroy(rank->comm);
        rank->comm = NULL;
    } else if (rank->rank != 0) {
        while (counter_add(0) < 1 && now_ns() < end_ns)
            sleep_ms(1);
    } else {
        if (leaver == last)
            expect_status(rank, kolo_recv(rank->comm, &value, 1, KOLO_I32, KOLO_ANY_RANK, 0, NULL), 0, "kolo_recv");
        if (expect_status(rank, kolo_recv(rank->comm, &value, 1, KOLO_I32, last, 0, NULL), KOLO_ERR_PEER_DEAD,
                          "a receive from a rank that has left"))
            expect_message(rank, "a rank that has left", "has left", NULL);
        kolo_comm_failure(rank->comm, &failure);
        expect(rank, failure.rank == leaver, "rank %d is named, and rank %d has left", failure.rank, leaver);
        counter_add(1);
    }
}

/* Rank 0 waits for a message with a tag that the last rank does not send: it sends another one. */
static void lateness(struct rank *rank) {
    int32_t value = 0;
    kolo_barrier(rank->comm);
    const int last = rank->ranks - 1;
    char call[64];
    snprintf(call, sizeof call, "in recv of 1 i32 from rank %d, tag 2", last);
    if (rank->rank == last)
        expect_status(rank, kolo_send(rank->comm, &value, 1, KOLO_I32, 0, 1), 0, "kolo_send with another tag");
    if (rank->rank != 0) {
        sleep_ms(2 * TIMEOUT_MS);
        if (expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_TIMEOUT, "a barrier after that"))
            expect_message(rank, "a barrier after that", "did not come; rank 0 waited for it", call, NULL);
        return;
    }
    const int64_t begin_ns = now_ns();
    const int status = kolo_recv(rank->comm, &value, 1, KOLO_I32, last, 2, NULL);
    const int64_t took_ns = now_ns() - begin_ns;
    if (expect_status(rank, status, KOLO_ERR_TIMEOUT, "a receive of what is not sent"))
        expect_message(rank, "a receive of what is not sent", "node ", "did not come", call, NULL);
    expect(rank, took_ns >= TIMEOUT_MS * INT64_C(1000000), "it took only %d us", (int)(took_ns / 1000));
    expect_prompt(rank, took_ns, 2 * TIMEOUT_MS, "the deadline");
}

/* The last rank finds no memory for messages that it puts aside. The rank before it, of the same node, sends them. */
static void lack(struct rank *rank) {
    const int last = rank->ranks - 1;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    struct rlimit before;
    int32_t value = 0;
    int status = kolo_barrier(rank->comm); /* in which a late rank learns of the failure */
    if (rank->rank < last - 1 && status == 0)
        status = kolo_barrier(rank->comm);
    for (int i = 0; rank->rank == last - 1 && status == 0 && i < MESSAGES_MAX; i++)
        status = kolo_send(rank->comm, &value, 1, KOLO_I32, last, 1);
    if (rank->rank == last) {
        getrlimit(RLIMIT_DATA, &before);
        setrlimit(RLIMIT_DATA, &(struct rlimit){1, before.rlim_max}); /* Linux takes 0 for no limit */
        status = kolo_recv(rank->comm, &value, 1, KOLO_I32, last - 1, 2, NULL);
        setrlimit(RLIMIT_DATA, &before);
    }
    expect_status(rank, status, KOLO_ERR_SYSTEM, "messages for which there is no memory");
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.rank == last && failure.cause == KOLO_CAUSE_FAILED, "rank %d is at fault, cause %d",
           failure.rank, (int)failure.cause);
}

/* Rank 0 is stopped, which the others still find, and is continued once they have gone on. */
static void go_on_without_first(struct rank *rank, pid_t first) {
    kolo_comm *left = NULL;
    if (rank->rank == 0) {
        raise(SIGSTOP);
        return;
    }
    const int64_t begin_ns = now_ns();
    const int status = kolo_comm_shrink(rank->comm, &left);
    const int64_t took_ns = now_ns() - begin_ns;
    if (expect_status(rank, status, 0, "kolo_comm_shrink without rank 0"))
        kolo_barrier(left);
    if (rank->rank == rank->ranks - 1)
        kill(first, SIGCONT);
    kolo_comm_destroy(left);
    expect_prompt(rank, took_ns, FULL_TIMEOUT_MS / 2, "kolo_comm_shrink without rank 0");
}

/* The last rank's node has no shared memory left for the message that rank 0 sends there. */
static void fill(struct rank *rank, size_t count) {
    static _Thread_local unsigned char data[LARGE];
    const struct setup *setup = rank->team->argument;
    const int last = rank->ranks - 1;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    int32_t first_pid = getpid();
    int first = 0, status = 0;
    while (setup->node_of[first] != setup->node_of[last])
        first++;
    kolo_broadcast(rank->comm, &first_pid, 1, KOLO_I32, 0);
    kolo_barrier(rank->comm);
    is_full = setup->node_of[rank->rank] == setup->node_of[last];
    status = kolo_barrier(rank->comm); /* before the message; who is late in it hears there that it failed */
    if (status == 0 && rank->rank == 0)
        status = kolo_send(rank->comm, data, count, KOLO_U8, last, 1);
    else if (status == 0 && rank->rank == last)
        status = kolo_recv(rank->comm, data, count, KOLO_U8, 0, 1, NULL);
    if (status == 0)
        status = kolo_barrier(rank->comm);
    is_full = false;
    if (expect_status(rank, status, KOLO_ERR_NO_SPACE, "a message for which there is no shared memory"))
        expect_message(rank, "no shared memory", "no space for shared memory: enlarge it", "--shm-size", NULL);
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.rank == first, "rank %d is at fault", failure.rank);
    if (count == LARGE)
        go_on_without_first(rank, first_pid);
}

static void full(struct rank *rank) {
    fill(rank, 4);
}

static void full_of_chunks(struct rank *rank) {
    fill(rank, LARGE);
}

/* Rank 0 may make no file that has room for rings. The last rank, of another node, waits for a message from it, which
 * harms nobody, and then sends it one. */
static void lack_of_rings(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const int last = rank->ranks - 1;
    kolo_options options = rank->options;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_request *request = NULL;
    struct rlimit before;
    int32_t value = 0, taken;
    nodes_place(&options, setup->node_of[rank->rank]);
    getrlimit(RLIMIT_FSIZE, &before);
    if (rank->rank == 0)
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){ROOM, before.rlim_max});
    int status = kolo_comm_create(&rank->comm, &options);
    setrlimit(RLIMIT_FSIZE, &before);
    if (!expect_status(rank, status, 0, "kolo_comm_create without room for rings"))
        return;
    if (rank->rank == 0)
        expect_status(rank, kolo_send(rank->comm, &value, 1, KOLO_I32, last, 0), KOLO_ERR_NO_SPACE,
                      "its own kolo_send");
    else if (rank->rank == last)
        expect_status(rank, kolo_irecv(rank->comm, &taken, 1, KOLO_I32, 0, 0, NULL, &request), 0, "kolo_irecv");
    status = kolo_barrier(rank->comm);
    if (rank->rank == last && status == 0)
        status = kolo_send(rank->comm, &value, 1, KOLO_I32, 0, 1);
    for (int i = 0; status == 0 && i < BARRIERS_MAX; i++)
        status = kolo_barrier(rank->comm);
    expect_status(rank, status, KOLO_ERR_NO_SPACE, "a message for a rank without rings");
    kolo_comm_failure(rank->comm, &failure);
    expect(rank, failure.rank == 0, "rank %d is at fault: %s", failure.rank, failure.message);
    if (request)
        expect_status(rank, kolo_request_wait(request), KOLO_ERR_NO_SPACE, "a receive from a rank without rings");
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* Lays out the ranks of a team and says whether it is wanted; `number` chooses how nodes are linked. */
static int prepare(size_t layout, size_t number, int *node_of) {
    const int ranks = nodes_lay_out(layouts[layout], node_of);
    static const char *const links[] = {"auto,threads:1", "poll,threads:1", "auto,threads:2", "poll,threads:2"};
    setenv("KOLO_NET", links[layout % 2 * 2 + number % 2], 1);
    nodes_meet_at("127.0.0.1");
    return wants_ranks(ranks) && !(arguments.quick && (layout + number) % 2) ? ranks : 0;
}

/* leads: who dies is the first rank of the last node. */
static void run_layout(size_t layout, void (*part)(struct rank *rank), size_t number, bool leads) {
    struct setup setup = {.part = part};
    const int ranks = prepare(layout, number, setup.node_of);
    if (ranks == 0)
        return;
    for (setup.victim = ranks - 1; leads && setup.node_of[setup.victim - 1] == setup.node_of[ranks - 1];)
        setup.victim--;
    harness_run(&(struct team){.ranks = ranks,
                               .slot_bytes = 4096,
                               .timeout_ms = part == lateness ? TIMEOUT_MS : 0,
                               .creates_itself = true,
                               .victim = part == death ? setup.victim + 1 : 0,
                               .run = run_part,
                               .argument = &setup});
}

static void run_full_of_chunks(size_t layout, size_t number) {
    struct setup setup = {.part = full_of_chunks};
    char links[64], silence[16];
    const int ranks = prepare(layout, number, setup.node_of);
    snprintf(links, sizeof links, "%s,quorum:any", getenv("KOLO_NET"));
    snprintf(silence, sizeof silence, "%d", (int)patience_ms(FULL_SILENCE_MS));
    setenv("KOLO_NET", links, 1);
    setenv("KOLO_NET_SILENCE_MS", silence, 1);
    if (ranks > 0)
        harness_run(&(struct team){.ranks = ranks,
                                   .slot_bytes = 4096,
                                   .timeout_ms = patience_ms(FULL_TIMEOUT_MS),
                                   .creates_itself = true,
                                   .run = run_part,
                                   .argument = &setup});
    unsetenv("KOLO_NET_SILENCE_MS");
}

static void run_lack_of_rings(size_t layout) {
    struct setup setup = {0};
    const int ranks = prepare(layout, layout, setup.node_of);
    if (ranks > 0)
        harness_run(&(struct team){
            .ranks = ranks, .slot_bytes = 4096, .creates_itself = true, .run = lack_of_rings, .argument = &setup});
}

static void place(struct rank *rank, int node) {
    nodes_place(&rank->options, node);
}

static void run_in_flight(size_t layout, const struct in_flight_part *part, size_t number) {
    int node_of[HARNESS_RANKS_MAX];
    const struct in_flight setup = {
        .part = part, .progress = (number + layout / 2) % 2 ? 1 : -1, .place = place, .node_of = node_of};
    const int ranks = prepare(layout, number, node_of);
    if (ranks < part->ranks_min || (arguments.threads && part->dies))
        return;
    harness_run(&(struct team){.ranks = ranks,
                               .creates_itself = true,
                               .victim = part->dies ? ranks : 0,
                               .run = in_flight_run,
                               .argument = &setup});
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Messages between two ranks of several nodes.");
    setenv("KOLO_SECRET", "none", 1);
    nodes_open();
    for (size_t layout = 0; layout < LAYOUTS; layout++) {
        for (size_t part = 0; part < CHANNEL_PARTS; part++)
            run_layout(layout, channel_parts[part], part, false);
        for (size_t part = 0; part < IN_FLIGHT_PARTS; part++)
            run_in_flight(layout, &in_flight_parts[part], part);
        run_layout(layout, mismatch, layout, false);
        run_layout(layout, leaving, layout, false);
        run_layout(layout, leaving, layout, true);
        run_layout(layout, lateness, layout, false);
        if (MEMORY_IS_LIMITED && !arguments.threads && layout == 2) { /* the last two ranks are of one node */
            run_layout(layout, lack, 0, false);
            run_layout(layout, lack_of_frames, 0, false);
        }
        if (!arguments.threads)
            run_lack_of_rings(layout);
        if (!arguments.threads && layout % 2 == 0)
            run_layout(layout, full, 0, false);
        for (size_t number = 0; !arguments.threads && layouts[layout][0] == 1 && number < 2; number++)
            run_full_of_chunks(layout, number); /* others of its node would wait for rank 0 */
        for (int leads = 0; !arguments.threads && leads < 2; leads++)
            run_layout(layout, death, layout, leads);
    }
    return harness_end();
}
