/* Files of sysfs, which are not trusted: one line each, of bounded length, refused if illegible. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/cpu_set.h"

/* Reads the first line of `root`/`path`, without white space at its end. False: no such file, or no such line. */
bool kolo_sysfs_line(const char *root, const char *path, char *text, size_t text_bytes);

/* Parses a list such as "0-3,8,10-11"; CPUs from KOLO_CPUS_MAX on are only counted, in *count (may be NULL). Returns
 * false, with *set empty, if the text is no such list. */
bool kolo_sysfs_list_parse(const char *text, kolo_cpu_set *set, uint32_t *count);

/* Like kolo_sysfs_list_parse, for the first line of a file. */
bool kolo_sysfs_list(const char *root, const char *path, kolo_cpu_set *set, uint32_t *count);

/* Reads a number with an optional unit K, M or G of 1024, such as "32768K". Returns false where there is none. */
bool kolo_sysfs_number(const char *root, const char *path, uint64_t *number);
