/* Progress: how the ranks of a call keep step, by one counter a rank and slots that are reused in a fixed order.
 * comm/README.md, "Keeping step", says why that is correct.
 *
 * Steps. An algorithm is a schedule of numbered steps, the same on all ranks and known to all from the plan alone. A
 * rank publishes the number of each step of its own that others wait for, by storing it in its `progress`, which only
 * this rank writes and which only grows, over all calls: a call's steps are base+1 .. base+n, and all ranks agree on
 * `base` because they have made the same calls. Not every rank has something to do in each step; a later step published
 * implies the earlier ones. Before it publishes step k, a rank waits only for steps below k.
 *
 * Slots. Each use of a slot is a ticket, numbered over all calls; ticket t uses slot t % KOLO_SLOTS of every rank, or,
 * in small calls with a root, a part of it. A rank claims its slot for a ticket (kolo_slot_claim) before it writes
 * there, and says with which step it is done with it (kolo_slot_retire): after that it touches no slot of the ticket,
 * its own or a peer's.
 *
 * Stamps. A stamp is a mix of the keys of this call and of all calls before it, so ranks with equal stamps have made
 * the same calls. Before a rank publishes its first step of a call, it stores the stamp on the same cache line. A rank
 * that waits for a step, or claims a slot, compares that stamp with its own. So ranks that make different calls find
 * out on the line that they read anyway.
 *
 * Memory order: the writer stores payload, then stamp, then progress (release); the reader loads progress (acquire),
 * then stamp, then payload. A slot is written again only after its readers' later steps were acquired. A stamp is
 * stored with release, too: a rank that has read a newer stamp (acquire) sees the steps published before it. */
#pragma once

#include <string.h>

#include "base/probes.h"
#include "comm/failure/failure.h"

#define KOLO_EVERY_RANK UINT32_MAX

/* Put the begin and the end of the call into the trace and the history, as is asked for. */
void kolo_call_watch_begin(kolo_comm *comm);
void kolo_call_watch_end(kolo_comm *comm);

/* Notes by which kolo_algorithm the call is made, which may take long. */
static inline void kolo_call_trace_plan(kolo_comm *comm, uint32_t algorithm) {
    if (!kolo_traces())
        return;
    comm->waiter.call.algorithm = algorithm;
    kolo_trace_call_show(&comm->waiter.call);
}

/* Says which stage of a large call the rank begins; the stage lasts until the next one, a wait or the call's end. */
static inline void kolo_call_stage(const kolo_comm *comm, kolo_trace_stage stage) {
    if (__builtin_expect(comm->call.traces_stages, 0))
        kolo_trace_write(kolo_trace_head(KOLO_TRACE_STAGE, stage, 0, 0, comm->waiter.trace, 0), 0, 0);
}

/* Begins a call: numbers it, and shows what it is to ranks that wait long for this one. */
static inline __attribute__((always_inline)) void kolo_call_begin(kolo_comm *comm, struct kolo_call_key key) {
    KOLO_POINT("call.beginning");
    comm->call.number++;
    comm->call.collective = (uint8_t)(key.collective - 1);
    comm->call.stamp = kolo_stamp_after(comm->call.stamp, key);
    /* These releases pair with first_difference (failure.c), as does the next one. */
    kolo_call_key_store(comm->history->keys[comm->call.number % (2 * KOLO_HISTORY)], key);
    KOLO_POINT("call.described");
    kolo_store_release(&comm->signal->calls, comm->call.number);
    KOLO_PROBE_CALL_BEGIN(comm, comm->global_rank, key.collective - 1, key.count, comm->call.number);
    if (kolo_watches_calls())
        kolo_call_watch_begin(comm);
    KOLO_POINT("call.begun");
}

/* Shows observers the totals: one more call of `collective` has ended, with a message of `bytes`. */
static inline void kolo_totals_show(const kolo_comm *comm, unsigned collective, uint64_t bytes) {
    struct kolo_shared_signal *signal = comm->signal;
    struct kolo_shared_total *total = &comm->history->totals[collective];
    kolo_show_relaxed(&total->calls, kolo_load_relaxed(&total->calls) + 1);
    kolo_show_relaxed(&total->payload_bytes, kolo_load_relaxed(&total->payload_bytes) + bytes);
    kolo_show_relaxed(&signal->payload_bytes, kolo_load_relaxed(&signal->payload_bytes) + bytes);
    kolo_show_relaxed(&signal->sent_bytes, comm->stats.sent_bytes);
    kolo_show_relaxed(&signal->received_bytes, comm->stats.received_bytes);
}

/* Ends a call, successful or not. */
static inline void kolo_call_leave(kolo_comm *comm) {
    if (kolo_watches_calls())
        kolo_call_watch_end(comm);
    kolo_totals_show(comm, comm->call.collective, /* what sends and receives have shown meanwhile is theirs */
                     comm->stats.payload_bytes - kolo_load_relaxed(&comm->signal->payload_bytes));
    kolo_show_release(&comm->signal->ended, comm->call.number);
    KOLO_PROBE_CALL_END(comm, comm->global_rank, comm->call.number);
}

/* Notes a call without a number that all ranks make in the same order: ranks that differ find out in the next wait. */
static inline void kolo_call_note(kolo_comm *comm, kolo_collective collective, uint32_t index) {
    comm->call.stamp = kolo_stamp_after(comm->call.stamp, kolo_call_key_of(collective, index));
}

/* Publishes step `step` of the present call, from 1. */
static inline void kolo_step_publish(kolo_comm *comm, uint64_t step) {
    struct kolo_shared_signal *signal = comm->signal;
    KOLO_POINT("step.stamping");
    /* Both pair with differs, of kolo_slot_claim. */
    kolo_store_release(&signal->all_stamps[comm->call.schedule % KOLO_STAMPS], comm->call.stamp);
    kolo_store_release(&signal->stamps[comm->call.schedule % KOLO_STAMPS_NEAR], comm->call.stamp);
    kolo_publish(&comm->waiter, &signal->progress, comm->call.step + step, &signal->bell);
    KOLO_POINT("step.published");
}

/* Returns whether `peer` has already begun the next schedule, whose first step every rank publishes. */
static inline bool kolo_step_is_ahead(const kolo_comm *comm, uint32_t peer) {
    return kolo_load_acquire(&comm->segment.signals[peer].progress) > comm->call.step; /* pairs with publish */
}

/* Waits until `peer` has published step `step` of the present call, or a later one. */
static inline int kolo_step_await(kolo_comm *comm, uint32_t peer, uint64_t step) {
    struct kolo_shared_signal *signal = &comm->segment.signals[peer];
    KOLO_POINT("step.awaiting");
    int rc = kolo_wait_at_least(&comm->waiter, &signal->progress, comm->call.step + step, &signal->bell, peer);
    if (rc < 0)
        return rc;
    KOLO_POINT("step.awaited");
    comm->call.peer_steps[peer] = comm->call.step + step; /* spares kolo_slot_claim a look at the line */
    if (__builtin_expect(kolo_load_relaxed(&signal->stamps[comm->call.schedule % KOLO_STAMPS_NEAR]) != comm->call.stamp,
                         0) &&
        kolo_load_relaxed(&signal->all_stamps[comm->call.schedule % KOLO_STAMPS]) != comm->call.stamp)
        return kolo_failure_publish_near(comm, KOLO_ERR_MISMATCH, peer, 0);
    return 0;
}

/* Waits until every peer has published step `step`. Each rank begins with the next one: not all look at one line. */
int kolo_step_await_all(kolo_comm *comm, uint64_t step);

/* Waits until this rank's slot for the call's ticket `ticket`, from 0, may be written. */
int kolo_slot_claim(kolo_comm *comm, uint64_t ticket);

/* Like kolo_slot_claim, for a ticket for which ranks write into each other's slots, though they may not have touched
 * them before: waits for all ranks. */
int kolo_slot_claim_all(kolo_comm *comm, uint64_t ticket);

/* Like kolo_slot_claim, for this rank's places (algo/direct_buffers.h). */
int kolo_places_claim(kolo_comm *comm);

/* Says that a rank which has published `step` of the present call, or a later one, has read this rank's places. */
static inline void kolo_places_retire(kolo_comm *comm, uint64_t step) {
    comm->call.places_free = comm->call.step + step;
}

/* Begins a schedule of `steps` steps and `tickets` tickets. A call has one, or two (algo/direct_buffers.c). */
static inline void kolo_schedule_begin(kolo_comm *comm, uint64_t steps, uint64_t tickets) {
    comm->call.steps = steps;
    comm->call.tickets = tickets;
    comm->call.ticket += comm->call.part > 0; /* with the rest of its slot */
    comm->call.part = 0;
    comm->call.is_small = false;
}

static inline size_t kolo_part_bytes(const kolo_comm *comm) {
    const size_t bytes = comm->segment.slot_bytes / KOLO_SLOT_PARTS;
    return bytes < KOLO_PART_BYTES_MAX ? bytes : KOLO_PART_BYTES_MAX;
}

/* The same for a collective with a root, with two steps a ticket. Where it has one ticket, of at most `bytes` in a
 * slot, a part may do. All ranks pass the same. */
static inline void kolo_schedule_begin_rooted(kolo_comm *comm, uint64_t tickets, size_t bytes) {
    if (tickets != 1 || bytes > kolo_part_bytes(comm) || comm->nodes) {
        kolo_schedule_begin(comm, 2 * tickets, tickets);
        return;
    }
    comm->call.steps = 2;
    comm->call.tickets = 1;
    comm->call.is_small = true;
}

/* Returns which of a rank's slots is for the call's ticket `ticket`. */
static inline uint64_t kolo_slot_index(const kolo_comm *comm, uint64_t ticket) {
    return (comm->call.ticket + ticket) % KOLO_SLOTS;
}

/* Returns which of a rank's parts a small schedule has. */
static inline uint64_t kolo_part_index(const kolo_comm *comm) {
    return kolo_slot_index(comm, 0) * KOLO_SLOT_PARTS + comm->call.part;
}

/* Behind kolo_slot_retire and the two below. */
static inline void kolo_slot_note_use(kolo_comm *comm, uint64_t ticket, uint64_t step, const uint64_t *readers,
                                      uint32_t reader) {
    const uint64_t past = comm->call.steps + 1, free = comm->call.step + (step < past ? step : past);
    const uint64_t slot = kolo_slot_index(comm, ticket);
    const struct kolo_slot_use use = {free, readers, reader};
    if (!comm->call.is_small) {
        comm->call.slots[slot] = use;
    } else {
        comm->call.parts[kolo_part_index(comm)] = use;
        comm->call.parts_free[slot] = free;
    }
}

/* Says that a rank which has published `step` no longer touches any slot of `ticket`: it neither reads its peers' slots
 * nor writes into them. If the schedule has no such step, the first step of the next schedule counts. */
static inline void kolo_slot_retire(kolo_comm *comm, uint64_t ticket, uint64_t step) {
    kolo_slot_note_use(comm, ticket, step, NULL, KOLO_EVERY_RANK);
}

/* The same where not all ranks touch this rank's slot. `readers`: those that do, one bit each, in words of 64 that stay
 * the caller's. */
static inline void kolo_slot_retire_to(kolo_comm *comm, uint64_t ticket, uint64_t step, const uint64_t *readers) {
    kolo_slot_note_use(comm, ticket, step, readers, 0);
}

/* The same where one rank alone does. KOLO_RANKS_MAX: none does. */
static inline void kolo_slot_retire_by(kolo_comm *comm, uint64_t ticket, uint64_t step, uint32_t reader) {
    kolo_slot_note_use(comm, ticket, step, NULL, reader);
}

/* Returns the slot of `rank` for the call's ticket `ticket`, or its part. */
static inline uint8_t *kolo_slot(const kolo_comm *comm, uint32_t rank, uint64_t ticket) {
    const uint64_t slot = rank * (uint64_t)KOLO_SLOTS + kolo_slot_index(comm, ticket);
    return comm->segment.slots + slot * comm->segment.slot_bytes + comm->call.part * kolo_part_bytes(comm);
}

/* Returns, behind a schedule, whether lines are recalled here (reduce/copy.h), and this rank knows that all others have
 * read the slot that it writes first in its next call. */
bool kolo_slot_is_recalled(const kolo_comm *comm);

/* If so, recalls as much of that slot as this rank has put into its slot: `bytes`, or a slot. */
void kolo_slot_recall(const kolo_comm *comm, size_t bytes);

static inline void kolo_schedule_end(kolo_comm *comm) {
    KOLO_POINT("call.ending");
    comm->call.past[comm->call.schedule % KOLO_STAMPS] = (struct kolo_past_steps){
        .step = comm->call.step, .stamp = comm->call.stamp, .line_rounds = comm->call.line_rounds};
    comm->call.schedule += comm->call.tickets > 0;
    comm->call.step += comm->call.steps;
    if (!comm->call.is_small) {
        comm->call.ticket += comm->call.tickets;
        return;
    }
    comm->call.ticket += ++comm->call.part == KOLO_SLOT_PARTS;
    comm->call.part %= KOLO_SLOT_PARTS;
}

/* Exchanges: calls in which each two ranks have regions between them. From the third in succession on, a rank may write
 * into others' slots before it knows that they make the same call (comm/README.md, "Exchanges"). */
#define KOLO_SWAP_CALLS 2

/* Ends that, for a call in which a rank reads a slot without waiting for all: first all wait for each other. */
int kolo_swaps_stop(kolo_comm *comm);

/* Return the rank before or after `rank` in the ring of all ranks. */
static inline uint32_t kolo_rank_before(const kolo_comm *comm, uint32_t rank) {
    return rank == 0 ? comm->size - 1 : rank - 1;
}

static inline uint32_t kolo_rank_after(const kolo_comm *comm, uint32_t rank) {
    return rank + 1 == comm->size ? 0 : rank + 1;
}

/* Oversubscription: where ranks outnumber processors, which ranks share this one's, and whether yielding helps one.
 *
 * Each rank stores in its member on which processor it last waited. In each wait it looks at one other rank's
 * processor, so that it knows all of them after as many waits as there are ranks. Its knowledge may be old: it only
 * decides whether some microseconds are spent spinning or switching. So it needs no memory order.
 *
 * A rank on the same processor is behind if it has begun fewer calls or published fewer steps, or if it is the one that
 * this rank waits for: then it has work to do. Another one that is as far as this one most likely waits for the same
 * peer. It runs if it does not show that it waits, or began to wait only since: then it may be what has used the
 * processor meanwhile. The other rank has written its words for this on the same processor, so that reading them costs
 * little. */

/* The waiter's `neighbours`; the waiter's owner is the communicator. KOLO_NEIGHBOUR_BEHIND, too, if the processor is
 * not known. */
enum kolo_neighbours kolo_oversubscription_look(kolo_waiter *waiter, uint32_t awaited, int64_t since_ns);
