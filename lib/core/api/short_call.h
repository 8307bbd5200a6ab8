/* The short way of a call: a small message in lines (algo/lines.h), on a communicator that is ready. All of it stays in
 * registers. The long way (collectives.c) writes the arguments into a struct kolo_arguments for the functions that may
 * need it, which takes 10 to 30 ns of the 75 to 105 that a call of 8 bytes took.
 *
 * The checks here accept only calls that arguments.c accepts. All other calls take the long way, which says what is
 * wrong. */
#ifndef KOLO_API_SHORT_CALL_H
#define KOLO_API_SHORT_CALL_H

#include "api/arguments.h"
#include "api/checks.h"
#include "comm/step/progress.h"
#include "cpu/fpenv.h"

/* Whether this rank has each buffer that it needs, and they are apart, or in place. A block's bytes times the ranks do
 * not overflow. */
static inline __attribute__((always_inline)) bool kolo_short_buffers(const struct kolo_descriptor *descriptor,
                                                                     const kolo_comm *comm, const void *send,
                                                                     const void *recv, size_t bytes, int root) {
    const uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
    const bool is_root = comm->rank == (uint32_t)root;
    const bool has_send = !descriptor->send_at_root || is_root, has_recv = !descriptor->recv_at_root || is_root;
    const size_t sent = descriptor->send == BLOCKS ? bytes * comm->size : bytes;
    const size_t taken = descriptor->recv == BLOCKS ? bytes * comm->size : bytes;
    const size_t own = comm->rank * bytes;
    const size_t own_in_send = descriptor->send == BLOCKS && descriptor->recv == WHOLE ? own : 0;
    const size_t own_in_recv = descriptor->recv == BLOCKS && descriptor->send == WHOLE ? own : 0;
    if (bytes == 0)
        return true;
    if ((has_send && !send) || (has_recv && !recv))
        return false;
    return !has_send || !has_recv || s + own_in_send == r + own_in_recv || s + sent <= r || r + taken <= s;
}

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
           kolo_short_buffers(descriptor, comm, send, recv, bytes, root);
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
    kolo_call_begin(comm, kolo_call_word(descriptor->collective, dtype, op, (uint32_t)root, count), 0);
    const uint32_t callers_fpenv = descriptor->has_op ? kolo_fpenv_enter() : 0;
    if (descriptor->has_op)
        comm->stats.calls_by_algorithm[KOLO_ALGORITHM_ONESHOT]++;
    rc = descriptor->lines(comm, send, recv, count, kernel, (uint32_t)root);
    if (descriptor->has_op)
        kolo_fpenv_leave(callers_fpenv);
    kolo_call_leave(comm);
    kolo_leave(comm);
    return rc;
}

#endif
