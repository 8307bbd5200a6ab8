/* Direct buffers: finding the buffers that ranks pass, and copying out of them. See direct_buffers.h. */
#include "algo/direct_buffers.h"

#include "comm/step/peer_memory.h"
#include "comm/step/progress.h"

static bool has(enum kolo_owners owners, uint32_t rank, uint32_t root) {
    return owners == KOLO_OF_ALL || (owners == KOLO_OF_ROOT && rank == root);
}

static void show_places(kolo_comm *comm, const struct kolo_message *message, const struct kolo_direct *use) {
    const struct kolo_heap *heap = &comm->first->heap;
    struct kolo_shared_signal *signal = comm->signal;
    uint64_t places[2] = {0, 0};
    if (!comm->call.reads) {
        places[0] = kolo_heap_place(heap, message->send, use->send_bytes, comm->rank);
        places[1] = kolo_heap_place(heap, message->recv, use->recv_bytes, comm->rank);
    } else if (!use->apart || message->send != message->recv) {
        places[0] = (uintptr_t)message->send;
        places[1] = (uintptr_t)&signal->places[0];
    }
    kolo_store_relaxed(&signal->places[0], places[0]); /* the others read them after the acquire of step 1 */
    kolo_store_relaxed(&signal->places[1], places[1]);
    KOLO_POINT("direct.placed");
    kolo_step_publish(comm, 1);
}

/* Finds where the buffers of `rank` are. Returns whether its `recv` is in memory that all ranks have. */
static bool find_places(kolo_comm *comm, uint32_t rank, const struct kolo_direct *use) {
    const struct kolo_heap *heap = &comm->first->heap;
    struct kolo_shared_signal *signal = &comm->segment.signals[rank];
    const uint64_t send = kolo_load_relaxed(&signal->places[0]), recv = kolo_load_relaxed(&signal->places[1]);
    if (comm->call.reads) {
        comm->call.sources[rank] = (const void *)(uintptr_t)send;
        comm->call.targets[rank] = NULL;
        return false;
    }
    comm->call.sources[rank] = kolo_heap_address(heap, send, use->send_bytes, rank);
    comm->call.targets[rank] = kolo_heap_address(heap, recv, use->recv_bytes, rank);
    return comm->call.targets[rank] && kolo_heap_is_common(heap, recv);
}

/* Finds where the buffers of all ranks are. Returns how many ranks receive in memory that all have. This and what
 * follows has the same result on all ranks. */
static uint32_t find_buffers(kolo_comm *comm, const struct kolo_direct *use) {
    uint32_t common = 0;
    comm->call.one_target = use->same_result;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        common += find_places(comm, rank, use);
        comm->call.one_target &= comm->call.targets[rank] && comm->call.targets[rank] == comm->call.targets[0];
    }
    return common;
}

/* Returns false if a buffer is not one of kolo_alloc's. */
static bool is_possible(const kolo_comm *comm, uint32_t root, const struct kolo_direct *use) {
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const uint8_t *source = comm->call.sources[rank], *target = comm->call.targets[rank];
        if ((has(use->send, rank, root) && !source && !(use->own_send && comm->call.one_target)) ||
            (has(use->recv, rank, root) && !target) || (use->apart && source && source == target))
            return false;
    }
    return true;
}

static bool overlap(const uint8_t *one, size_t one_bytes, const uint8_t *other, size_t other_bytes) {
    return one && other && one_bytes && other_bytes && one < other + other_bytes && other < one + one_bytes;
}

/* Returns whether rank `writer` receives in memory that another one passes, too. Slices of the call look at the whole,
 * whose buffers begin as far before all of the slice's: all lanes refuse it, or none. */
static bool disturbs(const kolo_comm *comm, const struct kolo_message *message, uint32_t writer,
                     const struct kolo_direct *use) {
    const uint8_t *target = comm->call.targets[writer];
    const size_t gap_bytes = message->gap * message->kernel->element_bytes;
    const size_t send_bytes = use->send_bytes + gap_bytes, recv_bytes = use->recv_bytes + gap_bytes;
    if (use->recv == KOLO_OF_ROOT && writer != message->root)
        return false;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const uint8_t *source = comm->call.sources[rank], *other = comm->call.targets[rank];
        const bool same = use->same_result && other == target;
        const bool is_apart = (use->own_send && comm->call.one_target) || (same && use->one_buffer) ||
                              (use->in_block && source == target + rank * kolo_block_stride(message));
        if (rank != writer && ((!is_apart && overlap(target, recv_bytes, source, send_bytes)) ||
                               (use->recv != KOLO_OF_ROOT && !same && overlap(target, recv_bytes, other, recv_bytes))))
            return true;
    }
    return false;
}

/* Refuses calls whose result would depend on which rank is faster. */
static int check_common(const kolo_comm *comm, const struct kolo_message *message, const struct kolo_direct *use) {
    const kolo_collective collective = (kolo_collective)(kolo_call_key_now(comm).collective - 1);
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (disturbs(comm, message, rank, use))
            return KOLO_REFUSE(comm, kolo_descriptor_of(collective)->function,
                               "rank %u receives in shared memory that another rank passes, too: all ranks may receive "
                               "the same result at the same place, and send from elsewhere",
                               kolo_rank_global(comm, rank));
    return 0;
}

/* The longest that a rank waits for another one, which lives, to leave its buffers alone. */
#define LEAVING_NS (1000 * KOLO_NS_PER_MS)

/* The time between two looks at what the other process does. */
#define ACTIVITY_NS (2 * KOLO_NS_PER_MS)

/* Returns whether some rank has not come to step 1 of this call: then nobody uses others' buffers. */
static bool is_before_step_1(const kolo_comm *comm) {
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const struct kolo_shared_signal *signal = &comm->segment.signals[rank];
        if (kolo_load_acquire(&signal->calls) < comm->call.number ||
            kolo_load_acquire(&signal->progress) <= comm->call.step)
            return true;
    }
    return false;
}

/* Returns whether `peer` lives and is not stopped. */
static bool is_running(kolo_comm *comm, uint32_t peer) {
    kolo_liveness_look_at(&comm->liveness, peer, 1);
    return !kolo_liveness_has_ended(&comm->liveness, peer) && kolo_liveness_activity(&comm->liveness, peer) != 'T';
}

static void await_leaving(kolo_comm *comm, uint32_t peer, int64_t until_ns) {
    struct kolo_shared_signal *signal = &comm->segment.signals[peer];
    while (!kolo_wait_briefly(&signal->ended, comm->call.number, &signal->bell, ACTIVITY_NS) &&
           kolo_clock_ns() < until_ns && is_running(comm, peer))
        continue;
}

int kolo_direct_give_up(kolo_comm *comm, int rc) {
    kolo_show_release(&comm->signal->ended, comm->call.number); /* pairs with await_leaving */
    kolo_fence_sleeper(); /* pairs with kolo_step_publish: a rank that publishes step 1 later finds the failure */
    KOLO_POINT("direct.leaving");
    if (comm->call.reads || is_before_step_1(comm))
        return rc;
    const int64_t until_ns = kolo_clock_ns() + LEAVING_NS;
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer))
        await_leaving(comm, peer, until_ns);
    return rc;
}

/* Ends this schedule after `steps` steps: another algorithm has to do the same call. */
static int go_on_otherwise(kolo_comm *comm, uint64_t steps) {
    kolo_schedule_begin(comm, steps, 0);
    kolo_schedule_end(comm);
    return KOLO_DIRECT_IMPOSSIBLE;
}

int kolo_direct_begin(kolo_comm *comm, const struct kolo_message *message, const struct kolo_direct *use) {
    comm->call.reads = message->plan.reads;
    comm->call.has_refused = false;
    kolo_schedule_begin(comm, 2, 1);
    int rc = kolo_slot_claim(comm, 0);
    if (rc == 0)
        rc = kolo_places_claim(comm);
    if (rc < 0)
        return rc;
    show_places(comm, message, use);
    rc = kolo_step_await_all(comm, 1);
    kolo_places_retire(comm, 2);
    if (rc == 0)
        rc = kolo_direct_check(comm);
    if (rc < 0)
        return kolo_direct_give_up(comm, rc);
    const uint32_t common = find_buffers(comm, use);
    const int refused = common ? check_common(comm, message, use) : 0;
    if (refused < 0) {
        rc = kolo_direct_end(comm);
        return rc < 0 ? rc : refused;
    }
    if (is_possible(comm, message->root, use))
        return 0;
    KOLO_POINT("direct.impossible");
    return go_on_otherwise(comm, 1);
}

void kolo_direct_copy(kolo_comm *comm, uint32_t peer, size_t offset, void *to, size_t bytes) {
    const uint8_t *from = (const uint8_t *)comm->call.sources[peer] + offset;
    if (!comm->call.reads || peer == comm->rank) {
        if (from != to)
            kolo_copy(to, from, bytes);
    } else if (!comm->call.has_refused) {
        KOLO_POINT("direct.reading");
        comm->call.has_refused = !kolo_peer_memory_read(comm, peer, to, from, bytes);
    }
}

int kolo_direct_check(kolo_comm *comm) {
    kolo_fence_loads();
    if (kolo_direct_has_failed(comm))
        return kolo_failure_look(comm, kolo_rank_after(comm, comm->rank), 0);
    if (comm->call.has_refused) {
        kolo_store_relaxed(&comm->segment.header->reads_refused, 1); /* the others look after the acquire of step 2 */
        KOLO_POINT("direct.refused");
    }
    return 0;
}

int kolo_direct_end(kolo_comm *comm) {
    int rc = kolo_direct_check(comm);
    KOLO_POINT("direct.done");
    if (rc == 0) {
        kolo_step_publish(comm, 2);
        rc = kolo_step_await_all(comm, 2);
    }
    if (rc < 0)
        return kolo_direct_give_up(comm, rc);
    if (comm->call.reads && kolo_load_relaxed(&comm->segment.header->reads_refused))
        return go_on_otherwise(comm, 2);
    kolo_slot_retire(comm, 0, 3);
    kolo_schedule_end(comm);
    return rc;
}
