/* The files that kolo-trace is given, by their names or by the folders that they are in. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { INPUT_FILES_MAX = 4096 };

typedef struct input_files {
    char *paths[INPUT_FILES_MAX];
    int count;
} input_files;

/* Finds those of `paths`, which ends in NULL, and those in folders whose names end in `suffix`. Says on standard error
 * which cannot be read; `hint`: why there may be none in a folder. */
void input_files_find(input_files *files, char **paths, const char *suffix, const char *hint);

/* Reads a file of file_bytes_max at most, or its first bytes_max bytes. Returns them, or NULL after a message.
 * after_reading (NULL: nothing) sees them while the file is open. */
unsigned char *input_file_load(const char *path, uint64_t file_bytes_max, size_t bytes_max, size_t *length,
                               void (*after_reading)(int fd, unsigned char *bytes, size_t length));

/* A path as it may be shown, until the next call. */
const char *input_file_shown(const char *path);
