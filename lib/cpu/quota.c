#include "cpu/quota.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* Quota and period, both in microseconds, as thousandths of a CPU. */
static uint32_t millicpus(long long quota_us, long long period_us) {
    if (quota_us <= 0 || period_us <= 0)
        return 0;
    long long value = quota_us * 1000 / period_us;
    return value < 1 ? 1 : value > UINT32_MAX ? 0 : (uint32_t)value;
}

static bool read_numbers(const char *path, long long *first, long long *second) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    int found = fscanf(file, "%lld %lld", first, second); /* "max 100000" reads as none */
    fclose(file);
    return found >= 1;
}

/* The limit of one group directory. */
static uint32_t limit_v2(const char *directory) {
    char path[PATH_BYTES + 32];
    long long quota_us = 0, period_us = 100000;
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    return read_numbers(path, &quota_us, &period_us) ? millicpus(quota_us, period_us) : 0;
}

static uint32_t limit_v1(const char *directory) {
    char path[PATH_BYTES + 32];
    long long quota_us = 0, period_us = 0, ignored;
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
    if (!read_numbers(path, &quota_us, &ignored))
        return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
    return read_numbers(path, &period_us, &ignored) ? millicpus(quota_us, period_us) : 0;
}

/* The tightest limit from the group `path` under `mount` up to the mount itself: in a container the path may be the
 * host's, and only the mount's own files are there. */
static uint32_t tightest(const char *mount, const char *path, uint32_t (*limit)(const char *)) {
    char directory[PATH_BYTES];
    uint32_t best = 0;
    if (snprintf(directory, sizeof directory, "%s%s", mount, path) >= (int)sizeof directory)
        return 0;
    for (;;) {
        uint32_t found = limit(directory);
        if (found && (!best || found < best))
            best = found;
        char *slash = strrchr(directory, '/');
        if (strlen(directory) <= strlen(mount) || !slash)
            return best;
        *slash = '\0';
    }
}

/* True if the comma-separated list has the entry "cpu". */
static bool lists_cpu(const char *controllers) {
    for (const char *entry = controllers; *entry; entry += strcspn(entry, ",") + (entry[strcspn(entry, ",")] == ',')) {
        if (strcspn(entry, ",") == 3 && strncmp(entry, "cpu", 3) == 0)
            return true;
    }
    return false;
}

uint32_t kolo_quota_read(void) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return 0;
    char line[PATH_BYTES];
    uint32_t best = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        uint32_t found = 0;
        if (*controllers == '\0')
            found = tightest("/sys/fs/cgroup", path, limit_v2);
        else if (lists_cpu(controllers))
            found = tightest("/sys/fs/cgroup/cpu", path, limit_v1);
        if (found && (!best || found < best))
            best = found;
    }
    fclose(file);
    return best;
}
