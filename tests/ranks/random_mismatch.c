#include "random_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own_operations.h"

enum { BEFORE_MAX = 6, AHEAD = 60, CALLS_MAX = BEFORE_MAX + AHEAD + 2, MESSAGE_COUNT_MAX = 20000 };

/* Calls that are no collectives of data, but stand among them. */
static const collective_shape others[] = {
    {KOLO_ALLOC, .reduces = false}, {KOLO_SPLIT, .reduces = false}, {KOLO_DUP, .reduces = false}};

/* A message that does not fit, in place of a collective: the odd rank sends it. */
struct misfit {
    bool exists;
    int to;
    size_t sent, room; /* elements */
    kolo_dtype sent_dtype, room_dtype;
    unsigned char *data;
};

/* What one rank does in one case. */
struct attempt {
    const struct rank *rank;
    bool has_nodes;
    kolo_comm *comm;
    int odd_rank, odd_place; /* which rank differs, and in which call */
    struct call common, odd;
    struct misfit misfit;
    unsigned char *buffers[2]; /* of kolo_alloc; NULL: none, or in use */
    int allocated;             /* calls for those */
    uint64_t mine;             /* random numbers of this rank alone */
    int made;                  /* calls so far */
    bool wrong;                /* one of them succeeded with a wrong result */
    struct prepared calls[CALLS_MAX];
    kolo_request *requests[CALLS_MAX]; /* NULL: blocking */
    int statuses[CALLS_MAX];
};

/* The dtype and the op have been drawn one by one. */
static void make_legal(struct call *call) {
    const struct own_operation *own = call->kind->reduces ? own_operation(call->op) : NULL;
    if (own && kolo_dtype_bytes(call->dtype) != own->bytes)
        call->dtype = own->dtype;
    if (!own && call->dtype == KOLO_OPAQUE)
        call->dtype = KOLO_U8;
    if (!own && !kolo_op_supports(call->op, call->dtype))
        call->op = KOLO_MAX;
}

/* A call that the others must notice. */
static struct call draw_odd(uint64_t *random, const struct call *common, int rank, int ranks, bool has_nodes) {
    struct call odd;
    do {
        const uint64_t draw = random_next(random);
        struct call other = call_draw(draw, common->index, ranks, has_nodes, KOLO_ALGORITHM_AUTO);
        other.node_of = common->node_of;
        odd = *common;
        switch (random_below(random, 9)) {
        case 0:
            odd = other;
            break;
        case 1:
            odd.kind = other.kind;
            odd.in_place = other.in_place;
            break;
        case 2:
            odd.dtype = other.dtype;
            break;
        case 3:
            odd.op = other.op;
            break;
        case 4:
            odd.root = other.root;
            break;
        case 5:
            odd.count = other.count;
            break;
        case 6:
            odd.count++;
            break;
        case 7:
            odd.uneven = (uint32_t)random_below(random, 4);
            break;
        default:
            odd = (struct call){.index = common->index, .kind = &others[draw % 3], .dtype = KOLO_U8};
        }
        make_legal(&odd);
    } while (!calls_differ(common, &odd, rank, ranks));
    return odd;
}

static int make_other(const struct attempt *attempt, kolo_collective collective) {
    kolo_comm *made;
    void *buffer;
    return collective == KOLO_ALLOC ? kolo_alloc(attempt->comm, 100, &buffer)
           : collective == KOLO_DUP ? kolo_comm_dup(attempt->comm, &made)
                                    : kolo_comm_split(attempt->comm, 0, 0, &made);
}

static bool is_misfit(const struct attempt *attempt, int place) {
    return attempt->misfit.exists && place == attempt->odd_place;
}

/* What each rank does in place of a collective: nothing, unless it sends or receives. */
static int make_misfit(struct attempt *attempt, bool blocks, kolo_request **request) {
    const struct misfit *misfit = &attempt->misfit;
    kolo_comm *comm = attempt->comm;
    const int self = attempt->rank->rank, tag = attempt->odd_place;
    if (self == attempt->odd_rank)
        return blocks ? kolo_send(comm, misfit->data, misfit->sent, misfit->sent_dtype, misfit->to, tag)
                      : kolo_isend(comm, misfit->data, misfit->sent, misfit->sent_dtype, misfit->to, tag, request);
    if (self != misfit->to)
        return 0;
    const uint64_t any = random_below(&attempt->mine, 4);
    const int from = any == 0 ? KOLO_ANY_RANK : attempt->odd_rank, wanted = any == 1 ? KOLO_ANY_TAG : tag;
    return blocks ? kolo_recv(comm, misfit->data, misfit->room, misfit->room_dtype, from, wanted, NULL)
                  : kolo_irecv(comm, misfit->data, misfit->room, misfit->room_dtype, from, wanted, NULL, request);
}

/* Makes or issues one call. Returns false if there is no point in another. */
static bool make(struct attempt *attempt, struct call call) {
    const int place = attempt->made++;
    struct prepared *prepared = &attempt->calls[place];
    const bool blocks = random_below(&attempt->mine, 2);
    if (is_misfit(attempt, place)) {
        attempt->statuses[place] = make_misfit(attempt, blocks, &attempt->requests[place]);
        return attempt->statuses[place] == 0;
    }
    if (random_below(&attempt->mine, 2) && attempt->buffers[0])
        call.shared = attempt->buffers;
    call_prepare(prepared, &call, attempt->comm);
    const bool is_other = call.kind->collective >= KOLO_ALLOC;
    if (blocks || is_other) {
        attempt->statuses[place] =
            is_other ? make_other(attempt, call.kind->collective) : call_make(prepared, attempt->comm);
        attempt->wrong |= attempt->statuses[place] == 0 && !call_check(attempt->rank, prepared, 0);
        return attempt->statuses[place] == 0;
    }
    if (prepared->shared)
        attempt->buffers[0] = NULL;
    attempt->statuses[place] = call_issue(prepared, attempt->comm, &attempt->requests[place]);
    return attempt->statuses[place] == 0;
}

/* Whether no rank may succeed in a call that one makes differently, as every rank needs something of every other, at
 * least to know that they have come. */
static bool needs_all(const struct call *call) {
    return !call->kind->has_root && call->kind->collective != KOLO_ALLTOALLV && !call->kind->is_prefix;
}

/* Between nodes the leaders speak for their ranks, and compare what has the same place among the exchanges: that may be
 * a later call of one of them, or of both. */
static void check_failure(const struct attempt *attempt, const char *words) {
    const struct rank *rank = attempt->rank;
    const kolo_collective common = attempt->common.kind->collective, odd = attempt->odd.kind->collective;
    const uint64_t call = (uint64_t)(attempt->allocated + attempt->odd_place + 1);
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(attempt->comm, &failure);
    const char *message = failure.message;
    expect(rank,
           failure.status == KOLO_ERR_MISMATCH && (attempt->has_nodes ? failure.call >= call : failure.call == call),
           "%s: in call %d: %s", words, (int)failure.call, message);
    expect(rank, attempt->has_nodes || failure.rank == attempt->odd_rank || failure.reporter == attempt->odd_rank,
           "%s: the failure does not name rank %d: %s", words, attempt->odd_rank, message);
    expect(rank, strstr(message, "ranks disagree") && !strstr(message, "unknown") && !strstr(message, "earlier"),
           "%s: the failure does not have both calls: %s", words, message);
    const bool has_common = strstr(message, kolo_name(KOLO_NAME_COLLECTIVE, common)),
               has_odd = strstr(message, kolo_name(KOLO_NAME_COLLECTIVE, odd));
    expect(rank,
           (attempt->has_nodes ? has_common || has_odd || failure.call > call : has_common && has_odd) &&
               (strstr(message, "calls") || (common == odd && strstr(message, "expects"))),
           "%s: the failure has other calls: %s", words, message);
}

static void tell(const struct attempt *attempt, char words[2 * CALL_WORDS + 64]) {
    char common[CALL_WORDS], odd[CALL_WORDS];
    const struct misfit *misfit = &attempt->misfit;
    const size_t bytes = 2 * CALL_WORDS + 64;
    if (misfit->exists) {
        snprintf(words, bytes, "call %d sends %zu %s from rank %d to rank %d, which receives %zu %s",
                 attempt->odd_place, misfit->sent, kolo_name(KOLO_NAME_DTYPE, misfit->sent_dtype), attempt->odd_rank,
                 misfit->to, misfit->room, kolo_name(KOLO_NAME_DTYPE, misfit->room_dtype));
        return;
    }
    call_tell(&attempt->common, common);
    call_tell(&attempt->odd, odd);
    snprintf(words, bytes, "call %d is %s, on rank %d %s", attempt->odd_place, common, attempt->odd_rank, odd);
}

/* Waits for what is in flight, and looks at all results. Returns the place of the first call that failed; -1: none. */
static int finish(struct attempt *attempt, const char *words) {
    const struct rank *rank = attempt->rank;
    int first = -1;
    for (int i = 0; i < attempt->made; i++) {
        const bool is_checked = is_misfit(attempt, i) || (!attempt->requests[i] && attempt->statuses[i] == 0);
        if (attempt->requests[i])
            attempt->statuses[i] = kolo_request_wait(attempt->requests[i]);
        if (attempt->statuses[i] && first < 0)
            first = i;
        if (!is_checked && attempt->statuses[i])
            call_free(&attempt->calls[i]);
        else if (!is_checked)
            attempt->wrong |= !call_check(rank, &attempt->calls[i], 0);
        expect(rank, attempt->statuses[i] || first < 0 || is_misfit(attempt, first) || is_misfit(attempt, i),
               "%s: call %d succeeded after call %d had failed", words, i, first);
    }
    expect(rank, !attempt->wrong, "%s: and then a call succeeded with a wrong result", words);
    return first;
}

/* A message is received at any time; ranks hear of it when they next wait for the receiver. */
static void check_misfit(struct attempt *attempt) {
    const struct rank *rank = attempt->rank;
    const struct misfit *misfit = &attempt->misfit;
    char words[2 * CALL_WORDS + 64], sent[64], expected[64];
    tell(attempt, words);
    const int first = finish(attempt, words);
    const int status = first < 0 ? kolo_barrier(attempt->comm) : attempt->statuses[first];
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(attempt->comm, &failure);
    snprintf(sent, sizeof sent, "send of %zu %s to rank %d", misfit->sent,
             kolo_name(KOLO_NAME_DTYPE, misfit->sent_dtype), misfit->to);
    snprintf(expected, sizeof expected, "recv of %zu %s from rank %d", misfit->room,
             kolo_name(KOLO_NAME_DTYPE, misfit->room_dtype), attempt->odd_rank);
    expect(rank, status == KOLO_ERR_MISMATCH && failure.status == KOLO_ERR_MISMATCH, "%s: call %d returned %d", words,
           first, status);
    expect(rank, failure.rank == attempt->odd_rank && failure.reporter == misfit->to,
           "%s: the failure is of rank %d, by rank %d", words, failure.rank, failure.reporter);
    expect(rank, strstr(failure.message, sent) && strstr(failure.message, expected),
           "%s: the failure has other words: %s", words, failure.message);
}

static void check(struct attempt *attempt) {
    const struct rank *rank = attempt->rank;
    char words[2 * CALL_WORDS + 64];
    tell(attempt, words);
    const int first = finish(attempt, words);
    if (expect(rank, first >= 0, "%s: %d calls succeeded", words, attempt->made) &&
        expect(rank, attempt->statuses[first] == KOLO_ERR_MISMATCH, "%s: call %d returned %d", words, first,
               attempt->statuses[first]))
        check_failure(attempt, words);
    const int ahead = first - attempt->odd_place;
    expect(rank, attempt->has_nodes || ahead <= AHEAD, "%s: %d calls succeeded from then on", words, ahead);
    expect(rank, ahead <= 0 || !needs_all(rank->rank == attempt->odd_rank ? &attempt->odd : &attempt->common),
           "%s: the call succeeded", words);
}

/* More elements than there is room for, or others. */
static void draw_misfit(struct misfit *misfit, uint64_t *random, int from, int ranks) {
    const bool is_large = random_below(random, 2), is_longer = random_below(random, 2);
    *misfit = (struct misfit){.exists = true, .data = calloc(MESSAGE_COUNT_MAX, sizeof(uint64_t))};
    misfit->to = (from + 1 + (int)random_below(random, (uint64_t)ranks - 1)) % ranks;
    misfit->sent = 1 + (size_t)random_below(random, is_large ? MESSAGE_COUNT_MAX : 60);
    misfit->room = is_longer ? (size_t)random_below(random, misfit->sent) : misfit->sent;
    misfit->sent_dtype = misfit->room_dtype = (kolo_dtype)random_below(random, KOLO_DTYPES);
    if (!is_longer)
        misfit->room_dtype =
            (kolo_dtype)((misfit->sent_dtype + 1 + random_below(random, KOLO_DTYPES - 1)) % KOLO_DTYPES);
}

/* The common call of each place, and the odd one. */
static void draw_case(struct attempt *attempt, uint32_t number, const int *node_of, struct call *calls) {
    const int ranks = attempt->rank->ranks;
    uint64_t random = random_seed(300, number);
    attempt->odd_rank = (int)random_below(&random, (uint64_t)ranks);
    attempt->odd_place = (int)random_below(&random, BEFORE_MAX);
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        calls[i] =
            call_draw(random_next(&random), number * 37 + i, ranks, attempt->has_nodes, attempt->rank->team->algorithm);
        calls[i].node_of = node_of;
    }
    calls[attempt->odd_place + AHEAD + 1] =
        (struct call){.index = number * 37, .kind = &collective_shapes[KOLO_BARRIER]};
    if (number % 4 == 3 && ranks > 1) {
        draw_misfit(&attempt->misfit, &random, attempt->odd_rank, ranks);
        return;
    }
    attempt->common = calls[attempt->odd_place];
    attempt->odd = draw_odd(&random, &attempt->common, attempt->odd_rank, ranks, attempt->has_nodes);
    if (attempt->rank->rank == attempt->odd_rank)
        calls[attempt->odd_place] = attempt->odd;
}

static bool run_case(const struct rank *rank, uint32_t number, bool has_nodes, const int *node_of) {
    struct call calls[CALLS_MAX];
    struct attempt *attempt = calloc(1, sizeof *attempt);
    attempt->rank = rank;
    attempt->has_nodes = has_nodes;
    attempt->mine = random_seed(301, number * (uint64_t)HARNESS_RANKS_MAX + (uint64_t)rank->rank);
    draw_case(attempt, number, node_of, calls);
    bool right = expect_status(rank, kolo_comm_dup(rank->comm, &attempt->comm), 0, "kolo_comm_dup");
    for (int i = 0; right && i < 2 && number % 3 == 0; i++) {
        right = expect_status(rank, kolo_alloc(attempt->comm, SHARED_BYTES, (void **)&attempt->buffers[i]), 0,
                              "kolo_alloc");
        attempt->allocated++;
    }
    if (right) /* or a slow rank would hear of the mismatch in kolo_alloc */
        right = expect_status(rank, kolo_barrier(rank->comm), 0, "the other communicator's barrier");
    for (int i = 0; right && i <= attempt->odd_place + AHEAD + 1; i++) {
        if (random_below(&attempt->mine, 30) == 0)
            sleep_ms(1);
        if (!make(attempt, calls[i]))
            break;
    }
    if (right && attempt->misfit.exists)
        check_misfit(attempt);
    else if (right)
        check(attempt);
    kolo_comm_destroy(attempt->comm);
    free(attempt->misfit.data);
    free(attempt);
    return right && expect_status(rank, kolo_barrier(rank->comm), 0, "the other communicator's barrier");
}

void mismatches_run(const struct rank *rank, uint32_t cases, bool has_nodes, const int *node_of) {
    for (uint32_t number = 0; number < cases && run_case(rank, number, has_nodes, node_of); number++)
        ;
}
