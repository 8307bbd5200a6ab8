/* All-reduces of f32 tensors of which something shorter is sent. An object of this kind carries out the messages of one
 * set of buckets, one after another.
 *
 * BF16 and F16: the tensors' halves, one tensor behind the other, are all-reduced in that type: summed in f32, rounded
 * once, and widened to f32. Between machines each byte crosses the network once, as ever.
 *
 * ONEBIT and TOPK: every rank's message goes to all ranks by an all-gather, and each rank reads all of them and folds
 * what they stand for with the kernels of an ordinary all-reduce, in the canonical order. So the result has the bits
 * that kolo_allreduce gives for what the messages stand for, whichever ranks share a machine. A reduce-scatter would
 * have to compress sums once more, which loses more and needs a residual on the owner, too. It would pay where a rank
 * gets more from the others than the uncompressed message is long twice: from 60 ranks on with ONEBIT, with TOPK from
 * as many as 1 / share.
 *
 * A message, as all-gathered, has a part for each tensor:
 *
 *   ONEBIT   a 64-bit word for each 64 elements, their signs; then an f32 for each KOLO_SIGNS_BLOCK elements
 *   TOPK     `chosen` u32, the indices in ascending order; then `chosen` f32
 *
 * A part begins at a multiple of 8 bytes. */
#ifndef KOLO_API_FUSION_COMPRESSED_H
#define KOLO_API_FUSION_COMPRESSED_H

#include <stdbool.h>

#include "comm/comm.h"

/* One tensor of a message. */
struct kolo_compressed_tensor {
    const void *send; /* `count` f32 each; may be the same */
    void *recv;
    float *residual; /* what earlier messages left out; NULL: that is lost */
    size_t count;
};

struct kolo_compressed {
    kolo_compression kind;
    double share;          /* of a tensor's elements that TOPK sends */
    size_t message_bytes;  /* room for a message */
    uint32_t ranks;        /* of all nodes */
    uint8_t *message;      /* of BF16 and F16 one message, else one of each rank */
    uint32_t *chosen;      /* of TOPK: room for the indices of one tensor, */
    uint32_t *work;        /* and for choosing them */
    float *rows;           /* of each rank a piece of a tensor, and */
    const void **rows_of;  /* where that is */
    const uint8_t **parts; /* of each rank the part of a tensor in its message */
    size_t *next;          /* of each rank, in TOPK: its next pair */
};

/* How many elements of a tensor TOPK sends: the share, rounded up, at least one of any. */
size_t kolo_compressed_chosen(double share, size_t count);

/* Bytes that one tensor takes in a message. */
size_t kolo_compressed_bytes(kolo_compression kind, double share, size_t count);

/* Allocates what messages of up to message_bytes need, the longest tensor of which has count_max elements: all memory
 * that the following calls use. KOLO_ERR_SYSTEM: out of memory. kolo_compressed_free frees it, also if only a part was
 * allocated; `*compressed` zeroed is empty. */
int kolo_compressed_allocate(struct kolo_compressed *compressed, const kolo_comm *comm, kolo_compression kind,
                             double share, size_t message_bytes, size_t count_max);
void kolo_compressed_free(struct kolo_compressed *compressed);

/* How many bytes that has allocated. */
size_t kolo_compressed_memory(const struct kolo_compressed *compressed, size_t count_max);

/* recv of every tensor = op, SUM or AVG, over all ranks of what their messages for `send` stand for. All ranks pass
 * tensors of the same counts. The calling thread has the communicator, as in a kolo_carry_out_fn. Blocks; errors as
 * kolo_allreduce, and then recv and the residuals are undefined. */
int kolo_compressed_reduce(struct kolo_compressed *compressed, kolo_comm *comm,
                           const struct kolo_compressed_tensor *tensors, size_t count, kolo_op op);

#endif
