/* Divides calls among lanes. */
#include "api/lanes/slices.h"

/* Whether the call goes round a ring, which adds elements in an order that depends on where they are. */
static bool goes_round_ring(const struct kolo_descriptor *descriptor, const kolo_comm *first) {
    return descriptor->algorithms[KOLO_ALGORITHM_RING] &&
           (first->settings.algorithm == KOLO_ALGORITHM_RING ||
            (first->nodes && first->origin.net.exchange == KOLO_EXCHANGE_RING));
}

uint32_t kolo_slices_count(const struct kolo_descriptor *descriptor, const kolo_comm *first, size_t longest,
                           size_t element_bytes, size_t bytes_min) {
    const uint32_t lanes = kolo_lanes_count(first);
    const size_t bytes = longest * element_bytes, slices = bytes / KOLO_SLICE_BYTES_MIN;
    const bool has_blocks = descriptor->send != WHOLE || descriptor->recv != WHOLE || descriptor->applies;
    const size_t blocks = has_blocks ? first->global_size : 1;
    if (lanes == 1 || slices <= 1 || bytes < bytes_min / blocks || goes_round_ring(descriptor, first))
        return 1;
    return slices < lanes ? (uint32_t)slices : lanes;
}

static struct kolo_blocks slice_blocks(const struct kolo_blocks *whole, size_t element_bytes, uint32_t ranks,
                                       uint32_t lane, uint32_t lanes, size_t *tables) {
    size_t *counts = tables, *offsets = tables + ranks;
    if (!whole->counts)
        return (struct kolo_blocks){0};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        size_t first;
        counts[rank] = kolo_plan_slice(whole->counts[rank], (uint32_t)element_bytes, lanes, lane, &first);
        offsets[rank] = whole->offsets[rank] + first;
    }
    return (struct kolo_blocks){counts, offsets, whole->counts};
}

void kolo_slice_make(struct kolo_message *slice, const struct kolo_descriptor *descriptor, const kolo_comm *first,
                     const struct kolo_arguments *call, const kolo_kernel *kernel, uint32_t lane, uint32_t lanes) {
    const uint32_t ranks = first->global_size;
    const size_t element_bytes = kernel->element_bytes;
    size_t *tables = kolo_lanes_tables(first, lane), begin;
    if (descriptor->applies) {
        *slice = (struct kolo_message){.send = call->send,
                                       .recv = call->recv,
                                       .count = call->count,
                                       .kernel = kernel,
                                       .apply = &call->apply,
                                       .lane = lane,
                                       .lanes = lanes};
        return;
    }
    const size_t count = kolo_plan_slice(call->count, (uint32_t)element_bytes, lanes, lane, &begin);
    *slice = (struct kolo_message){
        .send = kolo_buffer_at(call->send, descriptor->send == COUNTED ? 0 : begin * element_bytes),
        .recv = kolo_buffer_at(call->recv, descriptor->recv == COUNTED ? 0 : begin * element_bytes),
        .count = count,
        .gap = call->count - count,
        .send_blocks = slice_blocks(&call->send_blocks, element_bytes, ranks, lane, lanes, tables),
        .recv_blocks = slice_blocks(&call->recv_blocks, element_bytes, ranks, lane, lanes, tables + 2 * ranks),
        .kernel = kernel,
        .root = (uint32_t)call->root,
        .tensors = call->tensors,
        .tensors_first = begin};
}
