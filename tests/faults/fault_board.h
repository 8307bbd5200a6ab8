/* What the driver of a sweep and the ranks of a run share: which fault is to strike where, and what each rank has done.
 *
 * The board lies in memory that all map. A rank writes its own record only, and the victim the time of the fault; the
 * driver reads when the ranks have ended. So nothing here needs an order, and what a rank wrote before it died is
 * there. The leader of a node has a second thread (internode/proxy.h), which passes points too: it adds to the same
 * counts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"

enum { BOARD_RANKS_MAX = 12, BOARD_POINTS_MAX = 512, BOARD_STEPS_MAX = 24, BOARD_FAULTS = 5, BOARD_TEXT_BYTES = 400 };

enum action {
    ACTION_KILL,
    ACTION_STOP,
    ACTION_EXIT_0,
    ACTION_EXIT_3,
    ACTIONS,
    ACTION_PAUSE = ACTIONS /* for BOARD_PAUSE_MS; part of a case, never what the sweep tries */
};

enum { BOARD_PAUSE_MS = 60 };

/* At its `passage`th passage of `point`, counted where the case counts, `rank` does it to itself. */
struct fault {
    bool armed;
    int rank;
    int point; /* see board_point */
    uint64_t passage;
    enum action action;
};

/* A call of a rank: creation is step 0. */
struct step {
    int status;
    bool returned;
    bool is_wrong; /* it succeeded with a wrong result */
    int64_t begin_ns;
    int64_t end_ns;
    int64_t held_ns;                /* of that, time in which the rank could have run and another had the processor */
    _Atomic uint64_t contributions; /* stores that others wait for */
    int size;                       /* of the communicator that came of a shrink */
    uint64_t members;               /* a bit for each rank, by its first number, in the first sum after that */
};

struct leftovers {
    int descriptors;
    int mappings; /* of shared memory files */
    int64_t blocks;
};

struct rank_record {
    bool is_counting;
    _Atomic uint64_t passages[BOARD_POINTS_MAX]; /* while counting */
    bool passed[BOARD_POINTS_MAX];               /* ever */
    int last_point;                              /* -1: none yet */
    int64_t registers_ns;                        /* when it came to create.introducing */
    int64_t registering_ns;                      /* from then to create.present; see fault_verdict.c */
    int step;                                    /* the present one; past the last one in destroy */
    struct step steps[BOARD_STEPS_MAX];
    char message[BOARD_TEXT_BYTES]; /* of the first error */
    kolo_failure failure;           /* as kolo_comm_failure tells it after that */
    int status_after;               /* of the next call */
    bool is_touched;                /* somebody has written to its buffers after a call had failed */
    _Atomic bool lingers;           /* see struct board */
    struct leftovers before;
    struct leftovers after;
    bool finished;
    _Atomic bool listens; /* of PHASE_GROW: a member has its listener; a joiner has asked */
    _Atomic bool asked;
};

struct board {
    struct fault faults[BOARD_FAULTS]; /* the last one is what the sweep tries, others are part of the case */
    bool struck[BOARD_FAULTS];
    int64_t struck_ns[BOARD_FAULTS]; /* of a pause, its end */
    int64_t held_ns[BOARD_FAULTS];   /* of the rank that it struck, up to then: see team_held_ns */
    struct rank_record ranks[BOARD_RANKS_MAX];
    bool has_late;         /* the others linger before they destroy, until one that was stopped has gone on */
    _Atomic bool released; /* it has */
};

extern struct board *board;

/* Maps the board and reads the program's points, sorted by name. Exits with 1 where it cannot. */
void board_create(void);

/* Forgets the last run. */
void board_clear(void);

/* Says which rank this process is, for good. */
void board_enter(int rank);

int board_points(void);
const char *board_point_name(int point);
int board_point(const char *name); /* -1: there is none such */

/* Whether `rank` has passed the point of that name, which must exist. */
bool board_passed(int rank, const char *name);

const char *board_action_name(enum action action);

/* Whether that point is in what tables do: table_faults passes these, and fault_sweep the others. */
bool board_is_of_tables(int point);

/* Of a rank: called at each of its points, before it counts; NULL: nothing. */
extern void (*board_hook)(const char *point);
