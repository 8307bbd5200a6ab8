/* kolo for ranks of several threads: one call made by all of them at once, each at its part of the data.
 *
 * A rank that has many processors, such as a whole NUMA node, cannot move its data with one of them. With
 * kolo_options.threads = T, or KOLO_THREADS=T, a communicator has T lanes, numbered from 0. There are two ways to use
 * them, and they may take turns:
 *   - The program does nothing more. In calls of 512 KiB or more kolo uses T-1 threads of its own, which it starts with
 *     the first such call. They run on the processors on which the thread that created the communicator was allowed to
 *     run then, catch no signals, and sleep between calls. So rank and processors are bound as for T threads (kolorun
 *     --bind, numactl), and no narrower.
 *   - The program calls with T threads of its own, e.g. in an OpenMP parallel region: each rank's T threads make the
 *     same call at once, with the same arguments, each on a lane of its own in the communicator's place
 *     (kolo_comm_lane). Together they make one call. All lanes and all ranks make the same calls in the same order.
 * Results have the same bits either way, and the same as with one thread.
 *
 * What a lane's return means. Its part of the call is done, and no more: the result is whole, and the buffers are the
 * caller's again, when all lanes of this rank have returned. So the threads meet (an OpenMP barrier, or the end of the
 * parallel region) before they use the result, or make another call with the same buffers. A call is divided among as
 * many lanes, the first ones, as get 4 KiB of the message or of each block; the others return at once. So a small call
 * is done by lane 0 alone; and so is an all-reduce with KOLO_ALGORITHM_RING or, between machines, KOLO_NET_ALGO=ring.
 * In a barrier each lane meets the same lane of the other ranks: when all lanes have returned, all lanes of all ranks
 * have called it.
 *
 * What is not to be mixed. A call with lanes and the same call without are different calls: all ranks make it in the
 * same way. While lanes are in a call, no other thread uses the communicator, and each lane is used by one thread at a
 * time. Calls in the background are complete before lanes are called. Everything else, such as kolo_alloc,
 * kolo_comm_dup or kolo_comm_destroy, is called once, not by lanes.
 *
 * KOLO_ERR_ARG on a lane also: calls in the background are in flight, or the function takes no lane. If a call fails in
 * one lane, the communicator is broken in all lanes of all ranks: the other lanes' present or next calls return the
 * same failure, or KOLO_ERR_STATE. kolo_comm_failure then tells in which lane it was found; lanes other than 0 count
 * the calls that they take part in.
 *
 * A lane takes as much memory as a communicator. By default all lanes together have no larger slots than 256 MiB. With
 * several machines each lane also has connections and a thread of its own. Communicators that are made of this one have
 * as many lanes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_LANES_H
#define KOLO_LANES_H

#include "kolo.h"

/* Lane `lane`, from 0 to kolo_comm_info.lanes - 1, as a communicator for the blocking collectives and kolo_comm_abort.
 * It belongs to `comm`, which destroys it. NULL where there is no such lane. With one lane it is `comm`. */
KOLO_API kolo_comm *kolo_comm_lane(kolo_comm *comm, int lane);

#endif
