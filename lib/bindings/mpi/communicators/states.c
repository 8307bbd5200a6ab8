/* States: found, made with a communicator's first collective, and ended with it. */
#include "communicators/states.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "communicators/machines.h"
#include "communicators/pool.h"
#include "settings.h"

kolo_atomic_u64 mpi_state_slots[MPI_STATE_SLOTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for `unused` */
static struct mpi_state *unused;
static int keyval;

static struct mpi_state *allocate(void) {
    pthread_mutex_lock(&lock);
    struct mpi_state *const state = unused;
    if (state)
        unused = state->next;
    pthread_mutex_unlock(&lock);
    return state ? state : calloc(1, sizeof *state);
}

static void release(struct mpi_state *state) {
    kolo_store_relaxed(&state->handle, 0);
    free(state->blocks);
    for (int i = 0; i < MPI_SCRATCH; i++)
        free(state->scratch[i]);
    pthread_mutex_lock(&lock);
    *state = (struct mpi_state){.next = unused};
    unused = state;
    pthread_mutex_unlock(&lock);
}

/* The communicator ends; its kolo communicator is kept for the next one of the same group. */
static int delete_state(mpi_word comm, int key, void *value, void *extra) {
    struct mpi_state *const state = value;
    (void)key, (void)extra;
    kolo_compare_and_swap(mpi_state_slot(comm & mpi_host.handle_mask), (uintptr_t)state, 0);
    if (state->pooled)
        mpi_pool_return(state->pooled);
    if (state->machines)
        mpi_machines_end(state->machines);
    release(state);
    return 0;
}

int mpi_states_setup(void) {
    return mpi_host.Comm_create_keyval((void *)mpi_attribute_copy_none, (void *)delete_state, &keyval, NULL);
}

void mpi_states_end(void) {
    for (int i = 0; i < MPI_STATE_SLOTS; i++)
        kolo_store_release(&mpi_state_slots[i], 0);
}

static struct mpi_state *begin_state(mpi_word comm) {
    struct mpi_state *const state = allocate();
    int is_inter = 0;
    if (!state)
        return NULL;
    if (mpi_host.Comm_test_inter(comm, &is_inter) != 0 || mpi_host.Comm_rank(comm, &state->rank) != 0 ||
        mpi_host.Comm_size(comm, &state->size) != 0 || mpi_host.Comm_set_attr(comm, keyval, state) != 0) {
        release(state);
        return NULL;
    }
    state->why = is_inter                       ? "an intercommunicator"
                 : state->size < 2              ? "one rank"
                 : state->size > KOLO_RANKS_MAX ? "too many ranks"
                                                : NULL;
    state->is_left = state->why != NULL;
    kolo_store_relaxed(&state->handle, comm);
    return state;
}

struct mpi_state *mpi_state_find_slowly(mpi_word comm) {
    void *known = NULL;
    int flag = 0;
    mpi_host_find();
    if (!mpi_settings.is_on || comm == mpi_host.is.comm_null ||
        mpi_host.Comm_get_attr(comm, keyval, &known, &flag) != 0)
        return NULL;
    struct mpi_state *const state = flag ? known : begin_state(comm);
    if (state)
        kolo_store_release(mpi_state_slot(comm), (uintptr_t)state);
    return state;
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
