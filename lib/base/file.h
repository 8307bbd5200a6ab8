/* Small files, as of /proc or of a user's configuration, read as untrusted bytes; and descriptors kept open for long.
 */
#ifndef KOLO_BASE_FILE_H
#define KOLO_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads up to `room` bytes of the regular file `path` into `text`, without a NUL behind them. Returns how many, or a
 * negative errno: -EINVAL where it is no regular file. A pipe in its place does not block. */
ssize_t kolo_file_read(const char *path, char *text, size_t room);

/* The same of a file that only this user, or root, can have written: else -EPERM, whatever path led to it. */
ssize_t kolo_file_read_own(const char *path, char *text, size_t room);

/* The same of a file that is open already, from where it stands. */
ssize_t kolo_file_read_open(int fd, char *text, size_t room);

/* A program may close descriptors that are not its own, as closefrom(3) does, and open others under their numbers. What
 * the library keeps open for long it looks at again before it uses it or closes it. */

/* Whether `fd` is open and of that very file. */
bool kolo_file_is(int fd, uint64_t device, uint64_t inode);

/* Closes `fd` if it is. Negative: does nothing. */
void kolo_file_close(int fd, uint64_t device, uint64_t inode);

/* Returns a descriptor that is no standard stream, in place of `fd`, which is closed if it is one; below 0: that. */
int kolo_file_raise(int fd);

#endif
