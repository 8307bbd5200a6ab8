/* Where the threads of a job run. A rank has one thread, or one for each of its lanes (kolo_lanes.h); the threads of
 * all ranks are numbered through, rank by rank, as the engine knows them. */
#ifndef SIM_PLACES_H
#define SIM_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "sim_machine.h"

/* lanes 0: ranks have one thread, and rank r runs on core r. Else every rank has an equal part of the machine's cores,
 * one after the other, over which its lanes are spread evenly. There are as many cores in it as lanes, or more. */
void sim_places_set(const sim_machine *machine, uint32_t ranks, uint32_t lanes);

/* How many there are of all ranks, and of one. */
uint32_t sim_threads(void);
uint32_t sim_lanes(void);

uint32_t sim_rank_of(uint32_t thread);
uint32_t sim_lane_of(uint32_t thread);
uint32_t sim_core_of(uint32_t thread);

/* The core of a rank's lane, and the first of the cores that a rank has, which ends where the next one's begin. */
uint32_t sim_lane_core(uint32_t rank, uint32_t lane);
uint32_t sim_rank_core(uint32_t rank);

/* The running thread's. */
uint32_t sim_rank(void);
uint32_t sim_core(void);

/* "rank 3", or "lane 2 of rank 3". */
enum { SIM_NAME_BYTES = 40 };
void sim_thread_name(uint32_t thread, char *text, size_t text_bytes);

#endif
