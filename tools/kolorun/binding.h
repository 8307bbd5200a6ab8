/* Binding the ranks to CPUs: which ones each gets, by which rules, and beside which other jobs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpu/topology.h"

enum bind_mode {
    BIND_AUTO, /* divide the CPUs among the ranks; none if there are more ranks */
    BIND_CORE, /* one CPU each */
    BIND_NONE
};

struct binding {
    kolo_cpu_set *ranks; /* the CPUs of each rank; NULL: the ranks are not bound */
    uint32_t cpus;       /* how many CPUs this process may use */
    int lock_fd;         /* keeps other jobs from choosing CPUs; -1: none */
};

/* Chooses CPUs for the ranks. Returns 0, -ERANGE if with BIND_CORE they are more than the CPUs, or -ENOMEM. */
int binding_choose(struct binding *binding, int ranks, enum bind_mode mode);

/* To be called when all ranks have been started: lets other jobs choose as soon as these ranks are bound. */
void binding_settle(struct binding *binding);

void binding_close(struct binding *binding);

/* Binds the calling process. Returns 0 or a negative errno. */
int binding_apply(const kolo_cpu_set *cpus);

/* Prints what a rank is bound to, or where it may run; NULL: wherever kolorun may. `number` counts on all machines. */
void binding_report(const kolo_cpu_set *cpus, int number, pid_t pid);

/* Which CPUs each rank of a job gets: a pure function of the machine and of the number of ranks.
 *
 * With no more ranks than cores each rank gets whole cores, all of their hardware threads, and no two ranks share one.
 * Ranks are spread over packages, then NUMA nodes, then L3 domains. Where there are at least as many ranks as such
 * parts, each rank stays within one of them; the ranks go to the parts in a way that makes the smallest number of cores
 * per rank as large as it can be. Where there are fewer ranks than parts, each rank gets whole parts, neighbours, with
 * about the same number of cores. Consecutive ranks are close to each other. */

/* Sets *open to those of the topology's CPUs that no other job holds. A core is held as a whole. Where the ranks do not
 * fit there, all of the topology's CPUs are open. */
void placement_open(kolo_cpu_set *open, const kolo_topology *topology, const kolo_cpu_set *held, uint32_t ranks);

/* Divides the cores of `open`, some of the topology's CPUs, among the ranks, as told above. `single`, or where ranks
 * outnumber cores: gives each rank one CPU, a hardware thread of every core first, then the second threads, and so on.
 * False, and nothing is set, where ranks outnumber the open CPUs. */
bool placement_choose(kolo_cpu_set *rank_cpus, uint32_t ranks, bool single, const kolo_topology *topology,
                      const kolo_cpu_set *open);

/* Other jobs on this machine, and the CPUs that their ranks are bound to.
 *
 * Nothing is registered anywhere: what /proc tells of other kolorun processes and of their children is the truth at
 * that moment, whoever has ended and however. A lock on the folder /proc, which the kernel drops with the processes
 * that have it, keeps two kolorun from choosing at the same time. */

/* Waits until no other kolorun is between choosing CPUs and having its ranks bound, but no longer than two seconds:
 * then it goes on without. Returns a descriptor that holds the lock, or -1. Forked children hold it too, until they
 * call exec: it is free when the caller has closed it and all of them run their program. */
int neighbours_lock(void);

/* Sets *held to the CPUs of all ranks of other kolorun processes that `proc`, a folder such as /proc, shows. Those
 * above process `self` do not count: their ranks are what `self` runs in. A rank that may run on all of `allowed` holds
 * nothing. */
void neighbours_cpus(kolo_cpu_set *held, const kolo_cpu_set *allowed, const char *proc, pid_t self);
