/* The functions of kolo_lanes.h that move data. */
#include "kolo_lanes.h"

#include "api/lanes/lane_call.h"

int kolo_allreduce_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype,
                        kolo_op op) {
    return kolo_lane_call("kolo_allreduce_lane", KOLO_ALLREDUCE, comm, lane,
                          WITH_COUNT(send, recv, count, dtype, op, 0));
}

int kolo_broadcast_lane(kolo_comm *comm, int lane, void *buffer, size_t count, kolo_dtype dtype, int root) {
    return kolo_lane_call("kolo_broadcast_lane", KOLO_BROADCAST, comm, lane,
                          WITH_COUNT(buffer, buffer, count, dtype, KOLO_SUM, root));
}

int kolo_allgather_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype) {
    return kolo_lane_call("kolo_allgather_lane", KOLO_ALLGATHER, comm, lane,
                          WITH_COUNT(send, recv, count, dtype, KOLO_SUM, 0));
}

int kolo_allgatherv_lane(kolo_comm *comm, int lane, const void *send, void *recv, const size_t *counts,
                         const size_t *offsets, kolo_dtype dtype) {
    return kolo_lane_call("kolo_allgatherv_lane", KOLO_ALLGATHERV, comm, lane,
                          WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, NULL, NULL, counts, offsets));
}

int kolo_reduce_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype,
                     kolo_op op, int root) {
    return kolo_lane_call("kolo_reduce_lane", KOLO_REDUCE, comm, lane, WITH_COUNT(send, recv, count, dtype, op, root));
}

int kolo_reduce_scatter_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype,
                             kolo_op op) {
    return kolo_lane_call("kolo_reduce_scatter_lane", KOLO_REDUCE_SCATTER, comm, lane,
                          WITH_COUNT(send, recv, count, dtype, op, 0));
}

int kolo_reduce_scatterv_lane(kolo_comm *comm, int lane, const void *send, void *recv, const size_t *counts,
                              kolo_dtype dtype, kolo_op op) {
    return kolo_lane_call("kolo_reduce_scatterv_lane", KOLO_REDUCE_SCATTERV, comm, lane,
                          WITH_COUNTS(send, recv, 0, dtype, op, 0, counts, NULL, NULL, NULL));
}

int kolo_gather_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype,
                     int root) {
    return kolo_lane_call("kolo_gather_lane", KOLO_GATHER, comm, lane,
                          WITH_COUNT(send, recv, count, dtype, KOLO_SUM, root));
}

int kolo_gatherv_lane(kolo_comm *comm, int lane, const void *send, size_t count, void *recv, const size_t *counts,
                      const size_t *offsets, kolo_dtype dtype, int root) {
    return kolo_lane_call("kolo_gatherv_lane", KOLO_GATHERV, comm, lane,
                          WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, NULL, NULL, counts, offsets));
}

int kolo_scatter_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype,
                      int root) {
    return kolo_lane_call("kolo_scatter_lane", KOLO_SCATTER, comm, lane,
                          WITH_COUNT(send, recv, count, dtype, KOLO_SUM, root));
}

int kolo_scatterv_lane(kolo_comm *comm, int lane, const void *send, const size_t *counts, const size_t *offsets,
                       void *recv, size_t count, kolo_dtype dtype, int root) {
    return kolo_lane_call("kolo_scatterv_lane", KOLO_SCATTERV, comm, lane,
                          WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, counts, offsets, NULL, NULL));
}

int kolo_alltoall_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype) {
    return kolo_lane_call("kolo_alltoall_lane", KOLO_ALLTOALL, comm, lane,
                          WITH_COUNT(send, recv, count, dtype, KOLO_SUM, 0));
}

int kolo_alltoallv_lane(kolo_comm *comm, int lane, const void *send, const size_t *send_counts,
                        const size_t *send_offsets, void *recv, const size_t *recv_counts, const size_t *recv_offsets,
                        kolo_dtype dtype) {
    return kolo_lane_call(
        "kolo_alltoallv_lane", KOLO_ALLTOALLV, comm, lane,
        WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, send_counts, send_offsets, recv_counts, recv_offsets));
}

int kolo_scan_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype,
                   kolo_op op) {
    return kolo_lane_call("kolo_scan_lane", KOLO_SCAN, comm, lane, WITH_COUNT(send, recv, count, dtype, op, 0));
}

int kolo_exscan_lane(kolo_comm *comm, int lane, const void *send, void *recv, size_t count, kolo_dtype dtype,
                     kolo_op op) {
    return kolo_lane_call("kolo_exscan_lane", KOLO_EXSCAN, comm, lane, WITH_COUNT(send, recv, count, dtype, op, 0));
}

int kolo_allreduce_many_lane(kolo_comm *comm, int lane, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype,
                             kolo_op op) {
    return kolo_lane_call("kolo_allreduce_many_lane", KOLO_ALLREDUCE_MANY, comm, lane,
                          WITH_TENSORS(tensors, ntensors, dtype, op));
}

int kolo_barrier_lane(kolo_comm *comm, int lane) {
    return kolo_lane_call("kolo_barrier_lane", KOLO_BARRIER, comm, lane,
                          WITH_COUNT(NULL, NULL, 0, KOLO_U8, KOLO_SUM, 0));
}
