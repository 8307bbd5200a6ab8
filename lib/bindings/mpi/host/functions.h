/* The functions of the MPI that are called: FUNCTION(name, parameters) for each PMPI_name, and (name, parameters,
 * arguments) for those in the place of which the program calls ours. Handles are machine words,
 * and pointers to handles are to what the family has (mpi_word_load). Counts of the _c forms are of 64 bits. */
#pragma once

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

/* A call of a collective as a value: what both its forms take. */

/* Counts or places of blocks: ints, or 64 bits each in the _c forms. */
struct mpi_numbers {
    const void *values;
    bool is_large;
};

static inline mpi_count mpi_number(struct mpi_numbers numbers, int i) {
    return numbers.is_large ? ((const mpi_count *)numbers.values)[i] : ((const int *)numbers.values)[i];
}

struct mpi_buffer {
    const void *address;
    mpi_word type;
    mpi_count count;                   /* elements of each block */
    struct mpi_numbers counts, places; /* the same, where each block has its own */
};

struct mpi_call {
    unsigned function; /* enum mpi_function */
    bool is_large;     /* the _c form */
    int root;
    mpi_word op, comm;
    struct mpi_buffer send, recv; /* recv: also what reductions have one of, and the buffer of Bcast */
};

/* From arguments of the names that the next ones use. */
#define MPI_BLOCK(side) .side = {.address = side, .type = side##_type, .count = side##_count}
#define MPI_NUMBERS(values)                                                                                            \
    { values, sizeof *values > sizeof(int) }
#define MPI_BLOCKS(side)                                                                                               \
    .side = {.address = side,                                                                                          \
             .type = side##_type,                                                                                      \
             .counts = MPI_NUMBERS(side##_counts),                                                                     \
             .places = MPI_NUMBERS(side##_places)}

/* FUNCTION(name, parameters, arguments, fields of a struct mpi_call) for those that take the same. */
#define MPI_REDUCTION(FUNCTION, name, COUNT)                                                                           \
    FUNCTION(name, (const void *send, void *recv, COUNT recv_count, mpi_word recv_type, mpi_word op, mpi_word comm),   \
             (send, recv, recv_count, recv_type, op, comm), MPI_BLOCK(recv), .send.address = send, .op = op)
#define MPI_MOVEMENT(FUNCTION, name, COUNT)                                                                            \
    FUNCTION(name,                                                                                                     \
             (const void *send, COUNT send_count, mpi_word send_type, void *recv, COUNT recv_count,                    \
              mpi_word recv_type, mpi_word comm),                                                                      \
             (send, send_count, send_type, recv, recv_count, recv_type, comm), MPI_BLOCK(send), MPI_BLOCK(recv))
#define MPI_ROOTED_MOVEMENT(FUNCTION, name, COUNT)                                                                     \
    FUNCTION(name,                                                                                                     \
             (const void *send, COUNT send_count, mpi_word send_type, void *recv, COUNT recv_count,                    \
              mpi_word recv_type, int root, mpi_word comm),                                                            \
             (send, send_count, send_type, recv, recv_count, recv_type, root, comm), MPI_BLOCK(send), MPI_BLOCK(recv), \
             .root = root)

/* Those of the next that have two forms, by the suffix and the type of counts: the ones that have a short way
 * (calls/fast.h), and the others. */
#define MPI_FAST_FUNCTIONS(FUNCTION, SUFFIX, COUNT)                                                                    \
    FUNCTION(Bcast##SUFFIX, (void *recv, COUNT recv_count, mpi_word recv_type, int root, mpi_word comm),               \
             (recv, recv_count, recv_type, root, comm), MPI_BLOCK(recv), .root = root)                                 \
    MPI_REDUCTION(FUNCTION, Allreduce##SUFFIX, COUNT)                                                                  \
    FUNCTION(                                                                                                          \
        Reduce##SUFFIX,                                                                                                \
        (const void *send, void *recv, COUNT recv_count, mpi_word recv_type, mpi_word op, int root, mpi_word comm),    \
        (send, recv, recv_count, recv_type, op, root, comm), MPI_BLOCK(recv), .send.address = send, .op = op,          \
        .root = root)                                                                                                  \
    FUNCTION(Reduce_scatter##SUFFIX,                                                                                   \
             (const void *send, void *recv, const COUNT *recv_counts, mpi_word recv_type, mpi_word op, mpi_word comm), \
             (send, recv, recv_counts, recv_type, op, comm),                                                           \
             .recv = {.address = recv, .type = recv_type, .counts = MPI_NUMBERS(recv_counts)}, .send.address = send,   \
             .op = op)                                                                                                 \
    MPI_REDUCTION(FUNCTION, Reduce_scatter_block##SUFFIX, COUNT)                                                       \
    MPI_MOVEMENT(FUNCTION, Allgather##SUFFIX, COUNT)                                                                   \
    MPI_MOVEMENT(FUNCTION, Alltoall##SUFFIX, COUNT)

#define MPI_OTHER_FUNCTIONS(FUNCTION, SUFFIX, COUNT)                                                                   \
    MPI_REDUCTION(FUNCTION, Scan##SUFFIX, COUNT)                                                                       \
    MPI_REDUCTION(FUNCTION, Exscan##SUFFIX, COUNT)                                                                     \
    MPI_ROOTED_MOVEMENT(FUNCTION, Gather##SUFFIX, COUNT)                                                               \
    MPI_ROOTED_MOVEMENT(FUNCTION, Scatter##SUFFIX, COUNT)                                                              \
    FUNCTION(Allgatherv##SUFFIX,                                                                                       \
             (const void *send, COUNT send_count, mpi_word send_type, void *recv, const COUNT *recv_counts,            \
              const COUNT *recv_places, mpi_word recv_type, mpi_word comm),                                            \
             (send, send_count, send_type, recv, recv_counts, recv_places, recv_type, comm), MPI_BLOCK(send),          \
             MPI_BLOCKS(recv))                                                                                         \
    FUNCTION(Gatherv##SUFFIX,                                                                                          \
             (const void *send, COUNT send_count, mpi_word send_type, void *recv, const COUNT *recv_counts,            \
              const COUNT *recv_places, mpi_word recv_type, int root, mpi_word comm),                                  \
             (send, send_count, send_type, recv, recv_counts, recv_places, recv_type, root, comm), MPI_BLOCK(send),    \
             MPI_BLOCKS(recv), .root = root)                                                                           \
    FUNCTION(Scatterv##SUFFIX,                                                                                         \
             (const void *send, const COUNT *send_counts, const COUNT *send_places, mpi_word send_type, void *recv,    \
              COUNT recv_count, mpi_word recv_type, int root, mpi_word comm),                                          \
             (send, send_counts, send_places, send_type, recv, recv_count, recv_type, root, comm), MPI_BLOCKS(send),   \
             MPI_BLOCK(recv), .root = root)                                                                            \
    FUNCTION(Alltoallv##SUFFIX,                                                                                        \
             (const void *send, const COUNT *send_counts, const COUNT *send_places, mpi_word send_type, void *recv,    \
              const COUNT *recv_counts, const COUNT *recv_places, mpi_word recv_type, mpi_word comm),                  \
             (send, send_counts, send_places, send_type, recv, recv_counts, recv_places, recv_type, comm),             \
             MPI_BLOCKS(send), MPI_BLOCKS(recv))

#define MPI_COUNTED_FUNCTIONS(FUNCTION, SUFFIX, COUNT)                                                                 \
    MPI_FAST_FUNCTIONS(FUNCTION, SUFFIX, COUNT)                                                                        \
    MPI_OTHER_FUNCTIONS(FUNCTION, SUFFIX, COUNT)

/* Both forms have one number. */
#define MPI_FUNCTION_INDEX(name, ...) MPI_##name##_INDEX,
enum mpi_function { MPI_Barrier_INDEX, MPI_COUNTED_FUNCTIONS(MPI_FUNCTION_INDEX, , int) MPI_FUNCTIONS };
enum { MPI_BEFORE_LARGE_INDEX, MPI_COUNTED_FUNCTIONS(MPI_FUNCTION_INDEX, _c, mpi_count) };

/* So it has these, which are ours: those that make communicators, except between groups, and the others. */
#define MPI_MAKING_FUNCTIONS(FUNCTION)                                                                                 \
    FUNCTION(Comm_dup, (mpi_word comm, void *made), (comm, made))                                                      \
    FUNCTION(Comm_dup_with_info, (mpi_word comm, mpi_word info, void *made), (comm, info, made))                       \
    FUNCTION(Comm_idup, (mpi_word comm, void *made, void *request), (comm, made, request))                             \
    FUNCTION(Comm_create, (mpi_word comm, mpi_word group, void *made), (comm, group, made))                            \
    FUNCTION(Comm_create_group, (mpi_word comm, mpi_word group, int tag, void *made), (comm, group, tag, made))        \
    FUNCTION(Comm_split, (mpi_word comm, int color, int key, void *made), (comm, color, key, made))                    \
    FUNCTION(Comm_split_type, (mpi_word comm, int type, int key, mpi_word info, void *made),                           \
             (comm, type, key, info, made))                                                                            \
    FUNCTION(Cart_create,                                                                                              \
             (mpi_word comm, int dimensions, const int *sizes, const int *periods, int reorder, void *made),           \
             (comm, dimensions, sizes, periods, reorder, made))                                                        \
    FUNCTION(Cart_sub, (mpi_word comm, const int *kept, void *made), (comm, kept, made))                               \
    FUNCTION(Graph_create, (mpi_word comm, int nodes, const int *indices, const int *edges, int reorder, void *made),  \
             (comm, nodes, indices, edges, reorder, made))                                                             \
    FUNCTION(Dist_graph_create,                                                                                        \
             (mpi_word comm, int count, const int *sources, const int *degrees, const int *destinations,               \
              const int *weights, mpi_word info, int reorder, void *made),                                             \
             (comm, count, sources, degrees, destinations, weights, info, reorder, made))                              \
    FUNCTION(Dist_graph_create_adjacent,                                                                               \
             (mpi_word comm, int in, const int *sources, const int *source_weights, int out, const int *destinations,  \
              const int *destination_weights, mpi_word info, int reorder, void *made),                                 \
             (comm, in, sources, source_weights, out, destinations, destination_weights, info, reorder, made))         \
    FUNCTION(Intercomm_merge, (mpi_word comm, int high, void *made), (comm, high, made))

#define MPI_TAKEN_FUNCTIONS(FUNCTION)                                                                                  \
    FUNCTION(Init, (int *argc, char ***argv), (argc, argv))                                                            \
    FUNCTION(Init_thread, (int *argc, char ***argv, int required, int *provided), (argc, argv, required, provided))    \
    FUNCTION(Finalize, (void), ())                                                                                     \
    FUNCTION(Comm_free, (void *comm), (comm))                                                                          \
    FUNCTION(Comm_disconnect, (void *comm), (comm))                                                                    \
    MPI_MAKING_FUNCTIONS(FUNCTION)                                                                                     \
    FUNCTION(Barrier, (mpi_word comm), (comm))                                                                         \
    MPI_COUNTED_FUNCTIONS(FUNCTION, , int)

/* Likewise: those that say at once whether something is done, and where they say it. */
#define MPI_TAKEN_TESTS(FUNCTION)                                                                                      \
    FUNCTION(Test, (void *request, int *flag, void *status), (request, flag, status), flag)                            \
    FUNCTION(Testall, (int count, void *requests, int *flag, void *statuses), (count, requests, flag, statuses), flag) \
    FUNCTION(Testany, (int count, void *requests, int *index, int *flag, void *status),                                \
             (count, requests, index, flag, status), flag)                                                             \
    FUNCTION(Testsome, (int count, void *requests, int *done, int *indices, void *statuses),                           \
             (count, requests, done, indices, statuses), done)                                                         \
    FUNCTION(Request_get_status, (mpi_word request, int *flag, void *status), (request, flag, status), flag)           \
    FUNCTION(Iprobe, (int source, int tag, mpi_word comm, int *flag, void *status), (source, tag, comm, flag, status), \
             flag)                                                                                                     \
    FUNCTION(Improbe, (int source, int tag, mpi_word comm, int *flag, void *message, void *status),                    \
             (source, tag, comm, flag, message, status), flag)                                                         \
    FUNCTION(Win_test, (mpi_word win, int *flag), (win, flag), flag)

/* Likewise, but NULL where the MPI has none: it is older than MPI 4. */
#define MPI_TAKEN_LATE_FUNCTIONS(FUNCTION)                                                                             \
    FUNCTION(Session_init, (mpi_word info, mpi_word handler, void *session), (info, handler, session))                 \
    MPI_COUNTED_FUNCTIONS(FUNCTION, _c, mpi_count)

#define MPI_OPTIONAL_FUNCTIONS(FUNCTION)                                                                               \
    FUNCTION(Type_size_x, (mpi_word, mpi_count *))                                                                     \
    FUNCTION(Type_get_envelope_c, (mpi_word, mpi_count *, mpi_count *, mpi_count *, mpi_count *, int *))               \
    FUNCTION(Type_get_contents_c,                                                                                      \
             (mpi_word, mpi_count, mpi_count, mpi_count, mpi_count, int *, mpi_count *, mpi_count *, void *))
