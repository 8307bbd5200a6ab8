/* PyTorch's element types in kolo's: one table for the backend and for the operators, in whose headers the enumeration
 * of PyTorch's types has different names. Saved models have its numbers, so they do not change.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include "kolo.h"

#ifndef KOLO_TORCH /* torch_compat.h has it; the operators are for late versions only */
#define KOLO_TORCH(major, minor) 1
#endif

namespace kolo_torch {

/* An element of a tensor: `width` elements of kolo's, with which `ops` can be done, a bit each. Complex numbers are two
 * floats each. A bool is a byte of 0 or 1. A type that kolo does not know is its bytes, and can only be moved. */
struct Element {
    kolo_dtype dtype;
    unsigned width;
    unsigned ops;
};

constexpr unsigned OPS_ALL = (1u << KOLO_OPS) - 1;
constexpr unsigned OPS_COMPLEX = 1u << KOLO_SUM | 1u << KOLO_AVG | 1u << KOLO_SUM_EXACT;
constexpr unsigned OPS_BOOL = OPS_ALL & ~OPS_COMPLEX;

template <class ScalarType> Element element_of(ScalarType type, size_t item_bytes) {
    switch (type) {
    case ScalarType::Float:
        return {KOLO_F32, 1, OPS_ALL};
    case ScalarType::BFloat16:
        return {KOLO_BF16, 1, OPS_ALL};
    case ScalarType::Half:
        return {KOLO_F16, 1, OPS_ALL};
    case ScalarType::Double:
        return {KOLO_F64, 1, OPS_ALL};
    case ScalarType::Long:
        return {KOLO_I64, 1, OPS_ALL};
    case ScalarType::Int:
        return {KOLO_I32, 1, OPS_ALL};
    case ScalarType::Short:
        return {KOLO_I16, 1, OPS_ALL};
    case ScalarType::Char:
        return {KOLO_I8, 1, OPS_ALL};
    case ScalarType::Byte:
        return {KOLO_U8, 1, OPS_ALL};
    case ScalarType::Bool:
        return {KOLO_U8, 1, OPS_BOOL};
    case ScalarType::ComplexFloat:
        return {KOLO_F32, 2, OPS_COMPLEX};
    case ScalarType::ComplexDouble:
        return {KOLO_F64, 2, OPS_COMPLEX};
    case ScalarType::ComplexHalf:
        return {KOLO_F16, 2, OPS_COMPLEX};
#if KOLO_TORCH(2, 3)
    case ScalarType::UInt16:
        return {KOLO_U16, 1, OPS_ALL};
    case ScalarType::UInt32:
        return {KOLO_U32, 1, OPS_ALL};
    case ScalarType::UInt64:
        return {KOLO_U64, 1, OPS_ALL};
#endif
    default:
        return {KOLO_U8, static_cast<unsigned>(item_bytes), 0};
    }
}

} // namespace kolo_torch
