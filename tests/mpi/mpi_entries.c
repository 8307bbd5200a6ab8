#include "mpi_calls.h"

#include <dlfcn.h>
#include <stdio.h>

/* What MPI_Alltoallw takes: displacements in bytes, and a type for each rank. */
struct types_of_all {
    int send_bytes[MPI_RANKS_MAX], recv_bytes[MPI_RANKS_MAX];
    MPI_Datatype send[MPI_RANKS_MAX], recv[MPI_RANKS_MAX];
};

static struct types_of_all types_of_all(const struct arguments *a) {
    struct types_of_all types;
    for (int i = 0; i < a->size; i++) {
        types.send_bytes[i] = (int)(a->send_starts[i] * a->send_extent);
        types.recv_bytes[i] = (int)(a->recv_starts[i] * a->recv_extent);
        types.send[i] = a->send_type;
        types.recv[i] = a->recv_type;
    }
    return types;
}

/* Those of one count and no root. */
typedef int reduction(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
#define ENTRY_REDUCTION(number, name, ...) [number] = MPI_##name,
static reduction *const reductions[CALLS] = {CALL_REDUCTIONS(ENTRY_REDUCTION)};

static int call_all_to_all(enum collective collective, const struct arguments *a) {
    if (collective == CALL_ALLTOALL)
        return MPI_Alltoall(a->send, a->send_counts[0], a->send_type, a->recv, a->recv_counts[0], a->recv_type,
                            a->comm);
    if (collective == CALL_ALLTOALLV)
        return MPI_Alltoallv(a->send, a->send_counts, a->send_starts, a->send_type, a->recv, a->recv_counts,
                             a->recv_starts, a->recv_type, a->comm);
    const struct types_of_all types = types_of_all(a);
    return MPI_Alltoallw(a->send, a->send_counts, types.send_bytes, types.send, a->recv, a->recv_counts,
                         types.recv_bytes, types.recv, a->comm);
}

int entry_call(enum collective collective, const struct arguments *a) {
    switch (collective) {
    case CALL_BARRIER:
        return MPI_Barrier(a->comm);
    case CALL_BCAST:
        return MPI_Bcast(a->recv, a->recv_counts[0], a->recv_type, a->root, a->comm);
    case CALL_REDUCE:
        return MPI_Reduce(a->send, a->recv, a->send_counts[0], a->send_type, a->op, a->root, a->comm);
    case CALL_REDUCE_SCATTER:
        return MPI_Reduce_scatter(a->send, a->recv, a->send_counts, a->send_type, a->op, a->comm);
    case CALL_GATHER:
        return MPI_Gather(a->send, a->send_counts[0], a->send_type, a->recv, a->recv_counts[0], a->recv_type, a->root,
                          a->comm);
    case CALL_GATHERV:
        return MPI_Gatherv(a->send, a->send_counts[0], a->send_type, a->recv, a->recv_counts, a->recv_starts,
                           a->recv_type, a->root, a->comm);
    case CALL_SCATTER:
        return MPI_Scatter(a->send, a->send_counts[0], a->send_type, a->recv, a->recv_counts[0], a->recv_type, a->root,
                           a->comm);
    case CALL_SCATTERV:
        return MPI_Scatterv(a->send, a->send_counts, a->send_starts, a->send_type, a->recv, a->recv_counts[0],
                            a->recv_type, a->root, a->comm);
    case CALL_ALLGATHER:
        return MPI_Allgather(a->send, a->send_counts[0], a->send_type, a->recv, a->recv_counts[0], a->recv_type,
                             a->comm);
    case CALL_ALLGATHERV:
        return MPI_Allgatherv(a->send, a->send_counts[0], a->send_type, a->recv, a->recv_counts, a->recv_starts,
                              a->recv_type, a->comm);
    case CALL_ALLTOALL:
    case CALL_ALLTOALLV:
    case CALL_ALLTOALLW:
        return call_all_to_all(collective, a);
    default:
        return reductions[collective](a->send, a->recv, a->send_counts[0], a->send_type, a->op, a->comm);
    }
}

/* The functions with counts of MPI_Count, by shape. */
typedef const MPI_Count *counts;
typedef const MPI_Aint *starts;
typedef const MPI_Datatype *types;
typedef int bcast_c(void *, MPI_Count, MPI_Datatype, int, MPI_Comm);
typedef int reduce_c(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, int, MPI_Comm);
typedef int reduction_c(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int reduce_scatter_c(const void *, void *, counts, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int gather_c(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm);
typedef int gatherv_c(const void *, MPI_Count, MPI_Datatype, void *, counts, starts, MPI_Datatype, int, MPI_Comm);
typedef int scatterv_c(const void *, counts, starts, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm);
typedef int allgather_c(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, MPI_Comm);
typedef int allgatherv_c(const void *, MPI_Count, MPI_Datatype, void *, counts, starts, MPI_Datatype, MPI_Comm);
typedef int alltoallv_c(const void *, counts, starts, MPI_Datatype, void *, counts, starts, MPI_Datatype, MPI_Comm);
typedef int alltoallw_c(const void *, counts, starts, types, void *, counts, starts, types, MPI_Comm);

static void *large_function(enum collective collective) {
    char name[40];
    snprintf(name, sizeof name, "MPI_%s_c", call_traits[collective].name);
    return collective == CALL_BARRIER ? NULL : dlsym(RTLD_DEFAULT, name);
}

bool entry_has_large(enum collective collective) {
    return large_function(collective) != NULL;
}

/* Counts and displacements of all ranks, as these functions take them. */
struct large {
    MPI_Count send_counts[MPI_RANKS_MAX], recv_counts[MPI_RANKS_MAX];
    MPI_Aint send_starts[MPI_RANKS_MAX], recv_starts[MPI_RANKS_MAX];
};

static struct large enlarged(const struct arguments *a) {
    struct large large;
    for (int i = 0; i < a->size; i++) {
        large.send_counts[i] = a->send_counts[i];
        large.recv_counts[i] = a->recv_counts[i];
        large.send_starts[i] = a->send_starts[i];
        large.recv_starts[i] = a->recv_starts[i];
    }
    return large;
}

static int call_large_reduction(enum collective collective, void *function, const struct arguments *a,
                                const struct large *l) {
    if (collective == CALL_REDUCE)
        return ((reduce_c *)function)(a->send, a->recv, a->send_counts[0], a->send_type, a->op, a->root, a->comm);
    if (collective == CALL_REDUCE_SCATTER)
        return ((reduce_scatter_c *)function)(a->send, a->recv, l->send_counts, a->send_type, a->op, a->comm);
    return ((reduction_c *)function)(a->send, a->recv, a->send_counts[0], a->send_type, a->op, a->comm);
}

static int call_large_all_to_all(enum collective collective, void *function, const struct arguments *a,
                                 const struct large *l) {
    if (collective == CALL_ALLTOALLV)
        return ((alltoallv_c *)function)(a->send, l->send_counts, l->send_starts, a->send_type, a->recv, l->recv_counts,
                                         l->recv_starts, a->recv_type, a->comm);
    const struct types_of_all types = types_of_all(a);
    MPI_Aint send_bytes[MPI_RANKS_MAX], recv_bytes[MPI_RANKS_MAX];
    for (int i = 0; i < a->size; i++) {
        send_bytes[i] = types.send_bytes[i];
        recv_bytes[i] = types.recv_bytes[i];
    }
    return ((alltoallw_c *)function)(a->send, l->send_counts, send_bytes, types.send, a->recv, l->recv_counts,
                                     recv_bytes, types.recv, a->comm);
}

int entry_call_large(enum collective collective, const struct arguments *a) {
    void *function = large_function(collective);
    const struct large l = enlarged(a);
    switch (collective) {
    case CALL_BCAST:
        return ((bcast_c *)function)(a->recv, a->recv_counts[0], a->recv_type, a->root, a->comm);
    case CALL_GATHER:
    case CALL_SCATTER:
        return ((gather_c *)function)(a->send, a->send_counts[0], a->send_type, a->recv, a->recv_counts[0],
                                      a->recv_type, a->root, a->comm);
    case CALL_GATHERV:
        return ((gatherv_c *)function)(a->send, a->send_counts[0], a->send_type, a->recv, l.recv_counts, l.recv_starts,
                                       a->recv_type, a->root, a->comm);
    case CALL_SCATTERV:
        return ((scatterv_c *)function)(a->send, l.send_counts, l.send_starts, a->send_type, a->recv, a->recv_counts[0],
                                        a->recv_type, a->root, a->comm);
    case CALL_ALLGATHER:
    case CALL_ALLTOALL:
        return ((allgather_c *)function)(a->send, a->send_counts[0], a->send_type, a->recv, a->recv_counts[0],
                                         a->recv_type, a->comm);
    case CALL_ALLGATHERV:
        return ((allgatherv_c *)function)(a->send, a->send_counts[0], a->send_type, a->recv, l.recv_counts,
                                          l.recv_starts, a->recv_type, a->comm);
    case CALL_ALLTOALLV:
    case CALL_ALLTOALLW:
        return call_large_all_to_all(collective, function, a, &l);
    default:
        return call_large_reduction(collective, function, a, &l);
    }
}
