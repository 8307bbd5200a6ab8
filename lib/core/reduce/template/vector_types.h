/* Vectors of VECTOR_BYTES bytes: their types, in the compiler's vector extension, and how whole ones are read and
 * written. A `vector` is bytes; for arithmetic it is cast to a type with elements (SIMD lanes); casts keep the bits.
 *
 * The header of an instruction set in isa/ includes this one. Before that it defines
 *
 *   VECTOR_BYTES                   of one vector
 *   CANONICAL_IN_F32               1: two of canonical_f32 are faster than a comparison and a choice of 16-bit elements
 *
 * and behind it the operations that the vector extension lacks. They are all that kernels need for an instruction set:
 *
 *   load_partial, store_partial    the first bytes of a vector, and nothing beside them
 *   minimum_f32, maximum_f32       of IEEE 754-2019, but any NaN may stand for another, and likewise for f64
 *   canonical_f32                  every NaN becomes the positive quiet one without payload, and likewise for f64
 *   unpack_F16, pack_F16           VECTOR_BYTES bytes of binary16 from and to a pair, elements in order
 *   interleave_f32                 of a pair, the first element of each, then the second of each, and so on
 *   doubles_of                     half a vector of F32 in memory, widened
 *   sqrt_f32, sqrt_f64             of each element, correctly rounded
 *   minimum_u32, maximum_u32       element by element
 *   is_any_set                     whether any bit of a vector is
 *   sign_bits                      of the elements of F32, as an integer, element 0 in bit 0 */
#pragma once

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
