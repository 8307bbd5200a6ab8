/* From MPI_Init to MPI_Finalize: the settings, and what is there in between. */
#ifndef MPI_LIFE_H
#define MPI_LIFE_H

#include <stdbool.h>
#include <stdint.h>

/* After the MPI has been initialised, on all ranks of MPI_COMM_WORLD. */
void mpi_life_begin(void);

/* Around the MPI's own MPI_Finalize. */
void mpi_life_finalize(void);
void mpi_life_end(void);

bool mpi_life_is_ready(void); /* between the two, unless KOLO_MPI=off */
uint64_t mpi_life_after(void);
int64_t mpi_life_comms(void);
bool mpi_life_is_verbose(void);

/* Lets the MPI go on while a rank waits in kolo: others may need that. */
void mpi_life_progress(void *context);

#endif
