/* Copies between buffers, one for each way in which the destination is used afterwards, and lines that are taken over
 * where they were read, or recalled. Buffers need no alignment; they must not overlap. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "sync/atomic.h"

/* Copies to a destination that is read soon, by this core or by another: it stays in the caches. */
void kolo_copy(void *dst, const void *src, size_t bytes);

/* Like kolo_copy, where no other core has the destination. */
void kolo_copy_plain(void *dst, const void *src, size_t bytes);

/* Copies to a destination that is not read soon: the data goes past the caches, which keep what they hold. This thread
 * sees its own stores; other threads see them in order only after kolo_fence_stream (sync/fence.h). The caller calls
 * that once, after the last of many pieces: with pieces of 16 KiB, waiting for each piece to reach memory would take a
 * third of the time. `next`, unless NULL: as many bytes that this thread reads soon, which are prefetched. */
void kolo_copy_stream(void *dst, const void *src, size_t bytes, const void *next);

/* Finds out which copy is fastest on this CPU. Until this has been called, kolo_copy and kolo_copy_plain are memcpy;
 * kolo_reducer_select calls it. Any number of threads may call it, at any time. */
void kolo_copy_select(void);

/* Taking over lines: this core reads memory that another core wrote, and that the other core writes next. It then
 * stores to each line what the line already holds. So the line moves back and forth as a modified one, and no copy of
 * it is left that the writer would have to invalidate. Several cores may do so at once, since nothing changes
 * (take_bytes_min in plan/tuning.c says where that pays).
 *
 * Measured on two cores of an EPYC in a virtual machine: 64 KiB from one core to the other in 4.3 us, not 28, and 1 MiB
 * in 64, not 340; with the two cores nearer, 256 KiB in 8.7, not 17. An Intel (Emerald Rapids) tells the reader of a
 * line that it may write only after another round, and fetches the line back for the writer: there a broadcast of 1 MiB
 * took 1.1 times as long, a reduction 1.15, and nothing is taken over.
 *
 * Recalling lines: there the core that wrote them asks for them back once they have been read and before it writes them
 * again, and does not wait. They come while the call ends and the program computes. Otherwise each store waits for its
 * line, so that an all-reduce of 8 bytes takes 1.2 times as long, a broadcast of 1 to 64 KiB 1.2 to 1.5 times. */

/* Says whether taking over is worth it, as it is without this call, or recalling. Any number of threads may call this,
 * at any time. */
void kolo_take_choose(bool worth_it);

/* Takes over memory that was read. Only this memory is touched: if it begins or ends within a line, others may write
 * the rest of that line meanwhile. A line of which it has no aligned word may stay with the other core. */
void kolo_take(void *memory, size_t bytes);

/* 1: lines are recalled. Only kolo_take_choose writes it. */
extern kolo_atomic_u64 kolo_recalls;

static inline void kolo_recall_line(const void *line) {
    if (kolo_load_relaxed(&kolo_recalls))
        kolo_fetch_line(line);
}

/* Recalls the lines of memory that begins on a line: as much of it as is worth it. */
void kolo_recall(const void *memory, size_t bytes);

/* Copies like kolo_copy_plain, or where it `streams` like kolo_copy_stream, and takes over the source. */
void kolo_copy_take(void *dst, void *src, size_t bytes, bool streams);
