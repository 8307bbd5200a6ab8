/* kolo_alloc and kolo_free. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "algo/algo.h"
#include "api/checks.h"
#include "base/status.h"
#include "comm/failure/failure.h"
#include "comm/step/heap.h"
#include "comm/step/progress.h"
#include "comm/ranks.h"
#include "internode/hierarchy.h"
#include "shm/handover.h"
#include "sync/point.h"

/* The sum of `words` of all ranks of this node, whose memory this is about. */
static int exchange(kolo_comm *comm, const uint64_t *words, uint64_t *sums, size_t count) {
    if (comm->size == 1) {
        memcpy(sums, words, count * sizeof *words);
        return 0;
    }
    return kolo_oneshot_lines(comm, words, sums, count, &comm->reducer->kernels[KOLO_U64][KOLO_SUM]);
}

/* The sum of `words` of all ranks. */
static int exchange_all(kolo_comm *comm, const uint64_t *words, uint64_t *sums, size_t count) {
    const struct kolo_message message = {.send = (const uint8_t *)words,
                                         .recv = (uint8_t *)sums,
                                         .count = count,
                                         .kernel = &comm->reducer->kernels[KOLO_U64][KOLO_SUM]};
    return comm->internode ? kolo_hierarchy_allreduce(comm, &message) : exchange(comm, words, sums, count);
}

/* Rank 0's file, as the others are told of it. */
struct offer {
    uint64_t status; /* why there is none, negated; 0: there is one */
    uint64_t secret; /* see shm/handover.h */
    struct kolo_memory_file file;
};

/* Rank 0 makes the file, and tells the others, or all fail. *fd is rank 0's descriptor. */
static int offer_file(kolo_comm *comm, size_t part_bytes, struct offer *offer, int *fd) {
    struct offer own = {0};
    int rc = 0;
    if (comm->rank == 0) {
        *fd = rc = kolo_region_create(part_bytes, comm->size, &own.file);
        own.status = rc < 0 ? (uint64_t)-rc : 0;
        own.secret = kolo_handover_secret();
    }
    KOLO_POINT("alloc.created");
    const int exchanged = exchange(comm, (uint64_t *)&own, (uint64_t *)offer, sizeof own / sizeof(uint64_t));
    if (exchanged < 0 || rc < 0)
        return exchanged < 0 ? exchanged : rc;
    if (offer->status)
        return kolo_fail(-(int)offer->status,
                         "rank %" PRIu32 ": kolo_alloc failed on rank 0: %s; see that rank's message",
                         comm->global_rank, kolo_strerror(-(int)offer->status));
    KOLO_POINT("alloc.offered");
    return 0;
}

/* Rank 0's: gives the file to those that listen. What goes wrong is for them to say. */
static void give_file(const kolo_comm *comm, const uint64_t *listening, uint64_t secret, int fd) {
    const struct kolo_shared_member *members = comm->segment.members;
    for (uint32_t rank = 1; rank < comm->size; rank++) {
        const struct kolo_shared_process *process = &members[rank].process;
        const bool is_known = process->pid_namespace == comm->liveness.own_namespace && process->pid_namespace;
        if (kolo_ranks_have(listening, rank))
            kolo_handover_give(secret, rank, is_known ? process->pid : 0, fd);
    }
}

/* Every other rank opens the file through /proc; to those that may not, rank 0 hands it. *fd is the descriptor or, of a
 * rank that has none, the status. */
static int share_file(kolo_comm *comm, const struct offer *offer, int *fd) {
    uint64_t own[KOLO_RANK_WORDS] = {0}, listening[KOLO_RANK_WORDS];
    int opened = 0, listener = -1;
    if (comm->rank != 0) {
        opened = *fd = kolo_memory_file_open(&offer->file, O_RDWR);
        listener = opened < 0 ? kolo_handover_listen(offer->secret, comm->rank) : -1;
    }
    if (listener >= 0)
        kolo_ranks_add(own, comm->rank);
    KOLO_POINT("alloc.opened");
    int rc = exchange(comm, own, listening, KOLO_RANK_WORDS);
    if (rc == 0 && kolo_ranks_count_below(listening, comm->size) > 0) {
        if (comm->rank == 0)
            give_file(comm, listening, offer->secret, *fd);
        rc = exchange(comm, own, listening, 1);
    }
    if (listener >= 0)
        listener = *fd = kolo_handover_take(listener, &offer->file);
    if (rc == 0 && *fd < 0)
        *fd = kolo_fail_system(-opened,
                               "rank %" PRIu32 ": kolo_alloc: rank 0's memory can be had neither by a socket (%s;"
                               " this takes one network namespace) nor as /proc/%" PRIu64 "/fd/%" PRIu64,
                               comm->global_rank, strerror(-listener), offer->file.pid, offer->file.fd);
    return rc;
}

/* Rank 0 makes the file, and every rank gets a descriptor of it, or all fail. */
static int open_file(kolo_comm *comm, size_t part_bytes, int *fd) {
    struct offer offer;
    *fd = -1;
    const int rc = offer_file(comm, part_bytes, &offer, fd);
    return rc < 0 || comm->size == 1 ? rc : share_file(comm, &offer, fd);
}

/* Maps the file on every rank, or on none. A descriptor below 0 is the status of a rank that could not open it. */
static int map_file(kolo_comm *comm, int fd, size_t part_bytes, struct kolo_region *region) {
    int rc = fd < 0 ? fd : kolo_region_map(region, fd, part_bytes, comm->size, comm->rank);
    if (rc == 0)
        rc = kolo_heap_reserve(&comm->heap);
    KOLO_POINT("alloc.mapped");
    const uint64_t words[2] = {rc < 0, rc == KOLO_ERR_NO_SPACE};
    uint64_t failed[2];
    const int exchanged = exchange_all(comm, words, failed, 2);
    KOLO_POINT("alloc.agreed");
    if (exchanged == 0 && failed[0] == 0)
        return 0;
    if (region->base)
        kolo_region_leave(region, comm->rank);
    if (exchanged < 0 || rc < 0)
        return exchanged < 0 ? exchanged : rc;
    return kolo_fail(failed[1] ? KOLO_ERR_NO_SPACE : KOLO_ERR_SYSTEM,
                     "rank %" PRIu32 ": kolo_alloc failed on %" PRIu64 " other ranks; see their messages",
                     comm->global_rank, failed[0]);
}

static int allocate(kolo_comm *comm, size_t bytes, void **buffer) {
    const size_t part_bytes = kolo_region_part_bytes(bytes, comm->size);
    struct kolo_region region = {0};
    int fd;
    if (comm->global_size > 1)
        kolo_call_begin(comm, KOLO_ALLOC, KOLO_U8, KOLO_SUM, 0, bytes);
    int rc = open_file(comm, part_bytes, &fd);
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
    if (!kolo_usable(comm))
        return kolo_unusable("kolo_alloc", comm);
    if (!buffer || bytes == 0 || kolo_region_part_bytes(bytes, comm->size) == 0 || bytes > KOLO_CALL_COUNT)
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRIu32 ": kolo_alloc: %s", comm->global_rank,
                         !buffer      ? "buffer is NULL"
                         : bytes == 0 ? "bytes is 0"
                                      : "more bytes than memory can hold");
    int rc = kolo_enter("kolo_alloc", comm);
    if (rc < 0)
        return rc;
    comm->stats.calls_by_collective[KOLO_ALLOC]++;
    rc = allocate(comm, bytes, buffer);
    if (comm->global_size > 1)
        kolo_call_leave(comm);
    kolo_leave(comm);
    return rc;
}

int kolo_free(kolo_comm *comm, void *buffer) {
    if (!comm || !comm->token->ours) /* a broken communicator's buffers can still be freed */
        return kolo_unusable("kolo_free", comm);
    const int64_t index = buffer ? kolo_heap_index(&comm->heap, buffer, comm->rank) : -1;
    if (buffer && index < 0)
        return kolo_fail(KOLO_ERR_ARG,
                         "rank %" PRIu32 ": kolo_free: %p is no buffer of kolo_alloc on this communicator",
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
