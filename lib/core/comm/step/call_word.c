/* The word of a call, and the call in words. */
#include "comm/step/call_word.h"

#include "kolo_tools.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Returns whether the collective's words have a part of a detail in place of a root. */
static bool may_have_detail(kolo_collective collective) {
    return collective == KOLO_ALLREDUCE || collective == KOLO_ALLREDUCE_MANY || collective == KOLO_ALLGATHER ||
           collective == KOLO_ALLGATHERV || collective == KOLO_REDUCE_SCATTERV;
}

struct kolo_call_parts kolo_call_parts(uint64_t word) {
    const uint32_t code = word >> 54 & 31;
    const kolo_dtype dtype = code == KOLO_CALL_OPAQUE_BY_LANES || code == KOLO_OPAQUE ? KOLO_OPAQUE : code & 15;
    struct kolo_call_parts parts = {.collective = (kolo_collective)((word >> 59) - 1),
                                    .dtype = dtype,
                                    .op = (kolo_op)(word >> 50 & 15),
                                    .root = word >> 40 & 1023,
                                    .count = word & KOLO_CALL_COUNT,
                                    .by_lanes = code >= KOLO_CALL_BY_LANES && code != KOLO_OPAQUE};
    if (parts.collective == KOLO_ALLREDUCE_APPLY) {
        parts.digest = parts.root >> 2;
        parts.root &= 3;
    } else if (may_have_detail(parts.collective)) {
        parts.digest = parts.root;
        parts.root = 0;
    }
    if (parts.collective == KOLO_ALLREDUCE_MANY && parts.dtype != KOLO_OPAQUE) {
        parts.digest |= parts.count >> KOLO_CALL_MANY_BITS << 10;
        parts.count &= KOLO_CALL_MANY_COUNT;
    }
    if (parts.dtype == KOLO_OPAQUE) {
        parts.element_bytes = (uint32_t)(parts.count >> 28);
        parts.count &= KOLO_CALL_OPAQUE_COUNT;
    }
    if ((unsigned)parts.op == KOLO_CALL_OWN || (unsigned)parts.op == KOLO_CALL_OWN_ORDERED) {
        parts.keeps_order = (unsigned)parts.op == KOLO_CALL_OWN_ORDERED;
        parts.op = KOLO_OPS_OWN;
    }
    if (!kolo_name(KOLO_NAME_COLLECTIVE, parts.collective) || !kolo_dtype_name(parts.dtype) || !kolo_op_name(parts.op))
        parts = (struct kolo_call_parts){.collective = KOLO_COLLECTIVES};
    return parts;
}

/* Adds the message of a call: " of 1024 f32". Of blocks with counts of their own the word has a digest, or nothing. */
static void describe_message(const struct kolo_call_parts *parts, char *text, size_t text_bytes) {
    char opaque[40];
    const char *dtype = kolo_dtype_name(parts->dtype);
    if (parts->dtype == KOLO_OPAQUE) {
        snprintf(opaque, sizeof opaque, "elements of %u bytes", parts->element_bytes);
        dtype = opaque;
    }
    switch (parts->collective) {
    case KOLO_BARRIER:
    case KOLO_FREE:
    case KOLO_SPLIT:
    case KOLO_DUP:
    case KOLO_GROW:
        break;
    case KOLO_ALLOC:
    case KOLO_SHARE:
        snprintf(text, text_bytes, " of %" PRIu64 " bytes%s", parts->count,
                 parts->root & KOLO_ALLOC_SHARED ? ", shared" : "");
        break;
    case KOLO_TABLE:
        if ((unsigned)parts->op == KOLO_CALL_TABLE_INITIALIZE)
            snprintf(text, text_bytes, " of call %" PRIu64 " initialized by rank %u", parts->count, parts->root);
        else if ((unsigned)parts->op == KOLO_CALL_TABLE_LOAD)
            snprintf(text, text_bytes, " of call %" PRIu64 " loaded", parts->count);
        else if (parts->count)
            snprintf(text, text_bytes, " of %" PRIu64 " bytes", parts->count);
        break;
    case KOLO_ALLGATHERV:
    case KOLO_REDUCE_SCATTERV:
        snprintf(text, text_bytes, " of %s, counts with digest %" PRIx64, dtype, parts->count);
        break;
    case KOLO_ALLREDUCE_MANY:
        snprintf(text, text_bytes, " of %" PRIu64 " %s, tensors with digest %" PRIx64, parts->count, dtype,
                 parts->digest);
        break;
    case KOLO_ALLREDUCE_APPLY: {
        const int used = snprintf(text, text_bytes, " of %" PRIu64 " %s%s", parts->count, dtype,
                                  parts->root == KOLO_CALL_NO_GRADIENTS    ? " without gradients"
                                  : parts->root == KOLO_CALL_NO_PARAMETERS ? " without parameters"
                                                                           : "");
        if (parts->digest)
            snprintf(text + used, text_bytes - (size_t)used, ", step with digest %" PRIx64, parts->digest);
        break;
    }
    case KOLO_GATHERV:
    case KOLO_SCATTERV:
    case KOLO_ALLTOALLV:
        snprintf(text, text_bytes, " of %s", dtype);
        break;
    default: {
        const int used = snprintf(text, text_bytes, " of %" PRIu64 " %s", parts->count, dtype);
        if (parts->digest)
            snprintf(text + used, text_bytes - (size_t)used, ", tensors with digest %" PRIx64, parts->digest);
    }
    }
}

void kolo_call_describe(uint64_t word, char text[KOLO_CALL_TEXT_BYTES]) {
    const struct kolo_call_parts parts = kolo_call_parts(word);
    char message[80] = "", root[24] = "";
    if (parts.collective == KOLO_COLLECTIVES) {
        snprintf(text, KOLO_CALL_TEXT_BYTES, "an unknown call");
        return;
    }
    describe_message(&parts, message, sizeof message);
    if (kolo_collective_has(parts.collective) & KOLO_HAS_ROOT)
        snprintf(root, sizeof root, ", root %u", parts.root);
    const bool has_op = kolo_collective_has(parts.collective) & KOLO_HAS_OP;
    snprintf(text, KOLO_CALL_TEXT_BYTES, "%s%s%s%s%s%s%s", kolo_name(KOLO_NAME_COLLECTIVE, parts.collective), message,
             has_op ? ", " : "", has_op ? kolo_op_name(parts.op) : "", parts.keeps_order ? ", not commutative" : "",
             root, parts.by_lanes ? ", by lanes" : "");
}

void kolo_pair_describe(uint64_t word, uint64_t detail, char text[KOLO_CALL_TEXT_BYTES]) {
    const struct kolo_call_parts parts = kolo_call_parts(word);
    char rank[16] = "any rank", tag[24] = "any tag";
    if (!(detail & KOLO_PAIR_ANY_RANK))
        snprintf(rank, sizeof rank, "rank %u", parts.root);
    if ((int32_t)detail != KOLO_ANY_TAG)
        snprintf(tag, sizeof tag, "tag %" PRId32, (int32_t)detail);
    kolo_call_describe(word, text);
    const size_t used = strlen(text);
    snprintf(text + used, KOLO_CALL_TEXT_BYTES - used, " %s %s, %s", parts.collective == KOLO_SEND ? "to" : "from",
             rank, tag);
}
