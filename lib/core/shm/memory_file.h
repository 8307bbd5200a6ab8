/* Nameless files of memory that processes of one user share: segments for which /dev/shm has no room, those of
 * kolo_comm_shrink, buffers of kolo_alloc. The process that makes such a file tells the others its pid and descriptor,
 * and they open the file through /proc. By then, or in another pid namespace, the pid or the descriptor may mean
 * something else; so the opened file is compared with the one that was named. */
#ifndef KOLO_SHM_MEMORY_FILE_H
#define KOLO_SHM_MEMORY_FILE_H

#include <stdint.h>

/* The name of a nameless file: where it is open, and which file it is. The struct consists of words, so that ranks can
 * exchange it as it is. */
struct kolo_memory_file {
    uint64_t pid; /* of the thread that has the file open: a process whose first thread has ended shows no files */
    uint64_t fd, device, inode;
};

/* Makes an empty file that only this user may open; `flags` as for memfd_create, MFD_CLOEXEC added. Returns a
 * descriptor or a negative errno. */
int kolo_memory_file_create(const char *title, unsigned flags);

/* Fills in *file for descriptor `fd`, which others can open while this thread lives. Returns 0 or a negative errno. */
int kolo_memory_file_name(int fd, struct kolo_memory_file *file);

/* Opens that file for O_RDONLY or O_RDWR. Returns a descriptor, which the caller closes, or a negative errno: -ESRCH
 * where another file has taken its place. */
int kolo_memory_file_open(const struct kolo_memory_file *file, int access);

#endif
