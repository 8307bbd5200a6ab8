/* Messages between two ranks in a random program: what one event of it does, blocking or in the background. */
#ifndef KOLO_TESTS_RANDOM_MESSAGES_H
#define KOLO_TESTS_RANDOM_MESSAGES_H

#include "harness.h"

/* Sends and receives among all ranks of the communicator, as `draw` says, which is the same on all of them; `mine` is
 * each rank's own. All that is sent is received. */
bool messages_run(const struct rank *rank, kolo_comm *comm, uint32_t position, uint64_t draw, uint64_t *mine);

/* A call in the background. */
struct posted;

enum { POSTED_MAX = 4 };

/* The same in the background. The calls that were issued are in posted[] and requests[]; false: one could not be. */
bool messages_post(const struct rank *rank, kolo_comm *comm, uint32_t position, uint64_t draw, uint64_t *mine,
                   struct posted *posted[POSTED_MAX], kolo_request *requests[POSTED_MAX], int *count);

/* Expects that the call has received what it should, where it receives, and frees it. */
bool posted_check(struct posted *posted, int status);
void posted_free(struct posted *posted);

#endif
