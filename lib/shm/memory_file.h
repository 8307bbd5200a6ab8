/* Nameless files of memory that processes of one user share: segments for which /dev/shm has no room, those of
 * kolo_comm_shrink, buffers of kolo_alloc. Who makes one tells the others which of its descriptors it is, and they open
 * that anew through /proc. A pid or a descriptor may mean something else by then, or in another pid namespace: what is
 * opened must be the very file. */
#ifndef KOLO_SHM_MEMORY_FILE_H
#define KOLO_SHM_MEMORY_FILE_H

#include <stdint.h>

/* Where a file is open, and which one it is. Words, so that it can go from rank to rank as such. */
struct kolo_memory_file {
    uint64_t pid; /* of the thread that has it open: a process whose first thread has ended shows no files itself */
    uint64_t fd, device, inode;
};

/* Makes an empty file that only this user may open; `flags` as for memfd_create, MFD_CLOEXEC added. Returns a
 * descriptor or a negative errno. */
int kolo_memory_file_create(const char *title, unsigned flags);

/* Fills in *file for descriptor `fd`, to be opened while this thread lives: 0 or a negative errno. */
int kolo_memory_file_name(int fd, struct kolo_memory_file *file);

/* Opens that file for O_RDONLY or O_RDWR, for the caller to close. Returns a descriptor or a negative errno: -ESRCH
 * where another file is there now. */
int kolo_memory_file_open(const struct kolo_memory_file *file, int access);

#endif
