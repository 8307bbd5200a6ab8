/* Compression of buckets: the bits of a sequential reference, on all ranks and whatever is in the tensors; error
 * feedback, by which what was applied adds up to what was given; residuals that are saved and loaded; and what is
 * refused. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "compression_reference.h"
#include "harness.h"
#include "kolo_fusion.h"
#include "oracle.h"

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SPACE_IS_FREE 0 /* the sanitizer's shadow takes it */
#elif defined(__has_feature)
#define ADDRESS_SPACE_IS_FREE !__has_feature(address_sanitizer)
#else
#define ADDRESS_SPACE_IS_FREE 1
#endif

enum { TENSORS = 9, COUNT_MAX = 40000, RANKS_MAX = 9, STEPS = 4, MANY_STEPS = 48 };

/* About a word of signs, about a block of them, and long enough for a sample to choose by. */
static const size_t counts[TENSORS] = {1, 5, 64, 511, 512, 513, 1000, 3000, COUNT_MAX};
static const char *const kinds[KOLO_COMPRESSIONS] = {"none", "bf16", "f16", "topk", "onebit"};

struct settings {
    kolo_compression kind;
    double share;
    bool feedback;
    kolo_op op;
};

/* One rank's tensors and its set of buckets. */
struct set {
    const struct rank *rank;
    struct settings settings;
    float *tensors[TENSORS];
    kolo_buckets *buckets;
};

/* The ranks' programs may differ in how they round: the counts of TOPK, and all results, do not. */
static void set_rounding(const struct set *set) {
    fesetround(set->rank->rank % 2 ? FE_UPWARD : FE_TONEAREST);
}

static int open_buckets(struct set *set) {
    kolo_tensor tensors[TENSORS];
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    for (int i = 0; i < TENSORS; i++)
        tensors[i] = (kolo_tensor){set->tensors[i], counts[i]};
    options.op = set->settings.op;
    options.bucket_bytes = 8192; /* several buckets, and one of a single tensor */
    options.compression = set->settings.kind;
    options.compression_share = set->settings.share;
    options.error_feedback = set->settings.feedback;
    set_rounding(set);
    const int rc = kolo_bucket_create(set->rank->comm, tensors, TENSORS, &options, &set->buckets);
    fesetround(FE_TONEAREST);
    return rc;
}

static bool make_set(struct set *set, const struct rank *rank, const struct settings *settings) {
    *set = (struct set){.rank = rank, .settings = *settings};
    for (int i = 0; i < TENSORS; i++)
        set->tensors[i] = calloc(counts[i], sizeof *set->tensors[i]);
    return expect_status(rank, open_buckets(set), 0, "kolo_bucket_create");
}

static void free_set(struct set *set) {
    kolo_bucket_destroy(set->buckets);
    for (int i = 0; i < TENSORS; i++)
        free(set->tensors[i]);
}

/* Sums the tensors, which become ready in an order of this rank's own. */
static bool run_step(struct set *set, uint64_t *state) {
    int order[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        const int at = (int)random_below(state, (uint64_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    bool right = true;
    set_rounding(set);
    for (int i = 0; right && i < TENSORS; i++)
        right = expect_status(set->rank, kolo_bucket_ready(set->buckets, (size_t)order[i]), 0, "kolo_bucket_ready");
    right = right && expect_status(set->rank, kolo_bucket_wait(set->buckets), 0, "kolo_bucket_wait");
    fesetround(FE_TONEAREST);
    return right;
}

/* What a rank puts into tensor `tensor` in step `step`: the same wherever it is computed. One step has NaNs and
 * infinities. */
static void fill_input(float *values, int tensor, int step, int rank) {
    const input_style style = step == 1 ? INPUT_SPECIAL : INPUT_NEAR;
    input_fill(style, KOLO_F32, KOLO_SUM, values, counts[tensor],
               random_seed((uint64_t)(step * TENSORS + tensor), (uint64_t)rank));
    if (step == 2) /* equals, of which those with the lowest indices are chosen */
        for (size_t i = 0; i < counts[tensor]; i++)
            values[i] = i % 3 ? 0.0f : values[0];
}

/* The reference: every rank keeps its own residuals; rank 0 those of all, and so knows the result. */
struct reference {
    float *residual[RANKS_MAX][TENSORS]; /* NULL: not kept */
    void *sent[RANKS_MAX];
    float *values, *expected;
};

static void make_reference(struct reference *reference, const struct rank *rank, bool feedback) {
    *reference =
        (struct reference){.values = calloc(COUNT_MAX, sizeof(float)), .expected = calloc(COUNT_MAX, sizeof(float))};
    for (int r = 0; r < rank->ranks; r++) {
        reference->sent[r] = calloc(COUNT_MAX, sizeof(float));
        for (int i = 0; feedback && i < TENSORS; i++)
            reference->residual[r][i] = calloc(counts[i], sizeof(float));
    }
}

static void free_reference(struct reference *reference) {
    free(reference->values);
    free(reference->expected);
    for (int r = 0; r < RANKS_MAX; r++) {
        free(reference->sent[r]);
        for (int i = 0; i < TENSORS; i++)
            free(reference->residual[r][i]);
    }
}

/* What a step must have left in a tensor, and in the residual. */
static bool check_tensor(const struct set *set, struct reference *reference, int tensor, int step) {
    const struct rank *rank = set->rank;
    const struct settings *settings = &set->settings;
    const size_t bytes = counts[tensor] * sizeof(float);
    for (int r = 0; r < rank->ranks; r++) {
        if (rank->rank != 0 && r != rank->rank)
            continue;
        fill_input(reference->values, tensor, step, r);
        reference_compress(settings->kind, settings->share, reference->values, reference->residual[r][tensor],
                           reference->sent[r], counts[tensor]);
    }
    if (rank->rank == 0) {
        reference_join(settings->kind, settings->op, (const void *const *)reference->sent, rank->ranks,
                       reference->expected, counts[tensor]);
        const size_t at = first_difference(set->tensors[tensor], reference->expected, bytes);
        if (at < bytes)
            return expect(rank, false, "%s, step %d, tensor %d: element %zu is %a, should be %a", kinds[settings->kind],
                          step, tensor, at / sizeof(float), set->tensors[tensor][at / sizeof(float)],
                          reference->expected[at / sizeof(float)]);
    }
    if (!settings->feedback)
        return true;
    const int status = kolo_bucket_residual(set->buckets, (size_t)tensor, NULL, reference->values);
    const size_t at = first_difference(reference->values, reference->residual[rank->rank][tensor], bytes);
    if (!expect_status(rank, status, 0, "kolo_bucket_residual") || at == bytes)
        return status == 0;
    return expect(rank, false, "%s, step %d, tensor %d: residual %zu is %a, should be %a", kinds[settings->kind], step,
                  tensor, at / sizeof(float), reference->values[at / sizeof(float)],
                  reference->residual[rank->rank][tensor][at / sizeof(float)]);
}

/* New buckets with the residuals of the old ones, as after a checkpoint. */
static bool reload(struct set *set) {
    kolo_buckets *old = set->buckets;
    float *values = calloc(COUNT_MAX, sizeof *values);
    bool right = expect_status(set->rank, open_buckets(set), 0, "kolo_bucket_create");
    for (size_t i = 0; right && i < TENSORS; i++)
        right =
            expect_status(set->rank, kolo_bucket_residual(old, i, NULL, values), 0, "kolo_bucket_residual") &&
            expect_status(set->rank, kolo_bucket_residual(set->buckets, i, values, NULL), 0, "kolo_bucket_residual");
    free(values);
    kolo_bucket_destroy(old);
    return right;
}

static bool compare_bits(struct rank *rank, const struct settings *settings, uint32_t index) {
    struct set set;
    struct reference reference;
    uint64_t state = random_seed(index, (uint64_t)rank->rank);
    bool right = make_set(&set, rank, settings);
    make_reference(&reference, rank, settings->feedback);
    for (int step = 0; right && step < STEPS; step++) {
        if (step == 3 && settings->feedback)
            right = reload(&set);
        for (int i = 0; right && i < TENSORS; i++)
            fill_input(set.tensors[i], i, step, rank->rank);
        right = right && run_step(&set, &state);
        for (int i = 0; right && i < TENSORS; i++) {
            right = check_tensor(&set, &reference, i, step);
            record_result(rank, (index * STEPS + (uint32_t)step) * TENSORS + (uint32_t)i,
                          hash_bytes(set.tensors[i], counts[i] * sizeof(float)));
        }
    }
    free_reference(&reference);
    free_set(&set);
    return right;
}

static void run_bits(struct rank *rank) {
    uint32_t index = 0;
    for (kolo_compression kind = KOLO_COMPRESSION_BF16; kind < KOLO_COMPRESSIONS; kind++) {
        for (int feedback = 0; feedback < 2; feedback++) {
            const struct settings settings = {.kind = kind,
                                              .share = feedback ? 0.01 : 0.1,
                                              .feedback = feedback,
                                              .op = (rank->ranks + feedback) % 2 ? KOLO_SUM : KOLO_AVG};
            if (!compare_bits(rank, &settings, index++))
                return;
        }
    }
}

/* The same gradient in every step. For halves it is near 1.5, with ranks of either sign: sums of halves are exact, so
 * that nothing but what the ranks' messages leave out is missing. */
static float constant_gradient(kolo_compression kind, int tensor, size_t i, int rank) {
    uint64_t state = random_seed((uint64_t)tensor, (uint64_t)rank) + i * 977;
    const float share = (float)random_below(&state, 1 << 16) * 0x1p-16f;
    if (kind == KOLO_COMPRESSION_TOPK || kind == KOLO_COMPRESSION_ONEBIT)
        return 4 * share - 2;
    return rank % 2 ? -1.5f - 0x1p-7f * share : 1.5f + 0x1p-7f * share;
}

/* How far what was applied in all steps is from what was given: as it is, and with what is left added. */
struct distances {
    double as_is, with_residuals;
};

static bool add_residuals(struct set *set, int tensor, float *sums) {
    const bool right = expect_status(set->rank, kolo_bucket_residual(set->buckets, (size_t)tensor, NULL, sums), 0,
                                     "kolo_bucket_residual");
    return right &&
           expect_status(set->rank, kolo_allreduce(set->rank->comm, sums, sums, counts[tensor], KOLO_F32, KOLO_SUM), 0,
                         "kolo_allreduce");
}

static bool run_steps(struct set *set, double *const *applied) {
    uint64_t state = random_seed(99, (uint64_t)set->rank->rank);
    for (int step = 0; step < MANY_STEPS; step++) {
        for (int tensor = 0; tensor < TENSORS - 1; tensor++)
            for (size_t i = 0; i < counts[tensor]; i++)
                set->tensors[tensor][i] = constant_gradient(set->settings.kind, tensor, i, set->rank->rank);
        if (!run_step(set, &state))
            return false;
        for (int tensor = 0; tensor < TENSORS - 1; tensor++)
            for (size_t i = 0; i < counts[tensor]; i++)
                applied[tensor][i] += (double)set->tensors[tensor][i];
    }
    return true;
}

/* The means over all elements but those of the longest tensor, which would only take time. */
static bool measure(struct rank *rank, const struct settings *settings, struct distances *distances) {
    struct set set;
    double *applied[TENSORS - 1], elements = 0;
    float *residuals = calloc(COUNT_MAX, sizeof *residuals);
    bool right = make_set(&set, rank, settings);
    for (int tensor = 0; tensor < TENSORS - 1; tensor++)
        applied[tensor] = calloc(counts[tensor], sizeof(double));
    right = right && run_steps(&set, applied);
    *distances = (struct distances){0, 0};
    for (int tensor = 0; right && tensor < TENSORS - 1; tensor++) {
        right = !settings->feedback || add_residuals(&set, tensor, residuals);
        for (size_t i = 0; i < counts[tensor]; i++) {
            double given = 0;
            for (int r = 0; r < rank->ranks; r++)
                given += MANY_STEPS * (double)constant_gradient(settings->kind, tensor, i, r);
            distances->as_is += fabs(applied[tensor][i] - given);
            distances->with_residuals += fabs(applied[tensor][i] + (double)residuals[i] - given);
        }
        elements += (double)counts[tensor];
    }
    distances->as_is /= elements;
    distances->with_residuals /= elements;
    for (int tensor = 0; tensor < TENSORS - 1; tensor++)
        free(applied[tensor]);
    free(residuals);
    free_set(&set);
    return right;
}

/* With error feedback nothing is lost, and what is applied stays near what was given; without it it does not. */
static void run_feedback(struct rank *rank) {
    for (kolo_compression kind = KOLO_COMPRESSION_BF16; kind < KOLO_COMPRESSIONS; kind++) {
        struct distances with, without;
        const struct settings kept = {.kind = kind, .share = 0.125, .feedback = true, .op = KOLO_SUM};
        const struct settings lost = {.kind = kind, .share = 0.125, .feedback = false, .op = KOLO_SUM};
        if (!measure(rank, &kept, &with) || !measure(rank, &lost, &without))
            return;
        expect(rank, with.with_residuals < 1e-3, "%s: what was sent and what is left differ by %g from what was given",
               kinds[kind], with.with_residuals);
        expect(rank, with.as_is < without.as_is / 4, "%s: with error feedback %g is missing after %d steps, without %g",
               kinds[kind], with.as_is, MANY_STEPS, without.as_is);
    }
}

/* Ranks that differ in the compression, or in what goes with it: all of them are told. */
static void run_mismatch(struct rank *rank) {
    static const struct settings one[] = {{KOLO_COMPRESSION_BF16, 0.01, true, KOLO_SUM},
                                          {KOLO_COMPRESSION_TOPK, 0.01, true, KOLO_SUM},
                                          {KOLO_COMPRESSION_NONE, 0.01, true, KOLO_SUM}};
    static const struct settings other[] = {{KOLO_COMPRESSION_F16, 0.01, true, KOLO_SUM},
                                            {KOLO_COMPRESSION_TOPK, 0.02, true, KOLO_SUM},
                                            {KOLO_COMPRESSION_ONEBIT, 0.01, true, KOLO_SUM}};
    static const char *const names[] = {"compression", "compression_share", "compression"};
    static const char *const values[][2] = {{"f16", "bf16"}, {"0.02", "0.01"}, {"onebit", "none"}};
    const int which = *(const int *)rank->team->argument;
    const bool differs = rank->rank == rank->ranks - 1;
    struct set set;
    int status = 0;
    if (make_set(&set, rank, differs ? &other[which] : &one[which])) {
        for (size_t i = 0; status == 0 && i < TENSORS; i++)
            status = kolo_bucket_ready(set.buckets, i);
        if (status == 0)
            status = kolo_bucket_wait(set.buckets);
        if (expect_status(rank, status, KOLO_ERR_MISMATCH, "a step with another compression"))
            expect_difference(rank, names[which], values[which][0], rank->ranks - 1, values[which][1]);
    }
    free_set(&set);
}

/* Of buckets that have none, and where they cannot be had. */
static void refuse_residuals(const struct rank *rank, const kolo_tensor *tensor) {
    static const struct {
        kolo_compression kind;
        int feedback;
        size_t tensor;
        bool begins;
        float value;
        const char *word;
    } calls[] = {{KOLO_COMPRESSION_NONE, 1, 0, false, 0, "no residuals"},
                 {KOLO_COMPRESSION_BF16, 0, 0, false, 0, "no residuals"},
                 {KOLO_COMPRESSION_BF16, 1, 1, false, 0, "tensor 1"},
                 {KOLO_COMPRESSION_BF16, 1, 0, true, 0, "kolo_bucket_wait"},
                 {KOLO_COMPRESSION_BF16, 1, 0, false, INFINITY, "element 3"}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
        const float values[4] = {0, 0, 0, calls[i].value};
        kolo_buckets *buckets = NULL;
        options.compression = calls[i].kind;
        options.error_feedback = calls[i].feedback;
        expect_status(rank, kolo_bucket_create(rank->comm, tensor, 1, &options, &buckets), 0, "kolo_bucket_create");
        if (calls[i].begins)
            expect_status(rank, kolo_bucket_ready(buckets, 0), 0, "kolo_bucket_ready");
        expect_status(rank, kolo_bucket_residual(buckets, calls[i].tensor, values, NULL), KOLO_ERR_ARG,
                      "kolo_bucket_residual");
        expect_message(rank, "kolo_bucket_residual", calls[i].word, NULL);
        if (calls[i].begins)
            expect_status(rank, kolo_bucket_wait(buckets), 0, "kolo_bucket_wait");
        const size_t bytes = calls[i].kind == KOLO_COMPRESSION_NONE ? 0 : 8 + (calls[i].feedback ? 16 : 0);
        kolo_bucket_info info = {.info_bytes = sizeof info};
        expect_status(rank, kolo_bucket_query(buckets, &info), 0, "kolo_bucket_query");
        expect(rank, info.held_bytes == bytes, "the buckets hold %zu bytes", info.held_bytes);
        kolo_bucket_destroy(buckets);
    }
}

static void run_refused(struct rank *rank) {
    float values[4] = {0};
    kolo_buckets *buckets = NULL;
    const kolo_tensor tensor = {values, 4};
    static const struct {
        double share;
        kolo_compression kind;
        kolo_dtype dtype;
        kolo_op op;
        const char *word;
    } calls[] = {
        {0.5, KOLO_COMPRESSION_BF16, KOLO_BF16, KOLO_SUM, "f32"},
        {0.5, KOLO_COMPRESSION_ONEBIT, KOLO_I32, KOLO_SUM, "f32"},
        {0.5, KOLO_COMPRESSION_TOPK, KOLO_F32, KOLO_MAX, "sum"},
        {0.0, KOLO_COMPRESSION_TOPK, KOLO_F32, KOLO_SUM, "share"},
        {1.5, KOLO_COMPRESSION_TOPK, KOLO_F32, KOLO_SUM, "share"},
        {NAN, KOLO_COMPRESSION_TOPK, KOLO_F32, KOLO_SUM, "share"},
        {0.5, KOLO_COMPRESSIONS, KOLO_F32, KOLO_SUM, "compression 5"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
        options.dtype = calls[i].dtype;
        options.op = calls[i].op;
        options.compression = calls[i].kind;
        options.compression_share = calls[i].share;
        if (!expect_status(rank, kolo_bucket_create(rank->comm, &tensor, 1, &options, &buckets), KOLO_ERR_ARG,
                           "a compression that is refused") ||
            !expect_message(rank, "kolo_bucket_create", calls[i].word, NULL))
            return;
    }
    refuse_residuals(rank, &tensor);
    for (kolo_compression kind = KOLO_COMPRESSION_NONE; kind < KOLO_COMPRESSIONS; kind++)
        expect(rank, strcmp(kolo_name(KOLO_NAME_COMPRESSION, kind), kinds[kind]) == 0, "compression %d is called %s",
               kind, kolo_name(KOLO_NAME_COMPRESSION, kind));
    expect(rank, !kolo_name(KOLO_NAME_COMPRESSION, KOLO_COMPRESSIONS), "there is one compression more");
}

/* A message that finds no memory for the thread that carries it is issued again by kolo_bucket_wait: what its first
 * encoding left unsent counts once. */
static void run_again(struct rank *rank) {
    const float given[4] = {4 + 1.0f / 512, 3, 2, 1};
    float values[4], left[4];
    const kolo_tensor tensor = {values, 4};
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    kolo_buckets *buckets = NULL;
    struct rlimit before;
    options.compression = *(const kolo_compression *)rank->team->argument;
    options.compression_share = 0.25;
    memcpy(values, given, sizeof given);
    rank->options.progress = 1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") ||
        !expect_status(rank, kolo_bucket_create(rank->comm, &tensor, 1, &options, &buckets), 0, "kolo_bucket_create"))
        return;
    getrlimit(RLIMIT_AS, &before);
    setrlimit(RLIMIT_AS, &(struct rlimit){.rlim_cur = 1 << 20, .rlim_max = before.rlim_max});
    const int status = kolo_bucket_ready(buckets, 0);
    setrlimit(RLIMIT_AS, &before);
    expect_status(rank, status, KOLO_ERR_SYSTEM, "kolo_bucket_ready without memory");
    expect_status(rank, kolo_bucket_wait(buckets), 0, "kolo_bucket_wait");
    expect_status(rank, kolo_bucket_residual(buckets, 0, NULL, left), 0, "kolo_bucket_residual");
    for (int i = 0; i < 4; i++)
        expect(rank, values[i] + left[i] == given[i], "%s, element %d: %g sent and %g left, of %g",
               kinds[options.compression], i, (double)values[i], (double)left[i], (double)given[i]);
    kolo_bucket_destroy(buckets);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

int main(int argc, char **argv) {
    static const int ranks[] = {1, 2, 3, 4, 5, 9};
    static const int which[] = {0, 1, 2};
    harness_begin(argc, argv, "compression of buckets");
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        if (!wants_ranks(ranks[i]))
            continue;
        if (!arguments.quick || ranks[i] == 1 || ranks[i] == 3)
            harness_run(&(struct team){.ranks = ranks[i], .run = run_bits});
        if (ranks[i] == 2 || (!arguments.quick && ranks[i] == 5))
            harness_run(&(struct team){.ranks = ranks[i], .run = run_feedback});
        const bool can_limit = ranks[i] == 1 && !arguments.threads && ADDRESS_SPACE_IS_FREE;
        for (kolo_compression kind = KOLO_COMPRESSION_BF16; can_limit && kind < KOLO_COMPRESSIONS; kind++)
            harness_run(&(struct team){.ranks = 1, .creates_itself = true, .run = run_again, .argument = &kind});
        for (int j = 0; ranks[i] == 3 && j < 3; j++)
            harness_run(&(struct team){.ranks = 3, .run = run_mismatch, .argument = &which[j]});
        if (ranks[i] == 2)
            harness_run(&(struct team){.ranks = 2, .run = run_refused});
    }
    return harness_end();
}
