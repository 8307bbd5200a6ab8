/* The CPU time and the memory that control groups, version 1 or 2, and the machine leave to this process. */
#pragma once

#include <stdint.h>

/* Up to two numbers at the start of `directory`/`name`; returns how many there were ("max" is none). */
int kolo_cgroup_read(const char *directory, const char *name, int64_t *first, int64_t *second);

/* Returns the tightest limit on this process, of cgroup v2 (cpu.max) or v1 (cpu.cfs_quota_us), in thousandths of one;
 * 0: none. */
uint32_t kolo_quota_read(void);

/* Returns the bytes that can still be had without swapping: what the machine has left or what the control groups (v2:
 * memory.max, v1: memory.limit_in_bytes) leave, whichever is less; UINT64_MAX where neither can be read. */
uint64_t kolo_memory_available(void);

/* Returns the bytes of the machine's memory or, if that is less, the least of the control groups' limits. */
uint64_t kolo_memory_total(void);

/* Returns the rest of a limit of which used_bytes are used, dropped_bytes of those in pages that the group can drop.
 * The rest is at least 1, since 0 means no limit. dropped_bytes, read later, may exceed used_bytes. */
static inline uint64_t kolo_memory_left(int64_t limit_bytes, int64_t used_bytes, int64_t dropped_bytes) {
    const int64_t kept_bytes = used_bytes > dropped_bytes ? used_bytes - dropped_bytes : 0;
    return limit_bytes > kept_bytes ? (uint64_t)(limit_bytes - kept_bytes) : 1;
}
