/* The backend "kolo" of torch.distributed, for tensors in the CPU's memory.
 *
 * An operation that its caller waits for (asyncOp is false) is done in the caller's thread before it returns. Any other
 * one is a request of kolo's, see work.h. kolo does both in the order of issue.
 *
 * Threads: any may call. One at a time issues operations on a group; one that is done inline keeps the others out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include "flight_record.h"
#include "work.h"

namespace kolo_torch {

class Issue;
class TensorPool;

using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

class KoloBackend : public Base {
  public:
    /* global_ranks: of the group's members in the whole job; empty: it is the whole job. */
    KoloBackend(Meeting meeting, std::chrono::milliseconds timeout, std::vector<uint64_t> global_ranks = {});
    ~KoloBackend() override;

    const std::string getBackendName() const override {
        return "kolo";
    }

    /* Operations, in operations.cpp. */
    WorkPointer broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPointer allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPointer allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
    WorkPointer reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    WorkPointer allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                          const c10d::AllgatherOptions &options) override;
    WorkPointer _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override;
    WorkPointer allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                    const c10d::AllgatherOptions &options) override;
    WorkPointer gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
    WorkPointer scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options) override;
    WorkPointer reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                               const c10d::ReduceScatterOptions &options) override;
    WorkPointer _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                     const c10d::ReduceScatterOptions &options) override;
    WorkPointer alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                              std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options) override;
    WorkPointer alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
    WorkPointer send(Tensors &tensors, int to, int tag) override;
    WorkPointer recv(Tensors &tensors, int from, int tag) override;
    WorkPointer recvAnysource(Tensors &tensors, int tag) override;
    WorkPointer barrier(const c10d::BarrierOptions &options) override;
    /* From here on functions that some of those versions have, which they then override. */
    WorkPointer allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options);
    WorkPointer allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                const c10d::AllgatherOptions &options);
    WorkPointer reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                const c10d::ReduceScatterOptions &options);
    /* What is issued between these two is in the background, and in one work. */
    void startCoalescing();
    WorkPointer endCoalescing();
    void endCoalescing(std::vector<WorkPointer> &works); /* 1.13: they are in `works` already */
    bool supportsCoalescing() const {
        return supports_coalescing;
    }
    bool supports_coalescing = true;

    /* The rest, in backend.cpp. */
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks);
    void setSequenceNumberForGroup() {}
    uint64_t getSequenceNumberForGroup() {
        return sequence_;
    }
    void setTimeout(std::chrono::milliseconds timeout); /* also of operations that wait; of this rank alone */
    void abort();                                       /* kolo_comm_abort */
    void shutdown();                                    /* leaves the communicator; later calls fail */
    kolo_comm *comm() const; /* for as long as the backend is not shut down; throws if there is none any more */

    /* Tensors in memory of kolo_alloc. Every rank asks for the same ones in the same order. */
    bool supportsTensorAlloc(c10::DeviceIndex) {
        return true;
    }
    at::Tensor allocateTensor(long numel, at::TensorOptions options);
    uint64_t buffers() const; /* of kolo_alloc so far */

    bool supportsShrinking() const {
        return true;
    }
#if KOLO_TORCH(2, 7)
    c10::intrusive_ptr<Options> getBackendOptions() {
        return options_;
    }
    c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t> &ranks_to_exclude, int flags,
                                             const c10::intrusive_ptr<Options> &options);
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<Options> &options);
    c10d::ErrorType getError();
    bool supportsSplitting() const {
        return true;
    }
#endif

  private:
    friend class Issue;

    std::vector<uint64_t> global_ranks_of(const std::vector<int> &ranks) const;
    const std::shared_ptr<const Group> &group(); /* for the Flight Recorder */
    /* What an operation returns that was done inline. */
    WorkPointer done(bool is_async = false, c10d::OpType type = c10d::OpType::UNKNOWN,
                     const Tensors &outputs = {}) const;
    at::Tensor sum_sparse(const at::Tensor &tensor);

    /* For who issues, or changes what only one may; throws in a signal handler amid such a call. */
    std::unique_lock<std::mutex> alone();
    bool is_in_handler() const;
    bool has_failed() const; /* and not ended */

    /* Lives while the caller has it. Once it has ended NULL, or throws. */
    std::shared_ptr<Communicator> communicator(bool must_be_there) const;

    std::mutex mutex_; /* of all below, and of issuing */
    /* Changes with both mutexes, so that abort and setTimeout find it while an operation has the first one. */
    mutable std::mutex life_mutex_;
    std::shared_ptr<Communicator> communicator_;
    const c10::intrusive_ptr<c10d::Store> store_;
    const std::shared_ptr<Watcher> watcher_;
    const std::shared_ptr<TensorPool> pool_;
    std::atomic<std::chrono::milliseconds> timeout_;
    c10::intrusive_ptr<KoloWork> coalesced_; /* between start_coalescing and end_coalescing */
    std::atomic<uint64_t> sequence_{0};
    uint64_t monitored_barriers_ = 0, shrinks_ = 0;
    std::vector<uint64_t> global_ranks_;
    std::shared_ptr<const Group> group_; /* from the first operation that is recorded on */
#if KOLO_TORCH(2, 7)
    c10::intrusive_ptr<Options> options_;
#endif
};

} // namespace kolo_torch
