/* What a collective is, what its caller passes, and whether that is legal. */
#ifndef KOLO_API_ARGUMENTS_H
#define KOLO_API_ARGUMENTS_H

#include "algo/algo.h"

/* More elements than memory can hold, of any dtype; no number of bytes overflows. */
#define KOLO_COUNT_MAX (SIZE_MAX / 16)

/* What a buffer holds, in elements: `count`; a block of `count` for each rank; or blocks of any length. */
enum shape { WHOLE, BLOCKS, COUNTED };

/* What a collective is. */
struct kolo_descriptor {
    const char *function;
    kolo_collective collective;
    bool has_op;   /* it reduces */
    bool has_root; /* a rank that all name */
    enum shape send, recv;
    bool send_at_root, recv_at_root; /* that only the root has */
    bool is_unequal;                 /* the counts of blocks are known to their sender and receiver alone */

    kolo_lines_fn *lines;                     /* messages that fit lines; NULL: none go there */
    kolo_run_fn *algorithms[KOLO_ALGORITHMS]; /* what the plan chooses from */
    kolo_run_fn *direct;                      /* tried first where buffers may be kolo_alloc's; NULL: there is none */
};

/* What the caller passes. */
struct kolo_arguments {
    const void *send;
    void *recv;
    size_t count; /* as in struct kolo_message; set by kolo_arguments_resolve where the blocks' counts say it */
    kolo_dtype dtype;
    kolo_op op; /* SUM for a collective without one */
    int root;   /* 0 likewise */
    struct kolo_blocks send_blocks, recv_blocks;
};

/* For a collective with blocks, and legal dtype and op: checks the rest, and fills in where blocks begin: in offsets[0]
 * those to send, in offsets[1] those to receive, which have room for a number a rank. 0 or KOLO_ERR_ARG. */
int kolo_arguments_resolve(const struct kolo_descriptor *descriptor, const kolo_comm *comm, struct kolo_arguments *call,
                           size_t *const *offsets);

/* Fails with what is wrong with a call whose dtype or op, or, if no buffer has blocks, anything else is not legal. */
__attribute__((cold)) int kolo_arguments_explain(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                                 const struct kolo_arguments *call);

/* What stands for the count in the word of a call whose blocks have counts that all ranks know. */
size_t kolo_arguments_digest(const size_t *counts, uint32_t ranks);

#endif
