/* Discrete events: every thread is a fiber with a clock of its own, and the one whose clock is earliest runs.
 *
 * A thread spends time (sim_spend) and then, before it touches what others touch too, takes its turn (sim_turn): it
 * goes on once no other thread that can run has an earlier clock; equal clocks go by thread. So accesses happen in the
 * order of their times, and the same input gives the same output. Nothing here knows of machines or messages. One
 * simulation at a time, in one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SIM_THREADS_MAX = 1024 };

typedef enum sim_state { SIM_READY, SIM_BLOCKED, SIM_MEETING, SIM_DONE } sim_state;

typedef enum sim_end {
    SIM_END_ALL,      /* all threads have returned */
    SIM_END_DEADLOCK, /* none can run, and not all have returned */
    SIM_END_ENDLESS,  /* events_max turns were not enough */
    SIM_END_NO_MEMORY
} sim_end;

/* Runs body(thread) of all threads to the end, or to events_max turns. A noise_seed other than 0 disturbs them, always
 * in the same way: some are slower than others, and all pause now and then, so that they come in orders in which
 * threads of equal speed never do. */
sim_end sim_engine_run(uint32_t threads, void (*body)(uint32_t thread), uint64_t events_max, uint64_t noise_seed);

uint64_t sim_engine_events(void);
sim_state sim_engine_state(uint32_t thread);

/* In a fiber: the running thread. */

uint32_t sim_self(void);
double sim_now_ns(void);
void sim_spend(double ns);
void sim_spend_until(double at_ns);
void sim_turn(void);

/* Work that takes `ns` at full speed; and a point at which the thread may pause. */
void sim_work(double ns);
void sim_pause(void);

/* Stops the thread until another one wakes it. */
void sim_block(void);

/* Makes a blocked thread go on at `at_ns`, or at its own clock if that is later. */
void sim_wake(uint32_t thread, double at_ns);

/* All threads meet here at no cost and go on at the latest one's clock. Those that have returned are not waited for. */
void sim_meet(void);
