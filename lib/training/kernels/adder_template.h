/* The adder in vectors, as training_template.h takes it.
 *
 * Additions of doubles are exact while all addends are multiples of some unit, and sums stay below 2^53 of that unit.
 * So a window of exponents is chosen, by the largest value at hand, and sums are kept at several levels, of LEVEL_BITS
 * each: below the window's top the first level counts units of 2^-LEVEL_BITS of it, and each further one units that are
 * as much smaller again. A level is a double that begins at a bias of 1.5 * 2^52 of its units, and stays within that
 * power of two: so its last bit is its unit. Adding x to a level rounds x to a multiple of the unit; the rest of x,
 * which is exact, goes to the next level. In the end the bits of level and bias, as integers, differ by the sum.
 *
 * A block of values is first added on trial, while the largest and the least exponent in it are found. Values of F32
 * have so few bits that the first level takes them exactly, unless their exponents differ by more than 19. Values of
 * F64 need two levels, which take exponents that differ by up to 37. The trial counts if all values were within the
 * window. Otherwise either the window is moved to the block, and the sums so far go to the digits; or, where no window
 * holds the block, its values go through all levels, and what is still left of single values goes to the digits. Blocks
 * with infinities, NaNs and the very largest numbers go to the digits value by value. */
#include "reduce/template/vector_access.h"
#include "training/kernels/training_kernels.h"

enum {
    LEVELS = 4,
    CHAINS = 4,         /* sums side by side: an addition does not wait for the one before */
    BLOCK_VECTORS = 32, /* of values */
    BLOCK_BYTES = BLOCK_VECTORS * VECTOR_BYTES,
    DOUBLES = VECTOR_BYTES / (int)sizeof(double), /* of a vector */
    /* A sum gets as many values as a block of F32 has, 16 a chain; so it changes by 2^50 units at most, where the bias
     * leaves room for 2^51. */
    LEVEL_BITS = 46,
    BLOCKS_MAX = 128,   /* whose sums fit an integer: in each of at most 8 doubles of a vector, 4 chains of 2^50 each */
    TOP_MARGIN = 3,     /* by which a window's top is above the largest value that it was chosen for */
    FALL_MAX = 16,      /* a window stays where a block has values below it, but its largest is no lower than that */
    TOP_MAX_F64 = 1016, /* above it the bias would be infinite, */
    TOP_MIN_F64 = -983, /* and below it subnormal; all subnormals are multiples of the lower unit then */
    TOP_MIN_F32 = -69   /* so that the lower unit is not below the digits */
};

struct window {
    bool is_f64;
    int top;              /* all values are below 2^(top + 1) */
    uint32_t most, least; /* bounds of the values' upper 32 bits, without the sign */
    int levels;           /* from 2 to LEVELS: levels whose units no element can have a part of are left out */
    double bias[LEVELS];  /* of the levels */
    i64v sums[LEVELS];    /* in units of the levels, without bias */
    uint32_t blocks;      /* that are in the sums */
    int64_t *words;
};

/* The findings of a trial. */
struct trial {
    f64v levels[2][CHAINS];
    vector most, least;
};

static inline int unit_exponent(const struct window *window, int level) {
    return window->top + 1 - LEVEL_BITS * (level + 1);
}

static inline double power_of_two(int exponent) {
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* The upper 32 bits of 2^exponent in the dtype; 0 for its least normal number, whose last bit is subnormals'. */
static inline uint32_t bits_of_power(const struct window *window, int exponent) {
    const int biased = exponent + (window->is_f64 ? 1023 : 127), infinity = window->is_f64 ? 2047 : 255;
    return (uint32_t)(biased <= 1 ? 0 : biased >= infinity ? infinity : biased) << (window->is_f64 ? 20 : 23);
}

static void flush(struct window *window) {
    for (int level = 0; level < window->levels; level++) {
        int64_t sum = 0;
        for (int i = 0; i < DOUBLES; i++)
            sum += window->sums[level][i];
        kolo_wide_deposit(window->words, window->is_f64 ? KOLO_WIDE_LOW_F64 : KOLO_WIDE_LOW_F32,
                          sum < 0 ? -(uint64_t)sum : (uint64_t)sum, unit_exponent(window, level), sum < 0);
        window->sums[level] = (i64v){0};
    }
    window->blocks = 0;
}

/* Chooses the window for values whose largest exponent is `exponent`. */
static void open_window(struct window *window, int exponent) {
    const int top_min = window->is_f64 ? TOP_MIN_F64 : TOP_MIN_F32;
    const int unit_min = top_min + 1 - 2 * LEVEL_BITS;
    flush(window);
    window->top = exponent + TOP_MARGIN > top_min ? exponent + TOP_MARGIN : top_min;
    if (window->is_f64 && window->top > TOP_MAX_F64)
        window->top = TOP_MAX_F64;
    window->levels = 0;
    for (int level = 0; level < LEVELS && unit_exponent(window, level) >= unit_min; level++, window->levels++)
        window->bias[level] = 1.5 * power_of_two(unit_exponent(window, level) + 52);
    /* The least value must have its last bit at the unit of the lowest level that the trial has, or above it. */
    const int last = window->is_f64 ? unit_exponent(window, 1) + 52 : unit_exponent(window, 0) + 23;
    window->most = bits_of_power(window, window->top + 1) - 1;
    window->least = bits_of_power(window, last);
}

static ALWAYS_INLINE void begin_level(f64v *chains, const struct window *window, int level) {
    for (int i = 0; i < CHAINS; i++)
        chains[i] = (f64v){0} + window->bias[level];
}

/* Adds x to a level. Returns what that leaves of x. */
static ALWAYS_INLINE f64v add_to(f64v *level, f64v x) {
    const f64v before = *level, after = before + x;
    *level = after;
    return x - (after - before);
}

static ALWAYS_INLINE vector without_sign(bool is_f64, vector x) {
    return is_f64 ? (vector)((u64v)x & (UINT64_MAX >> 1)) : (vector)((u32v)x & (UINT32_MAX >> 1));
}

/* Subtracts one from each element, as an integer: zero becomes the largest. */
static ALWAYS_INLINE vector less_one(bool is_f64, vector x) {
    return is_f64 ? (vector)((u64v)x - 1) : (vector)((u32v)x - 1);
}

static ALWAYS_INLINE void try_vector(bool is_f64, struct trial *trial, const unsigned char *from, int chain) {
    const vector x = load_whole(from), size = without_sign(is_f64, x);
    trial->most = maximum_u32(trial->most, size);
    trial->least = minimum_u32(trial->least, less_one(is_f64, size));
    if (is_f64) {
        trial->levels[1][chain] += add_to(&trial->levels[0][chain], (f64v)x);
    } else {
        trial->levels[0][chain] += (f64v)doubles_of(from);
        trial->levels[0][(chain + 1) % CHAINS] += (f64v)doubles_of(from + VECTOR_BYTES / 2);
    }
}

static ALWAYS_INLINE void try_block(bool is_f64, struct trial *trial, const struct window *window,
                                    const unsigned char *block) {
    begin_level(trial->levels[0], window, 0);
    if (is_f64)
        begin_level(trial->levels[1], window, 1);
    trial->most = (vector){0};
    trial->least = ~(vector){0};
    for (int i = 0; i < BLOCK_VECTORS; i += CHAINS)
        for (int chain = 0; chain < CHAINS; chain++)
            try_vector(is_f64, trial, block + (i + chain) * VECTOR_BYTES, chain);
}

/* Returns whether all values are within the window, or zero. For F64 only the upper halves are compared. */
static ALWAYS_INLINE bool is_within(bool is_f64, const struct trial *trial, const struct window *window) {
    const u32v most = (u32v){0} + window->most, least = (u32v){0} + window->least;
    vector outside = (vector)((u32v)((u32v)trial->most > most) | (u32v)((u32v)trial->least < least));
    if (is_f64)
        outside = (vector)((u64v)outside >> 32);
    return !is_any_set(outside);
}

static ALWAYS_INLINE void take_level(struct window *window, int level, const f64v *chains) {
    i64v bias = (i64v)((f64v){0} + window->bias[level]), sum = {0};
    for (int i = 0; i < CHAINS; i++)
        sum += (i64v)chains[i] - bias;
    window->sums[level] += sum;
}

/* Returns the largest exponent in a block, as the bits have it. */
static int largest_exponent(const struct window *window, const struct trial *trial) {
    uint32_t lanes[VECTOR_BYTES / sizeof(uint32_t)], largest = 0;
    memcpy(lanes, &trial->most, sizeof lanes);
    for (size_t i = window->is_f64; i < sizeof lanes / sizeof *lanes; i += 1 + (size_t)window->is_f64)
        largest = lanes[i] > largest ? lanes[i] : largest;
    return (int)(largest >> (window->is_f64 ? 20 : 23));
}

/* Whether a block with that largest exponent has a window: not for infinities, NaNs and numbers near to them. */
static ALWAYS_INLINE bool has_window(bool is_f64, int biased) {
    return biased < (is_f64 ? TOP_MAX_F64 + 1023 : 255);
}

/* Chooses a window for the first block by its first values: that is seldom wrong. */
static void open_first_window(struct window *window, const unsigned char *block) {
    const struct trial first = {.most = without_sign(window->is_f64, load_whole(block))};
    const int biased = largest_exponent(window, &first);
    if (biased > 0 && has_window(window->is_f64, biased))
        open_window(window, biased - (window->is_f64 ? 1023 : 127));
}

static void add_singly(const struct window *window, const unsigned char *values, size_t bytes) {
    if (window->is_f64)
        kolo_training_kernels_portable.add_f64(window->words, values, bytes / sizeof(double));
    else
        kolo_training_kernels_portable.add_f32(window->words, values, bytes / sizeof(float));
}

/* Adds the rests of single values to the digits. */
static void add_rest(struct window *window, f64v rest) {
    for (int i = 0; i < DOUBLES; i++) {
        const double x = rest[i];
        uint64_t bits;
        if (x == 0)
            continue;
        memcpy(&bits, &x, sizeof bits);
        const int biased = (int)(bits >> 52 & 2047);
        const uint64_t fraction = (bits & ((UINT64_C(1) << 52) - 1)) | (biased > 0 ? UINT64_C(1) << 52 : 0);
        const int zeros = __builtin_ctzll(fraction); /* below the digits, for values that come from F32 */
        kolo_wide_deposit(window->words, window->is_f64 ? KOLO_WIDE_LOW_F64 : KOLO_WIDE_LOW_F32, fraction >> zeros,
                          (biased > 0 ? biased - 1075 : -1074) + zeros, bits >> 63);
    }
}

/* Adds a block that no window holds: all values are below its top, but some are too small. */
static void add_by_all_levels(struct window *window, const unsigned char *block) {
    f64v levels[LEVELS][CHAINS];
    const size_t step = window->is_f64 ? VECTOR_BYTES : VECTOR_BYTES / 2;
    for (int level = 0; level < window->levels; level++)
        begin_level(levels[level], window, level);
    for (size_t at = 0, chain = 0; at < BLOCK_BYTES; at += step, chain = (chain + 1) % CHAINS) {
        f64v rest = window->is_f64 ? (f64v)load_whole(block + at) : (f64v)doubles_of(block + at);
        for (int level = 0; level < window->levels; level++)
            rest = add_to(&levels[level][chain], rest);
        if (is_any_set((vector)(i64v)(rest != 0)))
            add_rest(window, rest);
    }
    for (int level = 0; level < window->levels; level++)
        take_level(window, level, levels[level]);
}

/* Marks that there was an addend other than -0, as soon as there is one. */
static void mark_other(struct window *window, const unsigned char *block) {
    int64_t *marks = window->words + (window->is_f64 ? KOLO_WIDE_DIGITS_F64 : KOLO_WIDE_DIGITS_F32);
    vector others = {0}, zeros = {0};
    for (int i = 0; i < BLOCK_VECTORS; i++) {
        const vector x = load_whole(block + i * VECTOR_BYTES);
        others |= window->is_f64 ? (vector)((u64v)x ^ UINT64_C(1) << 63) : (vector)((u32v)x ^ UINT32_C(1) << 31);
        zeros |= window->is_f64 ? (vector)(i64v)((u64v)x == UINT64_C(1) << 63)
                                : (vector)(i32v)((u32v)x == UINT32_C(1) << 31);
    }
    if (is_any_set(others))
        marks[KOLO_WIDE_OTHER] = 1;
    if (is_any_set(zeros))
        marks[KOLO_WIDE_MINUS_ZERO] = 1;
}

static ALWAYS_INLINE bool add_on_trial(bool is_f64, struct window *window, const unsigned char *block,
                                       struct trial *trial) {
    try_block(is_f64, trial, window, block);
    if (__builtin_expect(!is_within(is_f64, trial, window), 0))
        return false;
    take_level(window, 0, trial->levels[0]);
    if (is_f64)
        take_level(window, 1, trial->levels[1]);
    return true;
}

/* Adds a block that the window does not hold. */
static __attribute__((noinline)) void add_otherwise(bool is_f64, struct window *window, const unsigned char *block,
                                                    const struct trial *first) {
    const int biased = largest_exponent(window, first), bias = is_f64 ? 1023 : 127;
    struct trial again;
    if (!has_window(is_f64, biased)) {
        add_singly(window, block, BLOCK_BYTES);
        return;
    }
    if (!window->levels || biased - bias > window->top || biased - bias < window->top - FALL_MAX) {
        open_window(window, biased - bias);
        if (add_on_trial(is_f64, window, block, &again))
            return;
    }
    add_by_all_levels(window, block);
}

static ALWAYS_INLINE void add_block(bool is_f64, struct window *window, const unsigned char *block) {
    struct trial trial;
    const int64_t *marks = window->words + (is_f64 ? KOLO_WIDE_DIGITS_F64 : KOLO_WIDE_DIGITS_F32);
    if (__builtin_expect(!marks[KOLO_WIDE_OTHER], 0))
        mark_other(window, block);
    if (!add_on_trial(is_f64, window, block, &trial))
        add_otherwise(is_f64, window, block, &trial);
    if (__builtin_expect(++window->blocks >= BLOCKS_MAX, 0))
        flush(window);
}

static ALWAYS_INLINE void add(bool is_f64, int64_t *words, const unsigned char *values, size_t count) {
    const size_t bytes = count * (is_f64 ? sizeof(double) : sizeof(float));
    struct window window = {.is_f64 = is_f64, .words = words};
    size_t at = 0;
    if (bytes >= BLOCK_BYTES)
        open_first_window(&window, values);
    for (; bytes - at >= BLOCK_BYTES; at += BLOCK_BYTES)
        add_block(is_f64, &window, values + at);
    flush(&window);
    add_singly(&window, values + at, bytes - at);
}

static void add_f32(int64_t *words, const void *values, size_t count) {
    add(false, words, values, count);
}

static void add_f64(int64_t *words, const void *values, size_t count) {
    add(true, words, values, count);
}
