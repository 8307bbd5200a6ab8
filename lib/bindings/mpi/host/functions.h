/* The functions of the MPI that are called: FUNCTION(name, arguments) for each PMPI_name. Handles are machine words,
 * and pointers to handles are to what the family has (mpi_word_load). Counts of the _c forms are of 64 bits. */
#ifndef MPI_HOST_FUNCTIONS_H
#define MPI_HOST_FUNCTIONS_H

#include "host/constants.h"

typedef int64_t mpi_count; /* MPI_Count and MPI_Aint */

/* Every MPI has these; without them nothing could be taken over. */
#define MPI_USED_FUNCTIONS(FUNCTION)                                                                                   \
    FUNCTION(Comm_rank, (mpi_word, int *))                                                                             \
    FUNCTION(Comm_size, (mpi_word, int *))                                                                             \
    FUNCTION(Comm_test_inter, (mpi_word, int *))                                                                       \
    FUNCTION(Comm_group, (mpi_word, void *))                                                                           \
    FUNCTION(Comm_remote_size, (mpi_word, int *))                                                                      \
    FUNCTION(Comm_call_errhandler, (mpi_word, int))                                                                    \
    FUNCTION(Comm_set_errhandler, (mpi_word, mpi_word))                                                                \
    FUNCTION(Error_string, (int, char *, int *))                                                                       \
    FUNCTION(Group_compare, (mpi_word, mpi_word, int *))                                                               \
    FUNCTION(Group_translate_ranks, (mpi_word, int, const int *, mpi_word, int *))                                     \
    FUNCTION(Group_free, (void *))                                                                                     \
    FUNCTION(Type_size, (mpi_word, int *))                                                                             \
    FUNCTION(Type_get_extent, (mpi_word, mpi_count *, mpi_count *))                                                    \
    FUNCTION(Type_get_envelope, (mpi_word, int *, int *, int *, int *))                                                \
    FUNCTION(Type_get_contents, (mpi_word, int, int, int, int *, mpi_count *, void *))                                 \
    FUNCTION(Type_free, (void *))                                                                                      \
    FUNCTION(Type_create_hindexed, (int, const int *, const mpi_count *, mpi_word, void *))                            \
    FUNCTION(Type_commit, (void *))                                                                                    \
    FUNCTION(Sendrecv, (const void *, int, mpi_word, int, int, void *, int, mpi_word, int, int, mpi_word, void *))     \
    FUNCTION(Reduce_local, (const void *, void *, int, mpi_word, mpi_word))                                            \
    FUNCTION(Pack, (const void *, int, mpi_word, void *, int, int *, mpi_word))                                        \
    FUNCTION(Unpack, (const void *, int, int *, void *, int, mpi_word, mpi_word))

/* So it has these, in the place of which the program calls ours. */
#define MPI_TAKEN_FUNCTIONS(FUNCTION)                                                                                  \
    FUNCTION(Init, (int *, char ***))                                                                                  \
    FUNCTION(Init_thread, (int *, char ***, int, int *))                                                               \
    FUNCTION(Finalize, (void))                                                                                         \
    FUNCTION(Comm_free, (void *))                                                                                      \
    FUNCTION(Comm_disconnect, (void *))                                                                                \
    FUNCTION(Comm_dup, (mpi_word, void *))                                                                             \
    FUNCTION(Comm_dup_with_info, (mpi_word, mpi_word, void *))                                                         \
    FUNCTION(Comm_idup, (mpi_word, void *, void *))                                                                    \
    FUNCTION(Comm_create, (mpi_word, mpi_word, void *))                                                                \
    FUNCTION(Comm_create_group, (mpi_word, mpi_word, int, void *))                                                     \
    FUNCTION(Comm_split, (mpi_word, int, int, void *))                                                                 \
    FUNCTION(Comm_split_type, (mpi_word, int, int, mpi_word, void *))                                                  \
    FUNCTION(Cart_create, (mpi_word, int, const int *, const int *, int, void *))                                      \
    FUNCTION(Cart_sub, (mpi_word, const int *, void *))                                                                \
    FUNCTION(Graph_create, (mpi_word, int, const int *, const int *, int, void *))                                     \
    FUNCTION(Dist_graph_create,                                                                                        \
             (mpi_word, int, const int *, const int *, const int *, const int *, mpi_word, int, void *))               \
    FUNCTION(Dist_graph_create_adjacent,                                                                               \
             (mpi_word, int, const int *, const int *, int, const int *, const int *, mpi_word, int, void *))          \
    FUNCTION(Intercomm_merge, (mpi_word, int, void *))                                                                 \
    FUNCTION(Barrier, (mpi_word))                                                                                      \
    FUNCTION(Bcast, (void *, int, mpi_word, int, mpi_word))                                                            \
    FUNCTION(Allreduce, (const void *, void *, int, mpi_word, mpi_word, mpi_word))                                     \
    FUNCTION(Reduce, (const void *, void *, int, mpi_word, mpi_word, int, mpi_word))                                   \
    FUNCTION(Scan, (const void *, void *, int, mpi_word, mpi_word, mpi_word))                                          \
    FUNCTION(Exscan, (const void *, void *, int, mpi_word, mpi_word, mpi_word))                                        \
    FUNCTION(Reduce_scatter, (const void *, void *, const int *, mpi_word, mpi_word, mpi_word))                        \
    FUNCTION(Reduce_scatter_block, (const void *, void *, int, mpi_word, mpi_word, mpi_word))                          \
    FUNCTION(Allgather, (const void *, int, mpi_word, void *, int, mpi_word, mpi_word))                                \
    FUNCTION(Alltoall, (const void *, int, mpi_word, void *, int, mpi_word, mpi_word))                                 \
    FUNCTION(Gather, (const void *, int, mpi_word, void *, int, mpi_word, int, mpi_word))                              \
    FUNCTION(Scatter, (const void *, int, mpi_word, void *, int, mpi_word, int, mpi_word))                             \
    FUNCTION(Allgatherv, (const void *, int, mpi_word, void *, const int *, const int *, mpi_word, mpi_word))          \
    FUNCTION(Gatherv, (const void *, int, mpi_word, void *, const int *, const int *, mpi_word, int, mpi_word))        \
    FUNCTION(Scatterv, (const void *, const int *, const int *, mpi_word, void *, int, mpi_word, int, mpi_word))       \
    FUNCTION(Alltoallv,                                                                                                \
             (const void *, const int *, const int *, mpi_word, void *, const int *, const int *, mpi_word, mpi_word))

/* Likewise: those that say at once whether something is done. */
#define MPI_TAKEN_TESTS(FUNCTION)                                                                                      \
    FUNCTION(Test, (void *, int *, void *))                                                                            \
    FUNCTION(Testall, (int, void *, int *, void *))                                                                    \
    FUNCTION(Testany, (int, void *, int *, int *, void *))                                                             \
    FUNCTION(Testsome, (int, void *, int *, int *, void *))                                                            \
    FUNCTION(Request_get_status, (mpi_word, int *, void *))                                                            \
    FUNCTION(Iprobe, (int, int, mpi_word, int *, void *))                                                              \
    FUNCTION(Improbe, (int, int, mpi_word, int *, void *, void *))                                                     \
    FUNCTION(Win_test, (mpi_word, int *))

/* Likewise, but NULL where the MPI has none. */
#define MPI_TAKEN_LARGE_FUNCTIONS(FUNCTION)                                                                            \
    FUNCTION(Bcast_c, (void *, mpi_count, mpi_word, int, mpi_word))                                                    \
    FUNCTION(Allreduce_c, (const void *, void *, mpi_count, mpi_word, mpi_word, mpi_word))                             \
    FUNCTION(Reduce_c, (const void *, void *, mpi_count, mpi_word, mpi_word, int, mpi_word))                           \
    FUNCTION(Scan_c, (const void *, void *, mpi_count, mpi_word, mpi_word, mpi_word))                                  \
    FUNCTION(Exscan_c, (const void *, void *, mpi_count, mpi_word, mpi_word, mpi_word))                                \
    FUNCTION(Reduce_scatter_c, (const void *, void *, const mpi_count *, mpi_word, mpi_word, mpi_word))                \
    FUNCTION(Reduce_scatter_block_c, (const void *, void *, mpi_count, mpi_word, mpi_word, mpi_word))                  \
    FUNCTION(Allgather_c, (const void *, mpi_count, mpi_word, void *, mpi_count, mpi_word, mpi_word))                  \
    FUNCTION(Alltoall_c, (const void *, mpi_count, mpi_word, void *, mpi_count, mpi_word, mpi_word))                   \
    FUNCTION(Gather_c, (const void *, mpi_count, mpi_word, void *, mpi_count, mpi_word, int, mpi_word))                \
    FUNCTION(Scatter_c, (const void *, mpi_count, mpi_word, void *, mpi_count, mpi_word, int, mpi_word))               \
    FUNCTION(Allgatherv_c,                                                                                             \
             (const void *, mpi_count, mpi_word, void *, const mpi_count *, const mpi_count *, mpi_word, mpi_word))    \
    FUNCTION(Gatherv_c, (const void *, mpi_count, mpi_word, void *, const mpi_count *, const mpi_count *, mpi_word,    \
                         int, mpi_word))                                                                               \
    FUNCTION(Scatterv_c, (const void *, const mpi_count *, const mpi_count *, mpi_word, void *, mpi_count, mpi_word,   \
                          int, mpi_word))                                                                              \
    FUNCTION(Alltoallv_c, (const void *, const mpi_count *, const mpi_count *, mpi_word, void *, const mpi_count *,    \
                           const mpi_count *, mpi_word, mpi_word))

#define MPI_OPTIONAL_FUNCTIONS(FUNCTION)                                                                               \
    FUNCTION(Type_size_x, (mpi_word, mpi_count *))                                                                     \
    FUNCTION(Type_get_envelope_c, (mpi_word, mpi_count *, mpi_count *, mpi_count *, mpi_count *, int *))               \
    FUNCTION(Type_get_contents_c,                                                                                      \
             (mpi_word, mpi_count, mpi_count, mpi_count, mpi_count, int *, mpi_count *, mpi_count *, void *))

#endif
