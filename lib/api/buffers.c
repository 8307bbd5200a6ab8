/* kolo_alloc and kolo_free. */
#include <unistd.h>

#include "api/requests/queue.h"
#include "api/sharing.h"
#include "base/status.h"
#include "comm/step/heap.h"
#include "comm/step/progress.h"
#include "sync/point.h"

/* Maps the file on every rank, or on none. A descriptor below 0 is the status of a rank that could not open it. */
static int map_file(kolo_comm *comm, int fd, size_t part_bytes, struct kolo_region *region) {
    int rc = fd < 0 ? fd : kolo_region_map(region, fd, part_bytes, comm->size, comm->rank);
    if (rc == 0)
        rc = kolo_heap_reserve(&comm->heap);
    KOLO_POINT("alloc.mapped");
    rc = kolo_status_agree(comm, "kolo_alloc", rc);
    KOLO_POINT("alloc.agreed");
    if (rc < 0 && region->base)
        kolo_region_leave(region, comm->rank);
    return rc;
}

static int allocate(kolo_comm *comm, size_t bytes, void **buffer) {
    const size_t part_bytes = kolo_region_part_bytes(bytes, comm->size);
    struct kolo_region region = {0};
    int fd = comm->rank == 0 ? kolo_region_create(part_bytes, comm->size) : -1;
    KOLO_POINT("alloc.created");
    int rc = kolo_file_hand_to_all(comm, "kolo_alloc", &fd);
    if (rc == 0)
        rc = map_file(comm, fd, part_bytes, &region);
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        return rc;
    KOLO_POINT("alloc.adding");
    kolo_heap_add(&comm->heap, &region);
    *buffer = region.base + comm->rank * part_bytes;
    return 0;
}

int kolo_alloc(kolo_comm *comm, size_t bytes, void **buffer) {
    int rc = kolo_get_ready("kolo_alloc", comm);
    if (rc < 0)
        return rc;
    if (!buffer || bytes == 0 || kolo_region_part_bytes(bytes, comm->size) == 0 || bytes > KOLO_CALL_COUNT)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: kolo_alloc: %s", comm->global_rank,
                         !buffer      ? "buffer is NULL"
                         : bytes == 0 ? "bytes is 0"
                                      : "more bytes than memory can hold");
    rc = kolo_enter("kolo_alloc", comm);
    if (rc < 0)
        return rc;
    kolo_shared_call_begin(comm, KOLO_ALLOC, bytes);
    rc = allocate(comm, bytes, buffer);
    kolo_shared_call_leave(comm);
    return rc;
}

int kolo_free(kolo_comm *comm, void *buffer) {
    if (!comm || !comm->token->ours) /* a broken communicator's buffers can still be freed */
        return kolo_unusable("kolo_free", comm);
    kolo_get_ready("kolo_free", comm); /* requests in flight may still use it */
    const int64_t index = buffer ? kolo_heap_index(&comm->heap, buffer, comm->rank) : -1;
    if (buffer && index < 0)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: kolo_free: %p is no buffer of kolo_alloc on this communicator",
                         comm->global_rank, buffer);
    if (!buffer)
        return 0;
    KOLO_POINT("free.noting");
    kolo_call_note(comm, KOLO_FREE, (uint32_t)index);
    KOLO_POINT("free.noted");
    kolo_heap_remove(&comm->heap, (uint32_t)index, comm->rank);
    KOLO_POINT("free.removed");
    return 0;
}
