/* Reductions. A machine's ranks come first, then the machines: sums of floats are rounded in that order. */
#include <string.h>

#include "calls/sides.h"
#include "nodes/machines_calls.h"
#include "types/operations.h"

struct reducing {
    struct mpi_state *state;
    const char *send;
    char *recv;
    size_t count, piece; /* elements of the MPI's */
    mpi_word type, op, comm;
    const struct mpi_reduction *reduction;
};

struct part {
    size_t offset, count; /* in bytes, in elements */
};

static struct part part_of(const struct reducing *all, size_t piece) {
    const size_t first = piece * all->piece, left = all->count - first;
    return (struct part){first * all->reduction->bytes, left < all->piece ? left : all->piece};
}

/* On each machine, to the rank of that place; into `into` there. */
static int fold(const struct reducing *all, struct part part, void *into, int place) {
    const struct mpi_machines *const machines = all->state->machines;
    const char *const from = all->send + part.offset;
    if (!machines->near) {
        if (from != into)
            memcpy(into, from, part.count * all->reduction->bytes);
        return 0;
    }
    const int rc = kolo_reduce(machines->near, from, machines->place == place ? into : NULL,
                               part.count * all->reduction->parts, all->reduction->dtype, all->reduction->op, place);
    return rc < 0 ? mpi_fail(all->state, all->comm, rc) : 0;
}

static int spread(const struct reducing *all, struct part part) {
    const struct mpi_machines *const machines = all->state->machines;
    if (!machines->near)
        return 0;
    const int rc =
        kolo_broadcast(machines->near, all->recv + part.offset, part.count * all->reduction->bytes, KOLO_U8, 0);
    return rc < 0 ? mpi_fail(all->state, all->comm, rc) : 0;
}

/* Two machines exchange what they have, and both join it in the same order: the network's latency once. For some of
 * these sizes Open MPI's all-reduce takes it twice. Returns the MPI's error code. */
static int join_two(const struct reducing *all, char *at, char *others, int count) {
    enum { TAG = 2 };
    const struct mpi_machines *const machines = all->state->machines;
    const int other = 1 - machines->machine;
    int code = mpi_host.Sendrecv(at, count, all->type, other, TAG, others, count, all->type, other, TAG,
                                 mpi_machines_equals(machines), (void *)mpi_host.is.status_ignore);
    if (code != 0)
        return code;
    if (machines->machine == 1)
        return mpi_host.Reduce_local(others, at, count, all->type, all->op);
    code = mpi_host.Reduce_local(at, others, count, all->type, all->op);
    memcpy(at, others, (size_t)count * all->reduction->bytes);
    return code;
}

/* Between the machines' first ranks. */
static int join(const struct reducing *all, char *at, int count) {
    enum { TWO_BYTES_MAX = 32 << 10 };
    const struct mpi_machines *const machines = all->state->machines;
    const size_t bytes = (size_t)count * all->reduction->bytes;
    int code;
    if (machines->machines == 2 && bytes <= TWO_BYTES_MAX) {
        char *const others = mpi_scratch(all->state, MPI_RECV, bytes);
        if (!others)
            return mpi_fail_packing(all->state, all->comm);
        code = join_two(all, at, others, count);
    } else {
        code = mpi_host.Allreduce((void *)mpi_host.is.in_place, at, count, all->type, all->op,
                                  mpi_machines_equals(machines));
    }
    return code != 0 ? mpi_machines_fail(all->state, all->comm, code) : 0;
}

static int allreduce_piece(const struct reducing *all, struct part part) {
    char *const at = all->recv + part.offset;
    int rc = fold(all, part, at, 0);
    if (rc == 0 && all->state->machines->place == 0)
        rc = join(all, at, (int)part.count);
    return rc == 0 ? spread(all, part) : rc;
}

int mpi_machines_allreduce(struct mpi_state *state, mpi_word comm, const void *send, void *recv, size_t count,
                           mpi_word type, mpi_word op, const struct mpi_reduction *reduction) {
    const struct reducing all = {state, send, recv, count,    mpi_machines_piece(reduction->bytes),
                                 type,  op,   comm, reduction};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i * all.piece < count; i++)
        rc = allreduce_piece(&all, part_of(&all, i));
    return rc;
}

/* One piece, of which the root's machine has the result at the root's place, or, where that has no equals, at the
 * first, which passes it on. `into`: of a rank that takes part between the machines. */
static int reduce_piece(const struct reducing *all, struct part part, char *into, int root) {
    enum { TAG = 1 };
    const struct mpi_machines *const machines = all->state->machines;
    const struct mpi_whereabouts to = machines->ranks[root];
    const int place = to.place < machines->places ? to.place : 0;
    const size_t bytes = part.count * all->reduction->bytes;
    const bool is_there = machines->machine == to.machine;
    int rc = fold(all, part, into, place);
    if (rc == 0 && machines->place == place) {
        void *const in_place = (void *)mpi_host.is.in_place;
        rc = mpi_host.Reduce(is_there ? in_place : into, is_there ? into : NULL, (int)part.count, all->type, all->op,
                             to.machine, mpi_machines_equals(machines));
        if (rc != 0)
            return mpi_machines_fail(all->state, all->comm, rc);
    }
    if (rc != 0 || !is_there || place == to.place)
        return rc;
    if (machines->place == place)
        rc = kolo_send(machines->near, into, bytes, KOLO_U8, to.place, TAG);
    else if (machines->place == to.place)
        rc = kolo_recv(machines->near, all->recv + part.offset, bytes, KOLO_U8, place, TAG, NULL);
    return rc < 0 ? mpi_fail(all->state, all->comm, rc) : 0;
}

int mpi_machines_reduce(struct mpi_state *state, mpi_word comm, const void *send, void *recv, size_t count,
                        mpi_word type, mpi_word op, const struct mpi_reduction *reduction, int root) {
    const struct reducing all = {state, send, recv, count,    mpi_machines_piece(reduction->bytes),
                                 type,  op,   comm, reduction};
    const struct mpi_machines *const machines = state->machines;
    const int place = machines->ranks[root].place < machines->places ? machines->ranks[root].place : 0;
    const bool has_own = machines->place == place && state->rank != root;
    const size_t kept = count < all.piece ? count : all.piece;
    char *const partial = has_own ? mpi_scratch(state, MPI_RECV, kept * reduction->bytes) : NULL;
    if (has_own && !partial)
        return mpi_fail_packing(state, comm);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i * all.piece < count; i++) {
        const struct part part = part_of(&all, i);
        rc = reduce_piece(&all, part, has_own ? partial : all.recv + part.offset, root);
    }
    return rc;
}
