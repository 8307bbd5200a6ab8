/* --tag-output: the ranks write into pipes, and kolorun passes their output on, each line with its rank. kolorun's own
 * messages take the same way, also without --tag-output: while nobody reads them, kolorun still acts.
 *
 * Two streams, standard output and standard error, each of one pipe per rank and one sink. A line goes to the
 * sink when it is complete, so that lines are never mixed; where both streams lead to the same file they share
 * a sink, for the same reason. Nothing here blocks: a sink takes data only when poll says so, and while it is
 * full the ranks' pipes are left alone, so that the ranks wait and not kolorun. */
#pragma once

#include <poll.h>
#include <stdbool.h>

#define TAGGED_STREAMS  2
#define TAGGED_POLL_FDS (2 * TAGGED_STREAMS)

/* Begins it, for `ranks` ranks, without pipes yet; the tag of the first is first_rank. From now on kolorun's own
 * messages go between the lines of standard error. Returns 0 or a negative errno. */
int tagged_output_open(int ranks, int first_rank);

/* Makes the pipes of one rank. If it had some before, what lies in them is passed on first. write_ends[0] and [1] are
 * to become its descriptors 1 and 2, and are the caller's to close. Returns 0 or a negative errno. */
int tagged_output_attach(int rank, int write_ends[TAGGED_STREAMS]);

/* Fills in what to poll for before the next tagged_output_service; unused entries get descriptor -1. */
void tagged_output_prepare(struct pollfd fds[TAGGED_POLL_FDS]);

/* Reads and writes what poll found ready. Returns 0, or a negative errno if a sink could not be written: then
 * *stream is 1 or 2, and what is still to come for it is thrown away. */
int tagged_output_service(const struct pollfd fds[TAGGED_POLL_FDS], int *stream);

/* To be called when all ranks have ended: from now on only what lies in the pipes is passed on, whoever else
 * may hold them open. */
void tagged_output_finish(void);

/* Whether something is still to be read from a rank or to be written. */
bool tagged_output_busy(void);
