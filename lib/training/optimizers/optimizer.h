/* An optimizer, as its own rank holds it. Ranks share nothing of it: they meet in kolo_allreduce_apply and in other
 * collectives of the communicator. The optimizer makes these as a program would, but its calls also tell which segment,
 * settings and step they belong to.
 *
 * The message is divided into segments, each of which is a message of kolo_allreduce_apply. The elements that a rank
 * owns in all segments lie one behind the other in its arrays of state. A step is, for each segment,
 *   - one kolo_allreduce_apply whose function updates what the rank owns; or,
 *   - where the norm of all gradients comes first, one without parameters, whose function keeps the reduced gradients;
 *     then the sum of the squares of all that, by an all-reduce of one number; then one without gradients.
 * The first call of each can begin in the background before the step. Factors are those of the groups' settings when
 * the step's first segment begins. */
#pragma once

#include "kolo.h"
#include "kolo_optimizer.h"
#include "comm/step/items.h"
#include "reduce/steps/steps.h"
#include "reduce/reducer.h"

struct kolo_optimizer_segment {
    kolo_optimizer *optimizer;
    size_t begin, count;   /* in the message, elements */
    size_t first, owned;   /* elements that this rank owns, in the segment */
    size_t place;          /* begin of these in the arrays of state */
    kolo_request *request; /* of a segment that has begun */
    const void *gradients; /* of the segment, from its beginning on to the end of the step */
    void *parameters;
};

struct kolo_optimizer {
    kolo_comm *comm;
    kolo_optimizer_options options; /* segments is NULL */
    struct kolo_optimizer_segment *segments;
    size_t nsegments, begun; /* of those */
    kolo_parameter_group *groups;
    struct kolo_step_factors *factors; /* of each group, in the step that has begun */
    bool *has_buffers;                 /* of each group: a step with momentum has been done */
    size_t ngroups;
    bool has_momentum;
    bool is_under_way; /* a step has begun */
    uint64_t steps;
    uint64_t settings;  /* digest of the items that ranks have to agree on */
    uint64_t under_way; /* digest of `settings` and the step that has begun */

    const kolo_steps *kernels;
    const kolo_kernel *convert; /* of F16 and BF16 to f32 and back; NULL: the message needs no conversion */
    unsigned type;              /* KOLO_STEPS_F32 or F64 */
    size_t element_bytes, real_bytes;
    kolo_dtype real; /* of state */

    size_t owned;                           /* of all segments */
    uint8_t *states[KOLO_OPTIMIZER_STATES]; /* [owned] of `real`; NULL: there is none */
    uint8_t *kept;                          /* [owned] reduced gradients; NULL: no norm is needed */
    size_t *blocks;                         /* [2 * size] for counts and offsets */
};

/* The items that ranks have to agree on. */
struct kolo_items kolo_optimizer_items(const kolo_optimizer *optimizer);

static inline bool kolo_optimizer_needs_norm(const kolo_optimizer *optimizer) {
    return optimizer->options.clip_norm != 0 || optimizer->options.skip_nonfinite;
}
