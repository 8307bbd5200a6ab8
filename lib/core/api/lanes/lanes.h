/* Lanes: several threads of a rank that move its data together.
 *
 * A communicator with T threads per rank has T lanes. Each lane is a communicator of the same ranks, with a segment of
 * its own: flags, lines, slots, between machines also connections. Lane 0 is the communicator itself; it makes the
 * others, as kolo_comm_dup makes a second communicator, as soon as it exists. A call is divided into slices (slices.h),
 * and lane l does with slice l what an undivided call does with the whole. So lanes share nothing while they work, and
 * the protocol of a call, with its argument, holds for each of them.
 *
 * The threads in a lane. In a call on lanes that kolo_comm_lane has handed out these are the program's own threads, one
 * for each lane. In any other call that is large enough, the thread that makes it is in lane 0, and a helper
 * (helpers.h) in each other lane; a smaller call is in lane 0 alone. The two kinds of call never happen at once: one
 * thread at a time makes calls without lanes, and no lane is in a call then. Ranks that mix both kinds in one call make
 * different calls: the call's key in lane 0, which takes part in every call, says which kind it is.
 *
 * Invariants.
 *   - All ranks agree on the slices, which follow from counts, dtype and T alone. So the calls of lane l are the same,
 *     in the same order, on all ranks.
 *   - Float sums keep their bits, since only the ring's order of additions depends on where an element is; messages of
 *     the ring are not divided.
 *   - There is one failure for all lanes (comm/failure/failure.h): a rank that waits in any lane finds it. So if one
 *     lane breaks, or a rank dies, all lanes break on all ranks, with the same failure.
 *   - Buffers of kolo_alloc are known in lane 0, where the other lanes look. No thread allocates or frees meanwhile. */
#pragma once

#include "comm/comm.h"

struct kolo_helpers;

struct kolo_lanes {
    uint32_t count; /* at least 2 */
    kolo_comm *lane[KOLO_THREADS_MAX];
    kolo_comm *handed_out; /* stands for lane 0 where kolo_comm_lane hands that out: a copy of what queries read */
    size_t *tables;        /* [count][4][ranks of all nodes]: see kolo_lanes_tables */
    struct kolo_helpers *helpers;
};

/* Makes the lanes of a communicator, if it is to have several, on all ranks or none. A kolo_layer_above.complete. */
int kolo_lanes_make(kolo_comm *comm);

/* Makes ready what kolo_comm_lane hands out, once there are all lanes. */
void kolo_lanes_hand_out(kolo_comm *comm);

/* Ends the helpers, and destroys all lanes but the communicator itself. In a forked child, frees only its copies. */
void kolo_lanes_end(kolo_comm *comm);

/* Breaks this rank's other lanes. No thread is in them. */
void kolo_lanes_break(kolo_comm *comm);

/* The number of lanes. */
static inline uint32_t kolo_lanes_count(const kolo_comm *comm) {
    return comm->lanes ? comm->lanes->count : 1;
}

/* Memory for the slices of blocks with counts of their own, for lane `lane`. */
static inline size_t *kolo_lanes_tables(const kolo_comm *first, uint32_t lane) {
    return first->lanes->tables + (size_t)lane * 4 * first->global_size;
}

/* The counters of the lanes but 0, which counts the calls, while no thread is in them. */
void kolo_lanes_read_stats(const kolo_comm *comm, kolo_stats *stats);

/* Begins every call on a lane that kolo_comm_lane has handed out: *own becomes that lane, for this thread. */
int kolo_lanes_enter(const char *function, const kolo_comm *handed_out, kolo_comm **own);
