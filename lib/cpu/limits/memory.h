/* How much memory is left for this process. */
#ifndef KOLO_CPU_LIMITS_MEMORY_H
#define KOLO_CPU_LIMITS_MEMORY_H

#include <stdint.h>

/* Bytes that can still be had without swapping: what the machine has, or what the control groups (v2: memory.max, v1:
 * memory.limit_in_bytes) leave, whichever is less; UINT64_MAX where neither can be read. */
uint64_t kolo_memory_available(void);

/* What is left of a limit of which used_bytes are used, dropped_bytes of those in pages that the group can drop. At
 * least 1, since 0 means no limit. The numbers were read one after the other, so there may seem to be more to drop than
 * is used. */
static inline uint64_t kolo_memory_left(int64_t limit_bytes, int64_t used_bytes, int64_t dropped_bytes) {
    const int64_t kept_bytes = used_bytes > dropped_bytes ? used_bytes - dropped_bytes : 0;
    return limit_bytes > kept_bytes ? (uint64_t)(limit_bytes - kept_bytes) : 1;
}

#endif
