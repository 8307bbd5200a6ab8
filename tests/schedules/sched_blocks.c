#include "sched_blocks.h"

#include <string.h>

#include "kolo_tools.h"
#include "comm/step/call_key.h"
#include "named_call.h"

/* Elements of the block that rank `from` has for rank `to`: where blocks may have any length, 0 to 3/2 of the call's
 * count. */
static size_t block_count(const sched_call *call, uint32_t from, uint32_t to) {
    const collective_shape *buffers = &collective_shapes[call->collective];
    const uint32_t depends = (buffers->sends_blocks ? 5 * to : 0) + (buffers->takes_blocks ? 3 * from : 0);
    return buffers->counted ? (depends + call->skew) % 4 * call->count / 2 : call->count;
}

sched_layout sched_lay_out(const sched_call *call, uint32_t rank, uint32_t ranks, bool sends) {
    const collective_shape *buffers = &collective_shapes[call->collective];
    const bool has_blocks = sends ? buffers->sends_blocks : buffers->takes_blocks;
    sched_layout layout = {.count = 0};
    if ((sends ? buffers->sent_by_root : buffers->taken_by_root) && rank != call->root)
        return layout;
    for (uint32_t block = 0; block < (has_blocks ? ranks : 1); block++) {
        const uint32_t peer = has_blocks ? block : call->root;
        layout.offsets[block] = layout.count;
        layout.counts[block] = sends ? block_count(call, rank, peer) : block_count(call, peer, rank);
        layout.count += layout.counts[block];
        if (has_blocks && block == rank)
            layout.own = layout.offsets[block];
    }
    return layout;
}

size_t sched_count_max(kolo_collective collective, kolo_dtype dtype, uint32_t ranks) {
    const collective_shape *buffers = &collective_shapes[collective];
    const size_t blocks = buffers->sends_blocks || buffers->takes_blocks ? ranks : 1;
    return SCHED_BUFFER_BYTES / kolo_dtype_bytes(dtype) / blocks * 2 / (buffers->counted ? 3 : 2);
}

/* Whether all ranks know all counts. */
static bool knows_all(const collective_shape *buffers) {
    return buffers->counted && !buffers->sent_by_root && !buffers->taken_by_root &&
           buffers->sends_blocks != buffers->takes_blocks;
}

/* Elements of the first of the two tensors of a list. */
static size_t first_tensor(const sched_call *call) {
    return call->count * (call->skew + 1) / 7;
}

struct kolo_call_key sched_key_of(const sched_call *call, uint32_t ranks) {
    static uint8_t some;
    const collective_shape *buffers = &collective_shapes[call->collective];
    const bool is_barrier = call->collective == KOLO_BARRIER,
               has_op = kolo_collective_has(call->collective) & KOLO_HAS_OP;
    const size_t first = first_tensor(call);
    const kolo_tensor tensors[] = {{&some, first}, {&some, call->count - first}};
    const struct kolo_descriptor *const row = &kolo_registry[call->collective];
    struct kolo_arguments made = {.count = is_barrier ? 0 : call->count,
                                  .dtype = is_barrier ? KOLO_U8 : call->dtype,
                                  .op = has_op ? call->op : KOLO_SUM,
                                  .root = row->has_root ? (int)call->root : 0,
                                  .tensors = tensors,
                                  .ntensors = 2};
    if (row->has_tensors)
        kolo_arguments_count_tensors(NULL, NULL, &made);
    if (knows_all(buffers)) {
        const sched_layout blocks = sched_lay_out(call, 0, ranks, buffers->sends_blocks);
        for (uint32_t rank = 0; rank < ranks; rank++)
            made.digest = kolo_digest_after(made.digest, blocks.counts[rank]);
    }
    return kolo_arguments_key(row, &made);
}

static void expect_reduced(const sched_call *call, uint32_t self, uint32_t ranks, uint8_t inputs[][SCHED_BUFFER_BYTES],
                           uint8_t *result) {
    const size_t own = sched_lay_out(call, self, ranks, true).own * kolo_dtype_bytes(call->dtype);
    const size_t count = sched_lay_out(call, self, ranks, false).count;
    const uint32_t sources_count = (uint32_t)collective_inputs(call->collective, (int)self, (int)ranks);
    const void *sources[SCHED_RANKS_MAX];
    for (uint32_t rank = 0; rank < ranks; rank++)
        sources[rank] = inputs[rank] + own;
    if (sources_count == 1)
        memcpy(result, sources[0], count * kolo_dtype_bytes(call->dtype));
    else if (sources_count > 1 && count > 0)
        kolo_reducer_select(0)->kernels[call->dtype][call->op].fold(result, sources, sources_count, count,
                                                                    sources_count);
}

static void expect_moved(const sched_call *call, uint32_t self, uint32_t ranks, uint8_t inputs[][SCHED_BUFFER_BYTES],
                         uint8_t *result) {
    const collective_shape *buffers = &collective_shapes[call->collective];
    const size_t bytes = kolo_dtype_bytes(call->dtype);
    const sched_layout taken = sched_lay_out(call, self, ranks, false);
    for (uint32_t block = 0; block < (buffers->takes_blocks ? ranks : 1); block++) {
        const uint32_t from = buffers->takes_blocks ? block : call->root;
        const sched_layout sent = sched_lay_out(call, from, ranks, true);
        memcpy(result + taken.offsets[block] * bytes,
               inputs[from] + (buffers->sends_blocks ? sent.offsets[self] * bytes : 0), taken.counts[block] * bytes);
    }
}

void sched_expect(const sched_call *call, uint32_t ranks, uint8_t inputs[][SCHED_BUFFER_BYTES],
                  uint8_t results[][SCHED_BUFFER_BYTES]) {
    for (uint32_t self = 0; self < ranks; self++) {
        const size_t count = sched_lay_out(call, self, ranks, false).count;
        if (count > 0 && kolo_collective_has(call->collective) & KOLO_HAS_OP)
            expect_reduced(call, self, ranks, inputs, results[self]);
        else if (count > 0)
            expect_moved(call, self, ranks, inputs, results[self]);
    }
}

/* With which an all-reduce that applies it leaves what one without leaves. */
static void take_reduced(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)first;
    memcpy(parameters, gradients, count * *(const size_t *)context);
}

int sched_make_call(kolo_comm *comm, const sched_call *call, void *send, void *recv) {
    const sched_layout sent = sched_lay_out(call, comm->rank, comm->size, true);
    const sched_layout taken = sched_lay_out(call, comm->rank, comm->size, false);
    const size_t first = first_tensor(call);
    size_t element_bytes = kolo_dtype_bytes(call->dtype);
    const kolo_tensor tensors[] = {{recv, first}, {(uint8_t *)recv + first * element_bytes, call->count - first}};
    return named_call_make(comm, &(kolo_call){.collective = call->collective,
                                              .dtype = call->dtype,
                                              .op = call->op,
                                              .root = (int)call->root,
                                              .send = send,
                                              .recv = recv,
                                              .count = call->collective == KOLO_GATHERV    ? sent.count
                                                       : call->collective == KOLO_SCATTERV ? taken.count
                                                                                           : call->count,
                                              .send_counts = sent.counts,
                                              .recv_counts = taken.counts,
                                              .tensors = tensors,
                                              .ntensors = 2,
                                              .function = take_reduced,
                                              .context = &element_bytes});
}
