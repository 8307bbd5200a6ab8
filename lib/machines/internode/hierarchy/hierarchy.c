/* Hierarchical (two-level) collectives: what the ranks of one node do in a collective of several nodes. A ticket is a
 * piece of the call that fits into the node's slots, and takes these steps:
 *
 *   show:     each rank copies what others need of it into its slot;
 *   fold:     where the call reduces, the ranks share the work of folding what the node has shown, without rounding;
 *   order:    the leader, once all have done that, orders the exchange with the other nodes (internode/proxy.h);
 *   take:     each rank waits until the exchange is over, and takes what has come for it.
 *
 * Tickets overlap, so that the exchange of some goes on while the node works on others. In tick w a rank shows ticket
 * w, folds and orders ticket w - 1 (a ticket that is not folded is ordered in tick w), and takes ticket w - LAG. Steps
 * are numbered by ticks: 3w + 1, 3w + 2, 3w + 3. Nothing deadlocks: a rank waits only for smaller steps, or for the
 * exchange of a ticket that every node's leader orders in an earlier tick, and in no exchange do nodes wait in a
 * circle. A ticket's memory on the node, the slots of its ranks and the two of the node itself, is used again for t +
 * KOLO_SLOTS when all ranks have published the step with which they had taken t (kolo_slot_claim in show, before
 * anything is written). By then the exchange is over, as each rank that takes has seen: nothing is sent from that
 * memory, or received there, any more. */
#include "internode/hierarchy/hierarchy.h"

#include "internode/hierarchy/collectives.h"
#include "internode/proxy.h"

int kolo_hierarchy_run(kolo_comm *comm, const struct kolo_descriptor *descriptor, const struct kolo_message *message) {
    static kolo_nodes_run_fn *const ways[] = {[KOLO_WAY_REDUCE] = kolo_nodes_reduce,
                                              [KOLO_WAY_SPREAD] = kolo_nodes_spread,
                                              [KOLO_WAY_MOVE] = kolo_nodes_move,
                                              [KOLO_WAY_SCAN] = kolo_nodes_scan,
                                              [KOLO_WAY_APPLY] = kolo_nodes_apply};
    const int rc = ways[descriptor->way](comm, descriptor, message);
    if (rc < 0)
        kolo_proxy_abandon(comm);
    return rc;
}
