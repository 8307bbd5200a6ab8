/* Collectives that a larger call makes, in a thread that has the communicator for itself: one that carries out a
 * request, or has claimed the communicator (api/requests/queue.h). */
#ifndef KOLO_API_FUSION_INNER_CALL_H
#define KOLO_API_FUSION_INNER_CALL_H

#include "api/arguments.h"

/* Checks and makes the call, with an operation of the library's. Statuses as those of the collective. */
int kolo_inner_call(kolo_collective collective, kolo_comm *comm, struct kolo_arguments *call);

#endif
