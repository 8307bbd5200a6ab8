/* Steps of optimizers: see optimizer.h. */
#include <math.h>
#include <string.h>

#include "api/path.h"
#include "training/optimizers/optimizer.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/step/call_key.h"
#include "cpu/fpenv.h"

enum { BLOCK_ELEMENTS = 1024 }; /* of F16 and BF16, converted at a time */

static const struct kolo_sized sized_info = KOLO_SIZED(kolo_step_info, info_bytes, clip);

/* The scalars of step `step`, from 1, for one group; before clipping. */
static struct kolo_step_factors factors_of(const kolo_optimizer *optimizer, size_t index, uint64_t step) {
    const kolo_optimizer_kind kind = optimizer->options.kind;
    const kolo_parameter_group *group = &optimizer->groups[index];
    const bool has_buffer = optimizer->has_buffers[index]; /* else the gradient becomes it */
    const double rate = group->learning_rate;
    struct kolo_step_factors factors = {
        .scale = optimizer->options.gradient_scale,
        .decay = kind == KOLO_OPTIMIZER_ADAMW ? 0 : group->weight_decay,
        .rate = -rate,
        .momentum = group->momentum,
        .kept = has_buffer ? group->momentum : 0,
        .undamped = has_buffer ? 1 - group->dampening : 1,
        .has_momentum = group->momentum != 0,
        .nesterov = group->nesterov,
        .shrink = kind == KOLO_OPTIMIZER_ADAMW ? 1 - rate * group->weight_decay : 1,
        .beta1_rest = 1 - group->beta1,
        .beta2 = group->beta2,
        .beta2_rest = 1 - group->beta2,
        .epsilon = group->epsilon,
    };
    if (kind != KOLO_OPTIMIZER_SGD) {
        factors.rate = -(rate / (1 - kolo_steps_power(group->beta1, step)));
        factors.bias2_root = kolo_steps_root(1 - kolo_steps_power(group->beta2, step));
    }
    return factors;
}

static void begin_step(kolo_optimizer *optimizer) {
    if (optimizer->is_under_way)
        return;
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    for (size_t i = 0; i < optimizer->ngroups; i++)
        optimizer->factors[i] = factors_of(optimizer, i, optimizer->steps + 1);
    kolo_fpenv_leave(callers_fpenv);
    optimizer->under_way = kolo_digest_after(optimizer->settings, optimizer->steps);
    optimizer->is_under_way = true;
}

/* The group of element `element` of the message. */
static size_t group_of(const kolo_optimizer *optimizer, size_t element) {
    size_t low = 0, high = optimizer->ngroups - 1;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (optimizer->groups[middle].end <= element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A part of one group: elements of which this rank has the state from `place` on. */
struct part {
    const struct kolo_step_factors *factors;
    size_t place, count;
};

static void *state_at(const kolo_optimizer *optimizer, kolo_optimizer_state which, size_t place) {
    uint8_t *state = optimizer->states[which];
    return state ? state + place * optimizer->real_bytes : NULL;
}

/* Updates parameters whose type is the one that the kernel computes in. What the moments' memory has before their first
 * step counts for nothing: it may be no number. */
static void update_reals(const kolo_optimizer *optimizer, const struct part *part, const void *gradients,
                         void *parameters) {
    const bool is_sgd = optimizer->options.kind == KOLO_OPTIMIZER_SGD;
    const bool begins = is_sgd ? part->factors->kept == 0 : optimizer->steps == 0;
    kolo_step_fn *const step = (is_sgd ? optimizer->kernels->sgd : optimizer->kernels->adam)[optimizer->type];
    void *first =
        is_sgd && !part->factors->has_momentum ? NULL : state_at(optimizer, KOLO_OPTIMIZER_MOMENTUM, part->place);
    void *second = state_at(optimizer, KOLO_OPTIMIZER_VARIANCE, part->place);
    if (begins && first)
        memset(first, 0, part->count * optimizer->real_bytes);
    if (begins && second)
        memset(second, 0, part->count * optimizer->real_bytes);
    step(part->factors, part->count, gradients, parameters, first, second);
}

/* Brings master weights up to date: parameters that are no longer these, rounded, are what the program wrote. */
static void take_written(const kolo_optimizer *optimizer, float *master, const uint8_t *parameters, size_t count) {
    float written[BLOCK_ELEMENTS];
    uint16_t rounded[BLOCK_ELEMENTS];
    const void *source = master;
    optimizer->convert->finish(rounded, &source, 1, count, 1);
    if (memcmp(rounded, parameters, count * sizeof *rounded) == 0)
        return;
    optimizer->convert->widen(written, parameters, count);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&rounded[i], parameters + i * sizeof *rounded, sizeof *rounded) != 0)
            master[i] = written[i];
}

/* Updates F16 or BF16 parameters through f32. The first step with master weights takes these from the parameters. */
static void update_halves(const kolo_optimizer *optimizer, const struct part *whole, const uint8_t *gradients,
                          uint8_t *parameters) {
    const kolo_kernel *convert = optimizer->convert;
    for (size_t done = 0; done < whole->count; done += BLOCK_ELEMENTS) {
        float g[BLOCK_ELEMENTS], p[BLOCK_ELEMENTS];
        struct part part = *whole;
        part.place += done;
        part.count = whole->count - done < BLOCK_ELEMENTS ? whole->count - done : BLOCK_ELEMENTS;
        uint8_t *own = parameters + done * optimizer->element_bytes;
        void *master = state_at(optimizer, KOLO_OPTIMIZER_MASTER, part.place);
        void *reals = master ? master : p;
        convert->widen(g, gradients + done * optimizer->element_bytes, part.count);
        if (!master || optimizer->steps == 0)
            convert->widen(reals, own, part.count);
        else
            take_written(optimizer, master, own, part.count);
        update_reals(optimizer, &part, g, reals);
        const void *source = reals;
        convert->finish(own, &source, 1, part.count, 1);
    }
}

/* Updates elements of a segment, from `first` on, group by group. */
static void update(const struct kolo_optimizer_segment *segment, size_t first, size_t count, const uint8_t *gradients,
                   uint8_t *parameters) {
    const kolo_optimizer *optimizer = segment->optimizer;
    const size_t element_bytes = optimizer->element_bytes;
    size_t element = segment->begin + first, place = segment->place + first - segment->first;
    for (size_t index = group_of(optimizer, element); count > 0; index++) {
        const size_t left = optimizer->groups[index].end - element;
        const struct part part = {&optimizer->factors[index], place, count < left ? count : left};
        if (optimizer->convert)
            update_halves(optimizer, &part, gradients, parameters);
        else
            update_reals(optimizer, &part, gradients, parameters);
        gradients += part.count * element_bytes;
        parameters += part.count * element_bytes;
        element += part.count;
        place += part.count;
        count -= part.count;
    }
}

/* The functions for kolo_allreduce_apply, whose contexts are segments. */

static void apply_all(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    update(context, first, count, gradients, parameters);
}

static uint8_t *kept_at(const struct kolo_optimizer_segment *segment, size_t first) {
    return segment->optimizer->kept + (segment->place + first - segment->first) * segment->optimizer->element_bytes;
}

static void keep_gradients(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    const struct kolo_optimizer_segment *segment = context;
    (void)parameters;
    memcpy(kept_at(segment, first), gradients, count * segment->optimizer->element_bytes);
}

static void apply_kept(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)gradients;
    update(context, first, count, kept_at(context, first), parameters);
}

/* One of the items that ranks have to agree on in a segment's calls: those of its creation, and the step. */
static struct kolo_item item_of(const void *context, size_t index) {
    const struct kolo_optimizer_segment *segment = context;
    const struct kolo_items settings = kolo_optimizer_items(segment->optimizer);
    return index < settings.count    ? settings.item(settings.context, index)
           : index == settings.count ? kolo_item_number("steps", segment->optimizer->steps)
                                     : kolo_item_number("segment", (uint64_t)(segment - segment->optimizer->segments));
}

/* Makes a kolo_allreduce_apply of the segment, in the background if `request` is not NULL. */
static int make_call(struct kolo_optimizer_segment *segment, const void *gradients, void *parameters,
                     kolo_apply_function function, kolo_request **request) {
    static const char *const name = "kolo_optimizer_step";
    const kolo_optimizer *optimizer = segment->optimizer;
    struct kolo_arguments call = {.send = gradients,
                                  .recv = parameters,
                                  .count = segment->count,
                                  .dtype = optimizer->options.dtype,
                                  .op = optimizer->options.op,
                                  .apply = {.function = function, .context = segment},
                                  .digest = kolo_digest_after(optimizer->under_way, segment->begin),
                                  .items = {kolo_optimizer_items(optimizer).count + 2, item_of, segment}};
    return request ? kolo_path_issue(KOLO_ALLREDUCE_APPLY, name, optimizer->comm, &call, request)
                   : kolo_path_make(KOLO_ALLREDUCE_APPLY, name, optimizer->comm, &call);
}

/* Begins the part of a segment's step that does not need the norm, in the background if `request` is not NULL. */
static int start(struct kolo_optimizer_segment *segment, const void *gradients, void *parameters,
                 kolo_request **request) {
    const bool needs_norm = kolo_optimizer_needs_norm(segment->optimizer);
    segment->gradients = gradients;
    segment->parameters = parameters;
    return make_call(segment, gradients, needs_norm ? NULL : parameters, needs_norm ? keep_gradients : apply_all,
                     request);
}

static bool overlap(const void *a, const void *b, size_t bytes) {
    const uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return (first < second ? second - first : first - second) < bytes;
}

static int check_buffers(const kolo_optimizer *optimizer, const char *function, const void *gradients,
                         const void *parameters, size_t count) {
    if (!gradients || !parameters)
        return KOLO_REFUSE(optimizer->comm, function, "%s is NULL", gradients ? "parameters" : "gradients");
    if (overlap(gradients, parameters, count * optimizer->element_bytes))
        return KOLO_REFUSE(optimizer->comm, function, "gradients %p and parameters %p overlap within %zu elements",
                           gradients, parameters, count);
    return 0;
}

int kolo_optimizer_begin_segment(kolo_optimizer *optimizer, size_t segment, const void *gradients, void *parameters) {
    if (!optimizer)
        return kolo_fail(KOLO_ERR_ARG, "%s: optimizer is NULL", __func__);
    if (segment >= optimizer->nsegments)
        return KOLO_REFUSE(optimizer->comm, __func__, "segment %zu: there are %zu", segment, optimizer->nsegments);
    struct kolo_optimizer_segment *this = &optimizer->segments[segment];
    if (this->request)
        return KOLO_REFUSE(optimizer->comm, __func__, "segment %zu has begun already: kolo_optimizer_step ends it",
                           segment);
    int rc = check_buffers(optimizer, __func__, gradients, parameters, this->count);
    if (rc < 0)
        return rc;
    begin_step(optimizer);
    rc = start(this, gradients, parameters, &this->request);
    if (rc == 0)
        optimizer->begun++;
    else if (optimizer->begun == 0)
        optimizer->is_under_way = false;
    return rc;
}

/* Completes the segments that have begun, and does the same for the others. */
static int reduce_segments(kolo_optimizer *optimizer, const uint8_t *gradients, uint8_t *parameters) {
    int status = 0;
    for (size_t i = 0; i < optimizer->nsegments; i++) {
        struct kolo_optimizer_segment *segment = &optimizer->segments[i];
        const size_t at = segment->begin * optimizer->element_bytes;
        const bool has_begun = segment->request;
        int rc = 0;
        if (has_begun)
            rc = kolo_request_wait(segment->request);
        else if (status == 0)
            rc = start(segment, gradients + at, parameters + at, NULL);
        segment->request = NULL;
        optimizer->begun -= has_begun;
        if (status == 0)
            status = rc;
    }
    return status;
}

/* Finds the norm of all reduced gradients, from the elements that each rank owns. */
static int find_norm(kolo_optimizer *optimizer, double *norm) {
    double lanes[KOLO_SQUARE_LANES] = {0}, sum = 0;
    kolo_squares_fn *const squares = optimizer->kernels->squares[optimizer->type];
    if (!optimizer->convert)
        squares(lanes, optimizer->kept, optimizer->owned);
    for (size_t done = 0; optimizer->convert && done < optimizer->owned; done += BLOCK_ELEMENTS) {
        float reals[BLOCK_ELEMENTS];
        const size_t left = optimizer->owned - done, count = left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS;
        optimizer->convert->widen(reals, optimizer->kept + done * optimizer->element_bytes, count);
        squares(lanes, reals, count);
    }
    for (size_t i = 0; i < KOLO_SQUARE_LANES; i++)
        sum += lanes[i];
    const int rc = kolo_allreduce(optimizer->comm, &sum, &sum, 1, KOLO_F64, KOLO_SUM);
    *norm = kolo_steps_root(sum) * fabs(optimizer->options.gradient_scale);
    if (isnan(*norm))
        *norm = (double)NAN;
    return rc;
}

/* Does the second half of a step, whose norm is known. */
static int update_segments(kolo_optimizer *optimizer, double clip) {
    int rc = 0;
    for (size_t i = 0; i < optimizer->ngroups; i++)
        optimizer->factors[i].scale *= clip;
    for (size_t i = 0; rc == 0 && i < optimizer->nsegments; i++) {
        struct kolo_optimizer_segment *segment = &optimizer->segments[i];
        rc = make_call(segment, NULL, segment->parameters, apply_kept, NULL);
    }
    return rc;
}

static int finish(kolo_optimizer *optimizer, kolo_step_info *done) {
    const kolo_optimizer_options *options = &optimizer->options;
    if (!kolo_optimizer_needs_norm(optimizer))
        return 0;
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    int rc = find_norm(optimizer, &done->norm);
    done->skipped = options->skip_nonfinite && !isfinite(done->norm);
    if (options->clip_norm != 0) {
        const double clip = options->clip_norm / (done->norm + 1e-6);
        done->clip = clip > 1 ? 1 : clip;
    }
    if (rc == 0 && !done->skipped)
        rc = update_segments(optimizer, done->clip);
    kolo_fpenv_leave(callers_fpenv);
    return rc;
}

int kolo_optimizer_step(kolo_optimizer *optimizer, const void *gradients, void *parameters, kolo_step_info *info) {
    kolo_step_info done;
    int rc = 0;
    if (!optimizer)
        return kolo_fail(KOLO_ERR_ARG, "%s: optimizer is NULL", __func__);
    if (info)
        rc = kolo_sized_check(&sized_info, __func__, info);
    if (rc == 0 && optimizer->begun < optimizer->nsegments)
        rc = check_buffers(optimizer, __func__, gradients, parameters, optimizer->options.count);
    if (rc < 0)
        return rc;
    memset(&done, 0, sizeof done);
    done.clip = 1;
    kolo_trace_span_begin(KOLO_TRACE_OPTIMIZER, 0, 0, optimizer->options.count, 0);
    begin_step(optimizer);
    rc = reduce_segments(optimizer, gradients, parameters);
    if (rc == 0)
        rc = finish(optimizer, &done);
    optimizer->is_under_way = false;
    kolo_trace_span_end(KOLO_TRACE_OPTIMIZER, rc);
    if (rc < 0)
        return rc;
    optimizer->steps += !done.skipped;
    for (size_t i = 0; i < optimizer->ngroups && !done.skipped; i++)
        optimizer->has_buffers[i] = optimizer->has_buffers[i] || optimizer->factors[i].has_momentum;
    done.steps = optimizer->steps;
    if (info)
        kolo_sized_fill(&sized_info, info, &done);
    return 0;
}
