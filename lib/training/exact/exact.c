/* Exact sums of floats, which do not depend on which rank holds which addend: kolo_exact.h, by the wide sums of
 * reduce/exact. Between ranks these sums travel as integers, by an ordinary all-reduce. */
#include <stdlib.h>
#include <string.h>

#include "kolo_exact.h"
#include "api/path.h"
#include "base/status.h"
#include "cpu/features.h"
#include "cpu/fpenv.h"
#include "reduce/reducer.h"
#include "training/kernels/training_kernels.h"

/* The number of values that one call of an adder gets at most: far fewer additions than may be between carries. */
#define PIECE_COUNT ((size_t)1 << 27)

struct kolo_exact {
    kolo_dtype dtype;
    size_t sums;
    uint32_t additions; /* since the last carry, of any sum; at most KOLO_WIDE_ADDITIONS_MAX */
    kolo_adder_fn *add;
    int64_t words[]; /* kolo_wide_words of each sum */
};

static size_t words_of(const kolo_exact *exact) {
    return exact->sums * kolo_wide_words(exact->dtype);
}

static int64_t *sum_at(kolo_exact *exact, size_t sum) {
    return exact->words + sum * kolo_wide_words(exact->dtype);
}

static void carry(kolo_exact *exact) {
    for (size_t sum = 0; sum < exact->sums; sum++)
        kolo_wide_carry(sum_at(exact, sum), exact->dtype);
    exact->additions = 1; /* what is carried is as one addition */
}

/* Makes room for so many additions, which are no more than KOLO_WIDE_ADDITIONS_MAX - 1. */
static void expect_additions(kolo_exact *exact, size_t additions) {
    if (exact->additions + additions > KOLO_WIDE_ADDITIONS_MAX)
        carry(exact);
    exact->additions += (uint32_t)additions;
}

int kolo_exact_create(kolo_exact **exact, kolo_dtype dtype, size_t sums) {
    uint32_t mask;
    if (!exact)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_create: exact is NULL");
    if (dtype != KOLO_F32 && dtype != KOLO_F64) {
        const char *name = kolo_name(KOLO_NAME_DTYPE, dtype);
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_create: dtype %d (%s): must be f32 or f64", (int)dtype,
                         name ? name : "there is no such dtype");
    }
    const size_t sum_bytes = kolo_wide_words(dtype) * sizeof(int64_t);
    if (sums == 0 || sums > PTRDIFF_MAX / 2 / sum_bytes)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_create: sums %zu: must be from 1 to %zu", sums,
                         PTRDIFF_MAX / 2 / sum_bytes);
    const int rc = kolo_cpu_mask_read(&mask);
    if (rc < 0)
        return rc;
    kolo_exact *made = calloc(1, sizeof *made + sums * sum_bytes);
    if (!made)
        return kolo_fail(KOLO_ERR_SYSTEM, "kolo_exact_create: out of memory for %zu sums of %zu bytes", sums,
                         sum_bytes);
    const kolo_training_kernels *kernels = kolo_training_kernels_of(kolo_reducer_select(kolo_cpu_features() & mask));
    made->dtype = dtype;
    made->sums = sums;
    made->add = dtype == KOLO_F64 ? kernels->add_f64 : kernels->add_f32;
    *exact = made;
    return 0;
}

int kolo_exact_destroy(kolo_exact *exact) {
    free(exact);
    return 0;
}

static void add_to_one(kolo_exact *exact, size_t sum, const char *values, size_t count) {
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    for (size_t done = 0; done < count;) {
        const size_t piece = count - done < PIECE_COUNT ? count - done : PIECE_COUNT;
        expect_additions(exact, 2 * piece + 64);
        exact->add(sum_at(exact, sum), values + done * kolo_dtype_bytes(exact->dtype), piece);
        done += piece;
    }
    kolo_fpenv_leave(callers_fpenv);
}

static void add_to_several(kolo_exact *exact, size_t first, size_t sums, const char *next, size_t rows) {
    for (size_t row = 0; row < rows; row++) {
        expect_additions(exact, 1);
        for (size_t sum = first; sum < first + sums; sum++, next += kolo_dtype_bytes(exact->dtype)) {
            uint64_t wide;
            uint32_t narrow;
            if (exact->dtype == KOLO_F64)
                kolo_wide_add_f64(sum_at(exact, sum), *(const uint64_t *)memcpy(&wide, next, sizeof wide));
            else
                kolo_wide_add_f32(sum_at(exact, sum), *(const uint32_t *)memcpy(&narrow, next, sizeof narrow));
        }
    }
}

int kolo_exact_add(kolo_exact *exact, size_t first, size_t sums, const void *values, size_t rows) {
    if (!exact)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_add: exact is NULL");
    if (first > exact->sums || sums > exact->sums - first)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_add: %zu sums from %zu on: there are %zu", sums, first, exact->sums);
    if (!values && rows)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_add: values is NULL with %zu rows", rows);
    if (sums == 1)
        add_to_one(exact, first, values, rows);
    else
        add_to_several(exact, first, sums, values, rows);
    return 0;
}

int kolo_exact_merge(kolo_exact *exact, const kolo_exact *other) {
    if (!exact || !other)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_merge: %s is NULL", exact ? "other" : "exact");
    if (exact->dtype != other->dtype || exact->sums != other->sums)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_merge: %zu sums of %s and %zu of %s: must be the same", exact->sums,
                         kolo_name(KOLO_NAME_DTYPE, exact->dtype), other->sums,
                         kolo_name(KOLO_NAME_DTYPE, other->dtype));
    /* Digits of both may be as large as KOLO_WIDE_ADDITIONS_MAX allows: there is room for the two together. */
    for (size_t i = 0; i < words_of(exact); i++)
        exact->words[i] += other->words[i];
    carry(exact);
    return 0;
}

/* One of the items that ranks have to pass alike, which the words' type and count tell, too. */
static struct kolo_item item_of(const void *context, size_t index) {
    const kolo_exact *exact = context;
    return index == 0 ? kolo_item_named("dtype", KOLO_NAME_DTYPE, exact->dtype) : kolo_item_number("sums", exact->sums);
}

int kolo_exact_allreduce(kolo_comm *comm, kolo_exact *exact, kolo_request **request) {
    static const char *const function = "kolo_exact_allreduce";
    if (!exact)
        return kolo_fail(KOLO_ERR_ARG, "%s: exact is NULL", function);
    if (comm && comm->is_lane) /* the threads of all lanes would carry the same sums */
        return kolo_unusable(function, comm);
    carry(exact); /* so that the words of all ranks can be added */
    exact->additions = KOLO_RANKS_MAX;
    /* Sums of F32 and F64 differ in the type of their words, so that ranks whose types differ find out. */
    const kolo_dtype dtype = exact->dtype == KOLO_F64 ? KOLO_U64 : KOLO_I64;
    struct kolo_arguments call = WITH_COUNT(exact->words, exact->words, words_of(exact), dtype, KOLO_SUM, 0);
    call.items = (struct kolo_items){2, item_of, exact};
    return request ? kolo_path_issue(KOLO_ALLREDUCE, function, comm, &call, request)
                   : kolo_path_make(KOLO_ALLREDUCE, function, comm, &call);
}

int kolo_exact_round(const kolo_exact *exact, void *results) {
    if (!exact || !results)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_round: %s is NULL", exact ? "results" : "exact");
    for (size_t sum = 0; sum < exact->sums; sum++) {
        const uint64_t bits = kolo_wide_round(exact->words + sum * kolo_wide_words(exact->dtype), exact->dtype);
        const uint32_t narrow = (uint32_t)bits;
        if (exact->dtype == KOLO_F64)
            memcpy((char *)results + sum * sizeof bits, &bits, sizeof bits);
        else
            memcpy((char *)results + sum * sizeof narrow, &narrow, sizeof narrow);
    }
    return 0;
}

int kolo_exact_reset(kolo_exact *exact) {
    if (!exact)
        return kolo_fail(KOLO_ERR_ARG, "kolo_exact_reset: exact is NULL");
    memset(exact->words, 0, words_of(exact) * sizeof *exact->words);
    exact->additions = 0;
    return 0;
}
