/* The tables of lib/bindings/mpi/host against a real header: that of the MPI whose compiler compiles this, or that of
 * the standard ABI, with -DKOLO_TEST_STANDARD_ABI. */
#ifdef KOLO_TEST_STANDARD_ABI
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

#include "types/datatypes.h"

struct mpi_host mpi_host;

/* Names that not all headers have. */
#ifndef MPI_C_FLOAT16
#ifdef MPIX_C_FLOAT16
#define MPI_C_FLOAT16 MPIX_C_FLOAT16
#else
#define MPI_C_FLOAT16 MPI_DATATYPE_NULL
#endif
#endif
#ifndef MPI_REAL2
#define MPI_REAL2 MPI_DATATYPE_NULL
#endif
#ifndef MPI_LOGICAL1
#define MPI_LOGICAL1 MPI_DATATYPE_NULL
#endif
#ifndef MPI_LOGICAL2
#define MPI_LOGICAL2 MPI_DATATYPE_NULL
#endif
#ifndef MPI_LOGICAL4
#define MPI_LOGICAL4 MPI_DATATYPE_NULL
#endif
#ifndef MPI_LOGICAL8
#define MPI_LOGICAL8 MPI_DATATYPE_NULL
#endif

static int compared, different;

static void compare(const char *name, long long table, long long header) {
    compared++;
    if (table == header)
        return;
    different++;
    fprintf(stderr, "%s is %#llx in the header, %#llx in the table\n", name, header, table);
}

/* Handles of 32 bits may be negative. */
static long long word(const struct mpi_constants *constants, mpi_word handle) {
    return constants->handle_bytes == 4 ? (long long)(uint32_t)handle : (long long)handle;
}

#define HANDLE(field, name) compare(#name, word(table, table->field), word(table, (mpi_word)(name)))

static void compare_numbers(const struct mpi_constants *table) {
    compare("sizeof(MPI_Comm)", table->handle_bytes, (long long)sizeof(MPI_Comm));
    compare("MPI_ANY_SOURCE", table->any_source, MPI_ANY_SOURCE);
    compare("MPI_ANY_TAG", table->any_tag, MPI_ANY_TAG);
    compare("MPI_ROOT", table->root, MPI_ROOT);
    compare("MPI_UNDEFINED", table->undefined, MPI_UNDEFINED);
    compare("MPI_COMM_TYPE_SHARED", table->comm_type_shared, MPI_COMM_TYPE_SHARED);
    compare("MPI_IDENT", table->ident, MPI_IDENT);
    compare("MPI_COMBINER_NAMED", table->combiner_named, MPI_COMBINER_NAMED);
    compare("MPI_COMBINER_DUP", table->combiner_dup, MPI_COMBINER_DUP);
    compare("MPI_COMBINER_CONTIGUOUS", table->combiner_contiguous, MPI_COMBINER_CONTIGUOUS);
    compare("MPI_COMBINER_F90_REAL", table->combiner_f90_real, MPI_COMBINER_F90_REAL);
    compare("MPI_COMBINER_F90_COMPLEX", table->combiner_f90_real + 1, MPI_COMBINER_F90_COMPLEX);
    compare("MPI_COMBINER_F90_INTEGER", table->combiner_f90_integer, MPI_COMBINER_F90_INTEGER);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION > 0)
    compare("MPI_COMBINER_VALUE_INDEX", table->combiner_value_index, MPI_COMBINER_VALUE_INDEX);
#endif
    compare("MPI_ERR_OTHER", table->err_other, MPI_ERR_OTHER);
    compare("MPI_IN_PLACE", table->in_place, (intptr_t)MPI_IN_PLACE);
    compare("MPI_STATUS_IGNORE", table->status_ignore, (intptr_t)MPI_STATUS_IGNORE);
#ifdef MPIX_ERR_PROC_FAILED
    compare("MPIX_ERR_PROC_FAILED", table->err_proc_failed, MPIX_ERR_PROC_FAILED);
#endif
    HANDLE(comm_null, MPI_COMM_NULL);
    HANDLE(comm_world, MPI_COMM_WORLD);
    HANDLE(comm_self, MPI_COMM_SELF);
    HANDLE(info_null, MPI_INFO_NULL);
    HANDLE(errors_return, MPI_ERRORS_RETURN);
    HANDLE(type_null, MPI_DATATYPE_NULL);
}

#define OP(name)                [MPI_OP_##name##_INDEX] = {"MPI_" #name, (mpi_word)(MPI_##name)},
#define TYPE(name, kind, bytes) [MPI_TYPE_##name##_INDEX] = {"MPI_" #name, (mpi_word)(MPI_##name)},

struct named {
    const char *name;
    mpi_word handle;
};

static void compare_handles(const struct mpi_constants *table) {
    const struct named ops[MPI_OPS] = {MPI_OP_NAMES(OP)};
    const struct named types[MPI_TYPES] = {MPI_TYPE_NAMES(TYPE)};
    for (int i = 0; i < MPI_OPS; i++)
        compare(ops[i].name, word(table, table->ops[i]), word(table, ops[i].handle));
    for (int i = 0; i < MPI_TYPES; i++)
        if (types[i].handle != (mpi_word)(MPI_DATATYPE_NULL)) /* the header has it, and this build of the MPI */
            compare(types[i].name, word(table, table->types[i]), word(table, types[i].handle));
}

/* A program of the standard ABI says what sizes Fortran's default types have. One that is not as usual is not known. */
static int fortran_bytes;

static int size_of_passed(mpi_word handle, int *bytes) {
    *bytes = handle == mpi_constants_standard.types[MPI_TYPE_INTEGER_INDEX] ? fortran_bytes : 8;
    return 0;
}

static void compare_fortran(void) {
    const mpi_word *const types = mpi_constants_standard.types;
    mpi_host.is = mpi_constants_standard;
    mpi_host.handle_mask = UINTPTR_MAX;
    mpi_host.Type_size = size_of_passed;
    mpi_types_setup();
    for (fortran_bytes = 4; fortran_bytes <= 8; fortran_bytes += 4) {
        const struct mpi_type *const integer = mpi_type_passed(types[MPI_TYPE_INTEGER_INDEX]);
        compare("bytes of MPI_INTEGER", fortran_bytes == 4 ? 4 : 0, integer ? (long long)integer->bytes : 0);
    }
    const struct mpi_type *const real = mpi_type_passed(types[MPI_TYPE_DOUBLE_PRECISION_INDEX]);
    compare("bytes of MPI_DOUBLE_PRECISION", 8, real ? (long long)real->bytes : 0);
    compare("MPI_REAL of 8 bytes is known", 0, mpi_type_passed(types[MPI_TYPE_REAL_INDEX]) != NULL);
    compare("MPI_INT is known", 1, mpi_type_passed(types[MPI_TYPE_INT_INDEX]) != NULL);
}

int main(void) {
    compare_fortran();
#if defined KOLO_TEST_STANDARD_ABI
    const struct mpi_constants table = mpi_constants_standard;
#elif defined OPEN_MPI
    struct mpi_constants table;
    mpi_constants_openmpi(&table, dlsym, RTLD_DEFAULT);
#else
    const struct mpi_constants table = mpi_constants_mpich;
#endif
    compare_numbers(&table);
    compare_handles(&table);
    printf("%s: %d constants, %d of them different\n", table.family, compared, different);
    return compared < 80 || different > 0;
}
