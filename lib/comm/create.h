/* Creation of a communicator: settings, meeting the other ranks, the segment, how to wait. */
#ifndef KOLO_COMM_CREATE_H
#define KOLO_COMM_CREATE_H

#include "comm/comm.h"
#include "comm/options.h"

/* Fills in the segment's settings, on rank 0, once all ranks have introduced themselves: the layer above does, which
 * knows the algorithms. */
typedef void kolo_decide_fn(kolo_comm *comm, const struct kolo_settings *settings);

/* See kolo_comm_create. */
int kolo_comm_make(kolo_comm **comm, const struct kolo_settings *settings, kolo_decide_fn *decide);

#endif
