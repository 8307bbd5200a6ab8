/* What is known of each of the program's communicators: whether its collectives are kolo's, and the kolo communicator.
 *
 * States are found by handle, in a table of chains. Each chain begins with the state that was used last, so that most
 * calls look at one entry and take no lock. A state is never freed but used again, and its handle tells whom it belongs
 * to: a thread that reads an entry while another one replaces it sees that it has got another communicator's, and looks
 * through the chain.
 *
 * A state lives only while its communicator does, or the next one with the same handle would get the ranks of the last:
 * it begins when a function of the MPI returns a new handle, and ends before MPI_Comm_free or MPI_Comm_disconnect does
 * anything. Other handles than those in between come to a program, too: in delete callbacks of attributes, which run
 * while a communicator ends or, where it had requests on their way, later; and there some belong to communicators of
 * the MPI's own, such as those of windows. They have no state on any rank, and the MPI makes their collectives. The
 * library has no attributes of its own: an MPI that goes through a communicator's attributes bears no change of them.
 */
#pragma once

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
    int rank, size;                /* size 0: nobody has looked yet */
    bool is_left;                  /* to the MPI, for good */
    const char *why;               /* in words, where is_left */
    uint64_t calls;                /* before there was a kolo communicator: the same number on all ranks */
    struct mpi_pooled *pooled;     /* that holds `kolo` */
    /* The last reduction and the last datatype, NULL where that is derived: mostly those of the next call, too. */
    mpi_word reduction_type, reduction_op;
    const struct mpi_reduction *reduction;
    const struct mpi_type *type;
    size_t *blocks; /* MPI_STATE_BLOCKS arrays of `size`, for counts and offsets */
    void *scratch[MPI_SCRATCH];
    size_t scratch_bytes[MPI_SCRATCH];
    struct mpi_state *next; /* in the chain, or of those that are unused */
};

extern kolo_atomic_u64 mpi_state_slots[MPI_STATE_SLOTS]; /* pointers to the chains' first states */

static inline kolo_atomic_u64 *mpi_state_slot(mpi_word comm) {
    return &mpi_state_slots[(uint64_t)comm * 0x9e3779b97f4a7c15u >> 56];
}

/* The same for a communicator that has been used less lately, or not yet. */
struct mpi_state *mpi_state_find_slowly(mpi_word comm);

/* The communicator's state; NULL where nothing is to be known, and the call is the MPI's. */
static inline struct mpi_state *mpi_state_find(mpi_word comm) {
    comm &= mpi_host.handle_mask;
    struct mpi_state *const state = (struct mpi_state *)(uintptr_t)kolo_load_acquire(mpi_state_slot(comm));
    if (__builtin_expect(state && kolo_load_relaxed(&state->handle) == comm && state->size > 0, 1))
        return state;
    return mpi_state_find_slowly(comm);
}

/* After a function of the MPI that makes a communicator has returned `rc`, which this returns. Its handle is at `comm`;
 * it may be null. Returns an error of the MPI, which has been reported, where there is no memory. */
int mpi_state_begin(int rc, const void *comm);

/* What MPI_Comm_free and MPI_Comm_disconnect do: ends the state, and the communicator by the MPI's function `end`, of
 * which it returns the result. */
int mpi_state_end(int (*end)(void *comm), void *comm);

/* From now on all is the MPI's. */
void mpi_states_end(void);

/* Room for packed data, kept for later calls. NULL: there is no memory. */
void *mpi_scratch(struct mpi_state *state, int which, size_t bytes);
