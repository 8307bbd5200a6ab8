/* A table's rule: how a push makes a piece's new values and state from the old ones and the update. Old and new are two
 * versions in memory (table/rows/versions.h); the old one stays as it is.
 *
 * The state of a piece lies behind its values. SGD with momentum: the momentum; ADAGRAD: the sum of squares; ADAM: both
 * moments, and before them the piece's steps, 8 bytes; FUNCTION: state_bytes. State is zero at first and begins at a
 * multiple of 8 bytes. F16 and BF16 have state in f32, and are computed in f32 and rounded once.
 *
 * Bits do not depend on the instruction set. Callers have entered the floating-point environment (cpu/fpenv.h). */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "kolo_table.h"
#include "reduce/steps/steps.h"
#include "reduce/reducer.h"
#include "table/rows/pieces.h"

struct kolo_rule {
    kolo_table_options options;
    kolo_table_rule kind;
    kolo_dtype dtype;
    bool is_plain_sum; /* ADD of F32 */
    size_t element_bytes;
    const kolo_steps *steps; /* SGD, ADAGRAD, ADAM */
    unsigned steps_type;     /* KOLO_STEPS_F32 or F64: what they compute in */
    size_t pending_bytes;    /* several nodes: of an element of what is pending (table/nodes/outbox.h); else 0 */
    const kolo_kernel *sum;  /* ADD, sums of updates, and conversions of F16 and BF16 */
};

/* The caller has checked `options` by kolo_rule_check. */
void kolo_rule_init(struct kolo_rule *rule, const kolo_table_options *options, const kolo_reducer *reducer);

/* KOLO_ERR_ARG for the rule, dtype, function or numbers: the message names the value and what it must be. */
int kolo_rule_check(const kolo_table_options *options, uint32_t global_rank);

/* Bytes of the state of a piece of `count` elements, a multiple of 8. */
size_t kolo_rule_state_bytes(const struct kolo_rule *rule, size_t count);

/* One version of a piece. */
struct kolo_version {
    void *values; /* `count` elements */
    void *state;  /* as above */
};

/* Writes `to` from `from` and the update. */
void kolo_rule_apply(const struct kolo_rule *rule, double learning_rate, const struct kolo_piece *piece,
                     const void *update, const struct kolo_version *from, const struct kolo_version *to);

/* The same where the rule is_plain_sum, for a few elements: a kernel's call would take longer than these sums. */
static inline void kolo_rule_add_short(const struct kolo_version *from, const struct kolo_version *to,
                                       const void *update, size_t count) {
    for (size_t i = 0; i < count * sizeof(float); i += sizeof(float)) {
        float value, addend;
        memcpy(&value, (const uint8_t *)from->values + i, sizeof value);
        memcpy(&addend, (const uint8_t *)update + i, sizeof addend);
        value += addend;
        value = __builtin_expect(value == value, 1) ? value : __builtin_nanf(""); /* as the kernels do it */
        memcpy((uint8_t *)to->values + i, &value, sizeof value);
    }
}

/* sum[0 .. count-1] += update, for updates of one row that are pushed together; ASSIGN: sum = update. */
void kolo_rule_combine(const struct kolo_rule *rule, void *sum, const void *update, size_t count);
