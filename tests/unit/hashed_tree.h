/* Canonical trees over ranks, told apart by a hash: for tests of what joins them. */
#ifndef TESTS_UNIT_HASHED_TREE_H
#define TESTS_UNIT_HASHED_TREE_H

#include <stdint.h>

/* Of a tree of these two: as in a sum of floats, a + b is b + a, and (a + b) + c is not a + (b + c). */
static inline uint64_t join(uint64_t a, uint64_t b) {
    const uint64_t sum = a + b + UINT64_C(0x9e3779b97f4a7c15);
    return (sum ^ sum >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static inline uint64_t tree(const uint64_t *leaves, uint32_t count) {
    uint32_t left = 1;
    if (count == 1)
        return leaves[0];
    while (left < count - left)
        left *= 2;
    return join(tree(leaves, left), tree(leaves + left, count - left));
}

static inline uint64_t input_of(uint32_t rank) {
    return join(rank, UINT64_C(1) << 40);
}

#endif
