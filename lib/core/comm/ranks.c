/* Sets of ranks as text, and the numbers of nodes and of the ranks of each node. */
#include "comm/ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

void kolo_ranks_list(const uint64_t *set, char *text, size_t text_bytes) {
    text[0] = '\0';
    for (uint32_t first = 0; first < KOLO_RANKS_MAX; first++) {
        if (!kolo_ranks_have(set, first))
            continue;
        uint32_t last = first;
        while (last + 1 < KOLO_RANKS_MAX && kolo_ranks_have(set, last + 1))
            last++;
        kolo_text_add(text, text_bytes, "%s%u", *text ? ", " : "", first);
        if (first < last)
            kolo_text_add(text, text_bytes, "-%u", last);
        first = last;
    }
}

/* Numbers the nodes by their lowest rank. Returns how many there are. */
static uint32_t number(uint32_t *node_of, const uint32_t *groups, uint32_t size) {
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t earlier = 0;
        while (groups[earlier] != groups[rank])
            earlier++;
        node_of[rank] = earlier < rank ? node_of[earlier] : nodes++;
    }
    return nodes;
}

int kolo_nodes_make(struct kolo_nodes *nodes, const uint32_t *groups, uint32_t size) {
    *nodes = (struct kolo_nodes){.size = size,
                                 .node_of = calloc(size, sizeof *nodes->node_of),
                                 .ranks = calloc(size, sizeof *nodes->ranks),
                                 .first_of = calloc(size + 2, sizeof *nodes->first_of)};
    if (!nodes->node_of || !nodes->ranks || !nodes->first_of) {
        kolo_nodes_free(nodes);
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", size);
    }
    nodes->nodes = number(nodes->node_of, groups, size);
    /* Ranks are counted two places further on and summed up one: in the end each entry is where its node begins. */
    for (uint32_t rank = 0; rank < size; rank++)
        nodes->first_of[nodes->node_of[rank] + 2]++;
    for (uint32_t node = 0; node < nodes->nodes; node++)
        nodes->first_of[node + 2] += nodes->first_of[node + 1];
    for (uint32_t rank = 0; rank < size; rank++)
        nodes->ranks[nodes->first_of[nodes->node_of[rank] + 1]++] = rank;
    return 0;
}

void kolo_nodes_free(struct kolo_nodes *nodes) {
    free(nodes->node_of);
    free(nodes->ranks);
    free(nodes->first_of);
    *nodes = (struct kolo_nodes){0};
}

uint32_t kolo_nodes_local_rank(const struct kolo_nodes *nodes, uint32_t rank) {
    return kolo_nodes_ranks_below(nodes, nodes->node_of[rank], rank);
}

uint32_t kolo_nodes_ranks_below(const struct kolo_nodes *nodes, uint32_t node, uint32_t rank) {
    uint32_t low = 0, high = kolo_nodes_local_size(nodes, node);
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (kolo_nodes_rank(nodes, node, middle) < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
