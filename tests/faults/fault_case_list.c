/* The list of cases: those that have a row each, and those that every collective has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_tools.h"
#include "collective_shapes.h"
#include "fault_cases.h"

/* One line, several lines, one chunk and many chunks of the smallest slots. */
enum { LINE = 6, LINES = 100, CHUNK = 700, CHUNKS = CASE_COUNT_MAX };

#define CALLS(name_, ranks_, algorithm_, count_)                                                                       \
    { .name = name_, .phase = PHASE_CALLS, .ranks = ranks_, .algorithm = algorithm_, .count = count_ }

/* Without a network, of a collective that nobody forces an algorithm on unless the case says so. */
#define FAMILY(name_, collective_, ranks_, root_, algorithm_, count_)                                                  \
    {                                                                                                                  \
        .name = name_, .phase = PHASE_CALLS, .script = SCRIPT_FAMILY, .ranks = ranks_, .collective = collective_,      \
        .root = root_, .algorithm = algorithm_, .count = count_                                                        \
    }

/* Of a collective that reads out of the other ranks' memory. */
#define SINGLE_COPY(name_, collective_, ranks_, root_, count_)                                                         \
    {                                                                                                                  \
        .name = name_, .phase = PHASE_CALLS, .script = SCRIPT_FAMILY, .ranks = ranks_, .collective = collective_,      \
        .root = root_, .single_copy = true, .count = count_                                                            \
    }

/* With a progress thread or without. */
#define REQUESTS(name_, ranks_, has_thread_, count_, twist_)                                                           \
    {                                                                                                                  \
        .name = name_, .phase = PHASE_CALLS, .script = SCRIPT_REQUESTS, .ranks = ranks_, .has_thread = has_thread_,    \
        .count = count_, .twist = twist_                                                                               \
    }

/* Of buckets. */
#define COMPRESSED(name_, ranks_, compression_, count_)                                                                \
    {                                                                                                                  \
        .name = name_, .phase = PHASE_CALLS, .script = SCRIPT_COMPRESSED, .ranks = ranks_,                             \
        .compression = compression_, .count = count_                                                                   \
    }

/* With a progress thread or without. */
#define OPTIMIZER(name_, ranks_, has_thread_, count_)                                                                  \
    {                                                                                                                  \
        .name = name_, .phase = PHASE_CALLS, .script = SCRIPT_OPTIMIZER, .ranks = ranks_, .has_thread = has_thread_,   \
        .count = count_                                                                                                \
    }

/* Each rank with two threads, of its own or kolo's. */
#define LANES(name_, ranks_, script_, algorithm_)                                                                      \
    {                                                                                                                  \
        .name = name_, .phase = PHASE_CALLS, .script = script_, .ranks = ranks_, .lanes = 2, .algorithm = algorithm_,  \
        .count = CHUNKS                                                                                                \
    }

#define NODES(name_, nodes_, ranks_, engine_, exchange_, count_)                                                       \
    {                                                                                                                  \
        .name = name_, .phase = PHASE_CALLS, .ranks = ranks_, .nodes = nodes_, .engine = engine_,                      \
        .exchange = exchange_, .count = count_                                                                         \
    }

static const struct fault_case rows[] = {
    {.name = "create-2", .phase = PHASE_CREATE, .ranks = 2, .count = LINE},
    {.name = "create-3", .phase = PHASE_CREATE, .ranks = 3, .count = LINE},
    {.name = "create-lanes-2", .phase = PHASE_CREATE, .ranks = 2, .lanes = 2, .count = LINE},
    {.name = "create-lanes-3", .phase = PHASE_CREATE, .ranks = 3, .lanes = 2, .count = LINE},
    {.name = "create-fd", .phase = PHASE_CREATE, .ranks = 3, .count = LINE, .by_descriptor = true},
    {.name = "create-stale", .phase = PHASE_CREATE, .ranks = 2, .count = LINE, .twist = TWIST_REPLACES},
    {.name = "create-second", .phase = PHASE_CREATE, .ranks = 3, .count = LINE, .twist = TWIST_SECOND_EARLY},
    {.name = "create-awaited", .phase = PHASE_CREATE, .ranks = 3, .count = LINE, .twist = TWIST_AWAITED},
    {.name = "create-given-up", .phase = PHASE_CREATE, .ranks = 3, .count = LINE, .twist = TWIST_GIVES_UP},
    {.name = "create-foreign",
     .phase = PHASE_CREATE,
     .ranks = 3,
     .count = LINE,
     .by_descriptor = true,
     .twist = TWIST_FOREIGN},
    CALLS("line-2", 2, KOLO_ALGORITHM_ONESHOT, LINE),
    CALLS("line-3", 3, KOLO_ALGORITHM_ONESHOT, LINE),
    CALLS("lines-2", 2, KOLO_ALGORITHM_ONESHOT, LINES),
    CALLS("lines-4", 4, KOLO_ALGORITHM_ONESHOT, LINES),
    CALLS("oneshot-2", 2, KOLO_ALGORITHM_ONESHOT, CHUNK),
    CALLS("oneshot-2-many", 2, KOLO_ALGORITHM_ONESHOT, CHUNKS),
    CALLS("oneshot-3-many", 3, KOLO_ALGORITHM_ONESHOT, CHUNKS),
    CALLS("mesh-2", 2, KOLO_ALGORITHM_MESH, CHUNK),
    CALLS("mesh-2-many", 2, KOLO_ALGORITHM_MESH, CHUNKS),
    CALLS("mesh-3-many", 3, KOLO_ALGORITHM_MESH, CHUNKS),
    CALLS("ring-2-many", 2, KOLO_ALGORITHM_RING, CHUNKS),
    CALLS("ring-3", 3, KOLO_ALGORITHM_RING, CHUNK),
    CALLS("ring-4-many", 4, KOLO_ALGORITHM_RING, CHUNKS),
    CALLS("central-2-many", 2, KOLO_ALGORITHM_CENTRAL, CHUNKS),
    CALLS("central-3", 3, KOLO_ALGORITHM_CENTRAL, CHUNK),
    CALLS("central-3-many", 3, KOLO_ALGORITHM_CENTRAL, CHUNKS),
    {.name = "tree-4-lines",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .algorithm = KOLO_ALGORITHM_TREE,
     .count = LINE,
     .tree_levels = "2"},
    {.name = "tree-4",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .algorithm = KOLO_ALGORITHM_TREE,
     .count = CHUNK,
     .tree_levels = "2"},
    {.name = "tree-5-many",
     .phase = PHASE_CALLS,
     .ranks = 5,
     .algorithm = KOLO_ALGORITHM_TREE,
     .count = CHUNKS,
     .tree_levels = "2"},
    {.name = "buffers-2",
     .phase = PHASE_CALLS,
     .script = SCRIPT_BUFFERS,
     .ranks = 2,
     .algorithm = KOLO_ALGORITHM_DIRECT,
     .count = CHUNKS},
    {.name = "buffers-3",
     .phase = PHASE_CALLS,
     .script = SCRIPT_BUFFERS,
     .ranks = 3,
     .algorithm = KOLO_ALGORITHM_DIRECT,
     .count = CHUNKS},
    {.name = "alltoall-read-second-3",
     .phase = PHASE_CALLS,
     .script = SCRIPT_FAMILY,
     .collective = KOLO_ALLTOALL,
     .ranks = 3,
     .count = CHUNK,
     .single_copy = true,
     .twist = TWIST_SECOND},
    {.name = "buffers-apply-3",
     .phase = PHASE_CALLS,
     .script = SCRIPT_BUFFERS,
     .ranks = 3,
     .collective = KOLO_ALLREDUCE_APPLY,
     .algorithm = KOLO_ALGORITHM_DIRECT,
     .count = CHUNKS},
    {.name = "buffers-hidden-3",
     .phase = PHASE_CALLS,
     .script = SCRIPT_BUFFERS,
     .ranks = 3,
     .algorithm = KOLO_ALGORITHM_DIRECT,
     .count = CHUNKS,
     .hides = true},
    {.name = "share-2",
     .phase = PHASE_CALLS,
     .script = SCRIPT_SHARE,
     .ranks = 2,
     .algorithm = KOLO_ALGORITHM_DIRECT,
     .count = CHUNKS},
    {.name = "share-3",
     .phase = PHASE_CALLS,
     .script = SCRIPT_SHARE,
     .ranks = 3,
     .algorithm = KOLO_ALGORITHM_DIRECT,
     .count = CHUNKS},
    {.name = "grow-2", .phase = PHASE_CALLS, .script = SCRIPT_GROW, .ranks = 2},
    {.name = "grow-3", .phase = PHASE_CALLS, .script = SCRIPT_GROW, .ranks = 3},
    {.name = "join-1", .phase = PHASE_GROW, .ranks = 2, .joiners = 1, .count = LINE},
    {.name = "join-2", .phase = PHASE_GROW, .ranks = 3, .joiners = 1, .count = LINE},
    {.name = "join-2+2", .phase = PHASE_GROW, .ranks = 4, .joiners = 2, .count = LINE},
    {.name = "split-2", .phase = PHASE_CALLS, .script = SCRIPT_SPLIT, .ranks = 2},
    {.name = "split-4", .phase = PHASE_CALLS, .script = SCRIPT_SPLIT, .ranks = 4},
    {.name = "split-lanes-2", .phase = PHASE_CALLS, .script = SCRIPT_SPLIT, .ranks = 2, .lanes = 2},
    {.name = "split-late-3", .phase = PHASE_CALLS, .script = SCRIPT_SPLIT, .ranks = 3, .twist = TWIST_PAUSES},
    {.name = "split-hidden-3", .phase = PHASE_CALLS, .script = SCRIPT_SPLIT, .ranks = 3, .hides = true},
    {.name = "broadcast-2", .phase = PHASE_CALLS, .script = SCRIPT_BROADCAST, .ranks = 2, .count = CHUNK},
    {.name = "broadcast-3-many", .phase = PHASE_CALLS, .script = SCRIPT_BROADCAST, .ranks = 3, .count = CHUNKS},
    {.name = "channels-2", .phase = PHASE_CALLS, .script = SCRIPT_CHANNELS, .ranks = 2, .count = LINE},
    {.name = "channels-3", .phase = PHASE_CALLS, .script = SCRIPT_CHANNELS, .ranks = 3, .count = LINE},
    {.name = "channels-2-many", .phase = PHASE_CALLS, .script = SCRIPT_CHANNELS, .ranks = 2, .count = CHUNKS},
    {.name = "channels-3-many", .phase = PHASE_CALLS, .script = SCRIPT_CHANNELS, .ranks = 3, .count = CHUNKS},
    {.name = "channels-3-late",
     .phase = PHASE_CALLS,
     .script = SCRIPT_CHANNELS,
     .ranks = 3,
     .count = CHUNKS,
     .twist = TWIST_LATE,
     .sleeps = true},
    {.name = "allgather-2-line", .phase = PHASE_CALLS, .script = SCRIPT_ALLGATHER, .ranks = 2, .count = LINE},
    {.name = "allgather-3-lines", .phase = PHASE_CALLS, .script = SCRIPT_ALLGATHER, .ranks = 3, .count = LINES},
    {.name = "allgather-2", .phase = PHASE_CALLS, .script = SCRIPT_ALLGATHER, .ranks = 2, .count = CHUNK},
    {.name = "allgather-3-many", .phase = PHASE_CALLS, .script = SCRIPT_ALLGATHER, .ranks = 3, .count = CHUNKS},
    {.name = "broadcast-2-line", .phase = PHASE_CALLS, .script = SCRIPT_BROADCAST, .ranks = 2, .count = LINE},
    {.name = "broadcast-4-few", .phase = PHASE_CALLS, .script = SCRIPT_BROADCAST, .ranks = 4, .count = LINES},
    FAMILY("reduce-2-lines", KOLO_REDUCE, 2, 1, KOLO_ALGORITHM_AUTO, LINES),
    FAMILY("reduce-mesh-2-many", KOLO_REDUCE, 2, 0, KOLO_ALGORITHM_MESH, CHUNKS),
    FAMILY("reduce-mesh-3", KOLO_REDUCE, 3, 1, KOLO_ALGORITHM_MESH, CHUNK),
    FAMILY("reduce-mesh-4-many", KOLO_REDUCE, 4, 3, KOLO_ALGORITHM_MESH, CHUNKS),
    FAMILY("gather-2-lines", KOLO_GATHER, 2, 0, KOLO_ALGORITHM_AUTO, LINES),
    SINGLE_COPY("scatter-read-2", KOLO_SCATTER, 2, 0, CHUNK),
    SINGLE_COPY("scatter-read-3-many", KOLO_SCATTER, 3, 1, CHUNKS),
    SINGLE_COPY("alltoall-read-3", KOLO_ALLTOALL, 3, 0, CHUNK),
    {.name = "allgather-read-4-many",
     .phase = PHASE_CALLS,
     .script = SCRIPT_ALLGATHER,
     .ranks = 4,
     .single_copy = true,
     .count = CHUNKS},
    {.name = "alltoall-refused-3",
     .phase = PHASE_CALLS,
     .script = SCRIPT_FAMILY,
     .ranks = 3,
     .collective = KOLO_ALLTOALL,
     .single_copy = true,
     .count = CHUNK,
     .hides = true},
    {.name = "barrier-3", .phase = PHASE_CALLS, .script = SCRIPT_BARRIER, .ranks = 3},
    {.name = "yields-2",
     .phase = PHASE_CALLS,
     .ranks = 2,
     .algorithm = KOLO_ALGORITHM_ONESHOT,
     .count = LINES,
     .twist = TWIST_LATE},
    {.name = "sleeps-2",
     .phase = PHASE_CALLS,
     .ranks = 2,
     .algorithm = KOLO_ALGORITHM_ONESHOT,
     .count = LINES,
     .twist = TWIST_LATE,
     .sleeps = true},
    {.name = "sleeps-3",
     .phase = PHASE_CALLS,
     .ranks = 3,
     .algorithm = KOLO_ALGORITHM_MESH,
     .count = CHUNK,
     .twist = TWIST_LATE,
     .sleeps = true},
    {.name = "watchdog-11", /* more than watch each other */
     .phase = PHASE_CALLS,
     .ranks = 11,
     .algorithm = KOLO_ALGORITHM_ONESHOT,
     .count = LINE,
     .twist = TWIST_LATE,
     .sleeps = true},
    {.name = "rings-2",
     .phase = PHASE_CALLS,
     .ranks = 2,
     .algorithm = KOLO_ALGORITHM_ONESHOT,
     .count = LINES,
     .twist = TWIST_RINGS,
     .sleeps = true},
    {.name = "rings-3",
     .phase = PHASE_CALLS,
     .ranks = 3,
     .algorithm = KOLO_ALGORITHM_MESH,
     .count = CHUNK,
     .twist = TWIST_RINGS,
     .sleeps = true},
    {.name = "abort-2",
     .phase = PHASE_CALLS,
     .ranks = 2,
     .algorithm = KOLO_ALGORITHM_ONESHOT,
     .count = LINE,
     .twist = TWIST_ABORTS},
    {.name = "abort-3",
     .phase = PHASE_CALLS,
     .ranks = 3,
     .algorithm = KOLO_ALGORITHM_MESH,
     .count = CHUNK,
     .twist = TWIST_ABORTS},
    {.name = "second-3",
     .phase = PHASE_CALLS,
     .ranks = 3,
     .algorithm = KOLO_ALGORITHM_ONESHOT,
     .count = LINE,
     .twist = TWIST_SECOND},
    LANES("lanes-2", 2, SCRIPT_LANES, KOLO_ALGORITHM_ONESHOT),
    LANES("lanes-3", 3, SCRIPT_LANES, KOLO_ALGORITHM_MESH),
    LANES("helpers-2", 2, SCRIPT_ALLREDUCE, KOLO_ALGORITHM_MESH),
    LANES("helpers-3", 3, SCRIPT_ALLREDUCE, KOLO_ALGORITHM_ONESHOT),
    COMPRESSED("compressed-f16-2", 2, KOLO_COMPRESSION_F16, LINES),
    COMPRESSED("compressed-f16-3-many", 3, KOLO_COMPRESSION_F16, CHUNKS),
    COMPRESSED("compressed-topk-2-many", 2, KOLO_COMPRESSION_TOPK, CHUNKS),
    COMPRESSED("compressed-topk-3", 3, KOLO_COMPRESSION_TOPK, LINES),
    OPTIMIZER("optimizer-2", 2, false, CHUNK),
    OPTIMIZER("optimizer-3-many", 3, false, CHUNKS),
    OPTIMIZER("optimizer-progress-2", 2, true, CHUNKS),
    REQUESTS("requests-2", 2, false, LINES, TWIST_NONE),
    REQUESTS("requests-3-many", 3, false, CHUNKS, TWIST_NONE),
    REQUESTS("requests-abort-2", 2, false, LINE, TWIST_ABORTS),
    REQUESTS("progress-2", 2, true, LINES, TWIST_NONE),
    REQUESTS("progress-3-many", 3, true, CHUNKS, TWIST_NONE),
    REQUESTS("progress-late-2", 2, true, LINES, TWIST_LATE),
    REQUESTS("progress-abort-3", 3, true, CHUNK, TWIST_ABORTS),
    {.name = "shrink-requests-3",
     .phase = PHASE_SHRINK,
     .script = SCRIPT_REQUESTS,
     .ranks = 3,
     .count = LINES,
     .twist = TWIST_DIES},
    {.name = "shrink-progress-3",
     .phase = PHASE_SHRINK,
     .script = SCRIPT_REQUESTS,
     .ranks = 3,
     .count = CHUNK,
     .has_thread = true,
     .twist = TWIST_DIES},
    {.name = "shrink-progress-abort-3",
     .phase = PHASE_SHRINK,
     .script = SCRIPT_REQUESTS,
     .ranks = 3,
     .count = LINE,
     .has_thread = true},
    {.name = "shrink-2", .phase = PHASE_SHRINK, .ranks = 2, .count = LINE},
    {.name = "shrink-3", .phase = PHASE_SHRINK, .ranks = 3, .count = LINES},
    {.name = "shrink-4", .phase = PHASE_SHRINK, .ranks = 4, .algorithm = KOLO_ALGORITHM_MESH, .count = CHUNKS},
    {.name = "shrink-lanes-2", .phase = PHASE_SHRINK, .ranks = 2, .lanes = 2, .count = CHUNK},
    {.name = "shrink-late-3", .phase = PHASE_SHRINK, .ranks = 3, .count = LINE, .twist = TWIST_LATE},
    {.name = "shrink-death-3", .phase = PHASE_SHRINK, .ranks = 3, .count = LINE, .twist = TWIST_DIES},
    {.name = "shrink-death-4", .phase = PHASE_SHRINK, .ranks = 4, .count = CHUNK, .twist = TWIST_DIES},
    {.name = "shrink-second-3", .phase = PHASE_SHRINK, .ranks = 3, .count = LINE, .twist = TWIST_SECOND_VIEW},
    {.name = "shrink-second-4", .phase = PHASE_SHRINK, .ranks = 4, .count = LINE, .twist = TWIST_SECOND_VIEW},
    {.name = "shrink-concludes-2", .phase = PHASE_SHRINK, .ranks = 2, .count = LINE, .twist = TWIST_PAUSES},
    {.name = "shrink-lacks-3", .phase = PHASE_SHRINK, .ranks = 3, .count = LINE, .twist = TWIST_LACKS},
    {.name = "destroy-2", .phase = PHASE_DESTROY, .ranks = 2, .algorithm = KOLO_ALGORITHM_ONESHOT, .count = LINE},
    {.name = "destroy-3", .phase = PHASE_DESTROY, .script = SCRIPT_KEEP, .ranks = 3, .count = CHUNKS},
    {.name = "destroy-shared-2", .phase = PHASE_DESTROY, .script = SCRIPT_KEEP_SHARED, .ranks = 2, .count = CHUNKS},
    {.name = "nodes-create-2x2", .phase = PHASE_CREATE, .ranks = 4, .nodes = 2, .engine = "uring", .count = LINE},
    {.name = "nodes-create-3x1", .phase = PHASE_CREATE, .ranks = 3, .nodes = 3, .engine = "poll", .count = LINE},
    {.name = "nodes-create-second",
     .phase = PHASE_CREATE,
     .ranks = 3,
     .nodes = 3,
     .engine = "poll",
     .count = LINE,
     .twist = TWIST_SECOND_EARLY},
    {.name = "nodes-create-awaited",
     .phase = PHASE_CREATE,
     .ranks = 3,
     .nodes = 3,
     .engine = "uring",
     .count = LINE,
     .twist = TWIST_AWAITED},
    NODES("nodes-oneshot-2x2", 2, 4, "uring", "auto", LINE),
    NODES("nodes-oneshot-3x1", 3, 3, "poll", "auto", LINES),
    NODES("nodes-mesh-2x2", 2, 4, "poll", "mesh", CHUNKS),
    NODES("nodes-mesh-3x1", 3, 3, "uring", "mesh", CHUNKS),
    NODES("nodes-ring-2x2", 2, 4, "uring", "ring", CHUNKS),
    NODES("nodes-ring-3x1", 3, 3, "poll", "ring", CHUNKS),
    NODES("nodes-tree-2x2", 2, 4, "poll", "tree", CHUNK),
    NODES("nodes-tree-3x1", 3, 3, "uring", "tree", CHUNKS),
    {.name = "nodes-ranks-3+1",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .nodes = 2,
     .lopsided = true,
     .engine = "uring",
     .exchange = "mesh",
     .rank_order = true,
     .count = CHUNKS},
    {.name = "nodes-ranks-oneshot-3+1",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .nodes = 2,
     .lopsided = true,
     .engine = "poll",
     .exchange = "auto",
     .rank_order = true,
     .count = LINES},
    {.name = "nodes-threads-2x2",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .nodes = 2,
     .engine = "uring",
     .exchange = "mesh",
     .threads = 2,
     .slot_bytes = 4 * CASE_SLOT_BYTES,
     .count = CHUNKS},
    {.name = "nodes-threads-3x1",
     .phase = PHASE_CALLS,
     .ranks = 3,
     .nodes = 3,
     .engine = "poll",
     .exchange = "ring",
     .threads = 3,
     .count = CHUNKS},
    {.name = "nodes-helpers-2x2",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .nodes = 2,
     .engine = "uring",
     .exchange = "mesh",
     .lanes = 2,
     .count = CHUNKS},
    {.name = "nodes-create-threads",
     .phase = PHASE_CREATE,
     .ranks = 4,
     .nodes = 2,
     .engine = "poll",
     .threads = 2,
     .count = LINE},
    {.name = "nodes-create-lanes",
     .phase = PHASE_CREATE,
     .ranks = 4,
     .nodes = 2,
     .engine = "poll",
     .lanes = 2,
     .count = LINE},
    {.name = "nodes-second-threads",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .nodes = 2,
     .engine = "poll",
     .threads = 2,
     .count = LINE,
     .twist = TWIST_SECOND},
    {.name = "nodes-broadcast-2x2",
     .phase = PHASE_CALLS,
     .script = SCRIPT_BROADCAST,
     .ranks = 4,
     .nodes = 2,
     .engine = "uring",
     .slot_bytes = 4 * CASE_SLOT_BYTES,
     .count = CHUNKS},
    {.name = "nodes-broadcast-3x1",
     .phase = PHASE_CALLS,
     .script = SCRIPT_BROADCAST,
     .ranks = 3,
     .nodes = 3,
     .engine = "poll",
     .count = CHUNK},
    {.name = "nodes-allgather-2x2",
     .phase = PHASE_CALLS,
     .script = SCRIPT_ALLGATHER,
     .ranks = 4,
     .nodes = 2,
     .engine = "poll",
     .count = CHUNK},
    {.name = "nodes-many-2x2",
     .phase = PHASE_CALLS,
     .script = SCRIPT_FAMILY,
     .ranks = 4,
     .nodes = 2,
     .engine = "poll",
     .collective = KOLO_ALLREDUCE_MANY,
     .count = CHUNKS},
    {.name = "nodes-split-2x2", .phase = PHASE_CALLS, .script = SCRIPT_SPLIT, .ranks = 4, .nodes = 2, .engine = "poll"},
    {.name = "nodes-split-3x1",
     .phase = PHASE_CALLS,
     .script = SCRIPT_SPLIT,
     .ranks = 3,
     .nodes = 3,
     .engine = "uring"},
    {.name = "nodes-split-3+1",
     .phase = PHASE_CALLS,
     .script = SCRIPT_SPLIT,
     .ranks = 4,
     .nodes = 2,
     .lopsided = true,
     .engine = "poll"},
    {.name = "nodes-channels-2x2",
     .phase = PHASE_CALLS,
     .script = SCRIPT_CHANNELS,
     .ranks = 4,
     .nodes = 2,
     .engine = "uring",
     .count = LINE},
    {.name = "nodes-channels-3x1-many",
     .phase = PHASE_CALLS,
     .script = SCRIPT_CHANNELS,
     .ranks = 3,
     .nodes = 3,
     .engine = "poll",
     .count = CHUNKS},
    {.name = "nodes-barrier-2x2",
     .phase = PHASE_CALLS,
     .script = SCRIPT_BARRIER,
     .ranks = 4,
     .nodes = 2,
     .engine = "poll"},
    {.name = "nodes-late-2x2",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .nodes = 2,
     .engine = "poll",
     .count = CHUNK,
     .twist = TWIST_LATE,
     .sleeps = true},
    {.name = "nodes-beats-3x1",
     .phase = PHASE_CALLS,
     .ranks = 3,
     .nodes = 3,
     .engine = "uring",
     .count = LINE,
     .twist = TWIST_LATE,
     .beats = true,
     .sleeps = true},
    {.name = "nodes-abort-2x2",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .nodes = 2,
     .engine = "uring",
     .count = LINE,
     .twist = TWIST_ABORTS},
    {.name = "nodes-second-2x2",
     .phase = PHASE_CALLS,
     .ranks = 4,
     .nodes = 2,
     .engine = "uring",
     .count = LINE,
     .twist = TWIST_SECOND},
    {.name = "nodes-second-3x1",
     .phase = PHASE_CALLS,
     .ranks = 3,
     .nodes = 3,
     .engine = "poll",
     .count = LINE,
     .twist = TWIST_SECOND},
    {.name = "nodes-shrink-2x2", .phase = PHASE_SHRINK, .ranks = 4, .nodes = 2, .engine = "uring", .count = CHUNK},
    {.name = "nodes-shrink-3x1", .phase = PHASE_SHRINK, .ranks = 3, .nodes = 3, .engine = "poll", .count = LINE},
    {.name = "nodes-shrink-3+1",
     .phase = PHASE_SHRINK,
     .ranks = 4,
     .nodes = 2,
     .lopsided = true,
     .engine = "poll",
     .count = LINE},
    {.name = "nodes-shrink-death-2x2",
     .phase = PHASE_SHRINK,
     .ranks = 4,
     .nodes = 2,
     .engine = "poll",
     .count = LINE,
     .twist = TWIST_DIES},
    {.name = "nodes-shrink-death-3x1",
     .phase = PHASE_SHRINK,
     .ranks = 3,
     .nodes = 3,
     .engine = "uring",
     .count = CHUNK,
     .twist = TWIST_DIES},
    {.name = "nodes-shrink-death-3+1",
     .phase = PHASE_SHRINK,
     .ranks = 4,
     .nodes = 2,
     .lopsided = true,
     .engine = "uring",
     .count = LINE,
     .twist = TWIST_DIES},
    {.name = "nodes-destroy-2x2", .phase = PHASE_DESTROY, .ranks = 4, .nodes = 2, .engine = "uring", .count = LINE},
    {.name = "nodes-destroy-3x1", .phase = PHASE_DESTROY, .ranks = 3, .nodes = 3, .engine = "poll", .count = LINE},
};

struct fault_case fault_cases[FAULT_CASES_MAX];
int fault_cases_count;

static void add(struct fault_case what, const char *name) {
    static char names[FAULT_CASES_MAX][32];
    char *own = names[fault_cases_count];
    if (fault_cases_count == FAULT_CASES_MAX)
        abort();
    snprintf(own, sizeof *names, "%s", name);
    what.name = own;
    fault_cases[fault_cases_count++] = what;
}

/* In a line, in lines, in one chunk and in many, from or to several roots: a collective with counts of its own, or with
 * a function in its middle, goes through no lines. Then on several machines, of which collectives take two shapes by
 * turns. */
static void add_family(const collective_shape *shape) {
    static const struct {
        const char *suffix;
        int ranks, root;
        size_t count, count_of_blocks;
        bool is_in_lines;
    } sizes[] = {{"2-line", 2, 1, LINE, LINE, true},
                 {"4-lines", 4, 0, LINES, LINE, true},
                 {"2", 2, 0, CHUNK, CHUNK, false},
                 {"3-many", 3, 2, CHUNKS, CHUNKS, false}};
    const bool has_lines = !shape->counted && shape->collective != KOLO_ALLREDUCE_APPLY;
    const bool has_blocks = shape->sends_blocks || shape->takes_blocks, has_pairs = shape->collective % 2 == 0;
    struct fault_case what = {.phase = PHASE_CALLS,
                              .script = SCRIPT_FAMILY,
                              .collective = shape->collective,
                              .algorithm = KOLO_ALGORITHM_AUTO};
    char name[32];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].is_in_lines && !has_lines)
            continue;
        snprintf(name, sizeof name, "%s-%s", kolo_name(KOLO_NAME_COLLECTIVE, shape->collective), sizes[i].suffix);
        what.ranks = sizes[i].ranks;
        what.root = shape->has_root ? sizes[i].root : 0;
        what.count = has_blocks ? sizes[i].count_of_blocks : sizes[i].count;
        if (shape->collective == KOLO_REDUCE) /* rows have its mesh */
            what.algorithm = KOLO_ALGORITHM_ONESHOT;
        add(what, name);
    }
    snprintf(name, sizeof name, "nodes-%s-%s", kolo_name(KOLO_NAME_COLLECTIVE, shape->collective),
             has_pairs ? "2x2" : "3x1");
    what.ranks = has_pairs ? 4 : 3;
    what.nodes = has_pairs ? 2 : 3;
    what.root = shape->has_root ? 1 : 0;
    what.engine = "poll";
    what.count = CHUNK;
    what.algorithm = KOLO_ALGORITHM_AUTO;
    add(what, name);
}

void fault_cases_make(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add(rows[i], rows[i].name);
    for (int i = KOLO_ALLGATHERV; i < COLLECTIVES; i++) /* those before it have scripts of their own */
        add_family(&collective_shapes[i]);
}
