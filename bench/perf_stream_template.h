/* One instruction set's ways through memory. Included once for each instance; parameters:
 *
 *   STREAM(name)         the name of this instance's function
 *   STREAM_TARGET        the function attribute that selects the instruction set, or nothing
 *   STREAM_VECTOR_BYTES  16, 32 or 64
 *
 * The loops go line by line, so that a line is prefetched once whatever the width of a vector. Prefetching past the end
 * of a buffer is harmless. */

typedef uint64_t STREAM(vector) __attribute__((vector_size(STREAM_VECTOR_BYTES), may_alias));

enum { STREAM(per_line) = LINE_BYTES / STREAM_VECTOR_BYTES };

STREAM_TARGET static inline void STREAM(copy)(void *to, const void *from, size_t bytes, size_t ahead_bytes) {
    STREAM(vector) *out = to;
    const STREAM(vector) *in = from;
    for (size_t i = 0; i < bytes / STREAM_VECTOR_BYTES; i += STREAM(per_line)) {
        if (ahead_bytes > 0)
            __builtin_prefetch((const char *)&in[i] + ahead_bytes, 0, 3);
        for (size_t j = i; j < i + STREAM(per_line); j++)
            out[j] = in[j];
    }
}

STREAM_TARGET static void STREAM(copy_plain)(void *to, const void *from, size_t bytes) {
    STREAM(copy)(to, from, bytes, 0);
}

STREAM_TARGET static void STREAM(copy_prefetch)(void *to, const void *from, size_t bytes) {
    STREAM(copy)(to, from, bytes, AHEAD_BYTES);
}

STREAM_TARGET static inline void STREAM(update)(void *buffer, size_t bytes, size_t ahead_bytes) {
    STREAM(vector) *inout = buffer;
    for (size_t i = 0; i < bytes / STREAM_VECTOR_BYTES; i += STREAM(per_line)) {
        if (ahead_bytes > 0)
            __builtin_prefetch((const char *)&inout[i] + ahead_bytes, 1, 3);
        for (size_t j = i; j < i + STREAM(per_line); j++)
            inout[j] += 1;
    }
}

STREAM_TARGET static void STREAM(update_plain)(void *buffer, size_t bytes) {
    STREAM(update)(buffer, bytes, 0);
}

STREAM_TARGET static void STREAM(update_prefetch)(void *buffer, size_t bytes) {
    STREAM(update)(buffer, bytes, AHEAD_BYTES);
}

/* out may be in. */
STREAM_TARGET static void STREAM(join_plain)(void *box, const void *in, void *out, size_t bytes) {
    STREAM(vector) *inout = box, *copy = out;
    const STREAM(vector) *addends = in;
    for (size_t i = 0; i < bytes / STREAM_VECTOR_BYTES; i++)
        copy[i] = inout[i] += addends[i];
}

STREAM_TARGET static void STREAM(fill_plain)(void *to, uint64_t value, size_t bytes) {
    STREAM(vector) *out = to;
    STREAM(vector) all = value - (STREAM(vector)){0};
    for (size_t i = 0; i < bytes / STREAM_VECTOR_BYTES; i++)
        out[i] = all;
}

/* Four sums, so that no addition waits for the one before it. */
STREAM_TARGET static inline uint64_t STREAM(read)(const void *from, size_t bytes, size_t ahead_bytes) {
    const STREAM(vector) *in = from;
    STREAM(vector) a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < bytes / STREAM_VECTOR_BYTES; i += 4) {
        for (size_t line_bytes = 0; ahead_bytes > 0 && line_bytes < 4 * STREAM_VECTOR_BYTES; line_bytes += LINE_BYTES)
            __builtin_prefetch((const char *)&in[i] + ahead_bytes + line_bytes, 0, 3);
        a += in[i];
        b += in[i + 1];
        c += in[i + 2];
        d += in[i + 3];
    }
    a += b + c + d;
    uint64_t sum = 0;
    for (size_t i = 0; i < STREAM_VECTOR_BYTES / sizeof(sum); i++)
        sum += a[i];
    return sum;
}

STREAM_TARGET static uint64_t STREAM(read_plain)(const void *from, size_t bytes) {
    return STREAM(read)(from, bytes, 0);
}

STREAM_TARGET static uint64_t STREAM(read_prefetch)(const void *from, size_t bytes) {
    return STREAM(read)(from, bytes, AHEAD_BYTES);
}

static const perf_stream_way STREAM(ways)[] = {
    {"plain", STREAM(copy_plain), STREAM(update_plain), STREAM(join_plain), STREAM(fill_plain), STREAM(read_plain)},
    {"prefetch", STREAM(copy_prefetch), STREAM(update_prefetch), NULL, NULL, STREAM(read_prefetch)}};

#undef STREAM
#undef STREAM_TARGET
#undef STREAM_VECTOR_BYTES
