/* The rendezvous of a job's ranks: how they find each other, by the job file.
 *
 * The ranks find the file in one of two ways:
 *   - By name. Rank 0 makes a file without a name in /dev/shm, fills in its header and then links it to its name, so
 *     that a rank that opens the name finds a complete header. A name that exists already and whose creator is dead is
 *     removed first; such names of other jobs are removed next. The others try to open the name until it exists and its
 *     creator lives, and pass over the file of a creation that they were in when it failed. Rank 0 removes the name
 *     when all are attached.
 *   - By descriptor (kolorun). The file exists, is empty, and has no name; rank 0 fills it.
 *
 * One file serves one creation after another. Each has a number, the epoch, which every rank counts for itself in its
 * job member. A creation has four steps:
 *   1. Every rank registers (pid, start time, epoch).
 *   2. Rank 0 allocates the segment and offers it.
 *   3. The others map it, write their shared member and say `attached`.
 *   4. When all have, rank 0 says that it is complete.
 * comm/creation/outcome.h says how a creation ends, whichever rank dies or gives up, and when. */
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include "comm/creation/outcome.h"

#define KOLO_JOB_DIRECTORY "/dev/shm"
#define KOLO_JOB_PATH      KOLO_JOB_DIRECTORY "/kolo-%u-" /* of a user's jobs, before the job's name */

/* Opens (on rank 0: makes) the job file and registers this rank. The caller has set job->remote and job->rejoin. The
 * job must be closed even if this fails. KOLO_ERR_TIMEOUT, MISMATCH, VERSION, NO_SPACE, SYSTEM. */
int kolo_job_open(struct kolo_job *job, const struct kolo_settings *settings);

/* Goes on through KOLO_JOB_DIRECTORY to this user's next file with a job's name. Returns a descriptor, or -1. */
int kolo_job_names_next(DIR *directory, char *path, size_t path_bytes, struct stat *found);

/* Reads the header of the file behind fd. Returns false where there is no complete one. */
bool kolo_job_header_read(int fd, struct kolo_job_header *header);

/* Returns false if the process that made that file has ended; true if nothing tells. */
bool kolo_job_creator_alive(uint64_t own_namespace, int fd, const struct kolo_job_header *header);

/* Removes the name `path` if it still names the file behind fd. Returns 0 or a negative errno, EWOULDBLOCK where
 * another process is at it and does not go on. All that would remove the name lock the file, which makes check and
 * removal one step: none removes the name of a later file. */
int kolo_job_name_remove_of(const char *path, int fd);

/* Removes the name, if it is this rank's. */
void kolo_job_unlink(struct kolo_job *job);

/* Unmaps and closes. */
void kolo_job_close(struct kolo_job *job);
