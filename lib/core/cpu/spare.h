/* Spare CPUs: those that no rank uses, for a thread that works beside a rank. */
#pragma once

#include "cpu/topology.h"

/* Fills *spare with CPUs of `permitted` for a thread of `rank`, where rank r runs on rank_cpus[r]: the nearest CPUs
 * that no rank uses, with room for a thread of each rank that runs there. Cores of which no rank uses any CPU come
 * before hardware threads beside a rank's. Without such room *spare becomes all CPUs that no rank uses; it is empty if
 * there are none. `topology` is that of all these CPUs. */
void kolo_spare_choose(kolo_cpu_set *spare, const kolo_topology *topology, const kolo_cpu_set *permitted,
                       const kolo_cpu_set *const *rank_cpus, uint32_t ranks, uint32_t rank);

/* Moves the calling thread, which may run on `own`, to such CPUs, if the machine has any and the control group allows
 * them. Returns whether there is a CPU for the thread, including those that ranks may use but do not need. */
bool kolo_spare_take(const kolo_cpu_set *own, const kolo_cpu_set *const *rank_cpus, uint32_t ranks, uint32_t rank);
