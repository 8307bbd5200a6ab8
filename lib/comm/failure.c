#include "comm/failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/history.h"
#include "comm/standing.h"
#include "sync/point.h"

/* What was found. */
struct finding {
    int status;
    uint32_t rank; /* at fault */
    kolo_cause cause;
    int detail;    /* the signal or exit status; of a rank that did not come: what it does, see kolo_process_activity */
    uint64_t call; /* in which it was found; 0: the present one */
};

/* The published word: a mark, detail (8 bits), cause (8), the negated status (8), the rank at fault (16) and the
 * reporter (16). */
#define PUBLISHED (UINT64_C(1) << 63)

static uint64_t pack(const struct finding *finding, uint32_t reporter) {
    return PUBLISHED | (uint64_t)(finding->detail & 0xff) << 48 | (uint64_t)finding->cause << 40 |
           (uint64_t)-finding->status << 32 | (uint64_t)finding->rank << 16 | reporter;
}

static int detail_of(uint64_t word) {
    return (int)(word >> 48 & 0xff);
}

static kolo_cause cause_of(uint64_t word) {
    return (kolo_cause)(word >> 40 & 0xff);
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

/* What call number `call` of `rank` was, if it is one of its last ones. */
static uint64_t call_of(const kolo_comm *comm, uint32_t rank, uint64_t call) {
    return kolo_load_acquire(&comm->segment.histories[rank].words[call % (2 * KOLO_HISTORY)]);
}

/* "was killed by signal 9 (KILL)" */
static void describe_end(kolo_cause cause, int detail, char *text, size_t text_bytes) {
    const char *name = cause == KOLO_CAUSE_KILLED ? sigabbrev_np(detail) : NULL;
    if (cause == KOLO_CAUSE_KILLED)
        snprintf(text, text_bytes, "was killed by signal %d%s%s%s", detail, name ? " (SIG" : "", name ? name : "",
                 name ? ")" : "");
    else if (cause == KOLO_CAUSE_EXITED)
        snprintf(text, text_bytes, "exited with status %d without kolo_comm_destroy", detail);
    else if (cause == KOLO_CAUSE_LEFT)
        snprintf(text, text_bytes, "has left the communicator");
    else
        snprintf(text, text_bytes, "has ended (the system does not tell how)");
}

void kolo_failure_unpack(uint64_t word, kolo_failure *failure) {
    memset(failure, 0, sizeof *failure);
    failure->status = status_of(word);
    failure->rank = (int)rank_of(word);
    failure->reporter = (int)reporter_of(word);
}

static void describe_word(const kolo_comm *comm, uint64_t word, kolo_failure *failure) {
    const struct kolo_shared_member *reporter = &comm->segment.members[reporter_of(word) % comm->size];
    const struct kolo_shared_member *culprit = &comm->segment.members[rank_of(word) % comm->size];
    char where[64] = "between calls", end[80];
    kolo_failure_unpack(word, failure);
    failure->code = (int)reporter->failure_code;
    failure->cause = cause_of(word);
    failure->call = reporter->failure_call;
    if (failure->call)
        snprintf(where, sizeof where, "in call %" PRIu64, failure->call);
    char *text = failure->message;
    const size_t bytes = sizeof failure->message;
    switch (failure->status) {
    case KOLO_ERR_PEER_DEAD:
        failure->code = detail_of(word);
        describe_end(failure->cause, failure->code, end, sizeof end);
        snprintf(text, bytes, "rank %d (pid %" PRIu32 ") %s; found by rank %d %s", failure->rank, culprit->process.pid,
                 end, failure->reporter, where);
        break;
    case KOLO_ERR_TIMEOUT:
        snprintf(text, bytes,
                 "rank %d (pid %" PRIu32 ") did not come: it has begun %" PRIu64
                 " calls and is %s; rank %d waited for it %s until the deadline",
                 failure->rank, culprit->process.pid, reporter->failure_peer_calls,
                 kolo_standing_activity((char)detail_of(word)), failure->reporter, where);
        break;
    case KOLO_ERR_MISMATCH: {
        char their_call[80], own_call[80];
        const uint64_t theirs = call_of(comm, (uint32_t)failure->rank, failure->call);
        const uint64_t own = call_of(comm, (uint32_t)failure->reporter, failure->call);
        kolo_call_describe(theirs, their_call, sizeof their_call);
        kolo_call_describe(own, own_call, sizeof own_call);
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
    KOLO_POINT("failure.adopting");
    comm->token->usable = false;
    kolo_log(comm->log_level, KOLO_LOG_ERROR, (int)comm->rank, "%s", failure.message);
    return kolo_fail(failure.status, "rank %" PRIu32 ": %s", comm->rank, failure.message);
}

/* The first call that both have begun and that differs, 0 if there is none, of this rank's last KOLO_HISTORY: ranks
 * that disagree do not get further, but a root may be past the call before it has to wait for a peer. What the peer
 * shows of a call cannot be of a later one, since it is never KOLO_HISTORY ahead. */
static uint64_t first_difference(const kolo_comm *comm, uint32_t peer) {
    const uint64_t theirs = kolo_load_acquire(&comm->segment.signals[peer].calls); /* pairs with kolo_call_begin */
    const uint64_t last = theirs < comm->calls ? theirs : comm->calls;
    for (uint64_t call = comm->calls < KOLO_HISTORY ? 1 : comm->calls - KOLO_HISTORY + 1; call <= last; call++)
        if (call_of(comm, peer, call) != call_of(comm, comm->rank, call))
            return call;
    return 0;
}

static int publish(kolo_comm *comm, const struct finding *finding, int64_t code) {
    struct kolo_shared_member *self = &comm->segment.members[comm->rank];
    struct kolo_shared_header *header = comm->segment.header;
    bool first = false;
    /* Before the swap that publishes them; read after the acquire of the header's failure. */
    if (kolo_load_acquire(&header->failure) == 0) {
        KOLO_POINT("failure.found");
        self->failure_code = code;
        self->failure_call = finding->call ? finding->call : comm->calls;
        self->failure_peer_calls = kolo_load_acquire(&comm->segment.signals[finding->rank].calls);
        KOLO_POINT("failure.noted");
        first = kolo_compare_and_swap(&header->failure, 0, pack(finding, comm->rank));
        KOLO_POINT("failure.published");
    }
    const int rc = adopt(comm);
    if (first) /* one table of all ranks is enough; the others have said their line */
        kolo_history_log(comm);
    return rc;
}

int kolo_failure_publish(kolo_comm *comm, int status, uint32_t rank, int64_t code) {
    const kolo_cause cause = status == KOLO_ERR_ABORTED    ? KOLO_CAUSE_ABORTED
                             : status == KOLO_ERR_MISMATCH ? KOLO_CAUSE_MISMATCH
                                                           : KOLO_CAUSE_FAILED;
    const uint64_t call = status == KOLO_ERR_MISMATCH ? first_difference(comm, rank) : 0;
    return publish(comm, &(struct finding){status, rank, cause, 0, call}, code);
}

/* What keeps `wait` from ending, and which rank is to blame: status 0 if nothing is known to. */
static struct finding find_cause(kolo_comm *comm, const struct kolo_wait *wait) {
    const struct kolo_shared_member *members = comm->segment.members;
    const uint64_t different = first_difference(comm, wait->peer);
    if (different)
        return (struct finding){KOLO_ERR_MISMATCH, wait->peer, KOLO_CAUSE_MISMATCH, 0, different};
    kolo_liveness_look(&comm->liveness, members, comm->rank);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        bool departed = kolo_load_acquire(&members[rank].state) == KOLO_MEMBER_DEPARTED;
        const struct kolo_ending *ending = &comm->liveness.endings[rank];
        if (departed && rank == wait->peer)
            return (struct finding){KOLO_ERR_PEER_DEAD, rank, KOLO_CAUSE_LEFT, 0, 0};
        if (comm->liveness.ended[rank] && !departed)
            return (struct finding){KOLO_ERR_PEER_DEAD, rank, ending->cause, ending->code, 0};
    }
    if (wait->waited_ns < comm->waiter.timeout_ns)
        return (struct finding){0};
    const uint32_t late = kolo_standing_last(comm, wait->peer);
    const char activity = kolo_liveness_activity(&comm->liveness, members, comm->rank, late);
    return (struct finding){KOLO_ERR_TIMEOUT, late, activity == 'T' ? KOLO_CAUSE_STOPPED : KOLO_CAUSE_STALLED, activity,
                            0};
}

int kolo_failure_check(kolo_waiter *waiter, const struct kolo_wait *wait) {
    kolo_comm *comm = waiter->owner;
    if (kolo_load_acquire(&comm->segment.header->failure)) /* pairs with kolo_failure_publish */
        return adopt(comm);
    const struct finding finding = find_cause(comm, wait);
    if (finding.status && !kolo_wait_reached(wait))
        return publish(comm, &finding, 0);
    kolo_standing_warn(comm, wait);
    return 0;
}
