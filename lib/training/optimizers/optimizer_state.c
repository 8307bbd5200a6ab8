/* State of optimizers: where it is, reading it whole to save it, and restoring it from what was saved. */
#include <string.h>

#include "api/path.h"
#include "training/optimizers/optimizer.h"
#include "base/status.h"
#include "comm/step/call_word.h"

static int check_segment_free(const kolo_optimizer *optimizer, const char *function) {
    return optimizer->begun == 0
               ? 0
               : kolo_fail(KOLO_ERR_ARG, "rank %u: %s: a segment has begun: call kolo_optimizer_step first",
                           optimizer->comm->global_rank, function);
}

/* Checks the arguments for reading and writing a whole state. */
static int check_state(const kolo_optimizer *optimizer, const char *function, kolo_optimizer_state which) {
    if (!optimizer)
        return kolo_fail(KOLO_ERR_ARG, "%s: optimizer is NULL", function);
    if ((unsigned)which >= KOLO_OPTIMIZER_STATES || !optimizer->states[which])
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: state %d: this optimizer has no such state",
                         optimizer->comm->global_rank, function, (int)which);
    return check_segment_free(optimizer, function);
}

int kolo_optimizer_owned(const kolo_optimizer *optimizer, size_t segment, size_t *first, size_t *owned) {
    static const char *const function = "kolo_optimizer_owned";
    if (!optimizer || !first || !owned)
        return kolo_fail(KOLO_ERR_ARG, "%s: %s is NULL", function,
                         !optimizer ? "optimizer"
                         : !first   ? "first"
                                    : "owned");
    if (segment >= optimizer->nsegments)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: segment %zu: there are %zu", optimizer->comm->global_rank,
                         function, segment, optimizer->nsegments);
    *first = optimizer->segments[segment].begin + optimizer->segments[segment].first;
    *owned = optimizer->segments[segment].owned;
    return 0;
}

int kolo_optimizer_local_state(kolo_optimizer *optimizer, kolo_optimizer_state which, void **values, size_t *count) {
    static const char *const function = "kolo_optimizer_local_state";
    if (!optimizer || !values || !count)
        return kolo_fail(KOLO_ERR_ARG, "%s: %s is NULL", function,
                         !optimizer ? "optimizer"
                         : !values  ? "values"
                                    : "count");
    if ((unsigned)which >= KOLO_OPTIMIZER_STATES)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: state %d: there is no such state", optimizer->comm->global_rank,
                         function, (int)which);
    *values = optimizer->states[which];
    *count = optimizer->states[which] ? optimizer->owned : 0;
    return 0;
}

/* One of the items that tell a call that reads states from others, in the order in which the context has them. */
static struct kolo_item item_of(const void *context, size_t index) {
    return kolo_item_number(index == 0 ? "state" : "segment", ((const uint64_t *)context)[index]);
}

int kolo_optimizer_read_state(kolo_optimizer *optimizer, kolo_optimizer_state which, void *values, int root) {
    static const char *const function = "kolo_optimizer_read_state";
    int rc = check_state(optimizer, function, which);
    if (rc < 0)
        return rc;
    kolo_comm *comm = optimizer->comm;
    const int size = (int)comm->global_size;
    size_t *counts = optimizer->blocks, *offsets = counts + size;
    if (root < -1 || root >= size)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: root %d: must be from 0 to %d, or -1", comm->global_rank, function,
                         root, size - 1);
    if (!values && (root < 0 || (uint32_t)root == comm->global_rank))
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: values is NULL", comm->global_rank, function);
    for (size_t i = 0; rc == 0 && i < optimizer->nsegments; i++) {
        const struct kolo_optimizer_segment *segment = &optimizer->segments[i];
        const uint8_t *own = optimizer->states[which] + segment->place * optimizer->real_bytes;
        uint8_t *whole = values ? (uint8_t *)values + segment->begin * optimizer->real_bytes : NULL;
        for (int rank = 0; rank < size; rank++)
            kolo_apply_owned(comm, rank, segment->count, optimizer->options.dtype, &offsets[rank], &counts[rank]);
        struct kolo_arguments call = WITH_COUNTS(own, whole, segment->owned, optimizer->real, KOLO_SUM,
                                                 root < 0 ? 0 : root, NULL, NULL, counts, offsets);
        call.digest = kolo_digest_after(which + 1, segment->begin);
        call.items = (struct kolo_items){2, item_of, (const uint64_t[]){which, i}};
        rc = kolo_path_make(root < 0 ? KOLO_ALLGATHERV : KOLO_GATHERV, function, comm, &call);
    }
    return rc;
}

int kolo_optimizer_write_state(kolo_optimizer *optimizer, kolo_optimizer_state which, const void *values) {
    static const char *const function = "kolo_optimizer_write_state";
    const int rc = check_state(optimizer, function, which);
    if (rc < 0)
        return rc;
    if (!values)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: values is NULL", optimizer->comm->global_rank, function);
    for (size_t i = 0; i < optimizer->nsegments; i++) {
        const struct kolo_optimizer_segment *segment = &optimizer->segments[i];
        memcpy(optimizer->states[which] + segment->place * optimizer->real_bytes,
               (const uint8_t *)values + (segment->begin + segment->first) * optimizer->real_bytes,
               segment->owned * optimizer->real_bytes);
    }
    return 0;
}

int kolo_optimizer_steps(const kolo_optimizer *optimizer, uint64_t *steps) {
    if (!optimizer || !steps)
        return kolo_fail(KOLO_ERR_ARG, "kolo_optimizer_steps: %s is NULL", optimizer ? "steps" : "optimizer");
    *steps = optimizer->steps;
    return 0;
}

int kolo_optimizer_set_steps(kolo_optimizer *optimizer, uint64_t steps) {
    static const char *const function = "kolo_optimizer_set_steps";
    if (!optimizer)
        return kolo_fail(KOLO_ERR_ARG, "%s: optimizer is NULL", function);
    const int rc = check_segment_free(optimizer, function);
    if (rc < 0)
        return rc;
    optimizer->steps = steps;
    for (size_t i = 0; i < optimizer->ngroups; i++)
        optimizer->has_buffers[i] = steps > 0 && optimizer->groups[i].momentum != 0;
    return 0;
}
