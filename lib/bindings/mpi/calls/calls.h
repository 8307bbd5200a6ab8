/* What the collectives do in kolo. Each returns 0, an MPI error code that has been reported, or MPI_PASS: the call is
 * the MPI's, which all ranks find alike, and nothing has been done.
 *
 * Arguments that are wrong on this rank alone are passed to the MPI, too, for its own message; they are looked at
 * before the communicator is, as the call does not count. Those that are not significant on a rank are never looked at.
 */
#pragma once

#include <limits.h>

#include "kolo.h"
#include "host/mpi_host.h"

#define MPI_PASS INT_MIN

/* Counts or places of blocks: ints, or 64 bits each in the _c forms. */
struct mpi_numbers {
    const void *values;
    bool is_large;
};

static inline mpi_count mpi_number(struct mpi_numbers numbers, int i) {
    return numbers.is_large ? ((const mpi_count *)numbers.values)[i] : ((const int *)numbers.values)[i];
}

/* calls/reductions.c */
int mpi_call_allreduce(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, mpi_word comm);
int mpi_call_reduce(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, int root, mpi_word comm);
int mpi_call_scan(kolo_collective collective, const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op,
                  mpi_word comm); /* of MPI_SCANS */
int mpi_call_reduce_scatter(const void *send, void *recv, struct mpi_numbers counts, mpi_word type, mpi_word op,
                            mpi_word comm);
int mpi_call_reduce_scatter_block(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op,
                                  mpi_word comm);

/* calls/movement.c */
int mpi_call_barrier(mpi_word comm);
int mpi_call_broadcast(void *buffer, mpi_count count, mpi_word type, int root, mpi_word comm);
int mpi_call_allgather(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                       mpi_word recv_type, mpi_word comm);
int mpi_call_alltoall(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                      mpi_word recv_type, mpi_word comm);
int mpi_call_gather(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                    mpi_word recv_type, int root, mpi_word comm);
int mpi_call_scatter(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                     mpi_word recv_type, int root, mpi_word comm);

/* calls/counted_blocks.c */
int mpi_call_allgatherv(const void *send, mpi_count send_count, mpi_word send_type, void *recv,
                        struct mpi_numbers counts, struct mpi_numbers places, mpi_word recv_type, mpi_word comm);
int mpi_call_gatherv(const void *send, mpi_count send_count, mpi_word send_type, void *recv, struct mpi_numbers counts,
                     struct mpi_numbers places, mpi_word recv_type, int root, mpi_word comm);
int mpi_call_scatterv(const void *send, struct mpi_numbers counts, struct mpi_numbers places, mpi_word send_type,
                      void *recv, mpi_count recv_count, mpi_word recv_type, int root, mpi_word comm);
int mpi_call_alltoallv(const void *send, struct mpi_numbers send_counts, struct mpi_numbers send_places,
                       mpi_word send_type, void *recv, struct mpi_numbers recv_counts, struct mpi_numbers recv_places,
                       mpi_word recv_type, mpi_word comm);
