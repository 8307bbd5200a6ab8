/* Nameless files of memory that processes of one user share: segments for which /dev/shm has no room, those of
 * kolo_comm_shrink, buffers of kolo_alloc. The process that makes one tells the others its descriptor, and they open
 * that through /proc. By then, or in another pid namespace, the pid or the descriptor may mean something else; so the
 * opened file is compared with the one that was named. */
#ifndef KOLO_SHM_MEMORY_FILE_H
#define KOLO_SHM_MEMORY_FILE_H

#include <stdint.h>

/* Where a file is open, and which one it is. It consists of words, so that ranks can exchange it as it is. */
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
