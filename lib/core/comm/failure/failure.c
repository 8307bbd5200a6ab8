/* The failure of a communicator: finding it in a long wait, publishing it once, and putting it into words. */
#include "comm/failure/failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/probes.h"
#include "comm/channels/rings.h"
#include "comm/failure/findings.h"
#include "comm/step/history.h"
#include "comm/failure/watchdog.h"
#include "sync/thread.h"

/* How long a wait for other nodes goes on past the deadline: by then a rank near the late one has named it to all. */
#define REMOTE_GRACE_NS (250 * KOLO_NS_PER_MS)

/* The published word: a mark, detail (8 bits), cause (8), negated status (8), rank at fault (16) and reporter (16). */
#define PUBLISHED (UINT64_C(1) << 63)

/* Set if the details are in a report, see kolo_shared_internode; else they are in the member of the reporter. */
#define REPORTED (UINT64_C(1) << 62)

static uint64_t pack(const struct kolo_failure_report *report) {
    return PUBLISHED | (uint64_t)(report->detail & 0xff) << 48 | (uint64_t)report->cause << 40 |
           (uint64_t)-report->status << 32 | (uint64_t)report->rank << 16 | report->reporter;
}

void kolo_failure_unpack(uint64_t word, struct kolo_failure_report *report) {
    *report = (struct kolo_failure_report){.detail = (int)(word >> 48 & 0xff),
                                           .cause = (kolo_cause)(word >> 40 & 0xff),
                                           .status = -(int)(word >> 32 & 0xff),
                                           .rank = word >> 16 & 0xffff,
                                           .reporter = word & 0xffff};
}

static void carry_report(struct kolo_wire *wire, struct kolo_failure_report *report) {
    report->status = -(int)kolo_wire_number(wire, (uint64_t)-report->status, 1);
    report->cause = (kolo_cause)kolo_wire_number(wire, (uint64_t)report->cause, 1);
    report->detail = (int)kolo_wire_number(wire, (uint64_t)report->detail, 1);
    report->lane = (uint32_t)kolo_wire_number(wire, report->lane, 1);
    report->node = (uint32_t)kolo_wire_number(wire, report->node, 4);
    report->rank = (uint32_t)kolo_wire_number(wire, report->rank, 4);
    report->reporter = (uint32_t)kolo_wire_number(wire, report->reporter, 4);
    report->pid = (uint32_t)kolo_wire_number(wire, report->pid, 8);
    report->code = (int64_t)kolo_wire_number(wire, (uint64_t)report->code, 8);
    report->call = kolo_wire_number(wire, report->call, 8);
    report->peer_calls = kolo_wire_number(wire, report->peer_calls, 8);
    for (int i = 0; i < 2; i++)
        for (int word = 0; word < 3; word++) {
            report->keys[i].words[word] = kolo_wire_number(wire, report->keys[i].words[word], 8);
            report->pair[i].words[word] = kolo_wire_number(wire, report->pair[i].words[word], 8);
        }
}

void kolo_failure_pack(const struct kolo_failure_report *report, uint8_t *bytes) {
    struct kolo_failure_report sent = *report;
    carry_report(&(struct kolo_wire){.at = bytes}, &sent);
}

bool kolo_failure_parse(const uint8_t *bytes, uint32_t ranks, struct kolo_failure_report *report) {
    *report = (struct kolo_failure_report){0};
    carry_report(&(struct kolo_wire){.at = (uint8_t *)bytes, .reads = true}, report);
    return report->status < 0 && report->status >= KOLO_ERR_STATE && report->cause <= KOLO_CAUSE_EXECED &&
           report->lane < KOLO_THREADS_MAX && report->rank < ranks && report->reporter < ranks && report->node <= ranks;
}

/* Returns the key of call number `call` of `rank`, if it is one of its last ones. */
static struct kolo_call_key key_of(const kolo_comm *comm, uint32_t rank, uint64_t call) {
    return kolo_call_key_load(comm->segment.histories[rank].keys[call % (2 * KOLO_HISTORY)]);
}

/* Writes "was killed by signal 9 (SIGKILL)", or how else the process has ended. */
static void describe_end(kolo_cause cause, int detail, char *text, size_t text_bytes) {
    const char *name = cause == KOLO_CAUSE_KILLED ? kolo_signal_name(detail) : NULL;
    if (cause == KOLO_CAUSE_KILLED)
        snprintf(text, text_bytes, "was killed by signal %d%s%s%s", detail, name ? " (SIG" : "", name ? name : "",
                 name ? ")" : "");
    else if (cause == KOLO_CAUSE_EXITED)
        snprintf(text, text_bytes, "exited with status %d without kolo_comm_destroy", detail);
    else if (cause == KOLO_CAUSE_LEFT)
        snprintf(text, text_bytes, "has left the communicator");
    else if (cause == KOLO_CAUSE_EXECED)
        snprintf(text, text_bytes, "has started another program (exec) without kolo_comm_destroy");
    else
        snprintf(text, text_bytes, "has ended (the system does not tell how)");
}

/* Returns the local rank of a global rank; comm->size if it is on another node. */
static uint32_t local_rank(const kolo_comm *comm, uint32_t rank) {
    if (!comm->nodes)
        return rank < comm->size ? rank : 0;
    if (rank >= comm->global_size || comm->nodes->node_of[rank] != comm->node)
        return comm->size;
    return kolo_nodes_local_rank(comm->nodes, rank);
}

bool kolo_failure_collect(const kolo_comm *any, struct kolo_failure_report *report) {
    const kolo_comm *comm = any->first;
    const uint64_t word = kolo_load_acquire(kolo_comm_failure_word(comm));
    if (word & REPORTED && comm->nodes)
        return kolo_failure_parse(comm->segment.internode->report, comm->global_size, report);
    kolo_failure_unpack(word, report);
    const uint32_t rank = local_rank(comm, report->rank), reporter = local_rank(comm, report->reporter);
    const struct kolo_shared_member *members = comm->segment.members;
    if (word == 0 || reporter == comm->size)
        return false;
    report->code = comm->failure_code;
    if (!members) /* there is one rank, which has aborted the communicator */
        return true;
    report->code = members[reporter].failure_code;
    report->call = members[reporter].failure_call;
    report->lane = (uint32_t)members[reporter].failure_lane;
    report->peer_calls = members[reporter].failure_peer_calls;
    memcpy(report->keys, members[reporter].failure_keys, sizeof report->keys);
    memcpy(report->pair, members[reporter].failure_pair, sizeof report->pair);
    if (rank < comm->size)
        report->pid = members[rank].process.pid;
    else if (report->status == KOLO_ERR_TIMEOUT || report->cause == KOLO_CAUSE_ENDED)
        report->node = comm->nodes->node_of[report->rank] + 1;
    return true;
}

/* Writes "rank 2 (pid 4711)", or "node 1 (ranks 2, 5)". */
static void describe_culprit(const kolo_comm *comm, const struct kolo_failure_report *report, char *text,
                             size_t text_bytes) {
    if (report->node == 0 && report->pid)
        snprintf(text, text_bytes, "rank %u (pid %u)", report->rank, report->pid);
    else if (report->node == 0 || !comm->nodes || report->node > comm->nodes->nodes)
        snprintf(text, text_bytes, "rank %u", report->rank);
    else {
        const struct kolo_nodes *nodes = comm->nodes;
        const uint32_t node = report->node - 1, count = kolo_nodes_local_size(nodes, node);
        snprintf(text, text_bytes, "node %u (rank%s", node, count > 1 ? "s" : "");
        for (uint32_t i = 0; i < count && strlen(text) + 16 < text_bytes; i++)
            kolo_text_add(text, text_bytes, "%s %u", i ? "," : "", kolo_nodes_rank(nodes, node, i));
        kolo_text_add(text, text_bytes, ")");
    }
}

/* The largest count that the code of a mismatch has room for: it stands for larger ones, too. */
#define COUNT_MAX UINT64_C(0x7fffffff)

static const char *or_more(uint64_t count) {
    return count == COUNT_MAX ? " or more" : "";
}

/* Writes where the failure was found. `pair`: the send or receive in which it was, if any. */
static void describe_place(const struct kolo_failure_report *report, const char *pair, char *text, size_t text_bytes) {
    if (report->pair[0].words[0])
        snprintf(text, text_bytes, "in %s", pair);
    else if (report->call && report->lane)
        snprintf(text, text_bytes, "in call %" PRIu64 " of lane %u", report->call, report->lane);
    else if (report->call)
        snprintf(text, text_bytes, "in call %" PRIu64, report->call);
    else
        snprintf(text, text_bytes, "between calls");
}

/* Writes which rank has died or left, and which has found that. A rank that leaves within a call reports it itself. */
static void describe_death(const struct kolo_failure_report *report, const char *culprit, const char *where, char *text,
                           size_t text_bytes) {
    char end[96];
    if (report->node && report->cause == KOLO_CAUSE_ENDED)
        snprintf(end, sizeof end, "has closed its connections and has not said why%s%s", report->detail ? ": " : "",
                 report->detail ? strerror(report->detail) : "");
    else
        describe_end(report->cause, report->detail, end, sizeof end);
    if (report->rank == report->reporter)
        snprintf(text, text_bytes, "%s %s %s", culprit, end, where);
    else
        snprintf(text, text_bytes, "%s %s; found by rank %u %s", culprit, end, report->reporter, where);
}

#define ENLARGE_IT ": enlarge it on that rank's machine (docker run --shm-size, mount -o remount,size=)"

/* Fills in *failure, which is zeroed. */
static void describe_report(const kolo_comm *comm, const struct kolo_failure_report *report, kolo_failure *failure) {
    char where[KOLO_CALL_TEXT_BYTES + 4], culprit[128];
    failure->status = report->status;
    failure->rank = (int)report->rank;
    failure->reporter = (int)report->reporter;
    failure->code = (int)report->code;
    failure->call = report->call;
    failure->cause = report->cause;
    char pair[2][KOLO_CALL_TEXT_BYTES];
    for (int i = 0; i < 2; i++)
        kolo_call_key_describe(kolo_call_key_unpack(&report->pair[i]), pair[i]);
    describe_place(report, pair[0], where, sizeof where);
    describe_culprit(comm, report, culprit, sizeof culprit);
    char *text = failure->message;
    const size_t bytes = sizeof failure->message;
    switch (failure->cause == KOLO_CAUSE_FAILED ? 0 : failure->status) {
    case KOLO_ERR_PEER_DEAD:
        failure->code = failure->cause == KOLO_CAUSE_ENDED ? 0 : report->detail;
        describe_death(report, culprit, where, text, bytes);
        break;
    case KOLO_ERR_TIMEOUT:
        if (failure->cause == KOLO_CAUSE_SILENT)
            snprintf(text, bytes,
                     "%s has sent nothing for the time that KOLO_NET_SILENCE_MS sets: is it stopped, or its cable cut? "
                     "Found by rank %d %s",
                     culprit, failure->reporter, where);
        else if (report->node)
            snprintf(text, bytes, "%s did not come; rank %d waited for it %s until the deadline", culprit,
                     failure->reporter, where);
        else
            snprintf(text, bytes,
                     "%s did not come: it has begun %" PRIu64
                     " calls and is %s; rank %d waited for it %s until the deadline",
                     culprit, report->peer_calls, kolo_progress_report_activity((char)report->detail),
                     failure->reporter, where);
        break;
    case KOLO_ERR_MISMATCH: {
        char their_call[KOLO_CALL_TEXT_BYTES], own_call[KOLO_CALL_TEXT_BYTES];
        const struct kolo_call_key own = kolo_call_key_unpack(&report->keys[0]);
        const struct kolo_call_key theirs = kolo_call_key_unpack(&report->keys[1]);
        const bool are_equal = kolo_call_keys_equal(own, theirs);
        const uint64_t sent = (uint64_t)report->code >> 32, expected = (uint64_t)report->code & COUNT_MAX;
        kolo_call_key_describe(theirs, their_call);
        kolo_call_key_describe(own, own_call);
        failure->code = 0;
        if (report->pair[1].words[0])
            snprintf(text, bytes, "ranks disagree: rank %d calls %s, rank %d calls %s", failure->reporter, pair[0],
                     failure->rank, pair[1]);
        else if (report->code && are_equal)
            snprintf(text, bytes,
                     "ranks disagree %.40s: rank %d sends %" PRIu64 "%s elements to rank %d, which expects %" PRIu64
                     "%s (%s)",
                     where, failure->rank, sent, or_more(sent), failure->reporter, expected, or_more(expected),
                     own_call);
        else
            snprintf(text, bytes, "ranks disagree %.40s: rank %d calls %.90s, rank %d calls %.90s%.97s", where,
                     failure->reporter, own_call, failure->rank, their_call,
                     kolo_load_acquire(&comm->first->has_difference) /* pairs with kolo_difference_find */
                         ? comm->first->difference
                         : are_equal ? ", but they differ in an earlier call" : "");
        break;
    }
    case KOLO_ERR_ABORTED:
        snprintf(text, bytes, "rank %d aborted the communicator with code %d", failure->rank, failure->code);
        break;
    default:
        snprintf(text, bytes, "rank %d failed %s: %s%s", failure->rank, where, kolo_strerror(failure->status),
                 failure->status == KOLO_ERR_NO_SPACE ? ENLARGE_IT : "");
    }
}

void kolo_failure_describe(const kolo_comm *comm, kolo_failure *failure) {
    struct kolo_failure_report report;
    memset(failure, 0, sizeof *failure);
    if (!comm->token->ours) /* a forked child has no segment */
        return;
    if (kolo_failure_collect(comm, &report))
        describe_report(comm, &report, failure);
}

/* A program that calls kolo_comm_abort knows why, so an abort is logged at a lower level. */
static kolo_log_level level_of(int status) {
    return status == KOLO_ERR_ABORTED ? KOLO_LOG_INFO : KOLO_LOG_ERROR;
}

/* Breaks this rank's communicator with the failure that was published. */
static int adopt(kolo_comm *comm) {
    kolo_failure failure;
    kolo_failure_describe(comm, &failure);
    KOLO_POINT("failure.adopting");
    if (kolo_traces() && kolo_comm_is_usable(comm))
        kolo_trace_write(
            kolo_trace_head(KOLO_TRACE_FAILURE, 0, 0, (unsigned)-failure.status, comm->waiter.trace, failure.rank), 0,
            0);
    kolo_failure_record(comm, &failure);
    kolo_comm_break(comm);
    kolo_comm_break(comm->first); /* calls on it do not look at what other lanes have found */
    KOLO_PROBE_FAILURE(comm, comm->global_rank, failure.status, failure.rank);
    kolo_log(comm->log_level, level_of(failure.status), (int)comm->global_rank, "%s", failure.message);
    return kolo_fail(failure.status, "rank %u: %s", comm->global_rank, failure.message);
}

/* Like adopt, for the thread that is in the call that failed. In a mismatch it first finds the item that differs. */
static int adopt_in_call(kolo_comm *comm) {
    struct kolo_failure_report report;
    if (!comm->call.items.item || !kolo_failure_collect(comm, &report) || report.status != KOLO_ERR_MISMATCH ||
        report.pair[0].words[0] || report.call != comm->call.number || report.lane != comm->origin.lane)
        return adopt(comm);
    const uint32_t names[2] = {report.rank, report.reporter};
    const uint32_t ranks[2] = {local_rank(comm, report.rank), local_rank(comm, report.reporter)};
    if (ranks[0] < comm->size && ranks[1] < comm->size)
        kolo_difference_find(comm, report.call, ranks, names);
    comm->call.items.item = NULL; /* once is enough */
    return adopt(comm);
}

/* Returns the first call, among this rank's last KOLO_HISTORY, that both ranks have begun and that differs; 0 if there
 * is none. Ranks that disagree do not get further than KOLO_HISTORY, but a root may be past the call before it has to
 * wait for a peer. The peer's key cannot be that of a later call: it is never KOLO_HISTORY ahead. */
static uint64_t first_difference(const kolo_comm *comm, uint32_t peer) {
    const uint64_t theirs = kolo_load_acquire(&comm->segment.signals[peer].calls); /* pairs with kolo_call_begin */
    const uint64_t last = theirs < comm->call.number ? theirs : comm->call.number;
    for (uint64_t call = comm->call.number < KOLO_HISTORY ? 1 : comm->call.number - KOLO_HISTORY + 1; call <= last;
         call++)
        if (!kolo_call_keys_equal(key_of(comm, peer, call), key_of(comm, comm->rank, call)))
            return call;
    return 0;
}

/* Publishes an abort where there is one rank, and so no segment. */
static int publish_alone(kolo_comm *comm, struct kolo_failure_report found) {
    kolo_comm *first = comm->first;
    kolo_common_lock();
    if (kolo_load_acquire(&first->failure) == 0) {
        first->failure_code = found.code;
        kolo_store_release(&first->failure, pack(&found)); /* pairs with kolo_failure_collect */
    }
    kolo_common_unlock();
    return adopt(comm);
}

/* Publishes what this rank has found: as in a report, but `rank` is a rank of this node, unless is_far. The common lock
 * is held, since an abort, a progress thread and other lanes all write into this rank's member. */
static int publish(kolo_comm *comm, struct kolo_failure_report found, bool is_far) {
    struct kolo_shared_member *self = &comm->first->segment.members[comm->rank];
    kolo_atomic_u64 *word = kolo_comm_failure_word(comm);
    bool first = false;
    kolo_common_lock();
    /* The details are stored before the swap that publishes them, and read after the acquire of `failure`. */
    if (kolo_load_acquire(word) == 0) {
        KOLO_POINT("failure.found");
        self->failure_code = found.code;
        self->failure_call = found.call ? found.call : kolo_load_relaxed(&comm->segment.signals[comm->rank].calls);
        self->failure_lane = comm->origin.lane;
        self->failure_peer_calls =
            found.node || is_far ? 0 : kolo_load_acquire(&comm->segment.signals[found.rank].calls);
        if (found.status != KOLO_ERR_ABORTED) { /* else the thread that waits may be another */
            self->failure_pair[0] = kolo_call_key_pack(comm->channels.own);
            self->failure_pair[1] = kolo_call_key_pack(comm->channels.theirs);
        }
        self->failure_keys[0] = kolo_call_key_pack(key_of(comm, comm->rank, self->failure_call));
        self->failure_keys[1] = found.node || is_far ? (struct kolo_packed_key){{0}}
                                                     : kolo_call_key_pack(key_of(comm, found.rank, self->failure_call));
        KOLO_POINT("failure.noted");
        if (found.node)
            found.rank = kolo_nodes_rank(comm->nodes, found.node - 1, 0);
        else if (!is_far)
            found.rank = kolo_rank_global(comm, found.rank);
        found.reporter = comm->global_rank;
        first = kolo_compare_and_swap(word, 0, pack(&found));
        KOLO_POINT("failure.published");
    }
    kolo_common_unlock();
    const int rc = found.status == KOLO_ERR_MISMATCH ? adopt_in_call(comm) : adopt(comm);
    if (first) /* one list of all ranks is enough; the others have logged one line each */
        kolo_history_log(comm, level_of(found.status));
    return rc;
}

int kolo_failure_publish_near(kolo_comm *comm, int status, uint32_t rank, int64_t code) {
    const kolo_cause cause = status == KOLO_ERR_ABORTED     ? KOLO_CAUSE_ABORTED
                             : status == KOLO_ERR_MISMATCH  ? KOLO_CAUSE_MISMATCH
                             : status == KOLO_ERR_PEER_DEAD ? KOLO_CAUSE_LEFT
                                                            : KOLO_CAUSE_FAILED;
    const uint64_t call =
        status == KOLO_ERR_MISMATCH && !comm->channels.theirs.collective ? first_difference(comm, rank) : 0;
    const struct kolo_failure_report found = {
        .status = status, .rank = rank, .cause = cause, .call = call, .code = code};
    return comm->first->segment.header ? publish(comm, found, false) : publish_alone(comm, found);
}

int kolo_failure_publish(kolo_comm *comm, int status, int64_t code) {
    return kolo_failure_publish_near(comm, status, comm->rank, code);
}

int kolo_failure_publish_pair(kolo_comm *comm, uint32_t rank) {
    const struct kolo_failure_report found = {.status = KOLO_ERR_MISMATCH, .rank = rank, .cause = KOLO_CAUSE_MISMATCH};
    return publish(comm, found, true);
}

int64_t kolo_failure_counts(uint64_t sent, uint64_t expected) {
    return (int64_t)((sent < COUNT_MAX ? sent : COUNT_MAX) << 32 | (expected < COUNT_MAX ? expected : COUNT_MAX));
}

int kolo_failure_publish_counts(kolo_comm *comm, uint32_t rank, uint64_t sent, uint64_t expected) {
    return kolo_failure_publish_near(comm, KOLO_ERR_MISMATCH, rank, kolo_failure_counts(sent, expected));
}

void kolo_failure_relay(kolo_comm *comm, const struct kolo_failure_report *report) {
    kolo_atomic_u64 *word = kolo_comm_failure_word(comm);
    struct kolo_shared_internode *shared = comm->first->segment.internode;
    if (kolo_load_acquire(word) || !kolo_compare_and_swap(&shared->reporting, 0, 1))
        return; /* a failure is published, or soon will be: the leader's other lanes are threads of its process */
    KOLO_POINT("failure.relaying");
    kolo_failure_pack(report, shared->report); /* read after the acquire of the header's failure */
    if (kolo_compare_and_swap(word, 0, pack(report) | REPORTED))
        for (uint32_t lane = 0; lane < KOLO_LANES_MAX; lane++)
            kolo_bell_ring_slowly(&shared->lanes[lane].bell);
    KOLO_POINT("failure.relayed");
}

static bool has_departed(const kolo_comm *comm, uint32_t rank) {
    return kolo_load_acquire(&comm->segment.members[rank].state) == KOLO_MEMBER_DEPARTED; /* pairs with destroy */
}

/* Returns the rank of this node that has left, though the wait needs it; comm->size: none. */
static uint32_t find_departed(const kolo_comm *comm, uint32_t peer) {
    const struct kolo_channels *channels = &comm->channels;
    if (!kolo_channels_busy(channels))
        return has_departed(comm, peer) ? peer : comm->size;
    for (uint32_t rank = 0; rank < comm->global_size; rank++) {
        if (!kolo_ranks_have(channels->awaited, rank))
            continue;
        const uint32_t local = kolo_is_near(comm, rank) ? kolo_local_of(comm, rank) : 0; /* the leader has the relay */
        if (has_departed(comm, local))
            return local;
    }
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (rank != comm->rank && !has_departed(comm, rank))
            return comm->size;
    return channels->awaits_any && !comm->nodes ? peer : comm->size;
}

static bool has_bit(const kolo_atomic_u64 *bits, uint32_t rank) {
    return kolo_load_acquire(&bits[rank / 64]) >> rank % 64 & 1; /* pairs with the relay */
}

/* The ranks of other nodes that sends and receives wait for. */
struct far_ranks {
    uint32_t lost;    /* a rank whose node cannot be reached; comm->global_size, as in the next two: there is none */
    uint32_t left;    /* a rank that has left, though it is needed */
    uint32_t awaited; /* a rank that may still come */
};

static struct far_ranks find_far(const kolo_comm *comm) {
    const struct kolo_shared_relay *relay = &comm->segment.internode->relay;
    const struct kolo_channels *channels = &comm->channels;
    const uint32_t none = comm->global_size;
    struct far_ranks far = {none, none, none};
    uint32_t any_left = none;
    bool is_alone = channels->awaits_any; /* any rank may send, and all others of this node have left */
    for (uint32_t rank = 0; rank < comm->size; rank++)
        is_alone = is_alone && (rank == comm->rank || has_departed(comm, rank));
    for (uint32_t rank = 0; rank < comm->global_size; rank++) {
        const bool is_awaited = kolo_ranks_have(channels->awaited, rank);
        if (kolo_is_near(comm, rank) || !(is_awaited || channels->awaits_any))
            continue;
        if (has_bit(relay->lost, rank))
            far.lost = rank;
        else if (has_bit(relay->left, rank))
            *(is_awaited ? &far.left : &any_left) = rank;
        else
            far.awaited = rank;
    }
    if (far.left == none && far.awaited == none && is_alone)
        far.left = any_left;
    return far;
}

/* Like find_cause, for ranks of other nodes: `rank` is numbered among those of all nodes. */
static struct kolo_failure_report find_far_cause(const kolo_comm *comm, const struct kolo_wait *wait) {
    const struct far_ranks far = find_far(comm);
    if (far.lost < comm->global_size)
        return (struct kolo_failure_report){.status = KOLO_ERR_PEER_DEAD,
                                            .rank = kolo_nodes_rank(comm->nodes, comm->nodes->node_of[far.lost], 0),
                                            .cause = KOLO_CAUSE_ENDED};
    if (far.left < comm->global_size) {
        const uint32_t leader = kolo_nodes_rank(comm->nodes, comm->nodes->node_of[far.left], 0);
        const bool all_are_cut_off = has_bit(comm->segment.internode->relay.left, leader);
        return (struct kolo_failure_report){
            .status = KOLO_ERR_PEER_DEAD, .rank = all_are_cut_off ? leader : far.left, .cause = KOLO_CAUSE_LEFT};
    }
    if (far.awaited == comm->global_size || wait->waited_ns < kolo_waiter_timeout_ns(&comm->waiter) + REMOTE_GRACE_NS)
        return (struct kolo_failure_report){0};
    return (struct kolo_failure_report){
        .status = KOLO_ERR_TIMEOUT, .cause = KOLO_CAUSE_STALLED, .node = comm->nodes->node_of[far.awaited] + 1};
}

/* Finds what keeps `wait` from ending, and which rank of this node is at fault. status 0: nothing is known. */
static struct kolo_failure_report find_cause(kolo_comm *comm, const struct kolo_wait *wait) {
    const uint32_t peer = kolo_peer_rank(wait->peer);
    const uint64_t different = first_difference(comm, peer);
    if (different)
        return (struct kolo_failure_report){
            .status = KOLO_ERR_MISMATCH, .rank = peer, .cause = KOLO_CAUSE_MISMATCH, .call = different};
    kolo_watchdog_look(comm);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const struct kolo_ending ending = comm->liveness.watched[rank].ending;
        if (ending.cause && !has_departed(comm, rank))
            return (struct kolo_failure_report){
                .status = KOLO_ERR_PEER_DEAD, .rank = rank, .cause = ending.cause, .detail = ending.code};
    }
    const uint32_t departed = find_departed(comm, peer);
    if (departed < comm->size)
        return (struct kolo_failure_report){.status = KOLO_ERR_PEER_DEAD, .rank = departed, .cause = KOLO_CAUSE_LEFT};
    const bool on_others = wait->peer == KOLO_PEER_PROXY;
    if (comm->nodes && kolo_channels_busy(&comm->channels) && (on_others || comm->channels.awaits_any) &&
        find_far(comm).awaited < comm->global_size)
        return (struct kolo_failure_report){0}; /* see find_far_cause */
    if (wait->waited_ns < kolo_waiter_timeout_ns(&comm->waiter) + (on_others ? REMOTE_GRACE_NS : 0))
        return (struct kolo_failure_report){0};
    const uint32_t late = kolo_progress_report_last(comm, wait);
    const char activity = kolo_liveness_activity(&comm->liveness, late);
    const uint32_t node = kolo_progress_report_node(comm, wait);
    if (node && activity != 'T')
        return (struct kolo_failure_report){.status = KOLO_ERR_TIMEOUT, .cause = KOLO_CAUSE_STALLED, .node = node};
    return (struct kolo_failure_report){.status = KOLO_ERR_TIMEOUT,
                                        .rank = late,
                                        .cause = activity == 'T' ? KOLO_CAUSE_STOPPED : KOLO_CAUSE_STALLED,
                                        .detail = activity};
}

int kolo_failure_ask(struct kolo_interrupt *interrupt) {
    const int said = (int)kolo_load_acquire(&interrupt->code); /* pairs with kolo_queue_await_completion */
    if (said || !interrupt->check || interrupt->thread != gettid())
        return said;
    const int64_t now_ns = kolo_clock_ns();
    if (now_ns - interrupt->asked_ns < KOLO_INTERRUPT_NS)
        return 0;
    interrupt->asked_ns = now_ns;
    return interrupt->check(interrupt->context);
}

int kolo_failure_check(kolo_waiter *waiter, const struct kolo_wait *wait) {
    kolo_comm *comm = waiter->owner;
    if (kolo_load_acquire(kolo_comm_failure_word(comm))) /* pairs with kolo_failure_publish */
        return adopt_in_call(comm);
    const int code = kolo_failure_ask(&comm->interrupt);
    if (code && !kolo_wait_reached(wait))
        return kolo_failure_publish(comm, KOLO_ERR_ABORTED, code);
    const struct kolo_failure_report found = find_cause(comm, wait);
    if (found.status && !kolo_wait_reached(wait))
        return publish(comm, found, false);
    if (comm->nodes && kolo_channels_busy(&comm->channels)) {
        const struct kolo_failure_report far = find_far_cause(comm, wait);
        if (far.status && !kolo_wait_reached(wait))
            return publish(comm, far, true);
    }
    kolo_progress_report_warn(comm, wait);
    return 0;
}

int kolo_failure_look(kolo_comm *comm, uint32_t peer, int64_t waited_ns) {
    static const kolo_atomic_u64 never;
    const struct kolo_wait wait = {.flag = &never, .target = 1, .peer = peer, .waited_ns = waited_ns};
    if (!comm->first->segment.header) /* there is one rank, which waits for nobody */
        return kolo_load_acquire(kolo_comm_failure_word(comm)) ? adopt(comm) : 0; /* pairs with publish_alone */
    return kolo_failure_check(&comm->waiter, &wait);
}
