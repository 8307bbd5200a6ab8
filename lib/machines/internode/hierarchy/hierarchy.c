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

#include "base/status.h"

enum { LAG = 3 };

static_assert(LAG < KOLO_SLOTS, "a ticket is taken before its slots are claimed again");

static uint64_t shown_at(size_t ticket) {
    return 3 * ticket + 1;
}

static uint64_t folded_at(size_t ticket) {
    return 3 * (ticket + 1) + 2;
}

static uint64_t taken_at(size_t ticket) {
    return 3 * (ticket + LAG) + 3;
}

static int show(kolo_comm *comm, const struct kolo_ticket_steps *steps, void *context, size_t ticket) {
    const int rc = kolo_slot_claim(comm, ticket);
    if (rc < 0)
        return rc;
    steps->show(context, ticket);
    kolo_step_publish(comm, shown_at(ticket));
    return 0;
}

static int fold(kolo_comm *comm, const struct kolo_ticket_steps *steps, void *context, size_t ticket) {
    const int rc = kolo_step_await_all(comm, shown_at(ticket));
    if (rc < 0)
        return rc;
    steps->fold(context, ticket);
    kolo_step_publish(comm, folded_at(ticket));
    return 0;
}

/* background: the proxies' threads drive the exchange. */
static int order(kolo_comm *comm, const struct kolo_ticket_steps *steps, void *context, size_t ticket,
                 bool background) {
    const int rc = kolo_step_await_all(comm, steps->fold ? folded_at(ticket) : shown_at(ticket));
    if (rc < 0)
        return rc;
    struct kolo_order order = steps->order(context, ticket);
    order.ticket = comm->call.ticket + ticket;
    kolo_proxy_order(comm, &order, background);
    return 0;
}

static int take(kolo_comm *comm, const struct kolo_ticket_steps *steps, void *context, size_t ticket) {
    int rc = kolo_proxy_await(comm, comm->call.ticket + ticket);
    if (rc == 0)
        rc = steps->take(context, ticket);
    if (rc < 0)
        return rc;
    kolo_step_publish(comm, taken_at(ticket));
    kolo_slot_retire(comm, ticket, taken_at(ticket));
    return 0;
}

int kolo_tickets_run(kolo_comm *comm, const struct kolo_ticket_steps *steps, void *context, size_t tickets,
                     bool has_work) {
    const size_t later = steps->fold ? 1 : 0; /* ticks between show and order */
    const bool leads = kolo_internode_leads(comm->internode);
    /* The leader alone could drive only one of several lanes at a time. */
    const bool background = (tickets > LAG && has_work) || (tickets > 1 && comm->internode->lanes > 1);
    int rc = 0;
    kolo_schedule_begin(comm, taken_at(tickets - 1), tickets);
    for (size_t tick = 0; rc == 0 && tick < tickets + LAG; tick++) {
        const bool has_shown = tick >= later && tick - later < tickets;
        if (tick < tickets)
            rc = show(comm, steps, context, tick);
        if (rc == 0 && has_shown && steps->fold)
            rc = fold(comm, steps, context, tick - later);
        if (rc == 0 && has_shown && leads)
            rc = order(comm, steps, context, tick - later, background);
        if (rc == 0 && tick >= LAG)
            rc = take(comm, steps, context, tick - LAG);
    }
    kolo_schedule_end(comm);
    return rc;
}

int kolo_nodes_refuse(const kolo_comm *comm, const kolo_kernel *kernel, size_t slot_bytes) {
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "rank %u: the operation's elements of %u bytes take slots of %zu bytes where the ranks are spread"
                     " over the machines like this; they have %zu: set KOLO_SLOT_BYTES",
                     comm->global_rank, kernel->element_bytes, slot_bytes, comm->segment.slot_bytes);
}

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
