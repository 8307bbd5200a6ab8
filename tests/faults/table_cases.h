/* The cases of table_faults: ranks that make a table, push known numbers into it, and leave it. Each counts what it has
 * pushed in memory that outlives it, so that each row tells afterwards whether every push was applied once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kolo_table.h"
#include "fault_board.h"

enum {
    TABLE_RANKS_MAX = 5,
    TABLE_NODES_MAX = 4,
    TABLE_ROWS = 6,
    TABLE_ROW_PIECES = 2,
    TABLE_PIECES = TABLE_ROWS * TABLE_ROW_PIECES,
    TABLE_CALLS = 5, /* of kolo_table_clock, before the ranks meet; staleness 0: clocks */
    TABLE_CALLS_MAX = 1000,
    TABLE_PUSHES = 2, /* in each clock */
    TABLE_SAVED_CALL = 2,
    TABLE_SPARSE_ROW = 3,
    TABLE_TIMEOUT_MS = 3000,
    TABLE_PAUSES_MAX = BOARD_FAULTS - 2
};

#define TABLE_WITHIN_NS INT64_C(1000000000) /* a call of a survivor takes no longer */

/* Part of a case: a rank that pauses, or dies first. */
struct table_twist {
    const char *point; /* NULL: none */
    int rank;
    uint64_t passage;
};

struct table_case {
    const char *name;
    int ranks, servers;
    int shards; /* 0: as many as owners */
    int64_t staleness;
    int backup_workers;
    bool saves;
    bool is_narrow;                              /* queues hold four pieces */
    int calls;                                   /* instead of TABLE_CALLS; 0: so many */
    uint64_t full_pushes;                        /* of each rank: later ones are of TABLE_SPARSE_ROW; 0: all are */
    int nodes[TABLE_NODES_MAX];                  /* ranks of each node; 0: all on one, without a network */
    bool creates;                                /* deaths count from the making of the table on */
    struct table_twist first;                    /* dies before the rank that the sweep kills */
    struct table_twist pauses[TABLE_PAUSES_MAX]; /* others find the role taken, or hear late */
};

extern const struct table_case table_cases[];
extern const int table_cases_count;

enum outcome { OUTCOME_NONE, OUTCOME_ENDING, OUTCOME_IN, OUTCOME_OUT };

/* How often a rank's pushes were applied to a piece, and the sum of their numbers, which begin at 1. */
struct table_count {
    int64_t pushes, numbers;
};

/* What a rank leaves for the driver to see. Numbers of its pushes: 1, 2, ... */
struct table_record {
    _Atomic uint64_t begun, returned;        /* pushes of the whole table */
    uint64_t pushed_in[TABLE_CALLS_MAX + 1]; /* pushes returned when it ended that clock */
    uint8_t outcomes[TABLE_CALLS_MAX + 1];   /* of its calls of kolo_table_clock, staleness 0 */
    uint64_t calls;
    uint64_t saved_begun, saved_calls; /* pushes begun, and calls, when it began to save */
    bool is_saving, has_saved;         /* the latter: the file is written, as kolo_table_wait says */
    int save_status;
    int status;        /* of the first error but of a save */
    char call[24];     /* which that was */
    char message[400]; /* of it */
    char save_message[400];
    kolo_failure failure;
    int64_t longest_ns; /* of its calls */
    char longest[24];
    bool has_counts;
    struct table_count counts[TABLE_PIECES][TABLE_RANKS_MAX]; /* in the end, or after an error */
    char complaint[200];                                      /* what it has seen itself; "": nothing */
    _Atomic int met; /* how often it came where all meet; INT32_MAX: it has gone */
};

struct table_board {
    _Atomic bool killed[TABLE_RANKS_MAX];           /* by the driver, not at a point */
    struct table_record ranks[TABLE_RANKS_MAX + 1]; /* the last one is of table_load_counts */
};

extern struct table_board *table_board;

struct kolo_table;

/* What a run is of. */
struct table_mode {
    const struct table_case *what;
    const char *job;
    const char *path;                        /* of the file that is saved */
    int node_fds[TABLE_NODES_MAX];           /* what the ranks of each node inherit */
    char rendezvous[32];                     /* where nodes meet */
    void (*spoil)(struct kolo_table *table); /* for table_control.c: once the table is made */
    void (*spoil_point)(const struct kolo_table *table, const char *point); /* at each point that a rank passes */
    bool is_random; /* kills come from the driver: as many calls as there is time */
};

/* Maps table_board. */
void table_cases_begin(void);

bool table_is_tolerant(const struct table_case *what);
int table_workers(const struct table_case *what);

/* Of a rank's first pushes, how many have this piece. */
uint64_t table_pushes_of(const struct table_case *what, int piece, uint64_t pushes);

/* The node of a rank, and the rank that connects it with the others; -1: there is one node. */
int table_node(const struct table_case *what, int rank);
int table_leader(const struct table_case *what, int rank);

/* A rank's part; `mode`: a struct table_mode. */
void table_run_rank(const void *mode, int rank);

/* For a file of the case: loads it as a rank of its own, and counts. Exits with 0 if it could be loaded. */
void table_load_counts(const void *mode, int rank);
