/* The exported functions, each by both of its names. */
#ifndef MPI_ENTRIES_H
#define MPI_ENTRIES_H

#include "host/mpi_host.h"

#define MPI_ENTRY(name, arguments) __attribute__((visibility("default"))) int MPI_##name arguments;

MPI_TAKEN_FUNCTIONS(MPI_ENTRY)
MPI_TAKEN_LARGE_FUNCTIONS(MPI_ENTRY)

/* In the file that has the functions. */
#define MPI_SECOND_NAME(name, arguments)                                                                               \
    extern __attribute__((visibility("default"), alias("MPI_" #name))) int PMPI_##name arguments;

#endif
