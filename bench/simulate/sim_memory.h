/* Bulk data: how long a core takes to read and write blocks, by where they lie. No byte is moved.
 *
 * Every block of memory remembers which core touched it last, whether it was changed, which L3 domains have a copy, and
 * how much had passed through that core's and that domain's caches by then. What has passed since says whether it still
 * is in the L2, in the L3, or only in memory. A core's own rate for that place gives the time; in addition a transfer
 * occupies what it shares with others (a domain's way out, a node's memory, a socket's link) for bytes / rate, first
 * come, first served.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_machine.h"

typedef enum sim_area { SIM_SLOTS, SIM_SEND, SIM_RECV, SIM_AREAS } sim_area;

/* Addresses, which are reserved and fault when used, for every rank's slots, send and recv buffers. The first
 * real_bytes of each send and recv buffer are real memory. Blocks are granule_bytes, a power of two. */
int sim_memory_create(const sim_machine *machine, uint32_t ranks, size_t slots_bytes, size_t buffer_bytes,
                      size_t real_bytes, size_t granule_bytes);
void sim_memory_destroy(void);

uint8_t *sim_memory_area(sim_area area, uint32_t rank);

/* Whether an address lies in a reserved area; then which one, whose, and where in it. */
typedef struct sim_place {
    sim_area area;
    uint32_t rank;
    size_t offset;
} sim_place;

bool sim_memory_place(const void *address, sim_place *place);

/* Whether the bytes are there, to be read and written: all that is not reserved, and what is real of a buffer. */
bool sim_memory_is_real(const void *address, size_t bytes);

/* False if the bytes begin in a reserved area and leave it. */
bool sim_memory_fits(const void *address, size_t bytes);

/* The running rank's core reads or writes `bytes` from `address` on: the ns that it takes the core itself. What
 * is shared with others moves *shared_end_ns. Addresses outside the areas are taken to be in its L2. */
double sim_memory_read(const void *address, size_t bytes, double *shared_end_ns);
double sim_memory_write(const void *address, size_t bytes, double *shared_end_ns);
double sim_memory_stream(const void *address, size_t bytes, double *shared_end_ns);

/* Latency of the first line of a block, before its bytes stream in. */
double sim_memory_latency_ns(const void *address);

/* Ages all caches as if what has passed through them so far had passed `times` times more. */
void sim_memory_age(double times);

#endif
