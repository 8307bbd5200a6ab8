/* Collectives in buffers that kolo_alloc made, which every rank has mapped: each rank reads from the others' `send`, or
 * writes to their `recv`, and nothing is copied on the way.
 *
 * Steps:
 *   - 1: the rank has begun the call. Its `send` is complete and its `recv` may be written. The places of both lie on
 *     the same cache line as the step.
 *   - 2: the rank has done its part, and touches nobody's buffers any more.
 * A rank returns when all have published step 2.
 *
 * Only after step 1 of all ranks is it known whether all passed such buffers. If one did not, all ranks see that in its
 * places and go on with another algorithm after step 1.
 *
 * A rank's places stay until all others have read them: before it writes them again, it waits until all have published
 * a step beyond 1 of the call that showed them before, whatever algorithm that step was of.
 *
 * Of a buffer with KOLO_ALLOC_SHARED all ranks have the same memory. Where all pass the same place of it as `recv`, one
 * rank stores what all receive.
 *
 * A call claims and takes a ticket (comm/step/progress.h), though it does not use the slots. The ticket keeps a rank
 * that waits for nobody from overwriting its stamps of this call before the others have compared them. */
#ifndef KOLO_ALGO_DIRECT_BUFFERS_H
#define KOLO_ALGO_DIRECT_BUFFERS_H

#include "algo/algo.h"

/* Whose buffers an algorithm touches. */
enum kolo_owners { KOLO_OF_NONE, KOLO_OF_ROOT, KOLO_OF_ALL };

struct kolo_direct {
    enum kolo_owners send, recv;
    size_t send_bytes, recv_bytes; /* of each of them */
    bool apart;                    /* no rank may pass the same buffer as both */
    bool same_result;              /* all ranks get the same, and may have it in the same memory */
    bool own_send;                 /* if they do, nobody reads other ranks' `send` */
};

/* Step 1. On success comm->call.sources and comm->call.targets say where those ranks' `send` and `recv` are; and
 * comm->call.one_target whether all `recv` are the same memory. KOLO_DIRECT_IMPOSSIBLE: one of them is not in a buffer
 * of kolo_alloc. KOLO_ERR_ARG, on all ranks: in a buffer that all ranks have, one would write what another one reads or
 * writes. */
int kolo_direct_begin(kolo_comm *comm, const struct kolo_message *message, const struct kolo_direct *use);

/* Step 2. */
int kolo_direct_end(kolo_comm *comm);

#endif
