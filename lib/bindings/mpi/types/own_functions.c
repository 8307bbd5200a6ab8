/* The functions, from a template for each kind, and which of them is for what. */
#include "types/operations.h"

#include <complex.h>

#define INTEGER  uint8_t
#define NAME(op) logical1_##op
#include "types/own_logical_template.h"
#define INTEGER  uint16_t
#define NAME(op) logical2_##op
#include "types/own_logical_template.h"
#define INTEGER  uint32_t
#define NAME(op) logical4_##op
#include "types/own_logical_template.h"
#define INTEGER  uint64_t
#define NAME(op) logical8_##op
#include "types/own_logical_template.h"

#define VALUE    float
#define INDEX    int
#define NAME(op) float_##op
#include "types/own_pair_template.h"
#define VALUE    double
#define INDEX    int
#define NAME(op) double_##op
#include "types/own_pair_template.h"
#define VALUE    long
#define INDEX    int
#define NAME(op) long_##op
#include "types/own_pair_template.h"
#define VALUE    short
#define INDEX    int
#define NAME(op) short_##op
#include "types/own_pair_template.h"
#define VALUE    int
#define INDEX    int
#define NAME(op) int_##op
#include "types/own_pair_template.h"
#define VALUE    long double
#define INDEX    int
#define NAME(op) long_double_##op
#include "types/own_pair_template.h"
#define VALUE    int64_t
#define INDEX    int64_t
#define NAME(op) two_integer8_##op
#include "types/own_pair_template.h"
#define VALUE    float
#define INDEX    float
#define NAME(op) two_float_##op
#include "types/own_pair_template.h"
#define VALUE    double
#define INDEX    double
#define NAME(op) two_double_##op
#include "types/own_pair_template.h"

#define FLOAT    long double
#define REAL     1
#define NAME(op) number_##op
#include "types/own_float_template.h"
#define FLOAT    float complex
#define REAL     0
#define NAME(op) complex8_##op
#include "types/own_float_template.h"
#define FLOAT    double complex
#define REAL     0
#define NAME(op) complex16_##op
#include "types/own_float_template.h"
#define FLOAT    long double complex
#define REAL     0
#define NAME(op) complex32_##op
#include "types/own_float_template.h"

static const struct mpi_own_function none = {NULL, 0, 0};

static struct mpi_own_function find_logical(enum mpi_op_index op, size_t bytes) {
    static const kolo_op_function functions[9][MPI_OPS] = {
#define LOGICAL_OPS(name)                                                                                              \
    {[MPI_OP_LAND_INDEX] = name##_and, [MPI_OP_LOR_INDEX] = name##_or, [MPI_OP_LXOR_INDEX] = name##_xor}
        [1] = LOGICAL_OPS(logical1),
        [2] = LOGICAL_OPS(logical2),
        [4] = LOGICAL_OPS(logical4),
        [8] = LOGICAL_OPS(logical8),
    };
    return (struct mpi_own_function){functions[bytes][op], bytes, 1};
}

/* Of Fortran's pairs the default types may have twice their usual size. */
static struct mpi_own_function find_pair(enum mpi_op_index op, const struct mpi_type *type) {
    static const kolo_op_function functions[MPI_TYPES][2][2] = {
#define PAIR_OPS(name) {name##_min, name##_max}
        [MPI_TYPE_FLOAT_INT_INDEX] = {PAIR_OPS(float)},
        [MPI_TYPE_DOUBLE_INT_INDEX] = {PAIR_OPS(double)},
        [MPI_TYPE_LONG_INT_INDEX] = {PAIR_OPS(long)},
        [MPI_TYPE_SHORT_INT_INDEX] = {PAIR_OPS(short)},
        [MPI_TYPE_2INT_INDEX] = {PAIR_OPS(int)},
        [MPI_TYPE_LONG_DOUBLE_INT_INDEX] = {PAIR_OPS(long_double)},
        [MPI_TYPE_2INTEGER_INDEX] = {PAIR_OPS(int), PAIR_OPS(two_integer8)},
        [MPI_TYPE_2REAL_INDEX] = {PAIR_OPS(two_float), PAIR_OPS(two_double)},
        [MPI_TYPE_2DOUBLE_PRECISION_INDEX] = {PAIR_OPS(two_double), PAIR_OPS(two_double)},
    };
    const size_t bytes = (size_t)type->extent;
    const bool is_double = type->kind == MPI_KIND_FORTRAN_PAIR && bytes > 8;
    if (op != MPI_OP_MINLOC_INDEX && op != MPI_OP_MAXLOC_INDEX)
        return none;
    return (struct mpi_own_function){functions[type->index][is_double][op == MPI_OP_MAXLOC_INDEX], bytes, 1};
}

static struct mpi_own_function find_long_double(enum mpi_op_index op, uint32_t parts) {
    const size_t bytes = sizeof(long double);
    switch (op) {
    case MPI_OP_SUM_INDEX:
        return (struct mpi_own_function){number_sum, bytes, parts};
    case MPI_OP_PROD_INDEX:
        return (struct mpi_own_function){number_prod, bytes, parts};
    case MPI_OP_MIN_INDEX:
        return (struct mpi_own_function){number_min, bytes, parts};
    case MPI_OP_MAX_INDEX:
        return (struct mpi_own_function){number_max, bytes, parts};
    default:
        return none;
    }
}

static struct mpi_own_function find_complex(enum mpi_op_index op, size_t bytes) {
    if (op == MPI_OP_SUM_INDEX && bytes == 2 * sizeof(long double))
        return find_long_double(op, 2);
    if (op != MPI_OP_PROD_INDEX)
        return none;
    return (struct mpi_own_function){bytes == 8    ? complex8_prod
                                     : bytes == 16 ? complex16_prod
                                                   : complex32_prod,
                                     bytes, 1};
}

struct mpi_own_function mpi_own_function_find(enum mpi_op_index op, const struct mpi_type *type) {
    switch (type->kind) {
    case MPI_KIND_CHAR:
    case MPI_KIND_SIGNED:
    case MPI_KIND_UNSIGNED:
    case MPI_KIND_LOGICAL:
        return find_logical(op, type->bytes);
    case MPI_KIND_PAIR:
    case MPI_KIND_FORTRAN_PAIR:
        return find_pair(op, type);
    case MPI_KIND_FLOATING:
        return type->bytes == sizeof(long double) && type->bytes > 8 ? find_long_double(op, 1) : none;
    case MPI_KIND_COMPLEX:
        return find_complex(op, type->bytes);
    default:
        return none;
    }
}
