/* The barrier between samples: the same code for every library, so that none is measured with its own. It lives in a
 * file that all ranks map, which exists and is empty before they start.
 *
 * Each rank counts its passes in a cache line of its own, which only it writes, and waits until every other line has
 * counted as far. What a rank stored before it counted is seen by whoever waited for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DRIVER_GATE_H
#define DRIVER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DRIVER_RANKS_MAX = 1024 };

typedef struct driver_gate {
    struct driver_gate_shared *shared;
    int rank;
    int ranks;
    int spins; /* polls before the CPU is offered to others, among them the rank that is waited for */
    uint64_t passes;
    int joins;
    uint64_t exchanges; /* how often they were measured (driver_exchange.h) */
} driver_gate;

/* Maps the file; `cpus` are the ranks' in all. Returns 0, or -1 after a line on stderr. */
int driver_gate_open(driver_gate *gate, const char *path, int rank, int ranks, int cpus);
void driver_gate_close(driver_gate *gate);

/* Waits for all ranks. Returns 0, or -1 after a line on stderr where a rank did not come in time. */
int driver_gate_pass(driver_gate *gate);

/* Each of up to PERF_SAMPLES_MAX values becomes the largest of all ranks' values, or their sum. Returns as
 * driver_gate_pass. */
int driver_gate_join(driver_gate *gate, double *values, size_t count, bool sums);

/* The CPU that a rank was last seen on. Between two passes only the rank itself may write it, and after the second one
 * all may read it until the third. */
int *driver_gate_cpu(driver_gate *gate, int rank);

/* A cache line that only that rank writes and any may read at any time; 0 at first. */
_Atomic uint64_t *driver_gate_exchange_line(driver_gate *gate, int rank);

#endif
