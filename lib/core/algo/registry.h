/* The registry: one row (plan/plan.h) for each collective, with all that the library knows of it. A new collective is a
 * row here and a file with its functions.
 *
 * The table is in this header so that the short way of a small call (api/short_call.h) is compiled for one row at a
 * time, without what that collective does not have. */
#pragma once

#include "algo/algo.h"

#define KOLO_CHOICE(algorithm) (1u << KOLO_ALGORITHM_##algorithm)

/* The names of a row. */
#define KOLO_NAMED(collective_, name) .function = "kolo_" #name, .collective = KOLO_##collective_

/* The functions of a collective that has one algorithm in slots. */
#define KOLO_IN_SLOTS(run)   .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_##run##_run}
#define KOLO_FUNCTIONS(name) .lines = kolo_##name##_lines, KOLO_IN_SLOTS(name), .direct = kolo_##name##_direct

#define KOLO_SCAN_IN_SLOTS                                                                                             \
    .table = KOLO_TABLE_SCAN,                                                                                          \
    .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_scan_run, [KOLO_ALGORITHM_MESH] = kolo_scan_mesh_run}

static const struct kolo_descriptor kolo_registry[KOLO_COLLECTIVES] = {
    [KOLO_ALLREDUCE] = {KOLO_NAMED(ALLREDUCE, allreduce), .has_op = true, .way = KOLO_WAY_REDUCE,
                        .table = KOLO_TABLE_ALLREDUCE,
                        .choices = KOLO_CHOICE(ONESHOT) | KOLO_CHOICE(MESH) | KOLO_CHOICE(TREE),
                        .lines = kolo_oneshot_lines,
                        .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_oneshot_run,
                                       [KOLO_ALGORITHM_MESH] = kolo_mesh_run,
                                       [KOLO_ALGORITHM_RING] = kolo_ring_run,
                                       [KOLO_ALGORITHM_CENTRAL] = kolo_central_run,
                                       [KOLO_ALGORITHM_TREE] = kolo_tree_run},
                        .direct = kolo_direct_run},
    [KOLO_BROADCAST] = {KOLO_NAMED(BROADCAST, broadcast), .has_root = true, .way = KOLO_WAY_SPREAD,
                        KOLO_FUNCTIONS(broadcast)},
    [KOLO_BARRIER] = {KOLO_NAMED(BARRIER, barrier), .way = KOLO_WAY_REDUCE, .lines = kolo_oneshot_lines},
    [KOLO_ALLGATHER] = {KOLO_NAMED(ALLGATHER, allgather), .recv = BLOCKS, .way = KOLO_WAY_SPREAD,
                        KOLO_FUNCTIONS(allgather)},
    [KOLO_ALLGATHERV] = {KOLO_NAMED(ALLGATHERV, allgatherv), .recv = COUNTED, .way = KOLO_WAY_SPREAD,
                         KOLO_IN_SLOTS(allgather)},
    [KOLO_REDUCE] =
        {KOLO_NAMED(REDUCE, reduce), .has_op = true, .has_root = true, .recv_at_root = true, .way = KOLO_WAY_REDUCE,
         .table = KOLO_TABLE_REDUCE, .choices = KOLO_CHOICE(ONESHOT) | KOLO_CHOICE(MESH), .lines = kolo_reduce_lines,
         .algorithms = {[KOLO_ALGORITHM_ONESHOT] = kolo_reduce_run, [KOLO_ALGORITHM_MESH] = kolo_reduce_mesh_run},
         .direct = kolo_reduce_direct},
    [KOLO_REDUCE_SCATTER] = {KOLO_NAMED(REDUCE_SCATTER, reduce_scatter), .has_op = true, .send = BLOCKS,
                             .way = KOLO_WAY_REDUCE, KOLO_FUNCTIONS(reduce_scatter)},
    [KOLO_REDUCE_SCATTERV] = {KOLO_NAMED(REDUCE_SCATTERV, reduce_scatterv), .has_op = true, .send = COUNTED,
                              .way = KOLO_WAY_REDUCE, KOLO_IN_SLOTS(reduce_scatter)},
    [KOLO_GATHER] = {KOLO_NAMED(GATHER, gather), .has_root = true, .recv = BLOCKS, .recv_at_root = true,
                     .way = KOLO_WAY_MOVE, KOLO_FUNCTIONS(gather)},
    [KOLO_GATHERV] = {KOLO_NAMED(GATHERV, gatherv), .has_root = true, .recv = COUNTED, .recv_at_root = true,
                      .is_unequal = true, .way = KOLO_WAY_MOVE, KOLO_IN_SLOTS(gather)},
    [KOLO_SCATTER] = {KOLO_NAMED(SCATTER, scatter), .has_root = true, .send = BLOCKS, .send_at_root = true,
                      .way = KOLO_WAY_MOVE, KOLO_FUNCTIONS(scatter)},
    [KOLO_SCATTERV] = {KOLO_NAMED(SCATTERV, scatterv), .has_root = true, .send = COUNTED, .send_at_root = true,
                       .is_unequal = true, .way = KOLO_WAY_MOVE, KOLO_IN_SLOTS(scatter)},
    [KOLO_ALLTOALL] = {KOLO_NAMED(ALLTOALL, alltoall), .send = BLOCKS, .recv = BLOCKS, .way = KOLO_WAY_MOVE,
                       KOLO_FUNCTIONS(alltoall)},
    [KOLO_ALLTOALLV] = {KOLO_NAMED(ALLTOALLV, alltoallv), .send = COUNTED, .recv = COUNTED, .is_unequal = true,
                        .way = KOLO_WAY_MOVE, KOLO_IN_SLOTS(alltoall)},
    [KOLO_SCAN] = {KOLO_NAMED(SCAN, scan), .has_op = true, .way = KOLO_WAY_SCAN, .lines = kolo_scan_lines,
                   KOLO_SCAN_IN_SLOTS, .direct = kolo_scan_direct},
    [KOLO_EXSCAN] = {KOLO_NAMED(EXSCAN, exscan), .has_op = true, .leaves_own_out = true, .way = KOLO_WAY_SCAN,
                     .lines = kolo_exscan_lines, KOLO_SCAN_IN_SLOTS, .direct = kolo_scan_direct},
    [KOLO_ALLREDUCE_APPLY] = {KOLO_NAMED(ALLREDUCE_APPLY, allreduce_apply), .has_op = true, .applies = true,
                              .way = KOLO_WAY_APPLY, KOLO_IN_SLOTS(apply), .direct = kolo_apply_direct},
    /* nothing is chosen for a list alone, in the table of the all-reduce */
    [KOLO_ALLREDUCE_MANY] = {KOLO_NAMED(ALLREDUCE_MANY, allreduce_many), .has_op = true, .has_tensors = true,
                             .way = KOLO_WAY_REDUCE, .table = KOLO_TABLE_ALLREDUCE, .lines = kolo_many_lines,
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
