#include "algo/tuning.h"

#include "algo/plan.h"
#include "cpu/topology.h"

void kolo_tuning_default(struct kolo_shared_settings *settings, kolo_algorithm algorithm, uint32_t ranks,
                         size_t slot_bytes, const kolo_topology *topology) {
    /* One shot makes every rank read N - 1 messages and fold N; mesh has each byte cross twice, with a step more
     * between: the more ranks, the sooner mesh wins. With two ranks they meet at about an eighth of L2, with ranks that
     * share an L3 cache and with ranks that do not. */
    const uint64_t l2_bytes = topology->l2_bytes ? topology->l2_bytes : UINT64_C(1) << 20;
    const uint64_t oneshot_bytes_max = l2_bytes / (2 * (uint64_t)ranks * ranks);
    *settings = (struct kolo_shared_settings){
        .algorithm = (uint32_t)algorithm,
        .bands = 2,
        .direct_bytes_min = 1024,
        .stream_bytes_min = topology->l3_bytes ? topology->l3_bytes / (2 * ranks) : UINT64_MAX,
        .band = {{.bytes_max = oneshot_bytes_max < KOLO_LINES_BYTES_MAX ? KOLO_LINES_BYTES_MAX : oneshot_bytes_max,
                  .algorithm = KOLO_ONESHOT,
                  .chunk_bytes = (uint32_t)slot_bytes},
                 {.bytes_max = UINT64_MAX, .algorithm = KOLO_MESH, .chunk_bytes = (uint32_t)slot_bytes}},
    };
}

void kolo_tuning_decide(kolo_comm *comm, const struct kolo_settings *settings) {
    kolo_topology topology;
    kolo_cpu_set allowed;
    kolo_cpu_set_allowed(&allowed);
    kolo_topology_read(&topology, &allowed);
    kolo_tuning_default(&comm->segment.header->settings, settings->algorithm, comm->size, settings->slot_bytes,
                        &topology);
}
