/* The exported functions. By its second name, PMPI_X, each is what kolo does; by its first one, MPI_X, it is that of a
 * tool, if there is one behind this library (entries_tools.c). */
#pragma once

#include "calls/calls.h"
#include "host/mpi_host.h"
#include "report.h"

#define MPI_EXPORTED __attribute__((visibility("default")))
#define MPI_ENTRY(name, parameters, ...)                                                                               \
    MPI_EXPORTED int MPI_##name parameters;                                                                            \
    MPI_EXPORTED int PMPI_##name parameters;

MPI_TAKEN_FUNCTIONS(MPI_ENTRY)
MPI_TAKEN_TESTS(MPI_ENTRY)
MPI_TAKEN_LATE_FUNCTIONS(MPI_ENTRY)
