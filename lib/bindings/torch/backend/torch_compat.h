/* The versions of PyTorch that kolo's backend is compiled for: 2.14 and earlier, down to 1.13. Backends have no stable
 * interface, so each minor version gets a shared object of its own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include <torch/version.h>

#define KOLO_TORCH(major, minor) (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= (major)*100 + (minor))

#if KOLO_TORCH(2, 0)
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else /* 1.13: a backend is a process group */
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <torch/csrc/distributed/c10d/Store.hpp>

#if !KOLO_TORCH(2, 0)
namespace c10 {
using DistBackendError = Error;
}
#endif

namespace kolo_torch {

#if KOLO_TORCH(2, 0)
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

#if KOLO_TORCH(2, 1)
constexpr auto COALESCED = c10d::OpType::COALESCED;
#else
constexpr auto COALESCED = c10d::OpType::UNKNOWN;
#endif

/* What PREMUL_SUM multiplies with if it is not a number; else undefined. */
inline at::Tensor tensor_factor(const c10d::NCCLPreMulSumSupplement &factor) {
#if KOLO_TORCH(2, 0)
    return factor.tensor_factor;
#else
    return factor.tensor_factors.empty() ? at::Tensor() : factor.tensor_factors.front();
#endif
}

template <class Options> bool is_async(const Options &options) {
#if KOLO_TORCH(2, 8)
    return options.asyncOp;
#else
    return (void)options, true;
#endif
}

} // namespace kolo_torch
