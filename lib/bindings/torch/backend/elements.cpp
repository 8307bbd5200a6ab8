/* PyTorch's operations in kolo's. The sum of bools is their "or" and their product "and", as NCCL has it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "elements.h"

#include <ATen/ExpandUtils.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>

namespace kolo_torch {

std::string dtype_of(const at::Tensor &tensor) {
    return std::string("torch.") + torch::getTHPDtype(tensor.scalar_type())->name;
}

namespace {

/* In the order of c10d::ReduceOp::RedOpType. */
constexpr struct {
    const char *name;
    kolo_op op;
    kolo_op op_of_bools;
} TABLE[] = {
    {"SUM", KOLO_SUM, KOLO_MAX}, {"AVG", KOLO_AVG, KOLO_AVG},    {"PRODUCT", KOLO_PROD, KOLO_MIN},
    {"MIN", KOLO_MIN, KOLO_MIN}, {"MAX", KOLO_MAX, KOLO_MAX},    {"BAND", KOLO_BAND, KOLO_BAND},
    {"BOR", KOLO_BOR, KOLO_BOR}, {"BXOR", KOLO_BXOR, KOLO_BXOR}, {"PREMUL_SUM", KOLO_SUM, KOLO_MAX},
};
constexpr size_t OPS = sizeof TABLE / sizeof *TABLE;

/* KOLO_OPS: there is none for that tensor's type. */
kolo_op find_op(size_t op, const at::Tensor &tensor) {
    const kolo_op found = tensor.scalar_type() == at::kBool ? TABLE[op].op_of_bools : TABLE[op].op;
    const Element element = element_of(tensor);
    return (element.ops & 1u << found) && kolo_op_supports(found, element.dtype) ? found : KOLO_OPS;
}

} // namespace

kolo_op op_of(const c10d::ReduceOp &op, const at::Tensor &tensor) {
    const auto number = static_cast<size_t>(static_cast<c10d::ReduceOp::RedOpType>(op));
    TORCH_CHECK(element_of(tensor).ops, "kolo: tensors of ", dtype_of(tensor),
                " can be moved between ranks, but not reduced: convert the tensor first");
    TORCH_CHECK(number < OPS, "kolo: the ReduceOp is none of torch.distributed's");
    const kolo_op found = find_op(number, tensor);
    if (found != KOLO_OPS)
        return found;
    std::string others;
    for (size_t i = 0; i < OPS; i++)
        if (i != c10d::ReduceOp::PREMUL_SUM && find_op(i, tensor) != KOLO_OPS)
            others += (others.empty() ? "" : ", ") + std::string(TABLE[i].name);
    TORCH_CHECK(false, "kolo: ReduceOp.", TABLE[number].name, " cannot be done with tensors of ", dtype_of(tensor),
                ", but ", others, " can: use one of these, or convert the tensor first");
}

static const c10d::NCCLPreMulSumSupplement &factor_of(const c10d::ReduceOp &op) {
    const auto *factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK(factor, "kolo: PREMUL_SUM without a factor");
    return *factor;
}

bool multiplies_first(const c10d::ReduceOp &op, const at::Tensor &tensor) {
    if (op != c10d::ReduceOp::PREMUL_SUM)
        return false;
    const at::Tensor by = tensor_factor(factor_of(op));
    TORCH_CHECK(by.defined() ? at::is_expandable_to(by.sizes(), tensor.sizes()) &&
                                   c10::canCast(by.scalar_type(), tensor.scalar_type())
                             : !at::isIntegralType(tensor.scalar_type(), true),
                "kolo: a tensor of ", dtype_of(tensor), " and size ", tensor.sizes(),
                " cannot be multiplied by this factor");
    return true;
}

void multiply(const at::Tensor &tensor, const c10d::ReduceOp &op) {
    const at::Tensor by = tensor_factor(factor_of(op));
    if (by.defined())
        tensor.mul_(by.to(tensor.scalar_type()));
    else
        tensor.mul_(factor_of(op).double_factor);
}

} // namespace kolo_torch
