/* Dividing CPUs among ranks; binding.h says by which rules. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

enum part { PART_PACKAGE, PART_NODE, PART_L3, PARTS };

/* A CPU, and where it is. */
struct place {
    uint16_t part[PARTS];
    uint16_t kind;
    uint16_t core;
    uint16_t core_cpu; /* the first open CPU of the core */
    uint16_t cpu;
    uint16_t thread; /* how many open CPUs of the same core come before this one */
};

/* The open CPUs in the order in which ranks take them: the first threads of all cores, then the second ones, ... */
struct places {
    uint32_t cpus;
    uint32_t cores; /* the first so many places are of a core each */
    struct place list[KOLO_CPUS_MAX];
    uint16_t rank_of[KOLO_CPUS_MAX]; /* of each core, by its number in the topology; KOLO_CPU_NOWHERE: none */
};

static int compare(unsigned a, unsigned b) {
    return (a > b) - (a < b);
}

static int compare_places(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    int order = compare(a->thread, b->thread);
    for (int part = 0; part < PARTS && order == 0; part++)
        order = compare(a->part[part], b->part[part]);
    if (order == 0)
        order = compare(a->kind, b->kind);
    return order != 0 ? order : compare(a->core_cpu, b->core_cpu);
}

static void places_find(struct places *places, const kolo_topology *topology, const kolo_cpu_set *open) {
    uint16_t core_cpu[KOLO_CPUS_MAX], threads[KOLO_CPUS_MAX] = {0};
    places->cpus = places->cores = 0;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        const uint16_t core = topology->core_of[cpu];
        places->rank_of[cpu] = KOLO_CPU_NOWHERE;
        if (!kolo_cpu_set_has(open, cpu))
            continue;
        if (threads[core] == 0) {
            core_cpu[core] = (uint16_t)cpu;
            places->cores++;
        }
        places->list[places->cpus++] = (struct place){
            .part = {topology->package_of[cpu], topology->node_of[cpu], topology->l3_of[cpu]},
            .kind = topology->kind_of[cpu],
            .core = core,
            .core_cpu = core_cpu[core],
            .cpu = (uint16_t)cpu,
            .thread = threads[core]++,
        };
    }
    qsort(places->list, places->cpus, sizeof *places->list, compare_places);
}

static void give(struct places *places, uint32_t first, uint32_t cores, uint32_t rank) {
    for (uint32_t i = first; i < first + cores; i++)
        places->rank_of[places->list[i].core] = (uint16_t)rank;
}

/* Divides cores that have all parts in common: of each kind every rank gets its share. */
static void divide_cores(struct places *places, uint32_t first, uint32_t cores, uint32_t first_rank, uint32_t ranks) {
    uint16_t all[KOLO_CPUS_MAX] = {0};
    for (uint32_t at = first, next; at < first + cores; at = next) {
        uint16_t shares[KOLO_CPUS_MAX] = {0};
        for (next = at; next < first + cores && places->list[next].kind == places->list[at].kind; next++) {
            uint32_t poorest = 0;
            for (uint32_t rank = 1; rank < ranks; rank++)
                if (all[rank] < all[poorest])
                    poorest = rank;
            shares[poorest]++;
            all[poorest]++;
        }
        for (uint32_t rank = 0, core = at; rank < ranks; core += shares[rank++])
            give(places, core, shares[rank], first_rank + rank);
    }
}

/* Fewer ranks than parts of `sizes` cores: each rank gets a run of them. */
static void divide_runs(struct places *places, uint32_t first, const uint32_t *sizes, uint32_t parts,
                        uint32_t first_rank, uint32_t ranks) {
    uint32_t left = 0, part = 0;
    for (uint32_t i = 0; i < parts; i++)
        left += sizes[i];
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const uint32_t ranks_left = ranks - rank;
        uint32_t taken = sizes[part++];
        /* One part more, if that comes closer to an equal share, and leaves one for each rank to come. */
        while (parts - part >= ranks_left && (ranks_left == 1 || (2 * taken + sizes[part]) * ranks_left <= 2 * left))
            taken += sizes[part++];
        give(places, first, taken, first_rank + rank);
        first += taken;
        left -= taken;
    }
}

/* At least as many ranks as parts: each rank in turn goes where the ranks will have most cores each, and among equals
 * where there are fewer ranks. */
static void share_ranks(uint32_t *shares, const uint32_t *sizes, uint32_t parts, uint32_t ranks) {
    memset(shares, 0, parts * sizeof *shares);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t best = 0;
        for (uint32_t part = 1; part < parts; part++) {
            const uint32_t cores = sizes[part] / (shares[part] + 1), best_cores = sizes[best] / (shares[best] + 1);
            if (cores > best_cores || (cores == best_cores && shares[part] < shares[best]))
                best = part;
        }
        shares[best]++;
    }
}

/* Divides `cores` places from `first` on, which have the parts above `level` in common. There are enough of them. Goes
 * one level down with each turn. */
static void divide(struct places *places, uint32_t first, uint32_t cores, uint32_t first_rank, uint32_t ranks,
                   int level) {
    uint32_t sizes[KOLO_CPUS_MAX], shares[KOLO_CPUS_MAX], parts = 0;
    if (level == PARTS) {
        divide_cores(places, first, cores, first_rank, ranks);
        return;
    }
    for (uint32_t i = 0; i < cores; i++) {
        const struct place *place = &places->list[first + i];
        if (i == 0 || place->part[level] != place[-1].part[level])
            sizes[parts++] = 0;
        sizes[parts - 1]++;
    }
    if (ranks < parts) {
        divide_runs(places, first, sizes, parts, first_rank, ranks);
        return;
    }
    share_ranks(shares, sizes, parts, ranks);
    for (uint32_t part = 0; part < parts; part++) {
        if (shares[part] > 0)
            divide(places, first, sizes[part], first_rank, shares[part], level + 1);
        first += sizes[part];
        first_rank += shares[part];
    }
}

void placement_open(kolo_cpu_set *open, const kolo_topology *topology, const kolo_cpu_set *held, uint32_t ranks) {
    bool core_held[KOLO_CPUS_MAX] = {false};
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(&topology->allowed, cpu) && kolo_cpu_set_has(held, cpu))
            core_held[topology->core_of[cpu]] = true;
    memset(open, 0, sizeof *open);
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(&topology->allowed, cpu) && !core_held[topology->core_of[cpu]])
            kolo_cpu_set_add(open, cpu);
    if (kolo_cpu_set_count(open) < ranks)
        *open = topology->allowed;
}

bool placement_choose(kolo_cpu_set *rank_cpus, uint32_t ranks, bool single, const kolo_topology *topology,
                      const kolo_cpu_set *open) {
    struct places places;
    places_find(&places, topology, open);
    if (ranks > places.cpus)
        return false;
    memset(rank_cpus, 0, ranks * sizeof *rank_cpus);
    if (single || ranks > places.cores) {
        for (uint32_t rank = 0; rank < ranks; rank++)
            kolo_cpu_set_add(&rank_cpus[rank], places.list[rank].cpu);
        return true;
    }
    divide(&places, 0, places.cores, 0, ranks, PART_PACKAGE);
    for (uint32_t i = 0; i < places.cpus; i++) {
        const uint16_t rank = places.rank_of[places.list[i].core];
        if (rank != KOLO_CPU_NOWHERE)
            kolo_cpu_set_add(&rank_cpus[rank], places.list[i].cpu);
    }
    return true;
}
