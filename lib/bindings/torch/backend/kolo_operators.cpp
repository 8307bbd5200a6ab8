// torch.ops.kolo.*: collectives of libkolo on PyTorch's CPU tensors, as operators that torch.compile takes.
//
// They use PyTorch's stable ABI and nothing else of PyTorch, so that one shared object serves every minor from 2.11 on.
// A call is small: no lock, no allocation but of results, the element type by a table. PyTorch lets go of Python's lock
// before it calls an operator.
//
// An operator names its communicator by a number, since graphs hold numbers. It is an entry of a table here, and how
// many entries there were before: a number is never used twice. An entry is not a communicator but the place of a
// pointer to one, which its owner sets to NULL when the communicator ends. So a call with an old number, or on a closed
// communicator, is an error in words. As with kolo itself, nobody may close a communicator that a call is using.
//
// Shapes for tracing are in ops.py beside this.
//
// SPDX-License-Identifier: Apache-2.0
#define TORCH_TARGET_VERSION (((0ULL + 2) << 56) | ((0ULL + 11) << 48))

#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/stable/library.h>
#include <torch/headeronly/core/ScalarType.h>

#include "element_table.h"

namespace {

using kolo_torch::Element;

[[noreturn]] void refuse(const std::string &why) {
    throw std::runtime_error("torch.ops.kolo: " + why);
}

// Communicators by number.

constexpr int64_t ENTRIES = 1 << 12;

struct Entry {
    std::atomic<int64_t> number{0}; // 0: free
    kolo_comm *const *place = nullptr;
};

Entry entries[ENTRIES];
std::mutex entries_lock; // for those who add and remove
int64_t entries_made = 0;

kolo_comm *communicator(int64_t number) {
    const Entry &entry = entries[number & (ENTRIES - 1)];
    if (number <= 0 || entry.number.load() != number)
        refuse("comm " + std::to_string(number) +
               " is no communicator of kolo4py.torch.ops.handle, or one that does not exist any more");
    if (*entry.place == nullptr)
        refuse("the communicator " + std::to_string(number) + " is closed");
    return *entry.place;
}

// Tensors.

// A tensor that an operator was given, or makes: owns its handle.
class Tensor {
  public:
    explicit Tensor(AtenTensorHandle owned) : handle(owned) {}
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
    ~Tensor() {
        if (handle != nullptr)
            aoti_torch_delete_tensor_object(handle);
    }

    AtenTensorHandle release() {
        AtenTensorHandle given = handle;
        handle = nullptr;
        return given;
    }

    int32_t dtype() const {
        int32_t value = 0;
        TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(handle, &value));
        return value;
    }

    std::vector<int64_t> sizes() const {
        int64_t dimensions = 0;
        int64_t *lengths = nullptr;
        TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(handle, &dimensions));
        TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(handle, &lengths));
        return {lengths, lengths + dimensions};
    }

    int64_t items() const {
        int64_t count = 0;
        TORCH_ERROR_CODE_CHECK(aoti_torch_get_numel(handle, &count));
        return count;
    }

    const void *read() const {
        const void *data = nullptr;
        TORCH_ERROR_CODE_CHECK(torch_get_const_data_ptr(handle, &data));
        return data;
    }

    void *write() const {
        void *data = nullptr;
        TORCH_ERROR_CODE_CHECK(torch_get_mutable_data_ptr(handle, &data));
        return data;
    }

    void must_be_contiguous(const char *name) const {
        bool contiguous = false;
        TORCH_ERROR_CODE_CHECK(aoti_torch_is_contiguous(handle, &contiguous));
        if (!contiguous)
            refuse(std::string(name) + " is not contiguous: pass " + name + ".contiguous()");
    }

    // An uninitialized one of the same dtype.
    AtenTensorHandle make(const std::vector<int64_t> &lengths) const {
        std::vector<int64_t> strides(lengths.size());
        int64_t stride = 1;
        for (size_t i = lengths.size(); i-- > 0;) {
            strides[i] = stride;
            stride *= lengths[i] > 1 ? lengths[i] : 1;
        }
        AtenTensorHandle made = nullptr;
        TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<int64_t>(lengths.size()), lengths.data(),
                                                        strides.data(), dtype(), aoti_torch_device_type_cpu(), 0,
                                                        &made));
        return made;
    }

  private:
    AtenTensorHandle handle;
};

// How kolo sees the items of a tensor.
struct Items {
    Element element;
    size_t count; // in kolo's elements
};

Items items_of(const Tensor &tensor) {
    const int32_t dtype = tensor.dtype();
    const Element element =
        kolo_torch::element_of(static_cast<torch::headeronly::ScalarType>(dtype), aoti_torch_dtype_element_size(dtype));
    return {element, static_cast<size_t>(tensor.items()) * element.width};
}

kolo_op op_of(int64_t op, const Element &element) {
    if (op < 0 || op >= KOLO_OPS)
        refuse("op " + std::to_string(op) +
               " is none of kolo4py.torch.ops.SUM, PROD, MIN, MAX, AVG, BAND, BOR, BXOR, SUM_EXACT");
    if ((element.ops & 1u << op) == 0)
        refuse(std::string("op ") + kolo_name(KOLO_NAME_OP, static_cast<int>(op)) + " cannot be done with this dtype");
    return static_cast<kolo_op>(op);
}

void must_match(const Tensor &out, const Tensor &input, int64_t items, const char *rule) {
    out.must_be_contiguous("out");
    input.must_be_contiguous("input");
    if (out.dtype() != input.dtype())
        refuse("out and input are of different dtypes");
    if (out.items() != items)
        refuse("out has " + std::to_string(out.items()) + " items, but needs " + std::to_string(items) + ": " + rule);
}

// A block for each rank along the first dimension.
int64_t block_of(int64_t whole, int64_t ranks, const char *what) {
    if (whole % ranks != 0)
        refuse(std::string(what) + " is " + std::to_string(whole) + ", which " + std::to_string(ranks) +
               " ranks do not divide");
    return whole / ranks;
}

std::vector<int64_t> sizes_with_dimension(const Tensor &input) {
    std::vector<int64_t> lengths = input.sizes();
    if (lengths.empty())
        refuse("input has no dimension that could be divided among the ranks");
    return lengths;
}

void must_succeed(int status) {
    if (status < 0)
        throw std::runtime_error(kolo_error_message());
}

// The calls, on tensors that fit together.

void reduce_all(const Tensor &out, const Tensor &input, int64_t comm, int64_t op) {
    const Items items = items_of(input);
    const kolo_op kind = op_of(op, items.element);
    must_succeed(kolo_allreduce(communicator(comm), input.read(), out.write(), items.count, items.element.dtype, kind));
}

void gather_all(const Tensor &out, const Tensor &input, int64_t comm) {
    const Items items = items_of(input);
    must_succeed(kolo_allgather(communicator(comm), input.read(), out.write(), items.count, items.element.dtype));
}

void scatter_reduced(const Tensor &out, const Tensor &input, int64_t comm, int64_t op) {
    const Items items = items_of(out);
    const kolo_op kind = op_of(op, items.element);
    must_succeed(
        kolo_reduce_scatter(communicator(comm), input.read(), out.write(), items.count, items.element.dtype, kind));
}

void exchange(const Tensor &out, const Tensor &input, int64_t comm) {
    kolo_comm *const kolo = communicator(comm);
    const Items items = items_of(input);
    const size_t count = items.count / static_cast<size_t>(kolo_comm_size(kolo));
    must_succeed(kolo_alltoall(kolo, input.read(), out.write(), count, items.element.dtype));
}

// The operators, as PyTorch calls them: arguments on a stack, of which they take tensors over, and where they leave
// their result.

AtenTensorHandle tensor_at(StableIValue value) {
    AtenTensorHandle handle = nullptr;
    static_assert(sizeof handle == sizeof value);
    std::memcpy(&handle, &value, sizeof handle);
    return handle;
}

void give(StableIValue *stack, Tensor &result) {
    AtenTensorHandle handle = result.release();
    std::memcpy(stack, &handle, sizeof handle);
}

int64_t number_at(StableIValue value) {
    return static_cast<int64_t>(value);
}

int64_t ranks_of(int64_t comm) {
    return kolo_comm_size(communicator(comm));
}

void all_reduce(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor input(tensor_at(stack[0]));
    input.must_be_contiguous("input");
    Tensor out(input.make(input.sizes()));
    reduce_all(out, input, number_at(stack[1]), number_at(stack[2]));
    give(stack, out);
}

void all_reduce_in_place(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor self(tensor_at(stack[0]));
    self.must_be_contiguous("self");
    reduce_all(self, self, number_at(stack[1]), number_at(stack[2]));
}

void all_gather(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor input(tensor_at(stack[0]));
    const int64_t comm = number_at(stack[1]);
    input.must_be_contiguous("input");
    std::vector<int64_t> lengths = input.sizes();
    if (lengths.empty())
        lengths.push_back(1);
    lengths[0] *= ranks_of(comm);
    Tensor out(input.make(lengths));
    gather_all(out, input, comm);
    give(stack, out);
}

void all_gather_into(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor out(tensor_at(stack[0]));
    const Tensor input(tensor_at(stack[1]));
    const int64_t comm = number_at(stack[2]);
    must_match(out, input, input.items() * ranks_of(comm), "those of input for each rank");
    gather_all(out, input, comm);
}

void reduce_scatter(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor input(tensor_at(stack[0]));
    const int64_t comm = number_at(stack[1]);
    input.must_be_contiguous("input");
    std::vector<int64_t> lengths = sizes_with_dimension(input);
    lengths[0] = block_of(lengths[0], ranks_of(comm), "the length of input's first dimension");
    Tensor out(input.make(lengths));
    scatter_reduced(out, input, comm, number_at(stack[2]));
    give(stack, out);
}

void reduce_scatter_into(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor out(tensor_at(stack[0]));
    const Tensor input(tensor_at(stack[1]));
    const int64_t comm = number_at(stack[2]);
    must_match(out, input, block_of(input.items(), ranks_of(comm), "the number of input's items"),
               "an equal part of input for each rank");
    scatter_reduced(out, input, comm, number_at(stack[3]));
}

void all_to_all(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor input(tensor_at(stack[0]));
    const int64_t comm = number_at(stack[1]);
    input.must_be_contiguous("input");
    const std::vector<int64_t> lengths = sizes_with_dimension(input);
    block_of(lengths[0], ranks_of(comm), "the length of input's first dimension");
    Tensor out(input.make(lengths));
    exchange(out, input, comm);
    give(stack, out);
}

void all_to_all_into(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor out(tensor_at(stack[0]));
    const Tensor input(tensor_at(stack[1]));
    const int64_t comm = number_at(stack[2]);
    block_of(input.items(), ranks_of(comm), "the number of input's items");
    must_match(out, input, input.items(), "as many as input");
    exchange(out, input, comm);
}

void gather_into(StableIValue *stack, uint64_t, uint64_t) {
    const Tensor out(tensor_at(stack[0]));
    const Tensor input(tensor_at(stack[1]));
    kolo_comm *const comm = communicator(number_at(stack[2]));
    const int64_t root = number_at(stack[3]);
    if (root < 0 || root >= kolo_comm_size(comm))
        refuse("root " + std::to_string(root) + " is no rank: 0 to " + std::to_string(kolo_comm_size(comm) - 1));
    const bool is_root = kolo_comm_rank(comm) == root;
    input.must_be_contiguous("input");
    if (is_root)
        must_match(out, input, input.items() * kolo_comm_size(comm), "those of input for each rank");
    const Items items = items_of(input);
    must_succeed(kolo_gather(comm, input.read(), is_root ? out.write() : nullptr, items.count, items.element.dtype,
                             static_cast<int>(root)));
}

struct Operator {
    const char *name;
    const char *schema;
    void (*kernel)(StableIValue *, uint64_t, uint64_t);
};

constexpr Operator operators[] = {
    {"all_reduce", "all_reduce(Tensor input, int comm, int op=0) -> Tensor", all_reduce},
    {"all_reduce_", "all_reduce_(Tensor(a!) self, int comm, int op=0) -> ()", all_reduce_in_place},
    {"all_gather", "all_gather(Tensor input, int comm) -> Tensor", all_gather},
    {"all_gather_into", "all_gather_into(Tensor(a!) out, Tensor input, int comm) -> ()", all_gather_into},
    {"reduce_scatter", "reduce_scatter(Tensor input, int comm, int op=0) -> Tensor", reduce_scatter},
    {"reduce_scatter_into", "reduce_scatter_into(Tensor(a!) out, Tensor input, int comm, int op=0) -> ()",
     reduce_scatter_into},
    {"all_to_all", "all_to_all(Tensor input, int comm) -> Tensor", all_to_all},
    {"all_to_all_into", "all_to_all_into(Tensor(a!) out, Tensor input, int comm) -> ()", all_to_all_into},
    {"gather_into", "gather_into(Tensor(a!) out, Tensor input, int comm, int root) -> ()", gather_into},
};

} // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(kolo, library) {
    for (const Operator &each : operators)
        library.def(each.schema);
}

STABLE_TORCH_LIBRARY_IMPL(kolo, CPU, library) {
    for (const Operator &each : operators)
        library.impl(each.name, each.kernel);
}

// For ops.py.

// A number for the communicator whose pointer is at *place, now and until kolo_operators_remove. NULL there: it is
// closed. 0: no number is left.
KOLO_API int64_t kolo_operators_add(kolo_comm *const *place) {
    const std::lock_guard<std::mutex> guard(entries_lock);
    for (int64_t tried = 0; tried < ENTRIES; tried++) {
        const int64_t number = ++entries_made;
        Entry &entry = entries[number & (ENTRIES - 1)];
        if (entry.number.load() != 0)
            continue;
        entry.place = place;
        entry.number.store(number);
        return number;
    }
    return 0;
}

// Whoever uses the number from now on is refused.
KOLO_API void kolo_operators_remove(int64_t number) {
    const std::lock_guard<std::mutex> guard(entries_lock);
    Entry &entry = entries[number & (ENTRIES - 1)];
    if (entry.number.load() == number)
        entry.number.store(0);
}
