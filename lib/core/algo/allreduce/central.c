/* Central: a parameter server's all-reduce. All ranks push their input to rank 0, which reduces it in the canonical
 * order, and pull the result. It is there for comparison: rank 0 reads N-1 messages while the others wait.
 *
 * The message goes chunk by chunk. Steps:
 *   - 2c + 1: the workers' chunk c is in their slots.
 *   - 2c + 2: the result is in rank 0's slot, and rank 0 has read the workers' chunk c.
 *
 * A worker has copied the result of chunk c when it publishes step 2c + 3, the push of the next chunk. */
#include "algo/algo.h"
#include "comm/step/progress.h"

enum { SERVER = 0 };

static int serve(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, count = kolo_chunk(message, chunk, &first);
    int rc = kolo_step_await_all(comm, 2 * chunk + 1);
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->call.sources[rank] = kolo_slot(comm, rank, chunk);
    comm->call.sources[SERVER] = message->send + first * element_bytes;
    uint8_t *recv = message->recv + first * element_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    if (count) {
        message->kernel->fold(recv, comm->call.sources, comm->size, count, comm->size);
        kolo_copy(kolo_slot(comm, SERVER, chunk), recv, count * element_bytes);
    }
    KOLO_POINT("central.served");
    kolo_traffic(comm, count * element_bytes, 1, comm->size - 1);
    kolo_step_publish(comm, 2 * chunk + 2);
    return 0;
}

static int push_and_pull(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, count = kolo_chunk(message, chunk, &first);
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    kolo_copy(kolo_slot(comm, comm->rank, chunk), message->send + first * element_bytes, count * element_bytes);
    KOLO_POINT("central.pushed");
    kolo_step_publish(comm, 2 * chunk + 1);
    int rc = kolo_step_await(comm, SERVER, 2 * chunk + 2);
    if (rc < 0)
        return rc;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
    kolo_copy(message->recv + first * element_bytes, kolo_slot(comm, SERVER, chunk), count * element_bytes);
    KOLO_POINT("central.pulled");
    kolo_traffic(comm, count * element_bytes, 1, 1);
    return 0;
}

int kolo_central_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t chunks = message->plan.chunks;
    int rc = 0;
    kolo_schedule_begin(comm, 2 * chunks, chunks);
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        rc = kolo_slot_claim(comm, chunk);
        if (rc == 0)
            rc = comm->rank == SERVER ? serve(comm, message, chunk) : push_and_pull(comm, message, chunk);
        kolo_slot_retire(comm, chunk, 2 * chunk + 3);
    }
    kolo_schedule_end(comm);
    return rc;
}
