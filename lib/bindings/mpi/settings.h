/* What the variable KOLO_MPI says, as README.md lists it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct mpi_settings {
    bool is_on; /* between MPI_Init and MPI_Finalize, unless KOLO_MPI=off */
    bool is_verbose;
    uint64_t after; /* collectives of a communicator */
    int64_t comms;
};

extern struct mpi_settings mpi_settings;

/* All but `is_on`. Returns 1, or 0 with KOLO_MPI=off, or an error of kolo's for a value that makes no sense. */
int mpi_settings_read(void);
