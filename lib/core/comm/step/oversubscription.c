/* Oversubscription: whether another rank on this processor is behind this one. */
#include "comm/step/oversubscription.h"

#include <sched.h>
#include <string.h>

#include "comm/ranks.h"

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

bool kolo_oversubscription_is_behind(kolo_waiter *waiter) {
    kolo_comm *comm = waiter->owner;
    const uint64_t processor = (uint64_t)(sched_getcpu() + 1), progress = kolo_load_relaxed(&comm->signal->progress);
    if (processor == 0)
        return true;
    if (processor != comm->oversubscription.processor)
        move_to(comm, processor);
    look_at_next(comm);
    for (uint32_t first = 0; first < comm->size; first += 64)
        for (uint64_t left = comm->oversubscription.ranks[first / 64]; left; left &= left - 1) {
            const struct kolo_shared_signal *signal = &comm->segment.signals[first + (uint32_t)__builtin_ctzll(left)];
            if (kolo_load_relaxed(&signal->calls) < comm->call.number ||
                kolo_load_relaxed(&signal->progress) < progress)
                return true;
        }
    return comm->oversubscription.unknown > 0;
}
