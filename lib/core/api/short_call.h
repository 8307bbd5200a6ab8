/* The short way of a call: the path (api/path.h) of a small message in lines (algo/lines.h), on a communicator that is
 * ready. All of it stays in registers. The long way (path.c) writes the arguments into a struct kolo_arguments for the
 * functions that may need it, which takes 10 to 30 ns of the 75 to 105 that a call of 8 bytes took. A call that may not
 * take the short way takes the long one, which says what is wrong. */
#pragma once

#include "api/path.h"

/* Whether the call may take this way, on a communicator that is ready. */
static inline __attribute__((always_inline)) bool kolo_short_fits(const struct kolo_descriptor *descriptor,
                                                                  const kolo_comm *comm, const void *send,
                                                                  const void *recv, size_t count, int root,
                                                                  const kolo_kernel *kernel) {
    const size_t end = comm->lines_bytes_end[descriptor->collective];
    if (count >= end) /* so that nothing overflows */
        return false;
    const size_t bytes = count * kernel->element_bytes;
    return (descriptor->send == BLOCKS ? bytes * comm->size : bytes) < end &&
           (!descriptor->has_root || (uint32_t)root < comm->size) &&
           kolo_arguments_fit(descriptor, comm, send, recv, bytes, root);
}

static inline __attribute__((always_inline)) int kolo_short_make(const struct kolo_descriptor *descriptor,
                                                                 kolo_comm *comm, const void *send, void *recv,
                                                                 size_t count, kolo_dtype dtype, kolo_op op, int root,
                                                                 const kolo_kernel *kernel) {
    int rc = kolo_enter(descriptor->function, comm);
    if (rc < 0)
        return rc;
    comm->stats.calls_by_collective[descriptor->collective]++;
    comm->stats.payload_bytes += count * kernel->element_bytes;
    const uint32_t callers_fpenv =
        kolo_path_begin(descriptor, comm,
                        (struct kolo_call_key){.collective = (uint8_t)(descriptor->collective + 1),
                                               .dtype = (uint8_t)dtype,
                                               .op = (uint8_t)op,
                                               .root = (uint16_t)root,
                                               .count = count});
    if (descriptor->has_op)
        comm->stats.calls_by_algorithm[KOLO_ALGORITHM_ONESHOT]++;
    rc = descriptor->lines(comm, send, recv, count, kernel, (uint32_t)root);
    kolo_path_end(descriptor, comm, callers_fpenv);
    kolo_leave(comm);
    return rc;
}
