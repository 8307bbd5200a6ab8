/* kolo_share: turns memory that the ranks have into memory that all ranks have mapped. */
#include <unistd.h>

#include "api/requests/queue.h"
#include "api/sharing.h"
#include "base/status.h"
#include "comm/step/heap.h"
#include "comm/step/progress.h"
#include "shm/adoption.h"
#include "sync/point.h"

static const char function[] = "kolo_share";

static int check(const kolo_comm *comm, const void *pointer, size_t bytes) {
    if (!pointer || (uintptr_t)pointer % KOLO_PAGE_BYTES != 0)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: pointer %p does not begin a page of %d bytes", comm->global_rank,
                         function, pointer, KOLO_PAGE_BYTES);
    return kolo_adoption_check(function, pointer, bytes);
}

/* Maps the parts of all ranks, and puts this rank's part in the place of the memory. All ranks do both, or undo
 * both. */
static int replace(kolo_comm *comm, int fd, const struct kolo_region_shape *shape, void *pointer,
                   struct kolo_region *region) {
    int rc = fd < 0 ? fd : kolo_region_map(region, fd, shape);
    if (rc == 0)
        rc = kolo_heap_reserve(&comm->heap);
    KOLO_POINT("share_memory.mapped");
    rc = kolo_status_agree(comm, function, rc);
    KOLO_POINT("share_memory.begun");
    if (rc == 0) {
        rc = kolo_adoption_begin(function, &region->adopted, pointer, shape->part_bytes, region->own, fd,
                                 (off_t)(comm->rank * shape->part_bytes));
        if (rc == 0)
            region->own = pointer;
        KOLO_POINT("share_memory.adopted");
        rc = kolo_status_agree(comm, function, rc);
        KOLO_POINT("share_memory.agreed");
    }
    if (rc < 0 && region->base)
        kolo_region_leave(region);
    return rc;
}

static int share(kolo_comm *comm, void *pointer, size_t bytes) {
    const struct kolo_region_shape shape = {.function = function,
                                            .part_bytes = bytes,
                                            .parts = comm->size,
                                            .ranks = comm->size,
                                            .rank = comm->rank,
                                            .small_pages = true};
    struct kolo_region region = {0};
    int rc = kolo_status_agree(comm, function, check(comm, pointer, bytes));
    if (rc < 0)
        return rc;
    int fd = comm->rank == 0 ? kolo_region_create(&shape) : -1;
    KOLO_POINT("share_memory.created");
    rc = kolo_file_hand_to_all(comm, function, &fd);
    if (rc == 0)
        rc = replace(comm, fd, &shape, pointer, &region);
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        kolo_heap_add(&comm->heap, &region);
    return rc;
}

int kolo_share(kolo_comm *comm, void *pointer, size_t bytes) {
    int rc = kolo_get_ready(function, comm);
    if (rc < 0)
        return rc;
    if (bytes == 0 || bytes % KOLO_PAGE_BYTES != 0 || bytes > KOLO_CALL_COUNT ||
        kolo_region_part_bytes(bytes, comm->size) == 0)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: bytes %zu: must be whole pages of %d, and fit memory",
                         comm->global_rank, function, bytes, KOLO_PAGE_BYTES);
    rc = kolo_enter(function, comm);
    if (rc < 0)
        return rc;
    kolo_shared_call_begin(comm, KOLO_SHARE, bytes);
    rc = share(comm, pointer, bytes);
    kolo_shared_call_leave(comm);
    return rc;
}
