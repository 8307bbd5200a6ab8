/* The backend but for its operations: its life, buffers, failures and what goes through the store.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "elements.h"

#include <algorithm>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tensor_pool.h"

namespace kolo_torch {

/* Life. */

KoloBackend::KoloBackend(Meeting meeting, std::chrono::milliseconds timeout, std::vector<uint64_t> global_ranks)
    : Base(kolo_comm_rank(meeting.communicator->comm), kolo_comm_size(meeting.communicator->comm)),
      communicator_(meeting.communicator), store_(std::move(meeting.store)),
      watcher_(std::make_shared<Watcher>(std::move(meeting.communicator))), pool_(std::make_shared<TensorPool>()),
      timeout_(timeout), global_ranks_(std::move(global_ranks)) {
    for (int r = 0; global_ranks_.size() < static_cast<size_t>(size_); r++)
        global_ranks_.push_back(static_cast<uint64_t>(r));
#if KOLO_TORCH(2, 7)
    options_ = c10::make_intrusive<Options>("kolo", timeout);
#endif
    init();
}

KoloBackend::~KoloBackend() {
    const WithoutLock without; /* the watcher may need it to come to its end */
    shutdown();
}

std::shared_ptr<Communicator> KoloBackend::communicator(bool must_be_there) const {
    std::lock_guard<std::mutex> lock(life_mutex_);
    if (must_be_there && !communicator_)
        throw_error("kolo: the process group has been shut down");
    return communicator_;
}

kolo_comm *KoloBackend::comm() const {
    return communicator(true)->comm;
}

bool KoloBackend::is_in_handler() const {
    const auto communicator = this->communicator(false);
    return communicator && kolo_torch::is_in_handler(communicator->comm);
}

/* The error that broke the communicator; else 0. */
static int failure_of(const Communicator &communicator) {
    kolo_failure failure = {};
    failure.failure_bytes = sizeof failure;
    kolo_comm_failure(communicator.comm, &failure);
    return failure.status;
}

bool KoloBackend::has_failed() const {
    const auto communicator = this->communicator(false);
    return communicator && failure_of(*communicator);
}

const std::shared_ptr<const Group> &KoloBackend::group() {
#if KOLO_TORCH(2, 13)
    if (!group_)
        group_ = std::make_shared<Group>(Group{{pg_uid_, pg_desc_}, global_ranks_, rank_, timeout_.load()});
#endif
    return group_;
}

std::unique_lock<std::mutex> KoloBackend::alone() {
    if (is_in_handler())
        throw_error("kolo: a signal handler uses the process group in which a call waits: it can raise, destroy the "
                    "group, or note the signal for later");
    return std::unique_lock<std::mutex>(mutex_);
}

void KoloBackend::shutdown() {
    if (watcher_->is_in_child()) {
        communicator_.reset();
        return;
    }
    if (is_in_handler()) { /* whose call ends with that; the rest with the backend */
        abort();
        return;
    }
    FlightRecord *const record = FlightRecord::get();
    if (record && has_failed()) /* another rank may have noticed it first */
        record->write();
    {
        std::lock_guard<std::mutex> lock(mutex_), life_lock(life_mutex_);
        communicator_.reset(); /* the watcher has it, too */
    }
    watcher_->stop(); /* without the mutex, which a future's callback may want */
}

void KoloBackend::abort() {
    /* Without the mutex, which a thread has that waits in an operation: kolo ends its wait. */
    if (const auto communicator = this->communicator(false))
        kolo_comm_abort(communicator->comm, 1);
}

WorkPointer KoloBackend::done(bool is_async, c10d::OpType type, const Tensors &outputs) const {
    raise_interruption(); /* by a handler that ran just when the wait was over, which so did not fail */
#if KOLO_TORCH(2, 8)
    if (!is_async)
        return {};
#endif
    /* A work without requests. */
    const auto work = c10::make_intrusive<KoloWork>(type, sequence_, outputs);
    watcher_->add(work);
    work->wait();
    return work;
}

void KoloBackend::setTimeout(std::chrono::milliseconds timeout) {
    timeout_ = timeout;
#if KOLO_TORCH(2, 7)
    options_->timeout = timeout;
#endif
    /* Without the mutex, as abort does: the operation that has it may be the one that is to wait for longer. */
    if (const auto communicator = this->communicator(false))
        check(kolo_comm_set_timeout(communicator->comm, limit_ms(timeout)));
}

/* Buffers. */

uint64_t TensorPool::buffers() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return buffers_.size();
}

uint64_t TensorPool::free_ones(size_t bytes, std::vector<size_t> &numbers) const {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t mask = 0;
    for (size_t i = 0; i < buffers_.size() && numbers.size() < 64; i++) {
        if (buffers_[i].bytes != bytes)
            continue;
        mask |= uint64_t{buffers_[i].is_free} << numbers.size();
        numbers.push_back(i);
    }
    return mask;
}

at::Tensor TensorPool::allocate(const std::shared_ptr<Communicator> &communicator, int64_t numel,
                                const at::TensorOptions &options) {
    constexpr size_t page = 4096;
    size_t bytes;
    TORCH_CHECK(!__builtin_mul_overflow(numel, options.dtype().itemsize(), &bytes) &&
                    !__builtin_add_overflow(bytes, page - 1, &bytes),
                "kolo: a tensor of ", numel, " elements is larger than memory can be");
    bytes -= bytes % page;
    std::vector<size_t> numbers;
    uint64_t vote[3] = {free_ones(bytes, numbers), bytes, ~uint64_t{bytes}};
    check(kolo_allreduce(communicator->comm, vote, vote, 3, KOLO_U64, KOLO_BAND));
    const bool all_alike = (vote[1] | vote[2]) == ~uint64_t{0};
    size_t number;
    if (!all_alike || !bytes || (!vote[0] && numbers.size() == 64))
        return at::empty({numel}, options);
    if (vote[0]) {
        number = numbers[static_cast<size_t>(__builtin_ctzll(vote[0]))];
    } else {
        void *address = nullptr;
        const int rc = kolo_alloc(communicator->comm, bytes, &address);
        if (rc == KOLO_ERR_NO_SPACE || rc == KOLO_ERR_SYSTEM) { /* on all ranks */
            TORCH_WARN_ONCE("kolo: tensors are allocated in ordinary memory, through copies: ", kolo_error_message());
            return at::empty({numel}, options);
        }
        check(rc);
        std::lock_guard<std::mutex> lock(mutex_);
        number = buffers_.size();
        buffers_.push_back({address, bytes, true});
    }
    std::lock_guard<std::mutex> lock(mutex_);
    buffers_[number].is_free = false;
    return at::from_blob(
        buffers_[number].address, {numel},
        [communicator, pool = shared_from_this(), number](void *) {
            std::lock_guard<std::mutex> held(pool->mutex_);
            pool->buffers_[number].is_free = true;
        },
        options);
}

at::Tensor KoloBackend::allocateTensor(long numel, at::TensorOptions options) {
    TORCH_CHECK(options.device().is_cpu(), "kolo: allocates tensors in the CPU's memory, not on ", options.device());
    TORCH_CHECK(numel >= 0, "kolo: a tensor of ", numel, " elements");
    const auto lock = alone();
    comm();
    const at::Tensor tensor = pool_->allocate(communicator_, numel, options);
    raise_interruption();
    return tensor;
}

uint64_t KoloBackend::buffers() const {
    return pool_->buffers();
}

/* Sparse tensors. */

/* What all ranks have at `tensor`, one behind the other. */
static at::Tensor gather_rows(kolo_comm *comm, const at::Tensor &tensor, const std::vector<int64_t> &rows) {
    int64_t sum = 0, row = 1;
    for (const int64_t n : rows)
        sum += n;
    std::vector<int64_t> sizes = tensor.sizes().vec();
    sizes[0] = sum;
    for (size_t i = 1; i < sizes.size(); i++)
        row *= sizes[i];
    const Element element = element_of(tensor);
    std::vector<size_t> counts;
    for (const int64_t n : rows)
        counts.push_back(static_cast<size_t>(n * row) * element.width);
    const at::Tensor all = at::empty(sizes, tensor.options()), own = tensor.contiguous();
    check(kolo_allgatherv(comm, own.data_ptr(), all.data_ptr(), counts.data(), nullptr, element.dtype));
    return all;
}

/* How many entries each rank has. Throws on all ranks where their tensors differ in shape. */
static std::vector<int64_t> entries_of_all(kolo_comm *comm, const at::Tensor &own) {
    std::vector<int64_t> told = {own._nnz(), own.sparse_dim()}, entries;
    told.insert(told.end(), own.sizes().begin(), own.sizes().end());
    const size_t length = told.size();
    std::vector<int64_t> all(length * static_cast<size_t>(kolo_comm_size(comm)));
    check(kolo_allgather(comm, told.data(), all.data(), length, KOLO_I64));
    const at::IntArrayRef first(all.data() + 1, length - 1);
    for (size_t at = 0; at < all.size(); at += length) {
        const at::IntArrayRef other(all.data() + at + 1, length - 1);
        TORCH_CHECK(other == first, "kolo: rank ", at / length, "'s sparse tensor has the sizes ", other.slice(1),
                    ", the first ", other[0], " of them sparse, and rank 0's ", first.slice(1), ", the first ",
                    first[0]);
        entries.push_back(all[at]);
    }
    return entries;
}

at::Tensor KoloBackend::sum_sparse(const at::Tensor &tensor) {
    kolo_comm *const comm = this->comm();
    const auto nothing = [](void *) {};
    check(kolo_irun(comm, nothing, nullptr, nullptr)); /* operations before it may write what it has */
    const at::Tensor own = tensor.coalesce();
    const std::vector<int64_t> rows = entries_of_all(comm, own);
    const at::Tensor indices = gather_rows(comm, own.indices().t(), rows),
                     values = gather_rows(comm, own.values(), rows);
    return at::sparse_coo_tensor(indices.t(), values, own.sizes()).coalesce(); /* adds equal indices' values */
}

WorkPointer KoloBackend::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
    TORCH_CHECK(tensors.size() == 1 && tensors[0].layout() == at::kSparse, "kolo: takes one sparse tensor");
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM, "kolo: sparse tensors can only be summed");
    TORCH_CHECK(tensors[0].device().is_cpu(), "kolo: the tensor is on ", tensors[0].device());
    const auto lock = alone();
    ++sequence_;
    RECORD_USER_SCOPE_WITH_INPUTS("kolo:sparse_all_reduce", (std::vector<c10::IValue>{tensors[0]}));
    {
        const PlainMemory plain;
        const at::Tensor sum = sum_sparse(tensors[0]);
        const c10::InferenceMode as_it_was_made(tensors[0].is_inference()); /* as its new values are then, too */
        const at::NoGradGuard no_graph;
        tensors[0].copy_(sum);
    }
    return done(is_async(options), c10d::OpType::ALLREDUCE, tensors);
}

/* Through the store. */

void KoloBackend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) {
    RECORD_USER_SCOPE("kolo:monitored_barrier");
    using Clock = std::chrono::steady_clock;
    const auto timeout = limited(options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout);
    const auto end = Clock::now() + timeout;
    const auto inline_barrier = [&] {
        const auto lock = alone();
        check(kolo_barrier(comm()));
        raise_interruption();
    };
    const std::string prefix = "monitored/" + std::to_string(monitored_barriers_++) + "/";
    const auto left = [&] {
        const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
        return std::max(ms, std::chrono::milliseconds(1));
    };
    const auto came = [&](const std::string &key, std::chrono::milliseconds limit) {
        try {
            store_->wait({prefix + key}, limit);
        } catch (const std::exception &) {
            return false;
        }
        return true;
    };
    /* Rank 0 takes a rank, or that rank gives up, whichever is first. A rank that is taken waits for the end for longer
     * than its own timeout. So if rank 0 has taken all, all go on. */
    const auto is_first = [&](const std::string &rank) { return store_->add(prefix + rank + "/decided", 1) == 1; };
    if (rank_ > 0) {
        const std::string own = std::to_string(rank_);
        store_->set(prefix + own, std::vector<uint8_t>{1});
        const bool is_over = came("end", left()) || (!is_first(own) && came("end", limited(timeout_)));
        TORCH_CHECK(is_over && store_->get(prefix + "end")[0] == 1, "Rank ", rank_,
                    " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank "
                    "0. Please check rank 0 logs for faulty rank.");
        inline_barrier();
        return;
    }
    std::vector<std::string> missing;
    for (int r = 1; r < size_ && (missing.empty() || wait_all_ranks); r++) {
        TORCH_CHECK(Clock::now() < end || wait_all_ranks, "[Rank 0]: Rank 0 timed out in monitoredBarrier after ",
                    timeout.count(), " ms, before it looked for rank ", r);
        if (!came(std::to_string(r), left()))
            missing.push_back(std::to_string(r));
    }
    const bool all_came = missing.empty();
    for (int r = 1; r < size_ && all_came && (missing.empty() || wait_all_ranks); r++)
        if (!is_first(std::to_string(r)))
            missing.push_back(std::to_string(r));
    store_->set(prefix + "end", std::vector<uint8_t>{missing.empty()});
    if (missing.empty()) {
        inline_barrier(); /* with this rank the store may end: no one is to look there any more */
        return;
    }
    std::string ranks;
    for (const std::string &r : missing)
        ranks += (ranks.empty() ? "" : ", ") + r;
    TORCH_CHECK(false, "[Rank 0]: Rank", missing.size() > 1 ? "s " : " ", ranks, " failed to pass monitoredBarrier in ",
                timeout.count(), " ms");
}

#if KOLO_TORCH(2, 7)

std::vector<uint64_t> KoloBackend::global_ranks_of(const std::vector<int> &ranks) const {
    std::vector<uint64_t> global;
    for (const int rank : ranks)
        global.push_back(global_ranks_[static_cast<size_t>(rank)]);
    return global;
}

c10::intrusive_ptr<c10d::Backend> KoloBackend::split(const c10::intrusive_ptr<c10d::Store> &store,
                                                     const std::vector<int> &ranks,
                                                     const c10::intrusive_ptr<Options> &options) {
    const auto own = std::find(ranks.begin(), ranks.end(), rank_);
    if (own == ranks.end())
        return {};
    const auto timeout = options ? options->timeout : timeout_.load();
    return c10::make_intrusive<KoloBackend>(
        meet(store, static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()), timeout), timeout,
        global_ranks_of(ranks));
}

c10d::ErrorType KoloBackend::getError() {
    const int status = failure_of(*communicator(true));
    return status == 0                  ? c10d::ErrorType::SUCCESS
           : status == KOLO_ERR_TIMEOUT ? c10d::ErrorType::TIMEOUT
                                        : c10d::ErrorType::COMM_ERROR;
}

/* A communicator that is broken is shrunk by kolo, without the store, which may have ended with its rank. If all ranks
 * are well, those that stay meet anew. */
c10::intrusive_ptr<c10d::Backend> KoloBackend::shrink(const std::vector<int64_t> &ranks_to_exclude, int flags,
                                                      const c10::intrusive_ptr<Options> &options) {
    const auto timeout = options ? options->timeout : timeout_.load();
    std::vector<int> left;
    for (int r = 0; r < size_; r++)
        if (std::find(ranks_to_exclude.begin(), ranks_to_exclude.end(), r) == ranks_to_exclude.end())
            left.push_back(r);
    if (flags & 1) /* SHRINK_ABORT */
        abort();
    const auto lock = alone();
    const auto store = c10::make_intrusive<c10d::PrefixStore>("shrunk/" + std::to_string(shrinks_++), store_);
    if (getError() == c10d::ErrorType::SUCCESS)
        return split(store, left, options);
    kolo_comm *made = nullptr;
    check(kolo_comm_shrink(comm(), &made));
    auto communicator = std::make_shared<Communicator>(made);
    std::vector<int> survivors(static_cast<size_t>(kolo_comm_size(made)));
    check(kolo_allgather(made, &rank_, survivors.data(), 1, KOLO_I32));
    raise_interruption();
    if (survivors != left)
        throw_error(c10::str("kolo: of the group's ranks ", survivors, " are left, not ", left,
                             ", which were to be: exclude all others"));
    return c10::make_intrusive<KoloBackend>(Meeting{communicator, store}, timeout, global_ranks_of(left));
}

#endif

} // namespace kolo_torch
