/* The logical operations on integers of one size. The includer defines
 *     INTEGER   the integer
 *     NAME(op)  the names of the functions */

static void NAME (and)(const void *in, void *inout, size_t count, void *context) {
    const INTEGER *const lower = in;
    INTEGER *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++)
        upper[i] = lower[i] && upper[i];
}

static void NAME(or)(const void *in, void *inout, size_t count, void *context) {
    const INTEGER *const lower = in;
    INTEGER *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++)
        upper[i] = lower[i] || upper[i];
}

static void NAME (xor)(const void *in, void *inout, size_t count, void *context) {
    const INTEGER *const lower = in;
    INTEGER *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++)
        upper[i] = !lower[i] != !upper[i];
}
#undef INTEGER
#undef NAME
