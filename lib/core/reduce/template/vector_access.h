/* Vector access: loads and stores of vectors, whole or in part. The including file has defined load_partial and
 * store_partial for its instruction set, or included partial_access.h. */
#pragma once

#include "reduce/template/vector_types.h"

/* Loads the first `bytes` bytes, 1 to VECTOR_BYTES, and zeros. */
static ALWAYS_INLINE vector load(const unsigned char *from, size_t bytes) {
    return bytes == VECTOR_BYTES ? load_whole(from) : load_partial(from, bytes);
}

static ALWAYS_INLINE void store(unsigned char *to, vector value, size_t bytes) {
    if (bytes == VECTOR_BYTES)
        store_whole(to, value);
    else
        store_partial(to, value, bytes);
}

static ALWAYS_INLINE void store_four(unsigned char *to, vector a, vector b, vector c, vector d) {
    store_whole(to, a);
    store_whole(to + VECTOR_BYTES, b);
    store_whole(to + 2 * VECTOR_BYTES, c);
    store_whole(to + 3 * VECTOR_BYTES, d);
}

/* Loads two vectors that lie one after the other; `bytes` is 1 to 2 * VECTOR_BYTES. */
static ALWAYS_INLINE pair load_pair(const unsigned char *from, size_t bytes) {
    if (bytes <= VECTOR_BYTES)
        return (pair){load(from, bytes), (vector){0}};
    return (pair){load_whole(from), load(from + VECTOR_BYTES, bytes - VECTOR_BYTES)};
}

static ALWAYS_INLINE void store_pair(unsigned char *to, pair value, size_t bytes) {
    if (bytes <= VECTOR_BYTES) {
        store(to, value.first, bytes);
        return;
    }
    store_whole(to, value.first);
    store(to + VECTOR_BYTES, value.second, bytes - VECTOR_BYTES);
}
