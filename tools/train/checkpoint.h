/* --save and --resume: a training on disk. The file holds all that steps change: parameters, the optimizer's state, how
 * far the training has come, and its losses. The rows of each batch follow from the seed and the step. It can be
 * resumed with any number of ranks, fused or not. */
#ifndef KOLO_TRAIN_CHECKPOINT_H
#define KOLO_TRAIN_CHECKPOINT_H

#include "trainer.h"

/* Whether `path` can be written, found out before the training. Returns 0, or -1 having said why. */
int checkpoint_try(const kolo_comm *comm, const char *path);

/* Between two epochs: rank 0 writes what the training has come to, into a new file that then takes the place of the one
 * at `path`. So whenever a process or the machine stops, there is a whole file. Collective; only rank 0's path counts.
 * Returns 0, or -1 (COMPLAIN_LOST if the communicator broke) having said why. */
int checkpoint_save(const trainer *t, const char *path);

/* After trainer_begin: goes on from the file that rank 0 reads at `path`. Refuses one that is damaged or of another
 * training. Collective; returns as checkpoint_save. */
int checkpoint_resume(trainer *t, const char *path);

#endif
