/* What a call is, in one word: ranks show each other these words, and compare them. */
#ifndef KOLO_COMM_STEP_CALL_WORD_H
#define KOLO_COMM_STEP_CALL_WORD_H

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

#define KOLO_CALL_COUNT ((UINT64_C(1) << 40) - 1)

/* A call in one word: collective (5 bits), dtype (5), op (4), root (10) and count (40). Two ranks with different words
 * make different calls. */
static inline uint64_t kolo_call_word(kolo_collective collective, kolo_dtype dtype, kolo_op op, uint32_t root,
                                      size_t count) {
    return (uint64_t)(collective + 1) << 59 | (uint64_t)dtype << 54 | (uint64_t)op << 50 | (uint64_t)root << 40 |
           (count & KOLO_CALL_COUNT);
}

/* What a call's word says. */
struct kolo_call_parts {
    kolo_collective collective; /* KOLO_COLLECTIVES: unknown; then the others mean nothing */
    kolo_dtype dtype;
    kolo_op op;
    uint32_t root;
    uint64_t count;
};

struct kolo_call_parts kolo_call_parts(uint64_t word);

#define KOLO_CALL_TEXT_BYTES 80

/* "allreduce of 1024 f32, sum" */
void kolo_call_describe(uint64_t word, char text[KOLO_CALL_TEXT_BYTES]);

#endif
