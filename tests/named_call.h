/* A kolo_call, made by the functions of its name: what kolo_call_make and kolo_start make of it has to be the same. */
#pragma once

#include "kolo.h"
#include "kolo_fusion.h"
#include "kolo_optimizer.h"

/* Makes the call by CALL(name, arguments but the communicator). */
#define NAMED_CALL(c, CALL)                                                                                            \
    switch ((c)->collective) {                                                                                         \
    case KOLO_ALLREDUCE:                                                                                               \
        return CALL(allreduce, (c)->send, (c)->recv, (c)->count, (c)->dtype, (c)->op);                                 \
    case KOLO_BROADCAST:                                                                                               \
        return CALL(broadcast, (c)->recv, (c)->count, (c)->dtype, (c)->root);                                          \
    case KOLO_ALLGATHER:                                                                                               \
        return CALL(allgather, (c)->send, (c)->recv, (c)->count, (c)->dtype);                                          \
    case KOLO_ALLGATHERV:                                                                                              \
        return CALL(allgatherv, (c)->send, (c)->recv, (c)->recv_counts, (c)->recv_offsets, (c)->dtype);                \
    case KOLO_REDUCE:                                                                                                  \
        return CALL(reduce, (c)->send, (c)->recv, (c)->count, (c)->dtype, (c)->op, (c)->root);                         \
    case KOLO_REDUCE_SCATTER:                                                                                          \
        return CALL(reduce_scatter, (c)->send, (c)->recv, (c)->count, (c)->dtype, (c)->op);                            \
    case KOLO_REDUCE_SCATTERV:                                                                                         \
        return CALL(reduce_scatterv, (c)->send, (c)->recv, (c)->send_counts, (c)->dtype, (c)->op);                     \
    case KOLO_GATHER:                                                                                                  \
        return CALL(gather, (c)->send, (c)->recv, (c)->count, (c)->dtype, (c)->root);                                  \
    case KOLO_GATHERV:                                                                                                 \
        return CALL(gatherv, (c)->send, (c)->count, (c)->recv, (c)->recv_counts, (c)->recv_offsets, (c)->dtype,        \
                    (c)->root);                                                                                        \
    case KOLO_SCATTER:                                                                                                 \
        return CALL(scatter, (c)->send, (c)->recv, (c)->count, (c)->dtype, (c)->root);                                 \
    case KOLO_SCATTERV:                                                                                                \
        return CALL(scatterv, (c)->send, (c)->send_counts, (c)->send_offsets, (c)->recv, (c)->count, (c)->dtype,       \
                    (c)->root);                                                                                        \
    case KOLO_ALLTOALL:                                                                                                \
        return CALL(alltoall, (c)->send, (c)->recv, (c)->count, (c)->dtype);                                           \
    case KOLO_ALLTOALLV:                                                                                               \
        return CALL(alltoallv, (c)->send, (c)->send_counts, (c)->send_offsets, (c)->recv, (c)->recv_counts,            \
                    (c)->recv_offsets, (c)->dtype);                                                                    \
    case KOLO_SCAN:                                                                                                    \
        return CALL(scan, (c)->send, (c)->recv, (c)->count, (c)->dtype, (c)->op);                                      \
    case KOLO_EXSCAN:                                                                                                  \
        return CALL(exscan, (c)->send, (c)->recv, (c)->count, (c)->dtype, (c)->op);                                    \
    case KOLO_ALLREDUCE_MANY:                                                                                          \
        return CALL(allreduce_many, (c)->tensors, (c)->ntensors, (c)->dtype, (c)->op);                                 \
    default:                                                                                                           \
        return CALL(barrier);                                                                                          \
    }

#define NAMED_BLOCKING(name, ...)   kolo_##name(comm, ##__VA_ARGS__)
#define NAMED_BACKGROUND(name, ...) kolo_i##name(comm, ##__VA_ARGS__, request)

static inline int named_call_make(kolo_comm *comm, const kolo_call *call) {
    if (call->collective == KOLO_ALLREDUCE_APPLY)
        return kolo_allreduce_apply(comm, call->send, call->recv, call->count, call->dtype, call->op, call->function,
                                    call->context);
    NAMED_CALL(call, NAMED_BLOCKING)
}

static inline int named_call_start(kolo_comm *comm, const kolo_call *call, kolo_request **request) {
    if (call->collective == KOLO_ALLREDUCE_APPLY)
        return kolo_iallreduce_apply(comm, call->send, call->recv, call->count, call->dtype, call->op, call->function,
                                     call->context, request);
    NAMED_CALL(call, NAMED_BACKGROUND)
}
