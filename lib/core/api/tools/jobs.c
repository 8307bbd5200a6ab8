/* The names that jobs have in /dev/shm while they are created, for tools. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "base/file.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/failure/process.h"
#include "comm/creation/rendezvous.h"

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
    const int rc = kolo_sized_check(&sized, "kolo_job_name_get", name);
    if (rc < 0)
        return rc;
    DIR *directory = opendir(KOLO_JOB_DIRECTORY);
    if (!directory)
        return kolo_fail_system(errno, "reading " KOLO_JOB_DIRECTORY);
    bool reached = false;
    struct stat found;
    for (int fd; !reached && (fd = kolo_job_names_next(directory, seen.path, sizeof seen.path, &found)) >= 0;) {
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
    const int fd = kolo_file_open_own(path, &found);
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
