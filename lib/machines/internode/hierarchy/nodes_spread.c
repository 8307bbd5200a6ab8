/* Broadcast and all-gather of several nodes. Both move parts: a part is a piece of what one rank, its root, has for all
 * other ranks. A broadcast has one root; in an all-gather each rank is the root of its block, one after the other. The
 * root copies its part into its own slot, so that two ranks that both take themselves for the root do not write to the
 * same place before the mismatch is found. The leader of the root's node has the part sent from there, and the other
 * ranks of that node take it from there. On other nodes the ranks take the part from the ticket's result. Nothing is
 * folded.
 *
 * A broadcast has at least one part. In an all-gather each node has at least one, even if it is empty, so that every
 * node hears from every other one whether it makes the same call. */
#include "internode/hierarchy/hierarchy.h"

#include "sync/point.h"

/* The part of one ticket. */
struct part {
    size_t ticket;
    uint32_t root; /* roots_end: there are no more */
    size_t first;  /* first byte in what the root has */
    size_t bytes;
};

struct spread {
    kolo_comm *comm;
    const struct kolo_message *message;
    uint32_t first_root, roots_end; /* among the ranks of all nodes */
    bool is_gather;                 /* each root has a block of recv */
    struct part shown, taken;       /* last */
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

/* Goes on to the next root where this one has nothing, or nothing more. */
static void settle(const struct spread *s, struct part *part) {
    const size_t slot_bytes = s->comm->segment.slot_bytes;
    for (; part->root < s->roots_end; part->root++, part->first = 0) {
        size_t place, bytes = bytes_of(s, part->root, &place);
        const bool speaks_anyway = !s->is_gather || kolo_nodes_local_rank(s->comm->nodes, part->root) == 0;
        if (part->first < bytes || (part->first == 0 && speaks_anyway)) {
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

/* Moves a part on to that ticket. */
static const struct part *part_at(const struct spread *s, struct part *part, size_t ticket) {
    while (part->ticket < ticket)
        advance(s, part);
    return part;
}

/* The place of the part on this node: in the root's slot, or where the part arrives from the root's node. */
static uint8_t *place_of(const struct spread *s, const struct part *part) {
    const kolo_comm *comm = s->comm;
    const struct kolo_nodes *nodes = &comm->internode->nodes;
    return nodes->node_of[part->root] == comm->internode->node
               ? kolo_slot(comm, kolo_nodes_local_rank(nodes, part->root), part->ticket)
               : kolo_internode_result(comm, comm->call.ticket + part->ticket);
}

static void show(void *context, size_t ticket) {
    struct spread *s = context;
    const struct part *part = part_at(s, &s->shown, ticket);
    if (part->root == s->comm->global_rank)
        kolo_copy(place_of(s, part), s->message->send + part->first, part->bytes);
    KOLO_POINT("hierarchy.part_shown");
}

static struct kolo_order order(void *context, size_t ticket) {
    struct spread *s = context;
    const struct part *part = part_at(s, &s->shown, ticket);
    return (struct kolo_order){.collective = KOLO_BROADCAST,
                               .count = part->bytes,
                               .result = place_of(s, part),
                               .root = s->comm->internode->nodes.node_of[part->root]};
}

static int take(void *context, size_t ticket) {
    struct spread *s = context;
    kolo_comm *comm = s->comm;
    const struct part *part = part_at(s, &s->taken, ticket);
    size_t place;
    bytes_of(s, part->root, &place);
    if (part->root != comm->global_rank) {
        kolo_copy(s->message->recv + place + part->first, place_of(s, part), part->bytes);
        comm->stats.received_bytes += part->bytes;
    } else {
        comm->stats.sent_bytes += part->bytes;
    }
    KOLO_POINT("hierarchy.part_taken");
    return 0;
}

static const struct kolo_ticket_steps steps = {.show = show, .order = order, .take = take};

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
    s.shown = s.taken = first_part(&s);
    return kolo_tickets_run(comm, &steps, &s, count_parts(&s), true);
}
