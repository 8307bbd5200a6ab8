/* Sets of ranks: KOLO_RANK_WORDS words with a bit a rank. */
#ifndef KOLO_COMM_RANKS_H
#define KOLO_COMM_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"

static inline bool kolo_ranks_have(const uint64_t *set, uint32_t rank) {
    return set[rank / 64] >> rank % 64 & 1;
}

static inline void kolo_ranks_add(uint64_t *set, uint32_t rank) {
    set[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline void kolo_ranks_remove(uint64_t *set, uint32_t rank) {
    set[rank / 64] &= ~(UINT64_C(1) << rank % 64);
}

static inline uint32_t kolo_ranks_count_below(const uint64_t *set, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < end; rank++)
        count += kolo_ranks_have(set, rank);
    return count;
}

/* Returns the lowest rank of a set; `end` if none is below that. */
static inline uint32_t kolo_ranks_lowest(const uint64_t *set, uint32_t end) {
    uint32_t rank = 0;
    while (rank < end && !kolo_ranks_have(set, rank))
        rank++;
    return rank;
}

/* Writes "0, 3-7, 9" for messages, as much of it as fits text_bytes; "" for none. */
void kolo_ranks_list(const uint64_t *set, char *text, size_t text_bytes);

#endif
