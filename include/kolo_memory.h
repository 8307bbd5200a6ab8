/* Memory that all ranks have mapped: a buffer for each rank, or one for all. Part of kolo.h, which says what holds for
 * all calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_MEMORY_H
#define KOLO_MEMORY_H

#include "kolo_comm.h"

/* Allocates a buffer of `bytes` for each rank and maps all of them on every rank: an all-reduce whose send and recv lie
 * in such buffers on every rank (anywhere in them) copies nothing. Collective: every rank calls it with the same bytes
 * and blocks until all have come. Each gets its own buffer in *buffer: zeroed, aligned to a page, on its own NUMA node,
 * of huge pages where the system has them. It uses no file name and does not count against the limit of /dev/shm. The
 * communicator owns it: kolo_free or kolo_comm_destroy gives it back, of a broken one once all ranks have.
 *     After a call that returned 0 no other rank reads its buffers or writes to them, and none returns 0 with what it
 * has read there after one that failed. In one case a rank may write there after a call that failed: if it was stopped
 * (SIGSTOP), or got no processor for a second, within that call, it writes the rest of a piece, 32 KiB at most, when it
 * goes on. That cannot happen to memory that the other ranks do not have: pass such memory as `recv`, copy out of the
 * buffer what has to last, or end with kolo_free what kolo_share has done.
 *     KOLO_ERR_ARG: comm or buffer is NULL, bytes is 0 or too large. KOLO_ERR_NO_SPACE (the message gives need and
 * limit), KOLO_ERR_SYSTEM: on every rank, and the communicator stays usable. TIMEOUT, PEER_DEAD, MISMATCH (different
 * bytes), ABORTED, STATE: see kolo_types.h. */
KOLO_API int kolo_alloc(kolo_comm *comm, size_t bytes, void **buffer);

#define KOLO_ALLOC_SHARED 1u /* a flag: one buffer, which all ranks have */

/* As kolo_alloc, with flags: 0, or KOLO_ALLOC_SHARED. With that there is one buffer of `bytes` for all ranks of a
 * machine, in the memory of one, and what a rank writes there all ranks have. Each gets it at an address of its own.
 * Where there are several machines, each has its own. Each rank places about the slice of it that it owns where all
 * divide the buffer among themselves in order, on its NUMA node. Every rank passes the same flags: MISMATCH otherwise;
 * KOLO_ERR_ARG: an unknown flag.
 *     Parameters of N ranks that are stored so, and gradients of K bytes in each rank, take (N + 1) K, not 2 N K.
 *
 * What collectives do with it:
 *     - `send` may lie there, on one rank or on all.
 *     - `recv` of kolo_allreduce, kolo_broadcast, kolo_allgather and kolo_allgatherv, and the parameters of
 *       kolo_allreduce_apply and of optimizers, which all ranks get alike, may be the same place of it on all ranks.
 *       Where the call needs no copies (KOLO_ALGORITHM_DIRECT, for an all-gather whatever `send` is) the result is
 *       stored once, each slice by one rank. Otherwise every rank of the machine stores it: the same bytes, but more
 *       work.
 *     - Otherwise what a rank receives, and what it passes as both send and recv, must be a place for it alone. For
 *       all ranks to reduce in place there is a mistake, with wrong results. Calls that need no copies see it and
 *       return KOLO_ERR_ARG on every rank, having done nothing.
 *     - When a collective has returned on one rank, others may still be storing its result, or reading. Before a rank
 *       changes what others use there it needs a kolo_barrier, or another call that waits for all. */
KOLO_API int kolo_alloc_with(kolo_comm *comm, size_t bytes, unsigned flags, void **buffer);

/* Makes the `bytes` at `pointer`, memory that this rank has from an allocator or from mmap, a buffer like those of
 * kolo_alloc: all ranks map it, and it keeps its address and its contents. So programs whose allocator is not kolo's
 * get the calls without copies. Collective: every rank passes memory of its own, at any address, and the same bytes; it
 * blocks until all have come. `pointer` begins a page, of 4096 bytes, and `bytes` are whole pages. The memory is
 * private and anonymous, readable and writable: not of a file, a stack or a huge-page pool, nor shared already.
 *     kolo_free(comm, pointer), and kolo_comm_destroy, make it private again, with its contents, at the same address.
 * That comes before the allocator gets it back. Until then:
 *     - During both calls no other thread may write to it, and nothing else: no read(2), no device. Threads may read.
 *     - While they last, memory for a second copy is needed. Where the system does not have it for the way back, the
 *       contents stay in pages that only this process and its forked children map.
 *     - A child of fork shares these pages with its parent and does not copy them. kolo_comm_destroy in the child gives
 *       it a copy.
 *     - Huge pages that the memory had are replaced by small ones, which lie on the NUMA node of the calling thread.
 *       What mlock, mbind and madvise said about it is gone, and the kernel does not merge such pages (KSM).
 *     - Buffers that are registered with io_uring or a device go on with the old pages: register them afterwards.
 *     KOLO_ERR_ARG: bytes is 0, too large, or not whole pages; and on every rank, if the memory of one is none of those
 * above. The message says what lies there. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM (also without /proc): on every rank, and
 * the communicator stays usable. TIMEOUT, PEER_DEAD, MISMATCH (different bytes), ABORTED, STATE: see kolo_types.h.
 * After any error the memory is what it was. */
KOLO_API int kolo_share(kolo_comm *comm, void *pointer, size_t bytes);

/* Frees a buffer of kolo_alloc or kolo_alloc_with, or ends what kolo_share has done with memory. Waits for nobody: of a
 * buffer of KOLO_ALLOC_SHARED the others keep what they have until they free it. Every rank frees the same buffers in
 * the same place among its calls, in any order of allocation. NULL is fine, and so is a broken communicator.
 * KOLO_ERR_ARG: not such a buffer. KOLO_ERR_STATE: inherited through fork. */
KOLO_API int kolo_free(kolo_comm *comm, void *buffer);

#endif
