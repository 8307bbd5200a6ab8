/* Names and sizes of the public enumerations, one table each, and the operations that programs add. */
#include "kolo_fusion.h"
#include "kolo_table.h"
#include "kolo_tools.h"
#include "algo/registry.h"
#include "reduce/own_ops.h"

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

enum { ANY_NUMBERS, INTEGERS, FLOATS };

static const struct {
    const char *name;
    int numbers; /* that it takes */
} ops[KOLO_OPS] = {
    [KOLO_SUM] = {"sum", ANY_NUMBERS}, [KOLO_PROD] = {"prod", ANY_NUMBERS}, [KOLO_MIN] = {"min", ANY_NUMBERS},
    [KOLO_MAX] = {"max", ANY_NUMBERS}, [KOLO_AVG] = {"avg", ANY_NUMBERS},   [KOLO_BAND] = {"band", INTEGERS},
    [KOLO_BOR] = {"bor", INTEGERS},    [KOLO_BXOR] = {"bxor", INTEGERS},    [KOLO_SUM_EXACT] = {"sum_exact", FLOATS},
};

static const char *const algorithms[KOLO_ALGORITHMS] = {
    [KOLO_ALGORITHM_AUTO] = "auto", [KOLO_ALGORITHM_ONESHOT] = "oneshot", [KOLO_ALGORITHM_MESH] = "mesh",
    [KOLO_ALGORITHM_RING] = "ring", [KOLO_ALGORITHM_CENTRAL] = "central", [KOLO_ALGORITHM_DIRECT] = "direct",
    [KOLO_ALGORITHM_TREE] = "tree",
};

static const char *const compressions[KOLO_COMPRESSIONS] = {
    [KOLO_COMPRESSION_NONE] = "none", [KOLO_COMPRESSION_BF16] = "bf16",     [KOLO_COMPRESSION_F16] = "f16",
    [KOLO_COMPRESSION_TOPK] = "topk", [KOLO_COMPRESSION_ONEBIT] = "onebit",
};

static const char *const rules[KOLO_TABLE_RULES] = {
    [KOLO_TABLE_ASSIGN] = "assign",   [KOLO_TABLE_ADD] = "add",   [KOLO_TABLE_SGD] = "sgd",
    [KOLO_TABLE_ADAGRAD] = "adagrad", [KOLO_TABLE_ADAM] = "adam", [KOLO_TABLE_FUNCTION] = "function",
};

static const char *const placements[KOLO_PLACEMENTS] = {
    [KOLO_PLACEMENT_RANGE] = "range",
    [KOLO_PLACEMENT_ROUND_ROBIN] = "round_robin",
    [KOLO_PLACEMENT_HASH] = "hash",
    [KOLO_PLACEMENT_GREEDY] = "greedy",
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

size_t kolo_dtype_bytes(kolo_dtype dtype) {
    return (unsigned)dtype < KOLO_DTYPES ? dtypes[dtype].bytes : 0;
}

int kolo_op_supports(kolo_op op, kolo_dtype dtype) {
    if ((unsigned)op >= KOLO_OPS || (unsigned)dtype >= KOLO_DTYPES)
        return 0;
    return ops[op].numbers != (dtype < KOLO_F16 ? FLOATS : INTEGERS);
}

static const char *entry(const char *const *names, int count, int value) {
    return value >= 0 && value < count ? names[value] : NULL;
}

const char *kolo_name(kolo_named of, int value) {
    switch (of) {
    case KOLO_NAME_COLLECTIVE:
        return value >= 0 && value < KOLO_COLLECTIVES ? kolo_registry[value].function + sizeof "kolo_" - 1 : NULL;
    case KOLO_NAME_ALGORITHM:
        return entry(algorithms, KOLO_ALGORITHMS, value);
    case KOLO_NAME_COMPRESSION:
        return entry(compressions, KOLO_COMPRESSIONS, value);
    case KOLO_NAME_TABLE_RULE:
        return entry(rules, KOLO_TABLE_RULES, value);
    case KOLO_NAME_PLACEMENT:
        return entry(placements, KOLO_PLACEMENTS, value);
    case KOLO_NAME_DTYPE:
        return (unsigned)value < KOLO_DTYPES ? dtypes[value].name : value == KOLO_OPAQUE ? "opaque" : NULL;
    case KOLO_NAME_OP:
        return (unsigned)value < KOLO_OPS ? ops[value].name : value >= (int)KOLO_OPS_OWN ? "own operation" : NULL;
    default:
        return NULL;
    }
}

const struct kolo_descriptor *kolo_descriptor_of(kolo_collective collective) {
    return &kolo_registry[collective];
}

unsigned kolo_collective_has(kolo_collective collective) {
    if ((unsigned)collective >= KOLO_COLLECTIVES)
        return 0;
    const struct kolo_descriptor *row = &kolo_registry[collective];
    return (row->has_op ? KOLO_HAS_OP : 0) | (row->has_root ? KOLO_HAS_ROOT : 0) |
           (row->send == COUNTED || row->recv == COUNTED ? KOLO_HAS_COUNTS : 0) |
           (row->send != WHOLE || row->recv != WHOLE ? KOLO_HAS_BLOCKS : 0) | KOLO_HAS_CHOICE(0) * row->choices;
}

int kolo_op_create(kolo_op *op, kolo_op_function function, void *context, size_t element_bytes, unsigned flags) {
    if (!op || !function)
        return kolo_fail(KOLO_ERR_ARG, "kolo_op_create: %s is NULL", op ? "function" : "op");
    if (element_bytes == 0 || element_bytes > KOLO_OP_ELEMENT_BYTES_MAX)
        return kolo_fail(KOLO_ERR_ARG, "kolo_op_create: element_bytes %zu: must be from 1 to %d", element_bytes,
                         KOLO_OP_ELEMENT_BYTES_MAX);
    if (flags & ~KOLO_OP_COMMUTATIVE)
        return kolo_fail(KOLO_ERR_ARG, "kolo_op_create: flags %#x: must be 0, or %u for a commutative one", flags,
                         KOLO_OP_COMMUTATIVE);
    return kolo_own_op_add(op, function, context, element_bytes, flags & KOLO_OP_COMMUTATIVE);
}

int kolo_op_destroy(kolo_op op) {
    return kolo_own_op_remove(op)
               ? 0
               : kolo_fail(KOLO_ERR_ARG, "kolo_op_destroy: op %#x: no operation of kolo_op_create that exists",
                           (unsigned)op);
}
