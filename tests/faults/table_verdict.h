/* One run of a case of tables, with deaths or without, what must be true of it, and what shows that this is seen. */
#pragma once

#include "fault_team.h"
#include "table_cases.h"

/* What to try: a death at a point, or, where `random` is not 0, deaths at any time. */
struct table_trial {
    const struct table_case *what;
    struct fault fault; /* not armed: nobody dies but by the case */
    uint64_t random;
    void (*spoil)(struct kolo_table *table); /* see table_cases.h */
    void (*spoil_point)(const struct kolo_table *table, const char *point);
};

struct table_run {
    const struct table_trial *trial;
    struct table_mode mode;
    char job[64], path[128];
    struct team team;
    int deaths;
    int64_t longest_ns;   /* of the survivors' calls */
    int64_t held_ns;      /* how long the machine kept ranks waiting for a processor */
    bool is_late;         /* a call took too long, and that is all of the complaint */
    char complaint[1200]; /* "": all was as it should be */
};

/* Makes the run. False if nobody came to the fault's point that often. `folder`: for the files that are saved. */
bool table_run_trial(const struct table_trial *trial, const char *folder, struct table_run *run);

/* Shows that table_faults notices what it is there to notice: ranks are given one defect after another. */

/* Returns how many defects were not noticed, or seen where there is none. */
int table_control_run(const char *folder);
