/* kolo_allreduce_apply: every rank ends up with what the owners of all elements have made of their own parameters and
 * of what kolo_allreduce gives for the gradients; each element is updated once, by its owner, whose ranges cover the
 * message. In private memory and in buffers of kolo_alloc on all ranks or on some, without gradients, without
 * parameters, in the background, by several threads a rank; and what is refused. */
#include <stdlib.h>
#include <string.h>

#include "kolo_optimizer.h"
#include "harness.h"

enum { SLOT_BYTES = 4096, BUFFER_BYTES = 1 << 18, PENDING = 4 };

/* What one call is. */
struct call {
    kolo_dtype dtype;
    kolo_op op;
    size_t count;
    bool no_gradients, no_parameters;
    unsigned mapped;     /* bits: 1 the gradients, 2 the parameters are in buffers of kolo_alloc */
    bool mapped_on_some; /* ranks only */
    size_t shift;        /* bytes by which buffers are not aligned */
    uint64_t seed;
};

/* One rank's side of it. */
struct side {
    const struct rank *rank;
    const struct call *call;
    size_t element_bytes, first, owned;
    uint8_t *gradients, *parameters; /* as passed, or NULL */
    uint8_t *memory[2];              /* to free */
    uint8_t *kept;                   /* reduced gradients, where there are no parameters */
    uint8_t *times;                  /* how often each element was updated */
    bool is_wrong;
};

static uint8_t mixed(uint8_t parameter, uint8_t gradient, size_t element) {
    return (uint8_t)(parameter * 5 + gradient * 3 + (uint8_t)(element * 7) + 1);
}

static void update(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    struct side *side = context;
    const size_t bytes = side->element_bytes;
    if (first < side->first || first + count > side->first + side->owned || !gradients != side->call->no_gradients ||
        (side->call->no_parameters ? parameters != NULL : (uint8_t *)parameters != side->parameters + first * bytes)) {
        side->is_wrong = true;
        return;
    }
    for (size_t i = 0; i < count * bytes; i++) {
        const uint8_t gradient = gradients ? ((const uint8_t *)gradients)[i] : 0;
        if (parameters)
            ((uint8_t *)parameters)[i] = mixed(((uint8_t *)parameters)[i], gradient, first + i / bytes);
        else
            side->kept[first * bytes + i] = gradient;
    }
    for (size_t i = 0; i < count; i++)
        side->times[first + i]++;
}

/* A rank's input: small integers for floats too, so that sums mean something. */
static void fill(void *values, const struct call *call, int rank, uint64_t part) {
    uint64_t random = call->seed * 31 + (uint64_t)rank * 2 + part;
    uint8_t *bytes = values;
    for (size_t i = 0; i < call->count; i++) {
        const int value = (int)random_below(&random, 64) - 32;
        if (call->dtype == KOLO_F32)
            memcpy(bytes + 4 * i, &(float){(float)value / 8}, 4);
        else if (call->dtype == KOLO_F64)
            memcpy(bytes + 8 * i, &(double){(double)value / 8}, 8);
        else if (call->dtype == KOLO_BF16 || call->dtype == KOLO_F16)
            memcpy(bytes + 2 * i, &(uint16_t){(uint16_t)(0x3c00 + value)}, 2);
        else
            memset(bytes + i * kolo_dtype_bytes(call->dtype), value, kolo_dtype_bytes(call->dtype));
    }
}

static uint8_t *place(const struct rank *rank, const struct call *call, unsigned which, void *const *buffers,
                      uint8_t **memory) {
    const bool is_mapped = call->mapped >> which & 1 && (!call->mapped_on_some || rank->rank % 2 == 0);
    *memory = is_mapped ? NULL : malloc(call->count * kolo_dtype_bytes(call->dtype) + call->shift + 1);
    return (is_mapped ? (uint8_t *)buffers[which] : *memory) + call->shift;
}

static void prepare(struct side *side, const struct rank *rank, const struct call *call, void *const *buffers) {
    *side = (struct side){.rank = rank, .call = call, .element_bytes = kolo_dtype_bytes(call->dtype)};
    kolo_apply_owned(rank->comm, rank->rank, call->count, call->dtype, &side->first, &side->owned);
    side->gradients = place(rank, call, 0, buffers, &side->memory[0]);
    side->parameters = place(rank, call, 1, buffers, &side->memory[1]);
    side->kept = calloc(call->count + 1, side->element_bytes);
    side->times = calloc(call->count + 1, 1);
    fill(side->gradients, call, rank->rank, 0);
    fill(side->parameters, call, rank->rank, 1);
}

/* What a rank must have at the end. `reduced`: of kolo_allreduce. */
static bool is_right(struct side *side, const uint8_t *reduced) {
    const struct call *call = side->call;
    const struct rank *rank = side->rank;
    const size_t bytes = side->element_bytes;
    uint8_t *owners = malloc(call->count * bytes + 1);
    size_t end = 0;
    bool right = expect(rank, !side->is_wrong, "the function got what is not the rank's");
    for (int owner = 0; right && owner < rank->ranks; owner++) {
        size_t first, owned;
        expect_status(rank, kolo_apply_owned(rank->comm, owner, call->count, call->dtype, &first, &owned), 0, "owned");
        right = expect(rank, first == end && (owned == 0 || first * bytes % 128 == 0), "rank %d owns %zu from %zu on",
                       owner, owned, first);
        fill(owners, call, owner, 1);
        end += owned;
        for (size_t i = first * bytes; right && i < (first + owned) * bytes; i++) {
            const uint8_t gradient = call->no_gradients ? 0 : reduced[i];
            const bool own = owner == rank->rank;
            right = call->no_parameters
                        ? expect(rank, !own || side->kept[i] == gradient, "byte %zu of the gradients is wrong", i)
                        : expect(rank, side->parameters[i] == mixed(owners[i], gradient, i / bytes),
                                 "byte %zu of rank %d's range is wrong, of %zu elements", i, owner, call->count);
            right = right && expect(rank, side->times[i / bytes] == own, "element %zu was updated %d times", i / bytes,
                                    side->times[i / bytes]);
        }
    }
    right = right && expect(rank, end == call->count, "ranges end at %zu, not %zu", end, call->count);
    free(owners);
    return right;
}

static bool conclude(struct side *side, int status) {
    const struct call *call = side->call;
    uint8_t *reduced = malloc(call->count * side->element_bytes + 1),
            *again = malloc(call->count * side->element_bytes + 1);
    bool right = expect_status(side->rank, status, 0, "kolo_allreduce_apply");
    fill(again, call, side->rank->rank, 0);
    right =
        right &&
        expect(side->rank, memcmp(again, side->gradients, call->count * side->element_bytes) == 0,
               "gradients have changed") &&
        expect_status(side->rank, kolo_allreduce(side->rank->comm, again, reduced, call->count, call->dtype, call->op),
                      0, "kolo_allreduce") &&
        is_right(side, reduced);
    free(reduced);
    free(again);
    free(side->kept);
    free(side->times);
    free(side->memory[0]);
    free(side->memory[1]);
    return right;
}

static bool run_call(const struct rank *rank, const struct call *call, void *const *buffers) {
    struct side side;
    prepare(&side, rank, call, buffers);
    return conclude(&side, kolo_allreduce_apply(rank->comm, call->no_gradients ? NULL : side.gradients,
                                                call->no_parameters ? NULL : side.parameters, call->count, call->dtype,
                                                call->op, update, &side));
}

static struct call draw_call(uint64_t *random, int ranks) {
    static const kolo_dtype dtypes[] = {KOLO_F32, KOLO_BF16, KOLO_F64, KOLO_F16, KOLO_I8, KOLO_U32};
    static const size_t counts[] = {0, 1, 31, 33, 200, 1000, 3001, 9000};
    const uint64_t draw = random_next(random);
    struct call call = {.dtype = dtypes[draw % 6], .op = draw >> 8 & 1 ? KOLO_AVG : KOLO_SUM, .seed = draw >> 20};
    call.count = counts[(draw >> 10) % (ranks > 9 ? 6 : 8)] + (draw >> 14 & 3);
    call.no_gradients = (draw >> 24) % 7 == 0;
    call.no_parameters = (draw >> 28) % 7 == 1 && !call.no_gradients;
    call.mapped = draw >> 32 & 3;
    call.mapped_on_some = (draw >> 36) % 5 == 0;
    call.shift = (draw >> 40) % 3 ? 0 : 1 + (draw >> 42) % 9;
    return call;
}

static void run_drawn(struct rank *rank) {
    uint64_t random = random_seed(1, (uint64_t)rank->ranks);
    void *buffers[2];
    for (int i = 0; i < 2; i++)
        if (!expect_status(rank, kolo_alloc(rank->comm, BUFFER_BYTES, &buffers[i]), 0, "kolo_alloc"))
            return;
    const int calls = (arguments.quick ? 30 : 120) / (rank->ranks > 9 ? 6 : rank->ranks > 5 ? 2 : 1);
    for (int i = 0; i < calls; i++) {
        const struct call call = draw_call(&random, rank->ranks);
        if (!run_call(rank, &call, buffers))
            return;
    }
}

static void run_background(struct rank *rank) {
    uint64_t random = random_seed(2, (uint64_t)rank->ranks);
    rank->options.progress = rank->ranks % 2 ? 1 : -1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    bool right = true;
    for (int round = 0; right && round < 6; round++) {
        struct call calls[PENDING];
        struct side sides[PENDING];
        kolo_request *requests[PENDING] = {NULL};
        for (int i = 0; right && i < PENDING; i++) {
            calls[i] = draw_call(&random, rank->ranks);
            calls[i].mapped = 0;
            prepare(&sides[i], rank, &calls[i], NULL);
            const int rc = kolo_iallreduce_apply(rank->comm, calls[i].no_gradients ? NULL : sides[i].gradients,
                                                 calls[i].no_parameters ? NULL : sides[i].parameters, calls[i].count,
                                                 calls[i].dtype, calls[i].op, update, &sides[i], &requests[i]);
            right = expect_status(rank, rc, 0, "kolo_iallreduce_apply");
        }
        int statuses[PENDING] = {0};
        for (int i = 0; i < PENDING; i++)
            statuses[i] = kolo_request_wait(requests[i]);
        for (int i = 0; right && i < PENDING; i++)
            right = conclude(&sides[i], statuses[i]);
    }
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* Large enough for helpers, and for slots of the default size to be filled several times. */
static void run_large(struct rank *rank) {
    rank->options.threads = 3;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    const struct call call = {.dtype = KOLO_F32, .op = KOLO_AVG, .count = 700001, .seed = 5};
    run_call(rank, &call, NULL);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_refused(struct rank *rank) {
    float gradients[8] = {0}, parameters[8] = {0};
    size_t first, owned;
    kolo_comm *comm = rank->comm;
    const struct call call = {.dtype = KOLO_F32, .op = KOLO_AVG, .count = 8};
    refused(rank, kolo_allreduce_apply(comm, gradients, parameters, 8, KOLO_F32, KOLO_AVG, NULL, NULL),
            "function is NULL");
    refused(rank, kolo_allreduce_apply(comm, NULL, NULL, 8, KOLO_F32, KOLO_AVG, update, NULL), "both NULL");
    refused(rank, kolo_allreduce_apply(comm, gradients, gradients, 8, KOLO_F32, KOLO_AVG, update, NULL), "overlap");
    refused(rank, kolo_allreduce_apply(comm, gradients, gradients + 4, 8, KOLO_F32, KOLO_AVG, update, NULL), "overlap");
    refused(rank, kolo_allreduce_apply(comm, gradients, parameters, 8, KOLO_F32, KOLO_BAND, update, NULL), "band");
    refused(rank, kolo_allreduce_apply(comm, gradients, parameters, SIZE_MAX, KOLO_F32, KOLO_AVG, update, NULL),
            "count");
    refused(rank, kolo_allreduce_apply(NULL, gradients, parameters, 8, KOLO_F32, KOLO_AVG, update, NULL),
            "comm is NULL");
    refused(rank, kolo_iallreduce_apply(comm, gradients, parameters, 8, KOLO_F32, KOLO_AVG, update, NULL, NULL),
            "request is NULL");
    refused(rank, kolo_apply_owned(comm, rank->ranks, 8, KOLO_F32, &first, &owned), "must be from 0");
    refused(rank, kolo_apply_owned(comm, 0, 8, KOLO_DTYPES, &first, &owned), "no such dtype");
    refused(rank, kolo_apply_owned(comm, 0, 8, KOLO_F32, NULL, &owned), "first is NULL");
    run_call(rank, &call, NULL); /* it goes on */
}

/* Ranks that do not agree on whether there are gradients, or on anything else. */
static void run_different(struct rank *rank) {
    static uint8_t gradients[6000], parameters[6000];
    static const char *const odd_call[] = {
        "allreduce_apply of 1001 f32, avg", "allreduce_apply of 1000 f32 without gradients, avg",
        "allreduce_apply of 1000 f32 without parameters, avg", "allreduce of 1000 f32, avg"};
    const int what = *(const int *)rank->team->argument;
    const bool odd = rank->rank == 1;
    const size_t count = odd && what == 0 ? 1001 : 1000;
    struct side side = {.rank = rank};
    const struct call call = {.dtype = KOLO_F32, .no_gradients = odd && what == 1, .no_parameters = odd && what == 2};
    side.call = &call;
    side.kept = calloc(1001, 4);
    side.times = calloc(1001, 1);
    side.parameters = parameters;
    side.element_bytes = 4;
    side.owned = 1001;
    int status = 0;
    for (int i = 0; status == 0 && i < 3; i++)
        status = odd && what == 3 ? kolo_allreduce(rank->comm, gradients, parameters, count, KOLO_F32, KOLO_AVG)
                                  : kolo_allreduce_apply(rank->comm, call.no_gradients ? NULL : gradients,
                                                         call.no_parameters ? NULL : parameters, count, KOLO_F32,
                                                         KOLO_AVG, update, &side);
    if (expect_status(rank, status, KOLO_ERR_MISMATCH, "ranks that differ"))
        expect_message(rank, "ranks that differ", "disagree", "allreduce_apply of 1000 f32, avg", odd_call[what], NULL);
    free(side.kept);
    free(side.times);
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 9, 33};
    harness_begin(argc, argv, "Checks kolo_allreduce_apply.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!wants_ranks(counts[i]))
            continue;
        harness_run(&(struct team){.ranks = counts[i], .slot_bytes = SLOT_BYTES, .run = run_drawn});
        if (counts[i] <= 4) {
            harness_run(&(struct team){
                .ranks = counts[i], .algorithm = KOLO_ALGORITHM_DIRECT, .slot_bytes = SLOT_BYTES, .run = run_drawn});
            harness_run(&(struct team){
                .ranks = counts[i], .slot_bytes = SLOT_BYTES, .creates_itself = true, .run = run_background});
        }
    }
    for (int ranks = 2; ranks <= 3; ranks++)
        if (wants_ranks(ranks))
            harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run_large});
    if (wants_ranks(2))
        harness_run(&(struct team){.ranks = 2, .run = run_refused});
    for (int what = 0; wants_ranks(3) && what < 4; what++)
        harness_run(&(struct team){.ranks = 3, .slot_bytes = SLOT_BYTES, .run = run_different, .argument = &what});
    return harness_end();
}
