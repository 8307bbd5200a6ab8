/* kolo_allreduce_apply, and which rank owns which elements. */
#include "algo/fusion/apply.h"
#include "api/arguments.h"
#include "base/status.h"
#include "comm/step/call_word.h"

int kolo_apply_arguments(const char *function, const kolo_comm *comm, struct kolo_arguments *call) {
    const struct kolo_apply *apply = &call->apply;
    const uint32_t rank = comm ? comm->global_rank : 0;
    if (comm && !apply->function)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: function is NULL", rank, function);
    if (comm && call->count && !apply->has_gradients && !apply->has_parameters)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: gradients and parameters are both NULL with count %zu", rank,
                         function, call->count);
    if (comm && call->count && call->send == call->recv)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: gradients and parameters are both %p: they must not overlap", rank,
                         function, call->recv);
    call->root = !apply->has_gradients    ? KOLO_CALL_NO_GRADIENTS
                 : !apply->has_parameters ? KOLO_CALL_NO_PARAMETERS
                                          : KOLO_CALL_BOTH;
    if (!apply->has_gradients)
        call->send = call->recv;
    if (!apply->has_parameters)
        call->recv = (void *)(uintptr_t)call->send;
    return 0;
}

#define ARGUMENTS                                                                                                      \
    {                                                                                                                  \
        .send = gradients, .recv = parameters, .count = count, .dtype = dtype, .op = op, .apply = {                    \
            function,                                                                                                  \
            context,                                                                                                   \
            gradients != NULL,                                                                                         \
            parameters != NULL                                                                                         \
        }                                                                                                              \
    }

int kolo_allreduce_apply(kolo_comm *comm, const void *gradients, void *parameters, size_t count, kolo_dtype dtype,
                         kolo_op op, kolo_apply_function *function, void *context) {
    struct kolo_arguments call = ARGUMENTS;
    const int rc = kolo_apply_arguments(__func__, comm, &call);
    return rc < 0 ? rc : kolo_collective_make(KOLO_ALLREDUCE_APPLY, comm, &call);
}

int kolo_iallreduce_apply(kolo_comm *comm, const void *gradients, void *parameters, size_t count, kolo_dtype dtype,
                          kolo_op op, kolo_apply_function *function, void *context, kolo_request **request) {
    struct kolo_arguments call = ARGUMENTS;
    const int rc = kolo_apply_arguments(__func__, comm, &call);
    return rc < 0 ? rc : kolo_collective_issue(KOLO_ALLREDUCE_APPLY, __func__, comm, &call, request);
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
