/* KOLO_MPI=verbose: what ran in kolo, what was passed on and why. Nothing is counted without it. */
#pragma once

#include "host/mpi_host.h"
#include "settings.h"

/* The first four are made on several machines, too; those from the third on reduce, up to MPI_Reduce_scatter_block. */
#define MPI_REPORT_INDEX(name, ...) MPI_REPORT_##name,
enum mpi_reported { MPI_REPORT_Barrier, MPI_COUNTED_FUNCTIONS(MPI_REPORT_INDEX, , int) MPI_REPORTED };

int64_t mpi_report_now(void);
void mpi_report_add(enum mpi_reported function, int64_t began, bool passed, mpi_word comm);

static inline int64_t mpi_report_begin(void) {
    return __builtin_expect(mpi_settings.is_verbose, 0) ? mpi_report_now() : 0;
}

static inline void mpi_report_end(enum mpi_reported function, int64_t began, bool passed, mpi_word comm) {
    if (__builtin_expect(mpi_settings.is_verbose, 0))
        mpi_report_add(function, began, passed, comm);
}

/* To standard error, on rank 0 of the job for itself. */
void mpi_report_print(void);
