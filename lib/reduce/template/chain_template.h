/* The chain kernel of one dtype and op, which an average has no need of. Parameters as for fold_template.h, which has
 * been included before. */

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
