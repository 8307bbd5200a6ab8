/* SPDX-License-Identifier: Apache-2.0
 */
#include "sim_team.h"

#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "plan/tuning.h"
#include "sim_memory.h"
#include "sim_reduce.h"

static struct {
    uint32_t ranks;
    kolo_algorithm algorithm;
    kolo_comm *comms;
    struct kolo_token token;
    void *flags; /* a segment without its slots */
    size_t flags_bytes;
} team;

/* What the library would read of the machine, with rank r on core r. */
static void fill_topology(kolo_topology *topology, const sim_machine *machine, uint32_t ranks) {
    *topology = (kolo_topology){.cpus_online = sim_machine_cores(machine),
                                .numa_nodes = sim_machine_node(machine, sim_machine_cores(machine) - 1) + 1,
                                .l3_domains = sim_machine_domain(machine, ranks - 1) + 1,
                                .nodes = sim_machine_node(machine, ranks - 1) + 1,
                                .packages = sim_machine_socket(machine, ranks - 1) + 1,
                                .cores = ranks,
                                .l2_bytes = (uint64_t)machine->l2_bytes,
                                .l3_bytes = (uint64_t)machine->l3_bytes};
    for (uint32_t core = 0; core < KOLO_CPUS_MAX; core++) {
        const bool used = core < ranks;
        if (used)
            kolo_cpu_set_add(&topology->allowed, core);
        topology->l3_of[core] = used ? (uint16_t)sim_machine_domain(machine, core) : KOLO_CPU_NOWHERE;
        topology->node_of[core] = used ? (uint16_t)sim_machine_node(machine, core) : KOLO_CPU_NOWHERE;
        topology->package_of[core] = used ? (uint16_t)sim_machine_socket(machine, core) : KOLO_CPU_NOWHERE;
        topology->core_of[core] = used ? (uint16_t)core : KOLO_CPU_NOWHERE;
    }
}

void sim_team_settings(struct kolo_shared_settings *settings, const sim_case *asked, size_t slot_bytes) {
    static kolo_cpu_set sets[KOLO_CPUS_MAX];
    static const kolo_cpu_set *rank_cpus[KOLO_CPUS_MAX];
    kolo_topology topology;
    fill_topology(&topology, asked->machine, asked->ranks);
    for (uint32_t rank = 0; rank < asked->ranks; rank++) {
        sets[rank] = (kolo_cpu_set){{0}};
        kolo_cpu_set_add(&sets[rank], rank);
        rank_cpus[rank] = &sets[rank];
    }
    kolo_tuning_default(settings, asked->algorithm, slot_bytes, asked->ranks, &topology, rank_cpus);
}

static int fill_comm(kolo_comm *comm, uint32_t rank, const struct kolo_shared_settings *settings, size_t slot_bytes) {
    const size_t unpacked_bytes = team.ranks * sizeof(struct kolo_shared_lines) / 2;
    comm->rank = rank;
    comm->size = team.ranks;
    comm->global_rank = rank;
    comm->global_size = team.ranks;
    comm->token = &team.token;
    comm->reducer = sim_reducer();
    kolo_segment_view(&comm->segment, team.flags, team.ranks, slot_bytes, false);
    comm->signal = &comm->segment.signals[rank];
    comm->history = &comm->segment.histories[rank];
    comm->settings = *settings;
    comm->lines_bytes_end = kolo_plan_lines_bytes_end(settings);
    comm->peer_steps = calloc(team.ranks, sizeof *comm->peer_steps);
    comm->sources = calloc(team.ranks, sizeof *comm->sources);
    comm->targets = calloc(team.ranks, sizeof *comm->targets);
    comm->unpacked = aligned_alloc(KOLO_LINE_BYTES, unpacked_bytes);
    comm->stage = aligned_alloc(KOLO_PAGE_BYTES, KOLO_STREAMED_PIECE_BYTES);
    if (!comm->peer_steps || !comm->sources || !comm->targets || !comm->unpacked || !comm->stage)
        return -1;
    memset(comm->unpacked, 0, unpacked_bytes);
    return 0;
}

int sim_team_create(const sim_case *asked, const struct kolo_shared_settings *settings, size_t slot_bytes) {
    const struct kolo_layout layout = kolo_layout_compute(asked->ranks, slot_bytes, false);
    team.ranks = asked->ranks;
    team.algorithm = asked->algorithm;
    team.token = (struct kolo_token){.usable = true, .ours = true};
    team.flags_bytes = layout.slots;
    team.comms = calloc(team.ranks, sizeof *team.comms);
    team.flags = aligned_alloc(KOLO_PAGE_BYTES, team.flags_bytes);
    int rc = team.comms != NULL && team.flags != NULL ? 0 : -1;
    if (rc == 0)
        memset(team.flags, 0, team.flags_bytes);
    for (uint32_t rank = 0; rc == 0 && rank < team.ranks; rank++)
        rc = fill_comm(&team.comms[rank], rank, settings, slot_bytes);
    if (rc != 0) {
        sim_team_destroy();
        return rc;
    }
    struct kolo_shared_header *header = team.comms[0].segment.header;
    header->ranks = team.ranks;
    header->slot_bytes = slot_bytes;
    header->settings = *settings;
    return 0;
}

/* The reserved send and recv buffers, as if two calls of kolo_alloc had made them. */
static int add_regions(struct kolo_heap *heap) {
    for (int area = SIM_SEND; area <= SIM_RECV; area++) {
        struct kolo_region region = {.base = sim_memory_area((sim_area)area, 0), .parts = team.ranks};
        region.part_bytes = (size_t)(sim_memory_area((sim_area)area, 1) - region.base);
        if (kolo_heap_reserve(heap) < 0)
            return -1;
        kolo_heap_add(heap, &region);
    }
    return 0;
}

int sim_team_attach(void) {
    for (uint32_t rank = 0; rank < team.ranks; rank++) {
        kolo_comm *comm = &team.comms[rank];
        comm->segment.slots = sim_memory_area(SIM_SLOTS, 0);
        if (team.algorithm == KOLO_ALGORITHM_DIRECT && add_regions(&comm->heap) != 0)
            return -1;
    }
    return 0;
}

void sim_team_destroy(void) {
    for (uint32_t rank = 0; team.comms != NULL && rank < team.ranks; rank++) {
        kolo_comm *comm = &team.comms[rank];
        free(comm->peer_steps);
        free(comm->sources);
        free(comm->targets);
        free(comm->unpacked);
        free(comm->stage);
        free(comm->heap.regions);
    }
    free(team.comms);
    free(team.flags);
    team.comms = NULL;
    team.flags = NULL;
}

kolo_comm *sim_team_comm(uint32_t rank) {
    return &team.comms[rank];
}

const void *sim_team_flags(size_t *bytes) {
    *bytes = team.flags_bytes;
    return team.flags;
}
