/* kolo_exact: the same addends give the same bits, however many ranks hold them and in whatever order, and those are
 * the bits of the true sum; and the calls refuse what they must. --calls N: of so many addends, once, for instance ten
 * million. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_exact.h"
#include "kolo_lanes.h"
#include "harness.h"
#include "oracle.h"

enum { ORACLE_COUNT = 1000, SUMS = 3, PARTS_MAX = 16, SPLITS = 3 };

/* What the addends are like. */
enum { ADDENDS_NEAR, ADDENDS_CANCEL, ADDENDS_WIDE, ADDENDS_TINY, ADDENDS_TIES, ADDENDS_HUGE, ADDENDS_STYLES };

struct addends {
    kolo_dtype dtype;
    int style;
    size_t count;
    uint64_t seed;
};

/* Addend number i of all, the same whoever holds it. */
static double addend(const struct addends *of, size_t i) {
    const bool is_wide = of->dtype == KOLO_F64;
    uint64_t state = of->seed + (of->style == ADDENDS_CANCEL ? i / 2 : i);
    const uint64_t draw = random_next(&state);
    const int range = is_wide ? 1000 : 120, some = (int)(draw >> 1 & 1023);
    const double fraction = is_wide ? (double)(draw >> 11) * 0x1p-53 : (double)(draw >> 40) * 0x1p-24;
    const double value = draw & 1 ? fraction : -fraction;
    switch (of->style) {
    case ADDENDS_NEAR:
        return value;
    case ADDENDS_CANCEL: /* in pairs, but for a last one that is by far the smallest */
        return i % 2 == 0 && i + 1 == of->count ? ldexp(0.75, -range) : ldexp(i % 2 ? value : -value, some % range);
    case ADDENDS_WIDE:
        return ldexp(value, some % (2 * range) - range);
    case ADDENDS_TINY:
        return ldexp(value, is_wide ? -1030 : -130);
    case ADDENDS_TIES: /* a number, and halves of its last place: even only if all of them are counted */
        return i == 0 ? 1.0 : ldexp(1.0, is_wide ? -53 : -24);
    default: /* HUGE: the largest numbers, of which parts overflow, and zeros */
        return some % 4 == 0 ? 0.0 * value : (i % 2 ? -1 : 1) * (is_wide ? 0x1.fffffffffffffp1023 : 0x1.fffffep127);
    }
}

static void store(kolo_dtype dtype, void *values, size_t index, double value) {
    const float narrow = (float)value;
    if (dtype == KOLO_F64)
        memcpy((char *)values + index * sizeof value, &value, sizeof value);
    else
        memcpy((char *)values + index * sizeof narrow, &narrow, sizeof narrow);
}

/* Where place i is in a permutation of `count`: an affine map modulo a power of two, again while it leads outside. */
static size_t shuffled(size_t i, size_t count, uint64_t draw) {
    size_t room = 1;
    while (room < count)
        room *= 2;
    do
        i = (i * (size_t)(draw | 1) + (size_t)(draw >> 32 | 1)) & (room - 1);
    while (i >= count);
    return i;
}

/* Where the part of a rank ends, of any length: the same on all ranks. */
static size_t part_end(size_t count, int ranks, int rank, uint64_t split) {
    size_t cuts[PARTS_MAX + 1], below = 0;
    if (rank < 0)
        return 0;
    if (rank + 1 >= ranks)
        return count;
    for (int i = 0; i + 1 < ranks; i++)
        cuts[i] = (size_t)random_below(&split, count + 1);
    for (;; below++) { /* the cut with `rank` others before it */
        int before = 0;
        for (int i = 0; i + 1 < ranks; i++)
            before += cuts[i] < cuts[below] || (cuts[i] == cuts[below] && (size_t)i < below);
        if (before == rank)
            return cuts[below];
    }
}

/* Adds values in pieces, to one or the other. */
static void add_in_pieces(const struct rank *rank, kolo_exact *const exact[2], const char *values, size_t count,
                          size_t element_bytes, uint64_t random) {
    const size_t piece_max = random % 2 ? 3000 : count + 1;
    for (size_t done = 0; done < count;) {
        const size_t left = count - done, drawn = 1 + (size_t)random_below(&random, piece_max);
        const size_t piece = drawn < left ? drawn : left;
        expect_status(rank, kolo_exact_add(exact[random_next(&random) % 2], 1, 1, values + done * element_bytes, piece),
                      0, "kolo_exact_add");
        done += piece;
    }
}

static void reduce(const struct rank *rank, kolo_exact *exact, bool in_background) {
    kolo_request *request = NULL;
    if (!in_background) {
        expect_status(rank, kolo_exact_allreduce(rank->comm, exact, NULL), 0, "kolo_exact_allreduce");
        return;
    }
    if (expect_status(rank, kolo_exact_allreduce(rank->comm, exact, &request), 0, "kolo_exact_allreduce"))
        expect_status(rank, kolo_request_wait(request), 0, "kolo_request_wait");
}

/* The bits of the sum over all ranks, of which this one adds its part. */
static uint64_t sum_of(const struct rank *rank, const struct addends *of, uint64_t split) {
    const size_t element_bytes = kolo_dtype_bytes(of->dtype);
    const size_t first = part_end(of->count, rank->ranks, rank->rank - 1, split);
    const size_t count = part_end(of->count, rank->ranks, rank->rank, split) - first;
    char *values = malloc(count * element_bytes + 1), results[SUMS * sizeof(double)];
    uint64_t bits[SUMS] = {0};
    kolo_exact *exact[2] = {NULL, NULL};
    for (size_t i = 0; i < count; i++)
        store(of->dtype, values, i, addend(of, shuffled(first + i, of->count, split)));
    for (int i = 0; i < 2; i++)
        expect_status(rank, kolo_exact_create(&exact[i], of->dtype, SUMS), 0, "kolo_exact_create");
    add_in_pieces(rank, exact, values, count, element_bytes, split ^ (uint64_t)rank->rank);
    expect_status(rank, kolo_exact_merge(exact[0], exact[1]), 0, "kolo_exact_merge");
    reduce(rank, exact[0], split >> 20 & 1);
    expect_status(rank, kolo_exact_round(exact[0], results), 0, "kolo_exact_round");
    for (int sum = 0; sum < SUMS; sum++)
        memcpy(&bits[sum], results + (size_t)sum * element_bytes, element_bytes);
    expect(rank, bits[0] == 0 && bits[2] == 0, "the sums of nothing are %" PRIx64 " and %" PRIx64, bits[0], bits[2]);
    kolo_exact_destroy(exact[0]);
    kolo_exact_destroy(exact[1]);
    free(values);
    return bits[1];
}

/* What the sum must be, where something else can tell. */
static bool true_sum(const struct addends *of, uint64_t *bits) {
    double values[ORACLE_COUNT];
    const void *inputs[ORACLE_COUNT];
    *bits = 0;
    if (of->style == ADDENDS_CANCEL && of->count % 2) {
        store(of->dtype, bits, 0, addend(of, of->count - 1));
        return true;
    }
    for (size_t i = 0; i < of->count && of->count <= ORACLE_COUNT; i++) {
        store(of->dtype, &values[i], 0, addend(of, i));
        inputs[i] = &values[i];
    }
    if (of->count <= ORACLE_COUNT && of->count > 1)
        oracle_fold(of->dtype, KOLO_SUM_EXACT, inputs, (int)of->count, (int)of->count, 1, bits);
    return of->count <= ORACLE_COUNT && of->count > 1;
}

static void run_sums(struct rank *rank) {
    static const size_t counts[] = {2, 3, 100, 999, 1000, 20001};
    const size_t asked = arguments.calls ? arguments.calls : 0, sizes = asked ? 1 : sizeof counts / sizeof *counts;
    uint32_t index = 0;
    for (kolo_dtype dtype = KOLO_F32; dtype <= KOLO_F64; dtype++)
        for (int style = 0; style < (asked ? ADDENDS_TINY : ADDENDS_STYLES); style++)
            for (size_t i = 0; i < sizes; i++) {
                const struct addends of = {dtype, style, asked ? asked | 1 : counts[i], random_seed(1, index)};
                uint64_t due, found = 0;
                const bool is_known = true_sum(&of, &due);
                for (int split = 0; split < (asked ? 1 : SPLITS); split++) {
                    const uint64_t draw = random_seed(2 + (uint64_t)rank->ranks, index * SPLITS + (uint32_t)split);
                    found = sum_of(rank, &of, draw);
                    if (!is_known && split == 0)
                        due = found;
                    if (!expect(rank, found == due,
                                "%s: %zu addends of style %d, split %d: %" PRIx64 " and not %" PRIx64,
                                kolo_name(KOLO_NAME_DTYPE, dtype), of.count, style, split, found, due))
                        return;
                }
                record_result(rank, index++, found);
            }
    record_result(rank, index, 1);
}

/* Every team's results are those of one rank. */
static void run_all_ranks(void) {
    static const int teams[] = {1, 2, 3, 4, 5, 7, 9, 16};
    static uint64_t of_one[1000];
    for (size_t i = 0; i < sizeof teams / sizeof *teams; i++) {
        if (teams[i] > 1 && !wants_ranks(teams[i]))
            continue;
        harness_run(&(struct team){.ranks = teams[i], .slot_bytes = 16384, .run = run_sums});
        for (uint32_t index = 0; index < sizeof of_one / sizeof *of_one; index++) {
            if (teams[i] == 1)
                of_one[index] = recorded_result(index);
            expect(NULL, of_one[index] == recorded_result(index),
                   "result %u of %d ranks is %" PRIx64 ", and of one %" PRIx64, index, teams[i], recorded_result(index),
                   of_one[index]);
        }
    }
}

/* Adds special values, on any rank; the sum's bits. */
static float sum_of_special(const struct rank *rank, const float *values, size_t count) {
    kolo_exact *exact = NULL;
    float results[3] = {1, 1, 1};
    expect_status(rank, kolo_exact_create(&exact, KOLO_F32, 3), 0, "kolo_exact_create");
    for (size_t i = 0; i < count; i++)
        if ((int)(i % (size_t)rank->ranks) == rank->rank) {
            const float row[] = {values[i], values[i]};
            expect_status(rank, kolo_exact_add(exact, 1, 2, row, 1), 0, "kolo_exact_add");
            expect_status(rank, kolo_exact_add(exact, 0, 1, row, 1), 0, "kolo_exact_add");
        }
    reduce(rank, exact, false);
    expect_status(rank, kolo_exact_round(exact, results), 0, "kolo_exact_round");
    expect(rank, memcmp(results, results + 1, 2 * sizeof *results) == 0, "the same addends have sums %a, %a and %a",
           (double)results[0], (double)results[1], (double)results[2]);
    kolo_exact_destroy(exact);
    return results[0];
}

static void run_special(struct rank *rank) {
    static const struct {
        float values[4];
        uint32_t due;
    } cases[] = {
        {{INFINITY, 1, -5, 0}, 0x7f800000},
        {{1, -INFINITY, 1, -INFINITY}, 0xff800000},
        {{INFINITY, 1, -INFINITY, 2}, 0x7fc00000},
        {{1, 2, -NAN, INFINITY}, 0x7fc00000},
        {{-0.0f, -0.0f, -0.0f, -0.0f}, 0x80000000},
        {{-0.0f, -0.0f, 0.0f, -0.0f}, 0},
        {{-0.0f, -1, 1, -0.0f}, 0},
        {{0x1.fffffep127f, 0x1p103f, 0, 0}, 0x7f800000}, /* a tie: away from the largest number, which is odd */
        {{0x1.fffffep127f, 0x1p103f, -0x1p-149f, 0}, 0x7f7fffff},
        {{0x1.fffffep127f, 0x1.fffffep127f, -0x1.fffffep127f, 1}, 0x7f7fffff},
        {{1, 0x1p-24f, 0, 0}, 0x3f800000}, /* ties to even */
        {{1, 0x1p-24f, 0x1p-149f, 0}, 0x3f800001},
        {{0x1p-149f, 0x1p-149f, 0x1p-126f, 0}, 0x00800002},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float found = sum_of_special(rank, cases[i].values, 4);
        uint32_t bits;
        memcpy(&bits, &found, sizeof bits);
        expect(rank, bits == cases[i].due, "case %zu: %" PRIx32 " and not %" PRIx32, i, bits, cases[i].due);
    }
}

/* Several sums, by rows; doubled by themselves; used again. */
static void run_rows(struct rank *rank) {
    enum { WIDTH = 500, ROWS = 7 };
    double values[ROWS][WIDTH];
    double results[WIDTH];
    kolo_exact *exact = NULL;
    expect_status(rank, kolo_exact_create(&exact, KOLO_F64, WIDTH), 0, "kolo_exact_create");
    for (int time = 0; time < 2; time++) {
        for (int i = 0; i < ROWS * WIDTH; i++)
            values[i / WIDTH][i % WIDTH] = i % WIDTH + rank->rank + time + ldexp(1, -60 * (i / WIDTH));
        expect_status(rank, kolo_exact_add(exact, 0, WIDTH, values, ROWS), 0, "kolo_exact_add");
        expect_status(rank, kolo_exact_merge(exact, exact), 0, "kolo_exact_merge");
        reduce(rank, exact, time == 1);
        expect_status(rank, kolo_exact_round(exact, results), 0, "kolo_exact_round");
        for (int i = 0; i < WIDTH; i++) {
            const double n = rank->ranks, whole = 2 * n * (ROWS * (i + time + (n - 1) / 2) + 1);
            if (!expect(rank, results[i] == whole, "sum %d is %a, and not %a", i, results[i], whole))
                break;
        }
        expect_status(rank, kolo_exact_reset(exact), 0, "kolo_exact_reset");
    }
    kolo_exact_destroy(exact);
}

static void run_refused(struct rank *rank) {
    kolo_exact *exact = NULL, *other = NULL;
    kolo_request *request = NULL;
    float value = 1, results[2];
    rank->options.threads = 2;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    refused(rank, kolo_exact_create(NULL, KOLO_F32, 1), "exact is NULL");
    refused(rank, kolo_exact_create(&exact, KOLO_F16, 1), "must be f32 or f64");
    refused(rank, kolo_exact_create(&exact, (kolo_dtype)77, 1), "there is no such dtype");
    refused(rank, kolo_exact_create(&exact, KOLO_F32, 0), "sums 0");
    refused(rank, kolo_exact_create(&exact, KOLO_F64, SIZE_MAX / 100), "must be from 1 to");
    expect(rank, !exact, "a refused kolo_exact_create sets the handle");
    expect_status(rank, kolo_exact_create(&exact, KOLO_F32, 2), 0, "kolo_exact_create");
    expect_status(rank, kolo_exact_create(&other, KOLO_F32, 1), 0, "kolo_exact_create");
    refused(rank, kolo_exact_add(NULL, 0, 1, &value, 1), "exact is NULL");
    refused(rank, kolo_exact_add(exact, 2, 1, &value, 1), "1 sums from 2 on: there are 2");
    refused(rank, kolo_exact_add(exact, 1, SIZE_MAX, &value, 1), "there are 2");
    refused(rank, kolo_exact_add(exact, 0, 1, NULL, 5), "values is NULL with 5 rows");
    refused(rank, kolo_exact_add(exact, 0, 2, NULL, 3), "values is NULL with 3 rows");
    refused(rank, kolo_exact_merge(exact, NULL), "other is NULL");
    refused(rank, kolo_exact_merge(exact, other), "2 sums of f32 and 1 of f32");
    refused(rank, kolo_exact_round(exact, NULL), "results is NULL");
    refused(rank, kolo_exact_reset(NULL), "exact is NULL");
    refused(rank, kolo_exact_allreduce(rank->comm, NULL, NULL), "exact is NULL");
    refused(rank, kolo_exact_allreduce(NULL, exact, NULL), "comm is NULL");
    refused(rank, kolo_exact_allreduce(NULL, exact, &request), "comm is NULL");
    refused(rank, kolo_exact_allreduce(rank->comm, NULL, &request), "exact is NULL");
    refused(rank, kolo_exact_allreduce(kolo_comm_lane(rank->comm, 1), exact, NULL), "is a lane");
    expect_status(rank, kolo_exact_add(exact, 0, 1, NULL, 0), 0, "no values");
    expect_status(rank, kolo_exact_add(exact, 1, 1, &value, 1), 0, "kolo_exact_add");
    reduce(rank, exact, false); /* all that was refused changed nothing */
    expect_status(rank, kolo_exact_round(exact, results), 0, "kolo_exact_round");
    expect(rank, results[0] == 0 && results[1] == (float)rank->ranks, "%g and %g", (double)results[0],
           (double)results[1]);
    expect_status(rank, kolo_exact_destroy(NULL), 0, "kolo_exact_destroy of NULL");
    kolo_exact_destroy(other);
    kolo_exact_destroy(exact);
}

/* Sums of another dtype, though of as many bytes. */
static void run_mismatch(struct rank *rank) {
    kolo_exact *exact = NULL;
    const bool is_odd = rank->rank == 1;
    expect_status(rank, kolo_exact_create(&exact, is_odd ? KOLO_F64 : KOLO_F32, is_odd ? 16 : 73), 0,
                  "kolo_exact_create");
    if (expect_status(rank, kolo_exact_allreduce(rank->comm, exact, NULL), KOLO_ERR_MISMATCH, "kolo_exact_allreduce"))
        expect_difference(rank, "dtype", "f64", 1, "f32");
    kolo_exact_destroy(exact);
}

static void run_other_number(struct rank *rank) {
    kolo_exact *exact = NULL;
    kolo_request *request = NULL;
    expect_status(rank, kolo_exact_create(&exact, KOLO_F64, rank->rank == 1 ? 7 : 8), 0, "kolo_exact_create");
    expect_status(rank, kolo_exact_allreduce(rank->comm, exact, &request), 0, "kolo_exact_allreduce");
    if (expect_status(rank, kolo_request_wait(request), KOLO_ERR_MISMATCH, "kolo_request_wait"))
        expect_difference(rank, "sums", "7", 1, "8");
    kolo_exact_destroy(exact);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Checks kolo_exact.");
    run_all_ranks();
    for (int ranks = 1; ranks <= 4 && !arguments.calls; ranks++)
        if (wants_ranks(ranks)) {
            harness_run(&(struct team){.ranks = ranks, .run = run_special});
            harness_run(&(struct team){.ranks = ranks, .slot_bytes = 16384, .run = run_rows});
            harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run_refused});
            if (ranks > 1) {
                harness_run(&(struct team){.ranks = ranks, .slot_bytes = 16384, .run = run_mismatch});
                harness_run(&(struct team){.ranks = ranks, .run = run_other_number});
            }
        }
    return harness_end();
}
