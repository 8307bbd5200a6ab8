/* What an operation in the background gives its caller.
 *
 * kolo carries requests out by itself, in its progress thread, in the order of issue. What has to be done to tensors
 * before and behind a collective (such as copying one that is not contiguous) is a request, too, of kolo_irun: so it
 * sees what earlier operations have written, and later ones see what it writes. What is left is to notice that all are
 * complete, and to tell those who wait. Exactly one thread does so, the one that claims the work first:
 *     the caller of wait(), which waits for the requests;
 *     a caller of isCompleted() who finds them complete;
 *     the watcher, for a work whose future somebody wants, or for which somebody waits with a timeout.
 * While operations are added to a work, who issues has the claim.
 *
 * kolo_request_test and kolo_request_wait are called in any thread, also while another one is in a call on the
 * communicator: with a progress thread kolo allows that (kolo_requests.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include <Python.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <unistd.h>

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "communicator.h"

namespace kolo_torch {

class Watcher;

/* While Python's lock is given up, if this thread has it. */
class WithoutLock {
  public:
    WithoutLock() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
    ~WithoutLock() {
        if (state_)
            PyEval_RestoreThread(state_);
    }

  private:
    PyThreadState *const state_;
};

/* While tensors are only memory: no graph is recorded, those that were made in inference mode may be written, and
 * Python, whose lock a thread may have that waits for this one, is not asked. */
struct PlainMemory {
    const c10::InferenceMode no_graph;
    const c10::impl::ExcludeDispatchKeyGuard no_python{c10::python_ks};
};

/* What a request of kolo_irun does, in whichever thread carries it out. If it throws, the communicator is aborted: the
 * next call would send wrong data, or the last one's result is not where it belongs. */
class Step {
  public:
    Step(kolo_comm *comm, std::function<void()> function) : comm_(comm), function_(std::move(function)) {}

    static void take(void *step) noexcept; /* of kolo_irun */
    void check() const {
        if (failure_)
            std::rethrow_exception(failure_);
    }

  private:
    kolo_comm *const comm_;
    const std::function<void()> function_;
    std::exception_ptr failure_;
};

class KoloWork : public c10d::Work {
  public:
    KoloWork(c10d::OpType type, uint64_t sequence, at::TensorList outputs)
        : Work(-1, type), outputs_(outputs.vec()), sequence_(sequence) {}

    bool isCompleted() override;
    bool isSuccess() const override;
    std::vector<at::Tensor> result() override {
        return outputs_;
    }
    int sourceRank() const override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    uint64_t sequence() const {
        return sequence_;
    }
    uint64_t getSequencenumber() const { /* overrides where the base class has it */
        return sequence_;
    }

    /* For who issues. */
    void add(kolo_request *request) {
        requests_.push_back(request);
    }
    void keep(const at::Tensor &tensor) {
        kept_.push_back(tensor);
    }
    void add_step(kolo_comm *comm, std::function<void()> function);
    void when_received(std::function<void()> function) { /* messages have no order */
        when_received_.push_back(std::move(function));
    }
    void add_output(const at::Tensor &tensor) {
        outputs_.push_back(tensor);
    }
    void at_end(std::function<void(bool succeeded)> function) {
        at_end_.push_back(std::move(function));
    }
    kolo_received *received(); /* place for what a receive tells */
    bool has_recorded_messages = false;
    /* Between these, nobody settles it, and who waits waits for the operations so far. close: whether the watcher is to
     * settle it. */
    void open() {
        claim(Claim::ISSUER);
    }
    bool close();
    void watch_with(std::shared_ptr<Watcher> watcher) {
        watcher_ = std::move(watcher);
    }

    /* Each may take over from those before it; nobody from one that waits, and settles. */
    enum class Claim { NONE, WATCHER, ISSUER, WAITER };
    /* Waits for the requests and tells all who wait, unless one claims it who is behind `most`. */
    void settle_unless_claimed(Claim most = Claim::NONE);
    void settle_when_complete(); /* by the watcher, if nobody else does before */
    /* Returns whether it is settled; does it if the requests are complete, likewise. */
    bool poll(Claim most = Claim::NONE);
    void give_up_claim(); /* the watcher's */

  private:
    bool claim(Claim by);
    Claim claim_of_watcher(); /* up to which this thread takes it: the watcher does not wait for itself */
    bool is_open();
    void collect(); /* waits for the requests */
    bool requests_are_done() const;
    void settle();
    void await_settled(std::chrono::milliseconds timeout);

    std::vector<kolo_request *> requests_;
    std::vector<at::Tensor> outputs_, kept_;
    std::deque<Step> steps_; /* kolo has their addresses */
    std::vector<std::function<void()>> when_received_;
    std::vector<std::function<void(bool)>> at_end_;
    std::deque<kolo_received> received_;
    std::exception_ptr error_; /* the first */
    std::shared_ptr<Watcher> watcher_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    const uint64_t sequence_;
    std::mutex claim_mutex_; /* of the two below, and of future_ */
    Claim claim_ = Claim::NONE;
    bool is_settled_ = false;
};

/* The works of a communicator that are in flight: each until it is settled, so that its buffers live as long as kolo
 * needs them. For those that nobody waits for there is a thread, from the first one on. */
class Watcher : public std::enable_shared_from_this<Watcher> {
  public:
    explicit Watcher(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}
    ~Watcher();

    void add(const c10::intrusive_ptr<KoloWork> &work);
    void remove(KoloWork *work);
    void watch(KoloWork *work); /* has the thread settle it */
    bool is_here();             /* whether the caller is that thread */
    void handle_signals();      /* in a wait that is not one of kolo's; throws what a handler raises */
    void sweep();               /* settles those that are complete and that nobody else refers to */

    /* Ends the threads of all watchers, since Python ends: from then on a thread that wants Python's lock, as for a
     * callback or a tensor's last reference, ends in std::terminate. A work that is watched from then on is settled at
     * once; others that nobody waits for, in `stop`. */
    static void halt_all();

    /* Lets go of the communicator, which is then destroyed unless tensors hold it, ends the thread, and settles all
     * works, which have failed if they were not complete. */
    void stop();

    /* Whether this process was forked from the group's. It has none of the threads, which may have had any lock. */
    bool is_in_child() const {
        return pid_ != getpid();
    }

  private:
    void start_thread(); /* throws if none is left, or no descriptor */
    void run(int event_fd);
    void halt();
    void end_thread(std::unique_lock<std::mutex> &lock);
    std::vector<c10::intrusive_ptr<KoloWork>> works(bool forgotten_only);

    std::shared_ptr<Communicator> communicator_;
    std::mutex mutex_; /* of all below that changes */
    std::condition_variable ended_;
    std::unordered_map<KoloWork *, c10::intrusive_ptr<KoloWork>> in_flight_;
    std::vector<c10::intrusive_ptr<KoloWork>> watched_;
    int wake_fd_ = -1;
    const pid_t pid_ = getpid();
    std::thread::id thread_;
    bool has_thread_ = false, is_stopping_ = false, has_ended_ = false;
};

} // namespace kolo_torch
