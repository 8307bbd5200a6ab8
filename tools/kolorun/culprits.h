/* Who keeps a job from going on: for what is said when its time is over.
 */
#ifndef KOLORUN_CULPRITS_H
#define KOLORUN_CULPRITS_H

#include <sys/types.h>

/* What is known of the job. */
struct culprits_job {
    const pid_t *pids; /* of each rank; 0: it does not run */
    int ranks;
    int first_rank;
    int segment_fd; /* the shared file that the ranks have inherited; -1: it tells nothing of who has come */
};

/* Called with each finding, one sentence without a full stop. */
typedef void culprits_say_fn(void *context, const char *sentence);

/* Looks at the ranks' processes and communicators, and says which ranks are stopped, for whom the others wait, and who
 * has not come to create the communicator. Says nothing where nobody is to blame. */
void culprits_find(const struct culprits_job *job, culprits_say_fn *say, void *context);

#endif
