/* The collectives. Each has one descriptor, and all take one path: check the arguments, stamp the call, run the
 * algorithm. */
#include <string.h>

#include "algo/algo.h"
#include "api/checks.h"
#include "base/status.h"
#include "comm/creation/create.h"
#include "comm/step/history.h"
#include "comm/step/progress.h"
#include "cpu/fpenv.h"

/* What a collective is. */
struct descriptor {
    const char *function;
    kolo_collective collective;
    bool has_op;   /* it reduces */
    bool has_root; /* a rank that all name */
    bool gathers;  /* recv has a block of `count` elements for each rank */

    kolo_lines_fn *lines;                     /* messages that fit lines; NULL: none go there */
    kolo_run_fn *algorithms[KOLO_ALGORITHMS]; /* what the plan chooses from */
    kolo_run_fn *direct;                      /* tried first where buffers may be kolo_alloc's; NULL: there is none */
};

static const struct descriptor descriptors[KOLO_COLLECTIVES] = {
    [KOLO_ALLREDUCE] = {.function = "kolo_allreduce",
                        .collective = KOLO_ALLREDUCE,
                        .has_op = true,
                        .lines = kolo_oneshot_lines,
                        .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_oneshot_run,
                                       [KOLO_ALGORITHM_MESH] = kolo_mesh_run,
                                       [KOLO_ALGORITHM_RING] = kolo_ring_run,
                                       [KOLO_ALGORITHM_CENTRAL] = kolo_central_run,
                                       [KOLO_ALGORITHM_TREE] = kolo_tree_run},
                        .direct = kolo_direct_run},
    [KOLO_BROADCAST] = {.function = "kolo_broadcast",
                        .collective = KOLO_BROADCAST,
                        .has_root = true,
                        .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_broadcast_run}},
    [KOLO_BARRIER] = {.function = "kolo_barrier", .collective = KOLO_BARRIER, .lines = kolo_oneshot_lines},
    [KOLO_ALLGATHER] = {.function = "kolo_allgather",
                        .collective = KOLO_ALLGATHER,
                        .gathers = true,
                        .lines = kolo_allgather_lines,
                        .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_allgather_run}},
};

int kolo_collective_has_op(kolo_collective collective) {
    return (unsigned)collective < KOLO_COLLECTIVES && descriptors[collective].has_op;
}

int kolo_collective_has_root(kolo_collective collective) {
    return (unsigned)collective < KOLO_COLLECTIVES && descriptors[collective].has_root;
}

/* What the caller passes. */
struct arguments {
    const void *send;
    void *recv;
    size_t count;
    kolo_dtype dtype;
    kolo_op op; /* SUM for a collective without one */
    int root;   /* 0 likewise */
};

/* More elements than memory can hold, of any dtype; no product of bytes overflows. */
static inline size_t count_max(const struct descriptor *descriptor, const kolo_comm *comm) {
    return SIZE_MAX / 16 / (descriptor->gathers ? comm->global_size : 1);
}

/* True if `send` and `recv` overlap, except in place. */
static inline bool overlaps(const struct descriptor *descriptor, const kolo_comm *comm, struct arguments call,
                            size_t element_bytes) {
    const size_t bytes = call.count * element_bytes;
    const uintptr_t send = (uintptr_t)call.send, recv = (uintptr_t)call.recv;
    if (descriptor->gathers)
        return send != recv + comm->global_rank * bytes && send < recv + comm->global_size * bytes &&
               recv < send + bytes;
    return send != recv && (send < recv ? recv - send : send - recv) < bytes;
}

/* The kernel, or NULL if there is no such dtype or op, or the dtype lacks the op. */
static inline const kolo_kernel *find_kernel(const kolo_comm *comm, kolo_dtype dtype, kolo_op op) {
    if ((unsigned)dtype >= KOLO_DTYPES || (unsigned)op >= KOLO_OPS)
        return NULL;
    const kolo_kernel *kernel = &comm->reducer->kernels[dtype][op];
    return kernel->fold ? kernel : NULL;
}

static inline bool is_legal(const struct descriptor *descriptor, const kolo_comm *comm, struct arguments call,
                            const kolo_kernel *kernel) {
    if (descriptor->has_root && (call.root < 0 || (uint32_t)call.root >= comm->global_size))
        return false;
    return call.count == 0 || (call.count <= count_max(descriptor, comm) && call.send && call.recv &&
                               !overlaps(descriptor, comm, call, kernel->element_bytes));
}

/* Fails with what is wrong with the buffers of a call that is otherwise legal. */
static int explain_buffers(const struct descriptor *descriptor, const kolo_comm *comm, struct arguments call) {
    const char *const function = descriptor->function;
    const char *const missing = descriptor->has_root ? "buffer" : call.send ? "recv" : "send";
    const size_t bytes = call.count * kolo_dtype_bytes(call.dtype);
    if (!call.send || !call.recv)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: %s is NULL with count %zu", comm->global_rank, function, missing,
                         call.count);
    if (descriptor->gathers)
        return kolo_fail(KOLO_ERR_ARG,
                         "rank %u: %s: send %p overlaps the %u blocks of %zu bytes at recv %p: for in place pass block "
                         "%u of recv as send",
                         comm->global_rank, function, call.send, comm->global_size, bytes, call.recv,
                         comm->global_rank);
    return kolo_fail(KOLO_ERR_ARG,
                     "rank %u: %s: send %p and recv %p overlap within %zu bytes: pass the same address for in place",
                     comm->global_rank, function, call.send, call.recv, bytes);
}

/* Fails with what is wrong with a call that is not legal. */
__attribute__((cold)) static int explain(const struct descriptor *descriptor, const kolo_comm *comm,
                                         struct arguments call) {
    const char *const function = descriptor->function;
    const uint32_t rank = comm->global_rank;
    if ((unsigned)call.dtype >= KOLO_DTYPES)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: dtype %d: there is no such dtype", rank, function,
                         (int)call.dtype);
    if (call.count > count_max(descriptor, comm))
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: count %zu: more %s than memory can hold", rank, function,
                         call.count, kolo_dtype_name(call.dtype));
    if ((unsigned)call.op >= KOLO_OPS)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: op %d: there is no such op", rank, function, (int)call.op);
    if (!kolo_op_supports(call.op, call.dtype))
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: op %s is for integers, not for %s", rank, function,
                         kolo_op_name(call.op), kolo_dtype_name(call.dtype));
    if (descriptor->has_root && (call.root < 0 || (uint32_t)call.root >= comm->global_size))
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: root %d: must be from 0 to %u", rank, function, call.root,
                         comm->global_size - 1);
    return explain_buffers(descriptor, comm, call);
}

/* True if the call may be done on buffers of kolo_alloc: the same on all ranks, as they have made the same calls. */
static bool may_be_direct(const kolo_comm *comm, size_t bytes) {
    const uint32_t algorithm = comm->settings.algorithm;
    return comm->heap.live && (algorithm == KOLO_ALGORITHM_DIRECT ||
                               (algorithm == KOLO_ALGORITHM_AUTO && bytes >= comm->settings.direct_bytes_min));
}

/* A buffer that may be passed to memcpy: with a count of 0 the caller's may be NULL. */
static void *or_nothing(const void *buffer, size_t count) {
    static uint8_t nothing;
    return count ? (void *)buffer : &nothing;
}

static int run_planned(const struct descriptor *descriptor, kolo_comm *comm, struct kolo_message *message) {
    const kolo_kernel *kernel = message->kernel;
    const struct kolo_question question = {.collective = descriptor->collective,
                                           .count = message->count,
                                           .element_bytes = kernel->element_bytes,
                                           .acc_bytes = kernel->acc_bytes};
    const size_t bytes = message->count * kernel->element_bytes;
    if (comm->nodes) {
        if (descriptor->has_op)
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_MESH]++;
        return comm->above->internode->run(comm, descriptor->collective, message);
    }
    message->plan = kolo_plan_make(&question, &comm->settings, comm->segment.slot_bytes);
    if (message->send == message->recv)
        message->plan.stream = false; /* what has just been read is in a cache anyway */
    if (descriptor->direct && !message->plan.lines && may_be_direct(comm, bytes)) {
        const int rc = descriptor->direct(comm, message);
        if (rc != KOLO_DIRECT_IMPOSSIBLE) {
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT]++;
            return rc;
        }
    }
    if (descriptor->has_op)
        comm->stats.calls_by_algorithm[message->plan.algorithm]++;
    return descriptor->algorithms[message->plan.algorithm](comm, message);
}

static int run_message(const struct descriptor *descriptor, kolo_comm *comm, struct arguments call,
                       const kolo_kernel *kernel) {
    struct kolo_message message = {.send = or_nothing(call.send, call.count),
                                   .recv = or_nothing(call.recv, call.count),
                                   .count = call.count,
                                   .kernel = kernel,
                                   .root = (uint32_t)call.root};
    /* Such messages take long enough to afford two looks at the clock. */
    const bool is_timed = call.count * kernel->element_bytes >= KOLO_TIMED_BYTES_MIN;
    if (is_timed)
        kolo_history_begin(comm);
    const int rc = run_planned(descriptor, comm, &message);
    if (is_timed)
        kolo_history_end(comm);
    return rc;
}

/* Begins, runs and leaves a call of several ranks whose arguments are legal. */
static inline __attribute__((always_inline)) int run(const struct descriptor *descriptor, kolo_comm *comm,
                                                     struct arguments call, const kolo_kernel *kernel) {
    kolo_call_begin(comm, descriptor->collective, call.dtype, call.op, (uint32_t)call.root, call.count);
    const uint32_t callers_fpenv = descriptor->has_op ? kolo_fpenv_enter() : 0;
    int rc;
    if (descriptor->lines && call.count * kernel->element_bytes < comm->lines_bytes_end[descriptor->collective]) {
        if (descriptor->has_op)
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_ONESHOT]++;
        rc = descriptor->lines(comm, call.send, call.recv, call.count, kernel);
    } else {
        rc = run_message(descriptor, comm, call, kernel);
    }
    if (descriptor->has_op)
        kolo_fpenv_leave(callers_fpenv);
    kolo_call_leave(comm);
    return rc;
}

/* The path that every collective takes. It is inlined with a constant descriptor, so that each collective gets a copy
 * with only the parts that it needs. */
static inline __attribute__((always_inline)) int collective(const struct descriptor *descriptor, kolo_comm *comm,
                                                            struct arguments call) {
    if (!kolo_usable(comm))
        return kolo_unusable(descriptor->function, comm);
    int rc = kolo_enter(descriptor->function, comm);
    if (rc < 0)
        return rc;
    const kolo_kernel *kernel = find_kernel(comm, call.dtype, call.op);
    if (__builtin_expect(!kernel || !is_legal(descriptor, comm, call, kernel), 0)) {
        rc = explain(descriptor, comm, call);
    } else {
        comm->stats.calls_by_collective[descriptor->collective]++;
        comm->stats.payload_bytes += call.count * kernel->element_bytes;
        if (comm->global_size > 1)
            rc = run(descriptor, comm, call, kernel);
        else if (call.count && call.send != call.recv)
            memcpy(call.recv, call.send, call.count * kernel->element_bytes);
    }
    kolo_leave(comm);
    return rc;
}

int kolo_allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return collective(&descriptors[KOLO_ALLREDUCE], comm, (struct arguments){send, recv, count, dtype, op, 0});
}

int kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root) {
    return collective(&descriptors[KOLO_BROADCAST], comm,
                      (struct arguments){buffer, buffer, count, dtype, KOLO_SUM, root});
}

int kolo_barrier(kolo_comm *comm) {
    return collective(&descriptors[KOLO_BARRIER], comm, (struct arguments){NULL, NULL, 0, KOLO_U8, KOLO_SUM, 0});
}

int kolo_allgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype) {
    return collective(&descriptors[KOLO_ALLGATHER], comm, (struct arguments){send, recv, count, dtype, KOLO_SUM, 0});
}
