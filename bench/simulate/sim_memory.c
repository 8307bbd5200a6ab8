#include "sim_memory.h"

#include <stdlib.h>
#include <string.h>

#include "sim_engine.h"
#include "sim_machine.h"
#include "team.h"

typedef struct granule {
    uint64_t domains; /* that have a copy */
    double core_mark; /* bytes that had passed through the toucher's L2, and its L3, when it touched this */
    double domain_mark;
    uint16_t toucher; /* core, from 1; 0: nobody, as in memory that calloc gives */
    bool dirty;
} granule;

/* Something shared: it passes bytes one after another. */
typedef struct channel {
    double free_ns;
    double gbps;
} channel;

/* Where a block is found. */
typedef enum level { LEVEL_L2, LEVEL_L3, LEVEL_OTHER, LEVEL_MEMORY } level;

static struct {
    const sim_machine *machine;
    uint32_t ranks;
    size_t granule_bytes;
    granule *granules[TEAM_PARTS];    /* of slots, send and recv */
    double core_bytes[SIM_CORES_MAX]; /* passed through each core's L2, and each domain's L3 */
    double domain_bytes[SIM_DOMAINS_MAX];
    channel domain_out[SIM_DOMAINS_MAX], domain_in[SIM_DOMAINS_MAX];
    channel node[SIM_DOMAINS_MAX];
    channel link_out[SIM_DOMAINS_MAX], link_in[SIM_DOMAINS_MAX]; /* of a socket */
} memory;

int sim_memory_create(const sim_machine *machine, uint32_t ranks, size_t granule_bytes) {
    memset(&memory, 0, sizeof memory);
    memory.machine = machine;
    memory.ranks = ranks;
    memory.granule_bytes = granule_bytes;
    for (int i = 0; i < SIM_DOMAINS_MAX; i++) {
        memory.domain_out[i].gbps = memory.domain_in[i].gbps = machine->domain_gbps;
        memory.link_out[i].gbps = memory.link_in[i].gbps = machine->link_gbps;
        memory.node[i].gbps = machine->node_gbps;
    }
    for (int part = TEAM_SLOTS; part <= TEAM_RECV; part++) {
        const size_t bytes = ranks * (part == TEAM_SLOTS ? sim_lanes() : 1) * team_piece_bytes((team_part)part);
        memory.granules[part] = calloc(bytes / granule_bytes, sizeof **memory.granules);
        if (memory.granules[part] == NULL)
            return -1;
    }
    return 0;
}

void sim_memory_destroy(void) {
    for (int part = TEAM_SLOTS; part <= TEAM_RECV; part++) {
        free(memory.granules[part]);
        memory.granules[part] = NULL;
    }
}

/* False: the address is not of a slot or a buffer. */
static bool find_place(const void *address, team_place *place) {
    return team_find(address, place) && place->part >= TEAM_SLOTS;
}

bool sim_memory_fits(const void *address, size_t bytes) {
    team_place place;
    return !find_place(address, &place) || bytes <= team_piece_bytes(place.part) - place.offset;
}

static granule *granule_at(const team_place *place, size_t offset) {
    offset += ((size_t)place->lane * memory.ranks + place->rank) * team_piece_bytes(place->part);
    return &memory.granules[place->part][offset / memory.granule_bytes];
}

/* The core that touched a place first. The thread that makes a communicator touches its rank's slots in all lanes; of a
 * buffer each lane has touched its slice. */
static uint32_t home_of(const team_place *place, size_t offset) {
    const size_t lane = place->part == TEAM_SLOTS ? 0 : offset * sim_lanes() / team_piece_bytes(place->part);
    return sim_lane_core(place->rank, (uint32_t)lane);
}

static uint32_t toucher_of(const granule *block) {
    return block->toucher - 1u;
}

static level find(const granule *block, uint32_t core) {
    const sim_machine *machine = memory.machine;
    if (block->toucher == 0)
        return LEVEL_MEMORY;
    const uint32_t toucher = toucher_of(block), domain = sim_machine_domain(machine, core);
    const uint32_t toucher_domain = sim_machine_domain(machine, toucher);
    const double core_passed = memory.core_bytes[toucher] - block->core_mark;
    const double domain_passed = memory.domain_bytes[toucher_domain] - block->domain_mark;
    if (core_passed > machine->l2_bytes && domain_passed > machine->l3_bytes)
        return LEVEL_MEMORY;
    if (toucher == core)
        return core_passed <= machine->l2_bytes ? LEVEL_L2 : LEVEL_L3;
    if (toucher_domain == domain && core_passed > machine->l2_bytes)
        return LEVEL_L3;
    return toucher_domain != domain && (block->domains >> domain & 1) ? LEVEL_L3 : LEVEL_OTHER;
}

static void pass(channel *channel, double bytes, double *shared_end_ns) {
    const double now_ns = sim_now_ns();
    if (channel->free_ns < now_ns)
        channel->free_ns = now_ns;
    channel->free_ns += bytes / channel->gbps;
    if (channel->free_ns > *shared_end_ns)
        *shared_end_ns = channel->free_ns;
}

static void cross_sockets(uint32_t from_core, uint32_t to_core, double bytes, double *shared_end_ns) {
    const uint32_t from = sim_machine_socket(memory.machine, from_core);
    const uint32_t to = sim_machine_socket(memory.machine, to_core);
    if (from == to)
        return;
    pass(&memory.link_out[from], bytes, shared_end_ns);
    pass(&memory.link_in[to], bytes, shared_end_ns);
}

/* `bytes` go from one domain to another. */
static void cross(uint32_t from_core, uint32_t to_core, double bytes, double *shared_end_ns) {
    const uint32_t from = sim_machine_domain(memory.machine, from_core);
    const uint32_t to = sim_machine_domain(memory.machine, to_core);
    if (from == to)
        return;
    pass(&memory.domain_out[from], bytes, shared_end_ns);
    pass(&memory.domain_in[to], bytes, shared_end_ns);
    cross_sockets(from_core, to_core, bytes, shared_end_ns);
}

/* Between memory that `home` touched first and a core. */
static void cross_memory(uint32_t home, uint32_t core, bool inward, double bytes, double *shared_end_ns) {
    const uint32_t domain = sim_machine_domain(memory.machine, core);
    pass(&memory.node[sim_machine_node(memory.machine, home)], bytes, shared_end_ns);
    pass(inward ? &memory.domain_in[domain] : &memory.domain_out[domain], bytes, shared_end_ns);
    cross_sockets(inward ? home : core, inward ? core : home, bytes, shared_end_ns);
}

/* Gets a block to `core`'s L2: the core's time for it. */
static double fetch(const granule *block, uint32_t home, uint32_t core, double bytes, double *shared_end_ns) {
    const sim_machine *machine = memory.machine;
    switch (find(block, core)) {
    case LEVEL_L2:
        return bytes / machine->l2_gbps;
    case LEVEL_L3:
        return bytes / machine->l3_gbps;
    case LEVEL_OTHER:
        cross(toucher_of(block), core, bytes, shared_end_ns);
        return bytes / machine->share_gbps[sim_machine_distance(machine, toucher_of(block), core)];
    case LEVEL_MEMORY:
        break;
    }
    cross_memory(home, core, true, bytes, shared_end_ns);
    double ns = bytes / machine->read_gbps;
    if (block->dirty) { /* and it has gone there at somebody's cost since */
        cross_memory(home, core, false, bytes, shared_end_ns);
        ns += bytes / machine->write_back_gbps;
    }
    return ns;
}

static void touch(granule *block, uint32_t core, double bytes) {
    const uint32_t domain = sim_machine_domain(memory.machine, core);
    const level found = find(block, core);
    if (found != LEVEL_L2)
        memory.core_bytes[core] += bytes;
    if (found == LEVEL_MEMORY || (found == LEVEL_OTHER && !(block->domains >> domain & 1)))
        memory.domain_bytes[domain] += bytes;
    if (found == LEVEL_MEMORY) {
        block->domains = 0;
        block->dirty = false;
    }
    block->toucher = (uint16_t)(core + 1);
    block->core_mark = memory.core_bytes[core];
    block->domain_mark = memory.domain_bytes[domain];
    block->domains |= UINT64_C(1) << domain;
}

static double access_block(granule *block, sim_access access, uint32_t home, double bytes, double *shared_end_ns) {
    const uint32_t core = sim_core();
    if (access == SIM_STREAM) {
        cross_memory(home, core, false, bytes, shared_end_ns);
        *block = (granule){0};
        return bytes / memory.machine->stream_gbps;
    }
    const double ns = fetch(block, home, core, bytes, shared_end_ns);
    touch(block, core, bytes);
    if (access == SIM_WRITE) {
        block->domains = UINT64_C(1) << sim_machine_domain(memory.machine, core);
        block->dirty = true;
    }
    return ns;
}

double sim_memory_access(sim_access access, const void *address, size_t bytes, double *shared_end_ns) {
    team_place place;
    double ns = 0;
    if (!find_place(address, &place)) /* a scratch buffer of the core's own */
        return (double)bytes / memory.machine->l2_gbps;
    const size_t end = place.offset + bytes;
    for (size_t offset = place.offset; offset < end;) {
        const size_t block_end = (offset / memory.granule_bytes + 1) * memory.granule_bytes;
        const size_t part = (block_end < end ? block_end : end) - offset;
        ns += access_block(granule_at(&place, offset), access, home_of(&place, offset), (double)part, shared_end_ns);
        offset += part;
    }
    return ns;
}

double sim_memory_latency_ns(const void *address) {
    const sim_machine *machine = memory.machine;
    const uint32_t core = sim_core();
    team_place place;
    if (!find_place(address, &place))
        return 0;
    const granule *block = granule_at(&place, place.offset);
    const level found = find(block, core);
    if (found == LEVEL_OTHER)
        return machine->hop_ns[sim_machine_distance(machine, toucher_of(block), core)];
    return found == LEVEL_MEMORY ? machine->hop_ns[sim_machine_distance(machine, home_of(&place, place.offset), core)]
                                 : 0;
}

void sim_memory_age(double times) {
    for (uint32_t core = 0; core < sim_machine_cores(memory.machine); core++)
        memory.core_bytes[core] += times * memory.core_bytes[core];
    for (uint32_t domain = 0; domain < sim_machine_domains(memory.machine); domain++)
        memory.domain_bytes[domain] += times * memory.domain_bytes[domain];
}
