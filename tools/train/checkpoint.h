/* A training as one piece of memory: all that steps change, which is the parameters, the optimizer's state, how far the
 * training has come, and its losses. The rows of each batch follow from the seed and the step. --save and --resume
 * write and read it as a file, and ranks that are left or have joined get it from one that has got furthest. It does
 * not depend on the number of ranks, nor on --fused. All functions return 0 or LOST (complain.h). */
#pragma once

#include "trainer.h"

/* Whether `path` can be written, found out before the training; else the process ends. */
void checkpoint_try(const char *path);

/* Between two epochs: rank 0 writes what the training has come to, into a new file that then takes the place of the one
 * at `path`. So whenever a process or the machine stops, there is a whole file. Collective; only rank 0's path counts.
 */
int checkpoint_save(const trainer *t, const char *path);

/* After trainer_begin: goes on from the file that rank 0 reads at `path`. Refuses one that is damaged or of another
 * training. Collective. */
int checkpoint_resume(trainer *t, const char *path);

/* Goes on with `comm`, which has fewer ranks than before or also new ones, from where the one of them is that has got
 * furthest: all take over what it has. Where that fails, each rank has what it had. */
int checkpoint_continue(trainer *t, kolo_comm *comm);
