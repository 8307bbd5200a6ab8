/* Starting a job: for each rank fork, environment, files of its output, binding, exec, and the way in which a child
 * says that it cannot; and the job from start to end. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "binding.h"
#include "launch_options.h"

/* What all children share. */
struct launch_context {
    const struct launch_options *options;
    pid_t launcher;
    sigset_t original_mask;       /* signal mask and limit as kolorun found them, for the children */
    struct rlimit original_files; /* RLIMIT_NOFILE likewise */
    int segment_fd;               /* the shared file of the ranks */
    int null_fd;                  /* /dev/null, the standard input of all ranks but 0 */
    int failure_fds[2];           /* pipe on which children that cannot run the program say so */
};

/* Why a child could not become the program; written to the pipe at once. */
struct launch_failure {
    int exit_code; /* that of kolorun */
    int restarts;  /* how often the rank had been started before */
    char text[2000];
};

/* Makes the shared file of this machine's ranks, and a name for the job if it has none, and puts what is the same for
 * all of them into the environment. Where KOLO_LOG is not set, ranks say whom they wait for. The file stays open and is
 * inherited. Returns its descriptor or a negative errno. */
int launch_segment_create(const struct launch_options *options);

/* Fills *context but for original_mask and segment_fd. Returns 0 or a negative errno. */
int launch_context_open(struct launch_context *context, const struct launch_options *options);

/* Forks the process of a rank, which becomes the program: bound to `cpus`, unless NULL, with these descriptors as its
 * standard output and error, unless -1, and told how often it has been started before. `rank` counts from 0 on this
 * machine. Returns the process id or a negative errno. */
pid_t launch_rank(const struct launch_context *context, int rank, const kolo_cpu_set *cpus, int restarts,
                  const int outputs[2]);

/* Reads the next failure that a child has reported; false if there is none now. */
bool launch_failure_read(const struct launch_context *context, struct launch_failure *failure);

/* --output: a file for the standard output of each rank, and one for its standard error. */

#define RANK_FILES 2

/* Makes the folder, and those above it, where they are not there. Returns 0 or a negative errno. */
int rank_files_prepare(const char *folder);

/* Writes the name of a rank's file into `path`: stream 0 is standard output, 1 standard error. */
void rank_files_path(char *path, size_t path_bytes, const char *folder, int rank, int stream);

/* Opens the files of a rank, empty, or at their end where `again`: it has been started before. The descriptors are the
 * caller's to close. Returns 0, or a negative errno after a message. */
int rank_files_open(const char *folder, int rank, bool again, int fds[RANK_FILES]);

/* The job, in job.c. */

/* Starts the ranks, bound as chosen and sharing the file `segment_fd`, watches over them until the last has ended, and
 * returns the exit code of kolorun. Prints what goes wrong. */
int job_run(const struct launch_options *options, struct binding *binding, int segment_fd);
