/* The memory of a call under way. */
#include "comm/step/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

size_t kolo_call_bytes(uint32_t ranks) {
    const struct kolo_call_state *call = NULL;
    return ranks * (sizeof *call->peer_steps + sizeof *call->sources + 2 * sizeof *call->offsets[0] +
                    sizeof *call->targets + KOLO_LINE_SET_BYTES) +
           KOLO_STREAMED_PIECE_BYTES + KOLO_PACKED_BYTES_MAX;
}

int kolo_call_allocate(struct kolo_call_state *call, uint32_t ranks, uint32_t global_ranks) {
    const size_t unpacked_bytes = ranks * KOLO_LINE_SET_BYTES;
    call->peer_steps = calloc(ranks, sizeof *call->peer_steps);
    call->sources = calloc(ranks, sizeof *call->sources);
    for (int i = 0; i < 2; i++)
        call->offsets[i] = calloc(global_ranks, sizeof *call->offsets[i]);
    call->targets = calloc(ranks, sizeof *call->targets);
    call->unpacked = aligned_alloc(KOLO_LINE_BYTES, unpacked_bytes);
    call->stage = aligned_alloc(KOLO_PAGE_BYTES, KOLO_STREAMED_PIECE_BYTES);
    call->packed = aligned_alloc(KOLO_PAGE_BYTES, KOLO_PACKED_BYTES_MAX);
    if (!call->offsets[0] || !call->offsets[1] || !call->peer_steps || !call->sources || !call->targets ||
        !call->unpacked || !call->stage || !call->packed)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", ranks);
    memset(call->unpacked, 0, unpacked_bytes);
    return 0;
}

void kolo_call_free(struct kolo_call_state *call) {
    free(call->peer_steps);
    free(call->sources);
    free(call->offsets[0]);
    free(call->offsets[1]);
    free(call->targets);
    free(call->unpacked);
    free(call->stage);
    free(call->packed);
}
