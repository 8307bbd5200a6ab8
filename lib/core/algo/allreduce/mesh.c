/* Mesh: a two-shot all-reduce: a direct reduce-scatter, then a direct all-gather, chunk by chunk (algo/phases.h).
 *
 * A chunk is cut into one slice a rank. Each rank copies its input, except its own slice, into its slot (scatter). The
 * owner of a slice folds it, piece by piece, from its own `send` and all peers' slots, and puts the result into its
 * `recv` and, for each peer, in the place where it has read that peer's input (reduce). Then each rank copies the
 * results out of its slot (gather).
 *
 * So a slice of a slot is a box between two ranks: the rank that has read a line is the next to write it. A modified
 * line moves to its reader along with the right to change it, or is shared from then on; a writer that comes back to it
 * has to fetch it again, store by store. Measured with two ranks on a Zen 4, 64 KiB to 1 MiB, against results that the
 * owner leaves in its own slot for all to read: 0.3 to 1 of the time with a common L3, 0.15 to 0.2 without.
 *
 * The chunks overlap. A rank runs
 *     scatter(0)   scatter(1) reduce(0)   scatter(2) reduce(1) gather(0)   scatter(3) reduce(2) gather(1)   ...
 * so that the data it waits for has been under way while it did something else. Steps, n chunks:
 *     scatter(0) = 1, scatter(c) = 2c, reduce(c) = 2c + 3; reduce(n-1) = 2n + 1 is the last.
 * gather(c) is not published. It comes before scatter(c + 3), which is thus the step with which a rank is done with
 * chunk c. Only the first use of each slot is claimed: a rank that fills it again has seen reduce(c) of all ranks in
 * its own gather(c), after which no other rank touches its slot.
 *
 * In place works: chunk c of `recv` is written by reduce(c), for the own slice in the pass that reads it, and by
 * gather(c), for slices whose input scatter(c) has copied. */
#include "algo/phases.h"

int kolo_mesh_run(kolo_comm *comm, const struct kolo_message *message) {
    return kolo_phases_run(comm, message, KOLO_SLOTS, kolo_phase_reduce, kolo_phase_gather);
}
