/* The product of a floating-point type of C, and what else kolo lacks where the type is real: sum, least and greatest.
 * The includer defines
 *     FLOAT     the type
 *     REAL      1: it is real; 0: complex
 *     NAME(op)  the names of the functions */

static void NAME(prod)(const void *in, void *inout, size_t count, void *context) {
    const FLOAT *const lower = in;
    FLOAT *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++)
        upper[i] = lower[i] * upper[i];
}

#if REAL
static void NAME(sum)(const void *in, void *inout, size_t count, void *context) {
    const FLOAT *const lower = in;
    FLOAT *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++)
        upper[i] = lower[i] + upper[i];
}

static void NAME(min)(const void *in, void *inout, size_t count, void *context) {
    const FLOAT *const lower = in;
    FLOAT *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++)
        upper[i] = lower[i] < upper[i] ? lower[i] : upper[i];
}

static void NAME(max)(const void *in, void *inout, size_t count, void *context) {
    const FLOAT *const lower = in;
    FLOAT *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++)
        upper[i] = lower[i] > upper[i] ? lower[i] : upper[i];
}
#endif
#undef FLOAT
#undef REAL
#undef NAME
