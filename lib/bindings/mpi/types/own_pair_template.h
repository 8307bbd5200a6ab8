/* MINLOC and MAXLOC on pairs. Of equal values the lower index counts. The includer defines
 *     VALUE, INDEX  types of the two parts
 *     NAME(op)      the names of the functions and of the pair */

struct NAME(pair) {
    VALUE value;
    INDEX index;
};

static void NAME(min)(const void *in, void *inout, size_t count, void *context) {
    const struct NAME(pair) *const lower = in;
    struct NAME(pair) *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        const bool same = lower[i].value == upper[i].value;
        if (lower[i].value < upper[i].value || (same && lower[i].index < upper[i].index))
            upper[i] = lower[i];
    }
}

static void NAME(max)(const void *in, void *inout, size_t count, void *context) {
    const struct NAME(pair) *const lower = in;
    struct NAME(pair) *const upper = inout;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        const bool same = lower[i].value == upper[i].value;
        if (lower[i].value > upper[i].value || (same && lower[i].index < upper[i].index))
            upper[i] = lower[i];
    }
}
#undef VALUE
#undef INDEX
#undef NAME
