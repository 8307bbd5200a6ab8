/* What the MPI programs of these tests share: where they begin and end, and how they say what is wrong. */
#pragma once

#include <mpi.h>
#include <stdbool.h>

extern int world_rank, world_size;

/* Counts a failure and prints it with the rank; ends the job after many. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool expect(bool right, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Has the process print where it is, and end with status 3, if this is not called again for so long. 0: no more. What
 * the text says when time is up counts; it must stay. */
void watch(int seconds, const char *where);

/* MPI_Init_thread; errors are returned. MPI_Finalize; the sum of all failures is the exit status of the job. */
void job_begin(int *argc, char ***argv, int threads_wanted);
int job_end(void);
