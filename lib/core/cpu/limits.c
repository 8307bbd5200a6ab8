/* The limits of this process's control groups: finding and reading their files, and what they leave. */
#include "cpu/limits.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* Returns the limit that one group's directory sets; 0: none. */
typedef uint64_t limit_fn(const char *directory);

int kolo_cgroup_read(const char *directory, const char *name, int64_t *first, int64_t *second) {
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const int found = fscanf(file, "%" SCNd64 " %" SCNd64, first, second);
    fclose(file);
    return found < 0 ? 0 : found;
}

/* Returns the tightest limit of all groups from `path` under `mount` up to the mount itself: in a container the path
 * may be the host's, and only the mount's own files exist. */
static uint64_t tightest(const char *mount, const char *path, limit_fn *limit) {
    char directory[PATH_BYTES];
    uint64_t best = 0;
    if (snprintf(directory, sizeof directory, "%s%s", mount, path) >= (int)sizeof directory)
        return 0;
    for (;;) {
        const uint64_t found = limit(directory);
        if (found && (!best || found < best))
            best = found;
        char *slash = strrchr(directory, '/');
        if (strlen(directory) <= strlen(mount) || !slash)
            return best;
        *slash = '\0';
    }
}

/* Returns true if the comma-separated list has the entry `controller`. Cuts the list up. */
static bool lists(char *controllers, const char *controller) {
    for (char *rest, *entry = strtok_r(controllers, ",", &rest); entry; entry = strtok_r(NULL, ",", &rest))
        if (strcmp(entry, controller) == 0)
            return true;
    return false;
}

/* The tightest limit on this process among its groups and the groups above them: `v2` in the unified hierarchy, `v1` in
 * that of `controller` ("cpu"). 0: there is none, or it cannot be read. */
static uint64_t tightest_of_all(const char *controller, limit_fn *v2, limit_fn *v1) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return 0;
    char line[PATH_BYTES], mount_v1[64];
    uint64_t best = 0;
    snprintf(mount_v1, sizeof mount_v1, "/sys/fs/cgroup/%s", controller);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        uint64_t found = 0;
        if (*controllers == '\0')
            found = tightest("/sys/fs/cgroup", path, v2);
        else if (lists(controllers, controller))
            found = tightest(mount_v1, path, v1);
        if (found && (!best || found < best))
            best = found;
    }
    fclose(file);
    return best;
}

/* Converts a quota and a period, both in microseconds, to thousandths of a CPU. */
static uint64_t millicpus(int64_t quota_us, int64_t period_us) {
    if (quota_us <= 0 || period_us <= 0 || quota_us > INT64_MAX / 1000)
        return 0;
    const int64_t value = quota_us * 1000 / period_us;
    return value < 1 ? 1 : value > UINT32_MAX ? 0 : (uint64_t)value;
}

static uint64_t limit_v2(const char *directory) {
    int64_t quota_us = 0, period_us = 100000;
    return kolo_cgroup_read(directory, "cpu.max", &quota_us, &period_us) ? millicpus(quota_us, period_us) : 0;
}

static uint64_t limit_v1(const char *directory) {
    int64_t quota_us = 0, period_us = 0, ignored;
    if (!kolo_cgroup_read(directory, "cpu.cfs_quota_us", &quota_us, &ignored) ||
        !kolo_cgroup_read(directory, "cpu.cfs_period_us", &period_us, &ignored))
        return 0;
    return millicpus(quota_us, period_us);
}

uint32_t kolo_quota_read(void) {
    return (uint32_t)tightest_of_all("cpu", limit_v2, limit_v1);
}

/* The number behind `key`, which begins a line of `path`; -1 if there is none. */
static int64_t read_key(const char *path, const char *key) {
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    char line[256];
    int64_t value = -1;
    while (value < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtoll(line + strlen(key), NULL, 10);
    }
    fclose(file);
    return value;
}

#define UNLIMITED_BYTES (INT64_C(1) << 62) /* version 1 writes "unlimited" as the largest number of whole pages */

/* Returns what the group leaves, by the names of the files with its limit and its use, and by the keys of memory.stat
 * for pages that it can drop. Without the file of its use (NULL): its limit. */
static uint64_t left_of(const char *directory, const char *limit, const char *used, const char *inactive,
                        const char *active) {
    char path[PATH_BYTES + 64];
    int64_t limit_bytes, used_bytes, ignored;
    if (!kolo_cgroup_read(directory, limit, &limit_bytes, &ignored) || limit_bytes >= UNLIMITED_BYTES)
        return 0;
    if (!used)
        return limit_bytes > 0 ? (uint64_t)limit_bytes : 0;
    if (!kolo_cgroup_read(directory, used, &used_bytes, &ignored))
        return 0;
    snprintf(path, sizeof path, "%s/memory.stat", directory);
    const int64_t inactive_bytes = read_key(path, inactive), active_bytes = read_key(path, active);
    return kolo_memory_left(limit_bytes, used_bytes,
                            (inactive_bytes > 0 ? inactive_bytes : 0) + (active_bytes > 0 ? active_bytes : 0));
}

static uint64_t left_v2(const char *directory) {
    return left_of(directory, "memory.max", "memory.current", "inactive_file ", "active_file ");
}

static uint64_t left_v1(const char *directory) {
    return left_of(directory, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
                   "total_active_file ");
}

static uint64_t whole_v2(const char *directory) {
    return left_of(directory, "memory.max", NULL, NULL, NULL);
}

static uint64_t whole_v1(const char *directory) {
    return left_of(directory, "memory.limit_in_bytes", NULL, NULL, NULL);
}

/* Returns the machine's bytes or what the tightest group has, whichever is less. */
static uint64_t memory_least(uint64_t machine_bytes, limit_fn *v2, limit_fn *v1) {
    const uint64_t group_bytes = tightest_of_all("memory", v2, v1);
    return group_bytes && group_bytes < machine_bytes ? group_bytes : machine_bytes;
}

uint64_t kolo_memory_total(void) {
    return memory_least((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), whole_v2, whole_v1);
}

uint64_t kolo_memory_available(void) {
    const int64_t machine_kib = read_key("/proc/meminfo", "MemAvailable:");
    return memory_least(machine_kib < 0 ? UINT64_MAX : (uint64_t)machine_kib * 1024, left_v2, left_v1);
}
