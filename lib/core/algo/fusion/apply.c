/* kolo_allreduce_apply: reduce-scatter of gradients, a function on what each rank owns, all-gather of parameters, in
 * one pass.
 *
 * Each rank owns one range of the message (apply.h). Ticket t carries a chunk of every rank's range, or of those whose
 * turn it is (algo/regions.h): a slot has a region for each. For a chunk
 *   - scatter: each rank copies its gradients of all chunks but its own into its own slot, each to its owner's region;
 *   - update: once all have done so, the owner folds its chunk, piece by piece, from its own gradients and its region
 * in all peers' slots into a stage of its own, calls the function on that and on its own parameters, and copies the new
 *     parameters into each peer's slot, to where it has just read that peer's gradients;
 *   - gather: each rank copies the others' parameters out of its own slot.
 * Order, steps and claims are those of mesh (algo/allreduce/mesh.c), with update in place of reduce: the rank that has
 * read a line is the next to write it. No rank but the owner of a region writes to it between the two steps, or reads
 * it before the second one. Only the owners of a ticket's regions touch others' slots, so that a rank which has awaited
 * the update of those may fill its slot again. Every rank waits in each ticket for scatter of all: it compares all
 * stamps.
 *
 * Mapped buffers. Where all ranks' gradients are in memory that all have mapped (algo/direct_buffers.h), owners fold
 * from there, and nothing is scattered. Where all ranks' parameters are in such memory, owners copy the new ones there,
 * and nothing is gathered. The steps stay. A rank's gradients must not change, and its parameters are not its own,
 * before all owners' last update, which gather awaits. The first step of such a call, which shows the places, is a
 * schedule of its own; places stay until the last step of the second one. If nothing goes through slots, no tickets are
 * needed: a rank updates its range at once, and step 2 says that it has done so. Parameters that several ranks have in
 * the same memory are written once. */
#include "algo/fusion/apply.h"

#include "algo/direct_buffers.h"
#include "algo/phases.h"
#include "algo/regions.h"
#include "cpu/fpenv.h"

/* The way of gradients to their owners, and of parameters from them. */
enum way { NO_WAY, BY_SLOTS, MAPPED };

/* A piece through slots is small, and the next piece's gradients are fetched while the function computes: measured with
 * AdamW on 64 MiB, two ranks take 0.87 of the time of pieces of 8 KiB without that. Copies to mapped parameters would
 * take 5 to 10 % longer with such small pieces. */
enum { SMALL_PIECE_BYTES = 2048, CPU_LINE_BYTES = 64, FETCHED_RANKS_MAX = 2 };

struct step {
    kolo_comm *comm;
    const struct kolo_message *message;
    enum way gradients, parameters;
};

void kolo_apply_alone(const struct kolo_apply *apply, const void *gradients, void *parameters, size_t count) {
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    if (count)
        apply->function(apply->context, 0, count, apply->has_gradients ? gradients : NULL,
                        apply->has_parameters ? parameters : NULL);
    kolo_fpenv_leave(callers_fpenv);
}

/* Returns the elements that the ticket carries of the range of `rank`. */
static size_t chunk_of(const struct step *step, uint32_t rank, const struct kolo_turn *turn, size_t *first) {
    size_t begin;
    const size_t range_count = kolo_apply_range(step->message, step->comm->size, rank, &begin);
    const size_t count = kolo_chunk_of(step->message, range_count, turn->chunk, first);
    *first += begin;
    return count;
}

/* Copies the new parameters of a piece to all ranks that have them elsewhere, and moves targets on. */
static void hand_out(const struct step *step, const uint8_t *own, size_t bytes) {
    kolo_comm *comm = step->comm;
    const bool is_streamed = step->parameters == MAPPED && step->message->plan.stream;
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        if (comm->call.targets[peer] != own && is_streamed)
            kolo_copy_stream(comm->call.targets[peer], own, bytes, NULL);
        else if (comm->call.targets[peer] != own)
            kolo_copy(comm->call.targets[peer], own, bytes);
        comm->call.targets[peer] += bytes;
    }
    KOLO_POINT("apply.handed_out");
}

/* Makes the CPU fetch what the next fold reads: the own gradients, and those of few peers. */
static void fetch_ahead(const kolo_comm *comm, size_t bytes) {
    const uint32_t ranks = comm->size <= FETCHED_RANKS_MAX ? comm->size : 1;
    for (uint32_t i = 0, rank = comm->rank; i < ranks; i++, rank = kolo_rank_after(comm, rank))
        for (size_t at = 0; at < bytes; at += CPU_LINE_BYTES)
            __builtin_prefetch((const uint8_t *)comm->call.sources[rank] + at);
}

/* Folds, updates and hands out `count` elements of the message from `first` on. comm->call.sources are their gradients,
 * comm->call.targets the places of the others' parameters. */
static void update_elements(const struct step *step, size_t first, size_t count) {
    kolo_comm *comm = step->comm;
    const struct kolo_apply *apply = step->message->apply;
    const kolo_kernel *kernel = step->message->kernel;
    const bool is_small = step->parameters != MAPPED;
    const size_t element_bytes = kernel->element_bytes;
    const size_t piece_count = (is_small ? SMALL_PIECE_BYTES : KOLO_PIECE_BYTES) / element_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    for (size_t done = 0, part; done < count && !kolo_direct_has_failed(comm); done += part) {
        part = count - done < piece_count ? count - done : piece_count;
        uint8_t *own = step->parameters ? step->message->recv + (first + done) * element_bytes : NULL;
        if (step->gradients) {
            kernel->fold(comm->call.stage, comm->call.sources, comm->size, part, comm->size);
            for (uint32_t rank = 0; rank < comm->size; rank++)
                comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + part * element_bytes;
        }
        KOLO_POINT("apply.folded_piece");
        if (is_small && step->gradients && count - done - part >= part)
            fetch_ahead(comm, part * element_bytes);
        apply->function(apply->context, first + done, part, step->gradients ? comm->call.stage : NULL, own);
        if (step->parameters)
            hand_out(step, own, part * element_bytes);
    }
    if (step->gradients)
        comm->stats.received_bytes += count * element_bytes * (comm->size - 1);
    if (step->parameters)
        comm->stats.sent_bytes += count * element_bytes * (comm->size - 1);
}

/* Finds where the ranks have the elements from `first` on, in buffers that all have mapped. */
static void find_mapped(const struct step *step, size_t first) {
    kolo_comm *comm = step->comm;
    const size_t at = first * step->message->kernel->element_bytes;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const struct kolo_shared_signal *signal = &comm->segment.signals[rank];
        if (step->gradients == MAPPED)
            comm->call.sources[rank] =
                kolo_heap_address(&comm->first->heap, kolo_load_relaxed(&signal->places[0]), at, rank) + at;
        if (step->parameters == MAPPED)
            comm->call.targets[rank] =
                kolo_heap_address(&comm->first->heap, kolo_load_relaxed(&signal->places[1]), at, rank) + at;
    }
}

static int scatter(const struct step *step, size_t ticket) {
    kolo_comm *comm = step->comm;
    const size_t element_bytes = step->message->kernel->element_bytes;
    const struct kolo_turn turn = kolo_turn(comm, step->message, ticket);
    const int rc = ticket < KOLO_SLOTS ? kolo_slot_claim(comm, ticket) : 0;
    if (rc < 0)
        return rc;
    KOLO_POINT("apply.claimed");
    for (uint32_t owner = turn.begin; step->gradients == BY_SLOTS && owner < turn.end; owner++) {
        size_t first, count = owner == comm->rank ? 0 : chunk_of(step, owner, &turn, &first);
        if (count == 0)
            continue;
        kolo_copy(kolo_region(comm, step->message, comm->rank, ticket, &turn, owner),
                  step->message->send + first * element_bytes, count * element_bytes);
        comm->stats.sent_bytes += count * element_bytes;
    }
    KOLO_POINT("apply.scattered");
    kolo_step_publish(comm, kolo_step_scattered(ticket));
    return 0;
}

static int update(const struct step *step, size_t ticket) {
    kolo_comm *comm = step->comm;
    const struct kolo_turn turn = kolo_turn(comm, step->message, ticket);
    int rc = kolo_step_await_all(comm, kolo_step_scattered(ticket));
    if (rc < 0)
        return rc;
    if (comm->rank >= turn.begin && comm->rank < turn.end) {
        size_t first, count = chunk_of(step, comm->rank, &turn, &first);
        for (uint32_t rank = 0; rank < comm->size; rank++) {
            comm->call.targets[rank] = kolo_region(comm, step->message, rank, ticket, &turn, comm->rank);
            comm->call.sources[rank] = comm->call.targets[rank];
        }
        find_mapped(step, first);
        if (step->gradients)
            comm->call.sources[comm->rank] = step->message->send + first * step->message->kernel->element_bytes;
        update_elements(step, first, count);
        if (step->parameters == MAPPED && step->message->plan.stream)
            kolo_fence_stream();
    }
    rc = kolo_direct_check(comm);
    KOLO_POINT("apply.updated");
    if (rc == 0)
        kolo_step_publish(comm, kolo_step_reduced(ticket));
    return rc;
}

/* Returns the gradients that this rank scatters next from the place of a chunk; NULL: none. */
static const uint8_t *next_gradients(const struct step *step, uint32_t owner, const struct kolo_turn *turn,
                                     size_t count) {
    const struct kolo_turn next = {turn->chunk + KOLO_CHUNKS_AT_ONCE, turn->begin, turn->end};
    size_t first;
    if (step->gradients != BY_SLOTS || chunk_of(step, owner, &next, &first) < count)
        return NULL;
    return step->message->send + first * step->message->kernel->element_bytes;
}

static int gather(const struct step *step, size_t ticket) {
    kolo_comm *comm = step->comm;
    const size_t element_bytes = step->message->kernel->element_bytes;
    const struct kolo_turn turn = kolo_turn(comm, step->message, ticket);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        if (peer < turn.begin || peer >= turn.end)
            continue;
        const int rc = kolo_step_await(comm, peer, kolo_step_reduced(ticket));
        if (rc < 0)
            return rc;
        if (step->parameters != BY_SLOTS)
            continue;
        size_t first, count = chunk_of(step, peer, &turn, &first);
        const uint8_t *from = kolo_region(comm, step->message, comm->rank, ticket, &turn, peer);
        uint8_t *to = step->message->recv + first * element_bytes;
        kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
        if (step->message->plan.stream)
            kolo_copy_stream(to, from, count * element_bytes, next_gradients(step, peer, &turn, count));
        else
            kolo_copy(to, from, count * element_bytes);
        KOLO_POINT("apply.gathered");
        comm->stats.received_bytes += count * element_bytes;
    }
    return 0;
}

static int run_tickets(const struct step *step) {
    kolo_comm *comm = step->comm;
    const size_t tickets = step->message->plan.chunks * kolo_turns(comm, step->message);
    kolo_schedule_begin(comm, kolo_step_reduced(tickets - 1), tickets);
    if (step->gradients == MAPPED || step->parameters == MAPPED)
        kolo_places_retire(comm, kolo_step_reduced(tickets - 1));
    int rc = scatter(step, 0);
    for (size_t ticket = 0; rc == 0 && ticket <= tickets; ticket++) {
        if (ticket + 1 < tickets)
            rc = scatter(step, ticket + 1);
        if (rc == 0 && ticket < tickets)
            rc = update(step, ticket);
        if (rc == 0 && ticket > 0) {
            rc = gather(step, ticket - 1);
            kolo_slot_retire(comm, ticket - 1, kolo_step_scattered(ticket + 2));
        }
    }
    if (rc < 0 && (step->gradients == MAPPED || step->parameters == MAPPED))
        kolo_direct_give_up(comm, rc);
    kolo_result_end(step->message);
    kolo_schedule_end(comm);
    return rc;
}

int kolo_apply_run(kolo_comm *comm, const struct kolo_message *message) {
    const struct step step = {comm, message, message->apply->has_gradients ? BY_SLOTS : NO_WAY,
                              message->apply->has_parameters ? BY_SLOTS : NO_WAY};
    return run_tickets(&step);
}

/* Finds which of the buffers are mapped on all ranks, by their addresses. */
static void choose_ways(struct step *step) {
    kolo_comm *comm = step->comm;
    bool sources = true, targets = true;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        sources = sources && comm->call.sources[rank];
        targets = targets && comm->call.targets[rank];
    }
    step->gradients = !step->message->apply->has_gradients ? NO_WAY : sources ? MAPPED : BY_SLOTS;
    step->parameters = !step->message->apply->has_parameters ? NO_WAY : targets ? MAPPED : BY_SLOTS;
}

int kolo_apply_direct(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const struct kolo_direct use = {.send_bytes = bytes, .recv_bytes = bytes, .same_result = true};
    struct step step = {comm, message, NO_WAY, NO_WAY};
    struct kolo_message shown = *message;
    if (!message->apply->has_gradients)
        shown.send = NULL;
    if (!message->apply->has_parameters)
        shown.recv = NULL;
    const int rc = kolo_direct_begin(comm, &shown, &use);
    if (rc != 0)
        return rc;
    choose_ways(&step);
    if (step.gradients == BY_SLOTS || step.parameters == BY_SLOTS) {
        KOLO_POINT("apply.mixed");
        kolo_schedule_begin(comm, 1, 0); /* step 1 was all of it */
        kolo_schedule_end(comm);
        return step.gradients == MAPPED || step.parameters == MAPPED ? run_tickets(&step) : KOLO_DIRECT_IMPOSSIBLE;
    }
    size_t first;
    const size_t count = kolo_apply_range(message, comm->size, comm->rank, &first);
    find_mapped(&step, first);
    update_elements(&step, first, count);
    if (message->plan.stream)
        kolo_fence_stream();
    KOLO_POINT("apply.updated_directly");
    return kolo_direct_end(comm);
}
