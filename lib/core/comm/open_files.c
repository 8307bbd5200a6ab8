/* Open files: listing and opening other processes' files through /proc. */
#include "comm/open_files.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES_MAX = 3 };

void kolo_open_files_list(uint32_t pid, struct kolo_open_files *files) {
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
        kolo_open_files_list(pid, files);
    }
    return -1;
}
