/* Ranks as fibers, of which exactly one runs, and a scheduler that says which.
 *
 * Wherever a rank touches what others touch too, it asks the scheduler to choose (sched_step). What can be chosen are
 * agents: each rank that is neither asleep nor done, and each rank's store buffer that holds something
 * (sched_memory.h), which then lets its oldest store become visible. All choices come from the seed, so a seed repeats
 * a run to the last step. Three policies: uniform   every agent is as likely as any other; sticky    as uniform, but
 * mostly the same agent goes on: long runs of one rank while the others stand; priority  the agent with the highest
 * priority goes on; at a few steps, drawn beforehand, whoever runs falls below all others. Finds orders that need few
 * switches, at any depth. Source: Burckhardt, Kothari, Musuvathi, Nagarakatte: "A Randomized Scheduler with
 * Probabilistic Guarantees of Finding Bugs", 2010.
 *
 * Time is virtual: a step takes STEP_NS, and when all ranks sleep it jumps to the first one's deadline. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fibers.h"

enum { SCHED_RANKS_MAX = 8, SCHED_NOBODY = FIBER_NONE };

typedef enum sched_policy { SCHED_UNIFORM, SCHED_STICKY, SCHED_PRIORITY, SCHED_POLICIES } sched_policy;

typedef struct sched_run {
    uint32_t ranks;
    uint64_t seed;
    bool wakes_early;    /* sleepers may wake with no reason, as a signal makes them */
    uint32_t victim;     /* rank that dies; SCHED_NOBODY: none */
    uint64_t death_step; /* of the victim's own steps */
    bool trace;
    void (*body)(uint32_t rank);
    void (*quiet)(void); /* all ranks that live sleep, and nothing is in a store buffer */
} sched_run;

/* Runs body(rank) of all ranks to the end, or to the first problem. */
void sched_engine_run(const sched_run *run);

/* The first problem of this run in words, or NULL. */
const char *sched_problem(void);

uint64_t sched_steps(void);    /* of this run so far */
uint64_t sched_switches(void); /* from one rank to another */
bool sched_has_died(uint32_t rank);
bool sched_sleeps(uint32_t rank);
int64_t sched_now_ns(void);
int64_t sched_death_ns(void); /* when the victim died; -1: it has not */

/* In a fiber. */

/* The running rank; SCHED_NOBODY outside. */
uint32_t sched_self(void);

/* The running rank is about to do something that others may see: lets the scheduler choose who goes on. */
void sched_step(void);

/* The running rank is known not to get on: under the priority policy it falls below all others. */
void sched_give_way(void);

/* Sleeps on `word` until sched_wake of it or for `ns`. */
void sched_sleep(const void *word, int64_t ns);
void sched_wake(const void *word);

/* Ends the run, with a problem unless there is one already. Does not return. */
_Noreturn void sched_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line of the trace, if there is one. */
bool sched_is_traced(void);
void sched_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
