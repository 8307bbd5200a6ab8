/* The CPU limit that control groups set. */
#ifndef KOLO_CPU_LIMITS_QUOTA_H
#define KOLO_CPU_LIMITS_QUOTA_H

#include <stdint.h>

/* Returns the tightest limit on this process, of cgroup v2 (cpu.max) or v1 (cpu.cfs_quota_us), in thousandths of a CPU;
 * 0 where there is none or it cannot be read. */
uint32_t kolo_quota_read(void);

#endif
