/* PyTorch's types and operations in kolo's. Complex numbers are two floats each, for what treats both alike. A bool is
 * a byte of 0 or 1, whose sum is their "or" and whose product their "and", as NCCL has it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "elements.h"

#include <cctype>

#include <ATen/ExpandUtils.h>

namespace kolo_torch {

Element element_of(const at::Tensor &tensor) {
    switch (tensor.scalar_type()) {
    case at::kFloat:
        return {KOLO_F32, 1, true};
    case at::kBFloat16:
        return {KOLO_BF16, 1, true};
    case at::kHalf:
        return {KOLO_F16, 1, true};
    case at::kDouble:
        return {KOLO_F64, 1, true};
    case at::kLong:
        return {KOLO_I64, 1, true};
    case at::kInt:
        return {KOLO_I32, 1, true};
    case at::kShort:
        return {KOLO_I16, 1, true};
    case at::kChar:
        return {KOLO_I8, 1, true};
    case at::kBool:
    case at::kByte:
        return {KOLO_U8, 1, true};
    case at::kComplexFloat:
        return {KOLO_F32, 2, true};
    case at::kComplexDouble:
        return {KOLO_F64, 2, true};
    case at::kComplexHalf:
        return {KOLO_F16, 2, true};
#if KOLO_TORCH(2, 3)
    case at::kUInt16:
        return {KOLO_U16, 1, true};
    case at::kUInt32:
        return {KOLO_U32, 1, true};
    case at::kUInt64:
        return {KOLO_U64, 1, true};
#endif
    default:
        return {KOLO_U8, static_cast<size_t>(tensor.element_size()), false};
    }
}

std::string dtype_of(const at::Tensor &tensor) {
    switch (tensor.scalar_type()) { /* whose names in C++ and in Python differ by more than case */
    case at::kFloat:
        return "torch.float32";
    case at::kDouble:
        return "torch.float64";
    case at::kHalf:
        return "torch.float16";
    case at::kLong:
        return "torch.int64";
    case at::kInt:
        return "torch.int32";
    case at::kShort:
        return "torch.int16";
    case at::kChar:
        return "torch.int8";
    case at::kByte:
        return "torch.uint8";
    case at::kComplexHalf:
        return "torch.complex32";
    case at::kComplexFloat:
        return "torch.complex64";
    case at::kComplexDouble:
        return "torch.complex128";
    default:
        break;
    }
    std::string name = c10::toString(tensor.scalar_type());
    for (char &letter : name)
        letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    return "torch." + name;
}

namespace {

/* In the order of c10d::ReduceOp::RedOpType. */
const char *const OP_NAMES[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
constexpr size_t OPS = sizeof OP_NAMES / sizeof *OP_NAMES;

/* KOLO_OPS: there is none for that tensor's type. */
kolo_op find_op(size_t op, const at::Tensor &tensor) {
    const bool is_bool = tensor.scalar_type() == at::kBool, is_complex = tensor.is_complex();
    kolo_op found = KOLO_OPS;
    switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PREMUL_SUM:
        found = is_bool ? KOLO_MAX : KOLO_SUM;
        break;
    case c10d::ReduceOp::AVG:
        found = is_bool ? KOLO_OPS : KOLO_AVG;
        break;
    case c10d::ReduceOp::PRODUCT:
        found = is_complex ? KOLO_OPS : is_bool ? KOLO_MIN : KOLO_PROD;
        break;
    case c10d::ReduceOp::MIN:
        found = is_complex ? KOLO_OPS : KOLO_MIN;
        break;
    case c10d::ReduceOp::MAX:
        found = is_complex ? KOLO_OPS : KOLO_MAX;
        break;
    case c10d::ReduceOp::BAND:
        found = KOLO_BAND;
        break;
    case c10d::ReduceOp::BOR:
        found = KOLO_BOR;
        break;
    case c10d::ReduceOp::BXOR:
        found = KOLO_BXOR;
        break;
    default:
        break;
    }
    return found != KOLO_OPS && kolo_op_supports(found, element_of(tensor).dtype) ? found : KOLO_OPS;
}

} // namespace

kolo_op op_of(const c10d::ReduceOp &op, const at::Tensor &tensor) {
    const auto number = static_cast<size_t>(static_cast<c10d::ReduceOp::RedOpType>(op));
    TORCH_CHECK(element_of(tensor).is_reduced, "kolo: tensors of ", dtype_of(tensor),
                " can be moved between ranks, but not reduced: convert the tensor first");
    TORCH_CHECK(number < OPS, "kolo: the ReduceOp is none of torch.distributed's");
    const kolo_op found = find_op(number, tensor);
    if (found != KOLO_OPS)
        return found;
    std::string others;
    for (size_t i = 0; i < OPS; i++)
        if (i != c10d::ReduceOp::PREMUL_SUM && find_op(i, tensor) != KOLO_OPS)
            others += (others.empty() ? "" : ", ") + std::string(OP_NAMES[i]);
    TORCH_CHECK(false, "kolo: ReduceOp.", OP_NAMES[number], " cannot be done with tensors of ", dtype_of(tensor),
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
    TORCH_CHECK(by.defined() ? at::is_expandable_to(by.sizes(), tensor.sizes())
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
