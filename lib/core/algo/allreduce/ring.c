/* Ring: the ring all-reduce, 2(N-1) hops between neighbours, chunk by chunk. Source: Patarasuk and Yuan, "Bandwidth
 * optimal all-reduce algorithms for clusters of workstations", 2009.
 *
 * A chunk is cut into one slice a rank.
 *   - Reduce-scatter, hops 0 .. N-2: in hop h, rank r puts slice r - h into its slot. That is its own input joined to
 *     the partial result that rank r - 1 put there in the hop before.
 *   - All-gather, hops N-1 .. 2N-3: in hop N-1, rank r joins its input to the partial result of slice r + 1, which is
 *     then final. In each hop after that it passes on the final slice that rank r - 1 put into its slot in the hop
 *     before. At the end it takes the last slice from rank r - 1 without passing it on.
 *
 * Each rank puts N-1 partial and N-1 final slices into its slot: 2(N-1)/N of the message.
 *
 * A rank publishes step h + 1 of a chunk after hop h, and reads only from the slot of the rank before it. Partial
 * results are of the accumulation type, so that F16 and BF16 are rounded once here as well. They have their own part of
 * the slot, so nothing in a slot is written twice within a chunk. A rank is done reading when it publishes its first
 * hop of the next chunk.
 *
 * The sum of floats associates in ring order, a different one for each slice: the same bits on all ranks, since one
 * rank finishes each slice, but other bits than those of the other algorithms. */
#include "algo/algo.h"
#include "comm/step/progress.h"

/* The place of a slice of a chunk: in the message, and in every rank's slot. */
struct place {
    size_t count;
    size_t message_offset; /* bytes, as the next two */
    size_t partial_offset;
    size_t final_offset;
};

static struct place locate(const kolo_comm *comm, const struct kolo_message *message, size_t chunk, uint64_t slice) {
    const kolo_kernel *kernel = message->kernel;
    size_t first, within, count = kolo_chunk(message, chunk, &first);
    struct place place;
    place.count = kolo_plan_slice(count, kernel->element_bytes, comm->size, (uint32_t)(slice % comm->size), &within);
    place.message_offset = (first + within) * kernel->element_bytes;
    place.partial_offset = within * kernel->acc_bytes;
    place.final_offset = message->plan.chunk_count * kernel->acc_bytes + within * kernel->element_bytes;
    return place;
}

/* Hops 0 .. N-2: passes a partial slice on into this rank's slot, which is written by copying: see copy.c. */
static void pass_partial(kolo_comm *comm, const struct kolo_message *message, size_t chunk, uint32_t hop) {
    const kolo_kernel *kernel = message->kernel;
    const struct place place = locate(comm, message, chunk, comm->rank + comm->size - hop);
    uint8_t *to = kolo_slot(comm, comm->rank, chunk) + place.partial_offset;
    const uint8_t *own = message->send + place.message_offset;
    const uint8_t *from = kolo_slot(comm, kolo_rank_before(comm, comm->rank), chunk) + place.partial_offset;
    const size_t piece_count = KOLO_PIECE_BYTES / kernel->acc_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    for (size_t done = 0; done < place.count; done += piece_count) {
        const size_t left = place.count - done, part = left < piece_count ? left : piece_count;
        const size_t at = done * kernel->acc_bytes;
        const uint8_t *input = own + done * kernel->element_bytes, *partial = comm->call.stage;
        if (hop > 0)
            kernel->chain(comm->call.stage, from + at, input, part);
        else if (kernel->acc_bytes > kernel->element_bytes)
            kernel->widen(comm->call.stage, input, part);
        else
            partial = input;
        kolo_copy(to + at, partial, part * kernel->acc_bytes);
    }
    KOLO_POINT("ring.passed_partial");
    kolo_traffic(comm, place.count * kernel->acc_bytes, 1, hop > 0);
}

/* Hops N-1 .. 2N-3: passes one final slice on into this rank's slot and its `recv`. */
static void pass_final(kolo_comm *comm, const struct kolo_message *message, size_t chunk, uint32_t hop) {
    const kolo_kernel *kernel = message->kernel;
    const struct place place = locate(comm, message, chunk, comm->rank + 2 * (uint64_t)comm->size - hop);
    const uint8_t *before = kolo_slot(comm, kolo_rank_before(comm, comm->rank), chunk);
    uint8_t *to = kolo_slot(comm, comm->rank, chunk) + place.final_offset;
    uint8_t *recv = message->recv + place.message_offset;
    const size_t bytes = place.count * kernel->element_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    if (hop == comm->size - 1) {
        kernel->chain_end(recv, before + place.partial_offset, message->send + place.message_offset, place.count,
                          comm->size);
        kolo_copy(to, recv, bytes);
        comm->stats.received_bytes += place.count * kernel->acc_bytes;
    } else {
        kolo_copy(to, before + place.final_offset, bytes);
        kolo_copy(recv, to, bytes);
        comm->stats.received_bytes += bytes;
    }
    KOLO_POINT("ring.passed_final");
    comm->stats.sent_bytes += bytes;
}

/* Takes the last slice, which this rank does not pass on. */
static void take_last(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const struct place place = locate(comm, message, chunk, (uint64_t)comm->rank + 2);
    const uint8_t *before = kolo_slot(comm, kolo_rank_before(comm, comm->rank), chunk);
    const size_t bytes = place.count * message->kernel->element_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
    kolo_copy(message->recv + place.message_offset, before + place.final_offset, bytes);
    KOLO_POINT("ring.taken");
    comm->stats.received_bytes += bytes;
}

int kolo_ring_run(kolo_comm *comm, const struct kolo_message *message) {
    const uint32_t before = kolo_rank_before(comm, comm->rank), hops = 2 * (comm->size - 1);
    const size_t chunks = message->plan.chunks;
    int rc = 0;
    kolo_schedule_begin(comm, chunks * (uint64_t)hops, chunks);
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        const uint64_t base = (uint64_t)chunk * hops;
        rc = kolo_slot_claim(comm, chunk);
        for (uint32_t hop = 0; rc == 0 && hop < hops; hop++) {
            if (hop > 0)
                rc = kolo_step_await(comm, before, base + hop);
            if (rc < 0)
                break;
            if (hop < comm->size - 1)
                pass_partial(comm, message, chunk, hop);
            else
                pass_final(comm, message, chunk, hop);
            kolo_step_publish(comm, base + hop + 1);
        }
        if (rc == 0)
            rc = kolo_step_await(comm, before, base + hops);
        if (rc == 0)
            take_last(comm, message, chunk);
        kolo_slot_retire(comm, chunk, base + hops + 1);
    }
    kolo_schedule_end(comm);
    return rc;
}
