/* What the ranks of one run do, all of it drawn from the seed: how many they are, how their communicator is set up,
 * which calls they make, and what goes wrong. */
#pragma once

#include "sched_team.h"

enum {
    SCHED_CALLS = 8,                              /* in most cases */
    SCHED_CALLS_AHEAD = KOLO_PARTS + KOLO_PASSES, /* before ranks that disagree find out */
    SCHED_CALLS_MAX = SCHED_CALLS + SCHED_CALLS_AHEAD
};

typedef enum sched_fault {
    SCHED_NO_FAULT,
    SCHED_ABORT,
    SCHED_DEATH,
    SCHED_DEPARTURE,
    SCHED_MISMATCH,
    SCHED_LATE /* for one rank the others are: it gives up at its first deadline */
} sched_fault;

/* What else there is in a run than all-reduces in slots. */
typedef enum sched_feature {
    SCHED_LINES = 1, /* also messages that fit lines */
    SCHED_BROADCASTS = 2,
    SCHED_BARRIERS = 4,
    SCHED_FAMILY = 8,      /* any other collective */
    SCHED_SAME_ROOT = 16,  /* many short broadcasts, all from rank 0 */
    SCHED_SLEEPS = 32,     /* nobody spins for long */
    SCHED_PAIRS = 64,      /* calls of one kind, then of another: seeds in a row take all ordered pairs in turn */
    SCHED_LASTING = 128,   /* ranks that disagree do so in all calls from then on, and never meet */
    SCHED_ROOTED = 256,    /* any collective with a root, which changes, but few that go through lines */
    SCHED_GATHERS = 512,   /* of those, gathers alone */
    SCHED_PASSES = 1024,   /* those, and scans, most of them through lines */
    SCHED_TABLES = 2048,   /* in place of calls a table, sched_table.h, with a bound on staleness above 0 */
    SCHED_CLOCKS = 4096,   /* the same with staleness 0 */
    SCHED_EXCHANGES = 8192 /* reduce-scatters and all-to-alls through slots, with few broadcasts and scatters between */
} sched_feature;

/* What there is to choose from in a run. */
typedef struct sched_case {
    const char *name;
    const char *purpose;
    uint32_t ranks_min, ranks_max;
    uint32_t calls_max;
    uint32_t algorithms; /* a bit a kolo_algorithm */
    uint32_t features;   /* sched_feature */
    sched_fault fault;
} sched_case;

static inline bool sched_case_has_table(const sched_case *which) {
    return which->features & (SCHED_TABLES | SCHED_CLOCKS);
}

/* One of the cases; NULL past the last. */
const sched_case *sched_case_at(uint32_t index);
const sched_case *sched_case_find(const char *name);

typedef struct sched_call {
    kolo_collective collective;
    kolo_dtype dtype;
    kolo_op op;
    size_t count;  /* of each block; where those may have any length, they have up to 3/2 of it */
    uint32_t skew; /* tells such lengths */
    uint32_t root;
    bool in_place;
    uint32_t outsider; /* rank whose buffers are not kolo_alloc's; SCHED_NOBODY: none */
} sched_call;

typedef struct sched_plan {
    sched_shape shape;
    uint32_t calls;
    sched_call call[SCHED_CALLS_MAX];
    sched_fault fault;
    uint32_t culprits[2]; /* who aborts, dies, leaves or gives up; SCHED_NOBODY: none */
    uint32_t fault_call;  /* before which it aborts or leaves; where ranks disagree; from which on it gives up */
    uint64_t fault_step;  /* of its own, at which it dies */
    uint64_t dissenters;  /* a bit for each rank that makes others in place of call[fault_call .. fault_end-1]: some,
                             not all */
    uint32_t fault_end;
    sched_call other[SCHED_CALLS_MAX];
    bool wakes_early;
} sched_plan;

/* What that rank calls. */
const sched_call *sched_plan_call(const sched_plan *plan, uint32_t rank, uint32_t index);

static inline bool sched_disagrees(const sched_plan *plan, uint32_t index) {
    return index >= plan->fault_call && index < plan->fault_end;
}

static inline bool sched_dissents(const sched_plan *plan, uint32_t rank) {
    return plan->dissenters >> rank & 1;
}

void sched_plan_draw(sched_plan *plan, const sched_case *from, uint64_t seed);

/* One run of a case: the ranks make their calls under one schedule, and what comes of it is judged. */

/* True if all went as it must; else `problem` says what did not. */
bool sched_case_run(const sched_case *which, uint64_t seed, bool trace, char *problem, size_t problem_bytes);
