/* The observer finds the segments and tables of running jobs from outside, through /proc. It is for kolo_watch.h.
 *
 * A segment has no name. But every rank has it mapped, and keeps a descriptor of its file open: /proc/PID/maps lists
 * inodes and offsets of a process's shared mappings, and /proc/PID/fd leads to the files, which are opened again, for
 * reading only. The kernel allows that only to the same user (and to root, which is refused here). A mapping is a
 * segment if a header with the right magic stands at its beginning; everything in the header is copied, then checked. A
 * table is found likewise, see comm/observed_tables.h; it belongs to the communicator whose segment it names. */
#ifndef KOLO_COMM_OBSERVER_H
#define KOLO_COMM_OBSERVER_H

#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"

struct kolo_observed_table;

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
    struct kolo_observed_table **tables; /* each one's memory is its own */
    size_t tables_count;
};

/* Adds the segments of `target` ("": of all jobs of this user), see kolo_watch_open, that the observer does not have
 * yet, and tables. Drops tables that are over, or of no segment that it has. Errors as of kolo_watch_open. */
int kolo_observer_search(struct kolo_observer *observer, const char *target);

/* Drops the segment at `index`; the segments behind it move up. */
void kolo_observer_drop(struct kolo_observer *observer, size_t index);

void kolo_observer_close(struct kolo_observer *observer);

#endif
