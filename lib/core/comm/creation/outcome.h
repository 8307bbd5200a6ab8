/* The outcome of a creation, and the waits in it: either every rank has a communicator, or all know why they have none.
 *
 * The outcome is one word of the job's header, `outcome`: how many creations are complete and, after a failure, why
 * there will be no more. Both kinds of writers use compare-and-swap from the word of the last creation:
 *   - Rank 0 counts a creation when all ranks have attached.
 *   - A rank that gives up writes the reason.
 * One of them is first, so a creation ends in the same way on all ranks.
 *
 * A rank gives up if it lacks memory or the like, before it attaches; or in a wait, at its deadline or when it finds
 * that a registered process is dead. Rank 0 counts as registered as soon as others can find the file that it has made
 * for the first creation: the file's header names its process.
 *
 * Versions. A rank of another version knows only the first lines of the header, which never change. It writes its rank
 * and version into `other_version`, and gives up. Ranks that wait find that there, and give up as well.
 *
 * comm/README.md, "How a creation ends", says which rank sleeps until when, which one looks whether all live, and what
 * each death leaves. */
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
