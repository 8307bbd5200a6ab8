/* The kernels of one dtype and op, with the parameters of each_dtype.h and each_op.h. */
#include "reduce/template/fold_template.h"

/* Widens a half, which is then the second operand of the F32 kernel, a piece at a time. */
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
/* Folds partial results in F32, and then narrows them, a piece at a time. */
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

#if !AVERAGE

static void KERNEL_NAME(chain)(void *acc_out, const void *acc_in, const void *source, size_t count) {
#if KIND == HALF
    float widened[PIECE_ELEMENTS];
    for (size_t done = 0; done < count; done += PIECE_ELEMENTS) {
        size_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
        DTYPE_NAME(widen)(widened, (const char *)source + done * sizeof(ELEMENT), piece);
        const size_t at = done * sizeof(float);
        F32_NAME(chain)((char *)acc_out + at, (const char *)acc_in + at, widened, piece);
    }
#else
    const void *const sources[] = {acc_in, source};
    KERNEL_NAME(fold)(acc_out, sources, 2, count, 1);
#endif
}

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

/* Finds the result, which is an element of the sources, in the dtype, and then widens it, a piece at a time. */
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

#endif

#undef OP
