/* SPDX-License-Identifier: Apache-2.0
 */
#include "sim_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "sim_engine.h"

/* Slots follow one another without gaps; a part of a buffer becomes real page by page, whatever a page's size is. */
enum { SLOTS_UNIT_BYTES = 4096, BUFFER_UNIT_BYTES = 65536 };

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
    size_t area_bytes[SIM_AREAS]; /* of one rank */
    uint8_t *base[SIM_AREAS];
    granule *granules[SIM_AREAS];
    size_t granule_bytes;
    size_t real_bytes;
    double *core_bytes; /* passed through each core's L2, and each domain's L3 */
    double *domain_bytes;
    channel *domain_out; /* [domain], [domain], [node], [socket], [socket] */
    channel *domain_in;
    channel *node;
    channel *link_out;
    channel *link_in;
} memory;

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static channel *channels(uint32_t count, double gbps) {
    channel *made = calloc(count, sizeof *made);
    for (uint32_t i = 0; made != NULL && i < count; i++)
        made[i].gbps = gbps;
    return made;
}

static int reserve(sim_area area, size_t bytes, size_t real_bytes) {
    memory.area_bytes[area] = round_up(bytes, area == SIM_SLOTS ? SLOTS_UNIT_BYTES : BUFFER_UNIT_BYTES);
    const size_t all_bytes = memory.area_bytes[area] * memory.ranks;
    uint8_t *base = mmap(NULL, all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory.base[area] = base == MAP_FAILED ? NULL : base;
    if (memory.base[area] == NULL)
        return -1;
    for (uint32_t rank = 0; real_bytes > 0 && rank < memory.ranks; rank++) {
        if (mprotect(base + rank * memory.area_bytes[area], real_bytes, PROT_READ | PROT_WRITE) != 0)
            return -1;
    }
    const size_t count = all_bytes / memory.granule_bytes;
    memory.granules[area] = calloc(count, sizeof **memory.granules);
    return memory.granules[area] != NULL ? 0 : -1;
}

int sim_memory_create(const sim_machine *machine, uint32_t ranks, size_t slots_bytes, size_t buffer_bytes,
                      size_t real_bytes, size_t granule_bytes) {
    const uint32_t domains = sim_machine_domains(machine), cores = sim_machine_cores(machine);
    const uint32_t sockets = (uint32_t)machine->sockets;
    memory.machine = machine;
    memory.ranks = ranks;
    memory.granule_bytes = granule_bytes;
    memory.core_bytes = calloc(cores, sizeof(double));
    memory.domain_bytes = calloc(domains, sizeof(double));
    memory.domain_out = channels(domains, machine->domain_gbps);
    memory.domain_in = channels(domains, machine->domain_gbps);
    memory.node = channels((uint32_t)(machine->sockets * machine->nodes), machine->node_gbps);
    memory.link_out = channels(sockets, machine->link_gbps);
    memory.link_in = channels(sockets, machine->link_gbps);
    real_bytes = round_up(real_bytes, BUFFER_UNIT_BYTES);
    memory.real_bytes = real_bytes;
    if (buffer_bytes < real_bytes)
        buffer_bytes = real_bytes;
    if (memory.core_bytes && memory.domain_bytes && memory.domain_out && memory.domain_in && memory.node &&
        memory.link_out && memory.link_in && reserve(SIM_SLOTS, slots_bytes, 0) == 0 &&
        reserve(SIM_SEND, buffer_bytes, real_bytes) == 0 && reserve(SIM_RECV, buffer_bytes, real_bytes) == 0)
        return 0;
    sim_memory_destroy();
    return -1;
}

void sim_memory_destroy(void) {
    for (int area = 0; area < SIM_AREAS; area++) {
        if (memory.base[area] != NULL)
            munmap(memory.base[area], memory.area_bytes[area] * memory.ranks);
        free(memory.granules[area]);
        memory.base[area] = NULL;
        memory.granules[area] = NULL;
    }
    void *all[] = {memory.core_bytes, memory.domain_bytes, memory.domain_out, memory.domain_in,
                   memory.node,       memory.link_out,     memory.link_in};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    memory.core_bytes = memory.domain_bytes = NULL;
    memory.domain_out = memory.domain_in = memory.node = memory.link_out = memory.link_in = NULL;
}

uint8_t *sim_memory_area(sim_area area, uint32_t rank) {
    return memory.base[area] + rank * memory.area_bytes[area];
}

bool sim_memory_place(const void *address, sim_place *place) {
    for (int area = 0; area < SIM_AREAS; area++) {
        const size_t offset = (uintptr_t)address - (uintptr_t)memory.base[area];
        if (memory.base[area] == NULL || offset >= memory.area_bytes[area] * memory.ranks)
            continue;
        *place = (sim_place){.area = (sim_area)area,
                             .rank = (uint32_t)(offset / memory.area_bytes[area]),
                             .offset = offset % memory.area_bytes[area]};
        return true;
    }
    return false;
}

bool sim_memory_is_real(const void *address, size_t bytes) {
    sim_place place;
    if (!sim_memory_place(address, &place))
        return true;
    return place.area != SIM_SLOTS && place.offset + bytes <= memory.real_bytes;
}

bool sim_memory_fits(const void *address, size_t bytes) {
    sim_place place;
    return !sim_memory_place(address, &place) || bytes <= memory.area_bytes[place.area] - place.offset;
}

static granule *granule_at(const sim_place *place, size_t offset) {
    return &memory
                .granules[place->area][(place->rank * memory.area_bytes[place->area] + offset) / memory.granule_bytes];
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

/* `bytes` go from one domain or socket to another. */
static void cross(uint32_t from_core, uint32_t to_core, double bytes, double *shared_end_ns) {
    const sim_machine *machine = memory.machine;
    const uint32_t from = sim_machine_domain(machine, from_core), to = sim_machine_domain(machine, to_core);
    if (from == to)
        return;
    pass(&memory.domain_out[from], bytes, shared_end_ns);
    pass(&memory.domain_in[to], bytes, shared_end_ns);
    const uint32_t from_socket = sim_machine_socket(machine, from_core);
    const uint32_t to_socket = sim_machine_socket(machine, to_core);
    if (from_socket == to_socket)
        return;
    pass(&memory.link_out[from_socket], bytes, shared_end_ns);
    pass(&memory.link_in[to_socket], bytes, shared_end_ns);
}

/* Between memory that `home` touched first and a core. */
static void cross_memory(uint32_t home, uint32_t core, bool inward, double bytes, double *shared_end_ns) {
    const sim_machine *machine = memory.machine;
    const uint32_t domain = sim_machine_domain(machine, core);
    pass(&memory.node[sim_machine_node(machine, home)], bytes, shared_end_ns);
    pass(inward ? &memory.domain_in[domain] : &memory.domain_out[domain], bytes, shared_end_ns);
    const uint32_t home_socket = sim_machine_socket(machine, home), socket = sim_machine_socket(machine, core);
    if (home_socket == socket)
        return;
    pass(&memory.link_out[inward ? home_socket : socket], bytes, shared_end_ns);
    pass(&memory.link_in[inward ? socket : home_socket], bytes, shared_end_ns);
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

typedef enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_STREAM } access;

static double access_block(granule *block, access access, uint32_t home, double bytes, double *shared_end_ns) {
    const uint32_t core = sim_self();
    if (access == ACCESS_STREAM) {
        cross_memory(home, core, false, bytes, shared_end_ns);
        *block = (granule){0};
        return bytes / memory.machine->stream_gbps;
    }
    const double ns = fetch(block, home, core, bytes, shared_end_ns);
    touch(block, core, bytes);
    if (access == ACCESS_WRITE) {
        block->domains = UINT64_C(1) << sim_machine_domain(memory.machine, core);
        block->dirty = true;
    }
    return ns;
}

static double access_blocks(const void *address, size_t bytes, access access, double *shared_end_ns) {
    sim_place place;
    double ns = 0;
    if (!sim_memory_place(address, &place)) /* a scratch buffer of the core's own */
        return (double)bytes / memory.machine->l2_gbps;
    const size_t end = place.offset + bytes;
    for (size_t offset = place.offset; offset < end;) {
        const size_t block_end = (offset / memory.granule_bytes + 1) * memory.granule_bytes;
        const size_t part = (block_end < end ? block_end : end) - offset;
        ns += access_block(granule_at(&place, offset), access, place.rank, (double)part, shared_end_ns);
        offset += part;
    }
    return ns;
}

double sim_memory_read(const void *address, size_t bytes, double *shared_end_ns) {
    return access_blocks(address, bytes, ACCESS_READ, shared_end_ns);
}

double sim_memory_write(const void *address, size_t bytes, double *shared_end_ns) {
    return access_blocks(address, bytes, ACCESS_WRITE, shared_end_ns);
}

double sim_memory_stream(const void *address, size_t bytes, double *shared_end_ns) {
    return access_blocks(address, bytes, ACCESS_STREAM, shared_end_ns);
}

double sim_memory_latency_ns(const void *address) {
    const sim_machine *machine = memory.machine;
    const uint32_t core = sim_self();
    sim_place place;
    if (!sim_memory_place(address, &place))
        return 0;
    const granule *block = granule_at(&place, place.offset);
    const level found = find(block, core);
    if (found == LEVEL_OTHER)
        return machine->hop_ns[sim_machine_distance(machine, toucher_of(block), core)];
    return found == LEVEL_MEMORY ? machine->hop_ns[sim_machine_distance(machine, place.rank, core)] : 0;
}

void sim_memory_age(double times) {
    for (uint32_t core = 0; core < sim_machine_cores(memory.machine); core++)
        memory.core_bytes[core] += times * memory.core_bytes[core];
    for (uint32_t domain = 0; domain < sim_machine_domains(memory.machine); domain++)
        memory.domain_bytes[domain] += times * memory.domain_bytes[domain];
}
