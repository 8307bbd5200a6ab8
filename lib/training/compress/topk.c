/* Top-k by radix: three histograms of the magnitudes' bits find the k-th largest; then one pass takes the elements
 * above it. That would read every element of a large tensor four times. So for a large tensor a sample says which
 * magnitude a few more than k elements reach. One pass collects these, and all further passes look only at them. The
 * sample decides only how long that takes: if too few elements are collected, or more than there is room for, all
 * elements are looked at. */
#include <string.h>

#include "training/compress/compressed.h"

enum {
    SAMPLES = 4096,
    SAMPLED_MIN = 8 * SAMPLES, /* elements of a tensor for which sampling pays */
    DIGITS = 3,
    BINS = 1 << 11, /* of the longest digit */
    MAGNITUDE_BITS = 31,
    INFINITE = 0x7f800000 /* the magnitude; NaNs are above it, */
};

/* The candidates: the elements among which the largest are sought. */
struct candidates {
    const unsigned char *values;
    const uint32_t *indices; /* NULL: all */
    size_t count, stride;    /* of all, every stride-th */
};

static inline uint32_t index_of(const struct candidates *among, size_t i) {
    return among->indices ? among->indices[i] : (uint32_t)(i * among->stride);
}

static inline uint32_t magnitude_of(const struct candidates *among, size_t i) {
    uint32_t bits;
    memcpy(&bits, among->values + (size_t)index_of(among, i) * sizeof bits, sizeof bits);
    bits &= INT32_MAX;
    return bits > INFINITE ? INFINITE + 1 : bits; /* and alike */
}

/* Returns the k-th largest magnitude. *equal becomes the number of elements of that magnitude among the k. */
static uint32_t find_kth(const struct candidates *among, size_t k, size_t *equal) {
    static const uint32_t shifts[DIGITS] = {20, 9, 0}; /* each digit's lowest bit */
    uint32_t found = 0, known_from = MAGNITUDE_BITS;   /* the bits from known_from on are found */
    for (int digit = 0; digit < DIGITS; digit++) {
        uint32_t bins[BINS] = {0};
        const uint32_t shift = shifts[digit], mask = (1u << (known_from - shift)) - 1;
        for (size_t i = 0; i < among->count; i++) {
            const uint32_t magnitude = magnitude_of(among, i);
            if ((magnitude ^ found) >> known_from == 0)
                bins[magnitude >> shift & mask]++;
        }
        uint32_t bin = mask;
        while (bins[bin] < k)
            k -= bins[bin--];
        found |= bin << shift;
        known_from = shift;
    }
    *equal = k;
    return found;
}

/* Returns a magnitude that most likely a few more than k of the elements reach: that of the sample's q-th element,
 * where q is the expected number plus four standard deviations. */
static uint32_t guess(const void *values, size_t count, size_t k) {
    const struct candidates sample = {.values = values, .count = SAMPLES, .stride = count / SAMPLES};
    const size_t expected = (size_t)((double)k / (double)count * SAMPLES) + 1;
    size_t root = 1, equal;
    while (root * root < expected)
        root++;
    const size_t q = expected + 4 * root;
    return q < SAMPLES ? find_kth(&sample, q, &equal) : 0;
}

size_t kolo_topk_room(size_t count, size_t k) {
    const size_t room = 2 * k + count / 64 + SAMPLES;
    return count < SAMPLED_MIN ? 0 : room < count ? room : count;
}

void kolo_topk_choose(const kolo_training_kernels *kernels, uint32_t *chosen, size_t k, const void *values,
                      size_t count, uint32_t *work) {
    struct candidates among = {.values = values, .count = count, .stride = 1};
    if (count >= SAMPLED_MIN) {
        const size_t room = kolo_topk_room(count, k);
        const size_t collected = kernels->collect(work, room, values, count, guess(values, count, k));
        if (collected >= k && collected <= room) {
            among.indices = work;
            among.count = collected;
        }
    }
    size_t equal, taken = 0;
    const uint32_t kth = find_kth(&among, k, &equal);
    for (size_t i = 0; taken < k; i++) {
        const uint32_t magnitude = magnitude_of(&among, i);
        if (magnitude < kth || (magnitude == kth && equal == 0))
            continue;
        equal -= magnitude == kth;
        chosen[taken++] = index_of(&among, i);
    }
}
