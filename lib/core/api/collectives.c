/* The collectives, as programs call them: each begins the path that all take (api/path.h). */
#include "kolo_fusion.h"
#include "kolo_optimizer.h"
#include "algo/fusion/apply.h"
#include "api/requests/queue.h"
#include "api/short_call.h"
#include "base/sized.h"

static __attribute__((noinline)) int take_long_way(kolo_collective collective, kolo_comm *comm, const void *send,
                                                   void *recv, size_t count, kolo_dtype dtype, kolo_op op, int root) {
    return kolo_path_make(collective, kolo_registry[collective].function, comm,
                          &WITH_COUNT(send, recv, count, dtype, op, root));
}

/* Makes a call whose blocks have one count. Inlined with a constant collective: the short way has what it needs. */
static inline __attribute__((always_inline)) int make(kolo_collective collective, kolo_comm *comm, const void *send,
                                                      void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                                                      int root) {
    const struct kolo_descriptor *const descriptor = &kolo_registry[collective];
    const kolo_kernel *const kernel = kolo_is_ready(comm) ? kolo_arguments_kernel(comm, dtype, op) : NULL;
    if (__builtin_expect(kernel && kolo_short_fits(descriptor, comm, send, recv, count, root, kernel), 1))
        return kolo_short_make(descriptor, comm, send, recv, count, dtype, op, root, kernel);
    return take_long_way(collective, comm, send, recv, count, dtype, op, root);
}

int kolo_allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return make(KOLO_ALLREDUCE, comm, send, recv, count, dtype, op, 0);
}

int kolo_iallreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                    kolo_request **request) {
    return kolo_path_issue(KOLO_ALLREDUCE, __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, 0), request);
}

int kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root) {
    return make(KOLO_BROADCAST, comm, buffer, buffer, count, dtype, KOLO_SUM, root);
}

int kolo_ibroadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root, kolo_request **request) {
    return kolo_path_issue(KOLO_BROADCAST, __func__, comm, &WITH_COUNT(buffer, buffer, count, dtype, KOLO_SUM, root),
                           request);
}

int kolo_barrier(kolo_comm *comm) {
    return make(KOLO_BARRIER, comm, NULL, NULL, 0, KOLO_U8, KOLO_SUM, 0);
}

int kolo_ibarrier(kolo_comm *comm, kolo_request **request) {
    return kolo_path_issue(KOLO_BARRIER, __func__, comm, &WITH_COUNT(NULL, NULL, 0, KOLO_U8, KOLO_SUM, 0), request);
}

int kolo_allgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype) {
    return make(KOLO_ALLGATHER, comm, send, recv, count, dtype, KOLO_SUM, 0);
}

int kolo_iallgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                    kolo_request **request) {
    return kolo_path_issue(KOLO_ALLGATHER, __func__, comm, &WITH_COUNT(send, recv, count, dtype, KOLO_SUM, 0), request);
}

int kolo_allgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                    kolo_dtype dtype) {
    return kolo_path_make(KOLO_ALLGATHERV, __func__, comm,
                          &WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, NULL, NULL, counts, offsets));
}

int kolo_iallgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                     kolo_dtype dtype, kolo_request **request) {
    return kolo_path_issue(KOLO_ALLGATHERV, __func__, comm,
                           &WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, NULL, NULL, counts, offsets), request);
}

int kolo_reduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op, int root) {
    return make(KOLO_REDUCE, comm, send, recv, count, dtype, op, root);
}

int kolo_ireduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op, int root,
                 kolo_request **request) {
    return kolo_path_issue(KOLO_REDUCE, __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, root), request);
}

int kolo_reduce_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return make(KOLO_REDUCE_SCATTER, comm, send, recv, count, dtype, op, 0);
}

int kolo_ireduce_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                         kolo_request **request) {
    return kolo_path_issue(KOLO_REDUCE_SCATTER, __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, 0), request);
}

int kolo_reduce_scatterv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, kolo_dtype dtype,
                         kolo_op op) {
    return kolo_path_make(KOLO_REDUCE_SCATTERV, __func__, comm,
                          &WITH_COUNTS(send, recv, 0, dtype, op, 0, counts, NULL, NULL, NULL));
}

int kolo_ireduce_scatterv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, kolo_dtype dtype,
                          kolo_op op, kolo_request **request) {
    return kolo_path_issue(KOLO_REDUCE_SCATTERV, __func__, comm,
                           &WITH_COUNTS(send, recv, 0, dtype, op, 0, counts, NULL, NULL, NULL), request);
}

int kolo_gather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root) {
    return make(KOLO_GATHER, comm, send, recv, count, dtype, KOLO_SUM, root);
}

int kolo_igather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root,
                 kolo_request **request) {
    return kolo_path_issue(KOLO_GATHER, __func__, comm, &WITH_COUNT(send, recv, count, dtype, KOLO_SUM, root), request);
}

int kolo_gatherv(kolo_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                 const size_t *offsets, kolo_dtype dtype, int root) {
    return kolo_path_make(KOLO_GATHERV, __func__, comm,
                          &WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, NULL, NULL, counts, offsets));
}

int kolo_igatherv(kolo_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                  const size_t *offsets, kolo_dtype dtype, int root, kolo_request **request) {
    return kolo_path_issue(KOLO_GATHERV, __func__, comm,
                           &WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, NULL, NULL, counts, offsets),
                           request);
}

int kolo_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root) {
    return make(KOLO_SCATTER, comm, send, recv, count, dtype, KOLO_SUM, root);
}

int kolo_iscatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root,
                  kolo_request **request) {
    return kolo_path_issue(KOLO_SCATTER, __func__, comm, &WITH_COUNT(send, recv, count, dtype, KOLO_SUM, root),
                           request);
}

int kolo_scatterv(kolo_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                  size_t count, kolo_dtype dtype, int root) {
    return kolo_path_make(KOLO_SCATTERV, __func__, comm,
                          &WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, counts, offsets, NULL, NULL));
}

int kolo_iscatterv(kolo_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                   size_t count, kolo_dtype dtype, int root, kolo_request **request) {
    return kolo_path_issue(KOLO_SCATTERV, __func__, comm,
                           &WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, counts, offsets, NULL, NULL),
                           request);
}

int kolo_alltoall(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype) {
    return make(KOLO_ALLTOALL, comm, send, recv, count, dtype, KOLO_SUM, 0);
}

int kolo_ialltoall(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                   kolo_request **request) {
    return kolo_path_issue(KOLO_ALLTOALL, __func__, comm, &WITH_COUNT(send, recv, count, dtype, KOLO_SUM, 0), request);
}

int kolo_alltoallv(kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets, void *recv,
                   const size_t *recv_counts, const size_t *recv_offsets, kolo_dtype dtype) {
    return kolo_path_make(
        KOLO_ALLTOALLV, __func__, comm,
        &WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, send_counts, send_offsets, recv_counts, recv_offsets));
}

int kolo_ialltoallv(kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                    void *recv, const size_t *recv_counts, const size_t *recv_offsets, kolo_dtype dtype,
                    kolo_request **request) {
    return kolo_path_issue(
        KOLO_ALLTOALLV, __func__, comm,
        &WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, send_counts, send_offsets, recv_counts, recv_offsets), request);
}

int kolo_scan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return make(KOLO_SCAN, comm, send, recv, count, dtype, op, 0);
}

int kolo_iscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
               kolo_request **request) {
    return kolo_path_issue(KOLO_SCAN, __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, 0), request);
}

int kolo_exscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return make(KOLO_EXSCAN, comm, send, recv, count, dtype, op, 0);
}

int kolo_iexscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                 kolo_request **request) {
    return kolo_path_issue(KOLO_EXSCAN, __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, 0), request);
}

int kolo_allreduce_many(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype, kolo_op op) {
    return kolo_path_make(KOLO_ALLREDUCE_MANY, __func__, comm, &WITH_TENSORS(tensors, ntensors, dtype, op));
}

int kolo_iallreduce_many(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype, kolo_op op,
                         kolo_request **request) {
    return kolo_path_issue(KOLO_ALLREDUCE_MANY, __func__, comm, &WITH_TENSORS(tensors, ntensors, dtype, op), request);
}

/* Reads a call into the arguments of its function. */
static int read_call(const char *function, const kolo_call *given, const struct kolo_descriptor **row,
                     struct kolo_arguments *arguments) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_call, call_bytes, context);
    kolo_call call = {0};
    const int rc = kolo_sized_read(&sized, function, &call, given);
    if (rc < 0)
        return rc;
    *row = &kolo_registry[(unsigned)call.collective < KOLO_COLLECTIVES ? call.collective : KOLO_ALLOC];
    if ((*row)->way == KOLO_NO_WAY)
        return kolo_fail(KOLO_ERR_ARG, "%s: collective %d: there is no such collective", function,
                         (int)call.collective);
    const kolo_op op = (*row)->has_op ? call.op : KOLO_SUM;
    const int root = (*row)->has_root ? call.root : 0;
    const bool sends = (*row)->send == COUNTED, takes = (*row)->recv == COUNTED;
    if ((*row)->has_tensors)
        *arguments = WITH_TENSORS(call.tensors, call.ntensors, call.dtype, op);
    else if (call.collective == KOLO_BARRIER)
        *arguments = WITH_COUNT(NULL, NULL, 0, KOLO_U8, KOLO_SUM, 0);
    else
        *arguments = WITH_COUNTS(call.collective == KOLO_BROADCAST ? call.recv : call.send, call.recv,
                                 sends && takes ? 0 : call.count, call.dtype, op, root, sends ? call.send_counts : NULL,
                                 sends ? call.send_offsets : NULL, takes ? call.recv_counts : NULL,
                                 takes ? call.recv_offsets : NULL);
    arguments->apply = (struct kolo_apply){.function = call.function, .context = call.context};
    return 0;
}

int kolo_call_make(kolo_comm *comm, const kolo_call *call) {
    const struct kolo_descriptor *row;
    struct kolo_arguments arguments;
    const int rc = read_call(__func__, call, &row, &arguments);
    if (rc < 0)
        return rc;
    const struct kolo_arguments *const a = &arguments;
    const bool has_count = !row->has_tensors && !row->applies && row->send != COUNTED && row->recv != COUNTED;
    const kolo_kernel *const kernel =
        has_count && kolo_is_ready(comm) ? kolo_arguments_kernel(comm, a->dtype, a->op) : NULL;
    if (kernel && kolo_short_fits(row, comm, a->send, a->recv, a->count, a->root, kernel))
        return kolo_short_make(row, comm, a->send, a->recv, a->count, a->dtype, a->op, a->root, kernel);
    return kolo_path_make(row->collective, row->function, comm, &arguments);
}

int kolo_start(kolo_comm *comm, const kolo_call *call, kolo_request **request) {
    const struct kolo_descriptor *row;
    struct kolo_arguments arguments;
    const int rc = read_call(__func__, call, &row, &arguments);
    return rc < 0 ? rc : kolo_path_issue(row->collective, row->function, comm, &arguments, request);
}

#define WITH_FUNCTION(gradients_, parameters_, count_, dtype_, op_, function_, context_)                               \
    ((struct kolo_arguments){.send = (gradients_),                                                                     \
                             .recv = (parameters_),                                                                    \
                             .count = (count_),                                                                        \
                             .dtype = (dtype_),                                                                        \
                             .op = (op_),                                                                              \
                             .apply = {.function = (function_), .context = (context_)}})

int kolo_allreduce_apply(kolo_comm *comm, const void *gradients, void *parameters, size_t count, kolo_dtype dtype,
                         kolo_op op, kolo_apply_function function, void *context) {
    return kolo_path_make(KOLO_ALLREDUCE_APPLY, __func__, comm,
                          &WITH_FUNCTION(gradients, parameters, count, dtype, op, function, context));
}

int kolo_iallreduce_apply(kolo_comm *comm, const void *gradients, void *parameters, size_t count, kolo_dtype dtype,
                          kolo_op op, kolo_apply_function function, void *context, kolo_request **request) {
    return kolo_path_issue(KOLO_ALLREDUCE_APPLY, __func__, comm,
                           &WITH_FUNCTION(gradients, parameters, count, dtype, op, function, context), request);
}

int kolo_apply_owned(const kolo_comm *comm, int rank, size_t count, kolo_dtype dtype, size_t *first, size_t *owned) {
    const size_t element_bytes = kolo_dtype_bytes(dtype);
    if (!comm || !first || !owned)
        return kolo_fail(KOLO_ERR_ARG, "kolo_apply_owned: %s is NULL", !comm ? "comm" : !first ? "first" : "owned");
    if (rank < 0 || (uint32_t)rank >= comm->global_size)
        return KOLO_REFUSE(comm, __func__, "rank %d: must be from 0 to %u", rank, comm->global_size - 1);
    if (!element_bytes)
        return KOLO_REFUSE(comm, __func__, "dtype %d: there is no such dtype", (int)dtype);
    if (count > KOLO_COUNT_MAX)
        return KOLO_REFUSE(comm, __func__, "count %zu: more %s than memory can hold", count,
                           kolo_name(KOLO_NAME_DTYPE, dtype));
    *owned = kolo_plan_slice(count, (uint32_t)element_bytes, comm->global_size, (uint32_t)rank, first);
    return 0;
}
