/* What a call is, in one word: ranks show each other these words, and compare them. */
#ifndef KOLO_COMM_STEP_CALL_WORD_H
#define KOLO_COMM_STEP_CALL_WORD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

#define KOLO_CALL_COUNT_BITS 40
#define KOLO_CALL_COUNT      ((UINT64_C(1) << KOLO_CALL_COUNT_BITS) - 1)

/* Calls that the program makes by lanes have other dtypes in their words: they are other calls than the same ones
 * without lanes. */
#define KOLO_CALL_BY_LANES        16 /* added */
#define KOLO_CALL_OPAQUE_BY_LANES (KOLO_OPAQUE - 1)
static_assert(KOLO_DTYPES <= KOLO_CALL_OPAQUE_BY_LANES - KOLO_CALL_BY_LANES, "each has its number");

static inline kolo_dtype kolo_call_dtype_by_lanes(kolo_dtype dtype) {
    return (kolo_dtype)(dtype == KOLO_OPAQUE ? KOLO_CALL_OPAQUE_BY_LANES : dtype + KOLO_CALL_BY_LANES);
}

/* A call in one word: collective (5 bits), dtype (5), op (4), root (10) and count (40). Two ranks with different words
 * make different calls. For operations of kolo_op_create there are two more ops. With KOLO_OPAQUE the size of an
 * element is told in the upper 12 bits of the count. */
static inline uint64_t kolo_call_word(kolo_collective collective, kolo_dtype dtype, kolo_op op, uint32_t root,
                                      size_t count) {
    return (uint64_t)(collective + 1) << 59 | (uint64_t)dtype << 54 | (uint64_t)op << 50 | (uint64_t)root << 40 |
           (count & KOLO_CALL_COUNT);
}

/* A stamp is a mix of the words of several calls. The multiplier is odd, so that a difference never goes away; and a
 * stamp tells, with the word of the last call, that of the calls before. A word enters with its upper bits, of which
 * most calls differ in some, as the lowest: a product spreads them over all bits, so that a second call that differs
 * does not make up for a first one. */
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

/* A call whose word has no room for what it has to tell has a detail besides: a digest of all of that, which its stamp
 * is a mix of, too. Whoever compares stamps compares details. A digest begins with any number, and goes on with others,
 * one by one. */
static inline uint64_t kolo_digest_after(uint64_t digest, uint64_t number) {
    digest = (digest ^ number) * KOLO_STAMP_MIX;
    return digest ^ digest >> 32;
}

/* A count in so many bits of a word; of a larger one a digest. */
static inline uint64_t kolo_call_count(uint64_t count, unsigned bits) {
    return (count >> bits ? kolo_digest_after(0, count) : count) & ((UINT64_C(1) << bits) - 1);
}

#define KOLO_PAIR_ANY_RANK (UINT64_C(1) << 32) /* in place of `root` in the word */

/* What a send or a receive is about besides its word, whose `root` is the other rank: its tag. */
static inline uint64_t kolo_pair_detail(int tag, bool any_rank) {
    return (uint32_t)tag | (any_rank ? KOLO_PAIR_ANY_RANK : 0);
}

/* In place of a kolo_op: an operation of kolo_op_create, commutative or not. */
enum { KOLO_CALL_OWN = KOLO_OPS, KOLO_CALL_OWN_ORDERED };

static_assert(KOLO_CALL_OWN_ORDERED <= 15 && KOLO_OPAQUE <= 31, "they fit");

#define KOLO_CALL_OPAQUE_BITS  28 /* with KOLO_OPAQUE */
#define KOLO_CALL_OPAQUE_COUNT ((UINT64_C(1) << KOLO_CALL_OPAQUE_BITS) - 1)

/* What is joined to the count of a call with KOLO_OPAQUE. */
static inline uint64_t kolo_call_opaque(size_t element_bytes) {
    return (uint64_t)element_bytes << KOLO_CALL_OPAQUE_BITS;
}

/* What a call's word says. */
struct kolo_call_parts {
    kolo_collective collective; /* KOLO_COLLECTIVES: unknown; then the others mean nothing */
    kolo_dtype dtype;
    kolo_op op;             /* KOLO_OPS_OWN: one of kolo_op_create */
    bool keeps_order;       /* that one: it is not commutative */
    uint32_t element_bytes; /* of KOLO_OPAQUE */
    uint32_t root;
    uint64_t count;
    uint64_t digest; /* what the word has of the call's detail; where that stands for a count, that has more of it */
    bool by_lanes;
};

/* In place of a root that the collective does not have: the lower bits of the call's detail, with KOLO_ALLREDUCE_APPLY
 * above two bits for flags. KOLO_ALLREDUCE_MANY has more of them above a count of 34 bits, but with KOLO_OPAQUE. */
static inline uint32_t kolo_call_digest_root(uint64_t digest, bool has_flags) {
    return (has_flags ? digest << 2 : digest) & 1023;
}

#define KOLO_CALL_MANY_BITS  34
#define KOLO_CALL_MANY_COUNT ((UINT64_C(1) << KOLO_CALL_MANY_BITS) - 1)

static inline uint64_t kolo_call_many_count(uint64_t count, uint64_t digest, uint64_t opaque) {
    return opaque ? kolo_call_count(count, KOLO_CALL_OPAQUE_BITS) | opaque
                  : kolo_call_count(count, KOLO_CALL_MANY_BITS) | digest >> 10 << KOLO_CALL_MANY_BITS;
}

/* With KOLO_ALLREDUCE_APPLY, the flags. */
enum { KOLO_CALL_BOTH, KOLO_CALL_NO_GRADIENTS, KOLO_CALL_NO_PARAMETERS };

/* With KOLO_TABLE, in place of a kolo_op. The count of the last two is the number of the call that made the table. */
enum { KOLO_CALL_TABLE_CREATE, KOLO_CALL_TABLE_INITIALIZE, KOLO_CALL_TABLE_LOAD };

struct kolo_call_parts kolo_call_parts(uint64_t word);

#define KOLO_CALL_TEXT_BYTES 128

/* "allreduce of 1024 f32, sum" */
void kolo_call_describe(uint64_t word, char text[KOLO_CALL_TEXT_BYTES]);

/* "recv of 1024 f32 from rank 3, tag 7" */
void kolo_pair_describe(uint64_t word, uint64_t detail, char text[KOLO_CALL_TEXT_BYTES]);

#endif
