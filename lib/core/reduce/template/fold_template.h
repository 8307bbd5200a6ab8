/* The fold of one dtype and op, with the parameters of each_dtype.h and each_op.h. A kernel goes through its buffers in
 * steps of VECTOR_BYTES bytes, the last of which may be shorter. */

#define KOLO_DTYPE PASTE2(KOLO, DTYPE)
#define KOLO_OP    PASTE2(KOLO, OP)

/* ACC holds a vector of elements while they are combined; the rest of this file knows three functions of it. */
#if WIDENED

#define ACC pair

static ALWAYS_INLINE pair KERNEL_NAME(read)(const void *source, size_t at, size_t bytes) {
    return DTYPE_NAME(read)((const unsigned char *)source + at, bytes);
}

static ALWAYS_INLINE pair KERNEL_NAME(combine)(pair a, pair b) {
    return (pair){combine(KOLO_F32, KOLO_OP, a.first, b.first), combine(KOLO_F32, KOLO_OP, a.second, b.second)};
}

static ALWAYS_INLINE vector KERNEL_NAME(finish)(pair acc, divisor by) {
    if (KOLO_OP == KOLO_AVG)
        acc = (pair){divide_F32(acc.first, by), divide_F32(acc.second, by)};
    return DTYPE_NAME(result)(acc);
}

#else

#define ACC vector

static ALWAYS_INLINE vector KERNEL_NAME(read)(const void *source, size_t at, size_t bytes) {
    const vector x = load((const unsigned char *)source + at, bytes);
    return KIND == HALF ? order_key(KOLO_DTYPE, KOLO_OP, x) : x;
}

static ALWAYS_INLINE vector KERNEL_NAME(combine)(vector a, vector b) {
    return combine(KOLO_DTYPE, KOLO_OP, a, b);
}

static ALWAYS_INLINE vector KERNEL_NAME(finish)(vector acc, divisor by) {
#if KIND == HALF
    (void)by;
    return from_order_key(KOLO_DTYPE, KOLO_OP, acc);
#else
    if (KOLO_OP == KOLO_AVG)
        acc = DTYPE_NAME(divide)(acc, by);
    return canonical(KOLO_DTYPE, acc);
#endif
}

#endif

/* Folds full subtrees. */
static ALWAYS_INLINE ACC KERNEL_NAME(tree2)(const void *const *sources, size_t at, size_t bytes) {
    return KERNEL_NAME(combine)(KERNEL_NAME(read)(sources[0], at, bytes), KERNEL_NAME(read)(sources[1], at, bytes));
}

static ALWAYS_INLINE ACC KERNEL_NAME(tree4)(const void *const *sources, size_t at, size_t bytes) {
    return KERNEL_NAME(combine)(KERNEL_NAME(tree2)(sources, at, bytes), KERNEL_NAME(tree2)(sources + 2, at, bytes));
}

static ALWAYS_INLINE ACC KERNEL_NAME(tree8)(const void *const *sources, size_t at, size_t bytes) {
    return KERNEL_NAME(combine)(KERNEL_NAME(tree4)(sources, at, bytes), KERNEL_NAME(tree4)(sources + 4, at, bytes));
}

/* Folds a constant number n of sources: 2, 3, 4 or 8. */
static ALWAYS_INLINE ACC KERNEL_NAME(tree)(const void *const *sources, uint32_t n, size_t at, size_t bytes) {
    switch (n) {
    case 2:
        return KERNEL_NAME(tree2)(sources, at, bytes);
    case 3:
        return KERNEL_NAME(combine)(KERNEL_NAME(tree2)(sources, at, bytes), KERNEL_NAME(read)(sources[2], at, bytes));
    case 4:
        return KERNEL_NAME(tree4)(sources, at, bytes);
    default:
        return KERNEL_NAME(tree8)(sources, at, bytes);
    }
}

/* Stores a block of results of a constant number n of sources to `dst` and, if the constant `both`, `second`. */
static ALWAYS_INLINE void KERNEL_NAME(fold_block)(unsigned char *dst, bool both, unsigned char *second,
                                                  const void *const *sources, uint32_t n, size_t at, divisor by) {
    vector a = KERNEL_NAME(finish)(KERNEL_NAME(tree)(sources, n, at, VECTOR_BYTES), by);
    vector b = KERNEL_NAME(finish)(KERNEL_NAME(tree)(sources, n, at + VECTOR_BYTES, VECTOR_BYTES), by);
    vector c = KERNEL_NAME(finish)(KERNEL_NAME(tree)(sources, n, at + 2 * VECTOR_BYTES, VECTOR_BYTES), by);
    vector d = KERNEL_NAME(finish)(KERNEL_NAME(tree)(sources, n, at + 3 * VECTOR_BYTES, VECTOR_BYTES), by);
    store_four(dst, a, b, c, d);
    if (both)
        store_four(second, a, b, c, d);
}

static ALWAYS_INLINE void KERNEL_NAME(fold_fixed)(unsigned char *dst, const void *const *sources, uint32_t n,
                                                  size_t bytes, divisor by) {
    const void *own[FIXED_MAX]; /* pointers that the compiler knows no store can change */
    for (uint32_t i = 0; i < n; i++)
        own[i] = sources[i];
    size_t at = 0;
    for (; bytes - at >= BLOCK_BYTES; at += BLOCK_BYTES)
        KERNEL_NAME(fold_block)(dst + at, false, NULL, own, n, at, by);
    while (at < bytes) {
        size_t step = bytes - at < VECTOR_BYTES ? bytes - at : VECTOR_BYTES;
        vector result = KERNEL_NAME(finish)(KERNEL_NAME(tree)(own, n, at, step), by);
        store(dst + at, result, step);
        at += step;
    }
}

/* Reads subtrees for a row of vectors, and returns how many inputs each is of: 8, 4, 2 or 1. */
static ALWAYS_INLINE void KERNEL_NAME(read_row)(ACC *row, uint32_t vectors, const void *const *sources, uint32_t n,
                                                size_t at, size_t bytes) {
    for (uint32_t v = 0; v < vectors; v++, at += VECTOR_BYTES)
        row[v] = n == 1 ? KERNEL_NAME(read)(sources[0], at, bytes) : KERNEL_NAME(tree)(sources, n, at, bytes);
}

static ALWAYS_INLINE void KERNEL_NAME(combine_rows)(ACC *left, const ACC *right, uint32_t vectors) {
    for (uint32_t v = 0; v < vectors; v++)
        left[v] = KERNEL_NAME(combine)(left[v], right[v]);
}

/* Builds the tree of any n for a row of `vectors` vectors, and leaves it in rows[0]. The tree is built as a binary
 * counter counts: rows hold full subtrees, larger ones in lower rows, and two of the same size become one at once. The
 * subtrees that are there at the end are combined from the smallest up. */
static ALWAYS_INLINE void KERNEL_NAME(tree_any)(ACC (*rows)[BLOCK_VECTORS], uint32_t vectors,
                                                const void *const *sources, uint32_t n, size_t at, size_t bytes) {
    uint32_t depth = 0;
    for (uint32_t eights = 1; eights <= n / 8; eights++) {
        KERNEL_NAME(read_row)(rows[depth++], vectors, sources, 8, at, bytes);
        for (uint32_t count = eights; count % 2 == 0; count /= 2, depth--)
            KERNEL_NAME(combine_rows)(rows[depth - 2], rows[depth - 1], vectors);
        sources += 8;
    }
    if (n & 4)
        KERNEL_NAME(read_row)(rows[depth++], vectors, sources, 4, at, bytes);
    sources += n & 4;
    if (n & 2)
        KERNEL_NAME(read_row)(rows[depth++], vectors, sources, 2, at, bytes);
    sources += n & 2;
    if (n & 1)
        KERNEL_NAME(read_row)(rows[depth++], vectors, sources, 1, at, bytes);
    for (; depth > 1; depth--)
        KERNEL_NAME(combine_rows)(rows[depth - 2], rows[depth - 1], vectors);
}

static void KERNEL_NAME(fold_any)(unsigned char *dst, const void *const *sources, uint32_t n, size_t bytes,
                                  divisor by) {
    ACC rows[TREE_DEPTH_MAX][BLOCK_VECTORS];
    size_t at = 0;
    for (; bytes - at >= BLOCK_BYTES; at += BLOCK_BYTES) {
        KERNEL_NAME(tree_any)(rows, BLOCK_VECTORS, sources, n, at, VECTOR_BYTES);
        vector a = KERNEL_NAME(finish)(rows[0][0], by), b = KERNEL_NAME(finish)(rows[0][1], by);
        vector c = KERNEL_NAME(finish)(rows[0][2], by), d = KERNEL_NAME(finish)(rows[0][3], by);
        store_four(dst + at, a, b, c, d);
    }
    while (at < bytes) {
        size_t step = bytes - at < VECTOR_BYTES ? bytes - at : VECTOR_BYTES;
        KERNEL_NAME(tree_any)(rows, 1, sources, n, at, step);
        vector result = KERNEL_NAME(finish)(rows[0][0], by);
        store(dst + at, result, step);
        at += step;
    }
}

/* Code that needs a stack frame is kept out of fold, since the smallest messages would pay for it. */
static __attribute__((noinline)) void KERNEL_NAME(fold_many)(unsigned char *dst, const void *const *sources, uint32_t n,
                                                             size_t bytes, divisor by) {
    if (n == 8)
        KERNEL_NAME(fold_fixed)(dst, sources, 8, bytes, by);
    else
        KERNEL_NAME(fold_any)(dst, sources, n, bytes, by);
}

static ONE_COPY void KERNEL_NAME(fold)(void *dst, const void *const *sources, uint32_t n, size_t count,
                                       uint32_t ranks) {
    divisor by = divisor_of(KOLO_OP, ranks);
    size_t bytes = count * sizeof(ELEMENT);
    switch (n) {
    case 2:
        KERNEL_NAME(fold_fixed)(dst, sources, 2, bytes, by);
        break;
    case 3:
        KERNEL_NAME(fold_fixed)(dst, sources, 3, bytes, by);
        break;
    case 4:
        KERNEL_NAME(fold_fixed)(dst, sources, 4, bytes, by);
        break;
    default:
        KERNEL_NAME(fold_many)(dst, sources, n, bytes, by);
        break;
    }
}

/* The part that does not fill a block is folded once and copied: it is not worth another instance of that code. */
static void KERNEL_NAME(fold_to_both)(void *dst, void *second, const void *const *sources, size_t count,
                                      uint32_t ranks) {
    divisor by = divisor_of(KOLO_OP, ranks);
    const void *const own[] = {sources[0], sources[1]};
    const size_t bytes = count * sizeof(ELEMENT);
    unsigned char *first_dst = dst, *second_dst = second;
    size_t at = 0;
    for (; bytes - at >= BLOCK_BYTES; at += BLOCK_BYTES)
        KERNEL_NAME(fold_block)(first_dst + at, true, second_dst + at, own, 2, at, by);
    const void *const rest[] = {(const unsigned char *)own[0] + at, (const unsigned char *)own[1] + at};
    KERNEL_NAME(fold)(first_dst + at, rest, 2, (bytes - at) / sizeof(ELEMENT), ranks);
    memcpy(second_dst + at, first_dst + at, bytes - at);
}

#undef ACC
#undef KOLO_DTYPE
#undef KOLO_OP
