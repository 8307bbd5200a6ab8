/* What rank 0 decides for all ranks of a communicator: which algorithm and chunk for which messages, from the caches
 * and where the ranks run. */
#ifndef KOLO_ALGO_TUNING_H
#define KOLO_ALGO_TUNING_H

#include "comm/comm.h"
#include "comm/options.h"

void kolo_tuning_default(struct kolo_shared_settings *settings, kolo_algorithm algorithm, uint32_t ranks,
                         size_t slot_bytes, const kolo_topology *topology);

/* kolo_decide_fn of comm/create.h. */
void kolo_tuning_decide(kolo_comm *comm, const struct kolo_settings *settings);

#endif
