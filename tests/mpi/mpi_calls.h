/* Any blocking collective of MPI on any type: prepared, called, and its result compared with what a rank can compute by
 * itself. All ranks of the communicator describe the same call. */
#pragma once

#include "mpi_layouts.h"

/* ROW(enumerator, name of the function, whether it reduces, has a root, a count for each rank, sends a block to each,
 * takes one from each, works in place). Those of REDUCTIONS have one count and no root. */
#define CALL_REDUCTIONS(ROW)                                                                                           \
    ROW(CALL_ALLREDUCE, Allreduce, true, false, false, false, false, true)                                             \
    ROW(CALL_REDUCE_SCATTER_BLOCK, Reduce_scatter_block, true, false, false, true, false, true)                        \
    ROW(CALL_SCAN, Scan, true, false, false, false, false, true)                                                       \
    ROW(CALL_EXSCAN, Exscan, true, false, false, false, false, true)
#define CALL_OTHERS(ROW)                                                                                               \
    ROW(CALL_BARRIER, Barrier, false, false, false, false, false, false)                                               \
    ROW(CALL_BCAST, Bcast, false, true, false, false, false, false)                                                    \
    ROW(CALL_REDUCE, Reduce, true, true, false, false, false, true)                                                    \
    ROW(CALL_REDUCE_SCATTER, Reduce_scatter, true, false, true, true, false, true)                                     \
    ROW(CALL_GATHER, Gather, false, true, false, false, true, true)                                                    \
    ROW(CALL_GATHERV, Gatherv, false, true, true, false, true, true)                                                   \
    ROW(CALL_SCATTER, Scatter, false, true, false, true, false, true)                                                  \
    ROW(CALL_SCATTERV, Scatterv, false, true, true, true, false, true)                                                 \
    ROW(CALL_ALLGATHER, Allgather, false, false, false, false, true, true)                                             \
    ROW(CALL_ALLGATHERV, Allgatherv, false, false, true, false, true, true)                                            \
    ROW(CALL_ALLTOALL, Alltoall, false, false, false, true, true, true)                                                \
    ROW(CALL_ALLTOALLV, Alltoallv, false, false, true, true, true, true)                                               \
    ROW(CALL_ALLTOALLW, Alltoallw, false, false, true, true, true, true)

#define CALL_NUMBER(number, ...) number,
enum collective { CALL_OTHERS(CALL_NUMBER) CALL_REDUCTIONS(CALL_NUMBER) CALLS };

struct traits {
    const char *name;                    /* behind MPI_ */
    bool reduces, is_rooted, has_counts; /* a count for each rank */
    bool sends_blocks, takes_blocks;     /* one for each rank; the root alone if there is one */
    bool works_in_place;
};
extern const struct traits call_traits[CALLS];

/* How many ranks' inputs are in what `rank` of so many gets of a reduction, from rank 0 on. */
static inline int call_inputs(enum collective collective, int rank, int ranks) {
    return collective == CALL_SCAN ? rank + 1 : collective == CALL_EXSCAN ? rank : ranks;
}

struct call {
    enum collective collective;
    MPI_Comm comm;
    const struct element *element;
    const struct operation *operation; /* where the collective reduces */
    int count;                         /* of elements, in a block */
    int root;
    bool in_place;
    bool derived; /* each rank chooses a layout of its own; then count is a multiple of LAYOUT_MULTIPLE */
    bool large;   /* the function whose counts are MPI_Count */
    bool rubbish; /* in the arguments that are not significant */
    uint64_t draw;
};

/* Whether the function with counts of MPI_Count is there. */
bool call_has_large(enum collective collective);

/* NULL, or what is wrong, in words that the next call overwrites. */
const char *call_run(const struct call *call);

/* The same in words. */
const char *call_words(const struct call *call);

/* Calls that kolo leaves to the MPI: operations of the program's own, intercommunicators, wrong arguments. */

void run_own_operations(void);
void run_between_communicators(void);
void run_errors(void);

/* MPI's collectives behind one function that takes the arguments of any, with int counts and with MPI_Count. */

/* Counts and starts are arrays, of which calls without counts for each rank read the first. */
struct arguments {
    void *send, *recv;
    const int *send_counts, *recv_counts, *send_starts, *recv_starts; /* in items */
    ptrdiff_t send_extent, recv_extent;
    MPI_Datatype send_type, recv_type;
    MPI_Op op;
    int root, size;
    MPI_Comm comm;
};

int entry_call(enum collective collective, const struct arguments *arguments);

/* Found at run time: an MPI before version 4 has none of its own, but a library before it may have. */
bool entry_has_large(enum collective collective);
int entry_call_large(enum collective collective, const struct arguments *arguments);
