/* Computes which node gets which term of a scan. */
#include "internode/assembly/prefixes.h"

#include <stdlib.h>

#include "base/status.h"

static void set_by_nodes(struct kolo_prefixes *prefixes, const struct kolo_nodes *nodes) {
    for (uint32_t node = 0; node < nodes->nodes; node++)
        for (uint32_t local = 0, size = kolo_nodes_local_size(nodes, node); local < size; local++) {
            const uint32_t until = local + 1 < size ? kolo_nodes_rank(nodes, node, local + 1) : nodes->size;
            prefixes->each[kolo_nodes_rank(nodes, node, local)] = (struct kolo_prefix){.until = until};
        }
}

static bool is_on_one_node(const struct kolo_nodes *nodes, uint32_t first, uint32_t ranks) {
    for (uint32_t rank = first; rank < first + ranks; rank++)
        if (rank >= nodes->size || nodes->node_of[rank] != nodes->node_of[first])
            return false;
    return true;
}

/* Finds the terms among `ranks` ranks from `first` on, a power of two. */
static void set_by_ranks(struct kolo_prefixes *prefixes, const struct kolo_nodes *nodes, uint32_t first,
                         uint32_t ranks) {
    if (first >= nodes->size)
        return;
    if (!is_on_one_node(nodes, first, ranks)) {
        set_by_ranks(prefixes, nodes, first, ranks / 2);
        set_by_ranks(prefixes, nodes, first + ranks / 2, ranks / 2);
        return;
    }
    const uint32_t last = first + ranks - 1;
    for (uint32_t rank = first; rank <= last; rank++)
        prefixes->each[rank] = (struct kolo_prefix){.until = rank == last ? nodes->size : rank + 1,
                                                    .first = kolo_nodes_local_rank(nodes, first)};
}

/* Numbers the terms that `node` gets, and counts those of the node that gets most. `got` has how many terms each node
 * gets so far. */
static void place(struct kolo_prefixes *prefixes, const struct kolo_nodes *nodes, uint32_t node, uint32_t *got) {
    for (uint32_t term = 0; term < nodes->size; term++) {
        const uint32_t until = prefixes->each[term].until;
        prefixes->each[term].place = KOLO_PREFIX_UNUSED;
        for (uint32_t taker = 0; until > term + 1 && taker < nodes->nodes; taker++) {
            if (taker == nodes->node_of[term] ||
                kolo_nodes_ranks_below(nodes, taker, until) == kolo_nodes_ranks_below(nodes, taker, term))
                continue;
            if (taker == node)
                prefixes->each[term].place = got[taker];
            if (++got[taker] > prefixes->places_max)
                prefixes->places_max = got[taker];
        }
    }
}

static void set_single(struct kolo_prefixes *prefixes, const struct kolo_nodes *nodes) {
    for (uint32_t rank = 0; rank < nodes->size; rank++)
        prefixes->each[rank] = (struct kolo_prefix){.until = nodes->size, .first = kolo_nodes_local_rank(nodes, rank)};
}

static int make(struct kolo_prefixes **result, const struct kolo_nodes *nodes, uint32_t node, bool by_rank,
                bool is_single) {
    struct kolo_prefixes *prefixes = calloc(1, sizeof *prefixes + nodes->size * sizeof *prefixes->each);
    uint32_t *got = calloc(nodes->nodes, sizeof *got);
    uint32_t ranks = 1;
    *result = prefixes;
    if (!prefixes || !got) {
        free(got);
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", nodes->size);
    }
    while (ranks < nodes->size)
        ranks *= 2;
    prefixes->by_rank = by_rank;
    prefixes->places_max = 1;
    if (is_single)
        set_single(prefixes, nodes);
    else if (by_rank)
        set_by_ranks(prefixes, nodes, 0, ranks);
    else
        set_by_nodes(prefixes, nodes);
    place(prefixes, nodes, node, got);
    free(got);
    return 0;
}

int kolo_prefixes_make(struct kolo_prefixes **result, const struct kolo_nodes *nodes, uint32_t node, bool by_rank) {
    return make(result, nodes, node, by_rank, false);
}

int kolo_prefixes_make_single(struct kolo_prefixes **result, const struct kolo_nodes *nodes, uint32_t node) {
    return make(result, nodes, node, true, true);
}
