/* Lanes: several threads of a rank that move its data together.
 *
 * A communicator with T threads a rank has T lanes. Each is a communicator of the same ranks, with a segment of its
 * own: flags, lines, slots, between machines also connections. Lane 0 is the communicator itself; the others are made
 * by it, as kolo_comm_dup makes a second one, as soon as there is one. A call is divided into slices (slices.h), and
 * lane l does with slice l what an undivided call does with all. So lanes share nothing while they work, and all that
 * is said of a call's protocol holds for each of them.
 *
 * Who is in a lane. In a call of kolo_lanes.h the program's own threads, one for each lane. In any other call that is
 * large enough, the thread that makes it is in lane 0, and a helper (helpers.h) in each other one; a smaller call is in
 * lane 0 alone. Both kinds never at once: one thread at a time makes calls without lanes, and no lane is in a call
 * then. Ranks that mix both in one call make different calls: in lane 0, which takes part in every call, its word says
 * which kind it is.
 *
 * Invariants.
 *   - All ranks agree on the slices, which follow from counts, dtype and T alone. So the calls of lane l are the same,
 *     in the same order, on all ranks.
 *   - Float sums keep their bits, since only the ring's order of additions depends on where an element is; what goes
 *     round the ring is not divided.
 *   - There is one failure for all lanes (comm/failure/failure.h): a rank that waits in any lane finds it. So if one
 *     lane breaks, or a rank dies, all lanes break on all ranks, with the same failure.
 *   - Buffers of kolo_alloc are known in lane 0; the others look there. Nobody allocates or frees meanwhile. */
#ifndef KOLO_API_LANES_LANES_H
#define KOLO_API_LANES_LANES_H

#include "comm/comm.h"

struct kolo_helpers;

struct kolo_lanes {
    uint32_t count; /* at least 2 */
    kolo_comm *lane[KOLO_THREADS_MAX];
    size_t *tables; /* [count][4][ranks of all nodes]: see kolo_lanes_tables */
    struct kolo_helpers *helpers;
};

/* Makes the lanes of a communicator that has none yet, if it is to have several: together with its other ranks, and on
 * all or none. A kolo_layer_above.complete. */
int kolo_lanes_make(kolo_comm *comm);

/* Ends the helpers, and destroys all lanes but the communicator itself. In a forked child, frees only its copies. */
void kolo_lanes_end(kolo_comm *comm);

/* Breaks this rank's other lanes, in none of which a thread is. */
void kolo_lanes_break(kolo_comm *comm);

/* How many there are. */
static inline uint32_t kolo_lanes_count(const kolo_comm *comm) {
    return comm->lanes ? comm->lanes->count : 1;
}

/* Memory for the slices of blocks with counts of their own, for lane `lane`. */
static inline size_t *kolo_lanes_tables(const kolo_comm *first, uint32_t lane) {
    return first->lanes->tables + (size_t)lane * 4 * first->global_size;
}

/* What the lanes but 0, which counts the calls, have moved and waited, while no thread is in them. */
void kolo_lanes_read_stats(const kolo_comm *comm, kolo_stats *stats);

/* Every call of kolo_lanes.h begins with this: *own becomes lane `lane`, which kolo_enter lets this thread use. */
int kolo_lanes_enter(const char *function, kolo_comm *comm, int lane, kolo_comm **own);

#endif
