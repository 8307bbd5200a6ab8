/* Phases are the parts that algorithms over slots are composed of. A phase works on one chunk, and publishes at most
 * one step. So a caller can run phases of different chunks in turn, and they overlap between ranks.
 *
 * Show. A rank copies its chunk to where all can read it. Two ranks swap their slots from one use to the next, so that
 * the rank that has read a line is the next to write it. For the reason in mesh.c, 4 to 64 KiB then take 0.3 to 0.5 of
 * the time with a common L3, 0.2 to 0.4 without. A rank that has claimed its slot for a ticket knows that the other is
 * done with the ticket that used these two slots before.
 *
 * Reduce-scatter and all-gather of a chunk that is cut into one slice a rank, whose owner that rank is:
 *   scatter  copies all of the chunk but the own slice into this rank's slot;
 *   reduce   once all have done so, folds the own slice, piece by piece, from `send` and all peers' slots, and puts the
 *            result into `recv` and, for each peer, in the place where it has read that peer's input;
 *   gather   copies what the peers have given back out of this rank's slot into `recv`. */
#pragma once

#include "algo/algo.h"
#include "comm/step/progress.h"

/* Returns where `rank` shows chunk `chunk`. */
static inline uint8_t *kolo_phase_shown_at(const kolo_comm *comm, uint32_t rank, size_t chunk) {
    const uint32_t turn = (comm->call.ticket + chunk) / KOLO_SLOTS & 1;
    return kolo_slot(comm, comm->size == 2 ? rank ^ turn : rank, chunk);
}

/* Claims this rank's slot, copies the chunk from `send` to where it is shown, and publishes step chunk + 1. */
static inline int kolo_phase_show(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, count = kolo_chunk(message, chunk, &first);
    int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    KOLO_POINT("phase.claimed");
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    kolo_copy(kolo_phase_shown_at(comm, comm->rank, chunk), message->send + first * element_bytes,
              count * element_bytes);
    KOLO_POINT("phase.shown");
    kolo_step_publish(comm, chunk + 1);
    return 0;
}

/* Waits until all have shown the chunk, and points comm->call.sources at the inputs of the first `inputs` ranks, and at
 * this rank's own in `send`. The stage that follows is folding them. */
static inline int kolo_phase_await_shown(kolo_comm *comm, const struct kolo_message *message, size_t chunk,
                                         uint32_t inputs) {
    const int rc = kolo_step_await_all(comm, chunk + 1);
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < inputs; rank++)
        comm->call.sources[rank] = kolo_phase_shown_at(comm, rank, chunk);
    comm->call.sources[comm->rank] = message->send + chunk * message->plan.chunk_count * message->kernel->element_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    return 0;
}

typedef int kolo_phase_fn(kolo_comm *comm, const struct kolo_message *message, size_t chunk);

/* Runs a schedule of `tickets` tickets in which each rank shows something and takes what the others show. `show`
 * publishes step t + 1 of ticket t. A rank shows ticket t + 1 before it takes ticket t, so that its peers need not wait
 * for that; when it publishes step t + 3 it has taken ticket t. */
static inline __attribute__((always_inline)) int kolo_phases_show_ahead(kolo_comm *comm,
                                                                        const struct kolo_message *message,
                                                                        size_t tickets, kolo_phase_fn *show,
                                                                        kolo_phase_fn *take) {
    kolo_schedule_begin(comm, tickets, tickets);
    int rc = show(comm, message, 0);
    for (size_t ticket = 0; rc == 0 && ticket < tickets; ticket++) {
        if (ticket + 1 < tickets)
            rc = show(comm, message, ticket + 1);
        if (rc == 0)
            rc = take(comm, message, ticket);
        kolo_slot_retire(comm, ticket, ticket + 3);
    }
    kolo_schedule_end(comm);
    return rc;
}

/* The ways of kolo_phase_fold, as bits. */
enum {
    KOLO_FOLD_TAKE =
        1, /* it takes over (reduce/copy.h) the lines of others' slots that it has read, as nobody else reads them */
    KOLO_FOLD_STREAM = 2 /* the result goes past the caches */
};

/* Folds `count` elements of comm->call.sources into `result`, piece by piece. comm->call.sources moves on. */
void kolo_phase_fold(kolo_comm *comm, const kolo_kernel *kernel, uint8_t *result, size_t count, unsigned how);

/* reduce waits until all have scattered the chunk. gather waits for each peer's reduce in turn, and copies its results:
 * then no peer touches this rank's slot. */
kolo_phase_fn kolo_phase_reduce, kolo_phase_gather;

/* The steps of a schedule that runs all three phases, as mesh.c has them. */
static inline uint64_t kolo_step_scattered(size_t chunk) {
    return chunk == 0 ? 1 : 2 * chunk;
}

static inline uint64_t kolo_step_reduced(size_t chunk) {
    return 2 * chunk + 3;
}

/* Runs such a schedule, in the order of mesh.c, with these two phases, or others of the caller's: `reduce` waits until
 * all have scattered the chunk and publishes that it has reduced it. The first `claimed` chunks claim their slots.
 * Where every rank waits for the others' reduce, KOLO_SLOTS are enough; elsewhere it is KOLO_EACH_CHUNK. A claimed slot
 * is free once scatter(c + 3) is published, which all ranks do after their part of chunk c. */
#define KOLO_EACH_CHUNK SIZE_MAX
int kolo_phases_run(kolo_comm *comm, const struct kolo_message *message, size_t claimed, kolo_phase_fn *reduce,
                    kolo_phase_fn *gather);
