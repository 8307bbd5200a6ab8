/* Buffers that all ranks have mapped: kolo_alloc, kolo_free, and kolo_share for memory that the ranks have already. */
#include "api/buffers.h"

#include <unistd.h>

#include "api/requests/queue.h"
#include "api/sharing.h"
#include "comm/step/progress.h"

/* Maps the file on every rank, or on none. A descriptor below 0 is the status of a rank that could not open it. */
static int map_file(kolo_comm *comm, int fd, const struct kolo_region_shape *shape, bool is_buffer,
                    struct kolo_region *region) {
    int rc = fd < 0 ? fd : kolo_region_map(region, fd, shape);
    if (rc == 0 && is_buffer)
        rc = kolo_heap_reserve(&comm->heap);
    KOLO_POINT("alloc.mapped");
    rc = kolo_status_agree(comm, shape->function, rc);
    KOLO_POINT("alloc.agreed");
    if (rc < 0 && region->base)
        kolo_region_leave(region);
    return rc;
}

static int try_to_allocate(kolo_comm *comm, const struct kolo_region_shape *shape, bool is_buffer,
                           struct kolo_region *region, int *kept) {
    int fd = comm->rank == 0 ? kolo_region_create(shape) : -1;
    KOLO_POINT("alloc.created");
    int rc = kolo_file_hand_to_all(comm, shape->function, &fd);
    if (rc == 0)
        rc = map_file(comm, fd, shape, is_buffer, region);
    if (rc == 0 && kept)
        *kept = fd;
    else if (fd >= 0)
        close(fd);
    return rc;
}

/* kept: as `fd` of kolo_buffer_create. All ranks learn the same status, and so try again together. */
static int allocate(kolo_comm *comm, struct kolo_region_shape *shape, bool is_buffer, struct kolo_region *region,
                    int *kept) {
    const int rc = try_to_allocate(comm, shape, is_buffer, region, kept);
    if (rc != KOLO_ERR_NO_SPACE || !kolo_region_may_be_pooled(shape))
        return rc;
    shape->unpooled = true;
    return try_to_allocate(comm, shape, is_buffer, region, kept);
}

static struct kolo_region_shape shape_of(const char *function, const kolo_comm *comm, size_t bytes, uint32_t parts) {
    return (struct kolo_region_shape){.function = function,
                                      .part_bytes = kolo_region_part_bytes(bytes, parts),
                                      .parts = parts,
                                      .ranks = comm->size,
                                      .rank = comm->rank};
}

static int check(const char *function, const kolo_comm *comm, const struct kolo_region_shape *shape, size_t bytes,
                 unsigned flags, void *const *buffer) {
    if (flags & ~KOLO_ALLOC_SHARED)
        return KOLO_REFUSE(comm, function, "flags %#x: 0, or %#x for a buffer that all ranks share", flags,
                           KOLO_ALLOC_SHARED);
    if (!buffer || bytes == 0 || shape->part_bytes == 0 || bytes > KOLO_COUNT_MAX)
        return KOLO_REFUSE(comm, function, "%s",
                           !buffer      ? "buffer is NULL"
                           : bytes == 0 ? "bytes is 0"
                                        : "more bytes than memory can hold");
    return 0;
}

static int alloc_with(const char *function, kolo_comm *comm, size_t bytes, unsigned flags, void **buffer) {
    int rc = kolo_get_ready(function, comm);
    if (rc < 0)
        return rc;
    struct kolo_region_shape shape = shape_of(function, comm, bytes, flags & KOLO_ALLOC_SHARED ? 1 : comm->size);
    rc = check(function, comm, &shape, bytes, flags, buffer);
    struct kolo_region region = {0};
    struct kolo_call_key key = kolo_call_key_of(KOLO_ALLOC, bytes);
    key.flags = flags & KOLO_ALLOC_SHARED ? KOLO_CALL_SHARED : 0;
    if (rc == 0)
        rc = kolo_shared_call_begin(function, comm, key);
    if (rc < 0)
        return rc;
    rc = allocate(comm, &shape, true, &region, NULL);
    if (rc == 0) {
        KOLO_POINT("alloc.adding");
        kolo_heap_add(&comm->heap, &region);
        *buffer = region.own;
    }
    kolo_shared_call_leave(comm);
    return rc;
}

int kolo_buffer_create(const char *function, kolo_comm *comm, size_t bytes, bool lazily, struct kolo_region *region,
                       int *fd) {
    int rc = kolo_shared_call_begin(function, comm, kolo_call_key_of(KOLO_TABLE, bytes));
    if (rc < 0)
        return rc;
    struct kolo_region_shape shape = shape_of(function, comm, bytes, 1);
    shape.lazily = shape.small_pages = lazily;
    rc = allocate(comm, &shape, false, region, fd);
    kolo_shared_call_leave(comm);
    return rc;
}

int kolo_alloc(kolo_comm *comm, size_t bytes, void **buffer) {
    return alloc_with("kolo_alloc", comm, bytes, 0, buffer);
}

int kolo_alloc_with(kolo_comm *comm, size_t bytes, unsigned flags, void **buffer) {
    return alloc_with("kolo_alloc_with", comm, bytes, flags, buffer);
}

int kolo_free(kolo_comm *comm, void *buffer) {
    if (!comm || !comm->token->ours) /* a broken communicator's buffers can still be freed */
        return kolo_unusable("kolo_free", comm);
    kolo_get_ready("kolo_free", comm); /* requests in flight may still use it */
    const int64_t index = buffer ? kolo_heap_index(&comm->heap, buffer, comm->rank) : -1;
    if (buffer && index < 0)
        return KOLO_REFUSE(comm, __func__, "%p is no buffer of kolo_alloc on this communicator", buffer);
    if (!buffer)
        return 0;
    KOLO_POINT("free.noting");
    kolo_call_note(comm, KOLO_FREE, (uint32_t)index);
    KOLO_POINT("free.noted");
    kolo_heap_remove(&comm->heap, (uint32_t)index, !kolo_comm_is_usable(comm));
    KOLO_POINT("free.removed");
    return 0;
}

/* Sharing. */

static const char share_function[] = "kolo_share";

static int check_shared(const kolo_comm *comm, const void *pointer, size_t bytes) {
    if (!pointer || (uintptr_t)pointer % KOLO_PAGE_BYTES != 0)
        return KOLO_REFUSE(comm, share_function, "pointer %p does not begin a page of %d bytes", pointer,
                           KOLO_PAGE_BYTES);
    return kolo_adoption_check(share_function, pointer, bytes);
}

/* Maps the parts of all ranks, and puts this rank's part in the place of the memory: on all ranks, or on none. */
static int replace(kolo_comm *comm, int fd, const struct kolo_region_shape *shape, void *pointer,
                   struct kolo_region *region) {
    int rc = fd < 0 ? fd : kolo_region_map(region, fd, shape);
    if (rc == 0)
        rc = kolo_heap_reserve(&comm->heap);
    KOLO_POINT("share_memory.mapped");
    rc = kolo_status_agree(comm, share_function, rc);
    KOLO_POINT("share_memory.begun");
    if (rc == 0) {
        rc = kolo_adoption_begin(share_function, &region->adopted, pointer, shape->part_bytes, region->own, fd,
                                 (off_t)(comm->rank * shape->part_bytes));
        if (rc == 0)
            region->own = pointer;
        KOLO_POINT("share_memory.adopted");
        rc = kolo_status_agree(comm, share_function, rc);
        KOLO_POINT("share_memory.agreed");
    }
    if (rc < 0 && region->base)
        kolo_region_leave(region);
    return rc;
}

static int share(kolo_comm *comm, void *pointer, size_t bytes) {
    const struct kolo_region_shape shape = {.function = share_function,
                                            .part_bytes = bytes,
                                            .parts = comm->size,
                                            .ranks = comm->size,
                                            .rank = comm->rank,
                                            .small_pages = true};
    struct kolo_region region = {0};
    int rc = kolo_status_agree(comm, share_function, check_shared(comm, pointer, bytes));
    if (rc < 0)
        return rc;
    int fd = comm->rank == 0 ? kolo_region_create(&shape) : -1;
    KOLO_POINT("share_memory.created");
    rc = kolo_file_hand_to_all(comm, share_function, &fd);
    if (rc == 0)
        rc = replace(comm, fd, &shape, pointer, &region);
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        kolo_heap_add(&comm->heap, &region);
    return rc;
}

int kolo_share(kolo_comm *comm, void *pointer, size_t bytes) {
    int rc = kolo_get_ready(share_function, comm);
    if (rc < 0)
        return rc;
    if (bytes == 0 || bytes % KOLO_PAGE_BYTES != 0 || bytes > KOLO_COUNT_MAX ||
        kolo_region_part_bytes(bytes, comm->size) == 0)
        return KOLO_REFUSE(comm, share_function, "bytes %zu: must be whole pages of %d, and fit memory", bytes,
                           KOLO_PAGE_BYTES);
    rc = kolo_shared_call_begin(share_function, comm, kolo_call_key_of(KOLO_SHARE, bytes));
    if (rc < 0)
        return rc;
    rc = share(comm, pointer, bytes);
    kolo_shared_call_leave(comm);
    return rc;
}
