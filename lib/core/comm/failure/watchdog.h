/* The watchdog and the wards: which rank checks whether which others live. If all ranks checked all, n ranks would need
 * n * n looks again and again. Instead one of the ranks that wait soon looks at each rank.
 *
 * Wards. Before each sleep in a wait (at least every KOLO_SLICE_NS) a rank looks at its wards, the KOLO_WATCHED ranks
 * after it, round the ring. With up to KOLO_WATCHED + 1 ranks its wards are all the others, and no watchdog is needed.
 * Each rank watches its wards from the end of the creation on: the system tells how a process ended only to those that
 * watched it before. After each look the rank stores the time in its looked_ns, which also shows that it lives.
 *
 * The watchdog. The ranks that watch a rank may all be out of calls. So with more than KOLO_WATCHED + 1 ranks, one of
 * those that wait is the watchdog. It also looks at each rank whose watchers have not looked for WATCHED_NS. The
 * watchdog is the rank that holds the lease, one word of the segment that says which rank that is, and when it last
 * looked. The lease is taken and renewed by compare-and-swap:
 *   - The holder renews the lease, and looks, when it is WATCHDOG_NS old.
 *   - Another rank takes the lease, and looks, when it is STALE_NS old: its holder waits no more, is stopped or dead,
 *     or gets no processor.
 *
 *   death of                              is found by
 *   a rank, one of whose watchers waits   that one, in its next slice
 *   a rank, none of whose watchers waits  the watchdog, WATCHDOG_NS and a slice later at most
 *   a rank and its watchers, at once      the watchdog, WATCHED_NS later
 *   the watchdog, too, even just after    the first of those that wait that finds the lease stale
 *   it has taken the lease
 *
 * The rank that finds a death publishes it (comm/failure/failure.h), and the others find it there.
 *
 * A rank cannot be the watchdog if it cannot see some other rank, which is in another pid namespace and has no lock. It
 * looks at all ranks itself, each time, and leaves the lease to the others.
 *
 * Cost: for each rank that waits one poll of KOLO_WATCHED a slice; in all a look at n words every WATCHDOG_NS; n *
 * KOLO_WATCHED pidfds, and one for each rank that a watchdog has had to look at itself.
 *
 * A creation also has a lease, in the job's file, but no wards (comm/creation/outcome.h). */
#pragma once

#include "comm/comm.h"

#define KOLO_WATCHED 8

/* The ages at which a lease is renewed by its holder, and taken by others. */
struct kolo_watchdog_times {
    int64_t renewed_ns, stale_ns;
};

/* Returns whether the caller, rank `self`, has to look now. If so, it holds the lease, renewed now. */
bool kolo_watchdog_take(kolo_atomic_u64 *lease, uint32_t self, int64_t now_ns, const struct kolo_watchdog_times *times);

/* Renews the lease in the middle of a look that takes long. Returns false if another rank has it. */
bool kolo_watchdog_keep(kolo_atomic_u64 *lease, uint32_t self, int64_t now_ns);

/* Looks at this rank's wards, and so begins to watch them. Returns false if it cannot see one of them. */
bool kolo_watchdog_look_at_wards(kolo_comm *comm);

/* Looks at the ranks that this rank has to look at now, and marks in comm->liveness those that have ended. */
void kolo_watchdog_look(kolo_comm *comm);
