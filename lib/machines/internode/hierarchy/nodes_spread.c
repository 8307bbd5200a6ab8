/* Broadcast and all-gather of several nodes. Both move parts: a part is a piece of what one rank, its root, has for all
 * other ranks. A broadcast has one root; in an all-gather each rank is the root of its block, one after the other. The
 * root copies its part into its own slot, so that two ranks that both take themselves for the root do not write to the
 * same place before the mismatch is found. The leader of the root's node has the part sent from there, and the other
 * ranks of that node take it from there. On other nodes the ranks take the part from the ticket's result. Nothing is
 * folded.
 *
 * A broadcast has at least one part. In an all-gather each node has at least one, even if it is empty, so that every
 * node hears from every other one whether it makes the same call. */
#include "internode/hierarchy/collectives.h"

#include "internode/hierarchy/ticks.h"
#include "sync/point.h"

struct spread {
    kolo_comm *comm;
    const struct kolo_message *message;
    uint32_t first_root, roots_end; /* among the ranks of all nodes */
    bool is_gather;                 /* each root has a block of recv */
};

/* The part of one ticket. */
struct part {
    size_t ticket;
    uint32_t root; /* roots_end: there are no more */
    size_t first;  /* first byte in what the root has */
    size_t bytes;
};

/* The bytes that `root` has, and where they go in recv. */
static size_t bytes_of(const struct spread *s, uint32_t root, size_t *place) {
    const size_t element_bytes = s->message->kernel->element_bytes;
    size_t first = 0, count = s->message->count;
    if (s->is_gather)
        count = kolo_block(s->message, &s->message->recv_blocks, root, &first);
    *place = first * element_bytes;
    return count * element_bytes;
}

/* Whether `root` has a part even if it has nothing. */
static bool speaks_anyway(const struct spread *s, uint32_t root) {
    return !s->is_gather || kolo_nodes_local_rank(s->comm->nodes, root) == 0;
}

/* Goes on to the next root where this one has nothing, or nothing more. */
static void settle(const struct spread *s, struct part *part) {
    const size_t slot_bytes = s->comm->segment.slot_bytes;
    for (; part->root < s->roots_end; part->root++, part->first = 0) {
        size_t place, bytes = bytes_of(s, part->root, &place);
        if (part->first < bytes || (part->first == 0 && speaks_anyway(s, part->root))) {
            const size_t left = bytes - part->first;
            part->bytes = left < slot_bytes ? left : slot_bytes;
            return;
        }
    }
}

static struct part first_part(const struct spread *s) {
    struct part part = {.root = s->first_root};
    settle(s, &part);
    return part;
}

static void advance(const struct spread *s, struct part *part) {
    part->ticket++;
    part->first += part->bytes ? part->bytes : s->comm->segment.slot_bytes;
    settle(s, part);
}

/* The place of the part on this node: in the root's slot, or where the part arrives from the root's node. */
static uint8_t *place_of(const struct spread *s, const struct part *part) {
    const kolo_comm *comm = s->comm;
    const struct kolo_nodes *nodes = &comm->internode->nodes;
    return nodes->node_of[part->root] == comm->internode->node
               ? kolo_slot(comm, kolo_nodes_local_rank(nodes, part->root), part->ticket)
               : kolo_internode_result(comm, comm->call.ticket + part->ticket);
}

static int show(const struct spread *s, const struct part *part) {
    kolo_comm *comm = s->comm;
    int rc = kolo_slot_claim(comm, part->ticket);
    if (rc < 0)
        return rc;
    if (part->root == comm->global_rank)
        kolo_copy(place_of(s, part), s->message->send + part->first, part->bytes);
    KOLO_POINT("hierarchy.part_shown");
    kolo_step_publish(comm, kolo_shown_at(part->ticket));
    return 0;
}

/* All ranks of the node have claimed the part's ticket by then, so that none still reads what its slots held before. */
static int order(const struct spread *s, const struct part *part) {
    kolo_comm *comm = s->comm;
    int rc = kolo_step_await_all(comm, kolo_shown_at(part->ticket));
    if (rc < 0)
        return rc;
    struct kolo_order order = {
        .ticket = comm->call.ticket + part->ticket,
        .collective = KOLO_BROADCAST,
        .count = part->bytes,
        .result = place_of(s, part),
        .root = comm->internode->nodes.node_of[part->root],
    };
    kolo_proxy_order(comm, &order, kolo_ticks_in_background(comm, comm->call.tickets, true));
    return 0;
}

static int take(const struct spread *s, const struct part *part) {
    kolo_comm *comm = s->comm;
    int rc = kolo_proxy_await(comm, comm->call.ticket + part->ticket);
    if (rc < 0)
        return rc;
    size_t place;
    bytes_of(s, part->root, &place);
    if (part->root != comm->global_rank) {
        kolo_copy(s->message->recv + place + part->first, place_of(s, part), part->bytes);
        comm->stats.received_bytes += part->bytes;
    } else {
        comm->stats.sent_bytes += part->bytes;
    }
    KOLO_POINT("hierarchy.part_taken");
    kolo_ticket_end(comm, part->ticket);
    return 0;
}

static size_t count_parts(const struct spread *s) {
    struct part part = first_part(s);
    size_t parts = 0;
    for (; part.root < s->roots_end; parts++)
        advance(s, &part);
    return parts;
}

int kolo_nodes_spread(kolo_comm *comm, const struct kolo_descriptor *descriptor, const struct kolo_message *message) {
    struct spread s = {.comm = comm, .message = message, .is_gather = !descriptor->has_root};
    s.first_root = s.is_gather ? 0 : message->root;
    s.roots_end = s.is_gather ? comm->global_size : message->root + 1;
    size_t place;
    const size_t own_bytes = bytes_of(&s, comm->global_rank, &place);
    if (s.is_gather && message->recv + place != message->send)
        kolo_copy(message->recv + place, message->send, own_bytes);
    const size_t parts = count_parts(&s);
    struct part shown = first_part(&s), taken = shown;
    int rc = 0;
    kolo_ticks_begin(comm, parts);
    for (size_t tick = 0; rc == 0 && tick < parts + KOLO_TICKS_LAG; tick++) {
        if (tick < parts) {
            rc = show(&s, &shown);
            if (rc == 0 && kolo_internode_leads(comm->internode))
                rc = order(&s, &shown);
            advance(&s, &shown);
        }
        if (rc == 0 && tick >= KOLO_TICKS_LAG) {
            rc = take(&s, &taken);
            advance(&s, &taken);
        }
    }
    kolo_schedule_end(comm);
    return rc;
}
