/* The call of a key, in words. */
#include "comm/step/call_key.h"

#include <inttypes.h>

#include "kolo_tools.h"
#include "base/status.h"

kolo_collective kolo_call_key_collective(struct kolo_call_key key) {
    const kolo_collective collective = (kolo_collective)(key.collective - 1);
    return kolo_name(KOLO_NAME_COLLECTIVE, collective) && kolo_name(KOLO_NAME_DTYPE, (int)key.dtype) &&
                   kolo_name(KOLO_NAME_OP, (int)key.op)
               ? collective
               : KOLO_COLLECTIVES;
}

#define ADD(text, ...) kolo_text_add(text, KOLO_CALL_TEXT_BYTES, __VA_ARGS__)

/* " of 1024 f32", or " of f32" where blocks have counts of their own. */
static void add_elements(const struct kolo_call_key *key, bool has_count, char *text) {
    ADD(text, " of ");
    if (has_count)
        ADD(text, "%" PRIu64 " ", key->count);
    if (key->dtype == KOLO_OPAQUE)
        ADD(text, "elements of %u bytes", key->element_bytes);
    else
        ADD(text, "%s", kolo_name(KOLO_NAME_DTYPE, (int)key->dtype));
}

static void add_message(const struct kolo_call_key *key, kolo_collective collective, char *text) {
    switch (collective) {
    case KOLO_BARRIER:
    case KOLO_FREE:
    case KOLO_SPLIT:
    case KOLO_DUP:
    case KOLO_GROW:
        break;
    case KOLO_ALLOC:
    case KOLO_SHARE:
        ADD(text, " of %" PRIu64 " bytes%s", key->count, key->flags & KOLO_CALL_SHARED ? ", shared" : "");
        break;
    case KOLO_TABLE:
        if (key->op == KOLO_CALL_TABLE_INITIALIZE)
            ADD(text, " of call %" PRIu64 " initialized by rank %u", key->count, key->root);
        else if (key->op == KOLO_CALL_TABLE_LOAD)
            ADD(text, " of call %" PRIu64 " loaded", key->count);
        else if (key->count)
            ADD(text, " of %" PRIu64 " bytes", key->count);
        break;
    case KOLO_ALLGATHERV:
    case KOLO_REDUCE_SCATTERV:
        add_elements(key, false, text);
        ADD(text, ", counts with digest %" PRIx64, key->digest);
        break;
    case KOLO_SEND:
    case KOLO_RECV:
        add_elements(key, true, text);
        break;
    default:
        add_elements(key, !(kolo_collective_has(collective) & KOLO_HAS_COUNTS), text);
        ADD(text, "%s",
            key->flags & KOLO_CALL_NO_GRADIENTS    ? " without gradients"
            : key->flags & KOLO_CALL_NO_PARAMETERS ? " without parameters"
                                                   : "");
        if (key->digest)
            ADD(text, ", %s with digest %" PRIx64, collective == KOLO_ALLREDUCE_APPLY ? "step" : "tensors",
                key->digest);
    }
}

/* The other rank of a send or a receive, and the tag: " to rank 3, tag 7". */
static void add_pair(const struct kolo_call_key *key, bool is_send, char *text) {
    ADD(text, is_send ? " to " : " from ");
    if (key->flags & KOLO_CALL_ANY_RANK)
        ADD(text, "any rank");
    else
        ADD(text, "rank %u", key->root);
    if ((int32_t)key->digest == KOLO_ANY_TAG)
        ADD(text, ", any tag");
    else
        ADD(text, ", tag %" PRId32, (int32_t)key->digest);
}

void kolo_call_key_describe(struct kolo_call_key key, char text[KOLO_CALL_TEXT_BYTES]) {
    const kolo_collective collective = kolo_call_key_collective(key);
    const unsigned has = kolo_collective_has(collective);
    text[0] = '\0';
    if (collective == KOLO_COLLECTIVES) {
        ADD(text, "an unknown call");
        return;
    }
    ADD(text, "%s", kolo_name(KOLO_NAME_COLLECTIVE, collective));
    if (collective == KOLO_ALLREDUCE_APPLY && (key.flags & KOLO_CALL_CREATES) == KOLO_CALL_CREATES) {
        ADD(text, ", an optimizer's creation");
        return;
    }
    add_message(&key, collective, text);
    if (has & KOLO_HAS_OP)
        ADD(text, ", %s", kolo_name(KOLO_NAME_OP, kolo_call_key_op(key)));
    if (key.flags & KOLO_CALL_ORDERED)
        ADD(text, ", not commutative");
    if (has & KOLO_HAS_ROOT)
        ADD(text, ", root %u", key.root);
    if (collective == KOLO_SEND || collective == KOLO_RECV)
        add_pair(&key, collective == KOLO_SEND, text);
    if (key.flags & KOLO_CALL_BY_LANES)
        ADD(text, ", by lanes");
}
