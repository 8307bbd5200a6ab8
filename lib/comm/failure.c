#include "comm/failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

/* The published word: a mark, the negated status, the rank at fault and the reporter. */
#define PUBLISHED (UINT64_C(1) << 63)

static uint64_t pack(int status, uint32_t rank, uint32_t reporter) {
    return PUBLISHED | (uint64_t)-status << 32 | (uint64_t)rank << 16 | reporter;
}

static int status_of(uint64_t word) {
    return -(int)(word >> 32 & 0xff);
}

static uint32_t rank_of(uint64_t word) {
    return word >> 16 & 0xffff;
}

static uint32_t reporter_of(uint64_t word) {
    return word & 0xffff;
}

/* "allreduce of 1024 f32, sum" */
static void describe_call(uint64_t call, char *text, size_t text_bytes) {
    kolo_collective collective = (kolo_collective)((call >> 59) - 1);
    kolo_dtype dtype = (kolo_dtype)(call >> 54 & 31);
    kolo_op op = (kolo_op)(call >> 50 & 15);
    const char *name = kolo_collective_name(collective), *dtype_name = kolo_dtype_name(dtype),
               *op_name = kolo_op_name(op);
    uint64_t count = call & KOLO_CALL_COUNT;
    if (!name || !dtype_name || !op_name)
        snprintf(text, text_bytes, "an unknown call");
    else if (collective == KOLO_ALLREDUCE)
        snprintf(text, text_bytes, "allreduce of %" PRIu64 " %s, %s", count, dtype_name, op_name);
    else if (collective == KOLO_BROADCAST)
        snprintf(text, text_bytes, "broadcast of %" PRIu64 " %s from rank %" PRIu64, count, dtype_name,
                 call >> 40 & 1023);
    else
        snprintf(text, text_bytes, "%s", name);
}

/* What call number `call` of `rank` was, if it is one of its recent ones. */
static uint64_t call_of(const kolo_comm *comm, uint32_t rank, uint64_t call) {
    return kolo_load_acquire(&comm->segment.signals[rank].recent[call % KOLO_RECENT_CALLS]);
}

static void describe_word(const kolo_comm *comm, uint64_t word, kolo_failure *failure) {
    const struct kolo_shared_member *reporter = &comm->segment.members[reporter_of(word) % comm->size];
    const struct kolo_shared_member *culprit = &comm->segment.members[rank_of(word) % comm->size];
    char where[64] = "between calls";
    memset(failure, 0, sizeof *failure);
    failure->status = status_of(word);
    failure->rank = (int)rank_of(word);
    failure->reporter = (int)reporter_of(word);
    failure->code = (int)reporter->failure_code;
    failure->call = reporter->failure_call;
    if (failure->call)
        snprintf(where, sizeof where, "in call %" PRIu64, failure->call);
    char *text = failure->message;
    const size_t bytes = sizeof failure->message;
    switch (failure->status) {
    case KOLO_ERR_PEER_DEAD:
        snprintf(text, bytes, "rank %d (pid %" PRIu32 ") %s; found by rank %d %s", failure->rank, culprit->pid,
                 kolo_load_acquire(&culprit->state) == KOLO_MEMBER_DEPARTED ? "has left the communicator" : "has died",
                 failure->reporter, where);
        break;
    case KOLO_ERR_TIMEOUT:
        snprintf(text, bytes, "rank %d (pid %" PRIu32 ") did not come; rank %d waited for it %s until the deadline",
                 failure->rank, culprit->pid, failure->reporter, where);
        break;
    case KOLO_ERR_MISMATCH: {
        char their_call[80], own_call[80];
        const uint64_t theirs = call_of(comm, (uint32_t)failure->rank, failure->call);
        const uint64_t own = call_of(comm, (uint32_t)failure->reporter, failure->call);
        describe_call(theirs, their_call, sizeof their_call);
        describe_call(own, own_call, sizeof own_call);
        snprintf(text, bytes, "ranks disagree %s: rank %d calls %s, rank %d calls %s%s", where, failure->reporter,
                 own_call, failure->rank, their_call, theirs == own ? ", but they differ in an earlier call" : "");
        break;
    }
    case KOLO_ERR_ABORTED:
        snprintf(text, bytes, "rank %d aborted the communicator with code %d", failure->rank, failure->code);
        break;
    default:
        snprintf(text, bytes, "rank %d failed: %s", failure->rank, kolo_strerror(failure->status));
    }
}

void kolo_failure_describe(const kolo_comm *comm, kolo_failure *failure) {
    uint64_t word = comm->segment.header ? kolo_load_acquire(&comm->segment.header->failure) : 0;
    memset(failure, 0, sizeof *failure);
    if (word)
        describe_word(comm, word, failure);
}

/* Breaks this rank's communicator with the failure that was published. */
static int adopt(kolo_comm *comm) {
    kolo_failure failure;
    kolo_failure_describe(comm, &failure);
    comm->token->usable = false;
    kolo_log(comm->log_level, KOLO_LOG_ERROR, (int)comm->rank, "%s", failure.message);
    return kolo_fail(failure.status, "rank %" PRIu32 ": %s", comm->rank, failure.message);
}

int kolo_failure_publish(kolo_comm *comm, int status, uint32_t rank, int64_t code) {
    struct kolo_shared_member *self = &comm->segment.members[comm->rank];
    struct kolo_shared_header *header = comm->segment.header;
    /* Before the swap that publishes them; read after the acquire of the header's failure. */
    if (kolo_load_acquire(&header->failure) == 0) {
        self->failure_code = code;
        self->failure_call = comm->calls;
        kolo_compare_and_swap(&header->failure, 0, pack(status, rank, comm->rank));
    }
    return adopt(comm);
}

/* True if `peer` has begun the call of this rank's number, and it was another one. What it shows of that call cannot be
 * of a later one, since it is never KOLO_RECENT_CALLS ahead. */
static bool differs(const kolo_comm *comm, uint32_t peer) {
    const struct kolo_shared_signal *signal = &comm->segment.signals[peer];
    return kolo_load_acquire(&signal->calls) >= comm->calls && /* pairs with kolo_call_begin */
           call_of(comm, peer, comm->calls) != comm->call;
}

/* The rank that has got least far: fewest calls, then fewest steps; `peer` among equals. Whoever waits at the deadline
 * may wait for one that waits itself. */
static uint32_t furthest_behind(const kolo_comm *comm, uint32_t peer) {
    const struct kolo_shared_signal *signals = comm->segment.signals;
    uint32_t last = peer;
    uint64_t last_calls = kolo_load_acquire(&signals[peer].calls);
    uint64_t last_step = kolo_load_acquire(&signals[peer].progress);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const uint64_t calls = kolo_load_acquire(&signals[rank].calls);
        const uint64_t step = kolo_load_acquire(&signals[rank].progress);
        if (calls < last_calls || (calls == last_calls && step < last_step))
            last = rank, last_calls = calls, last_step = step;
    }
    return last;
}

/* What keeps `wait` from ending, and which rank is to blame. */
static int find_cause(kolo_comm *comm, const struct kolo_wait *wait, uint32_t *culprit) {
    const struct kolo_shared_member *members = comm->segment.members;
    *culprit = wait->peer;
    if (differs(comm, wait->peer))
        return KOLO_ERR_MISMATCH;
    kolo_liveness_look(&comm->liveness, members, comm->rank);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        bool departed = kolo_load_acquire(&members[rank].state) == KOLO_MEMBER_DEPARTED;
        if ((comm->liveness.ended[rank] && !departed) || (departed && rank == wait->peer)) {
            *culprit = rank;
            return KOLO_ERR_PEER_DEAD;
        }
    }
    if (wait->waited_ns < comm->waiter.timeout_ns)
        return 0;
    *culprit = furthest_behind(comm, wait->peer);
    return KOLO_ERR_TIMEOUT;
}

int kolo_failure_check(kolo_waiter *waiter, const struct kolo_wait *wait) {
    kolo_comm *comm = waiter->owner;
    if (kolo_load_acquire(&comm->segment.header->failure)) /* pairs with kolo_failure_publish */
        return adopt(comm);
    uint32_t culprit;
    int cause = find_cause(comm, wait, &culprit);
    if (cause == 0 || kolo_wait_reached(wait))
        return 0;
    return kolo_failure_publish(comm, cause, culprit, 0);
}
