/* The best levels are a shortest path, from groups of one rank to the group of all ranks, over powers of two. In a step
 * from size a to size b every rank reads from b / a - 1 ranks: those that have its own place in the other groups of a.
 * The step's cost is the time that this takes. Lines that are under way at the same time overlap: the line from
 * furthest away costs its full time, each other line a share of it that grows with the ranks that contend. */
#include "cpu/levels.h"

#include <stdlib.h>
#include <string.h>

#include "kolo.h"
#include "base/status.h"

enum { SIZES_MAX = 11 }; /* 1, 2, 4 .. 512, and all ranks */

/* Time for a cache line to cross, in units of which a crossing within an L3 domain takes 8: published measurements
 * between cores are near these ratios on x86 and arm64 servers. */
enum { NEAR = 8, SAME_L3_OTHER_NODE = 12, OTHER_L3 = 24, OTHER_L3_AND_NODE = 26, OTHER_PACKAGE = 56 };

/* The cost of a step beside its crossings: it writes, it folds and, in slots, it makes the pipeline longer. */
enum { STEP = 12 };

/* For each kind of group, the group that holds all CPUs of a rank; KOLO_CPU_NOWHERE if there is none. */
struct place {
    uint16_t l3, node, package;
};

static uint16_t common(const kolo_cpu_set *cpus, const uint16_t *group_of) {
    uint16_t group = KOLO_CPU_NOWHERE;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        if (!kolo_cpu_set_has(cpus, cpu))
            continue;
        if (group_of[cpu] == KOLO_CPU_NOWHERE || (group != KOLO_CPU_NOWHERE && group != group_of[cpu]))
            return KOLO_CPU_NOWHERE;
        group = group_of[cpu];
    }
    return group;
}

static bool same(uint16_t a, uint16_t b) {
    return a == b && a != KOLO_CPU_NOWHERE;
}

static uint32_t distance(const struct place *a, const struct place *b) {
    const bool same_node = same(a->node, b->node);
    if (!same(a->package, b->package))
        return OTHER_PACKAGE;
    if (same(a->l3, b->l3))
        return same_node ? NEAR : SAME_L3_OTHER_NODE;
    return same_node ? OTHER_L3 : OTHER_L3_AND_NODE;
}

/* Returns the cost of a line while another one from further away is under way. */
static uint32_t overlapped(uint32_t crossing) {
    return crossing / (crossing < OTHER_L3 ? 4 : crossing < OTHER_PACKAGE ? 3 : 2);
}

/* Returns the cost of a step from groups of `from` to groups of `to` for the slowest rank. */
static uint32_t step_cost(const struct place *places, uint32_t ranks, uint32_t from, uint32_t to) {
    uint32_t worst = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const uint32_t first = rank / to * to, end = first + to < ranks ? first + to : ranks;
        uint32_t furthest = 0, sum = 0;
        for (uint32_t peer = first + rank % from; peer < end; peer += from) {
            const uint32_t crossing = peer == rank ? 0 : distance(&places[rank], &places[peer]);
            sum += overlapped(crossing);
            furthest = crossing > furthest ? crossing : furthest;
        }
        const uint32_t cost = STEP + furthest + sum - overlapped(furthest);
        worst = cost > worst ? cost : worst;
    }
    return worst;
}

/* The cheapest paths found so far to each size: their cost, and the size before. */
struct paths {
    uint32_t cost[KOLO_LEVELS_MAX + 2][SIZES_MAX]; /* by number of steps */
    uint32_t before[KOLO_LEVELS_MAX + 2][SIZES_MAX];
};

static void find_paths(struct paths *paths, const struct place *places, uint32_t ranks, const uint32_t *sizes,
                       uint32_t count) {
    for (uint32_t steps = 0; steps <= KOLO_LEVELS_MAX + 1; steps++)
        for (uint32_t to = 0; to < count; to++)
            paths->cost[steps][to] = steps == 0 && to == 0 ? 0 : UINT32_MAX;
    for (uint32_t from = 0; from < count; from++)
        for (uint32_t to = from + 1; to < count; to++) {
            const uint32_t cost = step_cost(places, ranks, sizes[from], sizes[to]);
            for (uint32_t steps = 0; steps <= KOLO_LEVELS_MAX; steps++) {
                if (paths->cost[steps][from] == UINT32_MAX ||
                    paths->cost[steps][from] + cost > paths->cost[steps + 1][to]) /* the larger among equals */
                    continue;
                paths->cost[steps + 1][to] = paths->cost[steps][from] + cost;
                paths->before[steps + 1][to] = from;
            }
        }
}

static void choose_path(uint32_t *levels, const struct place *places, uint32_t ranks) {
    uint32_t sizes[SIZES_MAX], count = 0;
    for (uint32_t size = 1; size < ranks; size *= 2)
        sizes[count++] = size;
    sizes[count++] = ranks;
    struct paths paths;
    find_paths(&paths, places, ranks, sizes, count);
    uint32_t best = 1; /* fewest steps among equals */
    for (uint32_t steps = 2; steps <= KOLO_LEVELS_MAX + 1; steps++)
        if (paths.cost[steps][count - 1] < paths.cost[best][count - 1])
            best = steps;
    for (uint32_t steps = best, at = count - 1; steps > 1; steps--) {
        at = paths.before[steps][at];
        levels[steps - 2] = sizes[at];
    }
}

void kolo_levels_choose(uint32_t sizes[KOLO_LEVELS_MAX], const kolo_topology *topology,
                        const kolo_cpu_set *const *rank_cpus, uint32_t ranks) {
    struct place places[KOLO_CPUS_MAX];
    memset(sizes, 0, KOLO_LEVELS_MAX * sizeof *sizes);
    /* No levels where ranks take turns on a processor: each level would cost another turn. */
    if (ranks < 4 || ranks > kolo_cpu_set_count(&topology->allowed))
        return;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const kolo_cpu_set *cpus = rank_cpus ? rank_cpus[rank] : &topology->allowed;
        places[rank] = (struct place){.l3 = common(cpus, topology->l3_of),
                                      .node = common(cpus, topology->node_of),
                                      .package = common(cpus, topology->package_of)};
    }
    choose_path(sizes, places, ranks);
}

/* Reads one size and the separator after it. Returns 0 unless the size is legal and above `below`. */
static uint32_t take_size(const char **text, uint32_t below) {
    char *end;
    const unsigned long size = **text >= '0' && **text <= '9' ? strtoul(*text, &end, 10) : 0;
    if (size <= below || size > KOLO_CPUS_MAX / 2 || (size & (size - 1)) != 0 || (*end == ':' ? !end[1] : *end != '\0'))
        return 0;
    *text = *end == ':' ? end + 1 : end;
    return (uint32_t)size;
}

int kolo_levels_parse(uint32_t sizes[KOLO_LEVELS_MAX], const char *name, const char *value) {
    const char *text = strchr(value, ':') + 1;
    uint32_t found[KOLO_LEVELS_MAX] = {0}, count = 0;
    const char *at = strcmp(text, "none") == 0 ? "" : text;
    bool ok = *text != '\0';
    while (ok && *at) {
        const uint32_t size = count < KOLO_LEVELS_MAX ? take_size(&at, count ? found[count - 1] : 1) : 0;
        ok = size > 0;
        if (ok)
            found[count++] = size;
    }
    if (!ok)
        return kolo_fail(KOLO_ERR_ARG,
                         "%s=%.64s: levels must be none, or up to %d powers of two from 2 to %d in ascending order,"
                         " such as 8:64",
                         name, value, KOLO_LEVELS_MAX, KOLO_CPUS_MAX / 2);
    memcpy(sizes, found, sizeof found);
    return 0;
}
