/* The same with counts of 64 bits. Where the MPI has no such functions, mpi4py believes that it has, since these are
 * here: then they call those with ints, if the counts fit. */
#include "entries.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static struct mpi_numbers large(const mpi_count *values) {
    return (struct mpi_numbers){values, true};
}

static bool fits(mpi_count count) {
    return count <= INT_MAX && count >= INT_MIN;
}

static int refuse(mpi_word comm, const char *function) {
    fprintf(stderr, "kolo: MPI_%s: a count is larger than this MPI can take\n", function);
    mpi_host.Comm_call_errhandler(comm, mpi_host.is.err_other);
    return mpi_host.is.err_other;
}

/* Arrays of counts as ints: one for each rank from which data come, or to which they go. */
struct narrowed {
    int *counts, *places;
    bool fits;
};

static int peers(mpi_word comm) {
    int inter = 0, size = 0;
    mpi_host.Comm_test_inter(comm, &inter);
    if (inter)
        mpi_host.Comm_remote_size(comm, &size);
    else
        mpi_host.Comm_size(comm, &size);
    return size;
}

static bool is_significant(int root, mpi_word comm) {
    int rank = 0;
    mpi_host.Comm_rank(comm, &rank);
    return root == rank || root == mpi_host.is.root;
}

static int *narrow_array(const mpi_count *values, int size, bool *all_fit) {
    int *const narrow = values ? malloc(((size_t)size + 1) * sizeof *narrow) : NULL;
    *all_fit &= !values || narrow;
    for (int i = 0; narrow && i < size; i++) {
        *all_fit &= fits(values[i]);
        narrow[i] = (int)values[i];
    }
    return narrow;
}

static struct narrowed narrow(const mpi_count *counts, const mpi_count *places, bool significant, mpi_word comm) {
    struct narrowed narrowed = {NULL, NULL, true};
    const int size = significant ? peers(comm) : 0;
    if (significant) {
        narrowed.counts = narrow_array(counts, size, &narrowed.fits);
        narrowed.places = narrow_array(places, size, &narrowed.fits);
    }
    return narrowed;
}

static void forget(struct narrowed narrowed) {
    free(narrowed.counts);
    free(narrowed.places);
}

static int pass_broadcast(void *buffer, mpi_count count, mpi_word type, int root, mpi_word comm) {
    if (mpi_host.Bcast_c)
        return mpi_host.Bcast_c(buffer, count, type, root, comm);
    if (!fits(count))
        return refuse(comm, "Bcast_c");
    return mpi_host.Bcast(buffer, (int)count, type, root, comm);
}

int PMPI_Bcast_c(void *buffer, mpi_count count, mpi_word type, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Bcast, comm);
    if (mpi_passes(&entry, mpi_call_broadcast(buffer, count, type, root, comm)))
        entry.rc = pass_broadcast(buffer, count, type, root, comm);
    return mpi_leave(&entry);
}

/* What a reduction of one count is handed on to. */
typedef int large_reduction(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, mpi_word comm);
typedef int small_reduction(const void *send, void *recv, int count, mpi_word type, mpi_word op, mpi_word comm);

static int pass_reduction(large_reduction *large, small_reduction *small, const char *name, const void *send,
                          void *recv, mpi_count count, mpi_word type, mpi_word op, mpi_word comm) {
    if (large)
        return large(send, recv, count, type, op, comm);
    if (!fits(count))
        return refuse(comm, name);
    return small(send, recv, (int)count, type, op, comm);
}

int PMPI_Allreduce_c(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Allreduce, comm);
    if (mpi_passes(&entry, mpi_call_allreduce(send, recv, count, type, op, comm)))
        entry.rc =
            pass_reduction(mpi_host.Allreduce_c, mpi_host.Allreduce, "Allreduce_c", send, recv, count, type, op, comm);
    return mpi_leave(&entry);
}

static int pass_reduce(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, int root,
                       mpi_word comm) {
    if (mpi_host.Reduce_c)
        return mpi_host.Reduce_c(send, recv, count, type, op, root, comm);
    if (!fits(count))
        return refuse(comm, "Reduce_c");
    return mpi_host.Reduce(send, recv, (int)count, type, op, root, comm);
}

int PMPI_Reduce_c(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Reduce, comm);
    if (mpi_passes(&entry, mpi_call_reduce(send, recv, count, type, op, root, comm)))
        entry.rc = pass_reduce(send, recv, count, type, op, root, comm);
    return mpi_leave(&entry);
}

#define MPI_LARGE_SCAN_ENTRY(name, collective, ...)                                                                    \
    int PMPI_##name##_c(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, mpi_word comm) {    \
        struct mpi_entry entry = mpi_enter(MPI_REPORT_##name, comm);                                                   \
        const bool passes = mpi_passes(&entry, mpi_call_scan(collective, send, recv, count, type, op, comm));          \
        entry.rc =                                                                                                     \
            !passes ? entry.rc                                                                                         \
                    : pass_reduction(mpi_host.name##_c, mpi_host.name, #name "_c", send, recv, count, type, op, comm); \
        return mpi_leave(&entry);                                                                                      \
    }
MPI_SCANS(MPI_LARGE_SCAN_ENTRY)

static int pass_reduce_scatter(const void *send, void *recv, const mpi_count *counts, mpi_word type, mpi_word op,
                               mpi_word comm) {
    if (mpi_host.Reduce_scatter_c)
        return mpi_host.Reduce_scatter_c(send, recv, counts, type, op, comm);
    const struct narrowed n = narrow(counts, NULL, true, comm);
    const int rc =
        !n.fits ? refuse(comm, "Reduce_scatter_c") : mpi_host.Reduce_scatter(send, recv, n.counts, type, op, comm);
    forget(n);
    return rc;
}

int PMPI_Reduce_scatter_c(const void *send, void *recv, const mpi_count *counts, mpi_word type, mpi_word op,
                          mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Reduce_scatter, comm);
    if (mpi_passes(&entry, mpi_call_reduce_scatter(send, recv, large(counts), type, op, comm)))
        entry.rc = pass_reduce_scatter(send, recv, counts, type, op, comm);
    return mpi_leave(&entry);
}

int PMPI_Reduce_scatter_block_c(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op,
                                mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Reduce_scatter_block, comm);
    if (mpi_passes(&entry, mpi_call_reduce_scatter_block(send, recv, count, type, op, comm)))
        entry.rc = pass_reduction(mpi_host.Reduce_scatter_block_c, mpi_host.Reduce_scatter_block,
                                  "Reduce_scatter_block_c", send, recv, count, type, op, comm);
    return mpi_leave(&entry);
}

static int pass_allgather(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                          mpi_word recv_type, mpi_word comm) {
    if (mpi_host.Allgather_c)
        return mpi_host.Allgather_c(send, send_count, send_type, recv, recv_count, recv_type, comm);
    if (!fits(send_count) || !fits(recv_count))
        return refuse(comm, "Allgather_c");
    return mpi_host.Allgather(send, (int)send_count, send_type, recv, (int)recv_count, recv_type, comm);
}

int PMPI_Allgather_c(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                     mpi_word recv_type, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Allgather, comm);
    if (mpi_passes(&entry, mpi_call_allgather(send, send_count, send_type, recv, recv_count, recv_type, comm)))
        entry.rc = pass_allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
    return mpi_leave(&entry);
}

static int pass_alltoall(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                         mpi_word recv_type, mpi_word comm) {
    if (mpi_host.Alltoall_c)
        return mpi_host.Alltoall_c(send, send_count, send_type, recv, recv_count, recv_type, comm);
    if (!fits(send_count) || !fits(recv_count))
        return refuse(comm, "Alltoall_c");
    return mpi_host.Alltoall(send, (int)send_count, send_type, recv, (int)recv_count, recv_type, comm);
}

int PMPI_Alltoall_c(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                    mpi_word recv_type, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Alltoall, comm);
    if (mpi_passes(&entry, mpi_call_alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm)))
        entry.rc = pass_alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm);
    return mpi_leave(&entry);
}

static int pass_gather(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                       mpi_word recv_type, int root, mpi_word comm) {
    if (mpi_host.Gather_c)
        return mpi_host.Gather_c(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
    if (!fits(send_count) || !fits(recv_count))
        return refuse(comm, "Gather_c");
    return mpi_host.Gather(send, (int)send_count, send_type, recv, (int)recv_count, recv_type, root, comm);
}

int PMPI_Gather_c(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                  mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Gather, comm);
    if (mpi_passes(&entry, mpi_call_gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm)))
        entry.rc = pass_gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
    return mpi_leave(&entry);
}

static int pass_scatter(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                        mpi_word recv_type, int root, mpi_word comm) {
    if (mpi_host.Scatter_c)
        return mpi_host.Scatter_c(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
    if (!fits(send_count) || !fits(recv_count))
        return refuse(comm, "Scatter_c");
    return mpi_host.Scatter(send, (int)send_count, send_type, recv, (int)recv_count, recv_type, root, comm);
}

int PMPI_Scatter_c(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                   mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Scatter, comm);
    if (mpi_passes(&entry, mpi_call_scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm)))
        entry.rc = pass_scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
    return mpi_leave(&entry);
}

static int pass_allgatherv(const void *send, mpi_count send_count, mpi_word send_type, void *recv,
                           const mpi_count *counts, const mpi_count *places, mpi_word recv_type, mpi_word comm) {
    if (mpi_host.Allgatherv_c)
        return mpi_host.Allgatherv_c(send, send_count, send_type, recv, counts, places, recv_type, comm);
    const struct narrowed n = narrow(counts, places, true, comm);
    const int rc = !n.fits || !fits(send_count) ? refuse(comm, "Allgatherv_c")
                                                : mpi_host.Allgatherv(send, (int)send_count, send_type, recv, n.counts,
                                                                      n.places, recv_type, comm);
    forget(n);
    return rc;
}

int PMPI_Allgatherv_c(const void *send, mpi_count send_count, mpi_word send_type, void *recv, const mpi_count *counts,
                      const mpi_count *places, mpi_word recv_type, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Allgatherv, comm);
    if (mpi_passes(&entry, mpi_call_allgatherv(send, send_count, send_type, recv, large(counts), large(places),
                                               recv_type, comm)))
        entry.rc = pass_allgatherv(send, send_count, send_type, recv, counts, places, recv_type, comm);
    return mpi_leave(&entry);
}

static int pass_gatherv(const void *send, mpi_count send_count, mpi_word send_type, void *recv, const mpi_count *counts,
                        const mpi_count *places, mpi_word recv_type, int root, mpi_word comm) {
    if (mpi_host.Gatherv_c)
        return mpi_host.Gatherv_c(send, send_count, send_type, recv, counts, places, recv_type, root, comm);
    const struct narrowed n = narrow(counts, places, is_significant(root, comm), comm);
    const int rc = !n.fits || !fits(send_count) ? refuse(comm, "Gatherv_c")
                                                : mpi_host.Gatherv(send, (int)send_count, send_type, recv, n.counts,
                                                                   n.places, recv_type, root, comm);
    forget(n);
    return rc;
}

int PMPI_Gatherv_c(const void *send, mpi_count send_count, mpi_word send_type, void *recv, const mpi_count *counts,
                   const mpi_count *places, mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Gatherv, comm);
    if (mpi_passes(&entry, mpi_call_gatherv(send, send_count, send_type, recv, large(counts), large(places), recv_type,
                                            root, comm)))
        entry.rc = pass_gatherv(send, send_count, send_type, recv, counts, places, recv_type, root, comm);
    return mpi_leave(&entry);
}

static int pass_scatterv(const void *send, const mpi_count *counts, const mpi_count *places, mpi_word send_type,
                         void *recv, mpi_count recv_count, mpi_word recv_type, int root, mpi_word comm) {
    if (mpi_host.Scatterv_c)
        return mpi_host.Scatterv_c(send, counts, places, send_type, recv, recv_count, recv_type, root, comm);
    const struct narrowed n = narrow(counts, places, is_significant(root, comm), comm);
    const int rc = !n.fits || !fits(recv_count) ? refuse(comm, "Scatterv_c")
                                                : mpi_host.Scatterv(send, n.counts, n.places, send_type, recv,
                                                                    (int)recv_count, recv_type, root, comm);
    forget(n);
    return rc;
}

int PMPI_Scatterv_c(const void *send, const mpi_count *counts, const mpi_count *places, mpi_word send_type, void *recv,
                    mpi_count recv_count, mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Scatterv, comm);
    if (mpi_passes(&entry, mpi_call_scatterv(send, large(counts), large(places), send_type, recv, recv_count, recv_type,
                                             root, comm)))
        entry.rc = pass_scatterv(send, counts, places, send_type, recv, recv_count, recv_type, root, comm);
    return mpi_leave(&entry);
}

static int pass_alltoallv(const void *send, const mpi_count *send_counts, const mpi_count *send_places,
                          mpi_word send_type, void *recv, const mpi_count *recv_counts, const mpi_count *recv_places,
                          mpi_word recv_type, mpi_word comm) {
    if (mpi_host.Alltoallv_c)
        return mpi_host.Alltoallv_c(send, send_counts, send_places, send_type, recv, recv_counts, recv_places,
                                    recv_type, comm);
    const struct narrowed s = narrow(send_counts, send_places, (intptr_t)send != mpi_host.is.in_place, comm);
    const struct narrowed r = narrow(recv_counts, recv_places, true, comm);
    const int rc = !s.fits || !r.fits ? refuse(comm, "Alltoallv_c")
                                      : mpi_host.Alltoallv(send, s.counts, s.places, send_type, recv, r.counts,
                                                           r.places, recv_type, comm);
    forget(s);
    forget(r);
    return rc;
}

int PMPI_Alltoallv_c(const void *send, const mpi_count *send_counts, const mpi_count *send_places, mpi_word send_type,
                     void *recv, const mpi_count *recv_counts, const mpi_count *recv_places, mpi_word recv_type,
                     mpi_word comm) {
    struct mpi_entry entry = mpi_enter(MPI_REPORT_Alltoallv, comm);
    if (mpi_passes(&entry, mpi_call_alltoallv(send, large(send_counts), large(send_places), send_type, recv,
                                              large(recv_counts), large(recv_places), recv_type, comm)))
        entry.rc =
            pass_alltoallv(send, send_counts, send_places, send_type, recv, recv_counts, recv_places, recv_type, comm);
    return mpi_leave(&entry);
}
