/* A region is the memory of a kolo_alloc or kolo_share: a nameless file that all ranks of a node map whole. It has a
 * part for each rank, whose pages its owner places, or one part for all. It is freed by the last process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/adoption.h"

/* The properties of a region. */
struct kolo_region_shape {
    const char *function; /* of the API, for messages */
    size_t part_bytes;    /* whole pages; of kolo_alloc whole huge pages from one huge page on */
    uint32_t parts;       /* 1: all ranks have the same memory */
    uint32_t ranks, rank;
    bool small_pages; /* no huge pages: a part is to be mapped at any page */
    bool unpooled;    /* no pages of the pool of huge pages: a control group has refused them */
    bool lazily;      /* nothing is filled: see kolo_region_populate */
};

struct kolo_region {
    uint8_t *base; /* where all parts are mapped, one behind the other; NULL: not mapped */
    uint8_t *own;  /* this rank's part: there, or where the program had it before kolo_share */
    size_t part_bytes;
    uint32_t parts, rank;
    struct kolo_adopted adopted; /* for kolo_share: the own part */
};

/* Returns the part of `rank`. */
static inline uint8_t *kolo_region_part(const struct kolo_region *region, uint32_t rank) {
    return rank == region->rank || region->parts == 1 ? region->own : region->base + rank * region->part_bytes;
}

/* Returns the bytes of a part that holds `bytes`; 0 if `parts` such parts are more than can be mapped. */
size_t kolo_region_part_bytes(size_t bytes, uint32_t parts);

/* Returns whether the file may take huge pages from the pool, which a rank may then not get when it maps them. */
bool kolo_region_may_be_pooled(const struct kolo_region_shape *shape);

/* Returns a descriptor of a new file, of huge pages if there are enough. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM. */
int kolo_region_create(const struct kolo_region_shape *shape);

/* Maps all parts and fills the own part, or this rank's slice of the only one, with zeroed pages near the calling
 * thread. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM, with nothing left mapped. */
int kolo_region_map(struct kolo_region *region, int fd, const struct kolo_region_shape *shape);

/* Takes the pages of `bytes` bytes of a region that was mapped lazily, before they are used: otherwise a store could
 * end the process where memory runs out. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM. Before Linux 5.14: at the first use. */
int kolo_region_populate(const char *function, uint8_t *memory, size_t bytes);

/* Gives the memory of the own part back, if nobody else uses that, and unmaps all parts. A part that the program had
 * before is memory of this process alone again (shm/adoption.h). */
void kolo_region_leave(struct kolo_region *region);

/* Like kolo_region_leave, in a forked child: leaves what is shared alone. */
void kolo_region_forget(struct kolo_region *region);
