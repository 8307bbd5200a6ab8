/* The exported functions. By its second name, PMPI_X, each is what kolo does; by its first one, MPI_X, it is that of a
 * tool, if there is one behind this library (entries_tools.c). */
#pragma once

#include "calls/calls.h"
#include "host/mpi_host.h"
#include "report.h"

#define MPI_EXPORTED __attribute__((visibility("default")))
#define MPI_ENTRY(name, parameters, arguments)                                                                         \
    MPI_EXPORTED int MPI_##name parameters;                                                                            \
    MPI_EXPORTED int PMPI_##name parameters;

MPI_TAKEN_FUNCTIONS(MPI_ENTRY)
MPI_TAKEN_TESTS(MPI_ENTRY)
MPI_TAKEN_LARGE_FUNCTIONS(MPI_ENTRY)

/* A call on its way: kolo's, or passed on to the MPI. */
struct mpi_entry {
    enum mpi_reported function;
    mpi_word comm;
    int64_t began; /* for the report */
    int rc;
    bool is_passed;
};

static inline struct mpi_entry mpi_enter(enum mpi_reported function, mpi_word comm) {
    return (struct mpi_entry){.function = function, .comm = comm, .began = mpi_report_begin()};
}

/* rc: of a function of calls/calls.h. True: the call is the MPI's, whose result is to be set. */
static inline bool mpi_passes(struct mpi_entry *entry, int rc) {
    entry->rc = rc;
    entry->is_passed = rc == MPI_PASS;
    return entry->is_passed;
}

static inline int mpi_leave(const struct mpi_entry *entry) {
    mpi_report_end(entry->function, entry->began, entry->is_passed, entry->comm);
    return entry->rc;
}
