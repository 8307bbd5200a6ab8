#include "sim_team.h"

#include <sys/mman.h>

#include "plan/plan.h"
#include "plan/tuning.h"

/* Of each buffer; whole pages, whatever a page's size is. */
enum { UNIT = TEAM_BUFFERS_ALIGNMENT, REAL_BYTES = (KOLO_LINES_BYTES_MAX + UNIT - 1) / UNIT * UNIT };

static struct {
    uint8_t *arena; /* NULL: none */
    size_t bytes;
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
    const struct kolo_tuning_question question = {.algorithm = asked->algorithm,
                                                  .slot_bytes = slot_bytes,
                                                  .ranks = asked->ranks,
                                                  .topology = &topology,
                                                  .rank_cpus = rank_cpus};
    kolo_tuning_default(settings, &question);
}

static bool open_up(uint8_t *memory, size_t bytes) {
    return mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0;
}

int sim_team_create(const sim_case *asked, const struct kolo_shared_settings *settings, size_t slot_bytes,
                    size_t bytes) {
    const size_t more = bytes > REAL_BYTES ? bytes : REAL_BYTES;
    const team_shape shape = {.ranks = asked->ranks,
                              .slot_bytes = slot_bytes,
                              .buffer_bytes = (more + UNIT - 1) / UNIT * UNIT,
                              .settings = *settings,
                              .has_heap = asked->algorithm == KOLO_ALGORITHM_DIRECT};
    const team_layout layout = team_layout_of(&shape);
    uint8_t *arena =
        mmap(NULL, layout.begin[TEAM_PARTS], PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return -1;
    team.arena = arena;
    team.bytes = layout.begin[TEAM_PARTS];
    if (!open_up(arena, layout.begin[TEAM_SLOTS]))
        return -1;
    for (size_t begin = layout.begin[TEAM_SEND]; begin < layout.begin[TEAM_PARTS]; begin += shape.buffer_bytes)
        if (!open_up(arena + begin, REAL_BYTES))
            return -1;
    return team_create(&shape, arena);
}

void sim_team_destroy(void) {
    team_destroy();
    if (team.arena != NULL)
        munmap(team.arena, team.bytes);
    team.arena = NULL;
}

bool sim_team_is_real(const void *address, size_t bytes) {
    team_place place;
    if (!team_find(address, &place) || place.part < TEAM_SLOTS)
        return true;
    return place.part != TEAM_SLOTS && place.offset + bytes <= REAL_BYTES;
}
