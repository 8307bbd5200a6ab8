/* Works, and the thread that watches those that nobody waits for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <thread>

#include "work.h"

#include <ATen/core/grad_mode.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace kolo_torch {

/* Works. */

kolo_received *KoloWork::received() {
    received_.push_back({sizeof(kolo_received), -1, 0, 0});
    return &received_.back();
}

int KoloWork::sourceRank() const {
    TORCH_CHECK(!received_.empty(), "kolo: only a receive has a source rank");
    return received_.back().rank;
}

bool KoloWork::isSuccess() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return completed_ && !exception_;
}

bool KoloWork::claim(Claim by) {
    std::lock_guard<std::mutex> lock(claim_mutex_);
    if (claim_ != Claim::NONE)
        return false;
    claim_ = by;
    return true;
}

bool KoloWork::requests_are_done() const {
    for (kolo_request *request : requests_) {
        int done = 0;
        kolo_request_test(request, &done);
        if (!done)
            return false;
    }
    return true;
}

bool KoloWork::poll(bool for_watcher) {
    {
        std::lock_guard<std::mutex> lock(claim_mutex_);
        const bool is_mine = claim_ == (for_watcher ? Claim::WATCHER : Claim::NONE);
        if (is_settled_ || !is_mine || !requests_are_done())
            return is_settled_;
        claim_ = Claim::WAITER;
    }
    settle();
    return true;
}

bool KoloWork::isCompleted() {
    return poll(false);
}

void KoloWork::settle_if_free() {
    if (claim(Claim::WAITER))
        settle();
}

void KoloWork::settle_at_end() {
    {
        std::lock_guard<std::mutex> lock(claim_mutex_);
        if (claim_ == Claim::WAITER)
            return;
        claim_ = Claim::WAITER;
    }
    settle();
}

bool KoloWork::wait(std::chrono::milliseconds timeout) {
    if (timeout == kNoTimeout || watcher_->is_here())
        settle_if_free();
    else if (claim(Claim::WATCHER))
        watcher_->watch(this);
    return Work::wait(timeout); /* rethrows */
}

c10::intrusive_ptr<c10::ivalue::Future> KoloWork::getFuture() {
    if (watcher_->is_here()) /* a callback, which may wait for the future, as PowerSGD's do: nobody else would settle it */
        settle_if_free();
    bool is_to_be_watched = false;
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        std::lock_guard<std::mutex> lock(claim_mutex_);
        if (!future_) {
            future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
            is_to_be_watched = claim_ == Claim::NONE;
            if (is_to_be_watched)
                claim_ = Claim::WATCHER;
            else if (is_settled_)
                exception_ ? future_->setError(exception_) : future_->markCompleted(outputs_);
        }
        future = future_;
    }
    if (is_to_be_watched)
        watcher_->watch(this);
    return future;
}

void KoloWork::settle() {
    std::exception_ptr error;
    try {
        int first = 0;
        std::string message;
        for (kolo_request *request : requests_) {
            const int status = kolo_request_wait(request);
            if (status < 0 && first == 0) {
                first = status;
                message = kolo_error_message();
            }
        }
        if (first < 0)
            throw_error(error_text(first, message));
        const at::NoGradGuard guard;
        for (const auto &step : steps_)
            step();
    } catch (...) {
        error = std::current_exception();
    }
    requests_.clear();
    steps_.clear();
    kept_.clear();
    finish(error);
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        std::lock_guard<std::mutex> lock(claim_mutex_);
        is_settled_ = true;
        future = future_;
    }
    if (future)
        error ? future->setError(error) : future->markCompleted(outputs_);
    watcher_->remove(this); /* may be the last to refer to it */
}

/* The watcher. */

Watcher::~Watcher() {
    if (wake_fd_ >= 0)
        close(wake_fd_);
}

void Watcher::add(const c10::intrusive_ptr<KoloWork> &work) {
    work->watch_with(shared_from_this());
    std::lock_guard<std::mutex> lock(mutex_);
    in_flight_.emplace(work.get(), work);
}

bool Watcher::is_here() {
    std::lock_guard<std::mutex> lock(mutex_);
    return thread_ == std::this_thread::get_id();
}

void Watcher::remove(KoloWork *work) {
    c10::intrusive_ptr<KoloWork> last; /* destroyed without the lock */
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = in_flight_.find(work);
    if (found != in_flight_.end()) {
        last = std::move(found->second);
        in_flight_.erase(found);
    }
}

std::vector<c10::intrusive_ptr<KoloWork>> Watcher::works(bool forgotten_only) {
    std::vector<c10::intrusive_ptr<KoloWork>> found;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto &entry : in_flight_)
        if (!forgotten_only || entry.second.use_count() == 1)
            found.push_back(entry.second);
    return found;
}

void Watcher::sweep() {
    for (const auto &work : works(true))
        work->poll(false);
}

void Watcher::watch(KoloWork *work) {
    std::lock_guard<std::mutex> lock(mutex_);
    watched_.push_back(c10::intrusive_ptr<KoloWork>::reclaim_copy(work));
    if (!pid_) {
        int event_fd = -1;
        check(kolo_comm_eventfd(communicator_->comm, &event_fd));
        wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        TORCH_CHECK(wake_fd_ >= 0, "kolo: no descriptor is left for an eventfd");
        pid_ = getpid();
        std::thread([self = shared_from_this(), event_fd] { self->run(event_fd); }).detach();
    }
    eventfd_write(wake_fd_, 1);
}

void Watcher::run(int event_fd) {
    pollfd fds[2] = {{event_fd, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    for (;;) {
        eventfd_t ignored;
        ::poll(fds, 2, -1);
        eventfd_read(wake_fd_, &ignored);
        if (fds[0].revents)
            eventfd_read(event_fd, &ignored);
        std::unique_lock<std::mutex> lock(mutex_);
        thread_ = std::this_thread::get_id();
        if (is_stopping_)
            break;
        auto works = watched_;
        lock.unlock();
        for (const auto &work : works)
            if (work->poll(true)) {
                lock.lock();
                watched_.erase(std::find(watched_.begin(), watched_.end(), work));
                lock.unlock();
            }
    }
    std::lock_guard<std::mutex> lock(mutex_);
    has_ended_ = true;
    ended_.notify_all();
}

void Watcher::stop() {
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (is_stopping_)
            return;
        is_stopping_ = true;
        const bool has_thread = pid_ == getpid(); /* a forked child has none */
        if (has_thread)
            eventfd_write(wake_fd_, 1);
        if (has_thread && thread_ != std::this_thread::get_id())
            ended_.wait(lock, [this] { return has_ended_; });
        communicator_.reset();
    }
    for (const auto &work : works(false))
        work->settle_at_end();
}

} // namespace kolo_torch
