/* The rules by which pushes update pieces: see rule.h. */
#include "table/rows/rule.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/status.h"

enum { BLOCK_ELEMENTS = 1024 }; /* of F16 and BF16, converted at a time */

static size_t real_bytes(const struct kolo_rule *rule) {
    return rule->steps_type == KOLO_STEPS_F64 ? sizeof(double) : sizeof(float);
}

static bool is_half(kolo_dtype dtype) {
    return dtype == KOLO_F16 || dtype == KOLO_BF16;
}

static bool has_steps(kolo_table_rule kind) {
    return kind == KOLO_TABLE_SGD || kind == KOLO_TABLE_ADAGRAD || kind == KOLO_TABLE_ADAM;
}

void kolo_rule_init(struct kolo_rule *rule, const kolo_table_options *options, const kolo_reducer *reducer) {
    *rule = (struct kolo_rule){.options = *options,
                               .kind = options->rule,
                               .dtype = options->dtype,
                               .is_plain_sum = options->rule == KOLO_TABLE_ADD && options->dtype == KOLO_F32,
                               .element_bytes = kolo_dtype_bytes(options->dtype),
                               .steps = reducer->steps,
                               .steps_type = options->dtype == KOLO_F64 ? KOLO_STEPS_F64 : KOLO_STEPS_F32,
                               .sum = &reducer->kernels[options->dtype][KOLO_SUM]};
}

int kolo_rule_check(const kolo_table_options *options, uint32_t global_rank) {
    static const char *const function = "kolo_table_create";
    static const char *const no_less = "0 or more, and finite", *const below_one = "from 0 to less than 1";
    const struct {
        const char *name;
        double value, end; /* from 0 to less than that */
    } numbers[] = {
        {"learning_rate", options->learning_rate, INFINITY},
        {"momentum", options->momentum, INFINITY},
        {"beta1", options->beta1, 1},
        {"beta2", options->beta2, 1},
        {"epsilon", options->epsilon, INFINITY},
        {"weight_decay", options->weight_decay, INFINITY},
    };
    const kolo_dtype dtype = options->dtype;
    if ((unsigned)options->rule >= KOLO_TABLE_RULES)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: rule %d: there is no such rule", global_rank, function,
                         (int)options->rule);
    if ((unsigned)dtype >= KOLO_DTYPES)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: dtype %d: must be one of numbers", global_rank, function,
                         (int)dtype);
    if (has_steps(options->rule) && dtype != KOLO_F32 && dtype != KOLO_F64 && !is_half(dtype))
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: dtype %s: must be F32, F64, F16 or BF16 for rule %s", global_rank,
                         function, kolo_name(KOLO_NAME_DTYPE, dtype), kolo_name(KOLO_NAME_TABLE_RULE, options->rule));
    if (options->rule == KOLO_TABLE_FUNCTION && !options->function)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: function is NULL: must be one, for rule function", global_rank,
                         function);
    if (options->rule == KOLO_TABLE_FUNCTION && options->state_bytes > SIZE_MAX / 1024)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: state_bytes %zu: more than memory can hold", global_rank, function,
                         options->state_bytes);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= 0 && numbers[i].value < numbers[i].end)) /* also NaN */
            return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: %s %g: must be %s", global_rank, function, numbers[i].name,
                             numbers[i].value, numbers[i].end == 1 ? below_one : no_less);
    return 0;
}

size_t kolo_rule_state_bytes(const struct kolo_rule *rule, size_t count) {
    size_t bytes = 0;
    if (rule->kind == KOLO_TABLE_ADAGRAD || (rule->kind == KOLO_TABLE_SGD && rule->options.momentum != 0))
        bytes = count * real_bytes(rule);
    else if (rule->kind == KOLO_TABLE_ADAM)
        bytes = sizeof(uint64_t) + 2 * count * real_bytes(rule);
    else if (rule->kind == KOLO_TABLE_FUNCTION)
        bytes = rule->options.state_bytes;
    return (bytes + 7) & ~(size_t)7;
}

/* The arguments of a rule's kernel: its scalars, and the state of the piece. */
struct step {
    kolo_step_fn *function;
    struct kolo_step_factors factors;
    uint8_t *first, *second; /* as in reduce/steps/steps.h */
};

/* Makes the next step of a piece of `count` elements, with its state, in which the step is counted. */
static struct step next_step(const struct kolo_rule *rule, double learning_rate, size_t count, uint8_t *state) {
    const kolo_table_options *options = &rule->options;
    struct step step = {
        .function = rule->steps->sgd[rule->steps_type],
        .factors = {.scale = 1,
                    .decay = options->weight_decay,
                    .rate = -learning_rate,
                    .momentum = options->momentum,
                    .kept = options->momentum, /* of zeros at first: the first update becomes the buffer */
                    .undamped = 1,
                    .has_momentum = options->momentum != 0,
                    .shrink = 1,
                    .beta1_rest = 1 - options->beta1,
                    .beta2 = options->beta2,
                    .beta2_rest = 1 - options->beta2,
                    .epsilon = options->epsilon}};
    if (rule->kind == KOLO_TABLE_ADAGRAD) {
        step.function = rule->steps->adagrad[rule->steps_type];
        step.first = state;
    } else if (rule->kind == KOLO_TABLE_ADAM) {
        uint64_t number;
        memcpy(&number, state, sizeof number);
        number++;
        memcpy(state, &number, sizeof number);
        step.function = rule->steps->adam[rule->steps_type];
        step.factors.rate = -(learning_rate / (1 - kolo_steps_power(options->beta1, number)));
        step.factors.bias2_root = kolo_steps_root(1 - kolo_steps_power(options->beta2, number));
        step.first = state + sizeof number;
        step.second = step.first + count * real_bytes(rule);
    } else if (step.factors.has_momentum) {
        step.first = state;
    }
    return step;
}

/* Steps a piece of F16 or BF16: computes in f32, and rounds once. */
static void step_halves(const struct kolo_rule *rule, const struct step *step, size_t count, const uint8_t *update,
                        uint8_t *values) {
    for (size_t done = 0; done < count; done += BLOCK_ELEMENTS) {
        float g[BLOCK_ELEMENTS], p[BLOCK_ELEMENTS];
        const size_t left = count - done, some = left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS;
        const void *source = p;
        rule->sum->widen(g, update + done * rule->element_bytes, some);
        rule->sum->widen(p, values + done * rule->element_bytes, some);
        step->function(&step->factors, some, g, p, step->first ? step->first + done * sizeof *p : NULL,
                       step->second ? step->second + done * sizeof *p : NULL);
        rule->sum->finish(values + done * rule->element_bytes, &source, 1, some, 1);
    }
}

void kolo_rule_apply(const struct kolo_rule *rule, double learning_rate, const struct kolo_piece *piece,
                     const void *update, const struct kolo_version *from, const struct kolo_version *to) {
    const size_t bytes = piece->count * rule->element_bytes;
    if (rule->kind == KOLO_TABLE_ASSIGN) {
        memcpy(to->values, update, bytes);
        return;
    }
    if (rule->kind == KOLO_TABLE_ADD) {
        const void *const sources[] = {from->values, update};
        rule->sum->fold(to->values, sources, 2, piece->count, 1);
        return;
    }
    memcpy(to->values, from->values, bytes);
    memcpy(to->state, from->state, kolo_rule_state_bytes(rule, piece->count));
    if (rule->kind == KOLO_TABLE_FUNCTION) {
        rule->options.function(rule->options.context, piece->row, piece->first, piece->count, update, to->values,
                               to->state);
        return;
    }
    const struct step step = next_step(rule, learning_rate, piece->count, to->state);
    if (is_half(rule->dtype))
        step_halves(rule, &step, piece->count, update, to->values);
    else
        step.function(&step.factors, piece->count, update, to->values, step.first, step.second);
}

void kolo_rule_combine(const struct kolo_rule *rule, void *sum, const void *update, size_t count) {
    const void *const sources[] = {sum, update};
    if (rule->kind == KOLO_TABLE_ASSIGN)
        memcpy(sum, update, count * rule->element_bytes);
    else
        rule->sum->fold(sum, sources, 2, count, 1);
}
