/* The portable kernels of one dtype and op, by the parameters of each_dtype.h and each_op.h: see portable_dtype.h. */

/* acc[i] = tree(sources[0][first + i] .. sources[n-1][first + i]), i in 0 .. count-1. */
static ONE_COPY void KERNEL_NAME(tree)(ACC *acc, const void *const *sources, uint32_t n, size_t first, size_t count) {
    if (n == 1) {
        for (size_t i = 0; i < count; i++)
            acc[i] = DTYPE_NAME(load)(sources[0], first + i);
        return;
    }
    ACC right[BLOCK_ELEMENTS];
    uint32_t left_n = kolo_tree_left(n);
    KERNEL_NAME(tree)(acc, sources, left_n, first, count);
    KERNEL_NAME(tree)(right, sources + left_n, n - left_n, first, count);
    for (size_t i = 0; i < count; i++)
        acc[i] = (ACC)WIDE_NAME(combine)(PASTE2(KOLO, OP), acc[i], right[i]);
}

static inline ACC KERNEL_NAME(finish_one)(ACC acc, uint32_t ranks) {
    if (PASTE2(KOLO, OP) == KOLO_AVG)
        acc = (ACC)WIDE_NAME(average)(acc, ranks);
    return (ACC)WIDE_NAME(canonical)(acc);
}

/* Stores elements first .. first+count-1 of the result, whose tree is in acc. */
static void KERNEL_NAME(finish_block)(void *dst, const ACC *acc, size_t first, size_t count, uint32_t ranks) {
    for (size_t i = 0; i < count; i++) {
        ACC result = KERNEL_NAME(finish_one)(acc[i], ranks);
        DTYPE_NAME(store)(dst, first + i, result);
    }
}

static ONE_COPY void KERNEL_NAME(fold)(void *dst, const void *const *sources, uint32_t n, size_t count,
                                       uint32_t ranks) {
    ACC acc[BLOCK_ELEMENTS];
    for (size_t first = 0; first < count; first += BLOCK_ELEMENTS) {
        size_t block_count = count - first < BLOCK_ELEMENTS ? count - first : BLOCK_ELEMENTS;
        KERNEL_NAME(tree)(acc, sources, n, first, block_count);
        KERNEL_NAME(finish_block)(dst, acc, first, block_count, ranks);
    }
}

static void KERNEL_NAME(fold_to_both)(void *dst, void *second, const void *const *sources, size_t count,
                                      uint32_t ranks) {
    KERNEL_NAME(fold)(dst, sources, 2, count, ranks);
    memcpy(second, dst, count * sizeof(ELEMENT));
}

#if KIND == HALF /* for the others it is fold */
static void KERNEL_NAME(finish_partials)(void *dst, const void *const *acc_sources, uint32_t n, size_t count,
                                         uint32_t ranks) {
    ACC acc[BLOCK_ELEMENTS];
    for (size_t first = 0; first < count; first += BLOCK_ELEMENTS) {
        size_t block_count = count - first < BLOCK_ELEMENTS ? count - first : BLOCK_ELEMENTS;
        F32_NAME(tree)(acc, acc_sources, n, first, block_count);
        KERNEL_NAME(finish_block)(dst, acc, first, block_count, ranks);
    }
}
#endif

static void KERNEL_NAME(chain_end)(void *dst, const void *acc_in, const void *source, size_t count, uint32_t ranks) {
    for (size_t i = 0; i < count; i++) {
        ACC acc = DTYPE_NAME(load_acc)(acc_in, i);
        acc = (ACC)WIDE_NAME(combine)(PASTE2(KOLO, OP), acc, DTYPE_NAME(load)(source, i));
        ACC result = KERNEL_NAME(finish_one)(acc, ranks);
        DTYPE_NAME(store)(dst, i, result);
    }
}

#if !AVERAGE
static void KERNEL_NAME(fold_partial)(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {
    ACC acc[BLOCK_ELEMENTS];
    for (size_t first = 0; first < count; first += BLOCK_ELEMENTS) {
        size_t block_count = count - first < BLOCK_ELEMENTS ? count - first : BLOCK_ELEMENTS;
        KERNEL_NAME(tree)(acc, sources, n, first, block_count);
        for (size_t i = 0; i < block_count; i++)
            DTYPE_NAME(store_acc)(acc_dst, first + i, (ACC)WIDE_NAME(canonical)(acc[i]));
    }
}

static void KERNEL_NAME(chain)(void *acc_out, const void *acc_in, const void *source, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ACC acc = DTYPE_NAME(load_acc)(acc_in, i);
        acc = (ACC)WIDE_NAME(combine)(PASTE2(KOLO, OP), acc, DTYPE_NAME(load)(source, i));
        DTYPE_NAME(store_acc)(acc_out, i, (ACC)WIDE_NAME(canonical)(acc));
    }
}
#endif

#undef OP
