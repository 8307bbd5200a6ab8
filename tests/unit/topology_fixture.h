/* Machines to read a topology from: folders in the shape of sysfs, made from short descriptions. */
#pragma once

#include "cpu/topology.h"

/* Makes a temporary folder from topologies/NAME.txt and reads its topology for the CPUs of `allowed`, a list such as
 * "0-3,8". A description has a line for each file, or for one file of many CPUs:
 *     file PATH TEXT                the file PATH, with TEXT
 *     cpus LIST PATH TEXT           devices/system/cpu/cpuN/PATH for each N of LIST, "%" in TEXT being N, "@" LIST
 * The folder is removed. Fails the test where something of this does not work. */
void fixture_read(const char *name, const char *allowed, kolo_topology *topology);

/* A folder of one's own, without the description's: created empty, and removed with all that it has. */
void fixture_folder_create(char *root, size_t root_bytes);
void fixture_folder_remove(const char *root);

/* Writes root/path, its folders too. */
void fixture_write(const char *root, const char *path, const char *text, size_t bytes);

/* The CPUs of a list, which must be one. */
kolo_cpu_set fixture_cpus(const char *list);
