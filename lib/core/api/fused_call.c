/* kolo_allreduce_apply, and which rank owns which elements. */
#include "kolo_optimizer.h"
#include "algo/fusion/apply.h"
#include "api/path.h"
#include "base/status.h"

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
        return kolo_fail(KOLO_ERR_ARG, "rank %u: kolo_apply_owned: rank %d: must be from 0 to %u", comm->global_rank,
                         rank, comm->global_size - 1);
    if (!element_bytes)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: kolo_apply_owned: dtype %d: there is no such dtype", comm->global_rank,
                         (int)dtype);
    if (count > KOLO_COUNT_MAX)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: kolo_apply_owned: count %zu: more %s than memory can hold",
                         comm->global_rank, count, kolo_dtype_name(dtype));
    *owned = kolo_plan_slice(count, (uint32_t)element_bytes, comm->global_size, (uint32_t)rank, first);
    return 0;
}
