/* Limits that control groups set. */
#ifndef KOLO_CPU_LIMITS_CGROUP_H
#define KOLO_CPU_LIMITS_CGROUP_H

#include <stdint.h>

/* Returns the limit that one group's directory sets; 0: none. */
typedef uint64_t kolo_cgroup_limit_fn(const char *directory);

/* The tightest limit on this process among its groups and the groups above them: `v2` in the unified hierarchy, `v1` in
 * that of `controller` ("cpu"). 0: there is none, or it cannot be read. */
uint64_t kolo_cgroup_tightest(const char *controller, kolo_cgroup_limit_fn *v2, kolo_cgroup_limit_fn *v1);

/* Up to two numbers at the start of `directory`/`name`; returns how many there were ("max" is none). */
int kolo_cgroup_read(const char *directory, const char *name, int64_t *first, int64_t *second);

#endif
