/* The word of a call: it says what the call is. Ranks show each other these words, and compare them. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

#define KOLO_CALL_COUNT_BITS 40
#define KOLO_CALL_COUNT      ((UINT64_C(1) << KOLO_CALL_COUNT_BITS) - 1)

/* Calls that the program makes by lanes have other dtypes in their words: they differ from those without lanes. */
#define KOLO_CALL_BY_LANES        16 /* added to the dtype */
#define KOLO_CALL_OPAQUE_BY_LANES (KOLO_OPAQUE - 1)
static_assert(KOLO_DTYPES <= KOLO_CALL_OPAQUE_BY_LANES - KOLO_CALL_BY_LANES, "each has its number");

static inline kolo_dtype kolo_call_dtype_by_lanes(kolo_dtype dtype) {
    return (kolo_dtype)(dtype == KOLO_OPAQUE ? KOLO_CALL_OPAQUE_BY_LANES : dtype + KOLO_CALL_BY_LANES);
}

/* A call in one word: collective (5 bits), dtype (5), op (4), root (10) and count (40). Two ranks with different words
 * make different calls. Operations of kolo_op_create have two more ops. With KOLO_OPAQUE the count's upper 12 bits are
 * an element's size. */
static inline uint64_t kolo_call_word(kolo_collective collective, kolo_dtype dtype, kolo_op op, uint32_t root,
                                      size_t count) {
    return (uint64_t)(collective + 1) << 59 | (uint64_t)dtype << 54 | (uint64_t)op << 50 | (uint64_t)root << 40 |
           (count & KOLO_CALL_COUNT);
}

/* A stamp is a mix of the words of several calls. The multiplier is odd, so that a difference never goes away: a stamp
 * and the word of the last call determine the stamp of the calls before. A word enters with its upper bits, in some of
 * which most calls differ, as the lowest: a product spreads them over all bits, so that a second difference does not
 * make up for a first. */
#define KOLO_STAMP_MIX   UINT64_C(0x9e3779b97f4a7c15)
#define KOLO_STAMP_UNMIX UINT64_C(0xf1de83e19937733d)
static_assert(KOLO_STAMP_MIX * KOLO_STAMP_UNMIX == 1, "one undoes the other");

static inline uint64_t kolo_stamp_turned(uint64_t word) {
    return word << 24 | word >> 40;
}

static inline uint64_t kolo_stamp_after(uint64_t stamp, uint64_t word) {
    return (stamp ^ kolo_stamp_turned(word)) * KOLO_STAMP_MIX;
}

static inline uint64_t kolo_stamp_before(uint64_t stamp, uint64_t word) {
    return stamp * KOLO_STAMP_UNMIX ^ kolo_stamp_turned(word);
}

/* A call whose word has too little room also has a detail: a digest of all that the call has to tell. The detail goes
 * into the stamp, too, so that ranks that compare stamps compare details. A digest goes on from number to number. */
static inline uint64_t kolo_digest_after(uint64_t digest, uint64_t number) {
    digest = (digest ^ number) * KOLO_STAMP_MIX;
    return digest ^ digest >> 32;
}

/* Returns a count in so many bits of a word; for a larger count, a digest of it. */
static inline uint64_t kolo_call_count(uint64_t count, unsigned bits) {
    return (count >> bits ? kolo_digest_after(0, count) : count) & ((UINT64_C(1) << bits) - 1);
}

#define KOLO_PAIR_ANY_RANK (UINT64_C(1) << 32) /* in place of `root` in the word */

/* Returns the detail of a send or a receive: its tag. The other rank is the `root` of its word. */
static inline uint64_t kolo_pair_detail(int tag, bool any_rank) {
    return (uint32_t)tag | (any_rank ? KOLO_PAIR_ANY_RANK : 0);
}

/* Values in place of a kolo_op: an operation of kolo_op_create, commutative or not. */
enum { KOLO_CALL_OWN = KOLO_OPS, KOLO_CALL_OWN_ORDERED };

static_assert(KOLO_CALL_OWN_ORDERED <= 15 && KOLO_OPAQUE <= 31, "they fit");

#define KOLO_CALL_OPAQUE_BITS  28 /* with KOLO_OPAQUE */
#define KOLO_CALL_OPAQUE_COUNT ((UINT64_C(1) << KOLO_CALL_OPAQUE_BITS) - 1)

/* Returns the bits that are joined to the count of a call with KOLO_OPAQUE. */
static inline uint64_t kolo_call_opaque(size_t element_bytes) {
    return (uint64_t)element_bytes << KOLO_CALL_OPAQUE_BITS;
}

/* The parts of a call's word. */
struct kolo_call_parts {
    kolo_collective collective; /* KOLO_COLLECTIVES: unknown; then the others mean nothing */
    kolo_dtype dtype;
    kolo_op op;             /* KOLO_OPS_OWN: one of kolo_op_create */
    bool keeps_order;       /* for KOLO_OPS_OWN: the operation is not commutative */
    uint32_t element_bytes; /* of KOLO_OPAQUE */
    uint32_t root;
    uint64_t count;
    uint64_t digest; /* the word's part of the call's detail; where it stands for a count, the count has more of it */
    bool by_lanes;
};

/* Returns the value in place of a root that the collective does not have: the lower bits of the call's detail, with
 * KOLO_ALLREDUCE_APPLY above two bits for flags. KOLO_ALLREDUCE_MANY has more bits of it above a count of 34 bits,
 * except with KOLO_OPAQUE. */
static inline uint32_t kolo_call_digest_root(uint64_t digest, bool has_flags) {
    return (has_flags ? digest << 2 : digest) & 1023;
}

#define KOLO_CALL_MANY_BITS  34
#define KOLO_CALL_MANY_COUNT ((UINT64_C(1) << KOLO_CALL_MANY_BITS) - 1)

static inline uint64_t kolo_call_many_count(uint64_t count, uint64_t digest, uint64_t opaque) {
    return opaque ? kolo_call_count(count, KOLO_CALL_OPAQUE_BITS) | opaque
                  : kolo_call_count(count, KOLO_CALL_MANY_BITS) | digest >> 10 << KOLO_CALL_MANY_BITS;
}

/* The flags of KOLO_ALLREDUCE_APPLY. */
enum { KOLO_CALL_BOTH, KOLO_CALL_NO_GRADIENTS, KOLO_CALL_NO_PARAMETERS };

/* Values in place of a kolo_op, with KOLO_TABLE. The count of the last two is the number of the call that made it. */
enum { KOLO_CALL_TABLE_CREATE, KOLO_CALL_TABLE_INITIALIZE, KOLO_CALL_TABLE_LOAD };

struct kolo_call_parts kolo_call_parts(uint64_t word);

#define KOLO_CALL_TEXT_BYTES 128

/* Writes the call of `word`: "allreduce of 1024 f32, sum". */
void kolo_call_describe(uint64_t word, char text[KOLO_CALL_TEXT_BYTES]);

/* Writes a send or a receive: "recv of 1024 f32 from rank 3, tag 7". */
void kolo_pair_describe(uint64_t word, uint64_t detail, char text[KOLO_CALL_TEXT_BYTES]);
