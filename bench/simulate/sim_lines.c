#include "sim_lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim_engine.h"
#include "sim_machine.h"
#include "team.h"

enum { LINE_BYTES = 64, CORE_WORDS = SIM_CORES_MAX / 64, HITS_MAX = 64, NOBODY = -1 };

typedef struct cache_line {
    uint64_t cores[CORE_WORDS];    /* that have a copy */
    uint64_t domains;              /* in which a core has */
    double free_ns;                /* when the writer can answer the next request */
    int32_t writer;                /* a core */
    int32_t poll_first, poll_last; /* threads that poll a word of this line, in the order in which they came */
} cache_line;

typedef struct onlooker {
    sim_poll poll;
    int32_t next;
    uint32_t hits;    /* loads in a row that found a copy */
    double settle_ns; /* when the last of the overlapping loads is there */
} onlooker;

static struct {
    const sim_machine *machine;
    const uint8_t *memory;
    size_t segment_bytes; /* of a lane */
    size_t flags_bytes;   /* those of it that are modelled */
    size_t count;
    cache_line *lines;
    double *domain_free_ns; /* [line][domain]: when the domain's copy can be passed on within it */
    uint32_t domains;
    onlooker onlookers[SIM_THREADS_MAX];
} all;

int sim_lines_create(const sim_machine *machine) {
    memset(&all, 0, sizeof all);
    all.machine = machine;
    all.memory = team_segment(0);
    all.segment_bytes = (size_t)(team_segment(1) - all.memory);
    all.flags_bytes = team_flags_bytes();
    all.count = sim_lanes() * all.flags_bytes / LINE_BYTES;
    all.domains = sim_machine_domains(machine);
    all.lines = calloc(all.count, sizeof *all.lines);
    all.domain_free_ns = calloc(all.count * all.domains, sizeof *all.domain_free_ns);
    if (all.lines == NULL || all.domain_free_ns == NULL)
        return -1;
    for (size_t i = 0; i < all.count; i++)
        all.lines[i].writer = all.lines[i].poll_first = NOBODY;
    return 0;
}

void sim_lines_destroy(void) {
    free(all.lines);
    free(all.domain_free_ns);
    all.lines = NULL;
    all.domain_free_ns = NULL;
    all.count = 0;
}

bool sim_lines_holds(const void *address) {
    const size_t offset = (uintptr_t)address - (uintptr_t)all.memory;
    return all.count > 0 && offset / all.segment_bytes < sim_lanes() && offset % all.segment_bytes < all.flags_bytes;
}

static size_t index_of(const void *word) {
    const size_t offset = (uintptr_t)word - (uintptr_t)all.memory;
    return (offset / all.segment_bytes * all.flags_bytes + offset % all.segment_bytes) / LINE_BYTES;
}

static bool has_copy(const cache_line *line, uint32_t core) {
    return line->cores[core / 64] >> core % 64 & 1;
}

/* The time at which `core`, asking at now_ns, has a copy. */
static double fetch(cache_line *line, uint32_t core, double now_ns) {
    const sim_machine *machine = all.machine;
    const uint32_t domain = sim_machine_domain(machine, core);
    double *domain_free_ns = &all.domain_free_ns[(size_t)(line - all.lines) * all.domains + domain];
    double arrival_ns;
    if (line->writer == NOBODY) {
        arrival_ns = now_ns + machine->hop_ns[SIM_DOMAIN];
    } else if (line->domains >> domain & 1) {
        const double start_ns = fmax(now_ns, *domain_free_ns);
        *domain_free_ns = start_ns + machine->turn_ns;
        arrival_ns = start_ns + machine->hop_ns[SIM_DOMAIN];
    } else {
        const double start_ns = fmax(now_ns, line->free_ns);
        line->free_ns = start_ns + machine->turn_ns;
        arrival_ns = start_ns + machine->hop_ns[sim_machine_distance(machine, core, (uint32_t)line->writer)];
        *domain_free_ns = arrival_ns;
        line->domains |= UINT64_C(1) << domain;
    }
    line->cores[core / 64] |= UINT64_C(1) << core % 64;
    return arrival_ns;
}

void sim_line_look(const void *word, bool reached) {
    const uint32_t core = sim_core();
    onlooker *me = &all.onlookers[sim_self()];
    cache_line *line = &all.lines[index_of(word)];
    sim_spend(all.machine->load_ns);
    if (has_copy(line, core)) {
        if (++me->hits % HITS_MAX == 0) /* a loop of loads must let the others go on */
            sim_turn();
        return;
    }
    me->hits = 0;
    sim_turn();
    const double arrival_ns = fetch(line, core, sim_now_ns());
    if (!reached) {
        sim_spend_until(arrival_ns);
        return;
    }
    sim_spend((arrival_ns - sim_now_ns()) / all.machine->loads_in_flight);
    me->settle_ns = fmax(me->settle_ns, arrival_ns);
}

void sim_line_settle(void) {
    sim_spend_until(all.onlookers[sim_self()].settle_ns);
}

void sim_line_stored(const void *word) {
    const uint32_t core = sim_core();
    const size_t index = index_of(word);
    cache_line *line = &all.lines[index];
    const double now_ns = sim_now_ns();
    const uint32_t domain = sim_machine_domain(all.machine, core);
    for (int i = 0; i < CORE_WORDS; i++)
        line->cores[i] = 0;
    line->cores[core / 64] = UINT64_C(1) << core % 64;
    line->domains = UINT64_C(1) << domain;
    line->writer = (int32_t)core;
    line->free_ns = all.domain_free_ns[index * all.domains + domain] = now_ns;
    int32_t *link = &line->poll_first, last = NOBODY;
    while (*link != NOBODY) {
        const int32_t thread = *link;
        onlooker *other = &all.onlookers[thread];
        const double arrival_ns = fetch(line, sim_core_of((uint32_t)thread), now_ns);
        if (*other->poll.word >= other->poll.target) {
            *link = other->next;
            other->poll.word = NULL;
            sim_wake((uint32_t)thread, arrival_ns);
        } else {
            last = thread;
            link = &other->next;
        }
    }
    line->poll_last = last;
}

void sim_line_poll(const uint64_t *word, uint64_t target) {
    const uint32_t self = sim_self();
    cache_line *line = &all.lines[index_of(word)];
    onlooker *me = &all.onlookers[self];
    sim_turn();
    if (*word >= target) {
        sim_line_look(word, false);
        return;
    }
    me->poll = (sim_poll){.word = word, .target = target};
    me->next = NOBODY;
    if (line->poll_first == NOBODY)
        line->poll_first = (int32_t)self;
    else
        all.onlookers[line->poll_last].next = (int32_t)self;
    line->poll_last = (int32_t)self;
    sim_block();
}

sim_poll sim_line_polled(uint32_t thread) {
    return all.onlookers[thread].poll;
}
