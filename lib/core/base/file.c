/* Reads small files whole, as of /proc and /sys, and checks descriptors that are kept open. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The user's own group may write: its members do not count as others. */
static bool others_could_write(const struct stat *found) {
    return (found->st_uid != geteuid() && found->st_uid != 0) || (found->st_mode & S_IWOTH) ||
           ((found->st_mode & S_IWGRP) && found->st_gid != getegid() && found->st_gid != 0);
}

ssize_t kolo_file_read_at(int fd, void *to, size_t bytes, uint64_t offset) {
    size_t done = 0;
    while (done < bytes) {
        uint8_t *rest = (uint8_t *)to + done;
        const ssize_t got = offset == KOLO_FILE_ONWARD ? read(fd, rest, bytes - done)
                                                       : pread(fd, rest, bytes - done, (off_t)(offset + done));
        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return -errno;
    }
    return (ssize_t)done;
}

static ssize_t read_file(const char *path, char *text, size_t room, bool own) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    struct stat found;
    ssize_t status = fstat(fd, &found) < 0 ? -errno : S_ISREG(found.st_mode) ? 0 : -EINVAL;
    if (status == 0 && own && others_could_write(&found))
        status = -EPERM;
    if (status == 0)
        status = kolo_file_read_at(fd, text, room, KOLO_FILE_ONWARD);
    close(fd);
    return status;
}

ssize_t kolo_file_read(const char *path, char *text, size_t room) {
    return read_file(path, text, room, false);
}

ssize_t kolo_file_read_own(const char *path, char *text, size_t room) {
    return read_file(path, text, room, true);
}

/* Before Linux 6.10 any signal ends the call for a file in memory, which gives all pages back: with a timer that is
 * faster than the call no attempt would come to its end. So signals have to wait. */
int kolo_file_allocate(int fd, uint64_t offset, size_t bytes) {
    enum { INTERRUPTIONS_MAX = 1000 }; /* by the kernel's own */
    sigset_t all, before;
    int error = EINTR;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; error == EINTR && i < INTERRUPTIONS_MAX; i++)
        error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int kolo_file_folder(const char *path, mode_t mode) {
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s/", path) >= (int)sizeof part)
        return -ENAMETOOLONG;
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

int kolo_file_open_own(const char *path, struct stat *found) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, found) == 0 && S_ISREG(found->st_mode) && found->st_uid == geteuid())
        return fd;
    close(fd);
    return -EPERM;
}

bool kolo_file_is(int fd, uint64_t device, uint64_t inode) {
    struct stat found;
    return fd >= 0 && fstat(fd, &found) == 0 && found.st_dev == device && found.st_ino == inode;
}

void kolo_file_close(int fd, uint64_t device, uint64_t inode) {
    if (kolo_file_is(fd, device, inode))
        close(fd);
}

int kolo_file_raise(int fd) {
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int raised = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return raised;
}

#define ENDS        ((off_t)1 << 39) /* before the places of shm/guard.c */
#define ENDS_STRIDE ((off_t)1 << 17) /* more than there are wait statuses, so that locks of two ranks never touch */

static struct flock lock_of_ends(int64_t rank, int64_t status, int64_t bytes) {
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = ENDS + rank * ENDS_STRIDE + status, .l_len = bytes};
}

void kolo_file_end_tell(int fd, int rank, int wait_status) {
    struct flock lock = lock_of_ends(rank, wait_status & 0xffff, 1);
    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

bool kolo_file_end_find(int fd, int64_t first, int64_t count, int64_t *rank, int *wait_status) {
    struct flock lock = lock_of_ends(first, 0, count * ENDS_STRIDE);
    if (fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
        return false;
    *rank = (lock.l_start - ENDS) / ENDS_STRIDE;
    *wait_status = (int)((lock.l_start - ENDS) % ENDS_STRIDE);
    return true;
}
