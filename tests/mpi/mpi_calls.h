/* Any blocking collective of MPI on any type: prepared, called, and its result compared with what a rank can compute by
 * itself. All ranks of the communicator describe the same call. */
#ifndef KOLO_TESTS_MPI_CALLS_H
#define KOLO_TESTS_MPI_CALLS_H

#include "mpi_layouts.h"

enum collective {
    CALL_BARRIER,
    CALL_BCAST,
    CALL_REDUCE,
    CALL_ALLREDUCE,
    CALL_REDUCE_SCATTER_BLOCK,
    CALL_REDUCE_SCATTER,
    CALL_SCAN,
    CALL_EXSCAN,
    CALL_GATHER,
    CALL_GATHERV,
    CALL_SCATTER,
    CALL_SCATTERV,
    CALL_ALLGATHER,
    CALL_ALLGATHERV,
    CALL_ALLTOALL,
    CALL_ALLTOALLV,
    CALL_ALLTOALLW,
    CALLS
};

struct traits {
    const char *name;
    bool reduces, is_rooted, has_counts; /* a count for each rank */
    bool sends_blocks, takes_blocks;     /* one for each rank; the root alone if there is one */
    bool works_in_place;
};
extern const struct traits call_traits[CALLS];

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

#endif
