/* How long two ranks need to exchange a cache line: what tells in which state the machine is. A virtual machine's CPUs
 * can be moved from cores that share a cache to cores that do not, which changes every library's times alike.
 *
 * Rank 0 and the first rank on another CPU each store a growing number into a line of their own and wait for the
 * other's, as kolo-perf's exchange does. The fastest of a few short batches counts: what interrupts a rank spoils one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DRIVER_EXCHANGE_H
#define DRIVER_EXCHANGE_H

#include "driver_gate.h"

/* All ranks call it. *ns is set, the same on all: the time of an exchange, or 0 where all ranks are on one CPU or the
 * two did not get through a batch undisturbed in a few tries, each of which takes half a millisecond at most once both
 * have come. Returns 0, or -1 after a line on stderr. */
int driver_exchange_measure(driver_gate *gate, double *ns);

#endif
