/* The outcome of a creation, and the waits in it: either every rank has a communicator, or all know why they have none.
 *
 * The outcome is one word of the job's header, `outcome`: how many creations are complete and, after a failure, why
 * there will be no more. Both kinds of writers use compare-and-swap from the word of the last creation:
 *   - Rank 0 counts a creation when all ranks have attached.
 *   - A rank that gives up writes the reason.
 *
 * One of them is first, so a creation ends in the same way on all ranks. A rank that wants to give up and finds the
 * creation complete has all that it needs, and goes on. Rank 0, if it finds a failure, gives up as well. A rank that
 * has not attached never finds the creation complete. So no rank ever uses a communicator that another one has given
 * up, only to blame it for that in its first call. A failure does not change earlier creations, which a slow rank may
 * still have to find complete.
 *
 * A rank gives up if it lacks memory or the like, before it attaches; or in a wait, at its deadline or when it finds
 * that a registered process is dead. Rank 0 counts as registered as soon as others can find the file that it has made
 * for the first creation: the file's header names its process.
 *
 * Names. If rank 0 gives up soon after it has given the file its name, it keeps the name for a moment, so that ranks
 * that look for it find out why. A rank that comes later finds no name, and waits for one until its deadline.
 *
 * Versions. A rank of another version knows only the first lines of the header, which never change. It writes its rank
 * and version into `other_version`, and gives up. Ranks that wait find that there, and give up as well.
 *
 * Sleeping. Until rank 0 has made the file's header, a rank can only look again and again whether it is there, with
 * pauses that grow with the number of ranks. From then on it sleeps at a bell in the header: rank 0 at `arrivals_bell`,
 * which the last rank to attach rings, the others at `bell`, which rank 0 rings when it has offered the segment. The
 * rank that writes the outcome rings both.
 *
 * Looking. One rank at a time, the watchdog (comm/failure/watchdog.h), wakes up every LOOK_NS and looks whether all
 * registered ranks live. The others wake up on their own to see whether there is a watchdog, and to take its place when
 * it has not looked for STALE_NS: up to LOOKERS ranks every LOOK_NS each, more ranks as much less often (SLEEP_NS_MAX
 * at most), so that the number of ranks that wake up in LOOK_NS does not grow. It does not matter which ranks die at
 * once: the survivors wake up at different times. Only where nearly all of many ranks die may it take SLEEP_NS_MAX.
 *
 *   death of                    leaves
 *   a rank that has not         nothing: the others wait for it to the deadline, or until kolorun says that it has
 *   registered                  ended (base/file.h)
 *   a registered rank           a process that the watchdog finds dead; unless the outcome was there before: then the
 *                               creation ends as if the rank lived, and the first call finds the death
 *   the watchdog                a lease that gets stale; the rank that takes it finds the death
 *   a rank between a store      the same as the death of any registered rank
 *   and its ring
 *   a rank between the outcome  ranks that sleep: the first that wakes up on its own and finds an outcome rings
 *   and its ring                instead
 *   a rank 0 by name            perhaps the name, until this user's next job by name removes it. A rank that comes
 *                               later cannot tell it from that of an earlier job, and waits for a rank 0 that replaces
 *                               it. A rank that found no name, and then this one, knows that it is its own job's
 *   a rank 0 by descriptor      a file without a header, if it died while it wrote that: then as for a rank that has
 *                               not registered
 *
 * Several nodes. Rank 0 here is the leader of one node. A rank that has not registered is connected with the rank 0 of
 * all nodes, which sees its end and tells all (internode/assembly/assembly.h). A leader writes what it knows of other
 * nodes into the header, in words, for the messages of its node's ranks. Each rank wakes up every LOOK_NS, to hear of
 * other nodes.
 *
 * Cost for n ranks: each rank maps, registers and attaches by a number of system calls that does not depend on n, and
 * is woken up twice; in each LOOK_NS there are n looks and LOOKERS wake-ups in all. */
#ifndef KOLO_COMM_CREATION_OUTCOME_H
#define KOLO_COMM_CREATION_OUTCOME_H

#include "comm/creation/creation_job.h"

/* Waits for other ranks until there may be news. Returns 0, or the status with which to give up, with its message set.
 * The caller calls this again and again, and checks its condition between two calls. */
int kolo_job_wait(struct kolo_job *job);

/* A rank other than 0 calls this once it has said that it is attached. */
void kolo_job_arrive(struct kolo_job *job);

/* Ends the creation on all ranks with `status`, which it returns; the message is kept. A rank calls this before it has
 * said that it is attached; after that kolo_job_wait ends the creation, unless it is complete. */
int kolo_job_fail(struct kolo_job *job, int status);

/* Rank 0 calls this when all are attached: ends the creation on all ranks with success, or returns the status with
 * which it has failed. */
int kolo_job_complete(struct kolo_job *job);

/* Return whether this rank's creation is complete, and how many creations are complete. */
bool kolo_job_is_complete(const struct kolo_job *job);
uint64_t kolo_job_completed(const struct kolo_job *job);

/* A rank of another version than the header's calls this: writes that into the header, and returns KOLO_ERR_VERSION. */
int kolo_job_announce_version(const struct kolo_job *job, struct kolo_job_header *header);

/* Returns the rank at fault, once this rank's creation has failed. */
uint32_t kolo_job_culprit(const struct kolo_job *job);

/* Returns KOLO_ERR_PEER_DEAD, with a message. */
int kolo_job_fail_dead(const struct kolo_job *job, uint32_t rank, const struct kolo_shared_process *process);

#endif
