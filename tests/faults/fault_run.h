/* One run of a case, with a fault or without; and what shows that runs are judged rightly. */
#pragma once

#include "fault_board.h"
#include "fault_cases.h"
#include "fault_team.h"

enum { COMPLAINT_BYTES = 1200 };

/* What the ranks of a case do undisturbed. */
struct listing {
    uint64_t passages[BOARD_RANKS_MAX][BOARD_POINTS_MAX];
    uint64_t contributions[BOARD_RANKS_MAX][BOARD_STEPS_MAX];
};

/* What to try. */
struct trial {
    const struct fault_case *what;
    struct fault fault;
    const struct listing *listing;
    void (*spoil)(kolo_comm *comm); /* see fault_cases.h */
    int64_t deadline_ms;            /* 0: as the action needs it */
    bool litters;                   /* for fault_control.c: the job's name is there when all is over */
};

struct run {
    const struct trial *trial;
    struct run_mode mode;
    char job[64];
    int victim;       /* -1: none */
    int first_victim; /* of twists in which the actor dies; -1: none */
    struct team team;
    bool hung;
    int64_t held_ns;    /* how long the machine kept ranks waiting, for a processor or as in fault_verdict.c */
    int64_t machine_ns; /* how much of noticed_ns was the machine's at most: see fault_verdict.c */
    bool is_late;       /* an error came too late, and that is all of the complaint */
    bool is_condemned;  /* some of the complaint is of what no delay explains */
    char complaint[COMPLAINT_BYTES]; /* "": all was as it should be */
    int64_t noticed_ns;   /* from the fault to the last survivor's error; -1: it had to wait for the deadline */
    int64_t recovered_ns; /* of a shrink or a sum after it, without a deadline: see fault_recovery.c; -1: none */
    int64_t past_ns;      /* from the deadline to the last error; -1: nobody waited for it */
    int64_t waited_ns;    /* where there are nodes, how long until the last one gave up waiting; -1: nobody did */
};

/* Runs the case undisturbed but for its twist, and adds what the ranks did to *listing; where it depends on the victim
 * who plays the twist, once for each. */
void run_listing(const struct fault_case *what, struct listing *listing);

/* Runs the trial. False if the victim did not come to its point that often. */
bool run_trial(const struct trial *trial, struct run *run);

/* Shows that the sweep notices what it is there to notice: survivors are given one defect after another. */

/* Returns the program's exit status. */
int control_run(void);
