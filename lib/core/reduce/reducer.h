/* The reduction kernels. They take plain pointers and element counts, and know no communicator.
 *
 * A kolo_reducer is one instance of every kernel for one instruction set. The portable instance is the specification;
 * each other one gives the same bits for every input. A communicator chooses its instance once, when it is made.
 *
 * Canonical order: n inputs are combined as a balanced binary tree, split at the largest power of two below
 * n: tree(x0..xn-1) = tree(first p) op tree(last n-p). F16 and BF16 are widened to f32 first and rounded once
 * at the end, to nearest, ties to even. Every NaN that a kernel stores as a result is the dtype's positive
 * quiet NaN without payload. MIN and MAX order -0 below +0 and propagate NaN. AVG divides once, by `ranks`,
 * after the last op; the division is a true division of the accumulation type (integers: C's, toward zero).
 * SUM_EXACT has no order: it adds without rounding, and rounds once, to nearest, ties to even.
 *
 * Buffers need no alignment. A destination may be the same buffer as a source (the same address), but must not overlap
 * one otherwise. Only results are stored in a destination: it may be memory in which other ranks store the same results
 * meanwhile (KOLO_ALLOC_SHARED), or have read them already. */
#pragma once

#include <stdbool.h>

#include "kolo.h"

/* The largest power of two below n: so many of n inputs are in the left part of the tree. */
static inline uint32_t kolo_tree_left(uint32_t n) {
    uint32_t left = 1;
    while (left < n - left)
        left *= 2;
    return left;
}

/* dst[i] = finish(tree(sources[0][i] .. sources[n-1][i])), i in 0 .. count-1; n from 1 to KOLO_RANKS_MAX.
 * `ranks` is AVG's divisor and is otherwise unused. The loops are in template/fold_template.h, which calls the
 * additions of vector_arithmetic.h; portable.c is the specification. */
typedef void kolo_fold_fn(void *dst, const void *const *sources, uint32_t n, size_t count, uint32_t ranks);

/* Folds two sources to two destinations: second[i] = dst[i]. Each may be one of the sources, but not both the same. */
typedef void kolo_fold_to_both_fn(void *dst, void *second, const void *const *sources, size_t count, uint32_t ranks);

/* One hop of a chain (a ring): acc_out[i] = acc_in[i] op source[i], with acc_* in the accumulation type.
 * acc_in may equal acc_out. */
typedef void kolo_chain_fn(void *acc_out, const void *acc_in, const void *source, size_t count);

/* The last hop: dst[i] = finish(acc_in[i] op source[i]), with dst in the dtype. */
typedef void kolo_chain_end_fn(void *dst, const void *acc_in, const void *source, size_t count, uint32_t ranks);

/* The first hop: acc_out[i] = source[i] in the accumulation type. */
typedef void kolo_widen_fn(void *acc_out, const void *source, size_t count);

/* Folds in parts: acc_dst[i] = tree(sources[0][i] .. sources[n-1][i]) in the accumulation type, without AVG's division;
 * n from 1 to KOLO_RANKS_MAX. The sources are of the dtype (fold_partial; a 16-bit float's must not overlap acc_dst) or
 * partial results themselves (fold_partials). Where groups of ranks in their order are all of the same power of two,
 * except the last, which may be smaller, the tree over their results is the tree over the ranks. */
typedef void kolo_fold_partial_fn(void *acc_dst, const void *const *sources, uint32_t n, size_t count);

typedef struct kolo_kernel {
    kolo_fold_fn *fold; /* NULL where the dtype lacks the op, as are all other functions except widen */
    kolo_fold_to_both_fn *fold_to_both;
    kolo_chain_fn *chain;
    kolo_chain_end_fn *chain_end;
    kolo_widen_fn *widen;
    kolo_fold_partial_fn *fold_partial;
    kolo_fold_partial_fn *fold_partials;
    kolo_fold_fn *finish; /* fold, but of partial results; a 16-bit float's must not overlap dst */
    uint32_t element_bytes;
    uint32_t acc_bytes; /* of one element of the accumulation type */
    bool is_own;        /* of kolo_op_create, without widen: reduce/own_ops.h */
    bool keeps_order;   /* and not commutative: sources must be in the order of their ranks */
    bool is_whole;      /* has no partial results but the inputs, widened: KOLO_SUM_EXACT. Then chain, chain_end and
                           fold_partials are NULL, fold_partial takes one source, and finish needs those of all ranks */
} kolo_kernel;

/* The instruction sets whose vectors kernels are made of. */
enum kolo_isa { KOLO_ISA_PORTABLE, KOLO_ISA_AVX2, KOLO_ISA_AVX512, KOLO_ISA_NEON };

typedef struct kolo_reducer {
    const char *name;  /* "portable", "avx2", "avx512", "avx512bf16", "neon" */
    enum kolo_isa isa; /* for parts of the library that have kernels of their own */
    kolo_kernel kernels[KOLO_DTYPES][KOLO_OPS];
    const struct kolo_steps *steps; /* reduce/steps/steps.h */
} kolo_reducer;

/* Returns the best instance that `features` (bits of cpu/features.h, already masked) allow; never NULL. Selects the
 * copies of reduce/copy.h, too. */
const kolo_reducer *kolo_reducer_select(uint32_t features);

/* For tests: returns instance `index`, or NULL, of all that this build has and `features` allow, portable first. */
const kolo_reducer *kolo_reducer_at(uint32_t features, uint32_t index);
