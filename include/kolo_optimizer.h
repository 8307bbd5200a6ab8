/* The training step in one pass: an all-reduce that updates parameters on the way, and optimizers made of it.
 * kolo.h says what holds for all calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_OPTIMIZER_H
#define KOLO_OPTIMIZER_H

#include "kolo_comm.h"
#include "kolo_requests.h"

/* An all-reduce with a function in its middle. */

/* Reduces gradients[0 .. count-1] over all ranks; on each rank calls `function` for the elements that it owns, with
 * their reduced gradients and its parameters[0 .. count-1]; and copies the parameters that it has left there to all
 * other ranks. So after the call the parameters are those of their owners, the same bits on every rank, and each rank
 * has done 1/size of the work, with 1/size of what the function keeps for its elements. The gradients have the bits of
 * kolo_allreduce, and stay as they are.
 *     kolo_apply_owned says what each rank owns. The call goes from one end of the message to the other in one pass,
 * chunk by chunk of every rank's range. Where the ranks' gradients, or parameters, lie in memory that all have mapped
 * (kolo_alloc), they are read and written there without a copy. With one rank the function gets the caller's gradients.
 *     gradients NULL: nothing is reduced, and the function gets NULL. parameters NULL: nothing is copied to other
 * ranks, and the function gets NULL. All ranks pass NULL alike. The two must not overlap. Errors as kolo_allreduce;
 * KOLO_ERR_ARG also where function, or both buffers, are NULL. After an error that breaks the communicator some parts
 * of the parameters are new and others are not. */
KOLO_API int kolo_allreduce_apply(kolo_comm *comm, const void *gradients, void *parameters, size_t count,
                                  kolo_dtype dtype, kolo_op op, kolo_apply_function function, void *context);

/* The same in the background, as kolo_iallreduce: context and buffers are kolo's until the request is complete. */
KOLO_API int kolo_iallreduce_apply(kolo_comm *comm, const void *gradients, void *parameters, size_t count,
                                   kolo_dtype dtype, kolo_op op, kolo_apply_function function, void *context,
                                   kolo_request **request);

/* What rank `rank` of the communicator owns of a message of `count` elements: *owned elements from *first on. About
 * count / size, in whole lines of 128 bytes: the last ranks have less, or nothing. It follows from count, size and the
 * bytes of an element alone. Blocks for nobody. KOLO_ERR_ARG: NULL, or a rank, count or dtype that there is not. */
KOLO_API int kolo_apply_owned(const kolo_comm *comm, int rank, size_t count, kolo_dtype dtype, size_t *first,
                              size_t *owned);

/* Optimizers. Each rank updates what it owns, keeps the state of that alone, and all get the new parameters. Formulas
 * and the order of operations are those of torch.optim (2.x, one tensor at a time), computed in f32, for F64 messages
 * in f64, without fused multiply-add; scalars are computed in f64. The bits do not depend on instruction sets, timing
 * or threads. State of F16 and BF16 parameters is kept in f32. */

typedef enum kolo_optimizer_kind {
    KOLO_OPTIMIZER_SGD,   /* momentum, dampening, nesterov; weight_decay is added to the gradient */
    KOLO_OPTIMIZER_ADAM,  /* weight_decay is added to the gradient */
    KOLO_OPTIMIZER_ADAMW, /* weight_decay shrinks the parameters */
    KOLO_OPTIMIZER_KINDS  /* how many there are */
} kolo_optimizer_kind;

/* Settings of the elements from the end of the group before, of the first one from 0, up to `end`. Begin with
 * KOLO_PARAMETER_GROUP_INIT. */
typedef struct kolo_parameter_group {
    size_t group_bytes;   /* sizeof(kolo_parameter_group); set by KOLO_PARAMETER_GROUP_INIT */
    size_t end;           /* elements of the message; that of the last group is the message's count */
    double learning_rate; /* default 0.001 */
    double weight_decay;  /* default 0 */
    double beta1;         /* ADAM and ADAMW: default 0.9 */
    double beta2;         /* ADAM and ADAMW: default 0.999 */
    double epsilon;       /* ADAM and ADAMW: default 1e-8 */
    double momentum;      /* SGD: default 0 */
    double dampening;     /* SGD: default 0 */
    int nesterov;         /* SGD: 1 or, by default, 0 */
} kolo_parameter_group;

#define KOLO_PARAMETER_GROUP_INIT                                                                                      \
    { sizeof(kolo_parameter_group), 0, 0.001, 0, 0.9, 0.999, 1e-8, 0, 0, 0 }

/* How to make an optimizer. Begin with KOLO_OPTIMIZER_OPTIONS_INIT. */
typedef struct kolo_optimizer_options {
    size_t options_bytes;     /* sizeof(kolo_optimizer_options); set by KOLO_OPTIMIZER_OPTIONS_INIT */
    kolo_optimizer_kind kind; /* default ADAMW */
    kolo_dtype dtype;         /* of gradients and parameters: F32, by default, F64, F16 or BF16 */
    size_t count;             /* elements of the message: of all parameters, one behind the other; at least 1 */
    const size_t *segments;   /* where consecutive parts of the message end, in elements; the last at `count`. Each is
                                 divided among the ranks by itself, and can be begun by itself. NULL: one */
    size_t nsegments;         /* entries of segments */
    kolo_op op;               /* over the ranks: AVG, by default, or SUM */
    int master_weights;       /* 1: for F16 and BF16 an f32 copy of the owned parameters is what is updated, and the
                                 parameters are that, rounded; it is taken from the parameters in the first step, and
                                 from those that were written since the last one. 0, the default: there is none */
    double gradient_scale;    /* by which reduced gradients are multiplied first; default 1 */
    double clip_norm;         /* gradients are multiplied by min(1, clip_norm / (norm + 1e-6)), in which norm is the
                                 square root of the sum of the squares of all reduced, scaled gradients. 0, the default:
                                 they are not */
    int skip_nonfinite;       /* 1: a step whose norm is NaN or infinite changes nothing on any rank, which for F32, F16
                                 and BF16 means that a gradient is. 0, the default: it is like any other */
} kolo_optimizer_options;

#define KOLO_OPTIMIZER_OPTIONS_INIT                                                                                    \
    { sizeof(kolo_optimizer_options), KOLO_OPTIMIZER_ADAMW, KOLO_F32, 0, NULL, 0, KOLO_AVG, 0, 1, 0, 0 }

/* What a step did. The caller sets info_bytes, and kolo_optimizer_step the rest. */
typedef struct kolo_step_info {
    size_t info_bytes; /* sizeof(kolo_step_info) */
    uint64_t steps;    /* done so far, those that were skipped not counted */
    int skipped;       /* 1: this one was */
    double norm;       /* of all reduced, scaled gradients; 0: not computed, as neither clipping nor skipping needs it.
                          The same bits on all ranks */
    double clip;       /* by what they were multiplied then; 1: not clipped */
} kolo_step_info;

typedef struct kolo_optimizer kolo_optimizer; /* one rank's part of an optimizer */

/* Makes an optimizer, together with all other ranks. Blocks until all have come. It belongs to the caller, who ends it
 * with kolo_optimizer_destroy before the communicator. All ranks pass the same options and groups, which are copied.
 * groups NULL: one, with KOLO_PARAMETER_GROUP_INIT. A rank allocates for each element of its own, for ADAM and ADAMW,
 * two numbers of the type that is computed in; for SGD one if any group has momentum; one for master weights; and one
 * of the message's dtype for clipping or skipping. KOLO_ERR_ARG: an option or group is wrong; on all ranks, if it
 * differs between them, naming the first that does and both values. KOLO_ERR_SYSTEM: out of memory, on all ranks. In
 * both cases the communicator stays usable. Others as kolo_allreduce. */
KOLO_API int kolo_optimizer_create(kolo_comm *comm, const kolo_optimizer_options *options,
                                   const kolo_parameter_group *groups, size_t ngroups, kolo_optimizer **optimizer);

/* Frees it. Waits for segments that have begun, if the communicator is usable. NULL is fine. Always 0. */
KOLO_API int kolo_optimizer_destroy(kolo_optimizer *optimizer);

/* One step: gradients[0 .. count-1] are this rank's, parameters[0 .. count-1] become the new ones, the same bits on all
 * ranks. Collective; blocks until this rank has them. Only the parameters that it owns are read. Segments that have
 * begun are completed, with the buffers that they began with; if all have, gradients and parameters may be NULL. info
 * NULL: not wanted.
 *     KOLO_ERR_ARG: NULL elsewhere, or gradients and parameters overlap. Errors as kolo_allreduce; after one that
 * breaks the communicator, state and parameters may be new in some parts and old in others: go on from what was saved.
 */
KOLO_API int kolo_optimizer_step(kolo_optimizer *optimizer, const void *gradients, void *parameters,
                                 kolo_step_info *info);

/* Begins segment `segment` of the next step in the background, as kolo_iallreduce does, and returns at once: gradients
 * and parameters are those of the segment's elements, and belong to kolo until kolo_optimizer_step has returned. Every
 * rank begins the same segments in the same order, among its other calls. Without clipping and skipping, all of the
 * segment's step is done in the background, so its parameters change; with them only the reduction is, and
 * kolo_optimizer_step does the rest.
 *     KOLO_ERR_ARG: NULL, no such segment, or it has begun already. Others as kolo_iallreduce. */
KOLO_API int kolo_optimizer_begin_segment(kolo_optimizer *optimizer, size_t segment, const void *gradients,
                                          void *parameters);

/* Fills *before with the settings of group `index`; then changes them to *wanted, whose `end` is the present one,
 * from the next step on: not for one of which a segment has begun. Either may be NULL. Every rank makes the same
 * changes. Blocks for nobody. KOLO_ERR_ARG: no such group, a wrong setting, another `end`, momentum where no group had
 * any at the beginning, or group_bytes was not set; nothing was changed. */
KOLO_API int kolo_optimizer_group(kolo_optimizer *optimizer, size_t index, const kolo_parameter_group *wanted,
                                  kolo_parameter_group *before);

/* State, what has to be saved: arrays of `count` numbers, f32 or, for F64 messages, f64, of which each rank has what it
 * owns; and one number that all have alike. */
typedef enum kolo_optimizer_state {
    KOLO_OPTIMIZER_MOMENTUM, /* SGD's momentum buffer, Adam's first moment (exp_avg) */
    KOLO_OPTIMIZER_VARIANCE, /* Adam's second moment (exp_avg_sq) */
    KOLO_OPTIMIZER_MASTER,   /* master weights; before the first step they mean nothing */
    KOLO_OPTIMIZER_STEPS,    /* one uint64_t: steps done so far. Adam's formulas use it, and 0 says that there are no
                                moments and no master weights yet, whatever their arrays have */
    KOLO_OPTIMIZER_STATES    /* how many there are */
} kolo_optimizer_state;

/* *values = this rank's part of an array, to read or write between steps: one owned range behind the other in the order
 * of segments (of each, kolo_apply_owned says which). NULL: this optimizer has no such array. *count: its numbers. The
 * memory is the optimizer's. KOLO_ERR_ARG: NULL, or no such state. Blocks for nobody. */
KOLO_API int kolo_optimizer_local_state(kolo_optimizer *optimizer, kolo_optimizer_state which, void **values,
                                        size_t *count);

/* values[0 .. count-1] = the whole of a state on rank `root`, or with root -1 on every rank; elsewhere values is not
 * used. Collective; blocks until this rank's part is done. STEPS can be read at any time, blocking for nobody.
 * KOLO_ERR_ARG: no such state or root, NULL, or a segment has begun. Others as kolo_allreduce. */
KOLO_API int kolo_optimizer_read_state(kolo_optimizer *optimizer, kolo_optimizer_state which, void *values, int root);

/* Takes this rank's part of a state from the whole of it, which another optimizer of the same count had, whatever its
 * number of ranks and its segments. `values` may be a file in memory, of which only that part is read. No rank waits
 * for another. Every rank writes the same STEPS: groups that have momentum then are taken to have a buffer of it;
 * in others the first step with momentum makes the gradient the buffer, as the first step of all does. KOLO_ERR_ARG as
 * above. */
KOLO_API int kolo_optimizer_write_state(kolo_optimizer *optimizer, kolo_optimizer_state which, const void *values);

#endif
