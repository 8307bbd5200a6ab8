/* The kernel of one dtype and op whose result is in the accumulation type, which an average has no need of. Parameters
 * as for fold_template.h, which has been included before. */

#if WIDENED

static void KERNEL_NAME(fold_partial)(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {
    pair rows[TREE_DEPTH_MAX][BLOCK_VECTORS];
    const size_t bytes = count * sizeof(ELEMENT);
    for (size_t at = 0; at < bytes;) {
        const bool is_block = bytes - at >= BLOCK_BYTES;
        const size_t step = is_block || bytes - at > VECTOR_BYTES ? VECTOR_BYTES : bytes - at;
        if (is_block)
            KERNEL_NAME(tree_any)(rows, BLOCK_VECTORS, sources, n, at, VECTOR_BYTES);
        else
            KERNEL_NAME(tree_any)(rows, 1, sources, n, at, step);
        for (uint32_t v = 0; v < (is_block ? BLOCK_VECTORS : 1); v++, at += step) {
            pair acc = {canonical(KOLO_F32, rows[0][v].first), canonical(KOLO_F32, rows[0][v].second)};
            store_pair((unsigned char *)acc_dst + 2 * at, DTYPE_NAME(in_order)(acc), 2 * step);
        }
    }
}

#elif KIND == HALF

/* The result is one of the sources': found in the dtype and then widened, a piece at a time. */
static void KERNEL_NAME(fold_partial)(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {
    ELEMENT results[PIECE_ELEMENTS];
    const void *pieces[KOLO_RANKS_MAX];
    for (size_t done = 0; done < count; done += PIECE_ELEMENTS) {
        size_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
        for (uint32_t i = 0; i < n; i++)
            pieces[i] = (const char *)sources[i] + done * sizeof(ELEMENT);
        KERNEL_NAME(fold)(results, pieces, n, piece, 1);
        DTYPE_NAME(widen)((char *)acc_dst + done * sizeof(float), results, piece);
    }
}

#else

static void KERNEL_NAME(fold_partial)(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {
    KERNEL_NAME(fold)(acc_dst, sources, n, count, 1);
}

#endif
