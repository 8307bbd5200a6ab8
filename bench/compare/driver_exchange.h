/* How long two ranks need to exchange a cache line: what tells in which state the machine is. A virtual machine's CPUs
 * can be moved from cores that share a cache to cores that do not, which changes every library's times alike.
 *
 * Rank 0 and the first rank on another CPU each store a growing number into a line of their own and wait for the
 * other's, as kolo-perf's exchange does. The fastest of a few short batches counts: what interrupts a rank spoils one.
 */
#pragma once

#include <stdint.h>

#include "kolo.h"

typedef struct driver_exchange {
    kolo_comm *comm;
    struct perf_word *lines; /* of the two */
    uint64_t measured;       /* how often */
} driver_exchange;

/* All ranks of the communicator call it. The file is made, and has no name any more when this returns. Returns 0, or 1
 * after a line on stderr. */
int driver_exchange_open(driver_exchange *exchange, kolo_comm *comm, const char *path);

/* Likewise. *ns is set, the same on all: the time of an exchange, or 0 where all ranks are on one CPU or the two did
 * not get through a batch undisturbed in a few tries, each of which takes half a millisecond at most once both have
 * come. Returns what kolo returns. */
int driver_exchange_measure(driver_exchange *exchange, double *ns);
