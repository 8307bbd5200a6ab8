/* Copies between buffers, one for each way in which the destination is used afterwards. Neither buffer needs alignment;
 * they must not overlap. */
#ifndef KOLO_REDUCE_COPY_H
#define KOLO_REDUCE_COPY_H

#include <stddef.h>

/* The destination is read soon, by this core or by another: it stays in the caches. */
void kolo_copy(void *dst, const void *src, size_t bytes);

/* The same where no other core has the destination. */
void kolo_copy_plain(void *dst, const void *src, size_t bytes);

/* The destination is not read soon: it goes past the caches, which keep what they hold. This thread sees its own
 * stores; other threads see them in order only after kolo_fence_stream (sync/fence.h). That is called once, after the
 * last of many pieces: with pieces of 16 KiB, waiting for each to reach memory would take a third of the time. `next`,
 * unless NULL, points to as many bytes that this thread reads soon: they are prefetched meanwhile. */
void kolo_copy_stream(void *dst, const void *src, size_t bytes, const void *next);

/* Finds out which copy is fastest on this CPU. Until it has been called, kolo_copy and kolo_copy_plain are memcpy;
 * kolo_reducer_select calls it. Any number of threads may call it, at any time. */
void kolo_copy_select(void);

#endif
