/* A kolo communicator of a process group: made with the group's store, and kept for as long as something uses it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>

#include <kolo.h>

#include "torch_compat.h"

namespace kolo_torch {

/* What an exception says of an error of kolo's with that kolo_error_message. */
std::string error_text(int status, const std::string &message);

[[noreturn]] void throw_error(const std::string &text);

/* Throws it with kolo's message if status is an error. */
[[noreturn]] void fail(int status);
inline void check(int status) {
    if (__builtin_expect(status < 0, 0))
        fail(status);
}

/* At most a year: kolo takes no longer ones, and a clock has no room for the longest that programs name. */
inline std::chrono::milliseconds limited(std::chrono::milliseconds timeout) {
    return std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

/* As kolo has it: 0 is no limit. */
inline int64_t limit_ms(std::chrono::milliseconds timeout) {
    return std::max<int64_t>(limited(timeout).count(), 0);
}

/* Signals, in the main thread: Python's handlers run while a call of a communicator waits, about every 100 ms. What one
 * raises aborts the communicator, and is raised in place of the error of the call that it ends. */
int handle_signals(void *comm);            /* the hook `interrupt` */
void raise_interruption();                 /* throws what a handler has raised in this thread, once; else returns */
bool is_in_handler(const kolo_comm *comm); /* which runs while a call of that communicator waits */

/* Owned by the backend, by its tensors of kolo_alloc and by nobody else: the last of them destroys it. */
struct Communicator {
    explicit Communicator(kolo_comm *made) : comm(made) {
        kolo_hooks hooks = {};
        hooks.hooks_bytes = sizeof hooks;
        hooks.interrupt = handle_signals;
        hooks.context = comm;
        kolo_comm_set_hooks(comm, &hooks);
    }
    Communicator(const Communicator &) = delete;
    ~Communicator() {
        kolo_comm_destroy(comm);
    }
    kolo_comm *const comm;
};

/* What a backend is made of: a communicator, and a store in which no other one has keys. */
struct Meeting {
    std::shared_ptr<Communicator> communicator;
    c10::intrusive_ptr<c10d::Store> store;
};

/* Makes them together with all other ranks of the group, by the group's store. */
Meeting meet(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, std::chrono::milliseconds timeout);

} // namespace kolo_torch
