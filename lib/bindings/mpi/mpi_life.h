/* From MPI_Init to MPI_Finalize: what is there in between. */
#pragma once

/* Before an MPI session begins. */
void mpi_life_note_session(void);

/* Before the MPI is initialised. */
void mpi_life_prepare(void);

/* After the MPI has been initialised, on all ranks of MPI_COMM_WORLD. */
void mpi_life_begin(void);

/* After the MPI's own MPI_Finalize. */
void mpi_life_end(void);
