/* How the ranks of a job find each other: the job file.
 *
 * By name: rank 0 makes a file without a name in /dev/shm, fills in its header and then links it to its name, so that
 * whoever opens the name finds a complete header in it; a name that exists already and whose creator is dead is removed
 * first. The others open the name, again and again until it is there and its creator lives. Rank 0 removes the name
 * when all are attached. By descriptor (kolorun): the file is there, empty, and has no name; rank 0 fills it.
 *
 * One file serves one creation after another. Each has a number, the epoch, which every rank counts for itself in its
 * job member. A creation goes: every rank registers (pid, start time, epoch); rank 0 allocates the segment and offers
 * it; the others map it, write their shared member and say `attached`; rank 0, when all have, says that it is complete.
 * How that ends, whoever dies or gives up when, is told in comm/creation/outcome.h. */
#ifndef KOLO_COMM_CREATION_RENDEZVOUS_H
#define KOLO_COMM_CREATION_RENDEZVOUS_H

#include "comm/creation/creation_job.h"

#define KOLO_JOB_DIRECTORY "/dev/shm"
#define KOLO_JOB_PATH      KOLO_JOB_DIRECTORY "/kolo-%u-" /* of a user's jobs, before the job's name */

/* Opens (rank 0: makes) the job file and registers this rank. Of *job, remote and rejoin are the caller's
 * to set before. The job must be closed even where this fails. KOLO_ERR_TIMEOUT, MISMATCH, VERSION, NO_SPACE, SYSTEM.
 */
int kolo_job_open(struct kolo_job *job, const struct kolo_settings *settings);

/* Reads the header of the file behind fd: false where it holds no complete one. */
bool kolo_job_header_read(int fd, struct kolo_job_header *header);

/* False if the process that made that file has ended; true too where nothing tells. */
bool kolo_job_creator_alive(uint64_t own_namespace, int fd, const struct kolo_job_header *header);

/* Removes the name `path` if it still names the file behind fd: 0 or a negative errno. A lock on the file makes the
 * look and the removal one step among those who would remove it, so that nobody removes the name of the file that
 * replaces it. */
int kolo_job_name_remove_of(const char *path, int fd);

/* Removes the name, if it is this rank's. */
void kolo_job_unlink(struct kolo_job *job);

/* Unmaps and closes. */
void kolo_job_close(struct kolo_job *job);

#endif
