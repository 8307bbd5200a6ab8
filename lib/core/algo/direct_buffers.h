/* Direct buffers: collectives that reach into the other ranks' buffers. Each rank reads from the others' `send`, or
 * writes to their `recv`, and nothing is copied on the way. A rank reaches two kinds of buffers:
 *   - Buffers of kolo_alloc, which every rank has mapped.
 *   - Any others, by the kernel (comm/step/peer_memory.h), which copies out of the other process. The plan takes that
 *     way where one rank would have to copy what all read, or where data that crosses twice is the limit. No rank
 *     writes into another process: a rank that is late might do so after the call has failed there, and returned.
 *
 * Steps:
 *   - 1: the rank has begun the call. Its `send` is complete and its `recv` may be written. The places of both lie on
 *     the same cache line as the step: words that mean the same to every rank. Where the kernel reads, they are the
 *     address of `send`, 0 if it will be written in this call, and the address of that first word.
 *   - 2: the rank has done its part, and touches no other rank's buffers any more. It returns when all have published
 *     step 2.
 *
 * Only after step 1 of all ranks is it known whether all passed such buffers. If one did not, all ranks see that in its
 * places and go on with another algorithm after step 1. A rank that the kernel does not let read stores that in the
 * segment before its step 2. All ranks look there after step 2 of all, go on with another algorithm, and never read
 * each other's memory again. No rank can have stored that for a later call by then: it would need step 1 of all there.
 *
 * A rank whose call fails has its buffers back, and changes them. By then the failure is published.
 *   - No rank returns 0 with what it has read from those buffers afterwards. Each rank looks for a failure after its
 *     last read, and before its step 2. A rank that returns 0 has seen step 2 of all, and so has only results of reads
 *     that came in time.
 *   - No rank writes to those buffers afterwards. A rank also looks after step 1 of all, before its first access, and
 *     again between two pieces of what it writes. The rank whose call has failed waits meanwhile until every other rank
 *     has ended the call, unless one has not come to step 1 (kolo_direct_give_up). A rank that comes after that finds
 *     the failure before it writes: its step 1, or that of some other rank, is later than the fence in that wait.
 *   - The wait does not last for a rank that is stopped, and no longer than a second for a rank that does not run. Such
 *     a rank may be within a piece, and writes the rest of that piece when it goes on. Where the kernel finds that the
 *     other process has ended, the wait for its step 2 finds that, too.
 *
 * A rank's places stay until all others have read them. Before it writes them again, it waits until all have published
 * a step beyond 1 of the call that showed them before, whatever algorithm that step was of.
 *
 * A buffer with KOLO_ALLOC_SHARED is the same memory on all ranks. Where all ranks pass the same place of it as `recv`,
 * one rank stores what all receive.
 * A call claims and takes a ticket (comm/step/progress.h), though it does not use the slots. The ticket keeps a rank
 * that waits for nobody from overwriting its stamps of this call before the others have compared them. */
#pragma once

#include "algo/algo.h"

/* The ranks whose buffers an algorithm touches. */
enum kolo_owners { KOLO_OF_NONE, KOLO_OF_ROOT, KOLO_OF_ALL };

struct kolo_direct {
    enum kolo_owners send, recv;
    size_t send_bytes, recv_bytes; /* of each of them */
    bool apart;                    /* no rank may pass the same buffer as both */
    bool same_result;              /* all ranks get the same result, and may have it in the same memory */
    bool own_send;                 /* if they have, no rank reads other ranks' `send` */
    bool one_buffer;               /* a rank's `send` is its `recv` */
    bool in_block;                 /* a rank's `send` may be its block of the root's `recv` */
};

/* Step 1. On success comm->call.sources and comm->call.targets say where those ranks' `send` and `recv` are, and
 * comm->call.one_target whether all `recv` are the same memory. With message->plan.reads there are only sources, for
 * kolo_direct_copy. KOLO_DIRECT_IMPOSSIBLE: one of them is not in a buffer of kolo_alloc, or is in place where that is
 * not allowed. KOLO_ERR_ARG, on all ranks: in a buffer that all ranks have, one would write what another uses. */
int kolo_direct_begin(kolo_comm *comm, const struct kolo_message *message, const struct kolo_direct *use);

/* Returns true once the call has failed on some rank. Algorithms ask before each piece that they write elsewhere. */
static inline bool kolo_direct_has_failed(const kolo_comm *comm) {
    return __builtin_expect(kolo_load_acquire(kolo_comm_failure_word(comm)) != 0, 0); /* pairs with its publication */
}

/* Algorithms call this after their reads, before the step that says so. Returns 0, or the status of the failed call. */
int kolo_direct_check(kolo_comm *comm);

/* Waits until no rank uses this rank's buffers, as said above, in a call that has failed with `rc`. Returns `rc`. */
int kolo_direct_give_up(kolo_comm *comm, int rc);

/* Copies from the `send` of `peer`, `offset` bytes behind its beginning, unless `to` is that place. */
void kolo_direct_copy(kolo_comm *comm, uint32_t peer, size_t offset, void *to, size_t bytes);

/* Step 2. KOLO_DIRECT_IMPOSSIBLE: some rank could not read, and all that has been copied is void. */
int kolo_direct_end(kolo_comm *comm);
