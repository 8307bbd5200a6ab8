/* Open MPI's handles: addresses of what the library has for each predefined object, ompi_mpi_*. Programs that were not
 * compiled for shared libraries have copies of those, which all use then. */
#include "host/constants.h"

#include <dlfcn.h>
#include <stdio.h>

static const struct mpi_constants numbers = {
    .family = "Open MPI",
    .handle_bytes = sizeof(mpi_word),
    .knows_sizes = true,
    .any_source = -1,
    .any_tag = -1,
    .root = -4,
    .undefined = -32766,
    .comm_type_shared = 0,
    .ident = 0,
    .combiner_named = 0,
    .combiner_dup = 1,
    .combiner_contiguous = 2,
    .combiner_f90_real = 14,
    .combiner_f90_integer = 16,
    .combiner_value_index = -1,
    .err_other = 16,
    .err_proc_failed = 75,
    .in_place = 1,
    .status_ignore = 0,
};

#define OP_NAME(name) [MPI_OP_##name##_INDEX] = #name,
static const char *const ops[MPI_OPS] = {MPI_OP_NAMES(OP_NAME)};

static const char *const types[MPI_TYPES] = {
    [MPI_TYPE_CHAR_INDEX] = "char",
    [MPI_TYPE_WCHAR_INDEX] = "wchar",
    [MPI_TYPE_CHARACTER_INDEX] = "character",
    [MPI_TYPE_PACKED_INDEX] = "packed",
    [MPI_TYPE_BYTE_INDEX] = "byte",
    [MPI_TYPE_SIGNED_CHAR_INDEX] = "signed_char",
    [MPI_TYPE_SHORT_INDEX] = "short",
    [MPI_TYPE_INT_INDEX] = "int",
    [MPI_TYPE_LONG_INDEX] = "long",
    [MPI_TYPE_LONG_LONG_INDEX] = "long_long_int",
    [MPI_TYPE_INT8_T_INDEX] = "int8_t",
    [MPI_TYPE_INT16_T_INDEX] = "int16_t",
    [MPI_TYPE_INT32_T_INDEX] = "int32_t",
    [MPI_TYPE_INT64_T_INDEX] = "int64_t",
    [MPI_TYPE_UNSIGNED_CHAR_INDEX] = "unsigned_char",
    [MPI_TYPE_UNSIGNED_SHORT_INDEX] = "unsigned_short",
    [MPI_TYPE_UNSIGNED_INDEX] = "unsigned",
    [MPI_TYPE_UNSIGNED_LONG_INDEX] = "unsigned_long",
    [MPI_TYPE_UNSIGNED_LONG_LONG_INDEX] = "unsigned_long_long",
    [MPI_TYPE_UINT8_T_INDEX] = "uint8_t",
    [MPI_TYPE_UINT16_T_INDEX] = "uint16_t",
    [MPI_TYPE_UINT32_T_INDEX] = "uint32_t",
    [MPI_TYPE_UINT64_T_INDEX] = "uint64_t",
    [MPI_TYPE_AINT_INDEX] = "aint",
    [MPI_TYPE_COUNT_INDEX] = "count",
    [MPI_TYPE_OFFSET_INDEX] = "offset",
    [MPI_TYPE_INTEGER_INDEX] = "integer",
    [MPI_TYPE_INTEGER1_INDEX] = "integer1",
    [MPI_TYPE_INTEGER2_INDEX] = "integer2",
    [MPI_TYPE_INTEGER4_INDEX] = "integer4",
    [MPI_TYPE_INTEGER8_INDEX] = "integer8",
    [MPI_TYPE_FLOAT_INDEX] = "float",
    [MPI_TYPE_DOUBLE_INDEX] = "double",
    [MPI_TYPE_LONG_DOUBLE_INDEX] = "long_double",
    [MPI_TYPE_REAL_INDEX] = "real",
    [MPI_TYPE_DOUBLE_PRECISION_INDEX] = "dblprec",
    [MPI_TYPE_REAL2_INDEX] = "real2",
    [MPI_TYPE_REAL4_INDEX] = "real4",
    [MPI_TYPE_REAL8_INDEX] = "real8",
    [MPI_TYPE_C_FLOAT_COMPLEX_INDEX] = "c_float_complex",
    [MPI_TYPE_C_DOUBLE_COMPLEX_INDEX] = "c_double_complex",
    [MPI_TYPE_C_LONG_DOUBLE_COMPLEX_INDEX] = "c_long_double_complex",
    [MPI_TYPE_CXX_FLOAT_COMPLEX_INDEX] = "cxx_cplex",
    [MPI_TYPE_CXX_DOUBLE_COMPLEX_INDEX] = "cxx_dblcplex",
    [MPI_TYPE_CXX_LONG_DOUBLE_COMPLEX_INDEX] = "cxx_ldblcplex",
    [MPI_TYPE_COMPLEX_INDEX] = "cplex",
    [MPI_TYPE_DOUBLE_COMPLEX_INDEX] = "dblcplex",
    [MPI_TYPE_COMPLEX8_INDEX] = "complex8",
    [MPI_TYPE_COMPLEX16_INDEX] = "complex16",
    [MPI_TYPE_C_BOOL_INDEX] = "c_bool",
    [MPI_TYPE_CXX_BOOL_INDEX] = "cxx_bool",
    [MPI_TYPE_LOGICAL_INDEX] = "logical",
    [MPI_TYPE_LOGICAL1_INDEX] = "logical1",
    [MPI_TYPE_LOGICAL2_INDEX] = "logical2",
    [MPI_TYPE_LOGICAL4_INDEX] = "logical4",
    [MPI_TYPE_LOGICAL8_INDEX] = "logical8",
    [MPI_TYPE_FLOAT_INT_INDEX] = "float_int",
    [MPI_TYPE_DOUBLE_INT_INDEX] = "double_int",
    [MPI_TYPE_LONG_INT_INDEX] = "long_int",
    [MPI_TYPE_SHORT_INT_INDEX] = "short_int",
    [MPI_TYPE_2INT_INDEX] = "2int",
    [MPI_TYPE_LONG_DOUBLE_INT_INDEX] = "longdbl_int",
    [MPI_TYPE_2INTEGER_INDEX] = "2integer",
    [MPI_TYPE_2REAL_INDEX] = "2real",
    [MPI_TYPE_2DOUBLE_PRECISION_INDEX] = "2dblprec",
};

static mpi_word find_handle(void *(*find)(void *, const char *), void *library, const char *prefix, const char *name) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "ompi_mpi_%s%s", prefix, name);
    for (char *c = symbol; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c += 'a' - 'A';
    void *const copied = find(RTLD_DEFAULT, symbol);
    return (mpi_word)(copied ? copied : find(library, symbol));
}

void mpi_constants_openmpi(struct mpi_constants *constants, void *(*find)(void *, const char *), void *library) {
    *constants = numbers;
    constants->comm_null = find_handle(find, library, "", "comm_null");
    constants->comm_world = find_handle(find, library, "", "comm_world");
    constants->comm_self = find_handle(find, library, "", "comm_self");
    constants->info_null = find_handle(find, library, "", "info_null");
    constants->errors_return = find_handle(find, library, "", "errors_return");
    constants->type_null = find_handle(find, library, "", "datatype_null");
    for (int i = 0; i < MPI_OPS; i++)
        constants->ops[i] = find_handle(find, library, "op_", ops[i]);
    for (int i = 0; i < MPI_TYPES; i++)
        constants->types[i] = types[i] ? find_handle(find, library, "", types[i]) : 0;
}
