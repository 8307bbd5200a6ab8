/* How much memory is left for this process. */
#ifndef KOLO_CPU_MEMORY_H
#define KOLO_CPU_MEMORY_H

#include <stdint.h>

/* Bytes that can still be had without swapping: what the machine has, or what the control groups (v2: memory.max, v1:
 * memory.limit_in_bytes) leave, whichever is less; UINT64_MAX where neither can be read. */
uint64_t kolo_memory_available(void);

#endif
