/* Works, and the thread that watches those that nobody waits for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <algorithm>
#include <thread>

#include "flight_record.h"
#include "work.h"

#include <poll.h>
#include <sys/eventfd.h>

namespace kolo_torch {

void Step::take(void *step) noexcept {
    Step *const self = static_cast<Step *>(step);
    try {
        const PlainMemory guard;
        self->function_();
    } catch (...) {
        self->failure_ = std::current_exception();
        kolo_comm_abort(self->comm_, 1);
    }
}

/* Works. */

void KoloWork::add_step(kolo_comm *comm, std::function<void()> function) {
    kolo_request *request = nullptr;
    steps_.emplace_back(comm, std::move(function));
    kolo_torch::check(kolo_irun(comm, Step::take, &steps_.back(), &request));
    add(request);
}

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

bool KoloWork::poll(Claim most) {
    {
        std::lock_guard<std::mutex> lock(claim_mutex_);
        if (is_settled_ || claim_ > most || !requests_are_done())
            return is_settled_ && (!future_ || future_->completed());
        claim_ = Claim::WAITER;
    }
    settle();
    return true;
}

void KoloWork::give_up_claim() {
    std::lock_guard<std::mutex> lock(claim_mutex_);
    if (claim_ == Claim::WATCHER)
        claim_ = Claim::NONE;
}

bool KoloWork::is_open() {
    std::lock_guard<std::mutex> lock(claim_mutex_);
    return claim_ == Claim::ISSUER;
}

bool KoloWork::close() {
    std::lock_guard<std::mutex> lock(claim_mutex_);
    if (claim_ == Claim::ISSUER)
        claim_ = Claim::NONE;
    return future_ || has_recorded_messages;
}

KoloWork::Claim KoloWork::claim_of_watcher() {
    return watcher_->is_here() ? Claim::WATCHER : Claim::NONE;
}

bool KoloWork::isCompleted() {
    return poll(claim_of_watcher());
}

void KoloWork::settle_when_complete() {
    if (claim(Claim::WATCHER))
        watcher_->watch(this);
}

void KoloWork::settle_unless_claimed(Claim most) {
    {
        std::lock_guard<std::mutex> lock(claim_mutex_);
        if (claim_ > most)
            return;
        claim_ = Claim::WAITER;
    }
    settle();
}

bool KoloWork::wait(std::chrono::milliseconds timeout) {
    if (is_open()) {
        collect();
        raise_interruption();
        if (error_)
            std::rethrow_exception(error_);
        return true;
    }
    const Claim most = claim_of_watcher();
    if (timeout == kNoTimeout || most == Claim::WATCHER)
        settle_unless_claimed(most);
    else
        settle_when_complete();
    await_settled(timeout);
    raise_interruption();
    return Work::wait(std::chrono::milliseconds(1)); /* rethrows, or says that it has timed out */
}

/* While another thread settles it. */
void KoloWork::await_settled(std::chrono::milliseconds timeout) {
    using Clock = std::chrono::steady_clock;
    const auto end = timeout == kNoTimeout ? Clock::time_point::max() : Clock::now() + limited(timeout);
    std::unique_lock<std::mutex> lock(mutex_);
    while (!completed_ && Clock::now() < end) {
        cv_.wait_until(lock, std::min(end, Clock::now() + std::chrono::milliseconds(100)));
        lock.unlock();
        watcher_->handle_signals();
        lock.lock();
    }
    const bool is_completed = completed_;
    lock.unlock();
    while (is_completed && !poll()) /* the future comes last, since its callbacks may wait for this work */
        std::this_thread::yield();
}

c10::intrusive_ptr<c10::ivalue::Future> KoloWork::getFuture() {
    /* A callback, which may wait for the future, as PowerSGD's do: nobody else would settle it. */
    if (watcher_->is_here()) {
        const WithoutLock without;
        settle_unless_claimed(Claim::WATCHER);
    }
    bool is_to_be_watched = false;
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        std::lock_guard<std::mutex> lock(claim_mutex_);
        if (!future_) {
            future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
            if (is_settled_)
                exception_ ? future_->setError(exception_) : future_->markCompleted(outputs_);
        }
        is_to_be_watched = claim_ == Claim::NONE;
        if (is_to_be_watched)
            claim_ = Claim::WATCHER;
        future = future_;
    }
    if (is_to_be_watched)
        watcher_->watch(this);
    return future;
}

void KoloWork::collect() {
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
        for (const Step &step : steps_)
            step.check();
        if (first < 0) {
            if (FlightRecord *const record = FlightRecord::get())
                record->write();
            throw_error(error_text(first, message));
        }
        const PlainMemory guard;
        for (const auto &function : when_received_)
            function();
    } catch (...) {
        if (!error_)
            error_ = std::current_exception();
    }
    requests_.clear();
    steps_.clear();
    when_received_.clear();
    kept_.clear();
}

void KoloWork::settle() {
    collect();
    for (const auto &function : at_end_)
        function(!error_);
    at_end_.clear();
    finish(error_);
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        std::lock_guard<std::mutex> lock(claim_mutex_);
        is_settled_ = true;
        future = future_;
    }
    if (future)
        error_ ? future->setError(error_) : future->markCompleted(outputs_);
    watcher_->remove(this); /* may be the last to refer to it */
}

/* The watcher. */

namespace {

struct Watchers { /* of one process */
    const pid_t pid = getpid();
    std::atomic<bool> are_halted{false};
    std::mutex mutex;
    std::vector<std::weak_ptr<Watcher>> with_threads;
};

Watchers &watchers() {
    static std::atomic<Watchers *> all{new Watchers}; /* never destroyed: threads may outlive static objects */
    Watchers *found = all;
    if (found->pid != getpid()) { /* a forked child's, of which no thread of its parent can have the mutex */
        auto *const own = new Watchers;
        if (all.compare_exchange_strong(found, own))
            return *own;
        delete own;
    }
    return *found;
}

void enlist(std::weak_ptr<Watcher> watcher) {
    std::lock_guard<std::mutex> lock(watchers().mutex);
    auto &all = watchers().with_threads;
    all.erase(std::remove_if(all.begin(), all.end(), [](const auto &other) { return other.expired(); }), all.end());
    all.push_back(std::move(watcher));
}

} // namespace

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

void Watcher::handle_signals() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto communicator = communicator_;
    lock.unlock();
    const int code = communicator ? kolo_torch::handle_signals(communicator->comm) : 0;
    if (code)
        kolo_comm_abort(communicator->comm, code);
    raise_interruption();
}

void Watcher::sweep() {
    for (const auto &work : works(true))
        work->poll();
}

void Watcher::watch(KoloWork *work) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!has_thread_)
        enlist(weak_from_this()); /* before it is known whether all are halted: those that are found then end */
    if (watchers().are_halted || is_stopping_) {
        lock.unlock();
        work->settle_unless_claimed(KoloWork::Claim::ISSUER);
        return;
    }
    try {
        if (!has_thread_)
            start_thread();
    } catch (...) {
        lock.unlock();
        work->give_up_claim();
        throw;
    }
    watched_.push_back(c10::intrusive_ptr<KoloWork>::reclaim_copy(work));
    eventfd_write(wake_fd_, 1);
}

void Watcher::start_thread() {
    int event_fd = -1;
    check(kolo_comm_eventfd(communicator_->comm, &event_fd));
    if (wake_fd_ < 0) /* else a thread could not be started */
        wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    TORCH_CHECK(wake_fd_ >= 0, "kolo: no descriptor is left for an eventfd");
    std::thread([self = shared_from_this(), event_fd] { self->run(event_fd); }).detach();
    has_thread_ = true;
}

void Watcher::run(int event_fd) {
    pollfd fds[2] = {{event_fd, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    for (;;) {
        eventfd_t ignored;
        ::poll(fds, 2, -1);
        std::unique_lock<std::mutex> lock(mutex_);
        thread_ = std::this_thread::get_id();
        if (is_stopping_ || watchers().are_halted) /* event_fd may be another file's: the communicator is gone */
            break;
        eventfd_read(wake_fd_, &ignored);
        if (fds[0].revents)
            eventfd_read(event_fd, &ignored);
        auto works = watched_;
        lock.unlock();
        for (const auto &work : works)
            if (!watchers().are_halted && work->poll(KoloWork::Claim::WATCHER)) {
                lock.lock();
                watched_.erase(std::find(watched_.begin(), watched_.end(), work));
                lock.unlock();
            }
    }
    std::lock_guard<std::mutex> lock(mutex_);
    has_ended_ = true;
    ended_.notify_all();
}

/* Returns when it has ended, unless it is the caller. */
void Watcher::end_thread(std::unique_lock<std::mutex> &lock) {
    if (!has_thread_)
        return;
    eventfd_write(wake_fd_, 1);
    if (thread_ != std::this_thread::get_id())
        ended_.wait(lock, [this] { return has_ended_; });
}

void Watcher::halt() {
    std::vector<c10::intrusive_ptr<KoloWork>> left; /* let go of without the lock */
    std::unique_lock<std::mutex> lock(mutex_);
    end_thread(lock);
    left.swap(watched_);
    lock.unlock();
    for (const auto &work : left)
        work->give_up_claim();
}

void Watcher::halt_all() {
    std::vector<std::weak_ptr<Watcher>> all;
    watchers().are_halted = true;
    {
        std::lock_guard<std::mutex> lock(watchers().mutex);
        all = watchers().with_threads;
    }
    for (const auto &one : all)
        if (const auto watcher = one.lock())
            watcher->halt();
}

void Watcher::stop() {
    if (is_in_child())
        return;
    std::vector<c10::intrusive_ptr<KoloWork>> left; /* let go of without the lock */
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (is_stopping_)
            return;
        is_stopping_ = true;
        end_thread(lock);
        if (has_ended_) /* else it is the caller, and may be amid them */
            left.swap(watched_);
        communicator_.reset();
    }
    for (const auto &work : works(false))
        work->settle_unless_claimed(KoloWork::Claim::ISSUER);
}

} // namespace kolo_torch
