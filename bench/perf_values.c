#include "perf_values.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* One element while it is computed is a uint64_t. Of an integer the low bits count; it is sign-extended for signed
 * dtypes. All floating-point inputs of a sum, an average, a minimum or a maximum are whole numbers, and stand for
 * themselves, like signed integers. Those of a product are powers of two or their negatives: there the upper half is
 * the exponent, and the lowest bit the sign, so that the code of a product is the sum of its factors' codes. */

typedef struct dtype_traits {
    int bits;
    bool is_signed;
    bool is_float;
    double exact_max; /* every whole number up to this is exact in the dtype */
} dtype_traits;

static const dtype_traits traits[KOLO_DTYPES] = {
    [KOLO_I8] = {8, true, false, 0},          [KOLO_U8] = {8, false, false, 0},
    [KOLO_I16] = {16, true, false, 0},        [KOLO_U16] = {16, false, false, 0},
    [KOLO_I32] = {32, true, false, 0},        [KOLO_U32] = {32, false, false, 0},
    [KOLO_I64] = {64, true, false, 0},        [KOLO_U64] = {64, false, false, 0},
    [KOLO_F16] = {16, true, true, 2048},      [KOLO_BF16] = {16, true, true, 256},
    [KOLO_F32] = {32, true, true, 16777216.}, [KOLO_F64] = {64, true, true, 9007199254740992.},
};

/* A well-mixed 64-bit number of its arguments (the finalizer of a splitmix generator). */
static uint64_t mix(uint64_t seed, uint64_t position, uint64_t rank) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + position * 0xd1342543de82ef95u + rank * 0xaf251af3b0f025b5u + 1;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* What all ranks draw alike at a position. */
static uint64_t mix_shared(const perf_recipe *of, uint64_t position) {
    return mix(of->seed, position, UINT64_MAX);
}

/* Whether `rank` is among the at most `ranks_max` ranks that stand out at `position`. */
static bool stands_out(const perf_recipe *of, uint64_t position, int rank, int64_t ranks_max) {
    uint64_t stride = ((uint64_t)of->ranks + (uint64_t)ranks_max - 1) / (uint64_t)ranks_max;
    return ((uint64_t)rank + mix_shared(of, position) % stride) % stride == 0;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Whole numbers from -bound/ranks to bound/ranks, so that no partial sum passes `bound`. Where there are more ranks
 * than that leaves values for, most ranks contribute 0 at a given position, and a few 1 or -1. */
static int64_t summand(const perf_recipe *of, uint64_t position, int rank, int64_t bound) {
    uint64_t random = mix(of->seed, position, (uint64_t)rank);
    int64_t sign = random >> 63 ? -1 : 1;
    if (bound >= of->ranks) {
        int64_t magnitude_max = smaller(bound / of->ranks, 100);
        return sign * (int64_t)(random % (uint64_t)(magnitude_max + 1));
    }
    return stands_out(of, position, rank, bound) ? sign : 0;
}

/* A power of two or its negative, as its code. At any position at most 12 ranks contribute a half or a two, so that no
 * partial product leaves the range of normal numbers of the narrowest dtype. */
static uint64_t factor(const perf_recipe *of, uint64_t position, int rank) {
    enum { SCALING_RANKS_MAX = 12 };
    uint64_t random = mix(of->seed, position, (uint64_t)rank);
    uint64_t sign = random >> 63;
    if (!stands_out(of, position, rank, SCALING_RANKS_MAX))
        return sign;
    return sign + ((random & 1 ? 1 : UINT64_MAX) << 32);
}

/* Numbers whose sum is `ranks` times a whole number: one that all ranks share, and differences that cancel between
 * neighbours. With more ranks than bf16 has exact numbers (253), the shared one is always 0. */
static int64_t averaged(const perf_recipe *of, uint64_t position, int rank) {
    enum { DIFFERENCE_MAX = 3 };
    int64_t room = (int64_t)traits[of->dtype].exact_max - DIFFERENCE_MAX;
    int64_t common_max = smaller(room / of->ranks, 100);
    int64_t common = (int64_t)(mix_shared(of, position) % (uint64_t)(2 * common_max + 1)) - common_max;
    if ((rank ^ 1) >= of->ranks)
        return common; /* the last of an odd number has no neighbour */
    int64_t difference = (int64_t)(mix(of->seed, position, (uint64_t)rank / 2) % (DIFFERENCE_MAX + 1));
    return rank & 1 ? common - difference : common + difference;
}

/* The same where the first k ranks are averaged for every k: each of these sums is k times a whole number. */
static int64_t averaged_prefixes(const perf_recipe *of, uint64_t position, int rank) {
    enum { AVERAGE_MAX = 15 };
    int64_t sum[2] = {0};
    for (int i = 0; i < 2; i++) {
        const int64_t ranks = rank + i, room = ranks > 0 ? (int64_t)traits[of->dtype].exact_max / ranks : 0;
        sum[i] =
            ranks * (int64_t)(mix(of->seed, position, (uint64_t)ranks) % (uint64_t)(1 + smaller(room, AVERAGE_MAX)));
    }
    return sum[1] - sum[0];
}

static uint64_t input_real(const perf_recipe *of, uint64_t position, int rank) {
    switch (of->op) {
    case KOLO_SUM:
    case KOLO_SUM_EXACT:
        return (uint64_t)summand(of, position, rank, (int64_t)traits[of->dtype].exact_max);
    case KOLO_PROD:
        return factor(of, position, rank);
    case KOLO_AVG:
        return (uint64_t)(of->prefixes ? averaged_prefixes(of, position, rank) : averaged(of, position, rank));
    default: /* MIN, MAX: any numbers */
        return (uint64_t)((int64_t)(mix(of->seed, position, (uint64_t)rank) % 255) - 127);
    }
}

/* Few bits of few ranks: the disjunction of many random words would be all ones. */
static uint64_t single_bit(const perf_recipe *of, uint64_t position, int rank) {
    enum { RANKS_WITH_BIT_MAX = 4 };
    uint64_t random = mix(of->seed, position, (uint64_t)rank);
    bool has_bit = stands_out(of, position, rank, RANKS_WITH_BIT_MAX);
    return has_bit ? (uint64_t)1 << random % (uint64_t)traits[of->dtype].bits : 0;
}

static uint64_t input_integer(const perf_recipe *of, uint64_t position, int rank) {
    const dtype_traits *type = &traits[of->dtype];
    uint64_t random = mix(of->seed, position, (uint64_t)rank);
    if (of->op == KOLO_AVG) {
        /* Within the range of the dtype, since the sum's width before the division is the library's own. */
        int64_t value = summand(of, position, rank, type->bits == 8 ? 127 : 32767);
        return (uint64_t)(type->is_signed || value >= 0 ? value : -value);
    }
    if (of->op == KOLO_BOR)
        random = single_bit(of, position, rank);
    if (of->op == KOLO_BAND)
        random = ~single_bit(of, position, rank);
    if (of->op == KOLO_PROD)
        random |= 1; /* even factors would soon make every product 0 */
    int unused = 64 - type->bits;
    if (type->is_signed)
        return (uint64_t)((int64_t)(random << unused) >> unused);
    return random << unused >> unused;
}

static uint64_t input(const perf_recipe *of, uint64_t position, int rank) {
    return traits[of->dtype].is_float ? input_real(of, position, rank) : input_integer(of, position, rank);
}

static uint64_t combine(kolo_op op, bool is_signed, uint64_t a, uint64_t b) {
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case KOLO_PROD:
        return a * b;
    case KOLO_MIN:
        return less ? a : b;
    case KOLO_MAX:
        return less ? b : a;
    case KOLO_BAND:
        return a & b;
    case KOLO_BOR:
        return a | b;
    case KOLO_BXOR:
        return a ^ b;
    default: /* SUM, AVG */
        return a + b;
    }
}

static uint64_t reduced(const perf_recipe *of, uint64_t position, int inputs) {
    const dtype_traits *type = &traits[of->dtype];
    const kolo_op op = type->is_float && of->op == KOLO_PROD ? KOLO_SUM : of->op;
    uint64_t result = input(of, position, 0);
    for (int rank = 1; rank < inputs; rank++)
        result = combine(op, type->is_signed, result, input(of, position, rank));
    if (op != KOLO_AVG)
        return result;
    return type->is_signed ? (uint64_t)((int64_t)result / inputs) : result / (uint64_t)inputs;
}

/* What the code of a floating-point element stands for. */
static double decode(kolo_op op, uint64_t code) {
    if (op != KOLO_PROD)
        return (double)(int64_t)code;
    return ldexp(code & 1 ? -1 : 1, (int32_t)(code >> 32));
}

/* The bits of a number that binary16 or bfloat16 represents exactly as a normal number or zero. */
static uint16_t half_bits(kolo_dtype dtype, double real) {
    float single = (float)real;
    uint32_t bits;
    memcpy(&bits, &single, sizeof(bits));
    if (dtype == KOLO_BF16)
        return (uint16_t)(bits >> 16);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t rebias = 127 - 15;
    return (uint16_t)(magnitude == 0 ? sign : sign | ((magnitude >> 13) - (rebias << 10)));
}

static void store(void *table, size_t index, kolo_dtype dtype, kolo_op op, uint64_t value) {
    const size_t element_bytes = (size_t)traits[dtype].bits / 8;
    const double real = decode(op, value);
    const float f32 = (float)real;
    if (dtype == KOLO_F16 || dtype == KOLO_BF16)
        value = half_bits(dtype, real);
    else if (dtype == KOLO_F32)
        memcpy(&value, &f32, sizeof(f32));
    else if (dtype == KOLO_F64)
        memcpy(&value, &real, sizeof(real));
    memcpy((char *)table + index * element_bytes, &value, element_bytes); /* all supported machines are little-endian */
}

void perf_values_of(void *table, const perf_recipe *of, int rank, size_t first, size_t count) {
    for (size_t i = first; i < first + count && i < first + PERF_TABLE_PERIOD; i++) {
        const size_t position = i % PERF_TABLE_PERIOD;
        store(table, position, of->dtype, of->op, input(of, position, rank));
    }
}

void perf_values_reduced(void *table, const perf_recipe *of, int inputs) {
    for (size_t i = 0; i < PERF_TABLE_PERIOD; i++)
        store(table, i, of->dtype, of->op, reduced(of, i, inputs));
}

void perf_values_neutral(void *table, kolo_dtype dtype, kolo_op op) {
    const uint64_t one = traits[dtype].is_float ? 0 : 1; /* 0 is the code of 2^0 */
    for (size_t i = 0; i < PERF_TABLE_PERIOD; i++)
        store(table, i, dtype, op, op == KOLO_PROD ? one : 0);
}

void perf_table_fill(void *buffer, size_t count, size_t element_bytes, const void *table) {
    size_t bytes = count * element_bytes;
    size_t period_bytes = PERF_TABLE_PERIOD * element_bytes;
    for (size_t at = 0; at < bytes; at += period_bytes)
        memcpy((char *)buffer + at, table, bytes - at < period_bytes ? bytes - at : period_bytes);
}

size_t perf_table_wrong(const void *buffer, size_t count, size_t element_bytes, const void *table, size_t first,
                        size_t *found) {
    size_t wrong = 0, block_count;
    for (size_t at = 0; at < count; at += block_count) {
        const size_t position = (first + at) % PERF_TABLE_PERIOD, left = count - at,
                     fitting = PERF_TABLE_PERIOD - position;
        const char *block = (const char *)buffer + at * element_bytes;
        const char *wanted = (const char *)table + position * element_bytes;
        block_count = left < fitting ? left : fitting;
        if (memcmp(block, wanted, block_count * element_bytes) == 0)
            continue;
        for (size_t i = 0; i < block_count; i++)
            if (memcmp(block + i * element_bytes, wanted + i * element_bytes, element_bytes) != 0 && wrong++ == 0)
                *found = at + i;
    }
    return wrong;
}
