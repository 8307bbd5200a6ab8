/* Which CPUs no rank uses: for a thread that works beside a rank. */
#ifndef KOLO_CPU_SPARE_H
#define KOLO_CPU_SPARE_H

#include "cpu/topology.h"

/* Fills *spare with CPUs of `permitted` for a thread of `rank`, where rank r runs on rank_cpus[r]: the nearest that no
 * rank uses, with room for a thread of each rank there. Cores of which no rank uses any CPU go before hardware threads
 * beside a rank's. Where there is no such room, all that no rank uses; empty where there are none. `topology` is that
 * of all these CPUs. */
void kolo_spare_choose(kolo_cpu_set *spare, const kolo_topology *topology, const kolo_cpu_set *permitted,
                       const kolo_cpu_set *const *rank_cpus, uint32_t ranks, uint32_t rank);

#endif
