/* States: begun with a communicator, found, and ended before it. */
#include "communicators/states.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "communicators/machines.h"
#include "communicators/pool.h"
#include "settings.h"

kolo_atomic_u64 mpi_state_slots[MPI_STATE_SLOTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the chains and `unused` */
static struct mpi_state *unused;

static struct mpi_state *first_in(kolo_atomic_u64 *slot) {
    return (struct mpi_state *)(uintptr_t)kolo_load_acquire(slot);
}

/* With the lock held, as the next. NULL: the communicator has no state. */
static struct mpi_state *take(mpi_word comm) {
    kolo_atomic_u64 *const slot = mpi_state_slot(comm);
    struct mpi_state *before = NULL, *state = first_in(slot);
    for (; state && kolo_load_relaxed(&state->handle) != comm; state = state->next)
        before = state;
    if (state && before)
        before->next = state->next;
    else if (state)
        kolo_store_release(slot, (uintptr_t)state->next);
    return state;
}

static void put_first(struct mpi_state *state, mpi_word comm) {
    kolo_atomic_u64 *const slot = mpi_state_slot(comm);
    state->next = first_in(slot);
    kolo_store_release(slot, (uintptr_t)state);
}

static struct mpi_state *allocate(void) {
    pthread_mutex_lock(&lock);
    struct mpi_state *const state = unused;
    if (state)
        unused = state->next;
    pthread_mutex_unlock(&lock);
    return state ? state : calloc(1, sizeof *state);
}

/* It is in no chain. The kolo communicator is kept for the next communicator of the same group. */
static void release(struct mpi_state *state) {
    kolo_store_relaxed(&state->handle, 0);
    if (state->pooled)
        mpi_pool_return(state->pooled);
    if (state->machines)
        mpi_machines_end(state->machines);
    free(state->blocks);
    for (int i = 0; i < MPI_SCRATCH; i++)
        free(state->scratch[i]);
    pthread_mutex_lock(&lock);
    *state = (struct mpi_state){.next = unused};
    unused = state;
    pthread_mutex_unlock(&lock);
}

void mpi_states_end(void) {
    for (int i = 0; i < MPI_STATE_SLOTS; i++)
        for (struct mpi_state *state; (state = first_in(&mpi_state_slots[i]));) {
            kolo_store_release(&mpi_state_slots[i], (uintptr_t)state->next);
            release(state);
        }
}

/* False: it has no state. */
static bool end_state(mpi_word comm) {
    pthread_mutex_lock(&lock);
    struct mpi_state *const state = take(comm);
    pthread_mutex_unlock(&lock);
    if (state)
        release(state);
    return state != NULL;
}

int mpi_state_begin(int rc, const void *comm) {
    const mpi_word handle = rc == 0 && mpi_settings.is_on ? mpi_word_load(comm) : mpi_host.is.comm_null;
    if (handle == mpi_host.is.comm_null)
        return rc;
    end_state(handle); /* where the MPI has made it by a function of here, or has ended the last by itself */
    struct mpi_state *const state = allocate();
    if (!state) { /* the others would wait in kolo for this rank */
        fprintf(stderr, "kolo: no memory for a communicator\n");
        mpi_host.Comm_call_errhandler(handle, mpi_host.is.err_other);
        return mpi_host.is.err_other;
    }
    kolo_store_relaxed(&state->handle, handle);
    pthread_mutex_lock(&lock);
    put_first(state, handle);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Whether all ranks of `group` are in `world`. An error of the MPI says no. */
static bool is_within(mpi_word group, mpi_word world, int size) {
    enum { AT_ONCE = 64 };
    int ranks[AT_ONCE], found[AT_ONCE];
    for (int first = 0; first < size; first += AT_ONCE) {
        const int count = size - first < AT_ONCE ? size - first : AT_ONCE;
        for (int i = 0; i < count; i++)
            ranks[i] = first + i;
        if (mpi_host.Group_translate_ranks(group, count, ranks, world, found) != 0)
            return false;
        for (int i = 0; i < count; i++)
            if (found[i] == mpi_host.is.undefined)
                return false;
    }
    return true;
}

/* Whether all ranks are of this MPI_COMM_WORLD, and so have the library: see creating.c. */
static bool is_of_world(mpi_word comm, int size) {
    mpi_word group[1] = {0}, world[1] = {0};
    if (mpi_host.Comm_group(comm, group) != 0)
        return false;
    const bool has_world = mpi_host.Comm_group(mpi_host.is.comm_world, world) == 0;
    const bool is_one = has_world && is_within(mpi_word_load(group), mpi_word_load(world), size);
    if (has_world)
        mpi_host.Group_free(world);
    mpi_host.Group_free(group);
    return is_one;
}

/* At the first collective. False: the MPI fails. */
static bool look_at(struct mpi_state *state, mpi_word comm) {
    int is_inter = 0, size = 0;
    if (mpi_host.Comm_test_inter(comm, &is_inter) != 0 || mpi_host.Comm_rank(comm, &state->rank) != 0 ||
        mpi_host.Comm_size(comm, &size) != 0)
        return false;
    state->why = is_inter                   ? "an intercommunicator"
                 : size < 2                 ? "one rank"
                 : size > KOLO_RANKS_MAX    ? "too many ranks"
                 : !is_of_world(comm, size) ? "processes of another MPI_COMM_WORLD (spawned, or connected)"
                                            : NULL;
    state->is_left = state->why != NULL;
    state->size = size;
    return true;
}

struct mpi_state *mpi_state_find_slowly(mpi_word comm) {
    mpi_host_find();
    if (!mpi_settings.is_on)
        return NULL;
    pthread_mutex_lock(&lock);
    struct mpi_state *const state = take(comm);
    if (state)
        put_first(state, comm);
    pthread_mutex_unlock(&lock);
    return state && (state->size > 0 || look_at(state, comm)) ? state : NULL;
}

int mpi_state_end(int (*end)(void *comm), void *comm) {
    const mpi_word handle = comm && mpi_settings.is_on ? mpi_word_load(comm) : mpi_host.is.comm_null;
    if (handle == mpi_host.is.comm_world) /* does not end, and the MPI says so */
        return end(comm);
    const bool has_state = end_state(handle);
    const int rc = end(comm);
    if (rc != 0 && has_state) /* it has not ended: a callback has said no */
        mpi_state_begin(0, comm);
    return rc;
}

void *mpi_scratch(struct mpi_state *state, int which, size_t bytes) {
    enum { KEPT_BYTES_MIN = 4096 };
    if (bytes > state->scratch_bytes[which]) {
        const size_t wanted = bytes < KEPT_BYTES_MIN ? KEPT_BYTES_MIN : bytes;
        free(state->scratch[which]);
        state->scratch[which] = malloc(wanted);
        state->scratch_bytes[which] = state->scratch[which] ? wanted : 0;
    }
    return state->scratch[which];
}
