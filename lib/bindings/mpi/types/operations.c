/* A table of operations and datatypes, filled once. Operations of here are made then, too, and shared by all datatypes
 * that have the same elements: a process can have only so many. */
#include "types/operations.h"

#include <limits.h>

#include "types/handle_map.h"

enum { OWN_MAX = KOLO_OPS_OWN_MAX };

static struct mpi_reduction table[MPI_TYPES][MPI_OPS];
static struct mpi_handle_map ops;

static struct {
    kolo_op_function function;
    kolo_op op;
} own[OWN_MAX];

/* The dtype of numbers of that kind and size, or KOLO_DTYPES. */
static kolo_dtype find_dtype(enum mpi_kind kind, size_t bytes) {
    static const kolo_dtype is_signed[9] = {[1] = KOLO_I8, [2] = KOLO_I16, [4] = KOLO_I32, [8] = KOLO_I64};
    static const kolo_dtype is_unsigned[9] = {[1] = KOLO_U8, [2] = KOLO_U16, [4] = KOLO_U32, [8] = KOLO_U64};
    switch (kind) {
    case MPI_KIND_CHAR:
    case MPI_KIND_SIGNED:
    case MPI_KIND_INTEGER:
        return is_signed[bytes];
    case MPI_KIND_UNSIGNED:
    case MPI_KIND_BYTE:
        return is_unsigned[bytes];
    case MPI_KIND_FLOATING:
        return bytes == 2 ? KOLO_F16 : bytes == 4 ? KOLO_F32 : bytes == 8 ? KOLO_F64 : KOLO_DTYPES;
    default:
        return KOLO_DTYPES;
    }
}

/* KOLO_OPS: kolo has no such operation for that kind. */
static kolo_op find_op(enum mpi_op_index op, enum mpi_kind kind) {
    const bool is_byte = kind == MPI_KIND_BYTE, is_float = kind == MPI_KIND_FLOATING;
    /* Where char has no sign, MPICH compares without one and Open MPI with one. */
    const bool is_ordered = !is_byte && (kind != MPI_KIND_CHAR || CHAR_MIN < 0);
    switch (op) {
    case MPI_OP_SUM_INDEX:
        return is_byte ? KOLO_OPS : KOLO_SUM;
    case MPI_OP_PROD_INDEX:
        return is_byte ? KOLO_OPS : KOLO_PROD;
    case MPI_OP_MIN_INDEX:
        return is_ordered ? KOLO_MIN : KOLO_OPS;
    case MPI_OP_MAX_INDEX:
        return is_ordered ? KOLO_MAX : KOLO_OPS;
    case MPI_OP_BAND_INDEX:
        return is_float ? KOLO_OPS : KOLO_BAND;
    case MPI_OP_BOR_INDEX:
        return is_float ? KOLO_OPS : KOLO_BOR;
    case MPI_OP_BXOR_INDEX:
        return is_float ? KOLO_OPS : KOLO_BXOR;
    default:
        return KOLO_OPS;
    }
}

static int make_own(struct mpi_own_function wanted, struct mpi_reduction *reduction) {
    int i = 0;
    while (i < OWN_MAX && own[i].function && own[i].function != wanted.function)
        i++;
    if (i == OWN_MAX)
        return KOLO_ERR_UNSUPPORTED;
    if (!own[i].function) {
        const int rc = kolo_op_create(&own[i].op, wanted.function, NULL, wanted.bytes, KOLO_OP_COMMUTATIVE);
        if (rc < 0)
            return rc;
        own[i].function = wanted.function;
    }
    *reduction = (struct mpi_reduction){.op = own[i].op, .dtype = KOLO_OPAQUE, .parts = wanted.parts};
    return 0;
}

static int fill(const struct mpi_type *type, enum mpi_op_index op, struct mpi_reduction *reduction) {
    const bool is_complex_sum = type->kind == MPI_KIND_COMPLEX && op == MPI_OP_SUM_INDEX && type->bytes <= 16;
    const enum mpi_kind kind = is_complex_sum ? MPI_KIND_FLOATING : type->kind;
    const uint32_t parts = is_complex_sum ? 2 : 1;
    const kolo_dtype dtype = find_dtype(kind, type->bytes / parts);
    const kolo_op known = find_op(op, kind);
    const struct mpi_own_function wanted = mpi_own_function_find(op, type);
    int rc = 0;
    if (dtype != KOLO_DTYPES && known != KOLO_OPS)
        *reduction = (struct mpi_reduction){.op = known, .dtype = dtype, .parts = parts};
    else if (wanted.function)
        rc = make_own(wanted, reduction);
    reduction->bytes = (uint32_t)type->extent;
    return rc;
}

int mpi_operations_setup(void) {
    for (int op = 0; op < MPI_OPS; op++)
        mpi_handle_map_add(&ops, mpi_host.is.ops[op], (unsigned)op);
    for (int i = 0; i < MPI_TYPES; i++) {
        const struct mpi_type *const type = mpi_host.is.types[i] ? mpi_type_find(mpi_host.is.types[i]) : NULL;
        if (!type || type->index != (enum mpi_type_index)i)
            continue;
        for (int op = 0; op < MPI_OPS; op++) {
            const int rc = fill(type, (enum mpi_op_index)op, &table[i][op]);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

const char *mpi_operation_name(mpi_word op) {
#define OP_TEXT(name) "MPI_" #name,
    static const char *const names[MPI_OPS] = {MPI_OP_NAMES(OP_TEXT)};
    unsigned index;
    return mpi_handle_map_find(&ops, op & mpi_host.handle_mask, &index) ? names[index] : NULL;
}

const struct mpi_reduction *mpi_reduction_find(mpi_word type_handle, mpi_word op_handle) {
    const struct mpi_type *const type = mpi_type_passed(type_handle);
    unsigned op;
    if (!type || !mpi_handle_map_find(&ops, op_handle & mpi_host.handle_mask, &op))
        return NULL;
    const struct mpi_reduction *const reduction = &table[type->index][op];
    return reduction->parts ? reduction : NULL;
}
