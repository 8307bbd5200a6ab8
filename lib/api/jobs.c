/* The names that jobs have in /dev/shm while they are created, for tools. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/failure/process.h"
#include "comm/creation/rendezvous.h"

/* Opens the file of that name if it is this user's own. Never blocks, not even on a pipe. */
static int open_own(const char *path, struct stat *found) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, found) == 0 && S_ISREG(found->st_mode) && found->st_uid == geteuid())
        return fd;
    close(fd);
    return -1;
}

static void describe(int fd, const struct stat *found, kolo_job_name *name) {
    struct kolo_job_header header;
    struct timespec now;
    const bool complete = kolo_job_header_read(fd, &header);
    clock_gettime(CLOCK_REALTIME, &now);
    name->pid = complete ? header.creator.pid : 0;
    name->stale = !complete || !kolo_job_creator_alive(kolo_process_own_namespace(), fd, &header);
    name->age_s = now.tv_sec > found->st_ctim.tv_sec ? (int64_t)(now.tv_sec - found->st_ctim.tv_sec) : 0;
}

int kolo_job_name_get(size_t index, kolo_job_name *name) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_job_name, job_name_bytes, age_s);
    kolo_job_name seen = {0};
    char prefix[64];
    const int rc = kolo_sized_check(&sized, "kolo_job_name_get", name);
    if (rc < 0)
        return rc;
    snprintf(prefix, sizeof prefix, KOLO_JOB_PATH, (unsigned)geteuid());
    DIR *directory = opendir(KOLO_JOB_DIRECTORY);
    if (!directory)
        return kolo_fail_system(errno, "reading " KOLO_JOB_DIRECTORY);
    bool reached = false;
    for (struct dirent *entry; !reached && (entry = readdir(directory));) {
        struct stat found;
        const int length = snprintf(seen.path, sizeof seen.path, KOLO_JOB_DIRECTORY "/%s", entry->d_name);
        if (length >= (int)sizeof seen.path || strncmp(seen.path, prefix, strlen(prefix)) != 0)
            continue;
        const int fd = open_own(seen.path, &found);
        if (fd < 0)
            continue;
        reached = index-- == 0;
        if (reached)
            describe(fd, &found, &seen);
        close(fd);
    }
    closedir(directory);
    if (!reached)
        return kolo_fail(KOLO_ERR_ARG, "kolo_job_name_get: index past the last name");
    kolo_sized_fill(&sized, name, &seen);
    return 0;
}

int kolo_job_name_remove(const char *path) {
    char prefix[64];
    struct stat found;
    kolo_job_name name;
    snprintf(prefix, sizeof prefix, KOLO_JOB_PATH, (unsigned)geteuid());
    if (!path || strncmp(path, prefix, strlen(prefix)) != 0 || strchr(path + strlen(prefix), '/'))
        return kolo_fail(KOLO_ERR_ARG, "kolo_job_name_remove: %.200s is not the name of a job of this user",
                         path ? path : "NULL");
    const int fd = open_own(path, &found);
    if (fd < 0)
        return kolo_fail(KOLO_ERR_ARG, "kolo_job_name_remove: %.200s is not a file of this user", path);
    describe(fd, &found, &name);
    int rc = name.stale ? kolo_job_name_remove_of(path, fd)
                        : kolo_fail(KOLO_ERR_STATE, "%.200s is in use by process %u", path, (unsigned)name.pid);
    if (name.stale && rc < 0)
        rc = kolo_fail_system(-rc, "removing %.200s", path);
    close(fd);
    return rc;
}
