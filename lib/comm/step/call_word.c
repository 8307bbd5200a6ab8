#include "comm/step/call_word.h"

#include <inttypes.h>
#include <stdio.h>

struct kolo_call_parts kolo_call_parts(uint64_t word) {
    struct kolo_call_parts parts = {.collective = (kolo_collective)((word >> 59) - 1),
                                    .dtype = (kolo_dtype)(word >> 54 & 31),
                                    .op = (kolo_op)(word >> 50 & 15),
                                    .root = word >> 40 & 1023,
                                    .count = word & KOLO_CALL_COUNT};
    if (!kolo_collective_name(parts.collective) || !kolo_dtype_name(parts.dtype) || !kolo_op_name(parts.op))
        parts = (struct kolo_call_parts){.collective = KOLO_COLLECTIVES};
    return parts;
}

void kolo_call_describe(uint64_t word, char *text, size_t text_bytes) {
    const struct kolo_call_parts parts = kolo_call_parts(word);
    if (parts.collective == KOLO_COLLECTIVES)
        snprintf(text, text_bytes, "an unknown call");
    else if (parts.collective == KOLO_ALLREDUCE)
        snprintf(text, text_bytes, "allreduce of %" PRIu64 " %s, %s", parts.count, kolo_dtype_name(parts.dtype),
                 kolo_op_name(parts.op));
    else if (parts.collective == KOLO_BROADCAST)
        snprintf(text, text_bytes, "broadcast of %" PRIu64 " %s from rank %" PRIu32, parts.count,
                 kolo_dtype_name(parts.dtype), parts.root);
    else
        snprintf(text, text_bytes, "%s", kolo_collective_name(parts.collective));
}
