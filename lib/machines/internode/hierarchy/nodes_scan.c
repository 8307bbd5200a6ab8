/* Scan of several nodes, inclusive and exclusive. Each ticket is a chunk of the message, which each rank shows whole.
 * The ranks of a node share the folding of the terms that other nodes need, each rank its slice of all terms. The nodes
 * exchange the terms, and each rank folds its result. The result is made of the terms of earlier ranks, and of the
 * inputs of those ranks whose term the rank does not take, itself included. Where the ranks of each node are
 * consecutive, a node so receives one partial result of each earlier node, and no more.
 *
 * The order is that of an all-reduce of the ranks up to this one: node by node, or by ranks (internode/partials.h).
 * Calls in place work: a rank reads its own input from its slot, too. */
#include "internode/hierarchy/hierarchy.h"
#include "internode/hierarchy/ticket_layout.h"
#include "sync/point.h"

enum {
    PIECE_BYTES = 2048, /* that are folded at a time; the pieces under way are in comm->call.stage */
    STACK_MAX = 12      /* partial results that wait to be joined: one of each power of two, and what comes next */
};

static_assert(STACK_MAX * PIECE_BYTES <= KOLO_STREAMED_PIECE_BYTES && 1 << (STACK_MAX - 2) == KOLO_RANKS_MAX,
              "the stack is high enough, and fits");

struct scan {
    kolo_comm *comm;
    const struct kolo_message *message;
    struct kolo_scan_layout layout;
    uint32_t inputs; /* number of inputs of this rank's result: those of the first ranks */
};

/* The partial results of which some elements of the result are made so far. */
struct stack {
    const void *parts[STACK_MAX]; /* partial results */
    uint32_t weights[STACK_MAX];
    uint32_t height;
};

static size_t chunk_at(const struct scan *s, size_t ticket, size_t *first) {
    *first = ticket * s->layout.stride;
    const size_t left = s->message->count - *first;
    return left < s->layout.stride ? left : s->layout.stride;
}

static void show(void *context, size_t ticket) {
    const struct scan *s = context;
    kolo_comm *comm = s->comm;
    const size_t element_bytes = s->layout.kernel->element_bytes;
    size_t first, count = chunk_at(s, ticket, &first);
    kolo_copy(kolo_slot(comm, comm->rank, ticket), s->message->send + first * element_bytes, count * element_bytes);
    comm->stats.sent_bytes += count * element_bytes;
    KOLO_POINT("hierarchy.scan_shown");
}

/* Sets comm->call.sources to the inputs of local ranks from `first` on, from element `at` of the chunk on. */
static void set_sources(const struct scan *s, size_t ticket, uint32_t first, uint32_t ranks, size_t at) {
    kolo_comm *comm = s->comm;
    for (uint32_t i = 0; i < ranks; i++)
        comm->call.sources[i] = kolo_slot(comm, first + i, ticket) + at * s->layout.kernel->element_bytes;
}

/* Folds this rank's slice of each term that others need. */
static void fold(void *context, size_t ticket) {
    const struct scan *s = context;
    kolo_comm *comm = s->comm;
    const kolo_kernel *kernel = s->layout.kernel;
    const struct kolo_internode *internode = comm->internode;
    size_t first, own, count = chunk_at(s, ticket, &first);
    const size_t own_count = kolo_plan_slice(count, kernel->element_bytes, comm->size, comm->rank, &own);
    for (uint32_t local = 0; own_count && local < comm->size; local++) {
        const uint32_t term = kolo_nodes_rank(&internode->nodes, internode->node, local);
        const uint32_t begin = s->layout.prefixes->each[term].first;
        if (!kolo_prefix_is_used(s->layout.prefixes, term) || kolo_scan_is_input(comm, &s->layout, term))
            continue;
        set_sources(s, ticket, begin, local - begin + 1, own);
        kernel->fold_partial(kolo_scan_term(comm, &s->layout, comm->call.ticket + ticket, local) +
                                 own * kernel->acc_bytes,
                             comm->call.sources, local - begin + 1, own_count);
        comm->stats.received_bytes += own_count * kernel->element_bytes * (local - begin + 1);
    }
    KOLO_POINT("hierarchy.scan_folded");
}

static struct kolo_order order(void *context, size_t ticket) {
    const struct scan *s = context;
    size_t first;
    return (struct kolo_order){
        .collective = KOLO_SCAN, .kernel = s->layout.kernel, .count = chunk_at(s, ticket, &first), .scan = s->layout};
}

/* The place for the next part. */
static uint8_t *room(const struct scan *s, const struct stack *stack) {
    return s->comm->call.stage + stack->height * (size_t)PIECE_BYTES;
}

static void join(const struct scan *s, struct stack *stack, size_t count) {
    stack->height--;
    uint8_t *joined = s->comm->call.stage + (stack->height - 1) * (size_t)PIECE_BYTES;
    s->layout.kernel->fold_partials(joined, &stack->parts[stack->height - 1], 2, count);
    stack->parts[stack->height - 1] = joined;
    stack->weights[stack->height - 1] += stack->weights[stack->height];
}

/* Adds a partial result. Two of the same weight are the halves of a subtree, and become one. */
static void push(const struct scan *s, struct stack *stack, const void *part, uint32_t weight, size_t count) {
    stack->parts[stack->height] = part;
    stack->weights[stack->height++] = weight;
    while (stack->height > 1 && stack->weights[stack->height - 2] == stack->weights[stack->height - 1])
        join(s, stack, count);
}

/* The place where this rank finds the term of `rank`. */
static const uint8_t *find_term(const struct scan *s, size_t ticket, uint32_t rank) {
    const kolo_comm *comm = s->comm;
    const struct kolo_internode *internode = comm->internode;
    const uint64_t over_all = comm->call.ticket + ticket;
    return internode->nodes.node_of[rank] == internode->node
               ? kolo_scan_term(comm, &s->layout, over_all, kolo_nodes_local_rank(&internode->nodes, rank))
               : kolo_scan_place(comm, &s->layout, over_all, s->layout.prefixes->each[rank].place);
}

static void push_term(const struct scan *s, struct stack *stack, size_t ticket, uint32_t rank, size_t at,
                      size_t count) {
    const struct kolo_prefixes *prefixes = s->layout.prefixes;
    const uint32_t ranks = kolo_nodes_local_rank(&s->comm->internode->nodes, rank) - prefixes->each[rank].first + 1;
    const void *part = find_term(s, ticket, rank) + at * kolo_scan_term_bytes(s->comm, &s->layout, rank);
    if (ranks == 1) {
        s->layout.kernel->fold_partial(room(s, stack), &part, 1, count);
        part = room(s, stack);
    }
    push(s, stack, part, prefixes->by_rank ? ranks : 1, count);
}

/* Pushes the inputs of this node's ranks that no term has. */
static void push_own(const struct scan *s, struct stack *stack, size_t ticket, size_t at, size_t count) {
    const kolo_comm *comm = s->comm;
    const uint32_t first = s->layout.prefixes->each[comm->global_rank].first;
    const uint32_t ranks = comm->rank - first + (s->inputs > comm->global_rank);
    if (ranks == 0)
        return;
    set_sources(s, ticket, first, ranks, at);
    s->layout.kernel->fold_partial(room(s, stack), comm->call.sources, ranks, count);
    push(s, stack, room(s, stack), s->layout.prefixes->by_rank ? ranks : 1, count);
}

/* Folds the result of an op that has no partial results but the inputs: each rank's input is a term. */
static void fold_inputs(const struct scan *s, size_t ticket, uint8_t *result, size_t at, size_t count) {
    const size_t element_bytes = s->layout.kernel->element_bytes;
    const void *sources[KOLO_RANKS_MAX];
    for (uint32_t rank = 0; rank < s->inputs; rank++)
        sources[rank] = find_term(s, ticket, rank) + at * element_bytes;
    s->layout.kernel->fold(result, sources, s->inputs, count, s->inputs);
}

/* Makes `count` elements of the result, from element `at` of the chunk on. */
static void fold_result(const struct scan *s, size_t ticket, uint8_t *result, size_t at, size_t count) {
    const kolo_comm *comm = s->comm;
    const struct kolo_internode *internode = comm->internode;
    const struct kolo_nodes *nodes = &internode->nodes;
    const struct kolo_prefixes *prefixes = s->layout.prefixes;
    struct stack stack = {.height = 0};
    if (s->layout.kernel->is_whole) {
        fold_inputs(s, ticket, result, at, count);
        return;
    }
    for (uint32_t rank = 0; prefixes->by_rank && rank < comm->global_rank; rank++)
        if (prefixes->each[rank].until > comm->global_rank)
            push_term(s, &stack, ticket, rank, at, count);
    for (uint32_t node = 0; !prefixes->by_rank && node < nodes->nodes; node++) {
        const uint32_t below = kolo_nodes_ranks_below(nodes, node, comm->global_rank);
        if (node == internode->node)
            push_own(s, &stack, ticket, at, count);
        else if (below)
            push_term(s, &stack, ticket, kolo_nodes_rank(nodes, node, below - 1), at, count);
    }
    if (prefixes->by_rank)
        push_own(s, &stack, ticket, at, count);
    while (stack.height > 1)
        join(s, &stack, count);
    s->layout.kernel->finish(result, stack.parts, 1, count, s->inputs);
}

static int take(void *context, size_t ticket) {
    const struct scan *s = context;
    kolo_comm *comm = s->comm;
    const size_t element_bytes = s->layout.kernel->element_bytes;
    const size_t piece_count = PIECE_BYTES / s->layout.kernel->acc_bytes;
    size_t first, count = chunk_at(s, ticket, &first);
    uint8_t *recv = s->message->recv + first * element_bytes;
    if (s->inputs == 1) /* the result of one is its copy, as everywhere */
        kolo_copy(recv, comm->global_rank == 0 ? kolo_slot(comm, 0, ticket) : find_term(s, ticket, 0),
                  count * element_bytes);
    for (size_t at = 0; s->inputs > 1 && at < count; at += piece_count)
        fold_result(s, ticket, recv + at * element_bytes, at, count - at < piece_count ? count - at : piece_count);
    if (s->inputs > 0)
        comm->stats.received_bytes += count * element_bytes;
    KOLO_POINT("hierarchy.scan_taken");
    return 0;
}

static const struct kolo_ticket_steps steps = {.show = show, .fold = fold, .order = order, .take = take};

int kolo_nodes_scan(kolo_comm *comm, const struct kolo_descriptor *descriptor, const struct kolo_message *message) {
    const kolo_kernel *kernel = message->kernel;
    const size_t slot_bytes = comm->segment.slot_bytes;
    const size_t own_max = slot_bytes / (kernel->element_bytes + kernel->acc_bytes);
    const struct kolo_prefixes *prefixes =
        comm->internode->prefixes[kernel->is_whole                       ? KOLO_PREFIXES_SINGLE
                                  : kolo_internode_by_rank(comm, kernel) ? KOLO_PREFIXES_BY_RANK
                                                                         : KOLO_PREFIXES_BY_NODE];
    const size_t taken_max = 2 * slot_bytes / kernel->acc_bytes / prefixes->places_max;
    struct scan s = {.comm = comm,
                     .message = message,
                     .layout = {kernel, prefixes, own_max < taken_max ? own_max : taken_max},
                     .inputs = comm->global_rank + !descriptor->leaves_own_out};
    if (s.layout.stride == 0)
        return kolo_nodes_refuse(comm, kernel, (prefixes->places_max * (size_t)kernel->acc_bytes + 1) / 2);
    const size_t tickets = message->count ? (message->count + s.layout.stride - 1) / s.layout.stride : 1;
    return kolo_tickets_run(comm, &steps, &s, tickets, true);
}
