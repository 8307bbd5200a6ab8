/* Makes optimizers, changes the settings of their groups, and reads and restores their state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "training/optimizers/optimizer.h"
#include "api/path.h"
#include "api/sharing.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/step/call_key.h"

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

static const char *const function_of_create = "kolo_optimizer_create";

static const struct kolo_sized sized_group = KOLO_SIZED(kolo_parameter_group, group_bytes, nesterov);
static const struct kolo_sized sized_options = KOLO_SIZED(kolo_optimizer_options, options_bytes, skip_nonfinite);

/* Whether `value` is in the range; false also for NaN. */
static bool is_between(double value, double least, double end) {
    return value >= least && value < end;
}

static int refuse(const kolo_comm *comm, const char *function, size_t index, const char *what, double value,
                  const char *must) {
    return KOLO_REFUSE(comm, function, "group %zu: %s %g: must be %s", index, what, value, must);
}

/* Checks the settings of one group but for its end. */
static int check_group(const kolo_comm *comm, const char *function, size_t index, const kolo_parameter_group *group) {
    const struct {
        const char *name;
        double value, end; /* from 0 to less than that */
    } numbers[] = {{"learning_rate", group->learning_rate, INFINITY},
                   {"weight_decay", group->weight_decay, INFINITY},
                   {"beta1", group->beta1, 1},
                   {"beta2", group->beta2, 1},
                   {"epsilon", group->epsilon, INFINITY},
                   {"momentum", group->momentum, INFINITY}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!is_between(numbers[i].value, 0, numbers[i].end))
            return refuse(comm, function, index, numbers[i].name, numbers[i].value,
                          numbers[i].end == 1 ? "from 0 to less than 1" : "0 or more, and finite");
    if (!isfinite(group->dampening))
        return refuse(comm, function, index, "dampening", group->dampening, "finite");
    if (group->nesterov && (group->nesterov != 1 || group->momentum == 0 || group->dampening != 0))
        return refuse(comm, function, index, "nesterov", group->nesterov,
                      "0, or 1 with momentum and without dampening");
    return 0;
}

static int check_options(const kolo_comm *comm, const kolo_optimizer_options *options) {
    const kolo_dtype dtype = options->dtype;
    if ((unsigned)options->kind >= KOLO_OPTIMIZER_KINDS)
        return KOLO_REFUSE(comm, function_of_create, "kind %d: there is no such optimizer", (int)options->kind);
    if (dtype != KOLO_F32 && dtype != KOLO_F64 && dtype != KOLO_F16 && dtype != KOLO_BF16)
        return KOLO_REFUSE(comm, function_of_create, "dtype %d: must be F32, F64, F16 or BF16", (int)dtype);
    if (options->op != KOLO_AVG && options->op != KOLO_SUM)
        return KOLO_REFUSE(comm, function_of_create, "op %d: must be AVG or SUM", (int)options->op);
    if (options->count == 0 || options->count > SIZE_MAX / 64)
        return KOLO_REFUSE(comm, function_of_create, "count %zu: must be at least 1, and fit memory", options->count);
    if (options->master_weights && (options->master_weights != 1 || dtype == KOLO_F32 || dtype == KOLO_F64))
        return KOLO_REFUSE(comm, function_of_create, "master_weights %d: must be 0, or 1 for F16 and BF16",
                           options->master_weights);
    if (!isfinite(options->gradient_scale) || !is_between(options->clip_norm, 0, INFINITY))
        return KOLO_REFUSE(comm, function_of_create,
                           "gradient_scale %g, clip_norm %g: must be finite, clip_norm 0 or more",
                           options->gradient_scale, options->clip_norm);
    if (!options->segments != !options->nsegments)
        return KOLO_REFUSE(comm, function_of_create, "segments %p with nsegments %zu", (const void *)options->segments,
                           options->nsegments);
    for (size_t i = 0; i < options->nsegments; i++)
        if (options->segments[i] <= (i ? options->segments[i - 1] : 0))
            return KOLO_REFUSE(comm, function_of_create, "segment %zu ends at %zu: must be behind the one before", i,
                               options->segments[i]);
    if (options->nsegments && options->segments[options->nsegments - 1] != options->count)
        return KOLO_REFUSE(comm, function_of_create, "the last segment ends at %zu: must be the count, %zu",
                           options->segments[options->nsegments - 1], options->count);
    return 0;
}

/* Copies and checks the groups. */
static int take_groups(kolo_optimizer *made, const kolo_parameter_group *groups, size_t ngroups) {
    const kolo_comm *comm = made->comm;
    const kolo_parameter_group initial = KOLO_PARAMETER_GROUP_INIT;
    made->ngroups = groups && ngroups ? ngroups : 1;
    made->groups = calloc(made->ngroups, sizeof *made->groups);
    made->factors = calloc(made->ngroups, sizeof *made->factors);
    made->has_buffers = calloc(made->ngroups, sizeof *made->has_buffers);
    if (!made->groups || !made->factors || !made->has_buffers)
        return KOLO_FAIL_IN(comm, function_of_create, KOLO_ERR_SYSTEM, "out of memory");
    made->groups[0] = initial;
    made->groups[0].end = made->options.count;
    const char *next = (const char *)groups; /* an array of the caller's structs, which may be longer */
    for (size_t i = 0; groups && i < ngroups; i++) {
        kolo_parameter_group *group = &made->groups[i];
        *group = initial;
        int rc = kolo_sized_read(&sized_group, function_of_create, group, next);
        if (rc == 0)
            rc = check_group(comm, function_of_create, i, group);
        if (rc < 0)
            return rc;
        next += ((const kolo_parameter_group *)next)->group_bytes;
        group->group_bytes = sizeof *group;
        if (group->end <= (i ? group[-1].end : 0))
            return KOLO_REFUSE(comm, function_of_create, "group %zu ends at %zu: must be behind the one before", i,
                               group->end);
        made->has_momentum = made->has_momentum || group->momentum != 0;
    }
    if (made->groups[made->ngroups - 1].end != made->options.count)
        return KOLO_REFUSE(comm, function_of_create, "the last group ends at %zu: must be the count, %zu",
                           made->groups[made->ngroups - 1].end, made->options.count);
    return 0;
}

/* Divides the message among the ranks. */
static int take_segments(kolo_optimizer *made, const kolo_optimizer_options *options) {
    kolo_comm *comm = made->comm;
    made->nsegments = options->nsegments ? options->nsegments : 1;
    made->segments = calloc(made->nsegments, sizeof *made->segments);
    made->blocks = calloc(2 * (size_t)comm->global_size, sizeof *made->blocks);
    if (!made->segments || !made->blocks)
        return KOLO_FAIL_IN(comm, function_of_create, KOLO_ERR_SYSTEM, "out of memory");
    for (size_t i = 0, begin = 0; i < made->nsegments; i++) {
        struct kolo_optimizer_segment *segment = &made->segments[i];
        const size_t end = options->nsegments ? options->segments[i] : options->count;
        *segment = (struct kolo_optimizer_segment){
            .optimizer = made, .begin = begin, .count = end - begin, .place = made->owned};
        kolo_apply_owned(comm, (int)comm->global_rank, segment->count, options->dtype, &segment->first,
                         &segment->owned);
        made->owned += segment->owned;
        begin = end;
    }
    return 0;
}

enum { OPTIONS = 10, GROUP_ITEMS = 9 };

static struct kolo_item item_of_group(const kolo_parameter_group *group, size_t which) {
    const struct kolo_item items[GROUP_ITEMS] = {kolo_item_number(".end", group->end),
                                                 kolo_item_real(".learning_rate", group->learning_rate),
                                                 kolo_item_real(".weight_decay", group->weight_decay),
                                                 kolo_item_real(".beta1", group->beta1),
                                                 kolo_item_real(".beta2", group->beta2),
                                                 kolo_item_real(".epsilon", group->epsilon),
                                                 kolo_item_real(".momentum", group->momentum),
                                                 kolo_item_real(".dampening", group->dampening),
                                                 kolo_item_number(".nesterov", (uint64_t)group->nesterov)};
    return items[which];
}

/* One of the items that ranks have to agree on: options, then the ends of segments, then groups. */
static struct kolo_item item_of(const void *context, size_t index) {
    const kolo_optimizer *made = context;
    const kolo_optimizer_options *options = &made->options;
    if (index >= OPTIONS + made->nsegments) {
        const size_t group = (index - OPTIONS - made->nsegments) / GROUP_ITEMS;
        struct kolo_item item = item_of_group(&made->groups[group], (index - OPTIONS - made->nsegments) % GROUP_ITEMS);
        item.list = "groups";
        item.index = group;
        return item;
    }
    if (index >= OPTIONS) {
        const struct kolo_optimizer_segment *segment = &made->segments[index - OPTIONS];
        return kolo_item_of_list("segments", index - OPTIONS, "", segment->begin + segment->count);
    }
    const struct kolo_item items[OPTIONS] = {kolo_item_number("kind", options->kind),
                                             kolo_item_named("dtype", KOLO_NAME_DTYPE, options->dtype),
                                             kolo_item_number("count", options->count),
                                             kolo_item_named("op", KOLO_NAME_OP, options->op),
                                             kolo_item_number("master_weights", (uint64_t)options->master_weights),
                                             kolo_item_number("skip_nonfinite", (uint64_t)options->skip_nonfinite),
                                             kolo_item_real("gradient_scale", options->gradient_scale),
                                             kolo_item_real("clip_norm", options->clip_norm),
                                             kolo_item_number("ngroups", made->ngroups),
                                             kolo_item_number("nsegments", made->nsegments)};
    return items[index];
}

struct kolo_items kolo_optimizer_items(const kolo_optimizer *made) {
    return (struct kolo_items){
        .count = OPTIONS + made->nsegments + GROUP_ITEMS * made->ngroups, .item = item_of, .context = made};
}

static uint64_t digest_of(const kolo_optimizer *made) {
    const struct kolo_items items = kolo_optimizer_items(made);
    return kolo_items_digest(&items, 0, items.count, 0);
}

/* Zeroed memory of `count` numbers; NULL where there is no memory. */
static uint8_t *numbers(size_t count, size_t bytes_each) {
    size_t bytes = (count * bytes_each + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    const bool is_huge = bytes >= HUGE_PAGE;
    if (is_huge)
        bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uint8_t *memory = aligned_alloc(is_huge ? HUGE_PAGE : ALIGNMENT, bytes);
    if (memory && is_huge)
        madvise(memory, bytes, MADV_HUGEPAGE);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static bool allocate(kolo_optimizer *made) {
    const kolo_optimizer_options *options = &made->options;
    const bool is_adam = options->kind != KOLO_OPTIMIZER_SGD;
    const bool has[KOLO_OPTIMIZER_STATES] = {[KOLO_OPTIMIZER_MOMENTUM] = is_adam || made->has_momentum,
                                             [KOLO_OPTIMIZER_VARIANCE] = is_adam,
                                             [KOLO_OPTIMIZER_MASTER] = options->master_weights};
    for (int i = 0; i < KOLO_OPTIMIZER_STATES; i++)
        if (has[i] && !(made->states[i] = numbers(made->owned, made->real_bytes)))
            return false;
    return !kolo_optimizer_needs_norm(made) || (made->kept = numbers(made->owned, made->element_bytes));
}

/* Ends a part of the creation, which has ended with `rc` on this rank. */
static int agree(kolo_comm *comm, int rc) {
    struct kolo_call_key key = kolo_call_key_of(KOLO_ALLREDUCE_APPLY, 0);
    key.flags = KOLO_CALL_CREATES;
    return kolo_status_meet(comm, function_of_create, key, rc);
}

/* Makes sure that all ranks pass the same items, and that all have memory. */
static int meet(kolo_optimizer *made) {
    kolo_comm *comm = made->comm;
    made->settings = digest_of(made);
    const struct kolo_items items = kolo_optimizer_items(made);
    const int rc = kolo_items_agree(comm, function_of_create, &items);
    return rc < 0 ? rc
                  : agree(comm, allocate(made) ? 0
                                               : KOLO_FAIL_IN(comm, function_of_create, KOLO_ERR_SYSTEM,
                                                              "out of memory for its state"));
}

static void release(kolo_optimizer *optimizer) {
    for (int i = 0; i < KOLO_OPTIMIZER_STATES; i++)
        free(optimizer->states[i]);
    free(optimizer->kept);
    free(optimizer->blocks);
    free(optimizer->segments);
    free(optimizer->groups);
    free(optimizer->factors);
    free(optimizer->has_buffers);
    free(optimizer);
}

static void choose_kernels(kolo_optimizer *made) {
    const kolo_comm *comm = made->comm;
    const kolo_dtype dtype = made->options.dtype;
    made->kernels = comm->reducer->steps;
    made->real = dtype == KOLO_F64 ? KOLO_F64 : KOLO_F32;
    made->type = dtype == KOLO_F64 ? KOLO_STEPS_F64 : KOLO_STEPS_F32;
    made->convert = dtype == KOLO_F16 || dtype == KOLO_BF16 ? &comm->reducer->kernels[dtype][KOLO_SUM] : NULL;
    made->element_bytes = kolo_dtype_bytes(dtype);
    made->real_bytes = kolo_dtype_bytes(made->real);
}

/* Fills in what needs no other rank. */
static int take(kolo_optimizer *made, kolo_comm *comm, const kolo_optimizer_options *options,
                const kolo_parameter_group *groups, size_t ngroups) {
    made->comm = comm;
    made->options = *options;
    made->options.segments = NULL;
    choose_kernels(made);
    const int rc = take_groups(made, groups, ngroups);
    return rc < 0 ? rc : take_segments(made, options);
}

int kolo_optimizer_create(kolo_comm *comm, const kolo_optimizer_options *options, const kolo_parameter_group *groups,
                          size_t ngroups, kolo_optimizer **optimizer) {
    kolo_optimizer_options read = KOLO_OPTIMIZER_OPTIONS_INIT;
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "%s: comm is NULL", __func__);
    kolo_optimizer *made = calloc(1, sizeof *made);
    int rc = made ? 0 : KOLO_FAIL_IN(comm, __func__, KOLO_ERR_SYSTEM, "out of memory");
    if (rc == 0 && (!options || !optimizer))
        rc = KOLO_REFUSE(comm, __func__, "%s is NULL", options ? "optimizer" : "options");
    if (rc == 0)
        rc = kolo_sized_read(&sized_options, __func__, &read, options);
    if (rc == 0)
        rc = check_options(comm, &read);
    if (rc == 0)
        rc = take(made, comm, &read, groups, ngroups);
    rc = agree(comm, rc);
    if (rc == 0)
        rc = meet(made);
    if (rc == 0)
        *optimizer = made;
    else if (made)
        release(made);
    return rc;
}

int kolo_optimizer_destroy(kolo_optimizer *optimizer) {
    if (!optimizer)
        return 0;
    for (size_t i = 0; i < optimizer->nsegments; i++)
        kolo_request_wait(optimizer->segments[i].request);
    release(optimizer);
    return 0;
}

static int change_group(kolo_optimizer *optimizer, const char *function, size_t index,
                        const kolo_parameter_group *wanted) {
    const kolo_comm *comm = optimizer->comm;
    kolo_parameter_group read = KOLO_PARAMETER_GROUP_INIT;
    int rc = kolo_sized_read(&sized_group, function, &read, wanted);
    if (rc == 0)
        rc = check_group(comm, function, index, &read);
    if (rc < 0)
        return rc;
    if (read.end != optimizer->groups[index].end)
        return KOLO_REFUSE(comm, function, "group %zu ends at %zu: must stay %zu", index, read.end,
                           optimizer->groups[index].end);
    if (read.momentum != 0 && !optimizer->has_momentum && optimizer->options.kind == KOLO_OPTIMIZER_SGD)
        return refuse(comm, function, index, "momentum", read.momentum, "0, as no group had any at the beginning");
    read.group_bytes = sizeof read;
    optimizer->groups[index] = read;
    optimizer->settings = digest_of(optimizer);
    return 0;
}

int kolo_optimizer_group(kolo_optimizer *optimizer, size_t index, const kolo_parameter_group *wanted,
                         kolo_parameter_group *before) {
    const char *const function = __func__;
    if (!optimizer)
        return kolo_fail(KOLO_ERR_ARG, "%s: optimizer is NULL", function);
    if (index >= optimizer->ngroups)
        return KOLO_REFUSE(optimizer->comm, function, "group %zu: there are %zu", index, optimizer->ngroups);
    const kolo_parameter_group found = optimizer->groups[index];
    int rc = before ? kolo_sized_check(&sized_group, function, before) : 0;
    if (rc == 0 && wanted)
        rc = change_group(optimizer, function, index, wanted);
    if (rc == 0 && before)
        kolo_sized_fill(&sized_group, before, &found);
    return rc;
}

/* State. */

/* Checks the arguments for reading and writing a whole state. A segment may have begun where `at_once`. */
static int check_state(const kolo_optimizer *optimizer, const char *function, kolo_optimizer_state which,
                       bool at_once) {
    if (!optimizer)
        return kolo_fail(KOLO_ERR_ARG, "%s: optimizer is NULL", function);
    if ((unsigned)which >= KOLO_OPTIMIZER_STATES || (which != KOLO_OPTIMIZER_STEPS && !optimizer->states[which]))
        return KOLO_REFUSE(optimizer->comm, function, "state %d: this optimizer has no such state", (int)which);
    return optimizer->begun == 0 || at_once
               ? 0
               : KOLO_REFUSE(optimizer->comm, function, "a segment has begun: call kolo_optimizer_step first");
}

int kolo_optimizer_local_state(kolo_optimizer *optimizer, kolo_optimizer_state which, void **values, size_t *count) {
    if (!optimizer || !values || !count)
        return kolo_fail(KOLO_ERR_ARG, "%s: %s is NULL", __func__,
                         !optimizer ? "optimizer"
                         : !values  ? "values"
                                    : "count");
    if ((unsigned)which >= KOLO_OPTIMIZER_STATES)
        return KOLO_REFUSE(optimizer->comm, __func__, "state %d: there is no such state", (int)which);
    *values = optimizer->states[which];
    *count = optimizer->states[which] ? optimizer->owned : 0;
    return 0;
}

/* One of the items that tell a call that reads states from others, in the order in which the context has them. */
static struct kolo_item item_of_state(const void *context, size_t index) {
    return kolo_item_number(index == 0 ? "state" : "segment", ((const uint64_t *)context)[index]);
}

int kolo_optimizer_read_state(kolo_optimizer *optimizer, kolo_optimizer_state which, void *values, int root) {
    int rc = check_state(optimizer, __func__, which, which == KOLO_OPTIMIZER_STEPS);
    if (rc < 0)
        return rc;
    kolo_comm *comm = optimizer->comm;
    const int size = (int)comm->global_size;
    size_t *counts = optimizer->blocks, *offsets = counts + size;
    if (root < -1 || root >= size)
        return KOLO_REFUSE(comm, __func__, "root %d: must be from 0 to %d, or -1", root, size - 1);
    if (!values && (root < 0 || (uint32_t)root == comm->global_rank))
        return KOLO_REFUSE(comm, __func__, "values is NULL");
    if (which == KOLO_OPTIMIZER_STEPS) {
        if (root < 0 || (uint32_t)root == comm->global_rank)
            memcpy(values, &optimizer->steps, sizeof optimizer->steps);
        return 0;
    }
    for (size_t i = 0; rc == 0 && i < optimizer->nsegments; i++) {
        const struct kolo_optimizer_segment *segment = &optimizer->segments[i];
        const uint8_t *own = optimizer->states[which] + segment->place * optimizer->real_bytes;
        uint8_t *whole = values ? (uint8_t *)values + segment->begin * optimizer->real_bytes : NULL;
        for (int rank = 0; rank < size; rank++)
            kolo_apply_owned(comm, rank, segment->count, optimizer->options.dtype, &offsets[rank], &counts[rank]);
        struct kolo_arguments call = WITH_COUNTS(own, whole, segment->owned, optimizer->real, KOLO_SUM,
                                                 root < 0 ? 0 : root, NULL, NULL, counts, offsets);
        call.digest = kolo_digest_after(which + 1, segment->begin);
        call.items = (struct kolo_items){2, item_of_state, (const uint64_t[]){which, i}};
        rc = kolo_path_make(root < 0 ? KOLO_ALLGATHERV : KOLO_GATHERV, __func__, comm, &call);
    }
    return rc;
}

static void write_steps(kolo_optimizer *optimizer, const void *steps) {
    memcpy(&optimizer->steps, steps, sizeof optimizer->steps);
    for (size_t i = 0; i < optimizer->ngroups; i++)
        optimizer->has_buffers[i] = optimizer->steps > 0 && optimizer->groups[i].momentum != 0;
}

int kolo_optimizer_write_state(kolo_optimizer *optimizer, kolo_optimizer_state which, const void *values) {
    const int rc = check_state(optimizer, __func__, which, false);
    if (rc < 0)
        return rc;
    if (!values)
        return KOLO_REFUSE(optimizer->comm, __func__, "values is NULL");
    if (which == KOLO_OPTIMIZER_STEPS) {
        write_steps(optimizer, values);
        return 0;
    }
    for (size_t i = 0; i < optimizer->nsegments; i++) {
        const struct kolo_optimizer_segment *segment = &optimizer->segments[i];
        memcpy(optimizer->states[which] + segment->place * optimizer->real_bytes,
               (const uint8_t *)values + (segment->begin + segment->first) * optimizer->real_bytes,
               segment->owned * optimizer->real_bytes);
    }
    return 0;
}
