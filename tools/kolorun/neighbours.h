/* Other jobs on this machine, and the CPUs that their ranks are bound to.
 *
 * Nothing is registered anywhere: what /proc tells of other kolorun processes and of their children is the truth at
 * that moment, whoever has ended and however. A lock on the folder /proc, which the kernel drops with the processes
 * that have it, keeps two kolorun from choosing at the same time. */
#ifndef KOLORUN_NEIGHBOURS_H
#define KOLORUN_NEIGHBOURS_H

#include <sys/types.h>

#include "cpu/topology.h"

/* Waits until no other kolorun is between choosing CPUs and having its ranks bound, but no longer than two seconds:
 * then it goes on without. Returns a descriptor that holds the lock, or -1. Forked children hold it too, until they
 * call exec: it is free when the caller has closed it and all of them run their program. */
int neighbours_lock(void);

/* Sets *held to the CPUs of all ranks of other kolorun processes that `proc`, a folder such as /proc, shows. Those
 * above process `self` do not count: their ranks are what `self` runs in. A rank that may run on all of `allowed` holds
 * nothing. */
void neighbours_cpus(kolo_cpu_set *held, const kolo_cpu_set *allowed, const char *proc, pid_t self);

#endif
