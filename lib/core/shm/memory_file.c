/* Nameless files: this file makes them, and opens those of other processes through /proc. */
#include "shm/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int kolo_memory_file_create(const char *title, unsigned flags) {
    const int fd = memfd_create(title, flags | MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fchmod(fd, 0600) == 0) /* by default any process that may look into /proc/PID/fd can open the file */
        return fd;
    const int error = errno;
    close(fd);
    return -error;
}

int kolo_memory_file_name(int fd, struct kolo_memory_file *file) {
    struct stat found;
    if (fstat(fd, &found) < 0)
        return -errno;
    *file = (struct kolo_memory_file){(uint64_t)gettid(), (uint64_t)fd, found.st_dev, found.st_ino};
    return 0;
}

int kolo_memory_file_open(const struct kolo_memory_file *file, int access) {
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/fd/%" PRIu64, file->pid, file->fd);
    const int fd = open(path, access | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode)
        return fd;
    close(fd);
    return -ESRCH;
}
