/* The collectives: checks, the call's stamp, then straight to the algorithm. */
#include <inttypes.h>
#include <string.h>

#include "algo/algo.h"
#include "api/checks.h"
#include "base/status.h"
#include "comm/failure/failure.h"
#include "comm/step/history.h"
#include "comm/step/progress.h"
#include "cpu/fpenv.h"

#define COUNT_MAX (SIZE_MAX / 16) /* more elements than memory can hold, of any dtype; no product overflows */

/* What is wrong with a message of `count` elements of `dtype`; 0 if nothing is. */
static int check_message(const char *function, const kolo_comm *comm, size_t count, kolo_dtype dtype) {
    if ((unsigned)dtype >= KOLO_DTYPES)
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRIu32 ": %s: dtype %d: there is none such", comm->global_rank,
                         function, (int)dtype);
    if (count > COUNT_MAX)
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRIu32 ": %s: count %zu: more %s than memory can hold",
                         comm->global_rank, function, count, kolo_dtype_name(dtype));
    return 0;
}

static bool overlaps(const void *send, const void *recv, size_t bytes) {
    const uintptr_t a = (uintptr_t)send, b = (uintptr_t)recv;
    return a != b && (a < b ? b - a : a - b) < bytes;
}

__attribute__((cold)) static int explain_allreduce(const kolo_comm *comm, const void *send, const void *recv,
                                                   size_t count, kolo_dtype dtype, kolo_op op) {
    static const char *const function = "kolo_allreduce";
    int rc = check_message(function, comm, count, dtype);
    if (rc < 0)
        return rc;
    if ((unsigned)op >= KOLO_OPS)
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRIu32 ": %s: op %d: there is none such", comm->global_rank, function,
                         (int)op);
    if (!kolo_op_supports(op, dtype))
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRIu32 ": %s: op %s is for integers, not for %s", comm->global_rank,
                         function, kolo_op_name(op), kolo_dtype_name(dtype));
    if (!send || !recv)
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRIu32 ": %s: %s is NULL with count %zu", comm->global_rank, function,
                         send ? "recv" : "send", count);
    return kolo_fail(KOLO_ERR_ARG,
                     "rank %" PRIu32 ": %s: send %p and recv %p overlap within %zu bytes: pass the same"
                     " address for in place",
                     comm->global_rank, function, send, recv, count * kolo_dtype_bytes(dtype));
}

/* The kernel, or NULL if there is no such dtype or op, or the dtype lacks the op. */
static inline const kolo_kernel *find_kernel(const kolo_comm *comm, kolo_dtype dtype, kolo_op op) {
    if ((unsigned)dtype >= KOLO_DTYPES || (unsigned)op >= KOLO_OPS)
        return NULL;
    const kolo_kernel *kernel = &comm->reducer->kernels[dtype][op];
    return kernel->fold ? kernel : NULL;
}

static inline bool buffers_are_legal(const void *send, const void *recv, size_t count, size_t element_bytes) {
    return count == 0 || (count <= COUNT_MAX && send && recv && !overlaps(send, recv, count * element_bytes));
}

/* True if the call may be done on buffers of kolo_alloc: the same on all ranks, as they have made the same calls. */
static bool may_be_direct(const kolo_comm *comm, size_t bytes) {
    const uint32_t algorithm = comm->settings.algorithm;
    return comm->heap.live && (algorithm == KOLO_ALGORITHM_DIRECT ||
                               (algorithm == KOLO_ALGORITHM_AUTO && bytes >= comm->settings.direct_bytes_min));
}

/* A buffer that may be handed to memcpy: with a count of 0 the caller's may be NULL. */
static void *or_nothing(const void *buffer, size_t count) {
    static uint8_t nothing;
    return count ? (void *)buffer : &nothing;
}

static int reduce_planned(kolo_comm *comm, struct kolo_reduction *reduction) {
    static int (*const algorithms[KOLO_ALGORITHMS])(kolo_comm *, const struct kolo_reduction *) = {
        [KOLO_ALGORITHM_ONESHOT] = kolo_oneshot_run, [KOLO_ALGORITHM_MESH] = kolo_mesh_run,
        [KOLO_ALGORITHM_RING] = kolo_ring_run,       [KOLO_ALGORITHM_CENTRAL] = kolo_central_run,
        [KOLO_ALGORITHM_TREE] = kolo_tree_run,
    };
    if (comm->internode) {
        comm->stats.calls_by_algorithm[KOLO_ALGORITHM_MESH]++;
        return kolo_hierarchy_run(comm, reduction);
    }
    const struct kolo_question question = {.count = reduction->count,
                                           .element_bytes = reduction->kernel->element_bytes,
                                           .acc_bytes = reduction->kernel->acc_bytes};
    reduction->plan = kolo_plan_make(&question, &comm->settings, comm->segment.slot_bytes);
    if (reduction->send == reduction->recv)
        reduction->plan.stream = false; /* what has just been read is in a cache anyway */
    if (!reduction->plan.lines && may_be_direct(comm, question.count * question.element_bytes)) {
        const int rc = kolo_direct_run(comm, reduction);
        if (rc != KOLO_DIRECT_IMPOSSIBLE) {
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT]++;
            return rc;
        }
    }
    comm->stats.calls_by_algorithm[reduction->plan.algorithm]++;
    return algorithms[reduction->plan.algorithm](comm, reduction);
}

/* The same for messages that take long enough to look at a clock. */
static int reduce_timed(kolo_comm *comm, struct kolo_reduction *reduction) {
    kolo_history_begin(comm);
    const int rc = reduce_planned(comm, reduction);
    kolo_history_end(comm);
    return rc;
}

static inline int allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    if (!kolo_usable(comm))
        return kolo_unusable("kolo_allreduce", comm);
    const kolo_kernel *kernel = find_kernel(comm, dtype, op);
    if (__builtin_expect(!kernel || !buffers_are_legal(send, recv, count, kernel->element_bytes), 0))
        return explain_allreduce(comm, send, recv, count, dtype, op);
    const size_t bytes = count * kernel->element_bytes;
    comm->stats.calls_by_collective[KOLO_ALLREDUCE]++;
    comm->stats.payload_bytes += bytes;
    if (comm->global_size == 1) {
        if (count && send != recv)
            memcpy(recv, send, bytes);
        return 0;
    }
    kolo_call_begin(comm, KOLO_ALLREDUCE, dtype, op, 0, count);
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    int rc;
    if (bytes < comm->lines_bytes_end) {
        comm->stats.calls_by_algorithm[KOLO_ALGORITHM_ONESHOT]++;
        rc = kolo_oneshot_lines(comm, send, recv, count, kernel);
    } else {
        struct kolo_reduction reduction = {
            .send = or_nothing(send, count), .recv = or_nothing(recv, count), .count = count, .kernel = kernel};
        rc = bytes < KOLO_TIMED_BYTES_MIN ? reduce_planned(comm, &reduction) : reduce_timed(comm, &reduction);
    }
    kolo_fpenv_leave(callers_fpenv);
    kolo_call_leave(comm);
    return rc;
}

int kolo_allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    int rc = kolo_enter("kolo_allreduce", comm);
    if (rc < 0)
        return rc;
    rc = allreduce(comm, send, recv, count, dtype, op);
    kolo_leave(comm);
    return rc;
}

static int broadcast_timed(kolo_comm *comm, void *buffer, size_t bytes, uint32_t root) {
    kolo_history_begin(comm);
    const int rc = kolo_broadcast_run(comm, buffer, bytes, root);
    kolo_history_end(comm);
    return rc;
}

static int broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root) {
    static const char *const function = "kolo_broadcast";
    if (!kolo_usable(comm))
        return kolo_unusable(function, comm);
    int rc = check_message(function, comm, count, dtype);
    if (rc < 0)
        return rc;
    if (root < 0 || (uint32_t)root >= comm->global_size)
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRIu32 ": %s: root %d: must be from 0 to %" PRIu32, comm->global_rank,
                         function, root, comm->global_size - 1);
    if (count && !buffer)
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRIu32 ": %s: buffer is NULL with count %zu", comm->global_rank,
                         function, count);
    const size_t bytes = count * kolo_dtype_bytes(dtype);
    comm->stats.calls_by_collective[KOLO_BROADCAST]++;
    comm->stats.payload_bytes += bytes;
    if (comm->global_size == 1)
        return 0;
    kolo_call_begin(comm, KOLO_BROADCAST, dtype, KOLO_SUM, (uint32_t)root, count);
    rc = bytes < KOLO_TIMED_BYTES_MIN ? kolo_broadcast_run(comm, or_nothing(buffer, count), bytes, (uint32_t)root)
                                      : broadcast_timed(comm, or_nothing(buffer, count), bytes, (uint32_t)root);
    kolo_call_leave(comm);
    return rc;
}

int kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root) {
    int rc = kolo_enter("kolo_broadcast", comm);
    if (rc < 0)
        return rc;
    rc = broadcast(comm, buffer, count, dtype, root);
    kolo_leave(comm);
    return rc;
}

static int barrier(kolo_comm *comm) {
    if (!kolo_usable(comm))
        return kolo_unusable("kolo_barrier", comm);
    comm->stats.calls_by_collective[KOLO_BARRIER]++;
    if (comm->global_size == 1)
        return 0;
    kolo_call_begin(comm, KOLO_BARRIER, KOLO_U8, KOLO_SUM, 0, 0);
    const int rc = kolo_barrier_run(comm);
    kolo_call_leave(comm);
    return rc;
}

int kolo_barrier(kolo_comm *comm) {
    int rc = kolo_enter("kolo_barrier", comm);
    if (rc < 0)
        return rc;
    rc = barrier(comm);
    kolo_leave(comm);
    return rc;
}
