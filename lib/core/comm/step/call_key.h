/* The key of a call: it says what the call is. Ranks show each other the keys of their calls, and compare them. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "shm/layout.h"

/* Two ranks with different keys make different calls. */
struct kolo_call_key {
    uint8_t collective;     /* kolo_collective plus one; 0: no call */
    uint8_t dtype;          /* kolo_dtype */
    uint8_t op;             /* kolo_op; of KOLO_TABLE, KOLO_CALL_TABLE_* */
    uint8_t flags;          /* KOLO_CALL_* */
    uint16_t root;          /* of a send or a receive: the other rank */
    uint16_t element_bytes; /* with KOLO_OPAQUE, else 0 */
    uint64_t count;         /* elements; 0 where blocks have counts of their own */
    uint64_t digest;        /* of what else the ranks pass alike (kolo_digest_after); of a send or a receive: its tag */
};

enum {
    KOLO_CALL_BY_LANES = 1 << 0, /* each lane makes its part of the call */
    KOLO_CALL_OWN = 1 << 1,      /* the operation is of kolo_op_create; `op` is KOLO_SUM */
    KOLO_CALL_ORDERED = 1 << 2,  /* likewise, and it is not commutative */
    KOLO_CALL_NO_GRADIENTS = 1 << 3,
    KOLO_CALL_NO_PARAMETERS = 1 << 4,
    KOLO_CALL_ANY_RANK = 1 << 5, /* in place of the other rank */
    KOLO_CALL_SHARED = 1 << 6    /* the buffer is one that all ranks share */
};

/* Flags of KOLO_ALLREDUCE_APPLY: no such call, but the creation of an optimizer that makes them. */
enum { KOLO_CALL_CREATES = KOLO_CALL_NO_GRADIENTS | KOLO_CALL_NO_PARAMETERS };

/* Values in place of a kolo_op, with KOLO_TABLE. The count of the last two is the number of the call that made the
 * table. */
enum { KOLO_CALL_TABLE_CREATE, KOLO_CALL_TABLE_INITIALIZE, KOLO_CALL_TABLE_LOAD };

static_assert(KOLO_COLLECTIVES < UINT8_MAX && KOLO_OPAQUE <= UINT8_MAX && KOLO_OPS <= UINT8_MAX &&
                  KOLO_RANKS_MAX <= UINT16_MAX && KOLO_OP_ELEMENT_BYTES_MAX <= UINT16_MAX,
              "they fit");

/* The first word of a packed key: all of it but the count and the digest. */
static inline uint64_t kolo_call_key_head(const struct kolo_call_key *key) {
    return (uint64_t)key->collective | (uint64_t)key->dtype << 8 | (uint64_t)key->op << 16 |
           (uint64_t)key->flags << 24 | (uint64_t)key->root << 32 | (uint64_t)key->element_bytes << 48;
}

static inline struct kolo_packed_key kolo_call_key_pack(struct kolo_call_key key) {
    return (struct kolo_packed_key){{kolo_call_key_head(&key), key.count, key.digest}};
}

static inline struct kolo_call_key kolo_call_key_unpack(const struct kolo_packed_key *packed) {
    const uint64_t head = packed->words[0];
    return (struct kolo_call_key){.collective = (uint8_t)head,
                                  .dtype = (uint8_t)(head >> 8),
                                  .op = (uint8_t)(head >> 16),
                                  .flags = (uint8_t)(head >> 24),
                                  .root = (uint16_t)(head >> 32),
                                  .element_bytes = (uint16_t)(head >> 48),
                                  .count = packed->words[1],
                                  .digest = packed->words[2]};
}

/* Stores the words of a key where other ranks read them, and loads them there. The stores are releases: a reader that
 * sees one of them sees all that was stored before. */
static inline void kolo_call_key_store(kolo_atomic_u64 *words, struct kolo_call_key key) {
    kolo_store_release(&words[0], kolo_call_key_head(&key));
    kolo_store_release(&words[1], key.count);
    kolo_store_release(&words[2], key.digest);
}

static inline struct kolo_call_key kolo_call_key_load(const kolo_atomic_u64 *words) {
    return kolo_call_key_unpack(&(struct kolo_packed_key){
        {kolo_load_acquire(&words[0]), kolo_load_acquire(&words[1]), kolo_load_acquire(&words[2])}});
}

static inline bool kolo_call_keys_equal(struct kolo_call_key a, struct kolo_call_key b) {
    return kolo_call_key_head(&a) == kolo_call_key_head(&b) && a.count == b.count && a.digest == b.digest;
}

/* A stamp is a mix of the keys of several calls. The multipliers are odd, so that a difference never goes away: a stamp
 * and the key of the last call determine the stamp of the calls before. Each word of a key is spread over all bits, so
 * that what differs in one is not made up for by another one, nor by the next call; and before it meets the stamp, so
 * that a call takes no longer for it. A product spreads no bit downwards, which the shifts do, each word's by another
 * distance: what differs in the upper bits of two words does not fall on the same bits twice. */
#define KOLO_STAMP_MIX   UINT64_C(0x9e3779b97f4a7c15)
#define KOLO_STAMP_UNMIX UINT64_C(0xf1de83e19937733d)
static_assert(KOLO_STAMP_MIX * KOLO_STAMP_UNMIX == 1, "one undoes the other");

static inline uint64_t kolo_stamp_spread(uint64_t word, uint64_t odd, unsigned shift) {
    return word * odd ^ word * odd >> shift;
}

static inline uint64_t kolo_stamp_of(struct kolo_call_key key) {
    return kolo_stamp_spread(kolo_call_key_head(&key), UINT64_C(0xd6e8feb86659fd93), 32) ^
           kolo_stamp_spread(key.count, UINT64_C(0xa3ec647659359acd), 29) ^
           kolo_stamp_spread(key.digest, UINT64_C(0xc2b2ae3d27d4eb4f), 26);
}

static inline uint64_t kolo_stamp_after(uint64_t stamp, struct kolo_call_key key) {
    return (stamp ^ kolo_stamp_of(key)) * KOLO_STAMP_MIX;
}

static inline uint64_t kolo_stamp_before(uint64_t stamp, struct kolo_call_key key) {
    return stamp * KOLO_STAMP_UNMIX ^ kolo_stamp_of(key);
}

/* A digest begins with any number, and goes on with others, one by one. */
static inline uint64_t kolo_digest_after(uint64_t digest, uint64_t number) {
    return kolo_stamp_spread(digest ^ number, KOLO_STAMP_MIX, 32);
}

/* The key of a call that is no collective of data, such as kolo_alloc: `count` is bytes, or a number that tells it from
 * others. */
static inline struct kolo_call_key kolo_call_key_of(kolo_collective collective, uint64_t count) {
    return (struct kolo_call_key){.collective = (uint8_t)(collective + 1), .dtype = KOLO_U8, .count = count};
}

/* The key of a send to a rank, or a receive from one; KOLO_RANKS_MAX: from any. */
static inline struct kolo_call_key kolo_call_key_of_pair(kolo_collective collective, kolo_dtype dtype, uint32_t rank,
                                                         int tag, uint64_t count) {
    const bool is_any = rank == KOLO_RANKS_MAX;
    return (struct kolo_call_key){.collective = (uint8_t)(collective + 1),
                                  .dtype = (uint8_t)dtype,
                                  .flags = is_any ? KOLO_CALL_ANY_RANK : 0,
                                  .root = is_any ? 0 : (uint16_t)rank,
                                  .count = count,
                                  .digest = (uint32_t)tag};
}

/* The collective of a key that may come from anywhere; KOLO_COLLECTIVES: unknown, and so is the rest of the key. */
kolo_collective kolo_call_key_collective(struct kolo_call_key key);

/* The operation of a key; KOLO_OPS_OWN: one of kolo_op_create. */
static inline kolo_op kolo_call_key_op(struct kolo_call_key key) {
    return key.flags & (KOLO_CALL_OWN | KOLO_CALL_ORDERED) ? KOLO_OPS_OWN : (kolo_op)key.op;
}

#define KOLO_CALL_TEXT_BYTES 128

/* Writes the call: "allreduce of 1024 f32, sum", or "recv of 1024 f32 from rank 3, tag 7". */
void kolo_call_key_describe(struct kolo_call_key key, char text[KOLO_CALL_TEXT_BYTES]);
