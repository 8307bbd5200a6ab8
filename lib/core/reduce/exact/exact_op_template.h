/* The kernels of SUM_EXACT for one dtype, with the parameters of each_dtype.h. They go through the buffers as the folds
 * of template/fold_template.h do, and keep sums in the parts of exact_arithmetic.h. The sum of two inputs of F32 or F64
 * is rounded once anyway: SUM's kernels do it. */

#define KOLO_DTYPE PASTE2(KOLO, DTYPE)

#if KIND == HALF

/* Returns both halves of the sums of what was read, in F32 and rounded to odd. */
static ALWAYS_INLINE pair KERNEL_NAME(join)(pair (*read)(const unsigned char *, size_t), const void *const *sources,
                                            uint32_t n, size_t at, size_t bytes, vector *unsure) {
    const pair begin = read((const unsigned char *)sources[0] + at, bytes);
    exact_parts first = exact_begin(begin.first), second = exact_begin(begin.second);
    for (uint32_t i = 1; i < n; i++) {
        const pair next = read((const unsigned char *)sources[i] + at, bytes);
        exact_join(KOLO_F32, &first, next.first, i == 1);
        exact_join(KOLO_F32, &second, next.second, i == 1);
    }
    return (pair){exact_odd(&first, unsure), exact_odd(&second, unsure)};
}

/* Returns `bytes` bytes of results from byte `at` on, which are sure if no element of *unsure is set. */
static ALWAYS_INLINE vector KERNEL_NAME(try)(const void *const *sources, uint32_t n, size_t at, size_t bytes,
                                             vector *unsure) {
    return DTYPE_NAME(result)(KERNEL_NAME(join)(DTYPE_NAME(read), sources, n, at, bytes, unsure));
}

static __attribute__((noinline)) vector KERNEL_NAME(retry)(const void *const *sources, uint32_t n, size_t at,
                                                           size_t bytes) {
    ELEMENT results[VECTOR_BYTES / sizeof(ELEMENT)] = {0};
    for (size_t i = 0; i < bytes / sizeof(ELEMENT); i++)
        results[i] = (ELEMENT)kolo_exact_element(KOLO_DTYPE, KOLO_DTYPE, sources, n, at / sizeof(ELEMENT) + i);
    return load_whole((const unsigned char *)results);
}

#else

static ALWAYS_INLINE exact_parts KERNEL_NAME(join)(const void *const *sources, uint32_t n, size_t at, size_t bytes) {
    exact_parts parts = exact_begin(load((const unsigned char *)sources[0] + at, bytes));
    for (uint32_t i = 1; i < n; i++)
        exact_join(KOLO_DTYPE, &parts, load((const unsigned char *)sources[i] + at, bytes), i == 1);
    return parts;
}

static ALWAYS_INLINE vector KERNEL_NAME(try)(const void *const *sources, uint32_t n, size_t at, size_t bytes,
                                             vector *unsure) {
    const exact_parts parts = KERNEL_NAME(join)(sources, n, at, bytes);
    return exact_nearest(KOLO_DTYPE, &parts, unsure);
}

static __attribute__((noinline)) vector KERNEL_NAME(retry)(const void *const *sources, uint32_t n, size_t at,
                                                           size_t bytes) {
    vector unsure = {0};
    const exact_parts parts = KERNEL_NAME(join)(sources, n, at, bytes);
    const vector bounded = exact_bounded(KOLO_DTYPE, &parts, &unsure);
    unsigned char results[VECTOR_BYTES], is_unsure[VECTOR_BYTES];
    store_whole(results, bounded);
    store_whole(is_unsure, unsure);
    for (size_t i = 0; i < bytes; i += sizeof(ELEMENT)) {
        if (!is_unsure[i])
            continue;
        const uint64_t bits = kolo_exact_element(KOLO_DTYPE, KOLO_DTYPE, sources, n, (at + i) / sizeof(ELEMENT));
        memcpy(results + i, &bits, sizeof(ELEMENT));
    }
    return load_whole(results);
}

#endif

/* Folds one vector, whose last bytes may be missing. */
static ALWAYS_INLINE void KERNEL_NAME(fold_vector)(unsigned char *dst, const void *const *sources, uint32_t n,
                                                   size_t at, size_t bytes) {
    vector unsure = {0};
    vector result = KERNEL_NAME(try)(sources, n, at, bytes, &unsure);
    if (__builtin_expect(is_any_set(unsure), 0))
        result = KERNEL_NAME(retry)(sources, n, at, bytes);
    store(dst + at, result, bytes);
}

/* Folds a block. Nothing is stored before all of the block is sure, since a source may be the destination. */
static ALWAYS_INLINE void KERNEL_NAME(fold_block)(unsigned char *dst, const void *const *sources, uint32_t n,
                                                  size_t at) {
    vector unsure = {0};
    vector a = KERNEL_NAME(try)(sources, n, at, VECTOR_BYTES, &unsure);
    vector b = KERNEL_NAME(try)(sources, n, at + VECTOR_BYTES, VECTOR_BYTES, &unsure);
    vector c = KERNEL_NAME(try)(sources, n, at + 2 * VECTOR_BYTES, VECTOR_BYTES, &unsure);
    vector d = KERNEL_NAME(try)(sources, n, at + 3 * VECTOR_BYTES, VECTOR_BYTES, &unsure);
    if (__builtin_expect(is_any_set(unsure), 0)) {
        for (size_t vectors = 0; vectors < BLOCK_VECTORS; vectors++)
            KERNEL_NAME(fold_vector)(dst, sources, n, at + vectors * VECTOR_BYTES, VECTOR_BYTES);
        return;
    }
    store_four(dst + at, a, b, c, d);
}

static ALWAYS_INLINE void KERNEL_NAME(fold_all)(unsigned char *dst, const void *const *sources, uint32_t n,
                                                size_t bytes) {
    size_t at = 0;
    for (; bytes - at >= BLOCK_BYTES; at += BLOCK_BYTES)
        KERNEL_NAME(fold_block)(dst, sources, n, at);
    while (at < bytes) {
        const size_t step = bytes - at < VECTOR_BYTES ? bytes - at : VECTOR_BYTES;
        KERNEL_NAME(fold_vector)(dst, sources, n, at, step);
        at += step;
    }
}

static void KERNEL_NAME(fold)(void *dst, const void *const *sources, uint32_t n, size_t count, uint32_t ranks) {
    const size_t bytes = count * sizeof(ELEMENT);
    (void)ranks;
    switch (n) {
#if KIND == HALF
    case 2:
        KERNEL_NAME(fold_all)(dst, sources, 2, bytes);
        break;
#else
    case 1:
    case 2:
        PASTE3(fold, DTYPE, SUM)(dst, sources, n, count, n);
        break;
#endif
    case 3:
        KERNEL_NAME(fold_all)(dst, sources, 3, bytes);
        break;
    case 4:
        KERNEL_NAME(fold_all)(dst, sources, 4, bytes);
        break;
    default:
        KERNEL_NAME(fold_all)(dst, sources, n, bytes);
        break;
    }
}

static void KERNEL_NAME(fold_to_both)(void *dst, void *second, const void *const *sources, size_t count,
                                      uint32_t ranks) {
#if KIND == HALF
    KERNEL_NAME(fold)(dst, sources, 2, count, ranks);
    memcpy(second, dst, count * sizeof(ELEMENT));
#else
    PASTE3(fold_to_both, DTYPE, SUM)(dst, second, sources, count, ranks);
#endif
}

static void KERNEL_NAME(fold_partial)(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {
    (void)n;
    DTYPE_NAME(widen)(acc_dst, sources[0], count);
}

#if KIND == HALF

/* Reads two vectors of F32, in their order. */
static ALWAYS_INLINE pair KERNEL_NAME(read_wide)(const unsigned char *from, size_t bytes) {
    return load_pair(from, bytes);
}

/* Folds partial results in F32, and then narrows them, a piece at a time. */
static void KERNEL_NAME(finish_partials)(void *dst, const void *const *acc_sources, uint32_t n, size_t count,
                                         uint32_t ranks) {
    float results[PIECE_ELEMENTS];
    ELEMENT narrowed[PIECE_ELEMENTS];
    const size_t end = count * sizeof(float);
    (void)ranks;
    for (size_t begin = 0; begin < end; begin += sizeof results) {
        const size_t piece = end - begin < sizeof results ? end - begin : sizeof results;
        vector unsure = {0};
        for (size_t at = 0; at < piece; at += 2 * VECTOR_BYTES) {
            const size_t step = piece - at < 2 * VECTOR_BYTES ? piece - at : 2 * VECTOR_BYTES;
            const pair joined = KERNEL_NAME(join)(KERNEL_NAME(read_wide), acc_sources, n, begin + at, step, &unsure);
            store_pair((unsigned char *)results + at, joined, step);
        }
        const size_t first = begin / sizeof(float), elements = piece / sizeof(float);
        DTYPE_NAME(narrow)(narrowed, results, elements);
        for (size_t i = 0; is_any_set(unsure) && i < elements; i++)
            narrowed[i] = (ELEMENT)kolo_exact_element(KOLO_DTYPE, KOLO_F32, acc_sources, n, first + i);
        memcpy((unsigned char *)dst + first * sizeof(ELEMENT), narrowed, elements * sizeof(ELEMENT));
    }
}

#endif

#undef KOLO_DTYPE
#undef OP
