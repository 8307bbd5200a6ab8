/* Memory for kolo_alloc: a nameless file that all ranks of a communicator map whole, one part per rank, each part
 * placed by its owner. It is freed when the last process has unmapped it or has ended. */
#ifndef KOLO_SHM_REGION_H
#define KOLO_SHM_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "shm/memory_file.h"

struct kolo_region {
    uint8_t *base;     /* part r is at base + r * part_bytes; NULL: not mapped */
    size_t part_bytes; /* whole pages; whole huge pages from one huge page on */
    uint32_t parts;
};

/* Bytes of a part that holds `bytes`; 0 if `parts` of them are more than can be mapped. */
size_t kolo_region_part_bytes(size_t bytes, uint32_t parts);

/* Returns a descriptor of a new file of `parts` parts, of huge pages where the system has set enough of them aside.
 * KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM. */
int kolo_region_create(size_t part_bytes, uint32_t parts);

/* Maps all parts and fills part `own` with zeroed pages near the calling thread. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM,
 * with nothing left mapped. */
int kolo_region_map(struct kolo_region *region, int fd, size_t part_bytes, uint32_t parts, uint32_t own);

/* Gives the memory of part `own` back and unmaps all parts. */
void kolo_region_leave(struct kolo_region *region, uint32_t own);

/* In a forked child: unmaps, and leaves what is shared alone. */
void kolo_region_forget(struct kolo_region *region);

#endif
