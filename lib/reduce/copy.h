/* Copies of whole buffers, by what the next reader will want of the destination. Neither buffer needs alignment; they
 * must not overlap. */
#ifndef KOLO_REDUCE_COPY_H
#define KOLO_REDUCE_COPY_H

#include <stddef.h>

/* The destination is read soon, by this core or by another. */
void kolo_copy(void *dst, const void *src, size_t bytes);

/* The destination is not read soon: it goes to memory around the caches where that is worth while. A release store that
 * follows orders the copy as it would any other. */
void kolo_copy_stream(void *dst, const void *src, size_t bytes);

#endif
