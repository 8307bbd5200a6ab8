/* What a call is, in one word and in words. */
#include "comm/step/call_word.h"

#include <inttypes.h>
#include <stdbool.h>
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

static bool has_elements(kolo_collective collective) {
    return collective != KOLO_BARRIER && collective != KOLO_FREE && collective != KOLO_SPLIT &&
           collective != KOLO_DUP && collective != KOLO_GROW;
}

void kolo_call_describe(uint64_t word, char text[KOLO_CALL_TEXT_BYTES]) {
    const struct kolo_call_parts parts = kolo_call_parts(word);
    char message[48] = "", root[24] = "";
    if (parts.collective == KOLO_COLLECTIVES) {
        snprintf(text, KOLO_CALL_TEXT_BYTES, "an unknown call");
        return;
    }
    if (parts.collective == KOLO_ALLOC)
        snprintf(message, sizeof message, " of %" PRIu64 " bytes", parts.count);
    else if (has_elements(parts.collective))
        snprintf(message, sizeof message, " of %" PRIu64 " %s", parts.count, kolo_dtype_name(parts.dtype));
    if (kolo_collective_has_root(parts.collective))
        snprintf(root, sizeof root, ", root %u", parts.root);
    const bool has_op = kolo_collective_has_op(parts.collective);
    snprintf(text, KOLO_CALL_TEXT_BYTES, "%s%s%s%s%s", kolo_collective_name(parts.collective), message,
             has_op ? ", " : "", has_op ? kolo_op_name(parts.op) : "", root);
}
