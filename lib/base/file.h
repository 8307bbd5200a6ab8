/* Reads small files, as of /proc or of a user's configuration, as untrusted bytes. Also checks descriptors that are
 * kept open for long, and has what kolorun tells ranks by a file. */
#ifndef KOLO_BASE_FILE_H
#define KOLO_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Reads up to `room` bytes of the regular file `path` into `text`, without a NUL behind them. Returns how many, or a
 * negative errno: -EINVAL where it is no regular file. A pipe in its place does not block. */
ssize_t kolo_file_read(const char *path, char *text, size_t room);

/* The same for a file that only this user or root can have written: else -EPERM, whatever path led to it. */
ssize_t kolo_file_read_own(const char *path, char *text, size_t room);

/* The same for an open file, from its present offset. */
ssize_t kolo_file_read_open(int fd, char *text, size_t room);

/* Reads `bytes` of an open file from `offset` on. Returns how many it got: fewer where the file ends, or fails. */
size_t kolo_file_read_at(int fd, void *to, size_t bytes, uint64_t offset);

/* Opens a regular file of this user's for reading: a descriptor, or a negative errno; -EPERM: it is something else, or
 * another user's. Follows no link, and never blocks, not even on a pipe. */
int kolo_file_open_own(const char *path, struct stat *found);

/* A program may close descriptors that are not its own, as closefrom(3) does, and open others under their numbers. So
 * the library checks a descriptor that it has kept open for long before it uses or closes it. */

/* Whether `fd` is open and refers to that very file. */
bool kolo_file_is(int fd, uint64_t device, uint64_t inode);

/* Closes `fd` if kolo_file_is. Does nothing if `fd` is negative. */
void kolo_file_close(int fd, uint64_t device, uint64_t inode);

/* If `fd` is a standard stream (0 to 2), closes it and returns a duplicate that is not, or a negative number. Otherwise
 * returns `fd`. */
int kolo_file_raise(int fd);

/* The ranks of a kolorun wait for each other at a file, which may still be empty when one of them ends. So kolorun
 * tells the others by a lock on one byte far behind the file's end, whose place says which rank it was and how it
 * ended. It locks through an open file description of its own: all others show the lock. */

/* For kolorun: its rank `rank`, counted from 0, has ended with this status of waitpid. If that fails, ranks wait until
 * their time is over. */
void kolo_file_end_tell(int fd, int rank, int wait_status);

/* Whether one of `count` ranks from `first` on has ended: which, and how. */
bool kolo_file_end_find(int fd, int64_t first, int64_t count, int64_t *rank, int *wait_status);

#endif
