/* Who looks whether the other ranks live: not everyone at everyone, which for n ranks would be n * n looks again and
 * again, but so that of those who wait somebody soon looks at each.
 *
 * Wards. Before each sleep in a wait (at least every KOLO_SLICE_NS) a rank looks at its wards, the KOLO_WATCHED ranks
 * after it, round the ring. Up to KOLO_WATCHED + 1 ranks those are all the others, and there is nothing else. Each rank
 * watches its wards from the end of the creation on: how a process ended is only told to whoever watched it before. In
 * its kolo_shared_member.looked_ns it then writes when that was: who has done so lately lives, too.
 *
 * The watchdog. Those who watch a rank may all be out of calls. So where there are more ranks one of those that wait,
 * the watchdog, also looks at each rank at whose wards nobody has looked for WATCHED_NS. It is whoever holds the lease,
 * one word of the segment that says which rank that is, and when it last looked. It is taken and renewed by
 * compare-and-swap:
 *   the holder renews it, and looks, when it is WATCHDOG_NS old;
 *   another takes it, and looks, when it is STALE_NS old: its holder waits no more, is stopped or dead, or gets no
 *   processor.
 *
 *   death of                              is found by
 *   a rank, one of whose watchers waits   that one, in its next slice
 *   a rank, none of whose watchers waits  the watchdog, WATCHDOG_NS and a slice later at most
 *   a rank and its watchers, at once      the watchdog, WATCHED_NS later
 *   the watchdog, too, be it just after    whoever of those that wait first finds the lease stale
 *   it has taken the lease
 *
 * Whoever finds a death publishes it (comm/failure/failure.h), and the others find it there.
 *
 * A rank that cannot see some other, which is in another pid namespace and has no lock, cannot look for the rest: it
 * looks at all itself, each time, and leaves the lease to those who can.
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

/* Whether the caller, rank `self`, is to look now: it holds the lease then, as of now. */
bool kolo_watchdog_take(kolo_atomic_u64 *lease, uint32_t self, int64_t now_ns, const struct kolo_watchdog_times *times);

/* Renews it in the middle of a look that takes long. False: another has it. */
bool kolo_watchdog_keep(kolo_atomic_u64 *lease, uint32_t self, int64_t now_ns);

/* Begins to watch this rank's wards. */
void kolo_watchdog_begin(kolo_comm *comm);

/* Looks at those at whom it is up to this rank to look now, and marks in comm->liveness who has ended. */
void kolo_watchdog_look(kolo_comm *comm);

#endif
