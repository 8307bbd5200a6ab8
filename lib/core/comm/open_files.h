/* Open files: those that other processes of this user have open, as observers read them. */
#ifndef KOLO_COMM_OPEN_FILES_H
#define KOLO_COMM_OPEN_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "shm/memory_file.h"

enum { KOLO_OPEN_FILES_MAX = 1024 };

/* The open files of a process that may hold shared memory. */
struct kolo_open_files {
    struct kolo_memory_file list[KOLO_OPEN_FILES_MAX];
    size_t count;
};

void kolo_open_files_list(uint32_t pid, struct kolo_open_files *files);

/* Opens that file for reading, through one of the process's descriptors of it; *place becomes that descriptor. The
 * process may close and open descriptors at any time, so `files` may be listed anew. Returns a descriptor; -1: the
 * process does not have the file open. */
int kolo_open_files_open(uint32_t pid, struct kolo_open_files *files, uint64_t device, uint64_t inode,
                         struct kolo_memory_file *place);

#endif
