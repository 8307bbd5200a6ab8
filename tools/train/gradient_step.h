/* What a step does with gradients. They get from rank to rank in one all-reduce after the backward pass, or layer by
 * layer, in buckets or as segments of the optimizer's step, in part while the backward pass goes on (--overlap), and
 * compressed (--compress). An optimizer of kolo turns them into new parameters, either over all ranks (--fused), by
 * which each keeps 1/ranks of the state and does 1/ranks of the work, or a whole one in each rank. */
#ifndef KOLO_TRAIN_GRADIENT_STEP_H
#define KOLO_TRAIN_GRADIENT_STEP_H

#include "kolo.h"
#include "mlp.h"
#include "train_options.h"

typedef struct gradient_step {
    kolo_comm *comm;
    const train_settings *settings;
    mlp *model;
    float *gradient; /* of the model's parameters, and then the loss */
    kolo_optimizer *optimizer;
    kolo_comm *alone;      /* the optimizer's, of this rank; NULL: it is fused */
    kolo_buckets *buckets; /* a tensor for each layer; NULL: none are used */
    int rc;                /* of the layers of this step that went out: 0, or LOST */

    /* What steps with --overlap took on this rank so far. */
    size_t overlapped_steps, probes;
    double compute_seconds, wait_seconds, probe_seconds;
} gradient_step;

/* One step in that many waits with its gradients until all are there, to show what the others hide. */
enum { STEP_PROBE_EVERY = 16, STEP_PROBE = 7 };

/* All that is passed belongs to the caller, and outlives it. Collective with --fused. Returns 0 or LOST. step_move:
 * goes on in another communicator; what compression has left out is forgotten. */
int step_create(gradient_step *s, kolo_comm *comm, const train_settings *settings, mlp *model, float *gradient);
void step_move(gradient_step *s, kolo_comm *comm);
void step_destroy(gradient_step *s);

/* Before a backward pass of step `number`: the layers of the last one go out as they become ready. */
void step_begin(gradient_step *s, size_t number, int is_last);

/* After the last one: sums the gradients, and the loss, over the ranks; with --fused, also moves the parameters.
 * Collective. `compute_seconds` is what the step has taken so far. Returns 0 or LOST. */
int step_sum(gradient_step *s, double compute_seconds);

/* Moves the parameters, without --fused by the sums; with it within step_sum. Returns 0 or LOST. */
int step_update(gradient_step *s);

/* Bytes of the optimizer's state that this rank holds. */
size_t step_state_bytes(const gradient_step *s);

#endif
