/* What calls take and return: errors, element types, reductions, algorithms. Part of kolo.h, which
 * says what holds for all calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_TYPES_H
#define KOLO_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && defined(__cplusplus)
#define KOLO_API extern "C" __attribute__((visibility("default")))
#elif defined(__GNUC__)
#define KOLO_API __attribute__((visibility("default")))
#elif defined(__cplusplus)
#define KOLO_API extern "C"
#else
#define KOLO_API
#endif

enum {
    KOLO_OK = 0,
    KOLO_ERR_ARG = -1,         /* an argument, option or environment variable is wrong; nothing was done */
    KOLO_ERR_SYSTEM = -2,      /* a system call failed */
    KOLO_ERR_NO_SPACE = -3,    /* no room for the shared segment */
    KOLO_ERR_TIMEOUT = -4,     /* a peer did not come before the deadline */
    KOLO_ERR_PEER_DEAD = -5,   /* a peer ended, or left the communicator, while it was still needed */
    KOLO_ERR_MISMATCH = -6,    /* ranks made different calls, or have different settings */
    KOLO_ERR_ABORTED = -7,     /* a rank called kolo_comm_abort */
    KOLO_ERR_VERSION = -8,     /* ranks run versions of kolo that cannot share a segment */
    KOLO_ERR_UNSUPPORTED = -9, /* legal, but not available in this build or on this machine; nothing was done */
    KOLO_ERR_STATE = -10       /* the communicator is broken, or was inherited through fork */
};

/* Element types. F16 is IEEE binary16, BF16 the upper half of a binary32. Both are accumulated in binary32 and rounded
 * once, to nearest, ties to even. */
typedef enum kolo_dtype {
    KOLO_I8,
    KOLO_U8,
    KOLO_I16,
    KOLO_U16,
    KOLO_I32,
    KOLO_U32,
    KOLO_I64,
    KOLO_U64,
    KOLO_F16,
    KOLO_BF16,
    KOLO_F32,
    KOLO_F64,
    KOLO_DTYPES,     /* how many there are */
    KOLO_OPAQUE = 31 /* elements of an operation of kolo_op_create, whatever they are; for no other call */
} kolo_dtype;

/* Reductions. Integer overflow wraps. AVG divides the sum, in the type of accumulation, by the number of ranks
 * (integers: toward zero). MIN and MAX order -0 below +0 and return NaN if any input is NaN. A NaN in a result of two
 * or more ranks is always the dtype's positive quiet NaN without payload. BAND, BOR and BXOR are for integers only.
 * SUM_EXACT, for floats only, is the correctly rounded sum: the element nearest to the true sum of all inputs, ties to
 * even, whatever their order, the algorithm, and which ranks share a machine. Nothing is rounded on the way: F16 and
 * BF16 are rounded once, from the true sum, and a result is infinite only if that is too large (or an input is), though
 * a part of it may have been. Infinities and NaNs are as with SUM, and so is -0. */
typedef enum kolo_op {
    KOLO_SUM,
    KOLO_PROD,
    KOLO_MIN,
    KOLO_MAX,
    KOLO_AVG,
    KOLO_BAND,
    KOLO_BOR,
    KOLO_BXOR,
    KOLO_SUM_EXACT,
    KOLO_OPS,              /* how many there are */
    KOLO_OPS_OWN = 1 << 30 /* from here on: of kolo_op_create */
} kolo_op;

/* How a collective moves its data. AUTO chooses by collective, message size, number of ranks and dtype. */
typedef enum kolo_algorithm {
    KOLO_ALGORITHM_AUTO,
    KOLO_ALGORITHM_ONESHOT, /* every rank reads what it needs from the ranks that have it, and reduces all of it; small
                               messages as by NCCL's LL protocol */
    KOLO_ALGORITHM_MESH,    /* two-shot: direct reduce-scatter, then direct all-gather */
    KOLO_ALGORITHM_RING,    /* 2(N-1) steps between neighbours; float sums associate in ring order */
    KOLO_ALGORITHM_CENTRAL, /* a parameter server's all-reduce: rank 0 reduces for all */
    KOLO_ALGORITHM_DIRECT,  /* without copies, where all buffers are of kolo_alloc; elsewhere as AUTO, which may choose
                               it where ranks can read each other's memory: see KOLO_SINGLE_COPY */
    KOLO_ALGORITHM_TREE,    /* mesh within groups of near ranks, then between the groups; see KOLO_ALGO */
    KOLO_ALGORITHMS         /* how many there are */
} kolo_algorithm;

/* One of a list of tensors that a call takes in place of one buffer. */
typedef struct kolo_tensor {
    void *data;   /* any alignment; NULL only with count 0 */
    size_t count; /* elements */
} kolo_tensor;

typedef enum kolo_collective {
    KOLO_BARRIER,
    KOLO_BROADCAST,
    KOLO_ALLREDUCE,
    KOLO_ALLGATHER,
    KOLO_ALLGATHERV,
    KOLO_REDUCE,
    KOLO_REDUCE_SCATTER,
    KOLO_REDUCE_SCATTERV,
    KOLO_GATHER,
    KOLO_GATHERV,
    KOLO_SCATTER,
    KOLO_SCATTERV,
    KOLO_ALLTOALL,
    KOLO_ALLTOALLV,
    KOLO_SCAN,
    KOLO_EXSCAN,
    KOLO_ALLREDUCE_APPLY,
    KOLO_ALLREDUCE_MANY,
    KOLO_ALLOC,
    KOLO_FREE,
    KOLO_SPLIT,
    KOLO_DUP,
    KOLO_GROW,
    KOLO_SHARE,
    KOLO_SEND, /* these two are no collectives, but have a name and a number, too */
    KOLO_RECV,
    KOLO_TABLE,      /* a part of making, setting or loading a table: the part's own memory and status */
    KOLO_COLLECTIVES /* how many there are */
} kolo_collective;

/* Enumerations whose values kolo_name names: kolo_name(KOLO_NAME_ALGORITHM, KOLO_ALGORITHM_MESH) is "mesh". */
typedef enum kolo_named {
    KOLO_NAME_COLLECTIVE,  /* "allreduce", ... */
    KOLO_NAME_ALGORITHM,   /* "mesh", ... */
    KOLO_NAME_COMPRESSION, /* of kolo_fusion.h: "none", "bf16", "f16", "topk", "onebit" */
    KOLO_NAME_TABLE_RULE,  /* of kolo_table.h: "assign", "add", ... */
    KOLO_NAME_PLACEMENT,   /* of kolo_table.h: "range", ... */
    KOLO_NAME_DTYPE,       /* "f32", ... */
    KOLO_NAME_OP           /* "sum", ...; "own operation" */
} kolo_named;

/* Names are constant strings; NULL where there is no such value. Never fail, never block. */
KOLO_API const char *kolo_strerror(int status);              /* "timeout", ...; never NULL */
KOLO_API const char *kolo_version(void);                     /* "0.1.0" */
KOLO_API size_t kolo_dtype_bytes(kolo_dtype dtype);          /* of one element; 0: no such dtype, or OPAQUE */
KOLO_API const char *kolo_name(kolo_named of, int value);    /* of a value of the enumeration `of` */
KOLO_API int kolo_op_supports(kolo_op op, kolo_dtype dtype); /* 1 or 0 */

/* What went wrong in the calling thread's last failed call: names the value, the rank and what to do. Never NULL; valid
 * until the thread's next call that fails. */
KOLO_API const char *kolo_error_message(void);

#endif
