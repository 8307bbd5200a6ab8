/* Calls that kolo does not make go on to the MPI as they came. Where it has no functions with counts of 64 bits, mpi4py
 * believes that it has, since ours are there: then those with ints are called, if the counts fit. */
#include "host/mpi_host.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define MPI_FUNCTION_NAME(name, ...) [MPI_##name##_INDEX] = #name,
const char *const mpi_function_names[MPI_FUNCTIONS] = {MPI_FUNCTION_NAME(Barrier)
                                                           MPI_COUNTED_FUNCTIONS(MPI_FUNCTION_NAME, , int)};

static bool fits(mpi_count count) {
    return count <= INT_MAX && count >= INT_MIN;
}

/* Whether the counts of that side are significant: no number there may be looked at otherwise. */
static bool is_significant(const struct mpi_call *call, const struct mpi_buffer *side) {
    const bool gathers = call->function == MPI_Gather_INDEX || call->function == MPI_Gatherv_INDEX,
               scatters = call->function == MPI_Scatter_INDEX || call->function == MPI_Scatterv_INDEX;
    int inter = 0, rank = 0;
    if ((intptr_t)side->address == mpi_host.is.in_place)
        return false;
    if (!gathers && !scatters)
        return true;
    mpi_host.Comm_test_inter(call->comm, &inter);
    mpi_host.Comm_rank(call->comm, &rank);
    if (gathers == (side == &call->recv)) /* the root's */
        return call->root == (inter ? mpi_host.is.root : rank);
    return !inter || call->root >= 0; /* else it is one of the root's group */
}

/* How many counts each list has. */
static int list_length(const struct mpi_call *call) {
    int inter = 0, size = 0;
    mpi_host.Comm_test_inter(call->comm, &inter);
    if (inter && call->function != MPI_Reduce_scatter_INDEX) /* which divides what comes among this side's ranks */
        mpi_host.Comm_remote_size(call->comm, &size);
    else
        mpi_host.Comm_size(call->comm, &size);
    return size;
}

/* False: they do not fit. */
static bool narrow_numbers(struct mpi_numbers *numbers, int size) {
    const mpi_count *const values = numbers->values;
    int *const narrow = values && size >= 0 ? malloc(((size_t)size + 1) * sizeof *narrow) : NULL;
    bool all_fit = !values || size < 0 || narrow;
    for (int i = 0; narrow && i < size; i++) {
        all_fit &= fits(values[i]);
        narrow[i] = (int)values[i];
    }
    *numbers = (struct mpi_numbers){narrow, false};
    return all_fit;
}

/* size: of its lists; -1: nothing of it is significant. */
static bool narrow_buffer(struct mpi_buffer *buffer, int size) {
    const bool counts_fit = narrow_numbers(&buffer->counts, size), places_fit = narrow_numbers(&buffer->places, size);
    buffer->count = size < 0 ? 0 : buffer->count;
    return counts_fit && places_fit && fits(buffer->count);
}

static void forget(const struct mpi_buffer *buffer) {
    free((void *)buffer->counts.values);
    free((void *)buffer->places.values);
}

/* The arguments by their names, for the lists in host/functions.h. */
#define MPI_ARGUMENTS(COUNT)                                                                                           \
    const void *const send = call->send.address;                                                                       \
    void *const recv = (void *)call->recv.address;                                                                     \
    const COUNT send_count = (COUNT)call->send.count, recv_count = (COUNT)call->recv.count;                            \
    const COUNT *const send_counts = call->send.counts.values, *const send_places = call->send.places.values;          \
    const COUNT *const recv_counts = call->recv.counts.values, *const recv_places = call->recv.places.values;          \
    const mpi_word send_type = call->send.type, recv_type = call->recv.type, op = call->op, comm = call->comm;         \
    const int root = call->root;

static int pass(const struct mpi_call *call) {
    MPI_ARGUMENTS(int)
    switch (call->function) {
#define MPI_PASS(name, parameters, arguments, ...)                                                                     \
    case MPI_##name##_INDEX:                                                                                           \
        return mpi_host.name arguments;
        MPI_COUNTED_FUNCTIONS(MPI_PASS, , int)
    default:
        return mpi_host.Barrier(comm);
    }
}

static int pass_narrowed(const struct mpi_call *call) {
    struct mpi_call narrow = *call;
    const bool has_counts = call->send.counts.values || call->recv.counts.values;
    const int size = has_counts ? list_length(call) : 0;
    const bool sent_fit = narrow_buffer(&narrow.send, is_significant(call, &call->send) ? size : -1);
    const bool taken_fit = narrow_buffer(&narrow.recv, is_significant(call, &call->recv) ? size : -1);
    int rc = mpi_host.is.err_other;
    if (sent_fit && taken_fit) {
        rc = pass(&narrow);
    } else {
        fprintf(stderr, "kolo: MPI_%s_c: a count is larger than this MPI can take\n",
                mpi_function_names[call->function]);
        mpi_host.Comm_call_errhandler(call->comm, rc);
    }
    forget(&narrow.send);
    forget(&narrow.recv);
    return rc;
}

static int pass_large(const struct mpi_call *call) {
    MPI_ARGUMENTS(mpi_count)
    switch (call->function) {
#define MPI_PASS_LARGE(name, parameters, arguments, ...)                                                               \
    case MPI_##name##_INDEX:                                                                                           \
        return mpi_host.name ? mpi_host.name arguments : pass_narrowed(call);
        MPI_COUNTED_FUNCTIONS(MPI_PASS_LARGE, _c, mpi_count)
    default:
        return mpi_host.Barrier(comm);
    }
}

int mpi_pass(const struct mpi_call *call) {
    return call->is_large ? pass_large(call) : pass(call);
}
