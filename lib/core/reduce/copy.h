/* Copies between buffers, one for each way in which the destination is used afterwards. Neither buffer needs alignment;
 * they must not overlap. */
#ifndef KOLO_REDUCE_COPY_H
#define KOLO_REDUCE_COPY_H

#include <stddef.h>

/* Copies to a destination that is read soon, by this core or by another: it stays in the caches. */
void kolo_copy(void *dst, const void *src, size_t bytes);

/* Like kolo_copy, where no other core has the destination. */
void kolo_copy_plain(void *dst, const void *src, size_t bytes);

/* Copies to a destination that is not read soon: the data goes past the caches, which keep what they hold. This thread
 * sees its own stores; other threads see them in order only after kolo_fence_stream (sync/fence.h). The caller calls
 * that once, after the last of many pieces: with pieces of 16 KiB, waiting for each piece to reach memory would take a
 * third of the time. `next`, unless NULL, points to as many bytes that this thread reads soon: they are prefetched
 * meanwhile. */
void kolo_copy_stream(void *dst, const void *src, size_t bytes, const void *next);

/* Finds out which copy is fastest on this CPU. Until this has been called, kolo_copy and kolo_copy_plain are memcpy;
 * kolo_reducer_select calls it. Any number of threads may call it, at any time. */
void kolo_copy_select(void);

#endif
