/* Finds which thread is in a call, and why a communicator cannot be used. */
#include "api/checks.h"

#include <inttypes.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/failure/failure.h"

#ifndef NDEBUG
int kolo_enter(const char *function, kolo_comm *comm) {
    const uint64_t self = (uint64_t)syscall(SYS_gettid);
    if (!comm || !comm->token->ours) /* which the call itself refuses */
        return 0;
    if (kolo_compare_and_swap(&comm->user, 0, self))
        return 0;
    return kolo_fail(KOLO_ERR_STATE,
                     "rank %u: %s in thread %" PRIu64 ": thread %" PRIu64
                     " is in a call on this communicator: one thread at a time may use it",
                     comm->global_rank, function, self, kolo_load_acquire(&comm->user));
}

void kolo_leave(kolo_comm *comm) {
    if (comm && comm->token->ours)
        kolo_store_release(&comm->user, 0);
}
#endif

int kolo_unusable(const char *function, const kolo_comm *comm) {
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "%s: comm is NULL", function);
    if (!comm->token->ours)
        return kolo_fail(
            KOLO_ERR_STATE,
            "rank %u: %s: the communicator was inherited through fork; only the process that created it can use it",
            comm->global_rank, function);
    if (comm->is_lane && kolo_comm_is_usable(comm))
        return kolo_fail(KOLO_ERR_ARG,
                         "rank %u: %s: the communicator is a lane: it takes blocking collectives and kolo_comm_abort; "
                         "all else is for the communicator that it is a lane of",
                         comm->global_rank, function);
    kolo_failure failure;
    kolo_failure_describe(comm, &failure);
    return kolo_fail(KOLO_ERR_STATE, "rank %u: %s: the communicator is broken: %s", comm->global_rank, function,
                     failure.status ? failure.message : "it was aborted");
}
