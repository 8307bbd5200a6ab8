/* Optimizers: on every rank the parameters and the state are, bit by bit, those of kolo_allreduce followed by the whole
 * update on one rank, which an optimizer on a communicator of that rank alone does: for all kinds, types, groups,
 * segments that begin in the background, clipping, steps that are skipped, and state that goes to another number of
 * ranks. The formulas themselves are compared with plain ones in f64. And what is refused. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_optimizer.h"
#include "kolo_tools.h"
#include "harness.h"

enum { SLOT_BYTES = 4096, GROUPS_MAX = 4, SEGMENTS_MAX = 4, STEPS = 4 };

/* What one optimizer is. */
struct setup {
    kolo_optimizer_options options;
    size_t segments[SEGMENTS_MAX];
    kolo_parameter_group groups[GROUPS_MAX];
    size_t ngroups;
    uint64_t seed;
    bool in_background;
    int rounding; /* the caller's mode in each step, which no result may show */
};

static size_t bytes_of(const struct setup *setup) {
    return kolo_dtype_bytes(setup->options.dtype);
}

static kolo_dtype real_of(const struct setup *setup) {
    return setup->options.dtype == KOLO_F64 ? KOLO_F64 : KOLO_F32;
}

static uint16_t half_of(kolo_dtype dtype, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == KOLO_BF16)
        return (uint16_t)(bits >> 16);
    if (value > 60000)
        return 0x7c00;
    return value == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023));
}

static void put(void *values, kolo_dtype dtype, size_t index, float value) {
    if (dtype == KOLO_F64)
        ((double *)values)[index] = value;
    else if (dtype == KOLO_F32)
        ((float *)values)[index] = value;
    else
        ((uint16_t *)values)[index] = half_of(dtype, value);
}

/* Multiples of 1/64 below 2: sums of them and of their squares are exact, whatever their order. */
static void fill(void *values, const struct setup *setup, uint64_t seed) {
    uint64_t random = setup->seed * 1000003 + seed;
    for (size_t i = 0; i < setup->options.count; i++)
        put(values, setup->options.dtype, i, (float)((int)random_below(&random, 255) - 127) / 64);
}

static void *array(const struct setup *setup, size_t element_bytes) {
    return calloc(setup->options.count, element_bytes);
}

static kolo_optimizer *create(const struct rank *rank, kolo_comm *comm, const struct setup *setup) {
    kolo_optimizer *optimizer = NULL;
    expect_status(rank, kolo_optimizer_create(comm, &setup->options, setup->groups, setup->ngroups, &optimizer), 0,
                  "kolo_optimizer_create");
    return optimizer;
}

/* One step, with some segments begun before, the later ones first. */
static int make_step(const struct setup *setup, kolo_optimizer *optimizer, const void *gradients, void *parameters,
                     kolo_step_info *info) {
    const size_t bytes = bytes_of(setup);
    int rc = 0;
    fesetround(setup->rounding);
    for (size_t i = setup->options.nsegments; rc == 0 && setup->in_background && i-- > 0;) {
        const size_t at = (i ? setup->segments[i - 1] : 0) * bytes;
        if (i != 1)
            rc =
                kolo_optimizer_begin_segment(optimizer, i, (const uint8_t *)gradients + at, (uint8_t *)parameters + at);
    }
    *info = (kolo_step_info){.info_bytes = sizeof *info};
    if (rc == 0)
        rc = kolo_optimizer_step(optimizer, gradients, parameters, info);
    fesetround(FE_TONEAREST);
    return rc;
}

static bool same_state(const struct rank *rank, const struct setup *setup, kolo_optimizer *optimizer,
                       kolo_optimizer *alone) {
    const size_t bytes = setup->options.count * kolo_dtype_bytes(real_of(setup));
    bool right = true;
    for (int which = 0; right && which < KOLO_OPTIMIZER_STATES; which++) {
        uint8_t *all = malloc(bytes);
        void *part, *whole;
        size_t count, count_alone;
        right =
            expect_status(rank, kolo_optimizer_local_state(optimizer, (kolo_optimizer_state)which, &part, &count), 0,
                          "kolo_optimizer_local_state") &&
            expect_status(rank, kolo_optimizer_local_state(alone, (kolo_optimizer_state)which, &whole, &count_alone), 0,
                          "kolo_optimizer_local_state") &&
            expect(rank, !part == !whole, "state %d", which);
        if (right && whole) {
            const int root = which == KOLO_OPTIMIZER_VARIANCE ? -1 : rank->ranks - 1;
            right = expect_status(rank, kolo_optimizer_read_state(optimizer, (kolo_optimizer_state)which, all, root), 0,
                                  "kolo_optimizer_read_state") &&
                    expect(rank, (root >= 0 && rank->rank != root) || memcmp(all, whole, bytes) == 0,
                           "state %d differs, %zu elements of %s", which, setup->options.count,
                           kolo_name(KOLO_NAME_DTYPE, setup->options.dtype));
        }
        free(all);
    }
    return right;
}

/* Runs steps of both and compares all there is. A gradient of step 2 is not finite. */
static bool compare(const struct rank *rank, kolo_comm *solo, const struct setup *setup) {
    const size_t bytes = setup->options.count * bytes_of(setup);
    struct setup plain = *setup;
    plain.options.op = KOLO_SUM; /* of one */
    plain.options.segments = NULL;
    plain.options.nsegments = 0;
    plain.in_background = false;
    plain.rounding = FE_TONEAREST;
    kolo_optimizer *optimizer = create(rank, rank->comm, setup), *alone = create(rank, solo, &plain);
    void *gradients = array(setup, bytes_of(setup)), *parameters = array(setup, bytes_of(setup)),
         *reduced = array(setup, bytes_of(setup)), *wanted = array(setup, bytes_of(setup));
    bool right = optimizer && alone;
    fill(parameters, setup, 1);
    memcpy(wanted, parameters, bytes);
    for (int step = 0; right && step < STEPS; step++) {
        kolo_step_info info, wanted_info;
        fill(gradients, setup, 100 + (uint64_t)step * 64 + (uint64_t)rank->rank);
        if (setup->options.skip_nonfinite && step == 2 && rank->rank == rank->ranks - 1)
            put(gradients, setup->options.dtype, setup->options.count / 2, INFINITY);
        right =
            expect_status(rank,
                          kolo_allreduce(rank->comm, gradients, reduced, setup->options.count, setup->options.dtype,
                                         setup->options.op),
                          0, "kolo_allreduce") &&
            expect_status(rank, make_step(setup, optimizer, gradients, parameters, &info), 0, "kolo_optimizer_step") &&
            expect_status(rank, make_step(&plain, alone, reduced, wanted, &wanted_info), 0, "the step alone") &&
            expect(rank, memcmp(&info, &wanted_info, sizeof info) == 0,
                   "steps %d, skipped %d, norm %a, clip %a, not %d, %d, %a, %a", (int)info.steps, info.skipped,
                   info.norm, info.clip, (int)wanted_info.steps, wanted_info.skipped, wanted_info.norm,
                   wanted_info.clip) &&
            expect(rank, info.skipped == (setup->options.skip_nonfinite && step == 2), "skipped: %d", info.skipped) &&
            expect(rank, memcmp(parameters, wanted, bytes) == 0,
                   "parameters differ in step %d: kind %d, %zu elements of %s", step, setup->options.kind,
                   setup->options.count, kolo_name(KOLO_NAME_DTYPE, setup->options.dtype));
    }
    right = right && same_state(rank, setup, optimizer, alone);
    kolo_optimizer_destroy(optimizer);
    kolo_optimizer_destroy(alone);
    free(gradients);
    free(parameters);
    free(reduced);
    free(wanted);
    return right;
}

static void divide(struct setup *setup, size_t ngroups, size_t nsegments) {
    const size_t count = setup->options.count;
    setup->ngroups = count >= 2 * ngroups ? ngroups : 1;
    for (size_t i = 0; i < setup->ngroups; i++) {
        const kolo_parameter_group initial = KOLO_PARAMETER_GROUP_INIT;
        kolo_parameter_group *group = &setup->groups[i];
        *group = initial;
        group->end = i + 1 == setup->ngroups ? count : (i + 1) * count / setup->ngroups - i;
        group->learning_rate = 0.01 / (double)(i + 1);
        group->weight_decay = i % 2 ? 0 : 0.1;
        group->beta1 = i == 1 ? 0.4 : 0.9; /* both ways to interpolate */
        group->momentum = i % 3 == 2 ? 0 : 0.9;
        group->dampening = i == 1 ? 0.1 : 0;
        group->nesterov = i == 0;
    }
    nsegments = count >= 2 * nsegments ? nsegments : 0;
    for (size_t i = 0; i < nsegments; i++)
        setup->segments[i] = i + 1 == nsegments ? count : (i + 1) * count / nsegments + i;
    setup->options.segments = nsegments ? setup->segments : NULL;
    setup->options.nsegments = nsegments;
}

static void run_equal(struct rank *rank) {
    static const kolo_dtype dtypes[] = {KOLO_F32, KOLO_F64, KOLO_BF16, KOLO_F16};
    static const size_t counts[] = {1, 37, 1000, 6007};
    uint64_t random = random_seed(1, (uint64_t)rank->ranks);
    kolo_comm *solo = NULL;
    rank->options.progress = rank->ranks % 2 ? 1 : -1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") ||
        !expect_status(rank, kolo_comm_split(rank->comm, rank->rank, 0, &solo), 0, "kolo_comm_split"))
        return;
    bool right = true;
    for (int i = 0; right && i < 3 * 4 * 4; i++) {
        struct setup setup = {.options = KOLO_OPTIMIZER_OPTIONS_INIT, .seed = random_next(&random) >> 20};
        const uint64_t draw = random_next(&random);
        setup.options.kind = (kolo_optimizer_kind)(i % 3);
        setup.options.dtype = dtypes[i / 3 % 4];
        setup.options.count = counts[i / 12];
        setup.options.master_weights = setup.options.dtype != KOLO_F32 && setup.options.dtype != KOLO_F64 && draw & 1;
        setup.options.clip_norm = draw >> 1 & 1 ? 1.5 : 0;
        setup.options.skip_nonfinite = draw >> 2 & 1;
        /* Averages of three ranks are not exact, and the order of their squares shows. */
        setup.options.op = setup.options.clip_norm == 0 && !setup.options.skip_nonfinite ? KOLO_AVG : KOLO_SUM;
        setup.options.gradient_scale = draw >> 3 & 1 ? 0.5 : 1;
        setup.in_background = draw >> 4 & 1;
        setup.rounding = rank->rank % 2 ? FE_UPWARD : FE_TONEAREST;
        divide(&setup, 1 + (draw >> 8) % GROUPS_MAX, 1 + (draw >> 12) % SEGMENTS_MAX);
        right = compare(rank, solo, &setup);
    }
    kolo_comm_destroy(solo);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* The formulas, in f64 and in another order where that is as right. */
static void plain_step(const kolo_parameter_group *group, kolo_optimizer_kind kind, int step, bool has_buffer, double g,
                       double *p, double *m, double *v) {
    if (kind == KOLO_OPTIMIZER_ADAMW)
        *p -= group->learning_rate * group->weight_decay * *p;
    else
        g += group->weight_decay * *p;
    if (kind == KOLO_OPTIMIZER_SGD) {
        if (group->momentum != 0)
            *m = !has_buffer ? g : group->momentum * *m + (1 - group->dampening) * g;
        *p -= group->learning_rate * (group->momentum == 0 ? g : group->nesterov ? g + group->momentum * *m : *m);
        return;
    }
    *m = group->beta1 * *m + (1 - group->beta1) * g;
    *v = group->beta2 * *v + (1 - group->beta2) * g * g;
    *p -= group->learning_rate * (*m / (1 - pow(group->beta1, step))) /
          (sqrt(*v / (1 - pow(group->beta2, step))) + group->epsilon);
}

static void run_formulas(struct rank *rank) {
    enum { COUNT = 300 };
    for (int kind = 0; kind < KOLO_OPTIMIZER_KINDS; kind++) {
        struct setup setup = {.options = KOLO_OPTIMIZER_OPTIONS_INIT, .seed = 3};
        double gradients[COUNT], parameters[COUNT], p[COUNT], m[COUNT] = {0}, v[COUNT] = {0}, worst = 0;
        setup.options.kind = (kolo_optimizer_kind)kind;
        setup.options.dtype = KOLO_F64;
        setup.options.count = COUNT;
        divide(&setup, 3, 1);
        kolo_parameter_group *late = &setup.groups[2]; /* its momentum begins later, and rests for a while */
        bool have_buffers[] = {false, false, false};
        kolo_optimizer *optimizer = create(rank, rank->comm, &setup);
        fill(parameters, &setup, 1);
        memcpy(p, parameters, sizeof p);
        for (int step = 1; optimizer && step <= 20; step++) {
            late->momentum = step < 8 || (step > 12 && step < 15) ? 0 : 0.8;
            late->dampening = 0.3;
            expect_status(rank, kolo_optimizer_group(optimizer, 2, late, NULL), 0, "kolo_optimizer_group");
            fill(gradients, &setup, 50 + (uint64_t)step); /* the same on all ranks */
            expect_status(rank, kolo_optimizer_step(optimizer, gradients, parameters, NULL), 0, "kolo_optimizer_step");
            for (size_t i = 0, group = 0; i < COUNT; i++) {
                group += i == setup.groups[group].end;
                plain_step(&setup.groups[group], setup.options.kind, step, have_buffers[group], gradients[i], &p[i],
                           &m[i], &v[i]);
                worst = fmax(worst, fabs(p[i] - parameters[i]));
            }
            for (size_t group = 0; group < 3; group++)
                have_buffers[group] = have_buffers[group] || setup.groups[group].momentum != 0;
        }
        expect(rank, worst < 1e-12, "kind %d is off by %g", kind, worst);
        kolo_optimizer_destroy(optimizer);
    }
}

/* A step that makes all moments not a number, and the wish to forget them. */
static bool begin_again(const struct rank *rank, const struct setup *setup, kolo_optimizer *optimizer, void *gradients,
                        void *parameters) {
    for (size_t i = 0; i < setup->options.count; i++)
        put(gradients, setup->options.dtype, i, NAN);
    return expect_status(rank, kolo_optimizer_step(optimizer, gradients, parameters, NULL), 0, "a step") &&
           expect_status(rank, kolo_optimizer_write_state(optimizer, KOLO_OPTIMIZER_STEPS, &(uint64_t){0}), 0,
                         "kolo_optimizer_write_state");
}

/* State that goes from one number of ranks to another, and back, with the same curve as without: gradients are the same
 * on all ranks, so that their average does not depend on the number. */
static void run_moved(struct rank *rank) {
    kolo_comm *half = NULL, *solo = NULL;
    bool right = expect_status(rank, kolo_comm_split(rank->comm, rank->rank % 2, 0, &half), 0, "kolo_comm_split") &&
                 expect_status(rank, kolo_comm_split(rank->comm, rank->rank, 0, &solo), 0, "kolo_comm_split");
    for (int kind = 0; right && kind < KOLO_OPTIMIZER_KINDS; kind++) {
        struct setup setup = {.options = KOLO_OPTIMIZER_OPTIONS_INIT, .seed = 4 + (uint64_t)kind};
        setup.options.kind = (kolo_optimizer_kind)kind;
        setup.options.dtype = kind == 1 ? KOLO_BF16 : KOLO_F32;
        setup.options.master_weights = kind == 1;
        setup.options.count = 2003;
        divide(&setup, 2, 3);
        struct setup other = setup;
        divide(&other, 2, 1);
        kolo_comm *comms[] = {rank->comm, half, solo, rank->comm};
        kolo_optimizer *straight = create(rank, rank->comm, &setup), *current = NULL;
        void *gradients = array(&setup, bytes_of(&setup)), *parameters = array(&setup, bytes_of(&setup)),
             *wanted = array(&setup, bytes_of(&setup));
        float *state = array(&setup, sizeof *state);
        fill(parameters, &setup, 1);
        right = begin_again(rank, &setup, straight, gradients, wanted);
        memcpy(wanted, parameters, setup.options.count * bytes_of(&setup));
        for (int phase = 0; right && phase < 4; phase++) {
            kolo_optimizer *next = create(rank, comms[phase], phase % 2 ? &other : &setup);
            uint64_t steps = 0;
            for (int which = 0; current && which < KOLO_OPTIMIZER_STATES; which++)
                if (kolo_optimizer_read_state(current, (kolo_optimizer_state)which, state, -1) == 0)
                    right = right &&
                            expect_status(rank, kolo_optimizer_write_state(next, (kolo_optimizer_state)which, state), 0,
                                          "kolo_optimizer_write_state");
            expect_status(rank, kolo_optimizer_read_state(next, KOLO_OPTIMIZER_STEPS, &steps, -1), 0, "steps");
            kolo_optimizer_destroy(current);
            current = next;
            for (int step = 0; right && step < 2; step++) {
                fill(gradients, &setup, 10 + steps + (uint64_t)step);
                right = expect_status(rank, kolo_optimizer_step(current, gradients, parameters, NULL), 0, "step") &&
                        expect_status(rank, kolo_optimizer_step(straight, gradients, wanted, NULL), 0, "step") &&
                        expect(rank, memcmp(parameters, wanted, setup.options.count * bytes_of(&setup)) == 0,
                               "kind %d, phase %d, step %d: the curve is another one", kind, phase, step);
            }
        }
        kolo_optimizer_destroy(current);
        kolo_optimizer_destroy(straight);
        free(gradients);
        free(parameters);
        free(wanted);
        free(state);
    }
    kolo_comm_destroy(half);
    kolo_comm_destroy(solo);
}

/* Parameters and gradients in buffers of kolo_alloc, and settings that change. */
static void run_mapped(struct rank *rank) {
    struct setup setup = {.options = KOLO_OPTIMIZER_OPTIONS_INIT, .seed = 9};
    setup.options.count = 50000;
    setup.options.clip_norm = rank->ranks % 2 ? 0.7 : 0;
    divide(&setup, 2, 2);
    void *mapped[2];
    float *gradients = array(&setup, sizeof *gradients), *parameters = array(&setup, sizeof *parameters);
    kolo_optimizer *first = create(rank, rank->comm, &setup), *second = create(rank, rank->comm, &setup);
    bool right = first && second;
    for (int i = 0; right && i < 2; i++)
        right = expect_status(rank, kolo_alloc(rank->comm, setup.options.count * 4, &mapped[i]), 0, "kolo_alloc");
    if (right) {
        fill(parameters, &setup, 1);
        fill(mapped[1], &setup, 1);
    }
    for (int step = 0; right && step < STEPS; step++) {
        kolo_parameter_group group = {.group_bytes = sizeof group};
        kolo_parameter_group before = {.group_bytes = sizeof before};
        right = expect_status(rank, kolo_optimizer_group(first, 1, NULL, &group), 0, "kolo_optimizer_group");
        group.learning_rate /= 2;
        right = right && expect_status(rank, kolo_optimizer_group(first, 1, &group, NULL), 0, "kolo_optimizer_group") &&
                expect_status(rank, kolo_optimizer_group(second, 1, &group, &before), 0, "kolo_optimizer_group") &&
                expect(rank, before.learning_rate == 2 * group.learning_rate && before.end == group.end,
                       "the learning rate was %g, not %g", before.learning_rate, 2 * group.learning_rate);
        fill(gradients, &setup, 100 + (uint64_t)step * 64 + (uint64_t)rank->rank);
        memcpy(mapped[0], gradients, setup.options.count * 4);
        kolo_step_info info, other;
        setup.in_background = step % 2;
        right = right && expect_status(rank, make_step(&setup, first, gradients, parameters, &info), 0, "step") &&
                expect_status(rank, make_step(&setup, second, mapped[0], mapped[1], &other), 0, "step of kolo_alloc") &&
                expect(rank, memcmp(&info, &other, sizeof info) == 0, "infos differ") &&
                expect(rank, memcmp(parameters, mapped[1], setup.options.count * 4) == 0, "parameters differ");
    }
    kolo_optimizer_destroy(first);
    kolo_optimizer_destroy(second);
    free(gradients);
    free(parameters);
}

static void refuse_options(const struct rank *rank, const struct setup *setup, const char *words) {
    kolo_optimizer *optimizer = NULL;
    refused(rank,
            kolo_optimizer_create(rank->comm, &setup->options, setup->ngroups ? setup->groups : NULL, setup->ngroups,
                                  &optimizer),
            words);
    expect(rank, !optimizer, "a refused kolo_optimizer_create sets the optimizer");
}

static void run_refused_options(const struct rank *rank, const struct setup *good) {
    struct setup setup = *good;
    setup.options.count = 0;
    refuse_options(rank, &setup, "count 0");
    setup = *good;
    setup.options.dtype = KOLO_I32;
    refuse_options(rank, &setup, "must be F32, F64, F16 or BF16");
    setup = *good;
    setup.options.kind = KOLO_OPTIMIZER_KINDS;
    refuse_options(rank, &setup, "no such optimizer");
    setup = *good;
    setup.options.master_weights = 1;
    refuse_options(rank, &setup, "master_weights");
    setup = *good;
    setup.options.op = KOLO_MAX;
    refuse_options(rank, &setup, "must be AVG or SUM");
    setup = *good;
    setup.options.clip_norm = -1;
    refuse_options(rank, &setup, "clip_norm");
    setup = *good;
    setup.groups[0].beta2 = 1;
    refuse_options(rank, &setup, "beta2 1: must be from 0 to less than 1");
    setup = *good;
    setup.groups[0].learning_rate = NAN;
    refuse_options(rank, &setup, "learning_rate nan");
    setup = *good;
    setup.groups[0].end++;
    refuse_options(rank, &setup, "must be the count");
    setup = *good;
    setup.options.segments = &setup.groups[0].end;
    refuse_options(rank, &setup, "nsegments 0");
    setup = *good;
    setup.options.options_bytes = 0;
    refuse_options(rank, &setup, "options_bytes");
    setup = *good; /* differs between the ranks, which may go on */
    setup.groups[0].learning_rate = rank->rank == 1 ? 1 : 2;
    refuse_options(rank, &setup, "groups[0].learning_rate is 1 on rank 1, 2 on rank 0");
    setup = *good; /* wrong on one rank alone, with which the others must not lose step */
    setup.options.clip_norm = rank->rank == 1 ? -1 : 0;
    refuse_options(rank, &setup, rank->rank == 1 ? "clip_norm" : "failed on rank 1");
    setup = *good;
    setup.groups[0].beta1 = rank->rank == 0 ? 2 : 0;
    refuse_options(rank, &setup, rank->rank == 0 ? "beta1" : "failed on rank 0");
    for (int null = 0; null < 2; null++) {
        kolo_optimizer *optimizer = NULL;
        const bool is_odd = rank->rank == 1;
        const int status = kolo_optimizer_create(rank->comm, is_odd && null == 0 ? NULL : &good->options, NULL, 0,
                                                 is_odd && null == 1 ? NULL : &optimizer);
        refused(rank, status, !is_odd ? "failed on rank 1" : null == 0 ? "options is NULL" : "optimizer is NULL");
        expect(rank, !optimizer, "a refused kolo_optimizer_create sets the optimizer");
    }
}

/* A rank makes another call than the creation of an optimizer: one of those of which a creation might be made. */
static void run_other_call(struct rank *rank) {
    static const kolo_op ops[] = {KOLO_SUM, KOLO_MIN, KOLO_MAX, KOLO_BOR};
    static const size_t counts[] = {1, -KOLO_ERR_STATE + 1};
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    options.count = 40;
    for (size_t i = 0; i < 2 * sizeof ops / sizeof *ops; i++) {
        uint64_t words[16] = {5000};
        kolo_comm *comm;
        kolo_optimizer *optimizer = NULL;
        if (!expect_status(rank, kolo_comm_dup(rank->comm, &comm), 0, "kolo_comm_dup"))
            return;
        const int status = rank->rank == 1 ? kolo_allreduce(comm, words, words, counts[i % 2], KOLO_U64, ops[i / 2])
                                           : kolo_optimizer_create(comm, &options, NULL, 0, &optimizer);
        if (expect_status(rank, status, KOLO_ERR_MISMATCH, kolo_name(KOLO_NAME_OP, (int)ops[i / 2])))
            expect_message(rank, "another call", "u64", "an optimizer's creation", NULL);
        kolo_optimizer_destroy(optimizer);
        kolo_comm_destroy(comm);
    }
}

static void run_refused(struct rank *rank) {
    struct setup setup = {.options = KOLO_OPTIMIZER_OPTIONS_INIT};
    float gradients[40] = {0}, parameters[40] = {0};
    const uint64_t steps = 3;
    setup.options.count = 40;
    divide(&setup, 1, 1);
    setup.options.segments = NULL;
    setup.options.nsegments = 0;
    run_refused_options(rank, &setup);
    kolo_optimizer *optimizer = create(rank, rank->comm, &setup);
    if (!optimizer)
        return;
    refused(rank, kolo_optimizer_step(optimizer, NULL, parameters, NULL), "gradients is NULL");
    refused(rank, kolo_optimizer_step(optimizer, parameters, parameters, NULL), "overlap");
    refused(rank, kolo_optimizer_step(NULL, gradients, parameters, NULL), "optimizer is NULL");
    refused(rank, kolo_optimizer_begin_segment(optimizer, 1, gradients, parameters), "segment 1: there are 1");
    refused(rank, kolo_optimizer_read_state(optimizer, KOLO_OPTIMIZER_MASTER, gradients, 0), "no such state");
    refused(rank, kolo_optimizer_read_state(optimizer, KOLO_OPTIMIZER_MOMENTUM, gradients, rank->ranks), "root");
    refused(rank, kolo_optimizer_write_state(optimizer, KOLO_OPTIMIZER_MOMENTUM, NULL), "values is NULL");
    kolo_parameter_group group = setup.groups[0];
    group.end = 39;
    refused(rank, kolo_optimizer_group(optimizer, 0, &group, NULL), "must stay 40");
    refused(rank, kolo_optimizer_group(optimizer, 1, &group, NULL), "there are 1");
    expect_status(rank, kolo_optimizer_begin_segment(optimizer, 0, gradients, parameters), 0, "begin_segment");
    refused(rank, kolo_optimizer_begin_segment(optimizer, 0, gradients, parameters), "has begun already");
    refused(rank, kolo_optimizer_write_state(optimizer, KOLO_OPTIMIZER_STEPS, &steps), "a segment has begun");
    refused(rank, kolo_optimizer_read_state(optimizer, KOLO_OPTIMIZER_MOMENTUM, gradients, 0), "a segment has begun");
    expect_status(rank, kolo_optimizer_step(optimizer, NULL, NULL, NULL), 0, "a step whose segments have begun");
    expect_status(rank, kolo_optimizer_begin_segment(optimizer, 0, gradients, parameters), 0, "begin_segment");
    kolo_optimizer_destroy(optimizer); /* with a segment that has begun */
    expect_status(rank, kolo_optimizer_destroy(NULL), 0, "kolo_optimizer_destroy");
}

/* Ranks that differ in what no count tells: in the segment that they begin, in settings, in how many steps there were,
 * and in the state that they read. */
static void run_mismatch(struct rank *rank) {
    static const struct {
        const char *name, *value, *elsewhere;
    } differences[] = {
        {"segment", "1", "0"}, {"groups[0].learning_rate", "0.002", "0.001"}, {"steps", "5", "0"}, {"state", "1", "0"}};
    static const size_t ends[] = {20, 40};
    float gradients[40] = {0}, parameters[40] = {0}, values[40];
    const bool is_odd = rank->rank == 1;
    for (int what = 0; what < 4; what++) {
        kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
        kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
        kolo_comm *comm;
        kolo_optimizer *optimizer = NULL;
        options.count = group.end = 40;
        options.segments = ends;
        options.nsegments = 2;
        if (!expect_status(rank, kolo_comm_dup(rank->comm, &comm), 0, "kolo_comm_dup") ||
            !expect_status(rank, kolo_optimizer_create(comm, &options, &group, 1, &optimizer), 0, "create"))
            return;
        int status = 0;
        if (what == 0)
            status = kolo_optimizer_begin_segment(optimizer, is_odd, gradients + 20 * is_odd, parameters + 20 * is_odd);
        group.learning_rate *= 2;
        if (what == 1 && is_odd)
            status = kolo_optimizer_group(optimizer, 0, &group, NULL);
        if (what == 2 && is_odd)
            status = kolo_optimizer_write_state(optimizer, KOLO_OPTIMIZER_STEPS, &(uint64_t){5});
        expect_status(rank, status, 0, "what one rank does differently");
        status = what == 3 ? kolo_optimizer_read_state(
                                 optimizer, is_odd ? KOLO_OPTIMIZER_VARIANCE : KOLO_OPTIMIZER_MOMENTUM, values, -1)
                           : kolo_optimizer_step(optimizer, gradients, parameters, NULL);
        kolo_failure failure = {.failure_bytes = sizeof failure};
        kolo_comm_failure(comm, &failure);
        if (expect(rank, status < 0 && failure.status == KOLO_ERR_MISMATCH, "%s: status %d: %s", differences[what].name,
                   status, failure.message))
            expect_difference(rank, differences[what].name, differences[what].value, 1, differences[what].elsewhere);
        kolo_optimizer_destroy(optimizer);
        kolo_comm_destroy(comm);
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 9};
    harness_begin(argc, argv, "Checks optimizers.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!wants_ranks(counts[i]))
            continue;
        harness_run(
            &(struct team){.ranks = counts[i], .slot_bytes = SLOT_BYTES, .creates_itself = true, .run = run_equal});
        harness_run(&(struct team){.ranks = counts[i], .run = run_mapped});
    }
    if (wants_ranks(2))
        harness_run(&(struct team){.ranks = 2, .run = run_formulas});
    if (wants_ranks(4))
        harness_run(&(struct team){.ranks = 4, .run = run_moved});
    if (wants_ranks(2))
        harness_run(&(struct team){.ranks = 2, .run = run_refused});
    if (wants_ranks(3))
        harness_run(&(struct team){.ranks = 3, .run = run_mismatch});
    if (wants_ranks(3))
        harness_run(&(struct team){.ranks = 3, .run = run_other_call});
    return harness_end();
}
