/* PyTorch's types and operations in kolo's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include "backend.h"
#include "element_table.h"

namespace kolo_torch {

inline Element element_of(const at::Tensor &tensor) {
    return element_of(tensor.scalar_type(), static_cast<size_t>(tensor.element_size()));
}

std::string dtype_of(const at::Tensor &tensor); /* as Python has it: "torch.bool" */

/* A reduction of PyTorch's, for tensors of that type. Throws where there is none. */
kolo_op op_of(const c10d::ReduceOp &op, const at::Tensor &tensor);

/* PREMUL_SUM: multiplies the tensor, which kolo then sums. Throws before it does where that cannot be done. */
bool multiplies_first(const c10d::ReduceOp &op, const at::Tensor &tensor);
void multiply(const at::Tensor &tensor, const c10d::ReduceOp &op);

} // namespace kolo_torch
