/* KOLO_MPI=verbose: what ran in kolo, what was passed on and why. Nothing is counted without it. */
#pragma once

#include "host/mpi_host.h"
#include "settings.h"

int64_t mpi_report_now(void);
void mpi_report_add(unsigned function, int64_t began, bool passed, mpi_word comm);

static inline int64_t mpi_report_begin(void) {
    return __builtin_expect(mpi_settings.is_verbose, 0) ? mpi_report_now() : 0;
}

static inline void mpi_report_end(unsigned function, int64_t began, bool passed, mpi_word comm) {
    if (__builtin_expect(mpi_settings.is_verbose, 0))
        mpi_report_add(function, began, passed, comm);
}

/* To standard error, on rank 0 of the job for itself. */
void mpi_report_print(void);
