/* The predefined operations and datatypes that kolo knows. Each family of MPIs has a table of their handles
 * (constants_*.c), and types/ says what is done with them.
 *
 * KIND is what a datatype's elements are, BYTES the size of one where Fortran has its default sizes. */
#pragma once

#include <stddef.h>

enum mpi_kind {
    MPI_KIND_NONE,
    MPI_KIND_TEXT,   /* that no operation is for */
    MPI_KIND_BYTE,   /* bits alone */
    MPI_KIND_CHAR,   /* text to the standard, but MPIs reduce it as an integer, and OSU's benchmarks have them do so */
    MPI_KIND_SIGNED, /* integers of C */
    MPI_KIND_UNSIGNED,
    MPI_KIND_INTEGER, /* those of Fortran, and addresses and counts: signed, and without logical operations */
    MPI_KIND_FLOATING,
    MPI_KIND_COMPLEX,
    MPI_KIND_LOGICAL,
    MPI_KIND_PAIR,        /* a value and an int */
    MPI_KIND_FORTRAN_PAIR /* a value and an index of the same type */
};

#define MPI_OP_NAMES(X) X(SUM) X(PROD) X(MIN) X(MAX) X(LAND) X(LOR) X(LXOR) X(BAND) X(BOR) X(BXOR) X(MINLOC) X(MAXLOC)

#define MPI_TYPE_NAMES(X)                                                                                              \
    X(CHAR, CHAR, 1)                                                                                                   \
    X(WCHAR, TEXT, sizeof(wchar_t))                                                                                    \
    X(CHARACTER, TEXT, 1)                                                                                              \
    X(PACKED, TEXT, 1)                                                                                                 \
    X(BYTE, BYTE, 1)                                                                                                   \
    X(SIGNED_CHAR, SIGNED, 1)                                                                                          \
    X(SHORT, SIGNED, sizeof(short))                                                                                    \
    X(INT, SIGNED, sizeof(int))                                                                                        \
    X(LONG, SIGNED, sizeof(long))                                                                                      \
    X(LONG_LONG, SIGNED, sizeof(long long))                                                                            \
    X(INT8_T, SIGNED, 1)                                                                                               \
    X(INT16_T, SIGNED, 2)                                                                                              \
    X(INT32_T, SIGNED, 4)                                                                                              \
    X(INT64_T, SIGNED, 8)                                                                                              \
    X(UNSIGNED_CHAR, UNSIGNED, 1)                                                                                      \
    X(UNSIGNED_SHORT, UNSIGNED, sizeof(short))                                                                         \
    X(UNSIGNED, UNSIGNED, sizeof(int))                                                                                 \
    X(UNSIGNED_LONG, UNSIGNED, sizeof(long))                                                                           \
    X(UNSIGNED_LONG_LONG, UNSIGNED, sizeof(long long))                                                                 \
    X(UINT8_T, UNSIGNED, 1)                                                                                            \
    X(UINT16_T, UNSIGNED, 2)                                                                                           \
    X(UINT32_T, UNSIGNED, 4)                                                                                           \
    X(UINT64_T, UNSIGNED, 8)                                                                                           \
    X(AINT, INTEGER, sizeof(void *))                                                                                   \
    X(COUNT, INTEGER, 8)                                                                                               \
    X(OFFSET, INTEGER, 8)                                                                                              \
    X(INTEGER, INTEGER, 4)                                                                                             \
    X(INTEGER1, INTEGER, 1)                                                                                            \
    X(INTEGER2, INTEGER, 2)                                                                                            \
    X(INTEGER4, INTEGER, 4)                                                                                            \
    X(INTEGER8, INTEGER, 8)                                                                                            \
    X(FLOAT, FLOATING, 4)                                                                                              \
    X(DOUBLE, FLOATING, 8)                                                                                             \
    X(LONG_DOUBLE, FLOATING, sizeof(long double))                                                                      \
    X(C_FLOAT16, FLOATING, 2)                                                                                          \
    X(REAL, FLOATING, 4)                                                                                               \
    X(DOUBLE_PRECISION, FLOATING, 8)                                                                                   \
    X(REAL2, FLOATING, 2)                                                                                              \
    X(REAL4, FLOATING, 4)                                                                                              \
    X(REAL8, FLOATING, 8)                                                                                              \
    X(C_FLOAT_COMPLEX, COMPLEX, 8)                                                                                     \
    X(C_DOUBLE_COMPLEX, COMPLEX, 16)                                                                                   \
    X(C_LONG_DOUBLE_COMPLEX, COMPLEX, 2 * sizeof(long double))                                                         \
    X(CXX_FLOAT_COMPLEX, COMPLEX, 8)                                                                                   \
    X(CXX_DOUBLE_COMPLEX, COMPLEX, 16)                                                                                 \
    X(CXX_LONG_DOUBLE_COMPLEX, COMPLEX, 2 * sizeof(long double))                                                       \
    X(COMPLEX, COMPLEX, 8)                                                                                             \
    X(DOUBLE_COMPLEX, COMPLEX, 16)                                                                                     \
    X(COMPLEX8, COMPLEX, 8)                                                                                            \
    X(COMPLEX16, COMPLEX, 16)                                                                                          \
    X(C_BOOL, LOGICAL, 1)                                                                                              \
    X(CXX_BOOL, LOGICAL, 1)                                                                                            \
    X(LOGICAL, LOGICAL, 4)                                                                                             \
    X(LOGICAL1, LOGICAL, 1)                                                                                            \
    X(LOGICAL2, LOGICAL, 2)                                                                                            \
    X(LOGICAL4, LOGICAL, 4)                                                                                            \
    X(LOGICAL8, LOGICAL, 8)                                                                                            \
    X(FLOAT_INT, PAIR, sizeof(float) + sizeof(int))                                                                    \
    X(DOUBLE_INT, PAIR, sizeof(double) + sizeof(int))                                                                  \
    X(LONG_INT, PAIR, sizeof(long) + sizeof(int))                                                                      \
    X(SHORT_INT, PAIR, sizeof(short) + sizeof(int))                                                                    \
    X(2INT, PAIR, 2 * sizeof(int))                                                                                     \
    X(LONG_DOUBLE_INT, PAIR, sizeof(long double) + sizeof(int))                                                        \
    X(2INTEGER, FORTRAN_PAIR, 8)                                                                                       \
    X(2REAL, FORTRAN_PAIR, 8)                                                                                          \
    X(2DOUBLE_PRECISION, FORTRAN_PAIR, 16)

#define MPI_OP_INDEX(name)                MPI_OP_##name##_INDEX,
#define MPI_TYPE_INDEX(name, kind, bytes) MPI_TYPE_##name##_INDEX,
enum mpi_op_index { MPI_OP_NAMES(MPI_OP_INDEX) MPI_OPS };
enum mpi_type_index { MPI_TYPE_NAMES(MPI_TYPE_INDEX) MPI_TYPES };
