/* The portable kernels of SUM_EXACT for one dtype, with the parameters of each_dtype.h: one element after another. */

static void KERNEL_NAME(fold_from)(kolo_dtype source_dtype, void *dst, const void *const *sources, uint32_t n,
                                   size_t count) {
    for (size_t i = 0; i < count; i++) { /* what is stored of an element are its lowest bytes */
        const uint64_t bits = kolo_exact_element(PASTE2(KOLO, DTYPE), source_dtype, sources, n, i);
        memcpy((char *)dst + i * sizeof(ELEMENT), &bits, sizeof(ELEMENT));
    }
}

static void KERNEL_NAME(fold)(void *dst, const void *const *sources, uint32_t n, size_t count, uint32_t ranks) {
    (void)ranks;
    KERNEL_NAME(fold_from)(PASTE2(KOLO, DTYPE), dst, sources, n, count);
}

static void KERNEL_NAME(fold_to_both)(void *dst, void *second, const void *const *sources, size_t count,
                                      uint32_t ranks) {
    KERNEL_NAME(fold)(dst, sources, 2, count, ranks);
    memcpy(second, dst, count * sizeof(ELEMENT));
}

static void KERNEL_NAME(fold_partial)(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {
    (void)n;
    DTYPE_NAME(widen)(acc_dst, sources[0], count);
}

#if KIND == HALF /* for the others it is fold */
static void KERNEL_NAME(finish_partials)(void *dst, const void *const *acc_sources, uint32_t n, size_t count,
                                         uint32_t ranks) {
    (void)ranks;
    KERNEL_NAME(fold_from)(KOLO_F32, dst, acc_sources, n, count);
}
#endif

#undef OP
