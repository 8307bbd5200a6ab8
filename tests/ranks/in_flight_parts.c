/* Sends and receives in the background, with and without a progress thread: in orders in which blocking ones would wait
 * for each other for ever, of every size, beside collectives, from any rank and oneself, completed in every way; and
 * how they fail. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel_parts.h"

enum { LARGE = 300000, MANY = 40, KINDS = 4, ROUNDS = 200, ROUNDS_OF_NODES = 10, COMPUTING_MS = 300 };

/* A cell, one byte more, a chunk and a half, more than a stream. */
static const size_t sizes[KINDS] = {KOLO_SEND_SMALL_BYTES, KOLO_SEND_SMALL_BYTES + 1, 50000, LARGE};

static const struct in_flight *setup_of(const struct rank *rank) {
    return rank->team->argument;
}

void in_flight_run(struct rank *rank) {
    const struct in_flight *setup = setup_of(rank);
    kolo_comm *comm;
    rank->options.progress = setup->progress;
    if (setup->place)
        setup->place(rank, setup->node_of[rank->rank]);
    if (!expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create"))
        return;
    setup->part->run(rank, comm);
    if (setup->place && !setup->part->breaks) /* the first rank of a node carries the others' messages */
        expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    kolo_comm_destroy(comm);
}

static bool has_progress(const struct rank *rank) {
    return setup_of(rank)->progress > 0;
}

static void fill(unsigned char *data, size_t bytes, int from, int number) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 7 + (i >> 8) + (size_t)from * 31 + (size_t)number * 101);
}

static bool is_right(const struct rank *rank, const unsigned char *data, size_t bytes, int from, int number) {
    unsigned char *expected = malloc(bytes + 1);
    fill(expected, bytes, from, number);
    const bool same = memcmp(data, expected, bytes) == 0;
    free(expected);
    return expect(rank, same, "message %d of rank %d, of %zu bytes, has changed", number, from, bytes);
}

static int left_of(const struct rank *rank) {
    return (rank->rank + rank->ranks - 1) % rank->ranks;
}

static int right_of(const struct rank *rank) {
    return (rank->rank + 1) % rank->ranks;
}

/* Each sends to its right and receives from its left: the order of issue, and of the waits, is another one on each. */
static void run_ring(const struct rank *rank, kolo_comm *comm) {
    unsigned char *sent = malloc(LARGE), *taken = malloc(LARGE);
    const int left = left_of(rank), right = right_of(rank);
    bool works = true;
    for (int i = 0; works && i < 8 * KINDS; i++) {
        const size_t bytes = sizes[i % KINDS];
        const int way = i / KINDS + rank->rank;
        kolo_request *requests[2] = {NULL};
        kolo_received received = {.received_bytes = sizeof received};
        fill(sent, bytes, rank->rank, i);
        memset(taken, 0, bytes);
        for (int turn = 0; turn < 2; turn++)
            if ((turn ^ way) & 1)
                works = expect_status(rank, kolo_isend(comm, sent, bytes, KOLO_U8, right, i, &requests[turn]), 0,
                                      "kolo_isend") &&
                        works;
            else
                works =
                    expect_status(rank, kolo_irecv(comm, taken, bytes, KOLO_U8, left, i, &received, &requests[turn]), 0,
                                  "kolo_irecv") &&
                    works;
        if (way & 2)
            works = expect_status(rank, kolo_request_wait_all(requests, 2), 0, "kolo_request_wait_all") && works;
        for (int turn = 0; !(way & 2) && turn < 2; turn++)
            works = expect_status(rank, kolo_request_wait(requests[turn ^ (way >> 2 & 1)]), 0, "kolo_request_wait") &&
                    works;
        works = works && is_right(rank, taken, bytes, left, i) &&
                expect(rank, received.rank == left && received.tag == i && received.count == bytes,
                       "rank %d, tag %d, %zu elements", received.rank, received.tag, received.count);
    }
    free(sent);
    free(taken);
}

/* What the other way round would block, each rank doing the same. */
static void run_half_blocking(const struct rank *rank, kolo_comm *comm) {
    unsigned char *sent = malloc(LARGE), *taken = malloc(LARGE);
    const int left = left_of(rank), right = right_of(rank);
    bool works = true;
    for (int i = 0; works && i < 3 * KINDS; i++) {
        const size_t bytes = sizes[i % KINDS];
        kolo_request *request = NULL;
        fill(sent, bytes, rank->rank, i);
        memset(taken, 0, bytes);
        if (i / KINDS == 0)
            works = expect_status(rank, kolo_irecv(comm, taken, bytes, KOLO_U8, left, 1, NULL, &request), 0, "irecv") &&
                    expect_status(rank, kolo_send(comm, sent, bytes, KOLO_U8, right, 1), 0, "kolo_send");
        else if (i / KINDS == 1)
            works = expect_status(rank, kolo_isend(comm, sent, bytes, KOLO_U8, right, 1, &request), 0, "isend") &&
                    expect_status(rank, kolo_recv(comm, taken, bytes, KOLO_U8, left, 1, NULL), 0, "kolo_recv");
        else
            works = expect_status(
                rank,
                kolo_isendrecv(comm, sent, bytes, right, 1, taken, bytes, KOLO_ANY_RANK, 1, KOLO_U8, NULL, &request), 0,
                "kolo_isendrecv");
        works = works && expect_status(rank, kolo_request_wait(request), 0, "kolo_request_wait") &&
                is_right(rank, taken, bytes, left, i);
    }
    free(sent);
    free(taken);
}

/* The last rank's messages to two others, large ones, must not keep each other waiting; and of one rank those with the
 * later tag are received first. */
static void run_crossing(const struct rank *rank, kolo_comm *comm) {
    unsigned char *sent[4], *taken = malloc(LARGE);
    kolo_request *requests[4] = {NULL};
    const int source = rank->ranks - 1;
    bool works = true;
    for (int i = 0; i < 4; i++)
        fill(sent[i] = malloc(LARGE), LARGE, rank->rank, i);
    if (rank->rank == source) {
        for (int i = 0; i < 4; i++)
            works =
                expect_status(rank, kolo_isend(comm, sent[i], LARGE, KOLO_U8, i / 2, i, &requests[i]), 0, "isend") &&
                works;
        expect_status(rank, kolo_request_wait_all(requests, 4), 0, "kolo_request_wait_all");
    }
    if (rank->rank == 0 && works)
        works = expect_status(rank, kolo_recv(comm, taken, LARGE, KOLO_U8, 1, 9, NULL), 0, "the go-ahead") &&
                is_right(rank, taken, LARGE, 1, 0);
    for (int i = 1; rank->rank < 2 && works && i >= 0; i--)
        works = expect_status(rank, kolo_recv(comm, taken, LARGE, KOLO_U8, source, 2 * rank->rank + i, NULL), 0,
                              "kolo_recv") &&
                is_right(rank, taken, LARGE, source, 2 * rank->rank + i);
    if (rank->rank == 1 && works)
        expect_status(rank, kolo_send(comm, sent[0], LARGE, KOLO_U8, 0, 9), 0, "the go-ahead");
    for (int i = 0; i < 4; i++)
        free(sent[i]);
    free(taken);
}

/* Messages go on within collectives, whichever were issued first. */
static void run_beside_collectives(const struct rank *rank, kolo_comm *comm) {
    unsigned char *sent = malloc(LARGE), *taken = malloc(LARGE);
    const int left = left_of(rank), right = right_of(rank);
    bool works = true;
    for (int i = 0; works && i < 4 * KINDS; i++) {
        const size_t bytes = sizes[i % KINDS];
        kolo_request *requests[4] = {NULL};
        int sums[2] = {1, 2};
        fill(sent, bytes, rank->rank, i);
        memset(taken, 0, bytes);
        switch (i / KINDS) {
        case 0: /* the receive is there before the barrier, the message comes after it */
            works =
                expect_status(rank, kolo_irecv(comm, taken, bytes, KOLO_U8, left, i, NULL, &requests[0]), 0, "irecv") &&
                expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier") &&
                expect_status(rank, kolo_isend(comm, sent, bytes, KOLO_U8, right, i, &requests[1]), 0, "isend");
            break;
        case 1: /* every other rank is in the barrier while its message is received */
            works = expect_status(rank, kolo_isend(comm, sent, bytes, KOLO_U8, right, i, &requests[0]), 0, "isend");
            if (rank->rank % 2)
                works = works && expect_status(rank, kolo_recv(comm, taken, bytes, KOLO_U8, left, i, NULL), 0, "recv");
            works = works && expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
            if (rank->rank % 2 == 0)
                works = works && expect_status(rank, kolo_recv(comm, taken, bytes, KOLO_U8, left, i, NULL), 0, "recv");
            break;
        case 2:
            works =
                expect_status(rank, kolo_irecv(comm, taken, bytes, KOLO_U8, left, i, NULL, &requests[0]), 0, "irecv");
            /* fall through */
        default:
            works = works &&
                    expect_status(rank, kolo_iallreduce(comm, &sums[0], &sums[0], 1, KOLO_I32, KOLO_SUM, &requests[1]),
                                  0, "kolo_iallreduce") &&
                    expect_status(rank, kolo_isend(comm, sent, bytes, KOLO_U8, right, i, &requests[2]), 0, "isend") &&
                    expect_status(rank, kolo_iallreduce(comm, &sums[1], &sums[1], 1, KOLO_I32, KOLO_SUM, &requests[3]),
                                  0, "kolo_iallreduce");
            if (i / KINDS == 3)
                works = works && expect_status(rank, kolo_recv(comm, taken, bytes, KOLO_U8, left, i, NULL), 0, "recv");
        }
        works = works && expect_status(rank, kolo_request_wait_all(requests, 4), 0, "kolo_request_wait_all") &&
                is_right(rank, taken, bytes, left, i) &&
                expect(rank, i < 2 * KINDS || (sums[0] == rank->ranks && sums[1] == 2 * rank->ranks), "sums %d and %d",
                       sums[0], sums[1]);
    }
    free(sent);
    free(taken);
}

/* More than a ring holds in flight, both ways; received in order, by receives in order. */
static void run_many(const struct rank *rank, kolo_comm *comm) {
    uint64_t sent[MANY], taken[MANY] = {0};
    kolo_request *requests[2 * MANY] = {NULL};
    const int left = left_of(rank), right = right_of(rank);
    bool works = true;
    for (int i = 0; i < MANY; i++) {
        sent[i] = (uint64_t)(rank->rank * 1000 + i);
        works =
            expect_status(rank, kolo_isend(comm, &sent[i], 1, KOLO_U64, right, i % 3, &requests[2 * i]), 0, "isend") &&
            works;
        works = expect_status(rank, kolo_irecv(comm, &taken[i], 1, KOLO_U64, left, i % 3, NULL, &requests[2 * i + 1]),
                              0, "irecv") &&
                works;
    }
    for (int left_over = 2 * MANY; works && left_over; left_over--) {
        int index = -1, done = 0;
        if (left_over % 2)
            works =
                expect_status(rank, kolo_request_wait_any(requests, 2 * MANY, &index), 0, "kolo_request_wait_any") &&
                expect(rank, index >= 0, "nothing is left to wait for");
        else {
            for (index = 0; !requests[index];)
                index++;
            while (works && !done)
                works = expect_status(rank, kolo_request_test(requests[index], &done), 0, "kolo_request_test");
            works = works && expect_status(rank, kolo_request_wait(requests[index]), 0, "kolo_request_wait");
            requests[index] = NULL;
        }
    }
    for (int i = 0; works && i < MANY; i++)
        works = expect(rank, taken[i] == (uint64_t)(left * 1000 + i), "receive %d got message %llu", i,
                       (unsigned long long)taken[i]);
}

/* Rank 0 receives from any; all send themselves something. */
static void run_any_and_self(const struct rank *rank, kolo_comm *comm) {
    int numbers[HARNESS_RANKS_MAX], own = -1, value = rank->rank, index;
    kolo_received received[HARNESS_RANKS_MAX];
    kolo_request *requests[HARNESS_RANKS_MAX] = {NULL}, *self[2] = {NULL}, *vain = NULL;
    for (int i = 1; rank->rank == 0 && i < rank->ranks; i++) {
        received[i] = (kolo_received){.received_bytes = sizeof *received};
        expect_status(rank, kolo_irecv(comm, &numbers[i], 1, KOLO_I32, KOLO_ANY_RANK, 5, &received[i], &requests[i]), 0,
                      "kolo_irecv");
    }
    expect_status(rank, kolo_irecv(comm, &own, 1, KOLO_I32, rank->rank, 1, NULL, &self[0]), 0, "kolo_irecv");
    expect_status(rank, kolo_isend(comm, &value, 1, KOLO_I32, rank->rank, 1, &self[1]), 0, "kolo_isend");
    expect_status(rank, kolo_request_wait_all(self, 2), 0, "from itself");
    expect(rank, own == rank->rank, "%d from itself", own);
    if (rank->rank)
        expect_status(rank, kolo_send(comm, &value, 1, KOLO_I32, 0, 5), 0, "kolo_send");
    else
        expect_status(rank, kolo_request_wait_all(requests, (size_t)rank->ranks), 0, "kolo_request_wait_all");
    uint64_t seen = 0;
    for (int i = 1; rank->rank == 0 && i < rank->ranks; i++) {
        expect(rank, received[i].rank == numbers[i] && received[i].tag == 5, "%d from rank %d, tag %d", numbers[i],
               received[i].rank, received[i].tag);
        seen |= UINT64_C(1) << numbers[i];
    }
    expect(rank, rank->rank || seen == (UINT64_C(1) << rank->ranks) - 2, "messages of %llx", (unsigned long long)seen);
    if (!has_progress(rank) || rank->ranks == 1) {
        expect_status(rank, kolo_irecv(comm, &own, 1, KOLO_I32, rank->rank, 1, NULL, &vain), 0, "kolo_irecv");
        if (expect_status(rank, kolo_request_wait(vain), KOLO_ERR_ARG, "what it never sent itself"))
            expect_message(rank, "what it never sent itself", "itself, tag 1", NULL);
        for (int tag = 1; tag <= 2; tag++)
            expect_status(rank, kolo_irecv(comm, &own, 1, KOLO_I32, rank->rank, tag, NULL, &self[tag - 1]), 0, "irecv");
        for (int i = 0; i < 2; i++)
            if (expect_status(rank, kolo_request_wait_any(self, 2, &index), KOLO_ERR_ARG, "what it never sent itself"))
                expect_message(rank, "one of two", index ? "itself, tag 2: it" : "itself, tag 1: it", NULL);
        expect_status(rank, kolo_irecv(comm, &own, 1, KOLO_I32, rank->rank, 1, NULL, &vain), 0, "kolo_irecv");
    }
    void *buffer;
    expect_status(rank, kolo_alloc(comm, 4096, &buffer), 0, "kolo_alloc");
    expect_status(rank, kolo_request_wait(vain), vain ? KOLO_ERR_ARG : 0, "what kolo_alloc waited for in vain");
}

/* Two receives and a send with a receive are too short for what the rank sends itself: each says its own message. */
static void run_refused(const struct rank *rank, kolo_comm *comm) {
    static const char *const words[] = {"itself, tag 0: ", "itself, tag 1: ", "itself, tag 2: "};
    static const char *const counts[] = {" is of 2 i32", " is of 3 i32", " is of 4 i32"};
    int data[4] = {0}, taken[3];
    char *large = calloc(2, LARGE);
    kolo_request *requests[3] = {NULL}, *receipt = NULL;
    for (int i = 0; i < 2; i++)
        expect_status(rank, kolo_irecv(comm, &taken[i], 1, KOLO_I32, rank->rank, i, NULL, &requests[i]), 0,
                      "kolo_irecv");
    expect_status(rank,
                  kolo_isendrecv(comm, large, LARGE / 4, right_of(rank), 9, &taken[2], 1, rank->rank, 2, KOLO_I32, NULL,
                                 &requests[2]),
                  0, "kolo_isendrecv");
    for (int i = 0; i < 3; i++)
        expect_status(rank, kolo_send(comm, data, (size_t)i + 2, KOLO_I32, rank->rank, i), 0, "kolo_send to itself");
    expect_status(rank, kolo_irecv(comm, large + LARGE, LARGE / 4, KOLO_I32, left_of(rank), 9, NULL, &receipt), 0,
                  "kolo_irecv");
    for (int i = 0; i < 3; i++)
        if (expect_status(rank, kolo_request_wait(requests[i]), KOLO_ERR_ARG, "a message that is too long"))
            expect_message(rank, "a message that is too long", words[i], counts[i], NULL);
    expect_status(rank, kolo_request_wait(receipt), 0, "what came meanwhile");
    expect_status(rank, kolo_recv(comm, data, 3, KOLO_I32, rank->rank, 1, NULL), 0, "the message, with room for it");
    expect_status(rank, kolo_irecv(comm, taken, 1, KOLO_I32, rank->rank, 3, NULL, &requests[0]), 0, "too short");
    expect_status(rank, kolo_irecv(comm, data, 4, KOLO_I32, rank->rank, 3, NULL, &requests[1]), 0, "long enough");
    expect_status(rank, kolo_send(comm, taken, 2, KOLO_I32, rank->rank, 3), 0, "kolo_send to itself");
    expect_status(rank, kolo_request_wait(requests[1]), 0, "the second of two receives");
    expect_status(rank, kolo_request_wait(requests[0]), KOLO_ERR_ARG, "the first one");
    expect_status(rank, kolo_irecv(comm, taken, 1, KOLO_I32, rank->rank, 4, NULL, &requests[0]), 0, "too short");
    expect_status(rank, kolo_sendrecv(comm, large, 2, rank->rank, 4, data, 2, rank->rank, 4, KOLO_I32, NULL), 0,
                  "kolo_sendrecv to itself behind it");
    expect_status(rank, kolo_request_wait(requests[0]), KOLO_ERR_ARG, "the one before kolo_sendrecv");
    free(large);
}

/* Issues what it sends itself while its progress thread carries out collectives and begins what was issued before. */
static void run_to_self(const struct rank *rank, kolo_comm *comm) {
    uint64_t sent[MANY], taken[MANY];
    kolo_request *requests[3 * MANY];
    const int rounds = setup_of(rank)->place ? ROUNDS_OF_NODES : ROUNDS; /* a barrier takes longer there */
    bool works = true;
    for (int round = 0; works && round < rounds; round++) {
        for (int i = 0; works && i < MANY; i++) {
            sent[i] = (uint64_t)(round * MANY + i);
            works = expect_status(rank, kolo_irecv(comm, &taken[i], 1, KOLO_U64, rank->rank, 0, NULL, &requests[i]), 0,
                                  "kolo_irecv") &&
                    expect_status(rank, kolo_ibarrier(comm, &requests[MANY + i]), 0, "kolo_ibarrier") &&
                    expect_status(rank, kolo_isend(comm, &sent[i], 1, KOLO_U64, rank->rank, 0, &requests[2 * MANY + i]),
                                  0, "kolo_isend");
        }
        works = works && expect_status(rank, kolo_request_wait_all(requests, (size_t)3 * MANY), 0, "to itself") &&
                expect(rank, memcmp(sent, taken, sizeof sent) == 0, "other messages in round %d", round);
    }
}

/* Whether a receive completes while the program only tests. */
static bool completes(const struct rank *rank, kolo_request *request) {
    int done = 0;
    for (int i = 0; i < 60000 && !done; i++) {
        if (!expect_status(rank, kolo_request_test(request, &done), 0, "kolo_request_test"))
            return false;
        if (!done)
            sleep_ms(1);
    }
    return expect(rank, done, "a receive is not complete after a minute of tests") &&
           expect_status(rank, kolo_request_wait(request), 0, "a receive");
}

/* Each receives from itself in the background what it sends in a call that blocks, or just before one: in ranks that
 * have others beside them, and in ranks alone. */
static void run_to_self_tested(const struct rank *rank, kolo_comm *comm) {
    kolo_comm *alone;
    if (!expect_status(rank, kolo_comm_split(comm, rank->rank, 0, &alone), 0, "kolo_comm_split"))
        return;
    const int rounds = setup_of(rank)->place ? ROUNDS_OF_NODES : ROUNDS; /* a barrier takes longer there */
    bool works = true;
    for (int i = 0; works && i < rounds; i++) {
        kolo_comm *const where = i % 2 ? alone : comm;
        const int self = kolo_comm_rank(where);
        int data = 0;
        kolo_request *request, *send = NULL;
        works = expect_status(rank, kolo_irecv(where, &data, 1, KOLO_I32, self, 0, NULL, &request), 0, "kolo_irecv");
        if (works && i % 4 < 2)
            works = expect_status(rank, kolo_send(where, &i, 1, KOLO_I32, self, 0), 0, "kolo_send to itself");
        else if (works)
            works =
                expect_status(rank, kolo_isend(where, &i, 1, KOLO_I32, self, 0, &send), 0, "kolo_isend to itself") &&
                expect_status(rank, kolo_barrier(where), 0, "kolo_barrier");
        works = works && completes(rank, request) && expect_status(rank, kolo_request_wait(send), 0, "the send") &&
                expect(rank, data == i, "%d came from itself, not %d", data, i);
    }
    kolo_comm_destroy(alone);
}

static int wait_in(unsigned way, kolo_request **requests, size_t count) {
    int status = 0, done = 0, index;
    for (size_t i = 0; way < 3 && status == 0 && i < count; i++, done = 0)
        if (way == 0) {
            status = kolo_request_wait(requests[i]);
        } else if (way == 1) {
            while (status == 0 && !done)
                status = kolo_request_test(requests[i], &done);
            status = status ? status : kolo_request_wait(requests[i]);
        } else {
            status = kolo_request_wait_any(requests, count, &index);
        }
    return way < 3 ? status : kolo_request_wait_all(requests, count);
}

/* A message is complete at once where it is sent, and not yet where it is received. Which collectives a wait carries
 * out must not depend on that: else one rank blocks in them, the other one in what comes next, on another communicator.
 * is_late: they are issued after the message, as kolo_request_wait_any carries out those, too. */
static bool carry_out(const struct rank *rank, kolo_comm *const *comms, unsigned way, bool is_late) {
    kolo_request *barriers[2] = {NULL}, *messages[2] = {NULL};
    const bool sends = rank->rank % 2 == 0;
    const int peer = rank->rank ^ 1;
    int sent[2] = {rank->rank, rank->rank + 1}, taken[2] = {0};
    bool works = true;
    for (int i = 0; i < 2; i++) {
        if (!is_late)
            works = works && expect_status(rank, kolo_ibarrier(comms[i], &barriers[i]), 0, "kolo_ibarrier");
        if (peer < rank->ranks)
            works = works &&
                    expect_status(rank,
                                  sends ? kolo_isend(comms[i], &sent[i], 1, KOLO_I32, peer, 3, &messages[i])
                                        : kolo_irecv(comms[i], &taken[i], 1, KOLO_I32, peer, 3, NULL, &messages[i]),
                                  0, "issuing a message");
        if (is_late)
            works = works && expect_status(rank, kolo_ibarrier(comms[i], &barriers[i]), 0, "kolo_ibarrier");
    }
    works = works &&
            expect_status(rank, peer < rank->ranks ? wait_in(way, messages, 2) : kolo_request_wait_all(barriers, 2), 0,
                          "waiting");
    works = works && (sends || expect(rank, taken[0] == peer && taken[1] == peer + 1, "%d and %d", taken[0], taken[1]));
    return works && expect_status(rank, kolo_barrier(comms[2]), 0, "another communicator's barrier") &&
           expect_status(rank, kolo_request_wait_all(barriers, 2), 0, "the barriers");
}

static void run_carried(const struct rank *rank, kolo_comm *comm) {
    kolo_comm *comms[3] = {comm, NULL, NULL};
    bool works = expect_status(rank, kolo_comm_dup(comm, &comms[1]), 0, "kolo_comm_dup") &&
                 expect_status(rank, kolo_comm_dup(comm, &comms[2]), 0, "kolo_comm_dup");
    for (unsigned way = 0; works && way < 4; way++)
        works = carry_out(rank, comms, way, false);
    works = works && carry_out(rank, comms, 2, true);
    kolo_comm_destroy(comms[2]);
    kolo_comm_destroy(comms[1]);
}

/* Rank 0, which has a progress thread, is itself late with what it never sends itself. */
static void run_vain(const struct rank *rank, kolo_comm *comm) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_request *request = NULL;
    int value;
    if (!has_progress(rank))
        return;
    expect_status(rank, kolo_comm_set_timeout(comm, rank->rank ? 0 : COMPUTING_MS), 0, "kolo_comm_set_timeout");
    const int issued =
        rank->rank ? kolo_ibarrier(comm, &request) : kolo_irecv(comm, &value, 1, KOLO_I32, 0, 1, NULL, &request);
    expect_status(rank, issued, 0, "issuing");
    expect_status(rank, kolo_request_wait(request), KOLO_ERR_TIMEOUT, "what rank 0 never sent itself");
    expect_status(rank, kolo_comm_failure(comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.rank == 0, "rank %d is at fault", failure.rank);
}

static void run_arguments(const struct rank *rank, kolo_comm *comm) {
    kolo_request *const untouched = (kolo_request *)&comm, *request = untouched;
    int value = 0;
    const struct {
        int status;
        const char *function, *words;
    } refused[] = {
        {kolo_isend(comm, &value, 1, KOLO_I32, 0, 0, NULL), "kolo_isend", "request is NULL"},
        {kolo_isend(NULL, &value, 1, KOLO_I32, 0, 0, &request), "kolo_isend", "comm is NULL"},
        {kolo_isend(comm, &value, 1, KOLO_I32, rank->ranks, 0, &request), "kolo_isend", "must be from 0 to"},
        {kolo_irecv(comm, NULL, 1, KOLO_I32, 0, 0, NULL, &request), "kolo_irecv", "buffer is NULL"},
        {kolo_isendrecv(comm, &value, 1, 0, 0, &value, 1, 0, 0, KOLO_I32, NULL, &request), "kolo_isendrecv", "overlap"},
    };
    /* Messages are those of the thread's last failed call. */
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        expect_status(rank, refused[i].status, KOLO_ERR_ARG, refused[i].words);
    expect_message(rank, refused[4].words, refused[4].function, refused[4].words, NULL);
    expect(rank, request == untouched, "a refused call has changed the request");
}

/* Ends: rank 0 waits for what the last rank does not send. */

enum end { ABORTS, LEAVES, DIES, DISAGREES };

static void run_end(const struct rank *rank, kolo_comm *comm, enum end end) {
    static const int statuses[] = {KOLO_ERR_ABORTED, KOLO_ERR_PEER_DEAD, KOLO_ERR_PEER_DEAD, KOLO_ERR_MISMATCH};
    const int last = rank->ranks - 1;
    char *large = calloc(1, LARGE), small[8];
    kolo_request *requests[2] = {NULL};
    expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    if (rank->rank == last && setup_of(rank)->place)
        sleep_ms(COMPUTING_MS / 3); /* a failure would end a barrier that others are still in */
    if (rank->rank == last && end == DIES) {
        event_set();
        kill(getpid(), SIGKILL);
    }
    if (rank->rank == last && end == ABORTS)
        expect_status(rank, kolo_comm_abort(comm, 3), 0, "kolo_comm_abort");
    if (rank->rank == last && end == DISAGREES) {
        expect_status(rank, kolo_isend(comm, large, LARGE, KOLO_I8, 0, 1, &requests[0]), 0, "kolo_isend");
        if (expect_status(rank, kolo_request_wait(requests[0]), KOLO_ERR_MISMATCH, "its send"))
            expect_message(rank, "its send", "send of 300000 i8 to rank 0", "recv of 8 i8", NULL);
    }
    if (rank->rank == 0) {
        const int issued[2] = {
            kolo_irecv(comm, small, sizeof small, KOLO_I8, last, 1, NULL, &requests[0]),
            kolo_isendrecv(comm, large, LARGE, last, 1, small, 1, 0, 2, KOLO_I8, NULL, &requests[1])};
        /* A failure may be known by then. The receive from itself is in vain. */
        for (int i = 1; i >= 0; i--)
            if (issued[i] != KOLO_ERR_STATE && expect_status(rank, issued[i], 0, "issuing"))
                expect_status(rank, kolo_request_wait(requests[i]), statuses[end], "what cannot complete");
    } else if (rank->rank != last && setup_of(rank)->place) {
        sleep_ms(2 *
                 COMPUTING_MS); /* others can hear of it only while the first rank of the last one's node is there */
    }
    free(large);
}

static void run_abort(const struct rank *rank, kolo_comm *comm) {
    run_end(rank, comm, ABORTS);
}

static void run_departure(const struct rank *rank, kolo_comm *comm) {
    run_end(rank, comm, LEAVES);
}

static void run_death(const struct rank *rank, kolo_comm *comm) {
    run_end(rank, comm, DIES);
}

static void run_mismatch(const struct rank *rank, kolo_comm *comm) {
    run_end(rank, comm, DISAGREES);
}

/* A message goes on while its receiver waits in another communicator for the sender, who waits for the message first.
 */
static void run_elsewhere(const struct rank *rank, kolo_comm *comm) {
    unsigned char *data = malloc(LARGE), sign = 0;
    kolo_request *request = NULL;
    kolo_comm *other = NULL;
    bool works = expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup");
    for (int round = 0; works && round < 2; round++) {
        const bool sends = rank->rank == 0, receives = rank->rank == 1;
        fill(data, LARGE, rank->rank, round);
        works =
            (!sends || (expect_status(rank, kolo_isend(comm, data, LARGE, KOLO_U8, 1, 0, &request), 0, "isend") &&
                        expect_status(rank, kolo_request_wait(request), 0, "the send") &&
                        (round == 0 || expect_status(rank, kolo_send(other, &sign, 1, KOLO_U8, 1, 0), 0, "a sign")))) &&
            (!receives ||
             (expect_status(rank, kolo_irecv(comm, data, LARGE, KOLO_U8, 0, 0, NULL, &request), 0, "irecv") &&
              (round == 0 ||
               expect_status(rank, kolo_recv(other, &sign, 1, KOLO_U8, 0, 0, NULL), 0, "its receipt")))) &&
            expect_status(rank, kolo_barrier(other), 0, "a barrier elsewhere") &&
            (!receives || (expect_status(rank, kolo_request_wait(request), 0, "the receive") &&
                           is_right(rank, data, LARGE, 0, round)));
    }
    kolo_comm_destroy(other);
    free(data);
}

/* A wait for any request ends when that of the other communicator is complete. The one of this, which was issued first,
 * cannot be complete before. */
static void run_any_elsewhere(const struct rank *rank, kolo_comm *comm) {
    int data[2] = {0}, index = -1;
    kolo_request *requests[2] = {NULL};
    kolo_comm *other = NULL;
    if (!expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup"))
        return;
    if (rank->rank == 0) {
        expect_status(rank, kolo_irecv(comm, &data[0], 1, KOLO_I32, 1, 0, NULL, &requests[0]), 0, "kolo_irecv");
        expect_status(rank, kolo_irecv(other, &data[1], 1, KOLO_I32, 1, 0, NULL, &requests[1]), 0, "kolo_irecv");
        expect_status(rank, kolo_request_wait_any(requests, 2, &index), 0, "kolo_request_wait_any");
        expect(rank, index == 1, "request %d was complete", index);
        expect_status(rank, kolo_send(other, &index, 1, KOLO_I32, 1, 0), 0, "kolo_send");
        expect_status(rank, kolo_request_wait(requests[0]), 0, "kolo_request_wait");
    } else if (rank->rank == 1) {
        sleep_ms(20); /* rank 0 waits */
        expect_status(rank, kolo_send(other, &index, 1, KOLO_I32, 0, 0), 0, "kolo_send");
        expect_status(rank, kolo_recv(other, &index, 1, KOLO_I32, 0, 0, NULL), 0, "kolo_recv");
        expect_status(rank, kolo_send(comm, &index, 1, KOLO_I32, 0, 0), 0, "kolo_send");
    }
    kolo_comm_destroy(other);
}

/* All ranks carry out collectives of two communicators in the order of issue, though rank 0 has sent itself a message
 * on the second one before. */
static void run_any_in_order(const struct rank *rank, kolo_comm *comm) {
    int sent = 7, taken = 0, sums[2] = {0}, index;
    kolo_request *requests[3] = {NULL};
    kolo_comm *other = NULL;
    bool works = expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup");
    if (rank->rank == 0)
        works = works && expect_status(rank, kolo_isend(comm, &sent, 1, KOLO_I32, 0, 5, &requests[0]), 0, "kolo_isend");
    for (int i = 0; i < 2; i++)
        works = works &&
                expect_status(
                    rank, kolo_iallreduce(i ? comm : other, &sent, &sums[i], 1, KOLO_I32, KOLO_SUM, &requests[1 + i]),
                    0, "kolo_iallreduce");
    for (int i = rank->rank ? 1 : 0; works && i < 3; i++)
        works = expect_status(rank, kolo_request_wait_any(requests, 3, &index), 0, "kolo_request_wait_any");
    if (rank->rank == 0)
        works = works && expect_status(rank, kolo_recv(comm, &taken, 1, KOLO_I32, 0, 5, NULL), 0, "kolo_recv") &&
                expect(rank, taken == sent, "%d came from itself", taken);
    for (int i = 0; works && i < 2; i++)
        works = expect(rank, sums[i] == sent * rank->ranks, "sum %d is %d", i, sums[i]);
    kolo_comm_destroy(other);
}

static void hold(void *held) {
    while (atomic_load((atomic_bool *)held))
        ;
}

/* A wait for any gives up a receive from itself that is among its requests, and never another one. */
static void run_any_unlisted(const struct rank *rank, kolo_comm *comm) {
    kolo_comm *alone;
    if (!expect_status(rank, kolo_comm_split(comm, rank->rank, 0, &alone), 0, "kolo_comm_split"))
        return;
    bool works = true;
    for (int i = 0; works && i < ROUNDS; i++) {
        const bool is_sent = i % 2;
        int later = 0, now = 0, index;
        kolo_request *unlisted, *held = NULL, *requests[2] = {NULL};
        atomic_bool holds = has_progress(rank) && is_sent;
        works =
            expect_status(rank, kolo_irecv(alone, &later, 1, KOLO_I32, 0, 1, NULL, &unlisted), 0, "kolo_irecv") &&
            (!holds || expect_status(rank, kolo_irun(alone, hold, &holds, &held), 0, "kolo_irun")) &&
            expect_status(rank, kolo_irecv(alone, &now, 1, KOLO_I32, 0, 2, NULL, &requests[0]), 0, "kolo_irecv") &&
            (!is_sent || expect_status(rank, kolo_isend(alone, &i, 1, KOLO_I32, 0, 2, &requests[1]), 0, "kolo_isend"));
        atomic_store(&holds, false);
        for (int left = is_sent ? 2 : 1; works && left; left--)
            works = expect_status(rank, kolo_request_wait_any(requests, 2, &index), is_sent ? 0 : KOLO_ERR_ARG, "any");
        works = works && expect_status(rank, kolo_send(alone, &i, 1, KOLO_I32, 0, 1), 0, "kolo_send") &&
                expect_status(rank, kolo_request_wait(unlisted), 0, "a receive that is not among them") &&
                expect_status(rank, kolo_request_wait(held), 0, "a function") &&
                expect(rank, later == i && now == (is_sent ? i : 0), "%d and %d came, not %d", later, now, i);
    }
    kolo_comm_destroy(alone);
}

/* A wait for any carries out the collective before a message, whichever communicator's message was issued first. */
static void run_any_behind(const struct rank *rank, kolo_comm *comm) {
    int data[2] = {0}, index, peer = !rank->rank;
    kolo_request *requests[2] = {NULL}, *barrier;
    kolo_comm *other = NULL;
    if (!expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup"))
        return;
    if (rank->rank == 0) {
        expect_status(rank, kolo_irecv(comm, &data[0], 1, KOLO_I32, peer, 0, NULL, &requests[0]), 0, "kolo_irecv");
        expect_status(rank, kolo_ibarrier(other, &barrier), 0, "kolo_ibarrier");
        expect_status(rank, kolo_irecv(other, &data[1], 1, KOLO_I32, peer, 0, NULL, &requests[1]), 0, "kolo_irecv");
        for (int i = 0; i < 2; i++)
            expect_status(rank, kolo_request_wait_any(requests, 2, &index), 0, "kolo_request_wait_any");
        expect_status(rank, kolo_request_wait(barrier), 0, "a barrier");
    } else {
        expect_status(rank, kolo_barrier(other), 0, "kolo_barrier");
        if (rank->rank == 1) {
            expect_status(rank, kolo_send(other, &peer, 1, KOLO_I32, 0, 0), 0, "kolo_send");
            expect_status(rank, kolo_send(comm, &peer, 1, KOLO_I32, 0, 0), 0, "kolo_send");
        }
    }
    kolo_comm_destroy(other);
}

/* Two ranks test for a message of one communicator each, while the other rank sends on the communicator for which it
 * does not test. */
static void run_tested_elsewhere(const struct rank *rank, kolo_comm *comm) {
    char *sent = calloc(1, LARGE), *taken = malloc(LARGE);
    kolo_comm *comms[2] = {comm};
    kolo_request *receive, *send;
    if (expect_status(rank, kolo_comm_dup(comm, &comms[1]), 0, "kolo_comm_dup") && rank->rank < 2) {
        const int peer = !rank->rank;
        expect_status(rank, kolo_irecv(comms[rank->rank], taken, LARGE, KOLO_I8, peer, 0, NULL, &receive), 0, "irecv");
        expect_status(rank, kolo_isend(comms[peer], sent, LARGE, KOLO_I8, peer, 0, &send), 0, "kolo_isend");
        completes(rank, receive);
        expect_status(rank, kolo_request_wait(send), 0, "the send");
    }
    kolo_comm_destroy(comms[1]);
    free(sent);
    free(taken);
}

const struct in_flight_part in_flight_parts[IN_FLIGHT_PARTS] = {{run_ring, 1, false, false},
                                                                {run_half_blocking, 1, false, false},
                                                                {run_crossing, 3, false, false},
                                                                {run_beside_collectives, 2, false, false},
                                                                {run_many, 1, false, false},
                                                                {run_any_and_self, 1, false, false},
                                                                {run_to_self, 1, false, false},
                                                                {run_carried, 2, false, false},
                                                                {run_arguments, 1, false, false},
                                                                {run_abort, 2, true, false},
                                                                {run_departure, 2, true, false},
                                                                {run_death, 2, true, true},
                                                                {run_mismatch, 2, true, false},
                                                                {run_elsewhere, 2, false, false},
                                                                {run_refused, 1, false, false},
                                                                {run_any_elsewhere, 2, false, false},
                                                                {run_vain, 2, true, false},
                                                                {run_any_in_order, 2, false, false},
                                                                {run_to_self_tested, 1, false, false},
                                                                {run_any_unlisted, 1, false, false},
                                                                {run_any_behind, 2, false, false},
                                                                {run_tested_elsewhere, 2, false, false}};
