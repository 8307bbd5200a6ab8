/* Files of sysfs as untrusted bytes: one line each, bounded, and refused as a whole where a part cannot be read. */
#ifndef KOLO_CPU_SYSFS_H
#define KOLO_CPU_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/cpu_set.h"

/* Reads the first line of `root`/`path`, without white space at its end. False where there is no such regular file, or
 * the line is empty or does not fit. */
bool kolo_sysfs_line(const char *root, const char *path, char *text, size_t text_bytes);

/* Parses a list such as "0-3,8,10-11"; what it names from KOLO_CPUS_MAX on counts in *count (may be NULL) alone. False,
 * with *set empty, where it is none. */
bool kolo_sysfs_list_parse(const char *text, kolo_cpu_set *set, uint32_t *count);

/* The same of the first line of a file. */
bool kolo_sysfs_list(const char *root, const char *path, kolo_cpu_set *set, uint32_t *count);

/* Reads a number with an optional unit K, M or G of 1024, "32768K". False where it is none. */
bool kolo_sysfs_number(const char *root, const char *path, uint64_t *number);

#endif
