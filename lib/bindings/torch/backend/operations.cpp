/* The operations of the backend: what PyTorch's arguments are to kolo's functions.
 *
 * Each operation checks its tensors, begins an Issue, and makes one or several calls in it. Those are done in place
 * where the tensors are contiguous. Other inputs are copied before the call, and other outputs are copied to behind it,
 * by steps that are carried out in the order of the calls: what is in a tensor when the operation is issued may still
 * change by those before it. A list of tensors goes to kolo's functions with a count for each rank (..v): its blocks
 * lie where they are, if they are apart from the other buffer of the call and outputs from each other, and otherwise go
 * through a packed copy.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "elements.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>

namespace kolo_torch {

/* Whether a call can be made in place. PyTorch's bits for negative and conjugate say that memory has something else. */
static bool is_plain(const at::Tensor &tensor) {
    return tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj();
}

/* One operation while it is issued: keeps other threads out. */
class Issue {
  public:
    Issue(KoloBackend &backend, c10d::OpType type, const char *title, bool is_async, at::TensorList inputs,
          at::TensorList outputs)
        : lock_(backend.alone()), comm(backend.comm()), backend_(backend), is_message_(c10d::isP2POp(type)),
          record_(is_message_ ? nullptr : FlightRecord::get()) {
        const uint64_t sequence = ++backend.sequence_;
        if (backend.coalesced_) {
            work_ = backend.coalesced_;
            for (const at::Tensor &output : outputs)
                work_->add_output(output);
        } else if (is_async) {
            backend.watcher_->sweep();
            work_ = c10::make_intrusive<KoloWork>(type, sequence, outputs);
            backend.watcher_->add(work_);
        }
        auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
        if (__builtin_expect(callbacks.has_value(), 0)) {
            const std::vector<c10::IValue> recorded(inputs.begin(), inputs.end());
            recording_ = std::make_shared<at::RecordFunction>(std::move(*callbacks));
            recording_->_setAsync(); /* as other backends' events are marked */
            recording_->before(title, c10::ArrayRef<const c10::IValue>(recorded.data(), recorded.size()));
        }
        if (__builtin_expect(record_ != nullptr, 0))
            number_ = record_->begin(backend.group(), title, inputs, outputs);
    }

    /* Thrown out of: the caller may do with its tensors what it likes, and PyTorch does not end the coalescing.
     * Messages before this one are not waited for, as the other rank may have failed, too. */
    ~Issue() {
        if (work_ && work_ == backend_.coalesced_ && !is_issued_) {
            work_->close();
            backend_.coalesced_.reset();
        }
        if (work_ && !is_issued_)
            is_message_ ? static_cast<void>(work_->poll()) : work_->settle_unless_claimed();
        if (record_ && !is_issued_ && backend_.has_failed())
            record_->write();
    }

    /* Calls kolo: `function` gets a place for the request, or NULL where it is to be done at once. */
    template <class Function> void call(Function function) {
        kolo_request *request = nullptr;
        check(function(work_ ? &request : nullptr));
        if (work_)
            work_->add(request);
    }

    /* Makes the collective; without a buffer where it takes none. */
    void make(kolo_collective collective, kolo_dtype dtype = KOLO_U8, kolo_op op = KOLO_SUM, int root = 0,
              const void *send = nullptr, void *recv = nullptr, size_t count = 0, const size_t *send_counts = nullptr,
              const size_t *send_offsets = nullptr, const size_t *recv_counts = nullptr,
              const size_t *recv_offsets = nullptr) {
        const kolo_call made = {sizeof made, collective,   dtype,       op,           root,    send, recv,    count,
                                send_counts, send_offsets, recv_counts, recv_offsets, nullptr, 0,    nullptr, nullptr};
        call([&](kolo_request **request) {
            return request ? kolo_start(comm, &made, request) : kolo_call_make(comm, &made);
        });
    }

    /* Does it behind the calls before this one, and before those that come. */
    void step(std::function<void()> function) {
        if (work_) {
            work_->add_step(comm, std::move(function));
            return;
        }
        Step at_once(comm, std::move(function));
        const int status = kolo_irun(comm, Step::take, &at_once, nullptr);
        at_once.check();
        check(status);
    }

    void keep(const at::Tensor &tensor) {
        if (work_)
            work_->keep(tensor);
    }

    /* A contiguous tensor like that one. */
    at::Tensor whole_of(const at::Tensor &tensor) {
        const at::Tensor whole =
            at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
        keep(whole);
        return whole;
    }

    /* Where the call finds what is in the tensor. */
    at::Tensor input(const at::Tensor &tensor) {
        if (!is_plain(tensor))
            return copied(tensor);
        keep(tensor);
        return tensor;
    }

    at::Tensor copied(const at::Tensor &tensor) {
        const at::Tensor whole = whole_of(tensor);
        step([tensor, whole] { whole.copy_(tensor); });
        return whole;
    }

    /* Where the call leaves what is to be in the tensor, and, if is_read, finds what is in it. */
    at::Tensor output(const at::Tensor &tensor, bool is_read) {
        at::assert_no_internal_overlap(tensor);
        return is_read || is_plain(tensor) ? input(tensor) : whole_of(tensor);
    }

    void written(const at::Tensor &tensor, const at::Tensor &whole) {
        if (!tensor.is_same(whole))
            step([tensor, whole] { tensor.copy_(whole); });
    }

    /* Messages go on beside the collectives, so that they have no place in the order of steps: what the tensor has now.
     */
    at::Tensor message(const at::Tensor &tensor) {
        if (is_plain(tensor))
            return input(tensor);
        const PlainMemory guard;
        return whole_of(tensor).copy_(tensor);
    }

    kolo_received *received() {
        return work_->received();
    }

    void when_received(const at::Tensor &tensor, const at::Tensor &whole) {
        if (!tensor.is_same(whole))
            work_->when_received([tensor, whole] { tensor.copy_(whole); });
    }

    WorkPointer work() {
        if (work_ && (recording_ || record_))
            note_end();
        else if (record_)
            record_->complete(number_);
        is_issued_ = true;
        return work_ ? WorkPointer(work_) : backend_.done();
    }

  private:
    /* What is recorded ends when the operation is complete, whether somebody waits for it or not: a collective in a
     * step behind it, a message when the watcher settles it. A range of the profiler's whose operation fails ends, too.
     */
    void note_end() {
        const auto end = at::wrapPropagateTLSState(
            [recording = std::move(recording_), record = record_, number = number_](bool succeeded) {
                if (recording)
                    recording->end();
                if (record && succeeded)
                    record->complete(number);
            });
        work_->at_end(end);
        if (!is_message_)
            step([end] { end(true); });
        else if (work_ == backend_.coalesced_)
            work_->has_recorded_messages = true;
        else
            work_->settle_when_complete();
    }

    std::unique_lock<std::mutex> lock_;

  public:
    kolo_comm *const comm;

  private:
    KoloBackend &backend_;
    const bool is_message_;
    FlightRecord *const record_;                    /* NULL: it is not recorded */
    uint64_t number_ = 0;                           /* in the record */
    std::shared_ptr<at::RecordFunction> recording_; /* what a profiler sees of it; NULL: there is none */
    c10::intrusive_ptr<KoloWork> work_;             /* NULL: it is done at once */
    bool is_issued_ = false;                        /* all of it */
};

namespace {

void check_tensor(const at::Tensor &tensor) {
    TORCH_CHECK(tensor.device().is_cpu(), "kolo: the tensor is on ", tensor.device(), "; kolo is for the CPU's memory");
    TORCH_CHECK(tensor.layout() == at::kStrided, "kolo: the tensor is ", tensor.layout(),
                ": make it dense, or use all_reduce");
}

const at::Tensor &single(const Tensors &tensors) {
    TORCH_CHECK(tensors.size() == 1, "kolo: takes one tensor, not ", tensors.size());
    check_tensor(tensors[0]);
    return tensors[0];
}

/* The tensors of the one list that there is, unchecked. */
const Tensors &single(const std::vector<Tensors> &lists, int size) {
    TORCH_CHECK(lists.size() == 1, "kolo: takes one list of tensors, not ", lists.size());
    TORCH_CHECK(lists[0].size() == static_cast<size_t>(size), "kolo: the list has ", lists[0].size(),
                " tensors, but the group ", size, " ranks");
    return lists[0];
}

/* `like` is checked. */
void check_same(const at::Tensor &tensor, const at::Tensor &like) {
    check_tensor(tensor);
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), "kolo: one tensor is of ", dtype_of(tensor),
                ", another one of ", dtype_of(like));
}

void check_all_same(const Tensors &list, const at::Tensor &like) {
    for (const at::Tensor &tensor : list)
        check_same(tensor, like);
}

void check_lengths(const at::Tensor &whole, const at::Tensor &part, int size) {
    check_tensor(part);
    check_same(whole, part);
    TORCH_CHECK(whole.numel() == part.numel() * size, "kolo: a tensor of ", whole.numel(), " elements is not ", size,
                " times as large as one of ", part.numel());
}

void check_root(int64_t root, int size) {
    TORCH_CHECK(root >= 0 && root < size, "kolo: root ", root, " is no rank of the group, which has ", size);
}

/* In elements of kolo's. */
size_t count_of(const at::Tensor &tensor, const Element &element) {
    return static_cast<size_t>(tensor.numel()) * element.width;
}

size_t bytes(const at::Tensor &tensor) {
    return tensor.nbytes();
}
char *address(const at::Tensor &tensor) {
    return static_cast<char *>(tensor.data_ptr());
}

/* From a tensor's first byte to the end of its last, with the holes of one that is not contiguous. */
using Span = std::pair<const char *, const char *>;

Span span_of(const at::Tensor &tensor) {
    const char *const begin = address(tensor);
    return {begin, begin + at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                                            static_cast<size_t>(tensor.element_size()))};
}

bool any_overlap(std::vector<Span> spans) {
    if (!std::is_sorted(spans.begin(), spans.end())) /* most lists are */
        std::sort(spans.begin(), spans.end());
    const auto overlap = [](const Span &a, const Span &b) { return b.first < a.second; };
    return std::adjacent_find(spans.begin(), spans.end(), overlap) != spans.end();
}

/* One block for each rank, of any length: `base` and, in elements of kolo's, where each begins and how long it is. */
struct Blocks {
    char *base = nullptr;
    std::vector<size_t> counts, offsets;
    bool is_aligned = true; /* each begins a whole number of elements from base on */
    size_t reach = 0;       /* of the blocks, in bytes from base on */

    bool overlaps(const char *begin, size_t length) const {
        return reach && length && begin < base + reach && base < begin + length;
    }
};

/* Where the tensors, which are contiguous, lie. */
Blocks blocks_of(const Tensors &tensors) {
    Blocks blocks;
    for (const at::Tensor &tensor : tensors)
        if (bytes(tensor) && (!blocks.base || address(tensor) < blocks.base))
            blocks.base = address(tensor);
    for (const at::Tensor &tensor : tensors) {
        const size_t element_bytes = static_cast<size_t>(tensor.element_size()) / element_of(tensor).width;
        const size_t offset = bytes(tensor) ? static_cast<size_t>(address(tensor) - blocks.base) : 0;
        blocks.counts.push_back(bytes(tensor) / element_bytes);
        blocks.offsets.push_back(offset / element_bytes);
        blocks.is_aligned = blocks.is_aligned && offset % element_bytes == 0;
        blocks.reach = std::max(blocks.reach, offset + bytes(tensor));
    }
    return blocks;
}

/* Parts of a new tensor, one behind the other, that are like these. */
Tensors packed(Issue &issue, const Tensors &like) {
    int64_t total = 0, begin = 0;
    for (const at::Tensor &tensor : like)
        total += tensor.numel();
    const at::Tensor whole = at::empty({total}, like[0].options().memory_format(at::MemoryFormat::Contiguous));
    issue.keep(whole);
    Tensors parts;
    for (const at::Tensor &tensor : like) {
        parts.push_back(whole.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
        begin += tensor.numel();
    }
    return parts;
}

void copy_each(const Tensors &from, const Tensors &to) {
    for (size_t i = 0; i < to.size(); i++)
        to[i].copy_(from[i]);
}

Tensors packed_inputs(Issue &issue, const Tensors &tensors) {
    const Tensors parts = packed(issue, tensors);
    issue.step([from = tensors, to = parts] { copy_each(from, to); });
    return parts;
}

/* A list of inputs: where they are, or in contiguous copies. */
struct Inputs {
    Tensors parts; /* live until the call is over */
    Blocks blocks;

    Inputs(Issue &issue, const Tensors &tensors) {
        for (const at::Tensor &tensor : tensors)
            parts.push_back(issue.input(tensor));
        blocks = blocks_of(parts);
        if (!blocks.is_aligned)
            pack(issue);
    }

    void pack(Issue &issue) {
        parts = packed_inputs(issue, parts);
        blocks = blocks_of(parts);
    }
};

/* A list of outputs: where they are, if they are contiguous, aligned and apart from the input and from each other; else
 * one behind the other in a new tensor, from which they are copied, in their order, by a step behind the call. */
struct Outputs {
    Tensors parts; /* of the new tensor */
    Blocks blocks;

    Outputs(Issue &issue, const Tensors &tensors, const char *input, size_t input_bytes) {
        bool in_place = true;
        std::vector<Span> spans;
        for (const at::Tensor &tensor : tensors) {
            at::assert_no_internal_overlap(tensor);
            in_place = in_place && is_plain(tensor);
            spans.push_back(span_of(tensor));
        }
        in_place = in_place && !any_overlap(std::move(spans));
        if (in_place)
            blocks = blocks_of(tensors);
        if (!in_place || !blocks.is_aligned || blocks.overlaps(input, input_bytes)) {
            parts = packed(issue, tensors);
            blocks = blocks_of(parts);
        }
        for (const at::Tensor &tensor : tensors)
            issue.keep(tensor);
    }

    void written(Issue &issue, const Tensors &tensors) const {
        if (!parts.empty())
            issue.step([from = parts, to = tensors] { copy_each(from, to); });
    }
};

/* Operations on one tensor, of which the coalesced ones do several. */

void reduce_all(Issue &issue, const at::Tensor &tensor, const c10d::ReduceOp &reduction) {
    check_tensor(tensor);
    const Element element = element_of(tensor);
    const kolo_op op = op_of(reduction, tensor);
    const bool multiplies = multiplies_first(reduction, tensor);
    const at::Tensor whole = issue.output(tensor, true);
    if (multiplies)
        issue.step([whole, reduction] { multiply(whole, reduction); });
    void *const data = whole.data_ptr();
    issue.make(KOLO_ALLREDUCE, element.dtype, op, 0, data, data, count_of(whole, element));
    issue.written(tensor, whole);
}

void gather_all(Issue &issue, const at::Tensor &output, const at::Tensor &input, int size) {
    check_lengths(output, input, size);
    const Element element = element_of(input);
    const at::Tensor from = issue.input(input), to = issue.output(output, false);
    issue.make(KOLO_ALLGATHER, element.dtype, KOLO_SUM, 0, from.data_ptr(), to.data_ptr(), count_of(from, element));
    issue.written(output, to);
}

void scatter_reduced(Issue &issue, const at::Tensor &output, const at::Tensor &input, const c10d::ReduceOp &reduction,
                     int size) {
    check_lengths(input, output, size);
    const Element element = element_of(input);
    const kolo_op op = op_of(reduction, input);
    const bool multiplies = multiplies_first(reduction, input);
    const at::Tensor from = multiplies ? issue.copied(input) : issue.input(input);
    if (multiplies)
        issue.step([from, reduction] { multiply(from, reduction); });
    const at::Tensor to = issue.output(output, false);
    issue.make(KOLO_REDUCE_SCATTER, element.dtype, op, 0, from.data_ptr(), to.data_ptr(), count_of(to, element));
    issue.written(output, to);
}

/* Makes the calls of one operation by calls(outputs, inputs). Where the tensors of two calls may share memory, they get
 * copies: all inputs are read before the first call, and the outputs written, in their order, behind the last. */
template <class Calls>
void make_apart(Issue &issue, const Tensors &outputs, const Tensors &inputs, const Calls &calls) {
    Tensors to = outputs, from = inputs;
    std::vector<Span> spans;
    for (const at::Tensor &output : outputs) {
        check_tensor(output);
        at::assert_no_internal_overlap(output);
        spans.push_back(span_of(output));
    }
    for (size_t i = 0; i < inputs.size(); i++) {
        check_tensor(inputs[i]);
        const Span span = span_of(inputs[i]);
        if (any_overlap({spans[i], span})) /* in place */
            spans[i] = {std::min(spans[i].first, span.first), std::max(spans[i].second, span.second)};
        else
            spans.push_back(span);
    }
    if (any_overlap(std::move(spans))) {
        for (at::Tensor &tensor : from)
            tensor = issue.copied(tensor);
        for (size_t i = 0; i < to.size(); i++)
            to[i] = i < inputs.size() && to[i].is_same(inputs[i]) ? from[i] : issue.whole_of(to[i]);
    }
    calls(to, from);
    for (size_t i = 0; i < to.size(); i++)
        issue.written(outputs[i], to[i]);
}

/* To a list of tensors, which is empty where nothing arrives. */
void gather_list(Issue &issue, kolo_collective collective, const Tensors &list, const at::Tensor &input, int root = 0) {
    check_tensor(input);
    check_all_same(list, input);
    const auto rank = static_cast<size_t>(kolo_comm_rank(issue.comm));
    TORCH_CHECK(list.empty() || list[rank].numel() == input.numel(), "kolo: the input has ", input.numel(),
                " elements, but output ", rank, " ", list[rank].numel());
    const Element element = element_of(input);
    const at::Tensor from = issue.input(input);
    const Outputs to(issue, list, address(from), bytes(from));
    issue.make(collective, element.dtype, KOLO_SUM, root, from.data_ptr(), to.blocks.base, count_of(from, element),
               nullptr, nullptr, to.blocks.counts.data(), to.blocks.offsets.data());
    to.written(issue, list);
}

} // namespace

/* Collectives. */

WorkPointer KoloBackend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
    const at::Tensor &tensor = single(tensors);
    const Element element = element_of(tensor);
    check_root(options.rootRank, size_);
    Issue issue(*this, c10d::OpType::BROADCAST, "kolo:broadcast", is_async(options), tensors, tensors);
    const bool is_root = rank_ == options.rootRank;
    const at::Tensor whole = is_root ? issue.input(tensor) : issue.output(tensor, false);
    issue.make(KOLO_BROADCAST, element.dtype, KOLO_SUM, static_cast<int>(options.rootRank), nullptr, whole.data_ptr(),
               count_of(whole, element));
    if (!is_root)
        issue.written(tensor, whole);
    return issue.work();
}

WorkPointer KoloBackend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
    TORCH_CHECK(tensors.size() == 1, "kolo: takes one tensor, not ", tensors.size());
    if (tensors[0].layout() == at::kSparse)
        return allreduce_sparse(tensors, options);
    Issue issue(*this, c10d::OpType::ALLREDUCE, "kolo:all_reduce", is_async(options), tensors, tensors);
    reduce_all(issue, tensors[0], options.reduceOp);
    return issue.work();
}

WorkPointer KoloBackend::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) {
    Issue issue(*this, c10d::OpType::ALLREDUCE_COALESCED, "kolo:all_reduce", is_async(options), tensors, tensors);
    make_apart(issue, tensors, tensors, [&](const Tensors &apart, const Tensors &) {
        for (const at::Tensor &tensor : apart)
            reduce_all(issue, tensor, options.reduceOp);
    });
    return issue.work();
}

WorkPointer KoloBackend::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
    const at::Tensor &tensor = single(tensors);
    const Element element = element_of(tensor);
    const kolo_op op = op_of(options.reduceOp, tensor);
    check_root(options.rootRank, size_);
    const bool is_root = rank_ == options.rootRank, multiplies = multiplies_first(options.reduceOp, tensor);
    Issue issue(*this, c10d::OpType::REDUCE, "kolo:reduce", is_async(options), tensors, tensors);
    const at::Tensor whole = is_root      ? issue.output(tensor, true)
                             : multiplies ? issue.copied(tensor)
                                          : issue.input(tensor);
    if (multiplies)
        issue.step([whole, op = options.reduceOp] { multiply(whole, op); });
    void *const data = whole.data_ptr();
    issue.make(KOLO_REDUCE, element.dtype, op, static_cast<int>(options.rootRank), data, is_root ? data : nullptr,
               count_of(whole, element));
    if (is_root)
        issue.written(tensor, whole);
    return issue.work();
}

WorkPointer KoloBackend::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                                   const c10d::AllgatherOptions &options) {
    const Tensors &list = single(outputs, size_);
    const at::Tensor &input = single(inputs);
    Issue issue(*this, c10d::OpType::ALLGATHER, "kolo:all_gather", is_async(options), inputs, list);
    gather_list(issue, KOLO_ALLGATHERV, list, input);
    return issue.work();
}

WorkPointer KoloBackend::_allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) {
    Issue issue(*this, c10d::OpType::_ALLGATHER_BASE, "kolo:_allgather_base", is_async(options), input, output);
    gather_all(issue, output, input, size_);
    return issue.work();
}

WorkPointer KoloBackend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                         const c10d::AllgatherOptions &options) {
    TORCH_CHECK(outputs.size() == inputs.size(), "kolo: ", inputs.size(), " inputs for ", outputs.size(), " outputs");
    Issue issue(*this, COALESCED, "kolo:_allgather_base", is_async(options), inputs, outputs);
    make_apart(issue, outputs, inputs, [&](const Tensors &to, const Tensors &from) {
        for (size_t i = 0; i < to.size(); i++)
            gather_all(issue, to[i], from[i], size_);
    });
    return issue.work();
}

WorkPointer KoloBackend::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                             const c10d::AllgatherOptions &options) {
    TORCH_CHECK(outputs.size() == static_cast<size_t>(size_), "kolo: ", outputs.size(),
                " lists of outputs, but the group has ", size_, " ranks");
    Tensors all;
    for (const Tensors &list : outputs) {
        TORCH_CHECK(list.size() == inputs.size(), "kolo: ", inputs.size(), " inputs for ", list.size(), " outputs");
        all.insert(all.end(), list.begin(), list.end());
    }
    Issue issue(*this, c10d::OpType::ALLGATHER_COALESCED, "kolo:all_gather", is_async(options), inputs, all);
    make_apart(issue, all, inputs, [&](const Tensors &to, const Tensors &from) {
        for (size_t i = 0; i < from.size(); i++) {
            Tensors list;
            for (size_t at = i; at < to.size(); at += from.size())
                list.push_back(to[at]);
            gather_list(issue, KOLO_ALLGATHERV, list, from[i]);
        }
    });
    return issue.work();
}

WorkPointer KoloBackend::gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options) {
    const at::Tensor &input = single(inputs);
    check_root(options.rootRank, size_);
    const bool is_root = rank_ == options.rootRank;
    TORCH_CHECK(is_root || outputs.empty(), "kolo: only the root of gather has outputs");
    const Tensors list = is_root ? single(outputs, size_) : Tensors();
    Issue issue(*this, c10d::OpType::GATHER, "kolo:gather", is_async(options), inputs, list);
    gather_list(issue, KOLO_GATHERV, list, input, static_cast<int>(options.rootRank));
    return issue.work();
}

WorkPointer KoloBackend::scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options) {
    const at::Tensor &output = single(outputs);
    const Element element = element_of(output);
    check_root(options.rootRank, size_);
    const bool is_root = rank_ == options.rootRank;
    TORCH_CHECK(is_root || inputs.empty(), "kolo: only the root of scatter has inputs");
    const Tensors list = is_root ? single(inputs, size_) : Tensors();
    check_all_same(list, output);
    Issue issue(*this, c10d::OpType::SCATTER, "kolo:scatter", is_async(options), list, outputs);
    const at::Tensor to = issue.output(output, false);
    Inputs from(issue, list); /* empty but on the root */
    if (from.blocks.overlaps(address(to), bytes(to)))
        from.pack(issue);
    issue.make(KOLO_SCATTERV, element.dtype, KOLO_SUM, static_cast<int>(options.rootRank), from.blocks.base,
               to.data_ptr(), count_of(to, element), from.blocks.counts.data(), from.blocks.offsets.data());
    issue.written(output, to);
    return issue.work();
}

WorkPointer KoloBackend::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                        const c10d::ReduceScatterOptions &options) {
    const at::Tensor &output = single(outputs);
    const Tensors &list = single(inputs, size_);
    const Element element = element_of(output);
    const kolo_op op = op_of(options.reduceOp, output);
    std::vector<size_t> counts;
    bool multiplies = false;
    for (const at::Tensor &tensor : list) {
        check_same(tensor, output);
        multiplies = multiplies_first(options.reduceOp, tensor);
        counts.push_back(count_of(tensor, element));
    }
    TORCH_CHECK(list[static_cast<size_t>(rank_)].numel() == output.numel(), "kolo: the output has ", output.numel(),
                " elements, but input ", rank_, " ", list[static_cast<size_t>(rank_)].numel());
    Issue issue(*this, c10d::OpType::REDUCE_SCATTER, "kolo:reduce_scatter", is_async(options), list, outputs);
    const Tensors parts = packed_inputs(issue, list);
    if (multiplies)
        issue.step([parts, op = options.reduceOp] {
            for (const at::Tensor &part : parts)
                multiply(part, op);
        });
    const at::Tensor to = issue.output(output, false);
    issue.make(KOLO_REDUCE_SCATTERV, element.dtype, op, 0, blocks_of(parts).base, to.data_ptr(), 0, counts.data());
    issue.written(output, to);
    return issue.work();
}

WorkPointer KoloBackend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                              const c10d::ReduceScatterOptions &options) {
    Issue issue(*this, c10d::OpType::_REDUCE_SCATTER_BASE, "kolo:_reduce_scatter_base", is_async(options), input,
                output);
    scatter_reduced(issue, output, input, options.reduceOp, size_);
    return issue.work();
}

WorkPointer KoloBackend::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                         const c10d::ReduceScatterOptions &options) {
    TORCH_CHECK(outputs.size() == inputs.size(), "kolo: ", inputs.size(), " inputs for ", outputs.size(), " outputs");
    Issue issue(*this, COALESCED, "kolo:_reduce_scatter_base", is_async(options), inputs, outputs);
    make_apart(issue, outputs, inputs, [&](const Tensors &to, const Tensors &from) {
        for (size_t i = 0; i < to.size(); i++)
            scatter_reduced(issue, to[i], from[i], options.reduceOp, size_);
    });
    return issue.work();
}

namespace {

/* Rows of a tensor for each rank, in elements of kolo's. splits empty: equal parts. */
std::vector<size_t> counts_of_rows(const at::Tensor &tensor, const std::vector<int64_t> &splits, int size,
                                   const Element &element) {
    const int64_t rows = tensor.dim() ? tensor.size(0) : 1;
    const size_t row = rows ? static_cast<size_t>(tensor.numel() / rows) * element.width : 0;
    if (splits.empty()) {
        TORCH_CHECK(rows % size == 0, "kolo: ", rows, " rows cannot be divided among ", size,
                    " ranks: pass split sizes");
        return std::vector<size_t>(static_cast<size_t>(size), static_cast<size_t>(rows / size) * row);
    }
    TORCH_CHECK(splits.size() == static_cast<size_t>(size), "kolo: ", splits.size(), " split sizes for ", size,
                " ranks");
    std::vector<size_t> counts;
    int64_t sum = 0;
    for (const int64_t split : splits) {
        TORCH_CHECK(split >= 0, "kolo: split size ", split, " is negative");
        counts.push_back(static_cast<size_t>(split) * row);
        sum += split;
    }
    TORCH_CHECK(sum == rows, "kolo: the split sizes add up to ", sum, ", but the tensor has ", rows, " rows");
    return counts;
}

} // namespace

WorkPointer KoloBackend::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                                       std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options) {
    check_tensor(input);
    check_same(output, input);
    const Element element = element_of(input);
    const std::vector<size_t> sent = counts_of_rows(input, input_splits, size_, element),
                              taken = counts_of_rows(output, output_splits, size_, element);
    Issue issue(*this, c10d::OpType::ALLTOALL_BASE, "kolo:all_to_all", is_async(options), input, output);
    const at::Tensor from = issue.input(input), to = issue.output(output, false);
    issue.make(KOLO_ALLTOALLV, element.dtype, KOLO_SUM, 0, from.data_ptr(), to.data_ptr(), 0, sent.data(), nullptr,
               taken.data());
    issue.written(output, to);
    return issue.work();
}

WorkPointer KoloBackend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
    TORCH_CHECK(inputs.size() == static_cast<size_t>(size_) && outputs.size() == inputs.size(), "kolo: ", inputs.size(),
                " inputs and ", outputs.size(), " outputs for ", size_, " ranks");
    check_all_same(outputs, outputs[0]);
    check_all_same(inputs, outputs[0]);
    const Element element = element_of(outputs[0]);
    Issue issue(*this, c10d::OpType::ALLTOALL, "kolo:all_to_all", is_async(options), inputs, outputs);
    Inputs from(issue, inputs);
    const Outputs to(issue, outputs, from.blocks.base, from.blocks.reach);
    if (to.blocks.overlaps(from.blocks.base, from.blocks.reach)) /* they are packed, but lie between the inputs */
        from.pack(issue);
    issue.make(KOLO_ALLTOALLV, element.dtype, KOLO_SUM, 0, from.blocks.base, to.blocks.base, 0,
               from.blocks.counts.data(), from.blocks.offsets.data(), to.blocks.counts.data(),
               to.blocks.offsets.data());
    to.written(issue, outputs);
    return issue.work();
}

WorkPointer KoloBackend::barrier(const c10d::BarrierOptions &options) {
    Issue issue(*this, c10d::OpType::BARRIER, "kolo:barrier", is_async(options), {}, {});
    issue.make(KOLO_BARRIER);
    return issue.work();
}

/* Messages. */

WorkPointer KoloBackend::send(Tensors &tensors, int to, int tag) {
    const at::Tensor &tensor = single(tensors);
    const Element element = element_of(tensor);
    Issue issue(*this, c10d::OpType::SEND, "kolo:send", true, tensors, tensors);
    const at::Tensor whole = issue.message(tensor);
    issue.call([&](kolo_request **request) {
        return kolo_isend(issue.comm, whole.data_ptr(), count_of(whole, element), element.dtype, to, tag, request);
    });
    return issue.work();
}

WorkPointer KoloBackend::recv(Tensors &tensors, int from, int tag) {
    const at::Tensor &tensor = single(tensors);
    const Element element = element_of(tensor);
    Issue issue(*this, from == KOLO_ANY_RANK ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV,
                from == KOLO_ANY_RANK ? "kolo:recvAnySource" : "kolo:recv", true, tensors, tensors);
    at::assert_no_internal_overlap(tensor);
    const at::Tensor whole = issue.message(tensor);
    issue.call([&](kolo_request **request) {
        return kolo_irecv(issue.comm, whole.data_ptr(), count_of(whole, element), element.dtype, from, tag,
                          issue.received(), request);
    });
    issue.when_received(tensor, whole);
    return issue.work();
}

WorkPointer KoloBackend::recvAnysource(Tensors &tensors, int tag) {
    return recv(tensors, KOLO_ANY_RANK, tag);
}

/* Several in one work. */

void KoloBackend::startCoalescing() {
    const auto lock = alone();
    if (coalesced_ && coalesced_->close()) /* an exception of the program has left it open */
        coalesced_->settle_when_complete();
    comm();
    coalesced_ = c10::make_intrusive<KoloWork>(COALESCED, sequence_, Tensors());
    coalesced_->open();
    watcher_->add(coalesced_);
}

WorkPointer KoloBackend::endCoalescing() {
    const auto lock = alone();
    TORCH_CHECK(coalesced_, "kolo: no operations are being coalesced");
    const auto work = std::move(coalesced_);
    if (work->close())
        work->settle_when_complete();
    return work;
}

void KoloBackend::endCoalescing(std::vector<WorkPointer> &) {
    endCoalescing();
}

} // namespace kolo_torch
