/* Barrier: the one-shot lines without a payload. */
#include "algo/algo.h"

int kolo_barrier_run(kolo_comm *comm) {
    static const kolo_kernel nothing = {.element_bytes = 1};
    if (comm->internode)
        return kolo_hierarchy_barrier(comm);
    return kolo_oneshot_lines(comm, NULL, NULL, 0, &nothing);
}
