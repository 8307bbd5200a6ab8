/* Collectives that block, and operations of the program's own. Part of kolo.h, which says what holds for all calls.
 * kolo_requests.h has the same collectives in the background.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_COLLECTIVES_H
#define KOLO_COLLECTIVES_H

#include "kolo_comm.h"

/* recv[i] = op over all ranks of send[i], for i in 0 .. count-1, the same bits on every rank. Both have room for
 * `count` elements of any alignment. In place if send == recv; otherwise the two must not overlap. The result depends
 * only on the inputs, the number of ranks, dtype and op: inputs are combined as a balanced binary tree over the ranks,
 * split at the largest power of two below their number. With one rank the input is copied. Sums, products and averages
 * of floats have two exceptions; KOLO_SUM_EXACT has none, and does not depend on the order of the ranks either.
 *     - KOLO_ALGORITHM_RING combines in the order of the ring.
 *     - On several machines each machine's ranks are combined first, then the machines (with KOLO_NET_ALGO=ring in the
 *       order of that ring), so that the bits also depend on which ranks share a machine. KOLO_NET_ORDER=rank gives the
 *       bits of one machine, however the ranks are spread, for more bytes between the machines. KOLO_NET=wire:bf16
 *       rounds every f32 on its way to another machine.
 *     KOLO_ALGORITHM_RING is for this collective alone, KOLO_NET_ALGO and KOLO_NET=wire:bf16 are for it and
 * kolo_allreduce_many: the others that reduce give its bits without them.
 *     KOLO_ERR_ARG: bad dtype or op, an op that the dtype lacks, NULL with count > 0, overlap, size overflow.
 * KOLO_ERR_NO_SPACE: a rank's first call of more than a few hundred bytes finds no shared memory, which was plentiful
 * at the creation. KOLO_ERR_TIMEOUT, PEER_DEAD, MISMATCH, ABORTED, STATE, SYSTEM: see kolo_types.h. */
KOLO_API int kolo_allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op);

/* Copies buffer[0 .. count-1] of rank `root` to every other rank's buffer. The root may return before the others have
 * copied; now and then it waits for them, as to reuse memory. Therefore, if ranks name different roots, or differ in
 * another way, some broadcasts may return 0 before every rank gets KOLO_ERR_MISMATCH: on one machine up to sixty, on m
 * machines up to 64 m. The error names the first call that differed; a later one only where a machine that has seen the
 * first does not answer for 200 ms. A kolo_barrier after the last broadcast makes sure that all ranks hear of it;
 * kolo_comm_destroy does not. Errors as kolo_allreduce; KOLO_ERR_ARG also for a root outside 0 .. size-1. */
KOLO_API int kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root);

/* recv[r * count + i] = send[i] of rank r, for each rank r and i in 0 .. count-1, on every rank: recv has room for
 * size * count elements. In place: send is this rank's block of recv, recv + rank * count; otherwise the two must not
 * overlap. Any alignment. Blocks until this rank has all blocks. Errors as kolo_allreduce. */
KOLO_API int kolo_allgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype);

/* The same with blocks of any length: rank r contributes counts[r] elements, which every rank gets at recv +
 * offsets[r]. counts and offsets have `size` entries, in elements; offsets NULL: one block behind the other. All ranks
 * pass the same counts, and offsets of their own. In place: send is recv + offsets[rank]. Errors as kolo_allreduce;
 * MISMATCH also where counts differ. */
KOLO_API int kolo_allgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                             kolo_dtype dtype);

/* As kolo_allreduce, with the same bits, but only rank `root` gets the result; elsewhere recv is not used and may be
 * NULL. In place on the root: send == recv. A rank that is not the root returns when its part is done, which may be
 * before the root has the result, as the root of kolo_broadcast may. */
KOLO_API int kolo_reduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                         int root);

/* recv[i] = op over all ranks of their send[rank * count + i], for i in 0 .. count-1: send has a block of `count`
 * elements for each rank, recv one block. The bits are those of kolo_allreduce. In place: recv is this rank's block of
 * send, send + rank * count. Errors as kolo_allreduce. */
KOLO_API int kolo_reduce_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                                 kolo_op op);

/* The same with blocks of any length, one behind the other: that of rank r has counts[r] elements. All ranks pass the
 * same counts. */
KOLO_API int kolo_reduce_scatterv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, kolo_dtype dtype,
                                  kolo_op op);

/* On rank `root`, recv[r * count + i] = send[i] of rank r; elsewhere recv is not used and may be NULL. In place on the
 * root: send is its block of recv. A rank that is not the root may return before the root has its data, as the
 * root of kolo_broadcast may. Errors as kolo_allreduce. */
KOLO_API int kolo_gather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root);

/* The same with blocks of any length: each rank says how many elements it sends. On the root counts[r] must be the
 * count of rank r, whose block goes to recv + offsets[r], in elements; offsets NULL: one block behind the other.
 * Elsewhere recv, counts and offsets are not used. MISMATCH also where the root expects another count than a rank
 * sends. */
KOLO_API int kolo_gatherv(kolo_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                          const size_t *offsets, kolo_dtype dtype, int root);

/* recv[i] = send[rank * count + i] of rank `root`, whose send has a block of `count` elements for each rank; elsewhere
 * send is not used and may be NULL. In place on the root: recv is its block of send. The root may return first, as that
 * of kolo_broadcast. Errors as kolo_allreduce. */
KOLO_API int kolo_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root);

/* The same with blocks of any length: the root sends counts[r] elements from send + offsets[r] on to rank r, which must
 * be the count that rank r passes. offsets NULL: one block behind the other. Elsewhere send, counts and offsets are not
 * used. MISMATCH also where a rank expects another count than the root sends. */
KOLO_API int kolo_scatterv(kolo_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                           size_t count, kolo_dtype dtype, int root);

/* recv[r * count + i] = send[rank * count + i] of rank r: each rank sends a block of `count` elements to each rank, and
 * gets one from each. In place if send == recv. Errors as kolo_allreduce. */
KOLO_API int kolo_alltoall(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype);

/* The same with blocks of any length: send_counts[r] elements from send + send_offsets[r] on go to rank r, and
 * recv_counts[r] come from it to recv + recv_offsets[r]; offsets NULL: one block behind the other. MISMATCH also where
 * rank r sends another count than this rank expects of it. The two buffers must not overlap, nor blocks of recv. */
KOLO_API int kolo_alltoallv(kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                            void *recv, const size_t *recv_counts, const size_t *recv_offsets, kolo_dtype dtype);

/* recv[i] = op over ranks 0 .. rank of send[i], with the bits that kolo_allreduce of those ranks has; AVG divides by
 * their number. In place if send == recv. A rank may return before later ones have come, as the root of kolo_broadcast
 * may. Errors as kolo_allreduce. */
KOLO_API int kolo_scan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op);

/* The same without this rank's own input: over ranks 0 .. rank-1. On rank 0 recv keeps what it has. */
KOLO_API int kolo_exscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op);

/* Returns when every rank has called it. Errors as kolo_allreduce. */
KOLO_API int kolo_barrier(kolo_comm *comm);

/* Any collective as a value. */

/* Of kolo_allreduce_apply (kolo_optimizer.h): updates a part of the parameters that this rank owns: gradients[i] and
 * parameters[i], i in 0 .. count-1, are of elements first + i of the message. gradients: reduced over all ranks; they
 * may be overwritten with anything the next moment. It must not call kolo. It runs in the thread that carries the call
 * out, part by part, in the order of `first`; with kolo_options.threads several threads call it at once, for different
 * parts. */
typedef void (*kolo_apply_function)(void *context, size_t first, size_t count, const void *gradients, void *parameters);

/* What the function of a collective takes. Fields that the collective does not have are not read. */
typedef struct kolo_call {
    size_t call_bytes;          /* sizeof(kolo_call); set by the caller */
    kolo_collective collective; /* KOLO_BARRIER .. KOLO_ALLREDUCE_MANY */
    kolo_dtype dtype;
    kolo_op op;
    int root;
    const void *send; /* of KOLO_ALLREDUCE_APPLY: gradients */
    void *recv;       /* of KOLO_BROADCAST: the buffer; of KOLO_ALLREDUCE_APPLY: parameters */
    size_t count;     /* of KOLO_GATHERV: what this rank sends; of KOLO_SCATTERV: what it gets */
    const size_t *send_counts, *send_offsets; /* where blocks that are sent have counts of their own */
    const size_t *recv_counts, *recv_offsets; /* where blocks that are received have */
    const kolo_tensor *tensors;               /* of KOLO_ALLREDUCE_MANY, in place of send, recv and count */
    size_t ntensors;
    kolo_apply_function function; /* of KOLO_ALLREDUCE_APPLY */
    void *context;
} kolo_call;

/* Makes the call, as the function of its name does: for programs that choose the collective at run time, and for
 * bindings. Messages name that function. Errors as that function; KOLO_ERR_ARG also for call NULL, call_bytes not set,
 * or no such collective. kolo_start (kolo_requests.h) is the same in the background. */
KOLO_API int kolo_call_make(kolo_comm *comm, const kolo_call *call);

/* Operations of the program's own. */

#define KOLO_OPS_OWN_MAX          64   /* of a process, at a time */
#define KOLO_OP_ELEMENT_BYTES_MAX 2048 /* of one element */
#define KOLO_OP_COMMUTATIVE       1u   /* a flag: a op b is b op a */

/* inout[i] = in[i] op inout[i] for i in 0 .. count-1, as of MPI: in[i] is what lower ranks have, inout[i] what higher
 * ranks have. */
typedef void (*kolo_op_function)(const void *in, void *inout, size_t count, void *context);

/* Makes an operation, *op, for every collective that takes one, in any communicator of this process. Its elements are
 * of element_bytes bytes, 1 .. KOLO_OP_ELEMENT_BYTES_MAX, such as structs; the dtype of the calls is KOLO_OPAQUE or one
 * of that size. It must be associative: (a op b) op c is a op (b op c). Inputs are combined in the order of the ranks,
 * each once, by the tree of kolo_allreduce, also between machines. With KOLO_OP_COMMUTATIVE there are the exceptions
 * that float sums have: KOLO_ALGORITHM_RING and, between machines, their order. Without it MESH takes the place of
 * RING. The function is called for any part of a message, in any thread of the process, several times at once. It must
 * not call kolo. `in` and `inout` are aligned for the elements, to at most 16 bytes, if the buffers of all ranks are.
 *     Every rank makes the operation for itself. Calls with operations of different element_bytes or flags are a
 * MISMATCH; whether their functions are the same cannot be seen. Where ranks are spread over machines such that a call
 * needs larger slots (kolo_options.slot_bytes), it returns KOLO_ERR_UNSUPPORTED on all of them; never with elements of
 * up to 8 bytes.
 *     KOLO_ERR_ARG: op or function is NULL, element_bytes or flags are wrong. KOLO_ERR_UNSUPPORTED: this process has
 * KOLO_OPS_OWN_MAX, or has made so many (2^24 at least) that no value of a kolo_op is left. */
KOLO_API int kolo_op_create(kolo_op *op, kolo_op_function function, void *context, size_t element_bytes,
                            unsigned flags);

/* Ends an operation, which no call may be using, in the background either. Later calls with it return KOLO_ERR_ARG, as
 * this does if it does not exist. */
KOLO_API int kolo_op_destroy(kolo_op op);

/* An all-reduce in place of `ntensors` tensors, as one message: for each tensor t, tensors[t].data[i] = op over all
 * ranks of tensors[t].data[i], for i in 0 .. tensors[t].count-1. The bits are those of one kolo_allreduce of all
 * elements, each tensor behind the one before, but KOLO_ALGORITHM_MESH takes the place of KOLO_ALGORITHM_RING. Tensors
 * must not overlap; they need not be in order, and may have no elements. All ranks pass the same counts in the same
 * order, at addresses of their own: MISMATCH where they divide the same number of elements differently, too. Blocks
 * until this rank's tensors hold the result. Without tensors, or elements, it still synchronises. What is more than
 * 16 KiB is copied once into shared memory and once out of it, and nowhere else.
 *     KOLO_ERR_ARG: as kolo_allreduce, also tensors NULL with ntensors > 0. All other errors as kolo_allreduce. */
KOLO_API int kolo_allreduce_many(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype,
                                 kolo_op op);

#endif
