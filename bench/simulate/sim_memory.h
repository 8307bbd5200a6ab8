/* Bulk data: how long a core takes to read and write blocks, by where they lie. No byte is moved.
 *
 * Every block of memory remembers which core touched it last, whether it was changed, which L3 domains have a copy, and
 * how much had passed through that core's and that domain's caches by then. What has passed since says whether it still
 * is in the L2, in the L3, or only in memory. A core's own rate for that place gives the time; in addition a transfer
 * occupies what it shares with others (a domain's way out, a node's memory, a socket's link) for bytes / rate, first
 * come, first served. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_machine.h"

/* Of the team's slots, in all lanes, and buffers. Blocks are granule_bytes, a power of two. 0, or -1 if there is no
 * memory. */
int sim_memory_create(const sim_machine *machine, uint32_t ranks, size_t granule_bytes);
void sim_memory_destroy(void);

/* False if the bytes begin in a rank's slots or in a buffer and leave them. */
bool sim_memory_fits(const void *address, size_t bytes);

typedef enum sim_access { SIM_READ, SIM_WRITE, SIM_STREAM } sim_access;

/* The running thread's core reads or writes `bytes` from `address` on, or stores them past the caches: the ns that it
 * takes the core itself. What is shared with others moves *shared_end_ns. Other addresses are taken to be in its L2. */
double sim_memory_access(sim_access access, const void *address, size_t bytes, double *shared_end_ns);

/* Latency of the first line of a block, before its bytes stream in. */
double sim_memory_latency_ns(const void *address);

/* Ages all caches as if what has passed through them so far had passed `times` times more. */
void sim_memory_age(double times);
