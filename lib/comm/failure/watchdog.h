/* Decides which rank checks whether which others are alive. If all checked all, n ranks would need n * n looks again
 * and again. Instead each rank is soon looked at by one of those that wait.
 *
 * Wards. Before each sleep in a wait (at least every KOLO_SLICE_NS) a rank looks at its wards, the KOLO_WATCHED ranks
 * after it, round the ring. Up to KOLO_WATCHED + 1 ranks those are all the others, and there is nothing else. Each rank
 * watches its wards from the end of the creation on: the system tells how a process ended only to those that watched it
 * before. After each look it stores the time in its kolo_shared_member.looked_ns, which shows that it lives, too.
 *
 * The watchdog. The ranks that watch a rank may all be out of calls. So with more ranks than that, one of those that
 * wait is the watchdog. It also looks at each rank whose watchers have not looked for WATCHED_NS. The watchdog is the
 * rank that holds the lease, one word of the segment that says which rank that is, and when it last looked. The lease
 * is taken and renewed by compare-and-swap:
 *   - The holder renews it, and looks, when it is WATCHDOG_NS old.
 *   - Another rank takes it, and looks, when it is STALE_NS old: its holder waits no more, is stopped or dead, or gets
 *     no processor.
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
 * If a rank cannot see some other rank, which is in another pid namespace and has no lock, it cannot be the watchdog:
 * it looks at all ranks itself, each time, and leaves the lease to the others.
 *
 * Cost: for each rank that waits one poll of KOLO_WATCHED a slice; in all a look at n words every WATCHDOG_NS; n *
 * KOLO_WATCHED pidfds, and one for each rank that a watchdog has had to look at itself.
 *
 * A creation has a lease, too, in the job's file, but no wards (comm/creation/outcome.h). */
#ifndef KOLO_COMM_FAILURE_WATCHDOG_H
#define KOLO_COMM_FAILURE_WATCHDOG_H

#include "comm/comm.h"

#define KOLO_WATCHED 8

/* When a lease is to be renewed by its holder, and taken by others. */
struct kolo_watchdog_times {
    int64_t renewed_ns, stale_ns;
};

/* Whether the caller, rank `self`, has to look now. If so, it holds the lease, renewed now. */
bool kolo_watchdog_take(kolo_atomic_u64 *lease, uint32_t self, int64_t now_ns, const struct kolo_watchdog_times *times);

/* Renews it in the middle of a look that takes long. False: another has it. */
bool kolo_watchdog_keep(kolo_atomic_u64 *lease, uint32_t self, int64_t now_ns);

/* Begins to watch this rank's wards. */
void kolo_watchdog_begin(kolo_comm *comm);

/* Looks at the ranks that are this rank's to look at now, and marks in comm->liveness those that have ended. */
void kolo_watchdog_look(kolo_comm *comm);

#endif
