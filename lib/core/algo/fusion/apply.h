/* The ranges of the message of kolo_allreduce_apply that ranks own. */
#pragma once

#include "algo/algo.h"

/* Returns the range of the message, or of this lane's part of it, that `rank`, numbered among all nodes, owns. Each
 * lane has a slice of every range, so that the ranges do not depend on lanes. */
static inline size_t kolo_apply_range(const struct kolo_message *message, uint32_t ranks, uint32_t rank,
                                      size_t *first) {
    const uint32_t element_bytes = message->kernel->element_bytes;
    size_t begin, count = kolo_plan_slice(message->count, element_bytes, ranks, rank, first);
    count = kolo_plan_slice(count, element_bytes, message->lanes, message->lane, &begin);
    *first += begin;
    return count;
}

/* Runs the call of a single rank. */
void kolo_apply_alone(const struct kolo_apply *apply, const void *gradients, void *parameters, size_t count);
