/* What kolo-perf measures beside collectives: a function for each, and what several have in common. */
#pragma once

#include "perf_options.h"
#include "perf_report.h"

/* Messages between two ranks, kolo_send and kolo_recv. Ranks 0 and 1 send, the others wait. */
perf_mode perf_messages_run;

/* CPU time and delay of waits of 1 us and more by each KOLO_WAIT. */
perf_mode perf_waits_run;

/* A training step of AdamW in the all-reduce, beside an all-reduce and the whole update on every rank. What is wrong
 * are the bytes of parameters in which the two ways differ. */
perf_mode perf_optimizer_run;

/* Pulls and pushes of a parameter server's table, beside copies of as many rows of a rank's own memory. What is wrong
 * are rows that are torn, or other ones by their keys, and a sum that is not that of what was pushed. */
perf_mode perf_table_run;

/* The time from exec to the first result: starts a process for each rank, again and again. */
perf_mode perf_init_run;

/* Whether this process is one that perf_init_run has started, and its whole main. */
bool perf_init_is_started(char *const *arguments);
int perf_init_start(char *const *arguments);

/* Every piece of work, measured thoroughly, then the bound for each size. --ranks goes before `ranks`. */
perf_mode_alone perf_limits_report;

/* How fast kolo_exact_add is, beside a plain vectorized sum of the same array: a row for each dtype and size. */
perf_mode_alone perf_exact_report;

/* A mode that has rows for each size. */
typedef struct perf_walk {
    const char *name;
    const perf_options *options;
    kolo_comm *comm;
    bool has_empty;    /* also of 0 bytes */
    const char *right; /* what is said below the table where it was checked, and nothing was wrong */
    void *of;          /* what both functions are given */
    int (*measure)(void *of, size_t bytes, int64_t *wrong); /* collective; *wrong stays -1 where nothing is checked */
    void (*show)(void *of, perf_report *report, int64_t wrong);
} perf_walk;

/* Returns what a perf_mode does. */
int perf_walk_sizes(const perf_walk *walk, perf_report *report, int64_t *wrong);
