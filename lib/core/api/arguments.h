/* The arguments of a call, and the checks of them. */
#ifndef KOLO_API_ARGUMENTS_H
#define KOLO_API_ARGUMENTS_H

#include "algo/registry.h"

/* More elements than memory can hold, of any size, so that no number of bytes overflows. */
#define KOLO_COUNT_MAX (SIZE_MAX / (2 * KOLO_OP_ELEMENT_BYTES_MAX))

/* The arguments that the caller passes. */
struct kolo_arguments {
    const void *send;
    void *recv;
    size_t count; /* as in struct kolo_message; set by kolo_arguments_resolve where the blocks' counts say it */
    kolo_dtype dtype;
    kolo_op op; /* SUM for a collective without one */
    int root;   /* 0 likewise */
    struct kolo_blocks send_blocks, recv_blocks;
    struct kolo_apply apply;    /* of a collective that applies it */
    const kolo_kernel *kernel;  /* of a call in the background */
    uint64_t opaque;            /* kolo_call_opaque; 0: the dtype says all */
    bool by_lane;               /* a call of kolo_lanes.h */
    const kolo_tensor *tensors; /* where the collective has them; then `count` is found in the check */
    size_t ntensors;
    uint64_t
        digest; /* of what all ranks have to pass alike besides; of tensors and of blocks' counts found in the check */
    struct kolo_items items;     /* the same for messages; `item` NULL: the tensors, the blocks' counts, or nothing */
    kolo_run_function *function; /* of kolo_irun, and no collective; `recv` is its argument */
};

/* The arguments of a call, as a literal: the compiler would copy a function's result. */
#define WITH_COUNT(send_, recv_, count_, dtype_, op_, root_)                                                           \
    ((struct kolo_arguments){                                                                                          \
        .send = (send_), .recv = (recv_), .count = (count_), .dtype = (dtype_), .op = (op_), .root = (root_)})
#define WITH_COUNTS(send_, recv_, count_, dtype_, op_, root_, send_counts_, send_offsets_, recv_counts_,               \
                    recv_offsets_)                                                                                     \
    ((struct kolo_arguments){.send = (send_),                                                                          \
                             .recv = (recv_),                                                                          \
                             .count = (count_),                                                                        \
                             .dtype = (dtype_),                                                                        \
                             .op = (op_),                                                                              \
                             .root = (root_),                                                                          \
                             .send_blocks = {(send_counts_), (send_offsets_)},                                         \
                             .recv_blocks = {(recv_counts_), (recv_offsets_)}})

#define WITH_TENSORS(tensors_, ntensors_, dtype_, op_)                                                                 \
    ((struct kolo_arguments){.dtype = (dtype_), .op = (op_), .tensors = (tensors_), .ntensors = (ntensors_)})

/* Checks a call of a collective with blocks, whose dtype and op are legal, with elements of that size. Fills in where
 * blocks begin: in offsets[0] those to send, in offsets[1] those to receive, which have room for a number per rank. 0
 * or KOLO_ERR_ARG. */
int kolo_arguments_resolve(const struct kolo_descriptor *descriptor, const kolo_comm *comm, struct kolo_arguments *call,
                           size_t element_bytes, size_t *const *offsets);

/* Fails with the fault of a call whose dtype or op is not legal (element_bytes 0); or, if no buffer has blocks, with
 * any other fault. */
__attribute__((cold)) int kolo_arguments_explain(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                                 const struct kolo_arguments *call, size_t element_bytes);

/* The kernel for a call with an operation of kolo_op_create; NULL where no such operation exists, or it does not take
 * this dtype. Fills in the rest of what the call's word says of the operation. */
const kolo_kernel *kolo_arguments_own_kernel(struct kolo_arguments *call);

/* Makes a call of a collective, or issues it for the background. Functions outside api/collectives.c begin here. */
int kolo_collective_make(kolo_collective collective, kolo_comm *comm, const struct kolo_arguments *call);
int kolo_collective_issue(kolo_collective collective, const char *function, kolo_comm *comm,
                          const struct kolo_arguments *call, kolo_request **request);

/* Completes the arguments of a kolo_allreduce_apply, and makes the checks that no other collective has. 0 or
 * KOLO_ERR_ARG. */
int kolo_apply_arguments(const char *function, const kolo_comm *comm, struct kolo_arguments *call);

/* Checks a list of tensors, with elements of that size, and fills in the fields that follow from it. 0 or
 * KOLO_ERR_ARG. */
int kolo_arguments_count_tensors(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                 struct kolo_arguments *call);

/* The description of a legal call that the ranks compare: its word, and its detail (comm/step/call_word.h). */
struct kolo_told {
    uint64_t word, detail;
};

/* The counts or tensors that all ranks have to pass alike, of a collective that has some. They refer to the call. */
struct kolo_items kolo_arguments_items(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                       const struct kolo_arguments *call);

struct kolo_told kolo_arguments_told(const struct kolo_descriptor *descriptor, const struct kolo_arguments *call);

#endif
