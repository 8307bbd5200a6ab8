/* The memory that is left under the machine's limit and those of control groups. */
#include "cpu/limits/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/limits/cgroup.h"

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

static uint64_t left_of(int64_t limit_bytes, int64_t used_bytes, const char *directory,
                        const char *const dropped_keys[2]) {
    char path[4096 + 64];
    snprintf(path, sizeof path, "%s/memory.stat", directory);
    int64_t dropped_bytes = 0;
    for (int i = 0; i < 2; i++) {
        const int64_t bytes = read_key(path, dropped_keys[i]);
        dropped_bytes += bytes > 0 ? bytes : 0;
    }
    return kolo_memory_left(limit_bytes, used_bytes, dropped_bytes);
}

static uint64_t left_v2(const char *directory) {
    int64_t limit_bytes, used_bytes, ignored;
    if (!kolo_cgroup_read(directory, "memory.max", &limit_bytes, &ignored) ||
        !kolo_cgroup_read(directory, "memory.current", &used_bytes, &ignored))
        return 0;
    return left_of(limit_bytes, used_bytes, directory, (const char *const[]){"inactive_file ", "active_file "});
}

static uint64_t left_v1(const char *directory) {
    int64_t limit_bytes, used_bytes, ignored;
    if (!kolo_cgroup_read(directory, "memory.limit_in_bytes", &limit_bytes, &ignored) ||
        !kolo_cgroup_read(directory, "memory.usage_in_bytes", &used_bytes, &ignored))
        return 0;
    return left_of(limit_bytes, used_bytes, directory,
                   (const char *const[]){"total_inactive_file ", "total_active_file "});
}

uint64_t kolo_memory_available(void) {
    const int64_t machine_kib = read_key("/proc/meminfo", "MemAvailable:");
    const uint64_t machine_bytes = machine_kib < 0 ? UINT64_MAX : (uint64_t)machine_kib * 1024;
    const uint64_t group_bytes = kolo_cgroup_tightest("memory", left_v2, left_v1);
    return group_bytes && group_bytes < machine_bytes ? group_bytes : machine_bytes;
}
