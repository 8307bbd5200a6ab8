/* The registry: one row for each collective. All that the library knows of a collective is in its row: its name, what
 * its buffers have, what the plan has to know, its functions, and the way that its data takes between machines. A new
 * collective is a row here and a file with its functions.
 *
 * The table is in this header so that the short way of a small call (api/short_call.h) is compiled for one row at a
 * time, without what that collective does not have. */
#ifndef KOLO_ALGO_REGISTRY_H
#define KOLO_ALGO_REGISTRY_H

#include "algo/algo.h"

/* The contents of a buffer, in elements: `count`; a block of `count` for each rank; or blocks of any length. */
enum shape { WHOLE, BLOCKS, COUNTED };

/* How the data gets from machine to machine (internode/hierarchy/collectives.h). NO_WAY: it is no collective that moves
 * data, and its row has a name only. */
enum kolo_way { KOLO_NO_WAY, KOLO_WAY_REDUCE, KOLO_WAY_SPREAD, KOLO_WAY_MOVE, KOLO_WAY_SCAN, KOLO_WAY_APPLY };

/* A row. */
struct kolo_descriptor {
    const char *function; /* that blocks; its name behind kolo_ is the name of the collective */
    kolo_collective collective;

    bool has_op;   /* it reduces */
    bool has_root; /* a rank that all name */
    enum shape send, recv;
    bool send_at_root, recv_at_root; /* that only the root has */
    bool applies;                    /* a function to the ranges of the message that ranks own */
    bool is_unequal;                 /* the counts of blocks are known to their sender and receiver alone */
    bool has_tensors;                /* a list of them is in place of both buffers */
    bool leaves_own_out;             /* a rank's result is without its own input */
    enum kolo_way way;

    /* With more than one algorithm in slots: its table in struct kolo_shared_settings, and those that rank 0 may choose
     * where nobody forces one, a bit each. All of these give the same bits. */
    uint32_t table, choices;
    kolo_lines_fn *lines;                     /* messages that fit lines; NULL: none go there */
    kolo_run_fn *algorithms[KOLO_ALGORITHMS]; /* in slots: what the plan chooses from; the only one is at ONESHOT */
    kolo_run_fn *direct;                      /* tried first where others' buffers may be reached; NULL: none */
};

#define KOLO_CHOICE(algorithm) (1u << KOLO_ALGORITHM_##algorithm)

static const struct kolo_descriptor kolo_registry[KOLO_COLLECTIVES] = {
    [KOLO_ALLREDUCE] = {.function = "kolo_allreduce",
                        .collective = KOLO_ALLREDUCE,
                        .has_op = true,
                        .way = KOLO_WAY_REDUCE,
                        .table = KOLO_TABLE_ALLREDUCE,
                        .choices = KOLO_CHOICE(ONESHOT) | KOLO_CHOICE(MESH) | KOLO_CHOICE(TREE),
                        .lines = kolo_oneshot_lines,
                        .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_oneshot_run,
                                       [KOLO_ALGORITHM_MESH] = kolo_mesh_run,
                                       [KOLO_ALGORITHM_RING] = kolo_ring_run,
                                       [KOLO_ALGORITHM_CENTRAL] = kolo_central_run,
                                       [KOLO_ALGORITHM_TREE] = kolo_tree_run},
                        .direct = kolo_direct_run},
    [KOLO_BROADCAST] = {.function = "kolo_broadcast",
                        .collective = KOLO_BROADCAST,
                        .has_root = true,
                        .way = KOLO_WAY_SPREAD,
                        .lines = kolo_broadcast_lines,
                        .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_broadcast_run},
                        .direct = kolo_broadcast_direct},
    [KOLO_BARRIER] = {.function = "kolo_barrier",
                      .collective = KOLO_BARRIER,
                      .way = KOLO_WAY_REDUCE,
                      .lines = kolo_oneshot_lines},
    [KOLO_ALLGATHER] = {.function = "kolo_allgather",
                        .collective = KOLO_ALLGATHER,
                        .recv = BLOCKS,
                        .way = KOLO_WAY_SPREAD,
                        .lines = kolo_allgather_lines,
                        .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_allgather_run},
                        .direct = kolo_allgather_direct},
    [KOLO_ALLGATHERV] = {.function = "kolo_allgatherv",
                         .collective = KOLO_ALLGATHERV,
                         .recv = COUNTED,
                         .way = KOLO_WAY_SPREAD,
                         .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_allgather_run}},
    [KOLO_REDUCE] =
        {.function = "kolo_reduce",
         .collective = KOLO_REDUCE,
         .has_op = true,
         .has_root = true,
         .recv_at_root = true,
         .way = KOLO_WAY_REDUCE,
         .table = KOLO_TABLE_REDUCE,
         .choices = KOLO_CHOICE(ONESHOT) | KOLO_CHOICE(MESH),
         .lines = kolo_reduce_lines,
         .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_reduce_run, [KOLO_ALGORITHM_MESH] = kolo_reduce_mesh_run},
         .direct = kolo_reduce_direct},
    [KOLO_REDUCE_SCATTER] = {.function = "kolo_reduce_scatter",
                             .collective = KOLO_REDUCE_SCATTER,
                             .has_op = true,
                             .send = BLOCKS,
                             .way = KOLO_WAY_REDUCE,
                             .lines = kolo_reduce_scatter_lines,
                             .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_reduce_scatter_run},
                             .direct = kolo_reduce_scatter_direct},
    [KOLO_REDUCE_SCATTERV] = {.function = "kolo_reduce_scatterv",
                              .collective = KOLO_REDUCE_SCATTERV,
                              .has_op = true,
                              .send = COUNTED,
                              .way = KOLO_WAY_REDUCE,
                              .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_reduce_scatter_run}},
    [KOLO_GATHER] = {.function = "kolo_gather",
                     .collective = KOLO_GATHER,
                     .has_root = true,
                     .recv = BLOCKS,
                     .recv_at_root = true,
                     .way = KOLO_WAY_MOVE,
                     .lines = kolo_gather_lines,
                     .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_gather_run},
                     .direct = kolo_gather_direct},
    [KOLO_GATHERV] = {.function = "kolo_gatherv",
                      .collective = KOLO_GATHERV,
                      .has_root = true,
                      .recv = COUNTED,
                      .recv_at_root = true,
                      .is_unequal = true,
                      .way = KOLO_WAY_MOVE,
                      .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_gather_run}},
    [KOLO_SCATTER] = {.function = "kolo_scatter",
                      .collective = KOLO_SCATTER,
                      .has_root = true,
                      .send = BLOCKS,
                      .send_at_root = true,
                      .way = KOLO_WAY_MOVE,
                      .lines = kolo_scatter_lines,
                      .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_scatter_run},
                      .direct = kolo_scatter_direct},
    [KOLO_SCATTERV] = {.function = "kolo_scatterv",
                       .collective = KOLO_SCATTERV,
                       .has_root = true,
                       .send = COUNTED,
                       .send_at_root = true,
                       .is_unequal = true,
                       .way = KOLO_WAY_MOVE,
                       .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_scatter_run}},
    [KOLO_ALLTOALL] = {.function = "kolo_alltoall",
                       .collective = KOLO_ALLTOALL,
                       .send = BLOCKS,
                       .recv = BLOCKS,
                       .way = KOLO_WAY_MOVE,
                       .lines = kolo_alltoall_lines,
                       .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_alltoall_run},
                       .direct = kolo_alltoall_direct},
    [KOLO_ALLTOALLV] = {.function = "kolo_alltoallv",
                        .collective = KOLO_ALLTOALLV,
                        .send = COUNTED,
                        .recv = COUNTED,
                        .is_unequal = true,
                        .way = KOLO_WAY_MOVE,
                        .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_alltoall_run}},
    [KOLO_SCAN] = {.function = "kolo_scan",
                   .collective = KOLO_SCAN,
                   .has_op = true,
                   .way = KOLO_WAY_SCAN,
                   .lines = kolo_scan_lines,
                   .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_scan_run},
                   .direct = kolo_scan_direct},
    [KOLO_EXSCAN] = {.function = "kolo_exscan",
                     .collective = KOLO_EXSCAN,
                     .has_op = true,
                     .leaves_own_out = true,
                     .way = KOLO_WAY_SCAN,
                     .lines = kolo_exscan_lines,
                     .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_exscan_run},
                     .direct = kolo_exscan_direct},
    [KOLO_ALLREDUCE_APPLY] = {.function = "kolo_allreduce_apply",
                              .collective = KOLO_ALLREDUCE_APPLY,
                              .has_op = true,
                              .applies = true,
                              .way = KOLO_WAY_APPLY,
                              .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_apply_run},
                              .direct = kolo_apply_direct},
    [KOLO_ALLREDUCE_MANY] = {.function = "kolo_allreduce_many",
                             .collective = KOLO_ALLREDUCE_MANY,
                             .has_op = true,
                             .has_tensors = true,
                             .way = KOLO_WAY_REDUCE,
                             .table = KOLO_TABLE_ALLREDUCE, /* nothing is chosen for it alone */
                             .lines = kolo_many_lines,
                             .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_many_run,
                                            [KOLO_ALGORITHM_MESH] = kolo_many_run,
                                            [KOLO_ALGORITHM_RING] = kolo_many_run,
                                            [KOLO_ALGORITHM_CENTRAL] = kolo_many_run,
                                            [KOLO_ALGORITHM_TREE] = kolo_many_run}},
    [KOLO_ALLOC] = {.function = "kolo_alloc"},
    [KOLO_FREE] = {.function = "kolo_free"},
    [KOLO_SPLIT] = {.function = "kolo_split"},
    [KOLO_DUP] = {.function = "kolo_dup"},
    [KOLO_GROW] = {.function = "kolo_grow"},
    [KOLO_SHARE] = {.function = "kolo_share"},
    [KOLO_SEND] = {.function = "kolo_send"},
    [KOLO_RECV] = {.function = "kolo_recv"},
    [KOLO_TABLE] = {.function = "kolo_table"},
};

#endif
