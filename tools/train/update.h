/* What turns the gradients of a step into new parameters: an optimizer of kolo, either over all ranks (--fused), by
 * which each keeps 1/ranks of the state and does 1/ranks of the work, or a whole one in each rank. */
#ifndef KOLO_TRAIN_UPDATE_H
#define KOLO_TRAIN_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "mlp.h"
#include "train_options.h"

typedef struct update {
    kolo_comm *alone; /* this rank; NULL: fused */
    kolo_optimizer *optimizer;
    size_t count; /* parameters */
} update;

/* Makes the optimizer that the settings name, for the parameters of `model`, with a segment for each layer; with
 * --fused collective over `comm`, which must outlive it. Returns 0, or -1 (COMPLAIN_LOST if the communicator broke)
 * having said why. */
int update_create(update *u, kolo_comm *comm, const train_settings *settings, const mlp *model);
void update_destroy(update *u);

/* Moves the parameters by one step. Fused, the gradients are this rank's, and the call is collective; else they are the
 * sums over all ranks. Returns as update_create. */
int update_step(update *u, kolo_comm *comm, const float *gradients, float *parameters);

/* This rank's part of a state, or NULL where the optimizer has no such state. Without --fused it is all of it, `count`
 * numbers. */
float *update_state(const update *u, kolo_optimizer_state which);

/* Bytes of state that this rank holds. */
size_t update_state_bytes(const update *u);

#endif
