/* Messages between two ranks arrive whole, unchanged and in order: of every size and dtype, with tags out of order,
 * from any rank, to oneself, in rings of sends, in exchanges that all ranks make at once, between collectives. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel_parts.h"
#include "oracle.h"

enum { GUARD = 0x5a, MARGIN = 64, BYTES_MAX = 5 << 20, TAGS = 7 };

/* Around a cell, a chunk and a stream. */
static const size_t sizes[] = {0,     1,     8,     479,    480,    481,    512,       4096,    32767,
                               32768, 32769, 65536, 131071, 131072, 131073, 163840,    1000003, 3 << 20,
                               2,     480,   7,     33000,  480,    1,      BYTES_MAX, 131072,  0};

enum { SIZES = sizeof sizes / sizeof *sizes };

/* What a message holds: by its sender, receiver and number. */
static void fill(unsigned char *data, size_t bytes, int from, int to, uint64_t number) {
    random_fill(data, bytes, random_seed(number * 1024 + (uint64_t)from, (uint64_t)to));
}

struct buffers {
    unsigned char *sent, *taken, *expected;
};

static struct buffers allocate(size_t bytes) {
    return (struct buffers){malloc(bytes + 1), malloc(bytes + MARGIN), malloc(bytes + 1)};
}

static void release(struct buffers *buffers) {
    free(buffers->sent);
    free(buffers->taken);
    free(buffers->expected);
}

enum order { AT_ONCE, SEND_FIRST, RECV_FIRST }; /* by kolo_sendrecv; by one call after the other */

/* A message sent and one received, both of the same tag and number. Counts are in elements. */
struct exchange {
    uint64_t number;
    enum order order;
    int to, from, tag;
    kolo_dtype dtype;
    size_t sent_count, taken_count;
    bool any_rank, any_tag; /* the receive asks for */
};

static int make_calls(const struct rank *rank, struct buffers *buffers, const struct exchange *what,
                      kolo_received *received) {
    const size_t room = what->taken_count + what->number % 3;
    const int from = what->any_rank ? KOLO_ANY_RANK : what->from, tag = what->any_tag ? KOLO_ANY_TAG : what->tag;
    if (what->order == AT_ONCE)
        return kolo_sendrecv(rank->comm, buffers->sent, what->sent_count, what->to, what->tag, buffers->taken, room,
                             from, tag, what->dtype, received);
    int status = 0;
    for (int turn = 0; status == 0 && turn < 2; turn++)
        status = (turn == 0) == (what->order == SEND_FIRST)
                     ? kolo_send(rank->comm, buffers->sent, what->sent_count, what->dtype, what->to, what->tag)
                     : kolo_recv(rank->comm, buffers->taken, room, what->dtype, from, tag, received);
    return status;
}

static bool check_taken(const struct rank *rank, struct buffers *buffers, size_t bytes, int from, uint64_t number) {
    fill(buffers->expected, bytes, from, rank->rank, number);
    for (size_t i = 0; i < MARGIN; i++)
        if (!expect(rank, buffers->taken[bytes + i] == GUARD, "message %llu was written beyond its end",
                    (unsigned long long)number))
            return false;
    return expect(rank, memcmp(buffers->taken, buffers->expected, bytes) == 0,
                  "message %llu from rank %d, of %zu bytes, has changed", (unsigned long long)number, from, bytes);
}

static bool exchange(const struct rank *rank, struct buffers *buffers, const struct exchange *what) {
    const size_t element_bytes = kolo_dtype_bytes(what->dtype), taken_bytes = what->taken_count * element_bytes;
    kolo_received received = {.received_bytes = sizeof received};
    fill(buffers->sent, what->sent_count * element_bytes, rank->rank, what->to, what->number);
    memset(buffers->taken, GUARD, taken_bytes + MARGIN);
    return expect_status(rank, make_calls(rank, buffers, what, &received), 0, "an exchange") &&
           expect(rank, received.rank == what->from && received.tag == what->tag && received.count == what->taken_count,
                  "message %llu: rank %d, tag %d, %zu elements, and not rank %d, tag %d, %zu",
                  (unsigned long long)what->number, received.rank, received.tag, received.count, what->from, what->tag,
                  what->taken_count) &&
           check_taken(rank, buffers, taken_bytes, what->from, what->number);
}

static void pause_at_times(uint64_t *delays) {
    if (random_below(delays, 20) == 0)
        sleep_ms((int64_t)random_below(delays, 3));
}

/* Ranks in pairs, and the one that is left with itself. */
static void run_ping_pong(struct rank *rank) {
    struct buffers buffers = allocate(BYTES_MAX);
    uint64_t delays = random_seed(3, (uint64_t)rank->rank);
    const int peer = (rank->rank ^ 1) < rank->ranks ? rank->rank ^ 1 : rank->rank;
    bool works = true;
    for (uint64_t i = 0; works && i < SIZES * (arguments.quick ? 1 : 3); i++) {
        const kolo_dtype dtype = (kolo_dtype)(i % KOLO_DTYPES);
        const size_t count = sizes[i % SIZES] / kolo_dtype_bytes(dtype);
        pause_at_times(&delays);
        works = exchange(rank, &buffers,
                         &(struct exchange){.number = i,
                                            .order = peer < rank->rank ? RECV_FIRST : SEND_FIRST,
                                            .to = peer,
                                            .from = peer,
                                            .tag = i % 2 ? (int)i : INT_MAX,
                                            .dtype = dtype,
                                            .sent_count = count,
                                            .taken_count = count,
                                            .any_rank = i % 5 == 4,
                                            .any_tag = i % 7 == 6});
    }
    release(&buffers);
}

/* All at once along a random permutation, which may send a rank to itself; a collective in between now and then. */
static void run_permutations(struct rank *rank) {
    struct buffers buffers = allocate(BYTES_MAX);
    uint64_t random = random_seed(1, (uint64_t)rank->ranks), delays = random_seed(2, (uint64_t)rank->rank);
    int to[HARNESS_RANKS_MAX], from[HARNESS_RANKS_MAX];
    bool works = true;
    for (uint64_t i = 0; works && i < (arguments.quick ? 60u : 300u); i++) {
        const uint64_t draw = random_next(&random);
        const kolo_dtype dtype = (kolo_dtype)((draw >> 8) % KOLO_DTYPES);
        size_t counts[HARNESS_RANKS_MAX];
        for (int r = 0; r < rank->ranks; r++) {
            const int other = (int)random_below(&random, (uint64_t)r + 1);
            to[r] = to[other], to[other] = r;
            counts[r] = sizes[random_below(&random, draw & 15 ? 10 : SIZES)] / kolo_dtype_bytes(dtype);
        }
        for (int r = 0; r < rank->ranks; r++)
            from[to[r]] = r;
        pause_at_times(&delays);
        /* Whoever is ahead of others could send to a rank that asks for any. */
        const bool is_alone = (draw >> 16) % 4 == 0;
        if (is_alone || (draw >> 20) % 8 == 0)
            works = expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
        works = works && exchange(rank, &buffers,
                                  &(struct exchange){.number = i,
                                                     .order = AT_ONCE,
                                                     .to = to[rank->rank],
                                                     .from = from[rank->rank],
                                                     .tag = (int)(draw >> 32 & 3),
                                                     .dtype = dtype,
                                                     .sent_count = counts[rank->rank],
                                                     .taken_count = counts[from[rank->rank]],
                                                     .any_rank = is_alone,
                                                     .any_tag = is_alone});
        int32_t sum = 1;
        if (is_alone || (draw >> 24) % 8 == 0)
            works = works &&
                    expect_status(rank, kolo_allreduce(rank->comm, &sum, &sum, 1, KOLO_I32, KOLO_SUM), 0,
                                  "kolo_allreduce") &&
                    expect(rank, sum == rank->ranks, "a sum of %d", sum);
    }
    release(&buffers);
}

/* Each rank sends each other, and itself, as many small messages as wait for nobody; then all receive, the tags in
 * another order than they were sent in. Of each tag the messages come in order. */
static void run_sends_first(struct rank *rank) {
    struct buffers buffers = allocate(KOLO_SEND_SMALL_BYTES);
    bool works = true;
    for (uint64_t round = 0; works && round < (arguments.quick ? 3u : 20u); round++) {
        for (int i = 0; works && i < rank->ranks * KOLO_SEND_SMALL_MAX; i++) {
            const int to = i % rank->ranks, m = i / rank->ranks;
            fill(buffers.sent, KOLO_SEND_SMALL_BYTES, rank->rank, to, (uint64_t)m);
            works =
                expect_status(rank, kolo_send(rank->comm, buffers.sent, KOLO_SEND_SMALL_BYTES, KOLO_I8, to, m % TAGS),
                              0, "kolo_send");
        }
        for (int i = 0; works && i < rank->ranks * TAGS; i++) {
            const int from = (rank->rank + i) % rank->ranks, tag = TAGS - 1 - i / rank->ranks;
            for (int m = tag; works && m < KOLO_SEND_SMALL_MAX; m += TAGS) {
                memset(buffers.taken, GUARD, KOLO_SEND_SMALL_BYTES + MARGIN);
                works = expect_status(
                            rank, kolo_recv(rank->comm, buffers.taken, KOLO_SEND_SMALL_BYTES, KOLO_I8, from, tag, NULL),
                            0, "kolo_recv") &&
                        check_taken(rank, &buffers, KOLO_SEND_SMALL_BYTES, from, (uint64_t)m);
            }
        }
        if (round % 3 == 0)
            works = works && expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    }
    release(&buffers);
}

enum { SERVED = 60 };

/* Rank 0 answers whoever asks, without knowing who that will be. Questions of every size, in order of each rank. */
static void serve(struct rank *rank, struct buffers *buffers) {
    uint64_t served[HARNESS_RANKS_MAX] = {0};
    for (int i = 0; i < (rank->ranks - 1) * SERVED; i++) {
        kolo_received received = {.received_bytes = sizeof received};
        memset(buffers->taken, GUARD, BYTES_MAX + MARGIN);
        if (!expect_status(
                rank, kolo_recv(rank->comm, buffers->taken, BYTES_MAX, KOLO_U8, KOLO_ANY_RANK, KOLO_ANY_TAG, &received),
                0, "kolo_recv from any"))
            return;
        const uint64_t number = served[received.rank]++;
        memset(buffers->taken + BYTES_MAX, GUARD, MARGIN);
        fill(buffers->expected, received.count, received.rank, 0, number);
        if (!expect(rank, (uint64_t)received.tag == number && received.count == sizes[number % 14],
                    "question %d of rank %d has tag %d, %zu bytes", (int)number, received.rank, received.tag,
                    received.count) ||
            !expect(rank, memcmp(buffers->taken, buffers->expected, received.count) == 0, "question %d of rank %d",
                    (int)number, received.rank) ||
            !expect_status(rank, kolo_send(rank->comm, &number, 1, KOLO_U64, received.rank, 1), 0, "the answer"))
            return;
    }
}

static void run_server(struct rank *rank) {
    struct buffers buffers = allocate(BYTES_MAX);
    if (rank->rank == 0)
        serve(rank, &buffers);
    for (uint64_t i = 0, answer; rank->rank != 0 && i < SERVED; i++) {
        const size_t bytes = sizes[i % 14];
        fill(buffers.sent, bytes, rank->rank, 0, i);
        if (!expect_status(rank, kolo_send(rank->comm, buffers.sent, bytes, KOLO_U8, 0, (int)i), 0, "the question") ||
            !expect_status(rank, kolo_recv(rank->comm, &answer, 1, KOLO_U64, 0, 1, NULL), 0, "the answer") ||
            !expect(rank, answer == i, "answer %llu to question %llu", (unsigned long long)answer,
                    (unsigned long long)i))
            break;
    }
    release(&buffers);
}

/* A stream of small messages, far more than fit a ring, with others' tags in between; and what statistics say of it. */
static void run_stream(struct rank *rank) {
    const int to = (rank->rank + 1) % rank->ranks, from = (rank->rank + rank->ranks - 1) % rank->ranks;
    const uint64_t messages = arguments.quick ? 500 : 5000;
    bool works = true;
    kolo_stats stats = {.stats_bytes = sizeof stats};
    for (uint64_t i = 0, taken; works && i < messages; i++) {
        works = expect_status(rank, kolo_send(rank->comm, &i, 1, KOLO_U64, to, (int)(i % 2)), 0, "kolo_send");
        if (i % 2) /* what was sent last first */
            for (int tag = 1; works && tag >= 0; tag--)
                works =
                    expect_status(rank, kolo_recv(rank->comm, &taken, 1, KOLO_U64, from, tag, NULL), 0, "kolo_recv") &&
                    expect(rank, taken == i - 1 + (uint64_t)tag, "%llu came in place of %llu",
                           (unsigned long long)taken, (unsigned long long)i - 1 + (unsigned)tag);
    }
    works = works && expect_status(rank, kolo_comm_stats(rank->comm, &stats), 0, "kolo_comm_stats");
    expect(rank,
           !works ||
               (stats.calls_by_collective[KOLO_SEND] == messages && stats.calls_by_collective[KOLO_RECV] == messages &&
                stats.calls == 2 * messages && stats.payload_bytes == 16 * messages),
           "%llu sends and %llu receives of %llu bytes", (unsigned long long)stats.calls_by_collective[KOLO_SEND],
           (unsigned long long)stats.calls_by_collective[KOLO_RECV], (unsigned long long)stats.payload_bytes);
}

struct refused {
    const void *buffer;
    size_t count;
    int dtype, peer, tag;
    const char *words[3]; /* for a send, a receive, and either half of an exchange */
};

static void refuse(const struct rank *rank, const struct refused *wrong) {
    char *const buffer = (char *)wrong->buffer;
    char other[8] = "";
    const kolo_dtype dtype = (kolo_dtype)wrong->dtype;
    if (wrong->words[0] &&
        expect_status(rank, kolo_send(rank->comm, buffer, wrong->count, dtype, wrong->peer, wrong->tag), KOLO_ERR_ARG,
                      wrong->words[0]))
        expect_message(rank, "kolo_send", "kolo_send", wrong->words[0], NULL);
    if (wrong->words[1] &&
        expect_status(rank, kolo_recv(rank->comm, buffer, wrong->count, dtype, wrong->peer, wrong->tag, NULL),
                      KOLO_ERR_ARG, wrong->words[1]))
        expect_message(rank, "kolo_recv", "kolo_recv", wrong->words[1], NULL);
    if (!wrong->words[2])
        return;
    if (expect_status(
            rank, kolo_sendrecv(rank->comm, buffer, wrong->count, wrong->peer, wrong->tag, other, 1, 0, 0, dtype, NULL),
            KOLO_ERR_ARG, wrong->words[2]))
        expect_message(rank, "kolo_sendrecv", "kolo_sendrecv", wrong->words[2], NULL);
}

static void run_refused(struct rank *rank) {
    static _Thread_local char data[64];
    const int self = rank->rank, other = (rank->rank + 1) % rank->ranks, from = (self + rank->ranks - 1) % rank->ranks;
    const struct refused wrong[] = {
        {data, 1, KOLO_DTYPES, other, 0, {"dtype 12", "dtype 12", "dtype 12"}},
        {data, 1, KOLO_I8, rank->ranks, 0, {"must be from 0 to", "or KOLO_ANY_RANK", "must be from 0 to"}},
        {data, 1, KOLO_I8, -1, 0, {"to -1", NULL, "to -1"}},
        {data, 1, KOLO_I8, -2, 0, {"to -2", "from -2", "to -2"}},
        {data, 1, KOLO_I8, other, -1, {"tag -1", NULL, "tag -1"}},
        {data, 1, KOLO_I8, other, -2, {"tag -2", "or KOLO_ANY_TAG", "tag -2"}},
        {NULL, 3, KOLO_I8, other, 0, {"buffer is NULL with count 3", "is NULL with count 3", "send is NULL"}},
        {data, SIZE_MAX / 4, KOLO_F32, other, 0, {"more f32 than memory", "more f32 than memory", "more f32"}},
        {data, 1, KOLO_I8, self, 5, {NULL, "has sent itself no such message", NULL}},
    };
    kolo_received received = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuse(rank, &wrong[i]);
    expect_status(rank, kolo_recv(rank->comm, data, 1, KOLO_I8, self, 0, &received), KOLO_ERR_ARG, "no size");
    expect_message(rank, "no size", "received_bytes", NULL);
    expect_status(rank, kolo_sendrecv(rank->comm, data, 8, self, 0, data + 7, 8, self, 0, KOLO_I8, NULL), KOLO_ERR_ARG,
                  "overlap");
    expect_message(rank, "overlap", "overlap", NULL);
    /* To itself: what does not fit is refused, and stays. */
    expect_status(rank, kolo_send(rank->comm, data, 8, KOLO_I8, self, 3), 0, "kolo_send to itself");
    expect_status(rank, kolo_recv(rank->comm, data, 7, KOLO_I8, self, 3, NULL), KOLO_ERR_ARG, "too few elements");
    expect_message(rank, "too few elements", "7 i8", "8 i8", "tag 3", NULL);
    expect_status(rank, kolo_recv(rank->comm, data, 8, KOLO_U8, self, 3, NULL), KOLO_ERR_ARG, "another dtype");
    expect_status(rank, kolo_sendrecv(rank->comm, data, 8, self, 3, data + 32, 7, self, 3, KOLO_I8, NULL), KOLO_ERR_ARG,
                  "an exchange with itself");
    /* Nor does what is refused send to others. */
    expect_status(rank, kolo_sendrecv(rank->comm, data, 8, other, 4, data + 32, 7, self, 4, KOLO_I8, NULL),
                  KOLO_ERR_ARG, "a receive of nothing beside a send");
    expect_status(rank, kolo_sendrecv(rank->comm, data, 8, other, 4, data + 32, 7, KOLO_ANY_RANK, 3, KOLO_I8, NULL),
                  KOLO_ERR_ARG, "a receive of too few beside a send");
    expect_status(rank, kolo_sendrecv(rank->comm, data, 7, other, 4, data + 32, 7, from, 4, KOLO_I8, NULL), 0,
                  "the call that follows");
    expect_status(rank, kolo_recv(rank->comm, data, 8, KOLO_I8, self, 3, NULL), 0, "the right receive");
    expect_status(rank, kolo_recv(rank->comm, data, 8, KOLO_I8, self, 3, NULL), KOLO_ERR_ARG, "one too many");
    expect_status(rank, kolo_barrier(rank->comm), 0, "the communicator works on");
}

void (*const channel_parts[CHANNEL_PARTS])(struct rank *) = {run_ping_pong, run_permutations, run_sends_first,
                                                             run_server,    run_stream,       run_refused};
