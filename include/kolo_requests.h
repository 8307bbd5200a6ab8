/* Collectives in the background, and waiting for calls in the background. Part of kolo.h, which says what holds
 * for all calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_REQUESTS_H
#define KOLO_REQUESTS_H

#include "kolo_collectives.h"

typedef struct kolo_request kolo_request; /* a call in the background */

/* Each of these is the collective of the same name without the i, and returns at once with *request, which the caller
 * gives to kolo_request_wait. Any number may be in flight. The requests of a communicator are carried out, and
 * complete, in the order in which they are issued (but see kolo_isend), and a call that is not in the background comes
 * after all that are in flight: it carries them out first. So every rank makes the same calls in the same order,
 * whether in the background or not; otherwise they fail with MISMATCH. The buffers belong to kolo until the request is
 * complete; counts, offsets and lists of tensors are copied.
 *     With kolo_options.progress a thread of the communicator carries requests out. It starts with the first one,
 * sleeps while there are none, and runs on processors that no rank of the communicator may use, if the machine has
 * any, even if the program is not bound to them; near ones if there is room. It catches no signals. Where ranks need
 * all processors, it would only take from the program's computing: there it leaves a request for up to 10 ms to a
 * caller that comes for it, unless kolo_request_test or kolo_request_wait_any has asked for it, or kolo_comm_eventfd
 * was called. Where there is such a thread, any thread may call kolo_request_test and kolo_request_wait, also while
 * another one makes a call on the communicator.
 *     Without the thread requests are carried out only in calls: in kolo_request_* of any request of the same
 * communicator, and in its other calls. Such a call waits for the other ranks to do the same. So without the thread a
 * rank that blocks on one communicator does nothing for its requests on another one, and ranks that wait there wait for
 * it. Therefore, where ranks have requests in flight on several communicators, all of them wait for those, and make
 * blocking calls, in the same order; kolo_request_wait_all and kolo_request_wait_any go by the order of issue.
 *     KOLO_ERR_ARG at once, as for the collective, also for request NULL. KOLO_ERR_STATE: the communicator is broken.
 * KOLO_ERR_SYSTEM: out of memory, or the thread could not be started; nothing was done. All other errors are the
 * request's: a failure that breaks the communicator completes all requests in flight with it, and so does
 * kolo_comm_abort (ABORTED). kolo_comm_destroy completes them with STATE, and where the progress thread has begun one,
 * the other ranks' calls fail with PEER_DEAD. In a forked child requests that were in flight fail with STATE. */
KOLO_API int kolo_iallreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                             kolo_request **request);
KOLO_API int kolo_iallreduce_many(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype,
                                  kolo_op op, kolo_request **request);
KOLO_API int kolo_ibroadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root,
                             kolo_request **request);
KOLO_API int kolo_ibarrier(kolo_comm *comm, kolo_request **request);
KOLO_API int kolo_iallgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                             kolo_request **request);
KOLO_API int kolo_iallgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts,
                              const size_t *offsets, kolo_dtype dtype, kolo_request **request);
KOLO_API int kolo_ireduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                          int root, kolo_request **request);
KOLO_API int kolo_ireduce_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                                  kolo_op op, kolo_request **request);
KOLO_API int kolo_ireduce_scatterv(kolo_comm *comm, const void *send, void *recv, const size_t *counts,
                                   kolo_dtype dtype, kolo_op op, kolo_request **request);
KOLO_API int kolo_igather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root,
                          kolo_request **request);
KOLO_API int kolo_igatherv(kolo_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                           const size_t *offsets, kolo_dtype dtype, int root, kolo_request **request);
KOLO_API int kolo_iscatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root,
                           kolo_request **request);
KOLO_API int kolo_iscatterv(kolo_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                            size_t count, kolo_dtype dtype, int root, kolo_request **request);
KOLO_API int kolo_ialltoall(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                            kolo_request **request);
KOLO_API int kolo_ialltoallv(kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                             void *recv, const size_t *recv_counts, const size_t *recv_offsets, kolo_dtype dtype,
                             kolo_request **request);
KOLO_API int kolo_iscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                        kolo_request **request);
KOLO_API int kolo_iexscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                          kolo_request **request);

/* The same with the collective as a value, as kolo_call_make. The struct, counts, offsets and lists of tensors are
 * copied. */
KOLO_API int kolo_start(kolo_comm *comm, const kolo_call *call, kolo_request **request);

/* Calls function(argument) in the order of issue: when all collectives that were issued before are complete, and before
 * a later one begins. For what has to happen to data between two collectives, such as copying. No other rank takes
 * part. It is called in the thread that carries requests out. It must not wait for what another thread does meanwhile,
 * nor for what depends on messages in flight on this communicator, which stand still; nor call kolo on this
 * communicator, except for kolo_comm_abort. A request that fails has not called it. request NULL:
 * it is called before kolo_irun returns. KOLO_ERR_ARG: comm or function is NULL. KOLO_ERR_STATE, KOLO_ERR_SYSTEM: as
 * above. */
KOLO_API int kolo_irun(kolo_comm *comm, void (*function)(void *argument), void *argument, kolo_request **request);

/* *done = 1 if the request is complete, else 0. Without a progress thread it first carries out the oldest request of
 * the communicator, for which it waits for the other ranks; so a loop that asks until *done is 1 ends. The status comes
 * from kolo_request_wait, which then returns at once. NULL is complete. Always 0, but KOLO_ERR_ARG for done NULL. */
KOLO_API int kolo_request_test(kolo_request *request, int *done);

/* Returns the call's status when it is complete, with its kolo_error_message, and frees the request. NULL: 0. */
KOLO_API int kolo_request_wait(kolo_request *request);

/* Waits for all of them, in the order of issue, and frees them: the array then has NULLs. Entries that are NULL are
 * left out. Returns 0, or the error of the first in the array that has one. KOLO_ERR_ARG: requests is NULL with count >
 * 0. */
KOLO_API int kolo_request_wait_all(kolo_request **requests, size_t count);

/* Waits until one of them is complete and returns its status, as kolo_request_wait; *index says which one, and its
 * entry becomes NULL. Entries that are NULL are left out; if all are, *index is -1. KOLO_ERR_ARG: NULL argument, or a
 * count beyond INT_MAX. */
KOLO_API int kolo_request_wait_any(kolo_request **requests, size_t count, int *index);

/* *fd = an eventfd that is readable when a request of the communicator has completed since it was last read: for event
 * loops, with a progress thread. Reading it gives the number of them, as 8 bytes, and does not block. The same one with
 * each call; it belongs to the communicator, whose kolo_comm_destroy closes it. KOLO_ERR_ARG: NULL argument.
 * KOLO_ERR_STATE: inherited through fork. KOLO_ERR_SYSTEM. */
KOLO_API int kolo_comm_eventfd(kolo_comm *comm, int *fd);

#endif
