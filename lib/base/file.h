/* Small files, as of /proc or of a user's configuration, read as untrusted bytes. */
#ifndef KOLO_BASE_FILE_H
#define KOLO_BASE_FILE_H

#include <sys/types.h>

/* Reads up to `room` bytes of the regular file `path` into `text`, without a NUL behind them. Returns how many, or a
 * negative errno: -EINVAL where it is no regular file. A pipe in its place does not block. */
ssize_t kolo_file_read(const char *path, char *text, size_t room);

/* The same of a file that only this user, or root, can have written: else -EPERM, whatever path led to it. */
ssize_t kolo_file_read_own(const char *path, char *text, size_t room);

/* The same of a file that is open already, from where it stands. */
ssize_t kolo_file_read_open(int fd, char *text, size_t room);

#endif
