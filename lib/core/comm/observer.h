/* The observer finds the segments of running jobs from outside, through /proc. It is for kolo_watch.h.
 *
 * A segment has no name. But every rank has it mapped, and keeps a descriptor of its file open: /proc/PID/maps lists
 * inodes and offsets of a process's shared mappings, and /proc/PID/fd leads to the files, which are opened again, for
 * reading only. The kernel allows that only to the same user (and to root, which is refused here). A mapping is a
 * segment if a header with the right magic stands at its beginning; everything in the header is copied, then checked.
 * The part above may look for other files of jobs among those mappings; each belongs to the segment that it names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/memory_file.h"

/* A file of a job that is not a segment. Whoever finds it extends the struct; the observer frees it. */
struct kolo_observed_file {
    struct kolo_memory_file place; /* where it was last open */
    uint64_t segment_device, segment_inode, segment_offset;
    bool over; /* all ranks have left it, or have ended */
};

/* Finds what begins in the file `place`, which `fd` is a descriptor of. NULL: nothing, or no memory for it. */
typedef struct kolo_observed_file *kolo_observed_find_fn(int fd, const struct kolo_memory_file *place);

struct kolo_observed {
    int fd; /* opened for reading */
    uint64_t device;
    uint64_t inode;
    uint64_t offset; /* of the segment in the file */
    uint32_t ranks;
    struct kolo_layout layout;
    char job[KOLO_JOB_NAME_BYTES];
    struct kolo_reading *reading; /* for kolo_watch.h: one allocation, freed with this; NULL: none yet */
};

struct kolo_observer {
    struct kolo_observed *list;
    size_t count;
    kolo_observed_find_fn *find;       /* NULL: nothing but segments is looked for */
    struct kolo_observed_file **files; /* each one's memory is its own */
    size_t files_count;
};

/* Adds the segments of `target` ("": of all jobs of this user), see kolo_watch_search, that the observer does not have
 * yet, and other files. Drops files that are over, or of no segment that it has. Errors as of kolo_watch_search. */
int kolo_observer_search(struct kolo_observer *observer, const char *target);

/* Drops the segment at `index`; the segments behind it move up. */
void kolo_observer_drop(struct kolo_observer *observer, size_t index);

void kolo_observer_close(struct kolo_observer *observer);

/* Open files: those that other processes of this user have open. */

enum { KOLO_OPEN_FILES_MAX = 1024 };

/* The open files of a process that may hold shared memory. */
struct kolo_open_files {
    struct kolo_memory_file list[KOLO_OPEN_FILES_MAX];
    size_t count;
};

/* Opens that file for reading, through one of the process's descriptors of it; *place becomes that descriptor. The
 * process may close and open descriptors at any time, so `files` may be listed anew. Returns a descriptor, or -1. */
int kolo_open_files_open(uint32_t pid, struct kolo_open_files *files, uint64_t device, uint64_t inode,
                         struct kolo_memory_file *place);
