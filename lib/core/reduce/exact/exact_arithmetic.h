/* Exact arithmetic: sums of vectors without error, for KOLO_SUM_EXACT, element by element, of F32 or F64.
 *
 * The error of an addition is a float, which six operations find (two_sum). So a sum is held in three parts: the sum of
 * the inputs as it is rounded, the sum of the errors of that, and the amounts that adding up the errors has lost.
 * Nearly always nothing was lost. Then the sum of the first two parts, rounded once, is the result. Otherwise the
 * result is still sure if what may have been lost cannot change it. All other elements, among them those with
 * infinities, NaNs or a part that overflowed, are left to kolo_exact_element. */
#pragma once

#include "reduce/template/vector_arithmetic.h"

typedef struct exact_parts {
    vector sum;
    vector error;
    vector lost; /* the amounts that were lost, added up; a NaN where one was met */
} exact_parts;

static ALWAYS_INLINE vector plus(kolo_dtype dtype, vector a, vector b) {
    return dtype == KOLO_F64 ? (vector)((f64v)a + (f64v)b) : (vector)((f32v)a + (f32v)b);
}

static ALWAYS_INLINE vector minus(kolo_dtype dtype, vector a, vector b) {
    return dtype == KOLO_F64 ? (vector)((f64v)a - (f64v)b) : (vector)((f32v)a - (f32v)b);
}

static ALWAYS_INLINE vector amount(kolo_dtype dtype, vector x) {
    return dtype == KOLO_F64 ? (vector)((u64v)x & (UINT64_MAX >> 1)) : (vector)((u32v)x & (UINT32_MAX >> 1));
}

/* Returns all bits set in the elements where a and b are the same number. */
static ALWAYS_INLINE vector are_equal(kolo_dtype dtype, vector a, vector b) {
    return dtype == KOLO_F64 ? (vector)(i64v)((f64v)a == (f64v)b) : (vector)(i32v)((f32v)a == (f32v)b);
}

static ALWAYS_INLINE vector choose(kolo_dtype dtype, vector mask, vector yes, vector no) {
    return dtype == KOLO_F64 ? select_64((i64v)mask, yes, no) : select_32((i32v)mask, yes, no);
}

/* a + b = result + *error; a NaN in *error where one of them is none, or the result is infinite. */
static ALWAYS_INLINE vector two_sum(kolo_dtype dtype, vector a, vector b, vector *error) {
    const vector sum = plus(dtype, a, b), b_part = minus(dtype, sum, a);
    *error = plus(dtype, minus(dtype, a, minus(dtype, sum, b_part)), minus(dtype, b, b_part));
    return sum;
}

static ALWAYS_INLINE exact_parts exact_begin(vector first) {
    return (exact_parts){first, {0}, {0}};
}

/* Joins the next input to the parts. `is_second`: the only error so far is this one's. */
static ALWAYS_INLINE void exact_join(kolo_dtype dtype, exact_parts *parts, vector next, bool is_second) {
    vector error, lost;
    parts->sum = two_sum(dtype, parts->sum, next, &error);
    if (is_second) {
        parts->error = error;
        return;
    }
    parts->error = two_sum(dtype, parts->error, error, &lost);
    parts->lost = plus(dtype, parts->lost, amount(dtype, lost));
}

/* Returns the result, rounded to nearest. Sets those elements of *unsure where it may not be exactly that: where
 * something was lost or is a NaN. A sum of zeros that came without an error keeps its sign. */
static ALWAYS_INLINE vector exact_nearest(kolo_dtype dtype, const exact_parts *parts, vector *unsure) {
    const vector zero = {0};
    const vector odd = plus(dtype, parts->lost, minus(dtype, parts->error, parts->error)); /* zero if all is well */
    *unsure |= ~are_equal(dtype, odd, zero);
    return choose(dtype, are_equal(dtype, parts->error, zero), parts->sum, plus(dtype, parts->sum, parts->error));
}

/* Like exact_nearest, with bounds for what was lost: the result is sure also where the least and the largest possible
 * sum give the same one. Both bounds are made a little wider, by more than the roundings here can take away. */
static ALWAYS_INLINE vector exact_bounded(kolo_dtype dtype, const exact_parts *parts, vector *unsure) {
    vector inexact = {0};
    const vector nearest = exact_nearest(dtype, parts, &inexact), zero = {0};
    const vector lost = plus(dtype, parts->lost, parts->lost);
    const vector wider = plus(dtype, lost, amount(dtype, parts->error));
    const vector margin =
        plus(dtype, lost, dtype == KOLO_F64 ? (vector)((f64v)wider * 0x1p-50) : (vector)((f32v)wider * 0x1p-20f));
    const vector least = plus(dtype, parts->sum, minus(dtype, parts->error, margin));
    const vector largest = plus(dtype, parts->sum, plus(dtype, parts->error, margin));
    const vector same = are_equal(dtype, least, largest) & ~are_equal(dtype, least, zero) &
                        are_equal(dtype, minus(dtype, least, least), zero);
    *unsure |= inexact & ~same;
    return choose(dtype, inexact, least, nearest);
}

/* Returns the result in F32, rounded to odd: if the sum is no F32, the one of its two neighbours whose last bit is set.
 * As that has more than two bits more than a 16-bit float, rounding it gives what rounding the true sum would. */
static ALWAYS_INLINE vector exact_odd(const exact_parts *parts, vector *unsure) {
    const vector zero = {0};
    vector error;
    const vector nearest = two_sum(KOLO_F32, parts->sum, parts->error, &error);
    const vector wrong = plus(KOLO_F32, parts->lost, minus(KOLO_F32, error, error));
    *unsure |= ~are_equal(KOLO_F32, wrong, zero);
    const i32v step = ((i32v)(error ^ nearest) >> 31) | 1; /* away from zero, if the error is on that side */
    const i32v is_even = (i32v)(((i32v)nearest & 1) == 0);
    const i32v moves = is_even & ~(i32v)are_equal(KOLO_F32, error, zero);
    const vector moved = (vector)((i32v)nearest + (step & moves));
    return choose(KOLO_F32, are_equal(KOLO_F32, parts->error, zero), parts->sum, moved);
}
