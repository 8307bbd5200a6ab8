#include "sched_engine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fibers.h"
#include "sched_memory.h"
#include "splitmix64.h"

enum {
    STEP_NS = 20,
    STEPS_MAX = 300000,
    STICKY_ODDS = 12,
    EARLY_ODDS = 64,
    AGENTS_MAX = 2 * SCHED_RANKS_MAX, /* agent r: rank r; agent ranks + r: its store buffer */
    CHANGES_MAX = 5
};

typedef enum rank_state { READY, ASLEEP, DONE, DEAD } rank_state;

typedef struct rank_run {
    rank_state state;
    const void *word; /* that it sleeps on */
    int64_t until_ns;
    uint64_t steps;
} rank_run;

static struct {
    sched_run run;
    sched_policy policy;
    uint64_t random;
    rank_run ranks[SCHED_RANKS_MAX];
    uint32_t last; /* agent */
    int64_t now_ns, death_ns;
    uint64_t steps, switches;
    int64_t priorities[AGENTS_MAX];
    int64_t lowest;
    uint64_t changes[CHANGES_MAX];
    char problem[512];
} engine;

uint32_t sched_self(void) {
    return fiber_running();
}

const char *sched_problem(void) {
    return engine.problem[0] ? engine.problem : NULL;
}

uint64_t sched_steps(void) {
    return engine.steps;
}

uint64_t sched_switches(void) {
    return engine.switches;
}

bool sched_has_died(uint32_t rank) {
    return engine.ranks[rank].state == DEAD;
}

bool sched_sleeps(uint32_t rank) {
    return engine.ranks[rank].state == ASLEEP;
}

int64_t sched_now_ns(void) {
    return engine.now_ns;
}

int64_t sched_death_ns(void) {
    return engine.death_ns;
}

bool sched_is_traced(void) {
    return engine.run.trace;
}

void sched_trace(const char *format, ...) {
    if (!engine.run.trace)
        return;
    printf("%6" PRIu64 " %9.3f us  ", engine.steps, (double)engine.now_ns * 1e-3);
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

/* To sched_engine_run, for good. */
static _Noreturn void leave(void) {
    fiber_switch(FIBER_NONE);
    abort();
}

void sched_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(engine.problem, sizeof engine.problem, format, arguments);
    va_end(arguments);
    sched_trace("PROBLEM: %s", engine.problem);
    leave();
}

static bool can_go_on(uint32_t agent) {
    const uint32_t ranks = engine.run.ranks;
    return agent < ranks ? engine.ranks[agent].state == READY : sched_memory_pending(agent - ranks) > 0;
}

static uint32_t find_highest(const uint32_t *agents, uint32_t count) {
    uint32_t highest = agents[0];
    for (uint32_t i = 1; i < count; i++)
        if (engine.priorities[agents[i]] > engine.priorities[highest])
            highest = agents[i];
    return highest;
}

/* An agent that can go on, or SCHED_NOBODY. */
static uint32_t choose(void) {
    uint32_t agents[AGENTS_MAX], count = 0;
    for (uint32_t agent = 0; agent < 2 * engine.run.ranks; agent++)
        if (can_go_on(agent))
            agents[count++] = agent;
    if (count == 0)
        return SCHED_NOBODY;
    if (engine.policy == SCHED_PRIORITY)
        return find_highest(agents, count);
    if (engine.policy == SCHED_STICKY && can_go_on(engine.last) && random_below(&engine.random, STICKY_ODDS))
        return engine.last;
    return agents[random_below(&engine.random, count)];
}

/* Wakes the rank that sleeps for the shortest time from now; false if none sleeps. */
static bool pass_time(void) {
    rank_run *first = NULL;
    for (uint32_t rank = 0; rank < engine.run.ranks; rank++) {
        rank_run *sleeper = &engine.ranks[rank];
        if (sleeper->state == ASLEEP && (!first || sleeper->until_ns < first->until_ns))
            first = sleeper;
    }
    if (!first)
        return false;
    engine.run.quiet();
    if (first->until_ns > engine.now_ns)
        engine.now_ns = first->until_ns;
    first->state = READY;
    sched_trace("all sleep: rank %td wakes at its deadline", first - engine.ranks);
    return true;
}

/* Gives the processor to whoever is chosen. Comes back when the calling rank is. */
static void hand_over(void) {
    const uint32_t self = sched_self(), ranks = engine.run.ranks;
    for (;;) {
        const uint32_t agent = choose();
        if (agent == SCHED_NOBODY) {
            if (!pass_time())
                leave();
            continue;
        }
        engine.last = agent;
        if (agent >= ranks) {
            sched_memory_drain_one(agent - ranks);
            continue;
        }
        if (agent == self)
            return;
        engine.switches++;
        fiber_switch(agent);
        return;
    }
}

static void die(void) {
    const uint32_t self = sched_self();
    sched_trace("rank %" PRIu32 " dies", self);
    sched_memory_drain(self); /* what a processor has begun to store gets there */
    engine.ranks[self].state = DEAD;
    engine.death_ns = engine.now_ns;
    hand_over();
    abort(); /* nobody chooses it again */
}

static void wake_early(void) {
    if (!engine.run.wakes_early || random_below(&engine.random, EARLY_ODDS))
        return;
    const uint32_t rank = (uint32_t)random_below(&engine.random, engine.run.ranks);
    if (engine.ranks[rank].state != ASLEEP)
        return;
    sched_trace("rank %" PRIu32 " is woken by a signal", rank);
    engine.ranks[rank].state = READY;
}

static void drop_priority(uint32_t agent) {
    engine.priorities[agent] = --engine.lowest;
}

void sched_give_way(void) {
    drop_priority(sched_self());
}

void sched_step(void) {
    rank_run *self = &engine.ranks[sched_self()];
    engine.now_ns += STEP_NS;
    self->steps++;
    if (++engine.steps > STEPS_MAX)
        sched_fail("no end after %d steps", STEPS_MAX);
    if (sched_self() == engine.run.victim && self->steps == engine.run.death_step)
        die();
    for (uint32_t i = 0; i < CHANGES_MAX; i++)
        if (engine.changes[i] == engine.steps)
            drop_priority(engine.last);
    wake_early();
    hand_over();
}

void sched_sleep(const void *word, int64_t ns) {
    rank_run *self = &engine.ranks[sched_self()];
    self->state = ASLEEP;
    self->word = word;
    self->until_ns = engine.now_ns + ns;
    hand_over();
}

void sched_wake(const void *word) {
    for (uint32_t rank = 0; rank < engine.run.ranks; rank++) {
        if (engine.ranks[rank].state != ASLEEP || engine.ranks[rank].word != word)
            continue;
        engine.ranks[rank].state = READY;
        sched_trace("rank %" PRIu32 " is woken", rank);
    }
}

static void run_body(uint32_t rank) {
    engine.run.body(rank);
    engine.ranks[rank].state = DONE;
    hand_over(); /* nobody chooses it again */
}

/* Priorities in any order, and change points spread over the lengths that a run may have. */
static void draw_priorities(void) {
    const uint32_t agents = 2 * engine.run.ranks;
    for (uint32_t i = 0; i < agents; i++) {
        const uint32_t other = (uint32_t)random_below(&engine.random, i + 1);
        engine.priorities[i] = engine.priorities[other];
        engine.priorities[other] = (int64_t)i;
    }
    engine.lowest = 0;
    const uint64_t range = UINT64_C(1) << (6 + random_below(&engine.random, 7));
    const uint64_t wanted = random_below(&engine.random, CHANGES_MAX + 1);
    for (uint64_t i = 0; i < CHANGES_MAX; i++)
        engine.changes[i] = i < wanted ? 1 + random_below(&engine.random, range) : 0;
}

void sched_engine_run(const sched_run *run) {
    engine.run = *run;
    engine.random = run->seed;
    engine.policy = (sched_policy)random_below(&engine.random, SCHED_POLICIES);
    engine.problem[0] = '\0';
    engine.now_ns = 0;
    engine.death_ns = -1;
    engine.steps = engine.switches = 0;
    draw_priorities();
    memset(engine.ranks, 0, sizeof engine.ranks);
    if (fibers_create(run->ranks, run_body) != 0)
        abort();
    engine.last = (uint32_t)random_below(&engine.random, run->ranks);
    sched_trace("policy %d", (int)engine.policy);
    fiber_switch(engine.last); /* comes back when a rank leaves */
}
