/* One instance of the kernels of training, which each instruction set's file beside this one makes of its vectors. That
 * file has included what reduce/template/vector_types.h asks for, and defined INSTANCE: the kolo_training_kernels that
 * is defined here. */
#include "reduce/template/vector_access.h"
#include "reduce/template/vector_arithmetic.h"
#include "training/kernels/adder_template.h"
#include "training/kernels/training_kernels.h"

enum {
    VECTOR_LANES = VECTOR_BYTES / sizeof(float),
    WORD_VECTORS = KOLO_SIGNS_WORD / VECTOR_LANES, /* vectors whose signs are one word */
    SUM_VECTORS = KOLO_SIGNS_LANES / VECTOR_LANES
};

/* Returns x of training_kernels.h, of `bytes` bytes, with zeros behind them. */
static ALWAYS_INLINE vector owed(const unsigned char *values, const unsigned char *residual, size_t bytes) {
    f32v x = (f32v)load(values, bytes);
    if (residual)
        x += (f32v)load(residual, bytes);
    return canonical_f32((vector)x);
}

static ALWAYS_INLINE pair owed_pair(const unsigned char *values, const unsigned char *residual, size_t bytes) {
    if (bytes <= VECTOR_BYTES)
        return (pair){owed(values, residual, bytes), (vector){0}};
    return (pair){owed(values, residual, VECTOR_BYTES),
                  owed(values + VECTOR_BYTES, residual ? residual + VECTOR_BYTES : NULL, bytes - VECTOR_BYTES)};
}

/* Returns what is left of x: the difference, or +0 where that is no finite number. */
static ALWAYS_INLINE vector left(vector x, vector sent) {
    const vector rest = (vector)((f32v)x - (f32v)sent);
    return (vector)((u32v)rest & (u32v)(((u32v)rest & 0x7f800000) != 0x7f800000));
}

/* The upper halves of a pair's elements, those of `first` before those of `second`. */
typedef uint16_t half_vector __attribute__((vector_size(VECTOR_BYTES / 2)));

static ALWAYS_INLINE vector upper_halves(pair x) {
    const half_vector halves[] = {__builtin_convertvector((u32v)x.first >> 16, half_vector),
                                  __builtin_convertvector((u32v)x.second >> 16, half_vector)};
    vector both;
    memcpy(&both, halves, sizeof both);
    return both;
}

static ALWAYS_INLINE vector bf16_in_place(vector x) {
    return (vector)(round_to_bf16(x) & 0xffff0000);
}

/* Halves values of `bytes` bytes, 1 to 2 * VECTOR_BYTES. */
static ALWAYS_INLINE void halve(kolo_dtype dtype, unsigned char *halves, const unsigned char *values,
                                unsigned char *residual, size_t bytes) {
    const pair x = owed_pair(values, residual, bytes);
    pair sent;
    vector packed;
    if (dtype == KOLO_BF16) {
        sent = (pair){bf16_in_place(x.first), bf16_in_place(x.second)};
        packed = upper_halves(sent);
    } else {
        packed = CANONICAL_IN_F32 ? pack_F16(x) : canonical(KOLO_F16, pack_F16(x));
        sent = unpack_F16((const unsigned char *)&packed);
    }
    store(halves, packed, bytes / 2);
    if (residual)
        store_pair(residual, (pair){left(x.first, sent.first), left(x.second, sent.second)}, bytes);
}

static ALWAYS_INLINE void halve_all(kolo_dtype dtype, unsigned char *halves, const unsigned char *values,
                                    unsigned char *residual, size_t count) {
    const size_t bytes = count * sizeof(float), step = 2 * VECTOR_BYTES;
    size_t at = 0;
    for (; at + step <= bytes; at += step)
        halve(dtype, halves + at / 2, values + at, residual ? residual + at : NULL, step);
    if (at < bytes)
        halve(dtype, halves + at / 2, values + at, residual ? residual + at : NULL, bytes - at);
}

static void to_bf16(void *halves, const void *values, void *residual, size_t count) {
    if (residual)
        halve_all(KOLO_BF16, halves, values, residual, count);
    else
        halve_all(KOLO_BF16, halves, values, NULL, count);
}

static void to_f16(void *halves, const void *values, void *residual, size_t count) {
    if (residual)
        halve_all(KOLO_F16, halves, values, residual, count);
    else
        halve_all(KOLO_F16, halves, values, NULL, count);
}

/* Returns the bytes of vector `index` of `bytes` bytes. */
static ALWAYS_INLINE size_t bytes_of_vector(size_t bytes, size_t index) {
    const size_t left_bytes = bytes - index * VECTOR_BYTES;
    return left_bytes < VECTOR_BYTES ? left_bytes : VECTOR_BYTES;
}

static ALWAYS_INLINE float mean_of(const f32v *sums, size_t count) {
    float lanes[KOLO_SIGNS_LANES];
    memcpy(lanes, sums, sizeof lanes);
    for (size_t half = KOLO_SIGNS_LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    const float mean = lanes[0] / (float)count;
    return mean != mean ? f32_from_bits(0x7fc00000) : mean;
}

static float to_signs(void *words, const void *values, void *residual, size_t count) {
    vector x[KOLO_SIGNS_BLOCK / VECTOR_LANES];
    f32v sums[SUM_VECTORS] = {{0}};
    const size_t bytes = count * sizeof(float), vectors = (bytes + VECTOR_BYTES - 1) / VECTOR_BYTES;
    for (size_t at = 0; at < vectors; at += WORD_VECTORS) {
        uint64_t signs = 0;
        for (size_t i = 0; i < WORD_VECTORS && at + i < vectors; i++) {
            const size_t place = (at + i) * VECTOR_BYTES, some = bytes_of_vector(bytes, at + i);
            x[at + i] = owed((const unsigned char *)values + place,
                             residual ? (const unsigned char *)residual + place : NULL, some);
            sums[i % SUM_VECTORS] += (f32v)((u32v)x[at + i] & INT32_MAX);
            signs |= (uint64_t)sign_bits(x[at + i]) << i * VECTOR_LANES;
        }
        memcpy((unsigned char *)words + at / WORD_VECTORS * sizeof signs, &signs, sizeof signs);
    }
    const float mean = mean_of(sums, count);
    for (size_t i = 0; residual && i < vectors; i++) {
        const vector sent = (vector)(((u32v)x[i] & 0x80000000) ^ f32_bits(mean));
        store((unsigned char *)residual + i * VECTOR_BYTES, left(x[i], sent), bytes_of_vector(bytes, i));
    }
    return mean;
}

static void from_signs(void *values, const void *words, float magnitude, size_t count) {
    static const uint32_t to_the_top[] = {31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16};
    const u32v shift = (u32v)load_whole((const unsigned char *)to_the_top);
    const size_t bytes = count * sizeof(float), vectors = (bytes + VECTOR_BYTES - 1) / VECTOR_BYTES;
    for (size_t at = 0; at < vectors; at += WORD_VECTORS) {
        uint64_t signs;
        memcpy(&signs, (const unsigned char *)words + at / WORD_VECTORS * sizeof signs, sizeof signs);
        for (size_t i = 0; i < WORD_VECTORS && at + i < vectors; i++) {
            const u32v sign = (((u32v){0} + (uint32_t)(signs >> i * VECTOR_LANES)) << shift) & 0x80000000;
            store((unsigned char *)values + (at + i) * VECTOR_BYTES, (vector)(sign ^ f32_bits(magnitude)),
                  bytes_of_vector(bytes, at + i));
        }
    }
}

static size_t collect(uint32_t *indices, size_t room, const void *values, size_t count, uint32_t least) {
    const size_t bytes = count * sizeof(float), vectors = (bytes + VECTOR_BYTES - 1) / VECTOR_BYTES;
    size_t found = 0;
    for (size_t at = 0; at < vectors; at++) {
        const size_t some = bytes_of_vector(bytes, at);
        const u32v magnitude = (u32v)load((const unsigned char *)values + at * VECTOR_BYTES, some) & INT32_MAX;
        uint32_t lanes = sign_bits((vector)((i32v)magnitude >= (int32_t)least));
        lanes &= (uint32_t)((UINT64_C(1) << some / sizeof(float)) - 1);
        for (; lanes; lanes &= lanes - 1) {
            if (found < room)
                indices[found] = (uint32_t)(at * VECTOR_LANES) + (uint32_t)__builtin_ctz(lanes);
            found++;
        }
    }
    return found;
}

const kolo_training_kernels INSTANCE = {.to_bf16 = to_bf16,
                                        .to_f16 = to_f16,
                                        .to_signs = to_signs,
                                        .from_signs = from_signs,
                                        .collect = collect,
                                        .add_f32 = add_f32,
                                        .add_f64 = add_f64};
