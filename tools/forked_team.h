/* Processes that are forked to do one thing together. They end with their parent, however it ends. All teams of
 * processes start so, those of tests as well. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Starts a process that runs work(argument, index), and exits with what that returns. Returns its id, or -1 with errno
 * set. */
pid_t forked_process_start(int (*work)(void *argument, int index), void *argument, int index);

/* One that has failed. */
typedef struct forked_failure {
    int index;
    int wait_status; /* as waitpid tells it */
} forked_failure;

/* Runs work(argument, index) in `count` processes, and waits for them. What it returns becomes the exit status of its
 * process. As soon as one has not ended with 0, the others, which would only wait for it, are killed. Returns 0; 1 with
 * *failure, one that a signal has ended if there is such; or a negative errno where they could not all be started or
 * waited for. No process of them is left. */
int forked_team_run(int count, int (*work)(void *argument, int index), void *argument, forked_failure *failure);

/* Zeroed memory that forked processes share; NULL where there is none. */
void *forked_team_allocate(size_t bytes);
void forked_team_free(void *memory, size_t bytes);
