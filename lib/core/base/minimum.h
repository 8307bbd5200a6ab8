/* The smaller one of two sizes, or of two times. */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline size_t kolo_minimum(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline int64_t kolo_minimum_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}
