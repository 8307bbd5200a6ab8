/* Looking for other kolorun processes; binding.h says what for. */
#include "binding.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "cpu/sysfs.h"
#include "processes.h"

#define LOCK_ROUNDS    400
#define LOCK_PAUSE_NS  5000000 /* 2 s in all */
#define ANCESTORS_MAX  64
#define CHILDREN_BYTES (1 << 16)

int neighbours_lock(void) {
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int round = 0; fd >= 0; round++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        if ((errno != EWOULDBLOCK && errno != EINTR) || round == LOCK_ROUNDS)
            break;
        kolo_clock_sleep(LOCK_PAUSE_NS);
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Lists `self`, its parent, and so on. Returns how many there are. */
static int list_ancestors(long *ancestors, const char *proc, long self) {
    char parent[32];
    int count = 0;
    for (long pid = self; pid > 0 && count < ANCESTORS_MAX;) {
        ancestors[count++] = pid;
        pid = process_status_read(proc, pid, "PPid:", parent, sizeof parent) ? strtol(parent, NULL, 10) : 0;
    }
    return count;
}

/* Adds what the process may run on, unless it has ended or may run on all of `allowed`. */
static void add_rank(kolo_cpu_set *held, const kolo_cpu_set *allowed, const char *proc, long pid) {
    char list[PROCESS_STATUS_BYTES];
    kolo_cpu_set cpus, all = *allowed;
    const char state = process_state(proc, pid);
    if (state == 0 || state == 'Z' || state == 'X' ||
        !process_status_read(proc, pid, "Cpus_allowed_list:", list, sizeof list) ||
        !kolo_sysfs_list_parse(list, &cpus, NULL))
        return;
    kolo_cpu_set_merge(&all, &cpus);
    if (memcmp(&all, &cpus, sizeof all) != 0)
        kolo_cpu_set_merge(held, &cpus);
}

static void add_job(kolo_cpu_set *held, const kolo_cpu_set *allowed, const char *proc, long pid) {
    static char children[CHILDREN_BYTES];
    char name[64];
    snprintf(name, sizeof name, "task/%ld/children", pid);
    process_text_read(proc, pid, name, children, sizeof children);
    for (char *at = children, *end; *at != '\0'; at = end) {
        const long child = strtol(at, &end, 10);
        if (end == at)
            return;
        if (child > 0)
            add_rank(held, allowed, proc, child);
    }
}

static bool is_other_job(const char *proc, long pid, const long *ancestors, int count) {
    char name[32];
    for (int i = 0; i < count; i++)
        if (ancestors[i] == pid)
            return false;
    process_text_read(proc, pid, "comm", name, sizeof name);
    return strcmp(name, "kolorun\n") == 0;
}

void neighbours_cpus(kolo_cpu_set *held, const kolo_cpu_set *allowed, const char *proc, pid_t self) {
    long ancestors[ANCESTORS_MAX];
    memset(held, 0, sizeof *held);
    DIR *folder = opendir(proc);
    if (folder == NULL)
        return;
    const int count = list_ancestors(ancestors, proc, self);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char *end;
        const long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0' && is_other_job(proc, pid, ancestors, count))
            add_job(held, allowed, proc, pid);
    }
    closedir(folder);
}
