/* Python's signal handlers in calls that wait.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "communicator.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <torch/csrc/utils/pybind.h>

namespace kolo_torch {

namespace {

constexpr int INTERRUPTED = 130; /* the code of the abort, as shells have it for a program that Ctrl-C has ended */

/* Of this thread. Nothing here has a destructor: Python may have ended before the thread does. */
thread_local const void *asking = nullptr; /* the communicator whose call waits for handlers */
thread_local struct { PyObject *type, *value, *trace; } raised;

} // namespace

int handle_signals(void *comm) {
    /* Others run no handlers, and one that asks for Python's lock when Python ends does not come back. */
    if (syscall(SYS_gettid) != getpid() || !Py_IsInitialized())
        return 0;
    const PyGILState_STATE state = PyGILState_Ensure();
    const void *const before = asking;
    asking = comm;
    if (!raised.type && PyErr_CheckSignals() < 0)
        PyErr_Fetch(&raised.type, &raised.value, &raised.trace);
    asking = before;
    PyGILState_Release(state);
    return raised.type ? INTERRUPTED : 0;
}

void raise_interruption() {
    if (!raised.type)
        return;
    const pybind11::gil_scoped_acquire lock;
    PyErr_Restore(raised.type, raised.value, raised.trace);
    raised = {};
    throw pybind11::error_already_set();
}

bool is_in_handler(const kolo_comm *comm) {
    return asking && asking == comm;
}

} // namespace kolo_torch
