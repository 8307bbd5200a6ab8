/* What /proc, or a folder of its shape, says of a process. */
#ifndef KOLORUN_PROCESS_FILES_H
#define KOLORUN_PROCESS_FILES_H

#include <stdbool.h>
#include <stddef.h>

#define PROCESS_STATUS_BYTES 8192

/* Reads the file `name` of a process as text, "" where that does not work. */
void process_text_read(const char *proc, long pid, const char *name, char *text, size_t text_bytes);

/* Finds what stands behind `key` in the status file of a process, to the end of the line; false where there is none. */
bool process_status_read(const char *proc, long pid, const char *key, char *value, size_t value_bytes);

/* The letter of the process's state, 'R', 'S', 'T', ...; 0 where there is no such process. */
char process_state(const char *proc, long pid);

#endif
