/* How gradients get from rank to rank: in one all-reduce after the backward pass, or layer by layer, in buckets or as
 * segments of the optimizer's step, in part while the backward pass goes on (--overlap), and compressed (--compress).
 */
#ifndef KOLO_TRAIN_GRADIENT_EXCHANGE_H
#define KOLO_TRAIN_GRADIENT_EXCHANGE_H

#include "kolo.h"
#include "mlp.h"
#include "train_options.h"
#include "update.h"

typedef struct exchange {
    kolo_comm *comm;
    const train_settings *settings;
    const mlp *model;
    update *update;
    float *gradient;       /* of the model's parameters, and then the loss */
    kolo_buckets *buckets; /* a tensor for each layer; NULL: none are used */
    int rc;                /* of the layers of this step that went out: 0, or COMPLAIN_LOST */

    /* What steps with --overlap took on this rank so far. */
    size_t overlapped_steps, probes;
    double compute_seconds, wait_seconds, probe_seconds;
} exchange;

/* One step in that many waits with its gradients until all are there, to show what the others hide. */
enum { EXCHANGE_PROBE_EVERY = 16, EXCHANGE_PROBE = 7 };

/* All that is passed belongs to the caller, and outlives the exchange. Waits for nobody. Returns 0, or -1 having said
 * why. exchange_move: the same, for another communicator; what compression has left out is forgotten. */
int exchange_create(exchange *e, kolo_comm *comm, const train_settings *settings, mlp *model, update *u,
                    float *gradient);
int exchange_move(exchange *e, kolo_comm *comm);
void exchange_destroy(exchange *e);

/* Before a backward pass whose gradients are to be added to: its layers stay here. */
void exchange_keep(mlp *model);

/* Before the last backward pass of step `step`: whether its layers go out as they become ready. */
void exchange_begin(exchange *e, mlp *model, size_t step);

/* After it: sums the gradients, and the loss, over the ranks; where the optimizer is fused, also moves the parameters.
 * Collective. `compute_seconds` is what the step has taken so far. Returns 0, or COMPLAIN_LOST having said why. */
int exchange_finish(exchange *e, mlp *model, double compute_seconds);

#endif
