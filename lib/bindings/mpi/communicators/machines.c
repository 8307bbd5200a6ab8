/* Machines: found and made, step by step. */
#include "communicators/machines.h"

#include <stdlib.h>

#include "communicators/pool.h"
#include "settings.h"

/* What each rank tells the others: the rank of its machine's first one, and its place there. */
struct place {
    int first, place;
};

static bool find_place(struct mpi_machines *machines, int rank, mpi_word shared, struct place *mine) {
    mine->first = rank;
    if (mpi_host.Comm_rank(shared, &machines->place) != 0 || mpi_host.Comm_size(shared, &machines->near_size) != 0 ||
        mpi_host.Bcast(&mine->first, 1, mpi_host.is.types[MPI_TYPE_INT_INDEX], 0, shared) != 0)
        return false;
    mine->place = machines->place;
    return true;
}

/* Machines are counted in the order of their first ranks. Returns how many ranks the largest one has. */
static int set_whereabouts(struct mpi_machines *machines, const struct place *places, int size, int rank) {
    int most = 0;
    for (int i = 0; i < size; i++)
        if (places[i].place == 0)
            machines->ranks[i] = (struct mpi_whereabouts){machines->machines++, 0};
    machines->places = size;
    for (int first = 0; first < size; first++) {
        if (places[first].place != 0)
            continue;
        int count = 0;
        for (int i = first; i < size; i++)
            if (places[i].first == first) {
                machines->ranks[i] = (struct mpi_whereabouts){machines->ranks[first].machine, places[i].place};
                count++;
            }
        most = count > most ? count : most;
        machines->places = count < machines->places ? count : machines->places;
    }
    machines->machine = machines->ranks[rank].machine;
    return most;
}

static bool connect_equals(struct mpi_machines *machines, mpi_word comm) {
    const int color = machines->place < machines->places ? machines->place : mpi_host.is.undefined;
    if (mpi_host.Comm_split(comm, color, machines->machine, machines->equals) != 0)
        return false;
    if (color != mpi_host.is.undefined)
        mpi_host.Comm_set_errhandler(mpi_word_load(machines->equals), mpi_host.is.errors_return);
    return true;
}

/* Step by step; after each all ranks know whether all got as far. */
static const char *make(struct mpi_machines *machines, struct place *places, mpi_word comm, int rank, int size,
                        mpi_word shared) {
    const mpi_word integer = mpi_host.is.types[MPI_TYPE_INT_INDEX];
    struct place mine = {0, 0};
    const char *why = "no memory, or an error of the MPI";
    const bool is_ready = machines && places && find_place(machines, rank, shared, &mine);
    if (mpi_agree(comm, is_ready) <= 0)
        return why;
    if (mpi_host.Allgather(&mine, 2, integer, places, 2, integer, comm) != 0)
        return why;
    if (set_whereabouts(machines, places, size, rank) < 2)
        return "one rank on each machine";
    if (machines->near_size > 1) {
        machines->pooled = mpi_pooled_again(shared, machines->place, true);
        if (!machines->pooled)
            machines->pooled = mpi_pooled_create(shared, machines->place, machines->near_size, &why);
    }
    if (mpi_agree(comm, machines->near_size == 1 || machines->pooled) <= 0)
        return machines->pooled ? "another machine's ranks have no kolo communicator" : why;
    machines->near = machines->pooled ? machines->pooled->kolo : NULL;
    return mpi_agree(comm, connect_equals(machines, comm)) > 0 ? NULL : "an error of the MPI";
}

const char *mpi_machines_make(struct mpi_machines **made, mpi_word comm, int rank, int size, mpi_word shared) {
    const size_t count = (size_t)size;
    struct mpi_machines *const machines = calloc(1, sizeof *machines + count * sizeof *machines->ranks);
    struct place *const places = malloc(count * sizeof *places);
    const char *const why = make(machines, places, comm, rank, size, shared);
    free(places);
    if (!why)
        *made = machines;
    else if (machines)
        mpi_machines_end(machines);
    return why;
}

void mpi_machines_end(struct mpi_machines *machines) {
    if (mpi_settings.is_on && mpi_word_load(machines->equals) != 0 &&
        mpi_word_load(machines->equals) != mpi_host.is.comm_null)
        mpi_host.Comm_free(machines->equals);
    if (machines->pooled)
        mpi_pool_return(machines->pooled);
    free(machines);
}
