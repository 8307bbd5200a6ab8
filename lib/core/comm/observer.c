/* The observer: it finds segments and other files of running jobs through /proc. */
#include "comm/observer.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "comm/creation/options.h"
#include "comm/failure/process.h"

enum { TRIES_MAX = 3 };

static void list_files(uint32_t pid, struct kolo_open_files *files) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    DIR *directory = opendir(path);
    files->count = 0;
    for (struct dirent *entry; directory && files->count < KOLO_OPEN_FILES_MAX && (entry = readdir(directory));) {
        struct stat found;
        if (!isdigit((unsigned char)entry->d_name[0]) || fstatat(dirfd(directory), entry->d_name, &found, 0) < 0 ||
            !S_ISREG(found.st_mode) || found.st_uid != geteuid() || found.st_size == 0)
            continue;
        files->list[files->count++] =
            (struct kolo_memory_file){pid, strtoul(entry->d_name, NULL, 10), found.st_dev, found.st_ino};
    }
    if (directory)
        closedir(directory);
}

int kolo_open_files_open(uint32_t pid, struct kolo_open_files *files, uint64_t device, uint64_t inode,
                         struct kolo_memory_file *place) {
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        for (size_t i = 0; i < files->count; i++) {
            const struct kolo_memory_file *file = &files->list[i];
            const int fd = file->device == device && file->inode == inode ? kolo_memory_file_open(file, O_RDONLY) : -1;
            if (fd < 0)
                continue;
            *place = *file;
            return fd;
        }
        list_files(pid, files);
    }
    return -1;
}

enum { OBSERVED_MAX = 4096, ANCESTORS_MAX = 64 };

/* Segments. */

static int refuse_version(uint32_t pid, uint32_t version, uint32_t layout) {
    return kolo_fail(KOLO_ERR_VERSION,
                     "process %u runs kolo " KOLO_VERSION_FORMAT
                     " (layout %u), this is kolo %s (layout %u): look with the tools of its version",
                     pid, KOLO_VERSION_PARTS(version), layout, kolo_version(), KOLO_LAYOUT);
}

/* Looks whether a segment of `job` (NULL: any) begins there. Returns 1, 0, or an error. Fills in what it says. */
static int look_at_segment(uint32_t pid, const char *job, struct kolo_observed *seen) {
    struct kolo_shared_header header;
    struct stat file;
    const size_t known_bytes = offsetof(struct kolo_shared_header, layout) + sizeof header.layout;
    const ssize_t got = pread(seen->fd, &header, sizeof header, (off_t)seen->offset);
    if (fstat(seen->fd, &file) < 0 || got < (ssize_t)known_bytes ||
        kolo_load_acquire(&header.magic) != KOLO_SEGMENT_MAGIC)
        return 0;
    if (header.layout != KOLO_LAYOUT || header.version != KOLO_VERSION_WORD)
        return refuse_version(pid, header.version, header.layout);
    if (job && strncmp(job, header.job, sizeof header.job) != 0)
        return 0;
    const struct kolo_segment_claim claim = {.ranks = header.ranks,
                                             .internode = header.internode,
                                             .slot_bytes = header.slot_bytes,
                                             .segment_bytes = header.segment_bytes,
                                             .offset = seen->offset,
                                             .file_bytes = (uint64_t)file.st_size};
    if (got < (ssize_t)sizeof header || !kolo_layout_is_legal(&claim) ||
        (header.job[0] && !kolo_settings_job_is_legal(header.job)))
        return kolo_fail(KOLO_ERR_VERSION,
                         "process %u: the header of a segment is damaged (%" PRIu64 " ranks, slots of %" PRIu64
                         " bytes, %" PRIu64 " in all, at %" PRIu64 " of %" PRIu64 ")",
                         pid, claim.ranks, claim.slot_bytes, claim.segment_bytes, claim.offset, claim.file_bytes);
    seen->ranks = header.ranks;
    seen->layout = kolo_layout_compute(header.ranks, header.slot_bytes, header.internode);
    memcpy(seen->job, header.job, sizeof seen->job);
    return 1;
}

static bool is_known(const struct kolo_observer *observer, uint64_t device, uint64_t inode, uint64_t offset) {
    for (size_t i = 0; i < observer->count; i++)
        if (observer->list[i].device == device && observer->list[i].inode == inode &&
            observer->list[i].offset == offset)
            return true;
    return false;
}

static int add(struct kolo_observer *observer, const struct kolo_observed *seen) {
    if (observer->count == OBSERVED_MAX)
        return kolo_fail(KOLO_ERR_SYSTEM, "more than %d communicators", OBSERVED_MAX);
    struct kolo_observed *list = realloc(observer->list, (observer->count + 1) * sizeof *list);
    if (!list)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    observer->list = list;
    list[observer->count++] = *seen;
    return 0;
}

/* One process. */

static bool is_known_file(const struct kolo_observer *observer, uint64_t device, uint64_t inode) {
    for (size_t i = 0; i < observer->files_count; i++)
        if (observer->files[i]->place.device == device && observer->files[i]->place.inode == inode)
            return true;
    return false;
}

/* Adds the file that `fd` is a descriptor of, if it is one to be looked at. */
static int add_file(struct kolo_observer *observer, int fd, const struct kolo_memory_file *place) {
    if (!observer->find || observer->files_count == OBSERVED_MAX)
        return 0; /* there are enough to look at */
    struct kolo_observed_file *file = observer->find(fd, place);
    struct kolo_observed_file **files =
        file ? realloc(observer->files, (observer->files_count + 1) * sizeof *files) : NULL;
    if (!files) {
        free(file);
        return file ? kolo_fail(KOLO_ERR_SYSTEM, "out of memory") : 0;
    }
    observer->files = files;
    files[observer->files_count++] = file;
    return 0;
}

/* Looks at one mapping; adds the segment if there is one, of `job` (NULL: any), or the other file. */
static int look_at_mapping(struct kolo_observer *observer, uint32_t pid, struct kolo_open_files *files, uint64_t device,
                           uint64_t inode, uint64_t offset, const char *job) {
    if (is_known(observer, device, inode, offset) || is_known_file(observer, device, inode))
        return 0;
    struct kolo_observed seen = {.device = device, .inode = inode, .offset = offset};
    struct kolo_memory_file place;
    seen.fd = kolo_open_files_open(pid, files, device, inode, &place);
    if (seen.fd < 0)
        return 0;
    const int found = look_at_segment(pid, job, &seen);
    int rc = found;
    if (found == 1)
        rc = add(observer, &seen);
    else if (found == 0 && offset == 0)
        rc = add_file(observer, seen.fd, &place);
    if (found != 1 || rc < 0)
        close(seen.fd);
    return rc < 0 ? rc : 0;
}

/* Adds the segments of one process. An error of one mapping does not hide the others. */
static int look_at_process(struct kolo_observer *observer, uint32_t pid, const char *job) {
    struct kolo_open_files files;
    char path[64], *line = NULL;
    size_t line_bytes = 0;
    int rc = 0;
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return kolo_fail_system(errno, "process %u: opening %s", pid, path);
    list_files(pid, &files);
    while (files.count && getline(&line, &line_bytes, maps) > 0) {
        char rights[5];
        uint64_t offset, inode;
        unsigned major, minor;
        if (sscanf(line, "%*x-%*x %4s %" SCNx64 " %x:%x %" SCNu64, rights, &offset, &major, &minor, &inode) != 5 ||
            strlen(rights) != 4 || rights[3] != 's' || inode == 0)
            continue;
        const int status = look_at_mapping(observer, pid, &files, makedev(major, minor), inode, offset, job);
        rc = rc < 0 ? rc : status;
    }
    free(line);
    fclose(maps);
    return rc;
}

/* All processes of this user. */

static bool is_below(uint32_t pid, uint32_t ancestor) {
    struct kolo_process process;
    for (int i = 0; i < ANCESTORS_MAX && pid > 1 && kolo_process_read(pid, &process) == 0; i++) {
        if (process.parent == ancestor)
            return true;
        pid = process.parent;
    }
    return false;
}

/* Adds the segments of all processes of this user that are below `ancestor` (0: of all). Skips those that cannot be
 * read; returns the error of the last one that runs another version. */
static int look_at_processes(struct kolo_observer *observer, uint32_t ancestor, const char *job) {
    int rc = 0;
    DIR *directory = opendir("/proc");
    if (!directory)
        return kolo_fail_system(errno, "opening /proc");
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct stat found;
        if (!isdigit((unsigned char)entry->d_name[0]) || fstatat(dirfd(directory), entry->d_name, &found, 0) < 0 ||
            found.st_uid != geteuid())
            continue;
        const uint32_t pid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (ancestor && !is_below(pid, ancestor))
            continue;
        const int status = look_at_process(observer, pid, job);
        rc = status == KOLO_ERR_VERSION ? status : rc;
    }
    closedir(directory);
    return rc;
}

static int search_process(struct kolo_observer *observer, uint32_t pid, const struct stat *found) {
    if (found->st_uid != geteuid())
        return kolo_fail(KOLO_ERR_SYSTEM,
                         "process %u is user %u's, and this is user %u: only jobs of the same user can be "
                         "looked at",
                         pid, (unsigned)found->st_uid, (unsigned)geteuid());
    const size_t before = observer->count;
    int rc = look_at_process(observer, pid, NULL);
    if (rc == 0 && observer->count == before)
        rc = look_at_processes(observer, pid, NULL); /* below it */
    if (rc < 0 || observer->count)
        return rc;
    return kolo_fail(KOLO_ERR_ARG,
                     "process %u is in no kolo job of two ranks or more, nor is one below it: is it the pid of a rank "
                     "or of kolorun, and has the communicator been created?",
                     pid);
}

static int search_user(struct kolo_observer *observer) {
    const int rc = look_at_processes(observer, 0, NULL);
    return observer->count || rc == KOLO_ERR_VERSION ? 0 : rc;
}

static int search(struct kolo_observer *observer, const char *target) {
    char path[64];
    struct stat found;
    const bool is_number = *target && strspn(target, "0123456789") == strlen(target) && strlen(target) < 10;
    int rc;
    if (!*target)
        return search_user(observer);
    snprintf(path, sizeof path, "/proc/%.9s", target);
    const bool is_process = is_number && stat(path, &found) == 0;
    if (is_process)
        rc = search_process(observer, (uint32_t)strtoul(target, NULL, 10), &found);
    else if (!kolo_settings_job_is_legal(target))
        rc = kolo_fail(KOLO_ERR_ARG, "'%.64s' is neither a process nor the name of a job", target);
    else
        rc = look_at_processes(observer, 0, target);
    if (observer->count)
        return 0;
    if (rc < 0 && (is_process || rc != KOLO_ERR_VERSION))
        return rc;
    char other[256] = ""; /* the error of a process of another version, which may be of that job */
    if (rc == KOLO_ERR_VERSION)
        snprintf(other, sizeof other, "; but %.240s", kolo_error_message());
    return kolo_fail(
        KOLO_ERR_ARG,
        "%s%.64s: there is no such process, nor has any of user %u's a communicator of a job of that name%s",
        is_number ? "process or job " : "job ", target, (unsigned)geteuid(), other);
}

/* Lets go of files: before a search of those that are over, after it of those without a segment that was found. */
static void keep_files(struct kolo_observer *observer, bool searched) {
    size_t kept = 0;
    for (size_t i = 0; i < observer->files_count; i++) {
        struct kolo_observed_file *file = observer->files[i];
        if (searched ? is_known(observer, file->segment_device, file->segment_inode, file->segment_offset)
                     : !file->over)
            observer->files[kept++] = file;
        else
            free(file);
    }
    observer->files_count = kept;
}

int kolo_observer_search(struct kolo_observer *observer, const char *target) {
    keep_files(observer, false);
    const int rc = search(observer, target);
    keep_files(observer, true);
    return rc;
}

void kolo_observer_drop(struct kolo_observer *observer, size_t index) {
    struct kolo_observed *list = observer->list;
    close(list[index].fd);
    free(list[index].reading);
    observer->count--;
    memmove(&list[index], &list[index + 1], (observer->count - index) * sizeof *list);
}

void kolo_observer_close(struct kolo_observer *observer) {
    while (observer->count)
        kolo_observer_drop(observer, observer->count - 1);
    while (observer->files_count)
        free(observer->files[--observer->files_count]);
    free(observer->files);
    free(observer->list);
}
