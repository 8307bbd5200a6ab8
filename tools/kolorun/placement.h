/* Which CPUs each rank of a job gets: a pure function of the machine and of the number of ranks.
 *
 * With no more ranks than cores each rank gets whole cores, all of their hardware threads, and no two ranks share one.
 * Ranks are spread over packages, then NUMA nodes, then L3 domains. Where there are at least as many ranks as such
 * parts, each rank stays within one of them; the ranks go to the parts in a way that makes the smallest number of cores
 * per rank as large as it can be. Where there are fewer ranks than parts, each rank gets whole parts, neighbours, with
 * about the same number of cores. Consecutive ranks are close to each other. */
#ifndef KOLORUN_PLACEMENT_H
#define KOLORUN_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/topology.h"

/* Sets *open to those of the topology's CPUs that no other job holds. A core is held as a whole. Where the ranks do not
 * fit there, all of the topology's CPUs are open. */
void placement_open(kolo_cpu_set *open, const kolo_topology *topology, const kolo_cpu_set *held, uint32_t ranks);

/* Divides the cores of `open`, some of the topology's CPUs, among the ranks, as told above. `single`, or where ranks
 * outnumber cores: gives each rank one CPU, a hardware thread of every core first, then the second threads, and so on.
 * False, and nothing is set, where ranks outnumber the open CPUs. */
bool placement_choose(kolo_cpu_set *rank_cpus, uint32_t ranks, bool single, const kolo_topology *topology,
                      const kolo_cpu_set *open);

#endif
