/* The functions that programs call in place of the MPI's, by their second names: those by their first ones go here
 * (entries_tools.c), as do Open MPI's Fortran and profilers. A call that kolo does not make goes on to the MPI as it
 * came. */
#include "entries.h"

#include "calls/fast.h"
#include "communicators/states.h"
#include "mpi_life.h"

int PMPI_Init(int *argc, char ***argv) {
    mpi_host_find();
    mpi_life_prepare();
    const int rc = mpi_host.Init(argc, argv);
    if (rc == 0)
        mpi_life_begin();
    return rc;
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    mpi_host_find();
    mpi_life_prepare();
    const int rc = mpi_host.Init_thread(argc, argv, required, provided);
    if (rc == 0)
        mpi_life_begin();
    return rc;
}

int PMPI_Finalize(void) {
    mpi_host_find();
    mpi_life_finalize();
    const int rc = mpi_host.Finalize();
    mpi_life_end();
    return rc;
}

/* Functions that make communicators, except between groups. */

int PMPI_Comm_dup(mpi_word comm, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_dup(comm, made), made);
}

int PMPI_Comm_dup_with_info(mpi_word comm, mpi_word info, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_dup_with_info(comm, info, made), made);
}

int PMPI_Comm_idup(mpi_word comm, void *made, void *request) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_idup(comm, made, request), made);
}

int PMPI_Comm_create(mpi_word comm, mpi_word group, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_create(comm, group, made), made);
}

int PMPI_Comm_create_group(mpi_word comm, mpi_word group, int tag, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_create_group(comm, group, tag, made), made);
}

int PMPI_Comm_split(mpi_word comm, int color, int key, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_split(comm, color, key, made), made);
}

int PMPI_Comm_split_type(mpi_word comm, int type, int key, mpi_word info, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_split_type(comm, type, key, info, made), made);
}

int PMPI_Cart_create(mpi_word comm, int dimensions, const int *sizes, const int *periods, int reorder, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Cart_create(comm, dimensions, sizes, periods, reorder, made), made);
}

int PMPI_Cart_sub(mpi_word comm, const int *kept, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Cart_sub(comm, kept, made), made);
}

int PMPI_Graph_create(mpi_word comm, int nodes, const int *indices, const int *edges, int reorder, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Graph_create(comm, nodes, indices, edges, reorder, made), made);
}

int PMPI_Dist_graph_create(mpi_word comm, int count, const int *sources, const int *degrees, const int *destinations,
                           const int *weights, mpi_word info, int reorder, void *made) {
    mpi_host_find();
    const int rc =
        mpi_host.Dist_graph_create(comm, count, sources, degrees, destinations, weights, info, reorder, made);
    return mpi_state_begin(rc, made);
}

int PMPI_Dist_graph_create_adjacent(mpi_word comm, int in, const int *sources, const int *source_weights, int out,
                                    const int *destinations, const int *destination_weights, mpi_word info, int reorder,
                                    void *made) {
    mpi_host_find();
    const int rc = mpi_host.Dist_graph_create_adjacent(comm, in, sources, source_weights, out, destinations,
                                                       destination_weights, info, reorder, made);
    return mpi_state_begin(rc, made);
}

int PMPI_Intercomm_merge(mpi_word comm, int high, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Intercomm_merge(comm, high, made), made);
}

int PMPI_Comm_free(void *comm) {
    mpi_host_find();
    return mpi_state_end(mpi_host.Comm_free, comm);
}

int PMPI_Comm_disconnect(void *comm) {
    mpi_host_find();
    return mpi_state_end(mpi_host.Comm_disconnect, comm);
}

/* Collectives. */

static struct mpi_numbers ints(const int *values) {
    return (struct mpi_numbers){values, false};
}

static __attribute__((noinline)) int bcast_slowly(void *buffer, int count, mpi_word type, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Bcast, comm);
    if (mpi_passes(&entry, mpi_call_broadcast(buffer, count, type, root, comm)))
        entry.rc = mpi_host.Bcast(buffer, count, type, root, comm);
    return mpi_leave(&entry);
}

int PMPI_Bcast(void *buffer, int count, mpi_word type, int root, mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const struct mpi_type *const known = state ? mpi_fast_type(state, type) : NULL;
    if (__builtin_expect(!known || mpi_is_in_place(buffer), 0))
        return bcast_slowly(buffer, count, type, root, comm);
    const int rc = kolo_broadcast(state->fast, buffer, (size_t)count * known->bytes, KOLO_U8, root);
    if (__builtin_expect(rc == 0, 1))
        return 0;
    return rc == KOLO_ERR_ARG ? bcast_slowly(buffer, count, type, root, comm) : mpi_fail(state, comm, rc);
}

static __attribute__((noinline)) int barrier_slowly(mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Barrier, comm);
    if (mpi_passes(&entry, mpi_call_barrier(comm)))
        entry.rc = mpi_host.Barrier(comm);
    return mpi_leave(&entry);
}

int PMPI_Barrier(mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    if (__builtin_expect(!state, 0))
        return barrier_slowly(comm);
    const int rc = kolo_barrier(state->fast);
    return __builtin_expect(rc == 0, 1) ? 0 : mpi_fail(state, comm, rc);
}

static __attribute__((noinline)) int allreduce_slowly(const void *send, void *recv, int count, mpi_word type,
                                                      mpi_word op, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Allreduce, comm);
    if (mpi_passes(&entry, mpi_call_allreduce(send, recv, count, type, op, comm)))
        entry.rc = mpi_host.Allreduce(send, recv, count, type, op, comm);
    return mpi_leave(&entry);
}

int PMPI_Allreduce(const void *send, void *recv, int count, mpi_word type, mpi_word op, mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const struct mpi_reduction *const reduction = state ? mpi_fast_reduction(state, type, op) : NULL;
    if (__builtin_expect(!reduction || mpi_is_in_place(recv), 0))
        return allreduce_slowly(send, recv, count, type, op, comm);
    const void *const from = mpi_is_in_place(send) ? recv : send;
    const size_t parts = (size_t)count * reduction->parts;
    const int rc = kolo_allreduce(state->fast, from, recv, parts, reduction->dtype, reduction->op);
    if (__builtin_expect(rc == 0, 1))
        return 0;
    return rc == KOLO_ERR_ARG ? allreduce_slowly(send, recv, count, type, op, comm) : mpi_fail(state, comm, rc);
}

static __attribute__((noinline)) int reduce_slowly(const void *send, void *recv, int count, mpi_word type, mpi_word op,
                                                   int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Reduce, comm);
    if (mpi_passes(&entry, mpi_call_reduce(send, recv, count, type, op, root, comm)))
        entry.rc = mpi_host.Reduce(send, recv, count, type, op, root, comm);
    return mpi_leave(&entry);
}

int PMPI_Reduce(const void *send, void *recv, int count, mpi_word type, mpi_word op, int root, mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const struct mpi_reduction *const reduction = state ? mpi_fast_reduction(state, type, op) : NULL;
    const bool is_root = reduction && root == state->rank;
    if (__builtin_expect(!reduction || mpi_is_in_place(is_root ? recv : send), 0))
        return reduce_slowly(send, recv, count, type, op, root, comm);
    const void *const from = is_root && mpi_is_in_place(send) ? recv : send;
    const size_t parts = (size_t)count * reduction->parts;
    const int rc = kolo_reduce(state->fast, from, is_root ? recv : NULL, parts, reduction->dtype, reduction->op, root);
    if (__builtin_expect(rc == 0, 1))
        return 0;
    return rc == KOLO_ERR_ARG ? reduce_slowly(send, recv, count, type, op, root, comm) : mpi_fail(state, comm, rc);
}

#define MPI_SCAN_ENTRY(name, collective, ...)                                                                          \
    int PMPI_##name(const void *send, void *recv, int count, mpi_word type, mpi_word op, mpi_word comm) {              \
        struct mpi_entry entry = mpi_enter(MPI_REPORT_##name, comm);                                                   \
        const bool passes = mpi_passes(&entry, mpi_call_scan(collective, send, recv, count, type, op, comm));          \
        entry.rc = passes ? mpi_host.name(send, recv, count, type, op, comm) : entry.rc;                               \
        return mpi_leave(&entry);                                                                                      \
    }
MPI_SCANS(MPI_SCAN_ENTRY)

/* Of blocks of one size. MPI_PASS: it is not plainly that. */
static inline int reduce_scatter_fast(struct mpi_state *state, const void *send, void *recv, int count, mpi_word type,
                                      mpi_word op, mpi_word comm) {
    const struct mpi_reduction *const reduction = mpi_fast_reduction(state, type, op);
    if (__builtin_expect(!reduction || count < 0 || mpi_is_in_place(send) || mpi_is_in_place(recv), 0))
        return MPI_PASS;
    const int rc =
        kolo_reduce_scatter(state->fast, send, recv, (size_t)count * reduction->parts, reduction->dtype, reduction->op);
    if (__builtin_expect(rc == 0, 1))
        return 0;
    return rc == KOLO_ERR_ARG ? MPI_PASS : mpi_fail(state, comm, rc);
}

/* The count that all blocks have; -1: they do not. */
static inline int even_count(const struct mpi_state *state, const int *counts) {
    for (int rank = 1; rank < state->size; rank++)
        if (counts[rank] != counts[0])
            return -1;
    return counts[0];
}

static __attribute__((noinline)) int reduce_scatter_slowly(const void *send, void *recv, const int *counts,
                                                           mpi_word type, mpi_word op, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Reduce_scatter, comm);
    if (mpi_passes(&entry, mpi_call_reduce_scatter(send, recv, ints(counts), type, op, comm)))
        entry.rc = mpi_host.Reduce_scatter(send, recv, counts, type, op, comm);
    return mpi_leave(&entry);
}

int PMPI_Reduce_scatter(const void *send, void *recv, const int *counts, mpi_word type, mpi_word op, mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const int rc = state
                       ? reduce_scatter_fast(state, send, recv, counts ? even_count(state, counts) : -1, type, op, comm)
                       : MPI_PASS;
    return __builtin_expect(rc != MPI_PASS, 1) ? rc : reduce_scatter_slowly(send, recv, counts, type, op, comm);
}

static __attribute__((noinline)) int reduce_scatter_block_slowly(const void *send, void *recv, int count, mpi_word type,
                                                                 mpi_word op, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Reduce_scatter_block, comm);
    if (mpi_passes(&entry, mpi_call_reduce_scatter_block(send, recv, count, type, op, comm)))
        entry.rc = mpi_host.Reduce_scatter_block(send, recv, count, type, op, comm);
    return mpi_leave(&entry);
}

int PMPI_Reduce_scatter_block(const void *send, void *recv, int count, mpi_word type, mpi_word op, mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const int rc = state ? reduce_scatter_fast(state, send, recv, count, type, op, comm) : MPI_PASS;
    return __builtin_expect(rc != MPI_PASS, 1) ? rc : reduce_scatter_block_slowly(send, recv, count, type, op, comm);
}

static __attribute__((noinline)) int allgather_slowly(const void *send, int send_count, mpi_word send_type, void *recv,
                                                      int recv_count, mpi_word recv_type, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Allgather, comm);
    if (mpi_passes(&entry, mpi_call_allgather(send, send_count, send_type, recv, recv_count, recv_type, comm)))
        entry.rc = mpi_host.Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
    return mpi_leave(&entry);
}

int PMPI_Allgather(const void *send, int send_count, mpi_word send_type, void *recv, int recv_count, mpi_word recv_type,
                   mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const size_t bytes =
        state ? mpi_fast_blocks(state, send, send_count, send_type, recv, recv_count, recv_type) : SIZE_MAX;
    if (__builtin_expect(bytes == SIZE_MAX, 0))
        return allgather_slowly(send, send_count, send_type, recv, recv_count, recv_type, comm);
    const int rc = kolo_allgather(state->fast, send, recv, bytes, KOLO_U8);
    if (__builtin_expect(rc == 0, 1))
        return 0;
    return rc == KOLO_ERR_ARG ? allgather_slowly(send, send_count, send_type, recv, recv_count, recv_type, comm)
                              : mpi_fail(state, comm, rc);
}

static __attribute__((noinline)) int alltoall_slowly(const void *send, int send_count, mpi_word send_type, void *recv,
                                                     int recv_count, mpi_word recv_type, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Alltoall, comm);
    if (mpi_passes(&entry, mpi_call_alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm)))
        entry.rc = mpi_host.Alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm);
    return mpi_leave(&entry);
}

int PMPI_Alltoall(const void *send, int send_count, mpi_word send_type, void *recv, int recv_count, mpi_word recv_type,
                  mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const size_t bytes =
        state ? mpi_fast_blocks(state, send, send_count, send_type, recv, recv_count, recv_type) : SIZE_MAX;
    if (__builtin_expect(bytes == SIZE_MAX, 0))
        return alltoall_slowly(send, send_count, send_type, recv, recv_count, recv_type, comm);
    const int rc = kolo_alltoall(state->fast, send, recv, bytes, KOLO_U8);
    if (__builtin_expect(rc == 0, 1))
        return 0;
    return rc == KOLO_ERR_ARG ? alltoall_slowly(send, send_count, send_type, recv, recv_count, recv_type, comm)
                              : mpi_fail(state, comm, rc);
}

int PMPI_Gather(const void *send, int send_count, mpi_word send_type, void *recv, int recv_count, mpi_word recv_type,
                int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Gather, comm);
    if (mpi_passes(&entry, mpi_call_gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm)))
        entry.rc = mpi_host.Gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
    return mpi_leave(&entry);
}

int PMPI_Scatter(const void *send, int send_count, mpi_word send_type, void *recv, int recv_count, mpi_word recv_type,
                 int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Scatter, comm);
    if (mpi_passes(&entry, mpi_call_scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm)))
        entry.rc = mpi_host.Scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
    return mpi_leave(&entry);
}

int PMPI_Allgatherv(const void *send, int send_count, mpi_word send_type, void *recv, const int *counts,
                    const int *places, mpi_word recv_type, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Allgatherv, comm);
    if (mpi_passes(&entry,
                   mpi_call_allgatherv(send, send_count, send_type, recv, ints(counts), ints(places), recv_type, comm)))
        entry.rc = mpi_host.Allgatherv(send, send_count, send_type, recv, counts, places, recv_type, comm);
    return mpi_leave(&entry);
}

int PMPI_Gatherv(const void *send, int send_count, mpi_word send_type, void *recv, const int *counts, const int *places,
                 mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Gatherv, comm);
    if (mpi_passes(&entry, mpi_call_gatherv(send, send_count, send_type, recv, ints(counts), ints(places), recv_type,
                                            root, comm)))
        entry.rc = mpi_host.Gatherv(send, send_count, send_type, recv, counts, places, recv_type, root, comm);
    return mpi_leave(&entry);
}

int PMPI_Scatterv(const void *send, const int *counts, const int *places, mpi_word send_type, void *recv,
                  int recv_count, mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Scatterv, comm);
    if (mpi_passes(&entry, mpi_call_scatterv(send, ints(counts), ints(places), send_type, recv, recv_count, recv_type,
                                             root, comm)))
        entry.rc = mpi_host.Scatterv(send, counts, places, send_type, recv, recv_count, recv_type, root, comm);
    return mpi_leave(&entry);
}

int PMPI_Alltoallv(const void *send, const int *send_counts, const int *send_places, mpi_word send_type, void *recv,
                   const int *recv_counts, const int *recv_places, mpi_word recv_type, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Alltoallv, comm);
    if (mpi_passes(&entry, mpi_call_alltoallv(send, ints(send_counts), ints(send_places), send_type, recv,
                                              ints(recv_counts), ints(recv_places), recv_type, comm)))
        entry.rc = mpi_host.Alltoallv(send, send_counts, send_places, send_type, recv, recv_counts, recv_places,
                                      recv_type, comm);
    return mpi_leave(&entry);
}
