/* The kernels of one dtype and op that take results in the accumulation type and end in the dtype. Parameters as for
 * fold_template.h, which has been included before. */

/* A half is widened and then the second operand of the F32 kernel, a piece at a time. */
static void KERNEL_NAME(chain_end)(void *dst, const void *acc_in, const void *source, size_t count, uint32_t ranks) {
#if KIND == HALF
    float results[PIECE_ELEMENTS];
    for (size_t done = 0; done < count; done += PIECE_ELEMENTS) {
        size_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
        DTYPE_NAME(widen)(results, (const char *)source + done * sizeof(ELEMENT), piece);
        F32_NAME(chain_end)(results, (const char *)acc_in + done * sizeof(float), results, piece, ranks);
        DTYPE_NAME(narrow)((char *)dst + done * sizeof(ELEMENT), results, piece);
    }
#else
    const void *const sources[] = {acc_in, source};
    KERNEL_NAME(fold)(dst, sources, 2, count, ranks);
#endif
}

#if KIND == HALF
/* In F32, and then narrowed, a piece at a time. */
static void KERNEL_NAME(finish_partials)(void *dst, const void *const *acc_sources, uint32_t n, size_t count,
                                         uint32_t ranks) {
    float results[PIECE_ELEMENTS];
    const void *pieces[KOLO_RANKS_MAX];
    for (size_t done = 0; done < count; done += PIECE_ELEMENTS) {
        size_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
        for (uint32_t i = 0; i < n; i++)
            pieces[i] = (const char *)acc_sources[i] + done * sizeof(float);
        F32_NAME(fold)(results, pieces, n, piece, ranks);
        DTYPE_NAME(narrow)((char *)dst + done * sizeof(ELEMENT), results, piece);
    }
}
#endif
