/* Vectors of VECTOR_BYTES bytes, which the including file defines: their types, in the compiler's vector extension, and
 * how whole ones are read and written. A `vector` is bytes; for arithmetic it is cast to a type with elements (SIMD
 * lanes), and all casts between these types keep the bits. */
#ifndef KOLO_REDUCE_TEMPLATE_VECTOR_TYPES_H
#define KOLO_REDUCE_TEMPLATE_VECTOR_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

/* Kernels are made of small inline functions whose constant arguments disappear. Without optimisation, or with a
 * sanitizer's checks, they would not, and inlining all of them would take compilers minutes. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

typedef uint8_t vector __attribute__((vector_size(VECTOR_BYTES)));
typedef int8_t i8v __attribute__((vector_size(VECTOR_BYTES)));
typedef uint8_t u8v __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t i16v __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t u16v __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t i32v __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t u32v __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t i64v __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t u64v __attribute__((vector_size(VECTOR_BYTES)));
typedef float f32v __attribute__((vector_size(VECTOR_BYTES)));
typedef double f64v __attribute__((vector_size(VECTOR_BYTES)));

/* A vector of 16-bit floats, widened. Each dtype decides which elements are in which member. */
typedef struct pair {
    vector first;
    vector second;
} pair;

static ALWAYS_INLINE vector load_whole(const unsigned char *from) {
    vector value;
    memcpy(&value, from, sizeof value);
    return value;
}

static ALWAYS_INLINE void store_whole(unsigned char *to, vector value) {
    memcpy(to, &value, sizeof value);
}

#endif
