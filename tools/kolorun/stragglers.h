/* Who keeps a job from going on: for what is said when its time is over. */
#pragma once

#include <sys/types.h>

/* What is known of the job. */
struct watched_job {
    const pid_t *pids; /* of each rank; 0: it does not run */
    int ranks;
    int first_rank;
    int segment_fd; /* the shared file that the ranks have inherited; -1: it tells nothing of who has come */
};

/* Looks at the ranks' processes and communicators, and says which ranks are stopped, for whom the others wait, and who
 * has not come to create the communicator. Says nothing where nobody keeps the others waiting. */
void stragglers_tell(const struct watched_job *job);
