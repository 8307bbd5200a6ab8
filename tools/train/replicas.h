/* What a group of ranks that train one model together must have in common, brought about and checked by kolo. */
#ifndef KOLO_TRAIN_REPLICAS_H
#define KOLO_TRAIN_REPLICAS_H

#include "kolo.h"

#include "dataset.h"

/* Gives every rank what rank 0 has in *data; the others' *data is empty, or a former copy of the same. Each rank frees
 * its own. Returns 0, or -1 (COMPLAIN_LOST if the communicator broke) having said why. */
int replicas_share_dataset(kolo_comm *comm, dataset *data);

/* Whether values[0 .. count-1] have the same bits on all ranks. `scratch` holds 2 x count numbers. Every rank gets
 * the same answer: 1 or 0, or -1 having said why. */
int replicas_identical(kolo_comm *comm, const float *values, size_t count, uint32_t *scratch);

#endif
