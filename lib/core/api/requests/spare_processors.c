/* Finds the processors that the ranks leave free, and moves a thread there. */
#include "api/requests/spare_processors.h"

#include <string.h>

#include "cpu/limits/quota.h"
#include "cpu/spare.h"

/* A quota for no more processors than there are ranks leaves nothing for their threads, however many the machine
 * has. */
static bool has_quota_left(uint32_t ranks) {
    const uint32_t millicpus = kolo_quota_read();
    return millicpus == 0 || millicpus > 1000 * ranks;
}

bool kolo_spare_processors_take(const kolo_comm *comm) {
    const kolo_cpu_set *rank_cpus[KOLO_RANKS_MAX];
    kolo_cpu_set own, permitted, spare, all;
    kolo_topology topology;
    kolo_cpu_set_allowed(&own);
    memset(&all, 0xff, sizeof all);
    if (!kolo_cpu_set_bind(&all))
        return false;
    kolo_cpu_set_allowed(&permitted);
    all = permitted;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        rank_cpus[rank] = comm->segment.header ? &comm->segment.members[rank].cpus : &own;
        kolo_cpu_set_merge(&all, rank_cpus[rank]);
    }
    kolo_topology_read(&topology, &all);
    kolo_spare_choose(&spare, &topology, &permitted, rank_cpus, comm->size, comm->rank);
    if (kolo_cpu_set_count(&spare) > 0 && kolo_cpu_set_bind(&spare))
        return has_quota_left(comm->size);
    kolo_cpu_set_bind(&own);
    return kolo_cpu_set_count(&all) > comm->size && has_quota_left(comm->size);
}
