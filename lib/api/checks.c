#include "api/checks.h"

#include <inttypes.h>

#include "base/status.h"
#include "comm/failure.h"

int kolo_unusable(const char *function, const kolo_comm *comm) {
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "%s: comm is NULL", function);
    if (!comm->token->ours)
        return kolo_fail(KOLO_ERR_STATE,
                         "rank %" PRIu32 ": %s: the communicator was inherited through fork; only the"
                         " process that created it can use it",
                         comm->rank, function);
    kolo_failure failure;
    kolo_failure_describe(comm, &failure);
    return kolo_fail(KOLO_ERR_STATE, "rank %" PRIu32 ": %s: the communicator is broken: %s", comm->rank, function,
                     failure.status ? failure.message : "it was aborted");
}
