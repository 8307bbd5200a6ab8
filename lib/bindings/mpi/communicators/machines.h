/* The machines that a communicator's ranks are on: which rank is where, the kolo communicator of the ranks of this
 * machine, and a communicator of the MPI of those that have the same place on their machines. */
#pragma once

#include "communicators/pool.h"

struct mpi_machines {
    kolo_comm *near; /* the kolo communicator of this machine's ranks; NULL: this rank is its only one */
    struct mpi_pooled *pooled;
    mpi_word equals[1];    /* as the MPI has it in memory: this rank and those of its place, in the machines' order */
    int place, near_size;  /* this rank among its machine's ranks, and their number */
    int machine, machines; /* which one this is, and their number */
    int places;            /* which all machines have: from this one on ranks have no `equals` */
    struct mpi_whereabouts {
        int machine, place;
    } ranks[]; /* of the communicator */
};

/* Makes them for a communicator, in which this rank is `rank` of `size`, and whose ranks on this machine have the
 * communicator `shared` of the MPI. Collective; the same outcome on all ranks: NULL, or why not, in words, and nothing
 * is made. */
const char *mpi_machines_make(struct mpi_machines **made, mpi_word comm, int rank, int size, mpi_word shared);

/* With the communicator, on all of its ranks. */
void mpi_machines_end(struct mpi_machines *machines);
