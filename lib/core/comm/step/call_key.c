/* The call of a key, in words. */
#include "comm/step/call_key.h"

#include "kolo_tools.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

kolo_collective kolo_call_key_collective(struct kolo_call_key key) {
    const kolo_collective collective = (kolo_collective)(key.collective - 1);
    return kolo_name(KOLO_NAME_COLLECTIVE, collective) && kolo_name(KOLO_NAME_DTYPE, (int)key.dtype) &&
                   kolo_name(KOLO_NAME_OP, (int)key.op)
               ? collective
               : KOLO_COLLECTIVES;
}

static __attribute__((format(printf, 2, 3))) void add(char text[KOLO_CALL_TEXT_BYTES], const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, KOLO_CALL_TEXT_BYTES - used, format, arguments);
    va_end(arguments);
}

/* " of 1024 f32", or " of f32" where blocks have counts of their own. */
static void add_elements(const struct kolo_call_key *key, bool has_count, char *text) {
    add(text, " of ");
    if (has_count)
        add(text, "%" PRIu64 " ", key->count);
    if (key->dtype == KOLO_OPAQUE)
        add(text, "elements of %u bytes", key->element_bytes);
    else
        add(text, "%s", kolo_name(KOLO_NAME_DTYPE, (int)key->dtype));
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
        add(text, " of %" PRIu64 " bytes%s", key->count, key->flags & KOLO_CALL_SHARED ? ", shared" : "");
        break;
    case KOLO_TABLE:
        if (key->op == KOLO_CALL_TABLE_INITIALIZE)
            add(text, " of call %" PRIu64 " initialized by rank %u", key->count, key->root);
        else if (key->op == KOLO_CALL_TABLE_LOAD)
            add(text, " of call %" PRIu64 " loaded", key->count);
        else if (key->count)
            add(text, " of %" PRIu64 " bytes", key->count);
        break;
    case KOLO_ALLGATHERV:
    case KOLO_REDUCE_SCATTERV:
        add_elements(key, false, text);
        add(text, ", counts with digest %" PRIx64, key->digest);
        break;
    case KOLO_SEND:
    case KOLO_RECV:
        add_elements(key, true, text);
        break;
    default:
        add_elements(key, !(kolo_collective_has(collective) & KOLO_HAS_COUNTS), text);
        add(text, "%s",
            key->flags & KOLO_CALL_NO_GRADIENTS    ? " without gradients"
            : key->flags & KOLO_CALL_NO_PARAMETERS ? " without parameters"
                                                   : "");
        if (key->digest)
            add(text, ", %s with digest %" PRIx64, collective == KOLO_ALLREDUCE_APPLY ? "step" : "tensors",
                key->digest);
    }
}

/* The other rank of a send or a receive, and the tag: " to rank 3, tag 7". */
static void add_pair(const struct kolo_call_key *key, bool is_send, char *text) {
    add(text, is_send ? " to " : " from ");
    if (key->flags & KOLO_CALL_ANY_RANK)
        add(text, "any rank");
    else
        add(text, "rank %u", key->root);
    if ((int32_t)key->digest == KOLO_ANY_TAG)
        add(text, ", any tag");
    else
        add(text, ", tag %" PRId32, (int32_t)key->digest);
}

void kolo_call_key_describe(struct kolo_call_key key, char text[KOLO_CALL_TEXT_BYTES]) {
    const kolo_collective collective = kolo_call_key_collective(key);
    const unsigned has = kolo_collective_has(collective);
    text[0] = '\0';
    if (collective == KOLO_COLLECTIVES) {
        add(text, "an unknown call");
        return;
    }
    add(text, "%s", kolo_name(KOLO_NAME_COLLECTIVE, collective));
    if (collective == KOLO_ALLREDUCE_APPLY && (key.flags & KOLO_CALL_CREATES) == KOLO_CALL_CREATES) {
        add(text, ", an optimizer's creation");
        return;
    }
    add_message(&key, collective, text);
    if (has & KOLO_HAS_OP)
        add(text, ", %s", kolo_name(KOLO_NAME_OP, kolo_call_key_op(key)));
    if (key.flags & KOLO_CALL_ORDERED)
        add(text, ", not commutative");
    if (has & KOLO_HAS_ROOT)
        add(text, ", root %u", key.root);
    if (collective == KOLO_SEND || collective == KOLO_RECV)
        add_pair(&key, collective == KOLO_SEND, text);
    if (key.flags & KOLO_CALL_BY_LANES)
        add(text, ", by lanes");
}
