/* Messages between two ranks. Part of kolo.h, which says what holds for all calls.
 *
 * The two may be of one machine or of two. Messages are no collectives: each rank makes its own, also between any two
 * collectives. To and from other machines they go through the lowest rank of each machine: it destroys the communicator
 * when the machine's other ranks have sent and received all, as after a kolo_barrier.
 *
 * Memory beside kolo_stats.segment_bytes: 8 KiB from the first message of a rank to another one on, and 132 KiB from a
 * rank's first message of more than KOLO_SEND_SMALL_BYTES on; the same again on the other machine. A machine whose
 * ranks exchange messages with others' has one thread more, which waits, and looks all the time whether its ranks live.
 *
 * Order: messages from one rank to another with the same tag are received in the order in which they were sent, and by
 * receives in the order in which those were called. Collectives in flight in the background are carried out first, as
 * in every call; sends and receives in flight are not waited for, and go on meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_MESSAGES_H
#define KOLO_MESSAGES_H

#include "kolo_requests.h"

#define KOLO_SEND_SMALL_BYTES 480 /* of a message that kolo_send need not wait with */
#define KOLO_SEND_SMALL_MAX   15  /* of those from one rank to another that are under way */

#define KOLO_ANY_RANK (-1) /* as `from`: whichever rank's message comes first */
#define KOLO_ANY_TAG  (-1) /* as the tag of a receive: whichever comes next */

/* What has been received. */
typedef struct kolo_received {
    size_t received_bytes; /* sizeof(kolo_received); set by the caller */
    int rank;              /* who sent it */
    int tag;
    size_t count; /* its elements */
} kolo_received;

/* Sends buffer[0 .. count-1] to rank `to`, which receives it with the same tag, 0 .. INT_MAX, and dtype. The buffer may
 * be used again when the call returns.
 *     A message of at most KOLO_SEND_SMALL_BYTES waits for nobody while fewer than KOLO_SEND_SMALL_MAX others are under
 * way to that rank: sent, but neither received nor set aside by a receive with another tag. So ranks that all send up
 * to that many small messages to each other before they receive cannot block each other. A larger message
 * returns when the other rank has received it: use kolo_sendrecv where ranks exchange such. A rank may send
 * itself any message; it is copied and waits for nobody.
 *     Blocks for at most the communicator's timeout in each wait. KOLO_ERR_ARG: bad rank, tag or dtype, NULL with count
 * > 0, size overflow. KOLO_ERR_NO_SPACE: no memory is left for the first messages to that rank, or, in every call,
 * limits on address space or files left none to this rank; nothing was sent, and the communicator stays usable.
 * KOLO_ERR_MISMATCH: on both ranks, see kolo_recv. TIMEOUT, PEER_DEAD, ABORTED, STATE, SYSTEM: see kolo_types.h. */
KOLO_API int kolo_send(kolo_comm *comm, const void *buffer, size_t count, kolo_dtype dtype, int to, int tag);

/* Receives the next message from rank `from` with that tag into `buffer`, which has room for `count` elements, and
 * fills *received, which may be NULL. Messages with other tags are kept. A message of more elements, or of another
 * dtype, is KOLO_ERR_MISMATCH on both ranks; the sender, if its call has ended, learns of it in a later wait. A message
 * that was sent can be received even if its sender has ended since, unless that has broken the communicator before.
 * KOLO_ERR_ARG: as kolo_send; also, from itself, where the rank has sent itself no such message, or it does not fit.
 * The others as kolo_send. */
KOLO_API int kolo_recv(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int from, int tag,
                       kolo_received *received);

/* Sends and receives at once: neither waits for the other, so that any ranks may exchange messages of any size by it.
 * Otherwise as kolo_send and kolo_recv. The two buffers must not overlap. */
KOLO_API int kolo_sendrecv(kolo_comm *comm, const void *send, size_t send_count, int to, int send_tag, void *recv,
                           size_t recv_count, int from, int recv_tag, kolo_dtype dtype, kolo_received *received);

/* The same in the background: each returns at once with *request, as kolo_iallreduce does. All of them are in flight at
 * once, in whatever order they and their peers' calls are issued, beside collectives in the background, and complete in
 * any order: a send when its message is copied or received, a receive when it has got its message. `received` belongs
 * to kolo until then, as the buffers do.
 *     They go on in the progress thread; without it, while this rank is in any call on the communicator that waits:
 * also in blocking collectives, sends and receives, which do not wait for them; and in calls that test, or wait for
 * long, on other communicators of the process. All other calls, such as kolo_alloc, kolo_free and kolo_comm_split,
 * first wait for all requests in flight.
 *     Without the thread, a wait for one of them, or a test, first carries out the collectives that were issued before
 * it, and kolo_request_wait_any all collectives: also where it is complete already. So the other rank must be able to
 * make those before it sends or receives the message. The test waits for nothing else, but finds out, too, that a rank
 * has ended. The communicator's timeout is for such a wait; with the thread, for as long as nothing that is in flight
 * goes on.
 *     KOLO_ERR_ARG and STATE at once; the other errors are the request's. Receiving from itself what it has not sent
 * before it waits is KOLO_ERR_ARG of the request, or with the thread KOLO_ERR_TIMEOUT. */
KOLO_API int kolo_isend(kolo_comm *comm, const void *buffer, size_t count, kolo_dtype dtype, int to, int tag,
                        kolo_request **request);
KOLO_API int kolo_irecv(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int from, int tag,
                        kolo_received *received, kolo_request **request);
KOLO_API int kolo_isendrecv(kolo_comm *comm, const void *send, size_t send_count, int to, int send_tag, void *recv,
                            size_t recv_count, int from, int recv_tag, kolo_dtype dtype, kolo_received *received,
                            kolo_request **request);

#endif
