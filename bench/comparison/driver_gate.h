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

#include <stdint.h>

enum { DRIVER_RANKS_MAX = 1024, DRIVER_SAMPLES_MAX = 1000 };

typedef struct driver_gate {
    struct driver_gate_shared *shared;
    int rank;
    int ranks;
    int spins; /* polls before the CPU is offered to others, among them the rank that is waited for */
    uint64_t passes;
    uint64_t exchanges; /* how often they were measured (driver_exchange.h) */
} driver_gate;

/* Maps the file; `cpus` are the ranks' in all. Returns 0, or -1 after a line on stderr. */
int driver_gate_open(driver_gate *gate, const char *path, int rank, int ranks, int cpus);
void driver_gate_close(driver_gate *gate);

/* Waits for all ranks; *word becomes what rank 0 gave. Returns 0, or -1 after a line on stderr where a rank did not
 * come in time. */
int driver_gate_pass(driver_gate *gate, int *word);

/* A rank's own row of DRIVER_SAMPLES_MAX times. Between two passes only the rank itself may write it, and after the
 * second one rank 0 may read it until the third. */
double *driver_gate_samples(driver_gate *gate, int rank);

/* A rank's own number, under the same rule. */
uint64_t *driver_gate_wrong(driver_gate *gate, int rank);

/* The CPU that a rank was last seen on, under the same rule, but for all to read. */
int *driver_gate_cpu(driver_gate *gate, int rank);

/* A cache line that only that rank writes and any may read at any time; 0 at first. */
_Atomic uint64_t *driver_gate_exchange_line(driver_gate *gate, int rank);

#endif
