/* MPI's collectives behind one function that takes the arguments of any, with int counts and with MPI_Count. */
#ifndef KOLO_TESTS_MPI_ENTRIES_H
#define KOLO_TESTS_MPI_ENTRIES_H

#include "mpi_calls.h"

/* Counts and starts are arrays, of which calls without counts for each rank read the first. */
struct arguments {
    void *send, *recv;
    const int *send_counts, *recv_counts, *send_starts, *recv_starts; /* in items */
    ptrdiff_t send_extent, recv_extent;
    MPI_Datatype send_type, recv_type;
    MPI_Op op;
    int root, size;
    MPI_Comm comm;
};

int entry_call(enum collective collective, const struct arguments *arguments);

/* Found at run time: an MPI before version 4 has none of its own, but a library before it may have. */
bool entry_has_large(enum collective collective);
int entry_call_large(enum collective collective, const struct arguments *arguments);

#endif
