/* Taking over lines: this core reads memory that another core wrote, that nobody else reads, and that the other core
 * writes next. It then stores to each line what the line already holds. So the line moves back and forth as a modified
 * one, and no copy of it is left that the writer would have to invalidate.
 *
 * Measured on two cores of an EPYC in a virtual machine: 64 KiB from one core to the other in 4.3 us, not 28, and 1 MiB
 * in 64, not 340; with the two cores nearer, 256 KiB in 8.7, not 17. An Intel (Emerald Rapids) tells the reader of a
 * line that it may write only after another round, and fetches the line back for the writer: there a broadcast of 1 MiB
 * took 1.1 times as long, a reduction 1.15, and nothing is taken over. */
#ifndef KOLO_REDUCE_TAKE_H
#define KOLO_REDUCE_TAKE_H

#include <stdbool.h>
#include <stddef.h>

/* Says whether taking over is worth it; without this call it is. Any number of threads may call this, at any time. */
void kolo_take_choose(bool worth_it);

/* Takes over memory that was read. Only this memory is touched: if it begins or ends within a line, others may write
 * the rest of that line meanwhile. A line of which it has less than 8 bytes may stay with the other core. */
void kolo_take(void *memory, size_t bytes);

/* Copy like kolo_copy_plain and kolo_copy_stream (reduce/copy.h), and take over the source. */
void kolo_copy_take(void *dst, void *src, size_t bytes);
void kolo_copy_take_stream(void *dst, void *src, size_t bytes);

#endif
