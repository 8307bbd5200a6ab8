/* The waits for the steps of all peers, and for a slot; and whether another rank on this processor is behind. */
#include "comm/step/progress.h"

#include <sched.h>

#include "comm/step/history.h"
#include "reduce/copy.h"

void kolo_call_watch_begin(kolo_comm *comm) {
    const struct kolo_call_key key = kolo_call_key_now(comm); /* not passed on: the path would have to store it */
    const kolo_op op = kolo_call_key_op(key);
    if (kolo_trace_has(KOLO_TRACE_TIMES))
        kolo_history_begin(comm);
    if (kolo_traces())
        kolo_trace_call_begin(&comm->waiter.call,
                              kolo_trace_head(KOLO_TRACE_CALL_BEGIN, key.collective - 1u, key.dtype,
                                              op == KOLO_OPS_OWN ? KOLO_OPS : op, comm->waiter.trace, key.root),
                              key.count, comm->call.number);
}

void kolo_call_watch_end(kolo_comm *comm) {
    struct kolo_failure_report report = {.status = 0};
    if (kolo_trace_has(KOLO_TRACE_TIMES))
        kolo_history_end(comm);
    if (!kolo_traces())
        return;
    if (!kolo_comm_is_usable(comm))
        kolo_failure_unpack(kolo_load_relaxed(kolo_comm_failure_word(comm)), &report);
    kolo_trace_call_end(&comm->waiter.call,
                        kolo_trace_head(KOLO_TRACE_CALL_END, 0, 0, (unsigned)-report.status, comm->waiter.trace, 0),
                        comm->call.number);
}

int kolo_step_await_all(kolo_comm *comm, uint64_t step) {
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        int rc = kolo_step_await(comm, peer, step);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A schedule that this rank has run. */
struct known_schedule {
    uint64_t index, stamp;
    bool counts; /* false: the schedule need not be compared */
};

/* Returns this rank's schedule to which `progress` of a peer belongs: the last one that has a step so early. Schedules
 * before the last round of lines need not be compared: the round has compared them. */
static struct known_schedule schedule_of_progress(const kolo_comm *comm, uint64_t progress) {
    struct known_schedule schedule = {comm->call.schedule, comm->call.stamp, true};
    uint64_t step = comm->call.step;
    while (progress <= step) {
        const struct kolo_past_steps *past = &comm->call.past[(schedule.index - 1) % KOLO_STAMPS];
        if (schedule.index == 0 || schedule.index + KOLO_STAMPS == comm->call.schedule ||
            past->line_rounds != comm->call.line_rounds)
            return (struct known_schedule){0, 0, false};
        schedule.index--;
        step = past->step;
        schedule.stamp = past->stamp;
    }
    return schedule;
}

/* Returns whether the rank of `signal` has that stamp for that schedule. Both loads pair with kolo_step_publish. */
static bool has_stamp(const struct kolo_shared_signal *signal, uint64_t schedule, uint64_t stamp) {
    return kolo_load_acquire(&signal->stamps[schedule % KOLO_STAMPS_NEAR]) == stamp ||
           kolo_load_acquire(&signal->all_stamps[schedule % KOLO_STAMPS]) == stamp;
}

/* Returns true if the rank of `signal`, whose progress was *progress, has made other calls than this rank, up to the
 * last of this rank's schedules in which it has published. If it has published more since, its stamp may be that of a
 * newer call in the same place: *progress becomes its later progress, and the loop compares again. The loop is bounded:
 * the other rank gets no more than KOLO_PARTS schedules ahead. */
static bool differs(const kolo_comm *comm, const struct kolo_shared_signal *signal, uint64_t *progress) {
    for (;;) {
        const struct known_schedule ours = schedule_of_progress(comm, *progress);
        if (!ours.counts || has_stamp(signal, ours.index, ours.stamp))
            return false;
        const uint64_t later = kolo_load_acquire(&signal->progress);
        if (later == *progress)
            return true;
        *progress = later;
    }
}

/* Returns whether it is not known yet that `peer` is done with what that was the use of. */
static bool is_awaited(const kolo_comm *comm, uint32_t peer, const struct kolo_slot_use *use) {
    if (peer == comm->rank || comm->call.peer_steps[peer] >= use->free)
        return false;
    return use->readers ? use->readers[peer / 64] >> (peer % 64) & 1
                        : use->reader == peer || use->reader == KOLO_EVERY_RANK;
}

/* Waits until all ranks are done with it. */
static int claim(kolo_comm *comm, const struct kolo_slot_use *use) {
    for (uint32_t peer = 0; peer < comm->size; peer++) {
        if (!is_awaited(comm, peer, use))
            continue;
        struct kolo_shared_signal *signal = &comm->segment.signals[peer];
        KOLO_POINT("slot.claiming");
        int rc = kolo_wait_at_least(&comm->waiter, &signal->progress, use->free, &signal->bell, peer);
        if (rc < 0)
            return rc;
        KOLO_POINT("slot.claimed");
        uint64_t progress = kolo_load_acquire(&signal->progress); /* may be later than what was waited for */
        if (__builtin_expect(differs(comm, signal, &progress), 0))
            return kolo_failure_publish_near(comm, KOLO_ERR_MISMATCH, peer, 0);
        comm->call.peer_steps[peer] = progress;
    }
    return 0;
}

/* The last use of this rank's slot for the ticket, or of its part. Of several parts the latest counts, for all. */
static struct kolo_slot_use last_use(const kolo_comm *comm, uint64_t ticket) {
    const struct kolo_call_state *call = &comm->call;
    const uint64_t slot = kolo_slot_index(comm, ticket);
    const struct kolo_slot_use whole = call->slots[slot];
    if (call->is_small) {
        const struct kolo_slot_use part = call->parts[kolo_part_index(comm)];
        return part.free > whole.free ? part : whole;
    }
    return call->parts_free[slot] > whole.free ? (struct kolo_slot_use){call->parts_free[slot], NULL, KOLO_EVERY_RANK}
                                               : whole;
}

int kolo_slot_claim(kolo_comm *comm, uint64_t ticket) {
    const struct kolo_slot_use last = last_use(comm, ticket);
    return claim(comm, &last);
}

bool kolo_slot_is_recalled(const kolo_comm *comm) {
    if (!kolo_load_relaxed(&kolo_recalls))
        return false;
    const struct kolo_slot_use last = last_use(comm, 0);
    for (uint32_t peer = 0; peer < comm->size; peer++)
        if (is_awaited(comm, peer, &last))
            return false;
    return true;
}

void kolo_slot_recall(const kolo_comm *comm, size_t bytes) {
    if (kolo_slot_is_recalled(comm))
        kolo_recall(kolo_slot(comm, comm->rank, 0),
                    bytes < comm->segment.slot_bytes ? bytes : comm->segment.slot_bytes);
}

int kolo_slot_claim_all(kolo_comm *comm, uint64_t ticket) {
    const struct kolo_slot_use of_all = {last_use(comm, ticket).free, NULL, KOLO_EVERY_RANK};
    return claim(comm, &of_all);
}

int kolo_swaps_stop(kolo_comm *comm) {
    const bool swap = comm->size > 2 && comm->call.swap_calls >= KOLO_SWAP_CALLS;
    comm->call.swap_calls = 0;
    if (!swap)
        return 0;
    kolo_schedule_begin(comm, 1, 0);
    kolo_step_publish(comm, 1);
    const int rc = kolo_step_await_all(comm, 1);
    kolo_schedule_end(comm);
    return rc;
}

int kolo_places_claim(kolo_comm *comm) {
    const struct kolo_slot_use of_all = {comm->call.places_free, NULL, KOLO_EVERY_RANK};
    return claim(comm, &of_all);
}

/* Oversubscription. */

static void move_to(kolo_comm *comm, uint64_t processor) {
    struct kolo_oversubscription *known = &comm->oversubscription;
    known->processor = processor;
    known->unknown = comm->size;
    memset(known->ranks, 0, sizeof known->ranks);
    kolo_store_relaxed(&comm->segment.members[comm->rank].processor, processor);
}

static void look_at_next(kolo_comm *comm) {
    struct kolo_oversubscription *known = &comm->oversubscription;
    const uint32_t rank = known->next;
    const uint64_t processor = kolo_load_relaxed(&comm->segment.members[rank].processor);
    if (rank != comm->rank && processor == known->processor)
        kolo_ranks_add(known->ranks, rank);
    else
        kolo_ranks_remove(known->ranks, rank);
    if (known->unknown > 0)
        known->unknown--;
    known->next = rank + 1 == comm->size ? 0 : rank + 1;
}

enum kolo_neighbours kolo_oversubscription_look(kolo_waiter *waiter, uint32_t awaited, int64_t since_ns) {
    kolo_comm *comm = waiter->owner;
    const uint64_t processor = (uint64_t)(sched_getcpu() + 1), progress = kolo_load_relaxed(&comm->signal->progress);
    enum kolo_neighbours found = KOLO_NEIGHBOURS_WAIT;
    int64_t began_ns = 0;
    uint32_t peer;
    if (processor == 0)
        return KOLO_NEIGHBOUR_BEHIND;
    if (processor != comm->oversubscription.processor)
        move_to(comm, processor);
    look_at_next(comm);
    if (awaited < comm->size && kolo_ranks_have(comm->oversubscription.ranks, awaited))
        return KOLO_NEIGHBOUR_BEHIND;
    for (uint32_t first = 0; first < comm->size; first += 64)
        for (uint64_t left = comm->oversubscription.ranks[first / 64]; left; left &= left - 1) {
            const struct kolo_shared_signal *signal = &comm->segment.signals[first + (uint32_t)__builtin_ctzll(left)];
            if (kolo_load_relaxed(&signal->calls) < comm->call.number ||
                kolo_load_relaxed(&signal->progress) < progress)
                return KOLO_NEIGHBOUR_BEHIND;
            const uint64_t waiting = kolo_load_relaxed(&signal->waiting);
            if (!waiting ||
                (since_ns < INT64_MAX && kolo_history_waits(waiting, &peer, &began_ns) && began_ns > since_ns))
                found = KOLO_NEIGHBOUR_RUNS;
        }
    return comm->oversubscription.unknown > 0 ? KOLO_NEIGHBOUR_BEHIND : found;
}
