/* Names and sizes of the public enumerations, one table each. */
#include "kolo.h"

#define TEXT(x)   #x
#define STRING(x) TEXT(x)

static const struct {
    const char *name;
    size_t bytes;
} dtypes[KOLO_DTYPES] = {
    [KOLO_I8] = {"i8", 1},   [KOLO_U8] = {"u8", 1},     [KOLO_I16] = {"i16", 2}, [KOLO_U16] = {"u16", 2},
    [KOLO_I32] = {"i32", 4}, [KOLO_U32] = {"u32", 4},   [KOLO_I64] = {"i64", 8}, [KOLO_U64] = {"u64", 8},
    [KOLO_F16] = {"f16", 2}, [KOLO_BF16] = {"bf16", 2}, [KOLO_F32] = {"f32", 4}, [KOLO_F64] = {"f64", 8},
};

static const struct {
    const char *name;
    int integers_only;
} ops[KOLO_OPS] = {
    [KOLO_SUM] = {"sum", 0}, [KOLO_PROD] = {"prod", 0}, [KOLO_MIN] = {"min", 0}, [KOLO_MAX] = {"max", 0},
    [KOLO_AVG] = {"avg", 0}, [KOLO_BAND] = {"band", 1}, [KOLO_BOR] = {"bor", 1}, [KOLO_BXOR] = {"bxor", 1},
};

static const char *const algorithms[KOLO_ALGORITHMS] = {
    [KOLO_ALGORITHM_AUTO] = "auto", [KOLO_ALGORITHM_ONESHOT] = "oneshot", [KOLO_ALGORITHM_MESH] = "mesh",
    [KOLO_ALGORITHM_RING] = "ring", [KOLO_ALGORITHM_CENTRAL] = "central", [KOLO_ALGORITHM_DIRECT] = "direct",
    [KOLO_ALGORITHM_TREE] = "tree",
};

static const char *const collectives[KOLO_COLLECTIVES] = {
    [KOLO_BARRIER] = "barrier",
    [KOLO_BROADCAST] = "broadcast",
    [KOLO_ALLREDUCE] = "allreduce",
    [KOLO_ALLGATHER] = "allgather",
    [KOLO_ALLGATHERV] = "allgatherv",
    [KOLO_REDUCE] = "reduce",
    [KOLO_REDUCE_SCATTER] = "reduce_scatter",
    [KOLO_REDUCE_SCATTERV] = "reduce_scatterv",
    [KOLO_GATHER] = "gather",
    [KOLO_GATHERV] = "gatherv",
    [KOLO_SCATTER] = "scatter",
    [KOLO_SCATTERV] = "scatterv",
    [KOLO_ALLTOALL] = "alltoall",
    [KOLO_ALLTOALLV] = "alltoallv",
    [KOLO_SCAN] = "scan",
    [KOLO_EXSCAN] = "exscan",
    [KOLO_ALLOC] = "alloc",
    [KOLO_FREE] = "free",
    [KOLO_SPLIT] = "split",
    [KOLO_DUP] = "dup",
    [KOLO_GROW] = "grow",
};

static const char *const statuses[] = {
    [-KOLO_OK] = "success",
    [-KOLO_ERR_ARG] = "invalid argument",
    [-KOLO_ERR_SYSTEM] = "system call failed",
    [-KOLO_ERR_NO_SPACE] = "no space for shared memory",
    [-KOLO_ERR_TIMEOUT] = "timeout",
    [-KOLO_ERR_PEER_DEAD] = "peer dead",
    [-KOLO_ERR_MISMATCH] = "ranks disagree",
    [-KOLO_ERR_ABORTED] = "aborted",
    [-KOLO_ERR_VERSION] = "incompatible version",
    [-KOLO_ERR_UNSUPPORTED] = "not supported",
    [-KOLO_ERR_STATE] = "communicator unusable",
};

const char *kolo_strerror(int status) {
    const size_t count = sizeof statuses / sizeof statuses[0];
    return status <= 0 && status > -(int)count ? statuses[-status] : "unknown status";
}

const char *kolo_version(void) {
    return STRING(KOLO_VERSION_MAJOR) "." STRING(KOLO_VERSION_MINOR) "." STRING(KOLO_VERSION_PATCH);
}

const char *kolo_dtype_name(kolo_dtype dtype) {
    return (unsigned)dtype < KOLO_DTYPES ? dtypes[dtype].name : NULL;
}

size_t kolo_dtype_bytes(kolo_dtype dtype) {
    return (unsigned)dtype < KOLO_DTYPES ? dtypes[dtype].bytes : 0;
}

const char *kolo_op_name(kolo_op op) {
    return (unsigned)op < KOLO_OPS ? ops[op].name : NULL;
}

int kolo_op_supports(kolo_op op, kolo_dtype dtype) {
    if ((unsigned)op >= KOLO_OPS || (unsigned)dtype >= KOLO_DTYPES)
        return 0;
    return dtype < KOLO_F16 || !ops[op].integers_only;
}

const char *kolo_algorithm_name(kolo_algorithm algorithm) {
    return (unsigned)algorithm < KOLO_ALGORITHMS ? algorithms[algorithm] : NULL;
}

const char *kolo_collective_name(kolo_collective collective) {
    return (unsigned)collective < KOLO_COLLECTIVES ? collectives[collective] : NULL;
}
