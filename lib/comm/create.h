/* Creation of a communicator: settings, meeting the other ranks, the segment, how to wait. */
#ifndef KOLO_COMM_CREATE_H
#define KOLO_COMM_CREATE_H

#include "comm/comm.h"
#include "comm/options.h"

/* What rank 0 decides for all: the layer above does, which knows the algorithms. */
typedef void kolo_decide_fn(struct kolo_shared_settings *shared, kolo_algorithm algorithm, uint32_t ranks,
                            size_t slot_bytes, const kolo_topology *topology);

/* See kolo_comm_create. */
int kolo_comm_make(kolo_comm **comm, const struct kolo_settings *settings, kolo_decide_fn *decide);

#endif
