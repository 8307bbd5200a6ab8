/* The shared files, which are the job file and the segments: their mapping and unmapping. */
#pragma once

#include "shm/layout.h"

/* This process's view of a communicator's segment. */
struct kolo_segment {
    struct kolo_shared_header *header; /* the mapping itself */
    struct kolo_shared_member *members;
    struct kolo_shared_signal *signals;
    struct kolo_shared_history *histories;
    struct kolo_shared_lines *lines;
    struct kolo_shared_mailbox *mailboxes;
    struct kolo_shared_ring *rings; /* see kolo_layout, as for the next. NULL: limits of the system left no room */
    struct kolo_shared_stream *streams;
    uint8_t *slots;
    struct kolo_shared_internode *internode; /* NULL: there is one node */
    uint8_t *internode_slots;
    size_t slot_bytes;
    size_t bytes;
    size_t allocated; /* bytes before the rings */
    uint64_t offset;  /* in the file behind fd */
    int fd;           /* own descriptor; -1: closed */
    uint64_t device;  /* which file it is, from kolo_segment_close on; 0 before */
    uint64_t inode;
    bool lacks_slots; /* this rank's have no memory yet: see plan_and_run in api/path.c */
    bool counted;     /* the mapping is rank 0's, shared by threads of its process, and counted in header->occupancy */
};

/* Allocates `bytes` at `offset` of `fd`, page by page, so that no later access finds memory missing. KOLO_ERR_NO_SPACE
 * (message set: need, limit, remedy), KOLO_ERR_SYSTEM. */
int kolo_segment_allocate(int fd, uint64_t offset, size_t bytes);

/* Allocates a segment at `offset` of `fd`, and in the file the length for rings, unless a limit forbids that. *bytes
 * becomes the length. *lacks_slots: slots have no memory yet, as there is plenty of it. As kolo_segment_allocate. */
int kolo_segment_allocate_all(int fd, uint64_t offset, const struct kolo_layout *layout, size_t *bytes,
                              bool *lacks_slots);

/* Gives memory to whole pages of a segment that had none at the beginning, and that nobody else uses yet: no later
 * access finds memory missing. May change the last byte of each page. KOLO_ERR_NO_SPACE, message set. */
int kolo_segment_provide(void *pages, size_t bytes);

/* Likewise, to the slots of `rank`, the caller; of two ranks, which swap slots, to all. Changes no byte. */
int kolo_segment_provide_slots(struct kolo_segment *segment, uint32_t rank);

/* Maps `bytes` at `offset` of fd, not for forked children. KOLO_ERR_NO_SPACE: address space. KOLO_ERR_SYSTEM. */
int kolo_segment_map(int fd, uint64_t offset, size_t bytes, void **address);

/* Like kolo_segment_map, for a segment with a length of *bytes. Where a limit forbids a mapping of that length, *bytes
 * becomes less: the bytes before the rings. */
int kolo_segment_map_all(int fd, uint64_t offset, const struct kolo_layout *layout, size_t *bytes, void **address);

/* Fills in the view of a mapping. */
void kolo_segment_view(struct kolo_segment *segment, void *mapping, size_t bytes, uint32_t ranks, size_t slot_bytes,
                       uint32_t internode);

/* Keeps what has no memory yet out of core dumps. On several nodes it maps the slots of `rank`, the caller, at once,
 * and moves them to its NUMA node, since rank 0 has allocated them all. Best effort: where the system refuses, they
 * stay where they are. */
void kolo_segment_settle(const struct kolo_segment *segment, uint32_t rank);

/* What a rank, and a user of rank 0's mapping, add to the occupancy. At first rank 0 alone uses its mapping. */
#define KOLO_OCCUPANCY_RANK (UINT64_C(1) << 32)
#define KOLO_OCCUPANCY_USER UINT64_C(1)

/* For rank 0: counts `users` ranks more as users of its mapping; fewer where `users` is below 0. */
void kolo_segment_lend(struct kolo_segment *segment, int32_t users);

/* For a rank that is a thread of rank 0's process and counted as a user: replaces its own mapping by rank 0's. */
void kolo_segment_borrow(struct kolo_segment *segment, void *mapping);

/* Closes the descriptor, unless it is needed. The caller knows that all ranks have mapped the segment: from then on
 * they use only the mapping. The first few segments to which no other descriptor of this process leads keep theirs,
 * since tools can look at a segment only through a descriptor. */
#define KOLO_SEGMENTS_KEPT_MAX 32
void kolo_segment_close(struct kolo_segment *segment, bool needed);

/* Leaves the segment for good: unmaps it, and gives the memory back if no rank is left. */
void kolo_segment_leave(struct kolo_segment *segment);

/* Leaves the segment on behalf of a rank whose process has ended without leaving. If several ranks try, one does it. */
void kolo_segment_mark_dead(struct kolo_segment *segment, uint32_t rank);

/* For a forked child, which has not inherited the mapping: closes the descriptor. */
void kolo_segment_forget(struct kolo_segment *segment);
