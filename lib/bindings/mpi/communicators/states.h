/* What is known of each of the program's communicators: whether its collectives are kolo's, and the kolo communicator.
 *
 * The state is an attribute of the communicator, which ends with it and which duplicates do not inherit. So that no
 * call has to ask the MPI, states that were used last are in a small table, found by handle. A state is never freed but
 * used again, and its handle tells whom it belongs to: a thread that reads an entry while another one replaces it sees
 * that it has got another communicator's, and asks the MPI. */
#ifndef MPI_COMMUNICATORS_STATES_H
#define MPI_COMMUNICATORS_STATES_H

#include "kolo.h"
#include "host/mpi_host.h"
#include "sync/atomic.h"

enum { MPI_STATE_SLOTS = 256, MPI_STATE_BLOCKS = 4, MPI_SCRATCH = 2 };

struct mpi_machines;
struct mpi_pooled;
struct mpi_reduction;
struct mpi_type;

/* Owned by the thread that makes the communicator's collectives, as MPI demands; `handle` is read by all. */
struct mpi_state {
    kolo_atomic_u64 handle;
    kolo_comm *kolo;               /* NULL: its collectives are the MPI's, but for those that `machines` makes */
    struct mpi_machines *machines; /* where its ranks are on several of them, else NULL */
    kolo_comm *fast;               /* the same as `kolo`, for calls/fast.h; NULL: calls are counted for the report */
    int rank, size;
    bool is_left;              /* to the MPI, for good */
    const char *why;           /* in words, where is_left */
    uint64_t calls;            /* before there was a kolo communicator: the same number on all ranks */
    struct mpi_pooled *pooled; /* that holds `kolo` */
    /* The last reduction and the last predefined datatype, which are mostly those of the next call, too. */
    mpi_word reduction_type, reduction_op;
    const struct mpi_reduction *reduction;
    const struct mpi_type *type;
    size_t *blocks; /* MPI_STATE_BLOCKS arrays of `size`, for counts and offsets */
    void *scratch[MPI_SCRATCH];
    size_t scratch_bytes[MPI_SCRATCH];
    struct mpi_state *next; /* free ones */
};

extern kolo_atomic_u64 mpi_state_slots[MPI_STATE_SLOTS]; /* pointers to states */

static inline kolo_atomic_u64 *mpi_state_slot(mpi_word comm) {
    return &mpi_state_slots[(uint64_t)comm * 0x9e3779b97f4a7c15u >> 56];
}

/* The same for a communicator that has been used less lately. */
struct mpi_state *mpi_state_find_slowly(mpi_word comm);

/* The communicator's state; NULL where nothing is to be known, and the call is the MPI's. */
static inline struct mpi_state *mpi_state_find(mpi_word comm) {
    comm &= mpi_host.handle_mask;
    struct mpi_state *const state = (struct mpi_state *)(uintptr_t)kolo_load_acquire(mpi_state_slot(comm));
    if (__builtin_expect(state && kolo_load_relaxed(&state->handle) == comm, 1))
        return state;
    return mpi_state_find_slowly(comm);
}

/* 0 or an MPI error. */
int mpi_states_setup(void);

/* From now on all is the MPI's. */
void mpi_states_end(void);

/* Room for packed data, kept for later calls. NULL: there is no memory. */
void *mpi_scratch(struct mpi_state *state, int which, size_t bytes);

#endif
