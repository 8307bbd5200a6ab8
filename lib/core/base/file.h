/* These functions read small files, as of /proc or of a user's configuration, as untrusted bytes. Others check
 * descriptors that are kept open for long, and let kolorun tell ranks through a file that a rank has ended. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Reads up to `room` bytes of the regular file `path` into `text`, without a NUL behind them. Returns how many, or a
 * negative errno: -EINVAL where it is no regular file. A pipe in its place does not block. */
ssize_t kolo_file_read(const char *path, char *text, size_t room);

/* Like kolo_file_read, for a file that only this user or root can have written; -EPERM for any other. */
ssize_t kolo_file_read_own(const char *path, char *text, size_t room);

#define KOLO_FILE_ONWARD UINT64_MAX

/* Reads `bytes` of an open file from `offset` on, or from its present one (KOLO_FILE_ONWARD). Returns how many it has
 * read, fewer where the file ends, or a negative errno. */
ssize_t kolo_file_read_at(int fd, void *to, size_t bytes, uint64_t offset);

/* Provides the pages of `bytes` from `offset` on. Returns 0 or an errno. */
int kolo_file_allocate(int fd, uint64_t offset, size_t bytes);

/* Opens a regular file of this user's for reading. Returns a descriptor or a negative errno: -EPERM where the path
 * leads to something else, or to another user's file. Follows no link, and never blocks, not even on a pipe. */
int kolo_file_open_own(const char *path, struct stat *found);

/* Makes a folder, and those above it, as far as they are not there. Returns 0 or a negative errno. */
int kolo_file_folder(const char *path, mode_t mode);

/* A program may close descriptors that are not its own, as closefrom(3) does, and open others under their numbers. So
 * the library checks a descriptor that it has kept open for long before it uses or closes it. */

/* Tells whether `fd` is open and refers to that very file. */
bool kolo_file_is(int fd, uint64_t device, uint64_t inode);

/* Closes `fd` if kolo_file_is. Does nothing if `fd` is negative. */
void kolo_file_close(int fd, uint64_t device, uint64_t inode);

/* Returns `fd` or, if that is a standard stream (0 to 2), closes it and returns a duplicate or a negative number. */
int kolo_file_raise(int fd);

/* The ranks of a kolorun wait for each other at a file, which may still be empty when one of them ends. So kolorun
 * tells the other ranks by a lock on one byte far behind the file's end; the byte's place says which rank has ended and
 * how. kolorun locks through an open file description of its own, so that every other one sees the lock. */

/* kolorun calls this when its rank `rank`, counted from 0, has ended with this status of waitpid. Without the lock
 * others wait to their deadline. */
void kolo_file_end_tell(int fd, int rank, int wait_status);

/* Tells whether one of `count` ranks from `first` on has ended, which one, and how. */
bool kolo_file_end_find(int fd, int64_t first, int64_t count, int64_t *rank, int *wait_status);
