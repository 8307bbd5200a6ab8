#include "cpu/topology.h"

#include <ctype.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU_PATH  "/sys/devices/system/cpu"
#define NODE_PATH "/sys/devices/system/node"

enum { CACHES_MAX = 16, LIST_BYTES = 4096 };

static void add_cpu(kolo_cpu_set *set, unsigned long cpu) {
    if (cpu < KOLO_CPUS_MAX)
        set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

static bool has_cpu(const kolo_cpu_set *set, unsigned cpu) {
    return set->words[cpu / 64] >> (cpu % 64) & 1;
}

uint32_t kolo_cpu_set_count(const kolo_cpu_set *set) {
    uint32_t count = 0;
    for (unsigned i = 0; i < KOLO_CPUS_MAX / 64; i++)
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

void kolo_cpu_set_merge(kolo_cpu_set *set, const kolo_cpu_set *more) {
    for (unsigned i = 0; i < KOLO_CPUS_MAX / 64; i++)
        set->words[i] |= more->words[i];
}

void kolo_cpu_set_allowed(kolo_cpu_set *set) {
    memset(set, 0, sizeof *set);
    cpu_set_t mask[8]; /* 8192 CPUs: the kernel refuses a mask smaller than its own */
    CPU_ZERO_S(sizeof mask, mask);
    if (sched_getaffinity(0, sizeof mask, mask) < 0)
        return;
    for (unsigned cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (CPU_ISSET_S(cpu, sizeof mask, mask))
            add_cpu(set, cpu);
}

/* Reads a file's first line without its newline; false where there is none. */
static bool read_line(const char *path, char *text, size_t text_bytes) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fgets(text, (int)text_bytes, file) != NULL;
    fclose(file);
    if (ok)
        text[strcspn(text, "\n")] = '\0';
    return ok;
}

/* Reads a list such as "0-3,8,10-11"; returns how many numbers it names. */
static uint32_t parse_list(const char *text, kolo_cpu_set *set) {
    uint32_t count = 0;
    while (isdigit((unsigned char)*text)) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (last < first || last - first >= 1u << 16)
            break;
        count += (uint32_t)(last - first + 1);
        for (unsigned long cpu = first; set && cpu <= last; cpu++)
            add_cpu(set, cpu);
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

static uint32_t count_list(const char *path) {
    char text[LIST_BYTES];
    uint32_t count = read_line(path, text, sizeof text) ? parse_list(text, NULL) : 0;
    return count ? count : 1;
}

/* "32768K" in bytes. */
static uint64_t parse_size(const char *text) {
    char *end;
    uint64_t size = strtoull(text, &end, 10);
    return *end == 'K' ? size << 10 : *end == 'M' ? size << 20 : size;
}

struct cache {
    unsigned level;
    uint64_t bytes;
    kolo_cpu_set sharers;
};

/* Reads cache `index` of `cpu`: false past the last one; level 0 for an instruction cache. */
static bool read_cache(unsigned cpu, unsigned index, struct cache *cache) {
    char path[128], text[LIST_BYTES];
    memset(cache, 0, sizeof *cache);
    snprintf(path, sizeof path, CPU_PATH "/cpu%u/cache/index%u/type", cpu, index);
    if (!read_line(path, text, sizeof text))
        return false;
    if (strcmp(text, "Instruction") == 0)
        return true;
    snprintf(path, sizeof path, CPU_PATH "/cpu%u/cache/index%u/level", cpu, index);
    if (read_line(path, text, sizeof text))
        cache->level = (unsigned)strtoul(text, NULL, 10);
    snprintf(path, sizeof path, CPU_PATH "/cpu%u/cache/index%u/size", cpu, index);
    if (read_line(path, text, sizeof text))
        cache->bytes = parse_size(text);
    snprintf(path, sizeof path, CPU_PATH "/cpu%u/cache/index%u/shared_cpu_list", cpu, index);
    if (read_line(path, text, sizeof text))
        parse_list(text, &cache->sharers);
    return true;
}

/* Reads the caches of `cpu` and adds those who share its L3 to *covered. */
static void read_caches(kolo_topology *topology, unsigned cpu, kolo_cpu_set *covered) {
    struct cache cache;
    for (unsigned index = 0; index < CACHES_MAX && read_cache(cpu, index, &cache); index++) {
        if (cache.level == 1)
            topology->l1d_bytes = cache.bytes;
        else if (cache.level == 2)
            topology->l2_bytes = cache.bytes;
        else if (cache.level == 3) {
            topology->l3_bytes = cache.bytes;
            kolo_cpu_set_merge(covered, &cache.sharers);
        }
    }
}

void kolo_topology_read(kolo_topology *topology, const kolo_cpu_set *allowed) {
    memset(topology, 0, sizeof *topology);
    topology->cpus_online = count_list(CPU_PATH "/online");
    topology->numa_nodes = count_list(NODE_PATH "/online");
    kolo_cpu_set covered = {{0}};
    for (unsigned cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        if (!has_cpu(allowed, cpu) || has_cpu(&covered, cpu))
            continue;
        read_caches(topology, cpu, &covered);
        if (topology->l3_bytes == 0)
            break; /* no L3 to tell domains by */
        topology->l3_domains++;
    }
    if (topology->l3_domains == 0)
        topology->l3_domains = 1;
}
