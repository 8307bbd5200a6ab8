/* Which CPU each rank is bound to.
 */
#ifndef KOLORUN_BINDING_H
#define KOLORUN_BINDING_H

#include <stddef.h>

#define SYSFS_CPUS "/sys/devices/system/cpu"

/* Lists the CPUs that this process may run on, ascending, in a new array that the caller frees. Returns 0 or a
 * negative errno. */
int binding_allowed_cpus(int **cpus, size_t *count);

/* Reorders `cpus` (distinct, ascending) as ranks take them: one hardware thread of every physical core first,
 * then the second threads, and so on. Cores are told apart by the files under `sysfs`; a CPU without such a
 * file counts as a core of its own. Returns 0 or a negative errno. */
int binding_order_by_core(int *cpus, size_t count, const char *sysfs);

/* Binds the calling process to one CPU. Returns 0 or a negative errno. */
int binding_apply(int cpu);

#endif
