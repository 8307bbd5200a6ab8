/* The watchdog: the ranks take turns in looking whether the others live. */
#include "comm/failure/watchdog.h"

#include "base/clock.h"

#define WATCHDOG_NS (20 * KOLO_NS_PER_MS)
#define STALE_NS    (45 * KOLO_NS_PER_MS)
#define WATCHED_NS  (40 * KOLO_NS_PER_MS)

/* A lease is a time in units of UNIT_NS, and the holder. 0 is older than any lease. */
#define HOLDER_BITS 10
#define UNIT_NS     (KOLO_NS_PER_MS / 8)

enum { BATCH = 64 }; /* looks between which the lease is renewed */

static_assert(KOLO_RANKS_MAX <= 1 << HOLDER_BITS, "a rank fits");

static uint64_t lease_of(uint32_t holder, int64_t now_ns) {
    return (uint64_t)(now_ns / UNIT_NS) << HOLDER_BITS | holder;
}

static uint32_t holder_of(uint64_t lease) {
    return lease & ((1 << HOLDER_BITS) - 1);
}

/* Times are unsigned, here and below: one in the future, by another time namespace's clock, counts as long past. */
static uint64_t age_ns(uint64_t lease, int64_t now_ns) {
    return ((uint64_t)(now_ns / UNIT_NS) - (lease >> HOLDER_BITS)) * UNIT_NS;
}

static bool take(kolo_atomic_u64 *lease, uint64_t found, uint32_t self, int64_t now_ns) {
    KOLO_POINT("watchdog.taking");
    const bool taken = kolo_compare_and_swap(lease, found, lease_of(self, now_ns));
    KOLO_POINT("watchdog.taken");
    return taken;
}

bool kolo_watchdog_take(kolo_atomic_u64 *lease, uint32_t self, int64_t now_ns,
                        const struct kolo_watchdog_times *times) {
    const uint64_t found = kolo_load_acquire(lease);
    const int64_t due_ns = holder_of(found) == self ? times->renewed_ns : times->stale_ns;
    return age_ns(found, now_ns) >= (uint64_t)due_ns && take(lease, found, self, now_ns);
}

bool kolo_watchdog_keep(kolo_atomic_u64 *lease, uint32_t self, int64_t now_ns) {
    const uint64_t found = kolo_load_acquire(lease);
    return holder_of(found) == self && take(lease, found, self, now_ns);
}

bool kolo_watchdog_look_at_wards(kolo_comm *comm) {
    const uint32_t others = comm->size - 1;
    return kolo_liveness_look_at(&comm->liveness, comm->rank + 1, others < KOLO_WATCHED ? others : KOLO_WATCHED);
}

static bool has_looked(const kolo_comm *comm, uint32_t rank, int64_t now_ns) {
    return (uint64_t)now_ns - kolo_load_relaxed(&comm->segment.members[rank].looked_ns) < WATCHED_NS;
}

/* Looks at the ranks whose watchers have not looked. Returns false if this rank cannot see one of them. */
static bool look_at_unwatched(kolo_comm *comm, int64_t now_ns) {
    uint32_t watched = 0; /* so many more ranks are watched, by the last rank before them that has looked */
    uint32_t first = 0, count = 0;
    bool sees_all = true;
    for (uint32_t rank = comm->size - KOLO_WATCHED; rank < comm->size; rank++)
        watched = has_looked(comm, rank, now_ns) ? KOLO_WATCHED : watched > 0 ? watched - 1 : 0;
    for (uint32_t rank = 0; rank < comm->size && sees_all; rank++) {
        if (watched > 0)
            watched--;
        else if (count++ == 0)
            first = rank;
        if (has_looked(comm, rank, now_ns))
            watched = KOLO_WATCHED;
        if (count == 0 || (count < BATCH && watched == 0 && rank + 1 < comm->size))
            continue;
        sees_all = kolo_liveness_look_at(&comm->liveness, first, count);
        count = 0;
        if (!kolo_watchdog_keep(&comm->segment.header->watchdog, comm->rank, kolo_clock_ns()))
            break;
    }
    return sees_all;
}

void kolo_watchdog_look(kolo_comm *comm) {
    static const struct kolo_watchdog_times times = {.renewed_ns = WATCHDOG_NS, .stale_ns = STALE_NS};
    struct kolo_shared_header *header = comm->segment.header;
    if (comm->is_blind) {
        kolo_liveness_look_at(&comm->liveness, 0, comm->size);
        return;
    }
    comm->is_blind = !kolo_watchdog_look_at_wards(comm);
    if (comm->is_blind)
        return;
    const int64_t now_ns = kolo_clock_ns();
    kolo_store_relaxed(&comm->segment.members[comm->rank].looked_ns, (uint64_t)now_ns);
    KOLO_POINT("watchdog.looked");
    if (comm->size <= KOLO_WATCHED + 1 || !kolo_watchdog_take(&header->watchdog, comm->rank, now_ns, &times))
        return;
    comm->is_blind = !look_at_unwatched(comm, now_ns);
    if (comm->is_blind)
        kolo_store_relaxed(&header->watchdog, 0);
}
