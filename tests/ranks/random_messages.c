#include "random_program.h"

#include <stdlib.h>
#include <string.h>

#include "oracle.h"

enum { GUARD = 0x5a, TAGS = 4, SPARE = 5 };

/* The messages of one event. */
struct exchange {
    const struct rank *rank;
    kolo_comm *comm;
    int self, ranks;
    uint32_t position; /* in the program */
    uint64_t draw;
    kolo_dtype dtype;
    size_t count_end;
};

/* One of them. */
struct message {
    int from, to, number; /* of those between the two */
    int tag;
    size_t count;
    unsigned char *data;
};

static uint64_t seed_of(const struct exchange *exchange, int from, int to, int number) {
    return random_seed(exchange->draw ^ exchange->position,
                       (uint64_t)((from * HARNESS_RANKS_MAX + to) * TAGS + number));
}

/* Makes up a message; whoever frees its data may change them before. */
static struct message make(const struct exchange *exchange, int from, int to, int number) {
    uint64_t seed = seed_of(exchange, from, to, number);
    struct message message = {.from = from, .to = to, .number = number};
    message.tag = (int)(exchange->position % 100000000) * TAGS + number;
    message.count = (size_t)random_below(&seed, exchange->count_end);
    message.data = malloc(message.count * kolo_dtype_bytes(exchange->dtype) + 1);
    input_fill(INPUT_BITS, exchange->dtype, KOLO_SUM, message.data, message.count, seed);
    return message;
}

/* Room for the longest message, and more. */
static unsigned char *make_room(const struct exchange *exchange, size_t *bytes) {
    *bytes = (exchange->count_end + SPARE) * kolo_dtype_bytes(exchange->dtype);
    unsigned char *room = malloc(*bytes);
    memset(room, GUARD, *bytes);
    return room;
}

/* Expects that a call has received that message, and frees both. */
static bool check(const struct exchange *exchange, int status, struct message message, unsigned char *room,
                  const kolo_received *received) {
    size_t bytes = message.count * kolo_dtype_bytes(exchange->dtype), room_bytes;
    unsigned char *untouched = make_room(exchange, &room_bytes);
    memcpy(untouched, message.data, bytes);
    const bool right =
        expect_status(exchange->rank, status, 0, "receiving") &&
        expect(exchange->rank,
               received->rank == message.from && received->tag == message.tag && received->count == message.count &&
                   memcmp(room, untouched, room_bytes) == 0,
               "event %u: message %d of %zu %s from rank %d to rank %d, tag %d: got %zu with tag %d from rank %d, or "
               "other data",
               exchange->position, message.number, message.count, kolo_name(KOLO_NAME_DTYPE, exchange->dtype),
               message.from, message.to, message.tag, received->count, received->tag, received->rank);
    free(untouched);
    free(room);
    free(message.data);
    return right;
}

/* One rank's part of a shift: each sends to one and receives from one at once. */
struct shift {
    struct message sent, taken;
    unsigned char *room;
    size_t room_count;
    int from, tag; /* that the receive asks for */
    kolo_received received;
};

static struct shift make_shift(const struct exchange *exchange, int number) {
    const uint64_t draw = exchange->draw >> 8 * number;
    const int by = (int)((draw >> 8) % (uint64_t)exchange->ranks);
    const int to = (exchange->self + by) % exchange->ranks;
    const int from = (exchange->self - by + exchange->ranks) % exchange->ranks;
    struct shift shift = {.sent = make(exchange, exchange->self, to, number),
                          .taken = make(exchange, from, exchange->self, number),
                          .received = {.received_bytes = sizeof shift.received}};
    size_t bytes;
    shift.room = make_room(exchange, &bytes);
    shift.room_count = shift.taken.count + (draw >> 42) % SPARE;
    shift.from = by && (draw >> 40) % 4 == 0 ? KOLO_ANY_RANK : from;
    shift.tag = shift.taken.tag;
    return shift;
}

static int issue(const struct exchange *exchange, struct shift *shift, bool sends, bool receives,
                 kolo_request **request) {
    const struct message *sent = &shift->sent;
    if (sends && receives)
        return kolo_isendrecv(exchange->comm, sent->data, sent->count, sent->to, sent->tag, shift->room,
                              shift->room_count, shift->from, shift->tag, exchange->dtype, &shift->received, request);
    return sends ? kolo_isend(exchange->comm, sent->data, sent->count, exchange->dtype, sent->to, sent->tag, request)
                 : kolo_irecv(exchange->comm, shift->room, shift->room_count, exchange->dtype, shift->from, shift->tag,
                              &shift->received, request);
}

/* Blocks for half of it at least, in a way of this rank's choice. */
static int make_calls(const struct exchange *exchange, struct shift *shift, uint64_t *mine) {
    const struct message *sent = &shift->sent;
    const uint64_t way = random_below(mine, 3);
    kolo_request *request = NULL;
    if (way == 0)
        return kolo_sendrecv(exchange->comm, sent->data, sent->count, sent->to, sent->tag, shift->room,
                             shift->room_count, shift->from, shift->tag, exchange->dtype, &shift->received);
    int status = issue(exchange, shift, way == 1, way == 2, &request);
    if (status == 0)
        status = way == 1 ? kolo_recv(exchange->comm, shift->room, shift->room_count, exchange->dtype, shift->from,
                                      shift->tag, &shift->received)
                          : kolo_send(exchange->comm, sent->data, sent->count, exchange->dtype, sent->to, sent->tag);
    const int waited = kolo_request_wait(request);
    return status ? status : waited;
}

static bool run_shift(const struct exchange *exchange, uint64_t *mine) {
    struct shift shift = make_shift(exchange, 0);
    if (shift.from >= 0 && shift.from != exchange->self && (exchange->draw >> 40) % 4 == 1)
        shift.tag = KOLO_ANY_TAG;
    const int status = make_calls(exchange, &shift, mine);
    free(shift.sent.data);
    return check(exchange, status, shift.taken, shift.room, &shift.received);
}

static bool send_one(const struct exchange *exchange, int to, int number) {
    struct message sent = make(exchange, exchange->self, to, number);
    const int status = kolo_send(exchange->comm, sent.data, sent.count, exchange->dtype, to, sent.tag);
    memset(sent.data, GUARD, sent.count * kolo_dtype_bytes(exchange->dtype));
    free(sent.data);
    return expect_status(exchange->rank, status, 0, "kolo_send");
}

static bool receive_one(const struct exchange *exchange, int from, int number, bool any_tag) {
    struct message taken = make(exchange, from, exchange->self, number);
    kolo_received received = {.received_bytes = sizeof received};
    size_t bytes;
    unsigned char *room = make_room(exchange, &bytes);
    const int status = kolo_recv(exchange->comm, room, exchange->count_end, exchange->dtype, from,
                                 any_tag ? KOLO_ANY_TAG : taken.tag, &received);
    return check(exchange, status, taken, room, &received);
}

/* Ranks of even number send first, each to its neighbour; the neighbours receive first. */
static bool talk_in_pairs(const struct exchange *exchange) {
    const int peer = exchange->self ^ 1;
    const bool first = exchange->self % 2 == 0;
    if (peer >= exchange->ranks)
        return true;
    return first ? send_one(exchange, peer, 0) && receive_one(exchange, peer, 0, false)
                 : receive_one(exchange, peer, 0, true) && send_one(exchange, peer, 0);
}

/* How many small messages one rank sends to another. */
static int burst_of(const struct exchange *exchange, int from, int to) {
    uint64_t seed = seed_of(exchange, from, to, TAGS - 1);
    const int count = (int)random_below(&seed, 2 * TAGS);
    return count < TAGS ? count : 0;
}

/* Small messages from all to all, and only then they are received, in an order of each rank's own. */
static bool burst(const struct exchange *exchange, uint64_t *mine) {
    const bool in_order = (exchange->draw >> 40) % 2;
    int left[HARNESS_RANKS_MAX], total = 0;
    for (int i = 0; i < exchange->ranks; i++) {
        const int to = (exchange->self + i) % exchange->ranks, count = burst_of(exchange, exchange->self, to);
        left[to] = burst_of(exchange, to, exchange->self);
        total += left[to];
        for (int number = 0; number < count; number++)
            if (!send_one(exchange, to, number))
                return false;
    }
    while (total-- > 0) {
        int from = (int)random_below(mine, (uint64_t)exchange->ranks);
        while (left[from] == 0)
            from = (from + 1) % exchange->ranks;
        left[from]--;
        const int count = burst_of(exchange, from, exchange->self);
        if (!receive_one(exchange, from, in_order ? count - 1 - left[from] : left[from], in_order))
            return false;
    }
    return true;
}

static struct exchange make_exchange(const struct rank *rank, kolo_comm *comm, uint32_t position, uint64_t draw) {
    static const size_t ends[] = {9, 200, 1000, 20000};
    return (struct exchange){.rank = rank,
                             .comm = comm,
                             .self = kolo_comm_rank(comm),
                             .ranks = kolo_comm_size(comm),
                             .position = position,
                             .draw = draw,
                             .dtype = (kolo_dtype)((draw >> 16) % KOLO_DTYPES),
                             .count_end = ends[(draw >> 24) % 4]};
}

bool messages_run(const struct rank *rank, kolo_comm *comm, uint32_t position, uint64_t draw, uint64_t *mine) {
    struct exchange exchange = make_exchange(rank, comm, position, draw);
    const size_t small = KOLO_SEND_SMALL_BYTES / kolo_dtype_bytes(exchange.dtype) + 1;
    if (draw % 3 == 0)
        return run_shift(&exchange, mine);
    if (draw % 3 == 1)
        return talk_in_pairs(&exchange);
    exchange.count_end = exchange.count_end < small ? exchange.count_end : small;
    return burst(&exchange, mine);
}

/* In the background. */

struct posted {
    struct exchange exchange;
    struct shift shift; /* of which the call sends, receives or does both */
    bool receives;
};

void posted_free(struct posted *posted) {
    free(posted->shift.sent.data);
    free(posted->shift.taken.data);
    free(posted->shift.room);
    free(posted);
}

bool posted_check(struct posted *posted, int status) {
    struct shift *shift = &posted->shift;
    const bool receives = posted->receives;
    const bool right = receives ? check(&posted->exchange, status, shift->taken, shift->room, &shift->received)
                                : expect_status(posted->exchange.rank, status, 0, "sending in the background");
    if (receives)
        shift->taken.data = shift->room = NULL;
    posted_free(posted);
    return right;
}

/* Issues one call of a shift; NULL: it could not be. */
static struct posted *post(const struct exchange *exchange, int number, bool sends, bool receives,
                           kolo_request **request) {
    struct posted *posted = malloc(sizeof *posted);
    *posted = (struct posted){.exchange = *exchange, .shift = make_shift(exchange, number), .receives = receives};
    const int status = issue(exchange, &posted->shift, sends, receives, request);
    if (expect_status(exchange->rank, status, 0, "issuing a send or a receive"))
        return posted;
    posted_free(posted);
    return NULL;
}

bool messages_post(const struct rank *rank, kolo_comm *comm, uint32_t position, uint64_t draw, uint64_t *mine,
                   struct posted *posted[POSTED_MAX], kolo_request *requests[POSTED_MAX], int *count) {
    const struct exchange exchange = make_exchange(rank, comm, position, draw);
    const int shifts = 1 + (int)(draw % 2);
    *count = 0;
    for (int number = 0; number < shifts; number++) {
        const uint64_t way = random_below(mine, 3); /* both at once, the send first, or the receive */
        for (int call = 0; call < (way ? 2 : 1); call++) {
            const bool sends = way == 0 || (call == 0) == (way == 1), receives = way == 0 || !sends;
            posted[*count] = post(&exchange, number, sends, receives, &requests[*count]);
            if (!posted[*count])
                return false;
            ++*count;
        }
    }
    return true;
}
