/* How the ranks of a communicator come to have a kolo communicator, by the MPI's own collectives on it:
 *
 *     1. Rank 0 tells a name: of one in its pool that has the same ranks, or a new one.
 *     2. All tell whether they share a machine, and can take that: they have the one of that name in their pool, too,
 * or room for a new one. If one cannot, it goes back, and rank 0 tells a new name; a new one that cannot be is the end.
 *     3. They create it. Nobody waits there for a rank that waits for something else: all have come to this.
 *     4. All tell whether it was created.
 *
 * No lock is held meanwhile: threads of a program may make several communicators at once, in any order. */
#include "communicators/making.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "communicators/pool.h"
#include "mpi_life.h"

enum { CREATE_TIMEOUT_MS = 30000 };

/* What rank 0 tells. */
struct proposal {
    char job[MPI_JOB_BYTES];
    int is_pooled;
};

static mpi_word word_int(void) {
    return mpi_host.is.types[MPI_TYPE_INT_INDEX];
}

/* The lowest of all ranks' values; -1 if the MPI fails. */
static int agree(mpi_word comm, int value) {
    int lowest = -1;
    const int rc = mpi_host.Allreduce(&value, &lowest, 1, word_int(), mpi_host.is.ops[MPI_OP_MIN_INDEX], comm);
    return rc == 0 ? lowest : -1;
}

static int share_machine(mpi_word comm, int size) {
    mpi_word shared[1];
    int near = 0;
    if (mpi_host.Comm_split_type(comm, mpi_host.is.comm_type_shared, 0, mpi_host.is.info_null, shared) != 0)
        return 0;
    mpi_host.Comm_size(mpi_word_load(shared), &near);
    mpi_host.Comm_free(shared);
    return near == size;
}

/* Of the process and the moment: nobody else's on this machine. */
static void invent_job(char *job) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(job, MPI_JOB_BYTES, "mpi-%ld-%llx%08lx", (long)getpid(), (unsigned long long)now.tv_sec, now.tv_nsec);
}

static int create(struct mpi_pooled *pooled, const struct mpi_state *state) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = state->rank;
    options.size = state->size;
    options.job = pooled->job;
    options.rendezvous = "";
    options.timeout_ms = 0;
    options.create_timeout_ms = CREATE_TIMEOUT_MS;
    const int rc = kolo_comm_create(&pooled->kolo, &options);
    if (rc == 0)
        kolo_comm_set_progress(pooled->kolo, mpi_life_progress, NULL);
    return rc;
}

/* Steps 1 and 2. NULL: some rank cannot. */
static struct mpi_pooled *choose(const struct mpi_state *state, mpi_word comm, const void *group, bool anew) {
    struct proposal proposal = {.is_pooled = 0};
    struct mpi_pooled *pooled = NULL;
    if (state->rank == 0) {
        pooled = anew ? NULL : mpi_pool_take(group);
        proposal.is_pooled = pooled != NULL;
        if (pooled)
            memcpy(proposal.job, pooled->job, sizeof proposal.job);
        else
            invent_job(proposal.job);
    }
    const mpi_word bytes = mpi_host.is.types[MPI_TYPE_BYTE_INDEX];
    if (mpi_host.Bcast(&proposal, sizeof proposal, bytes, 0, comm) != 0)
        goto give_back;
    if (!proposal.is_pooled)
        pooled = mpi_pool_reserve(mpi_life_comms());
    else if (state->rank != 0)
        pooled = mpi_pool_take_job(proposal.job);
    if (pooled && !proposal.is_pooled)
        memcpy(pooled->job, proposal.job, sizeof pooled->job);
    const int all = agree(comm, pooled != NULL);
    if (all > 0)
        return pooled;
    if (proposal.is_pooled && all == 0) {
        if (pooled)
            mpi_pool_return(pooled);
        return choose(state, comm, group, true);
    }
give_back:
    if (pooled)
        mpi_pool_return(pooled);
    return NULL;
}

static void leave(struct mpi_state *state, const char *why) {
    state->is_left = true;
    state->why = why;
}

void mpi_make(struct mpi_state *state, mpi_word comm) {
    mpi_word group[1] = {0};
    state->blocks = malloc((size_t)MPI_STATE_BLOCKS * (size_t)state->size * sizeof *state->blocks);
    const bool has_group = mpi_host.Comm_group(comm, group) == 0;
    const int near = share_machine(comm, state->size);
    if (agree(comm, near && has_group && state->blocks) <= 0) {
        leave(state, "ranks on several machines");
        goto forget_group;
    }
    struct mpi_pooled *const pooled = choose(state, comm, group, false);
    if (!pooled) {
        leave(state, "KOLO_MPI_COMMS others are in use");
        goto forget_group;
    }
    const bool is_new = pooled->kolo == NULL;
    if (is_new && agree(comm, create(pooled, state)) < 0) {
        leave(state, "no kolo communicator could be created");
        kolo_comm_destroy(pooled->kolo);
        pooled->kolo = NULL;
        mpi_pool_return(pooled);
        goto forget_group;
    }
    state->pooled = pooled;
    state->kolo = pooled->kolo;
    if (is_new) {
        pooled->group[0] = group[0];
        return;
    }
forget_group:
    if (has_group)
        mpi_host.Group_free(group);
}
