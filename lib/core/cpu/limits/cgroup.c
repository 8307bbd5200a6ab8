/* The files of this process's control groups, version 1 or 2: finding and reading them. */
#include "cpu/limits/cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

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
static uint64_t tightest(const char *mount, const char *path, kolo_cgroup_limit_fn *limit) {
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

uint64_t kolo_cgroup_tightest(const char *controller, kolo_cgroup_limit_fn *v2, kolo_cgroup_limit_fn *v1) {
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
