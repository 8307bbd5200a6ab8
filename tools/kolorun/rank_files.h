/* --output: a file for the standard output of each rank, and one for its standard error. */
#ifndef KOLORUN_RANK_FILES_H
#define KOLORUN_RANK_FILES_H

#include <stdbool.h>
#include <stddef.h>

#define RANK_FILES 2

/* Makes the folder, and those above it, where they are not there. Returns 0 or a negative errno. */
int rank_files_prepare(const char *folder);

/* Writes the name of a rank's file into `path`: stream 0 is standard output, 1 standard error. */
void rank_files_path(char *path, size_t path_bytes, const char *folder, int rank, int stream);

/* Opens the files of a rank, empty, or at their end where `again`: it has been started before. The descriptors are the
 * caller's to close. Returns 0, or a negative errno after a message. */
int rank_files_open(const char *folder, int rank, bool again, int fds[RANK_FILES]);

#endif
