/* Starting one rank: fork, environment, binding, exec, and the way in which a child says that it cannot. */
#ifndef KOLORUN_LAUNCH_H
#define KOLORUN_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "cpu/topology.h"

/* What all children share. */
struct launch_context {
    char **command;
    int first_rank; /* ranks are counted from 0 here, but told to the program from this one */
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
    char text[2000];
};

/* Makes the shared file of this machine's ranks, and a name for the job if it has none, and puts what is the same for
 * all of them into the environment; `size` counts those of other machines, too, which they meet at `rendezvous`, or
 * NULL. Where KOLO_LOG is not set, ranks say whom they wait for. The file stays open and is inherited. Returns its
 * descriptor or a negative errno. */
int launch_segment_create(int ranks, int size, const char *rendezvous);

/* Fills *context but for original_mask and segment_fd. Returns 0 or a negative errno. */
int launch_context_open(struct launch_context *context, char **command, int first_rank);

/* What is one rank's own. */
struct launch_place {
    int rank;
    const kolo_cpu_set *cpus; /* to which it is bound; NULL: it is not */
    int restarts;             /* how often it has been started before */
    const int *outputs;       /* two descriptors for its standard output and error; NULL: kolorun's */
};

/* Forks the process of a rank, which becomes `command`. Returns the process id or a negative errno. */
pid_t launch_rank(const struct launch_context *context, const struct launch_place *place);

/* Reads the next failure that a child has reported; false if there is none now. */
bool launch_failure_read(const struct launch_context *context, struct launch_failure *failure);

#endif
