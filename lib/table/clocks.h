/* Workers' clocks with staleness > 0 (stale synchronous parallel; unbounded: asynchronous), and what a rank does from
 * its first call to its last.
 *
 * A worker stores its clock, and `reached`, after all that it has pushed in the clocks before is in queues or applied.
 * So a worker that finds `reached` of all workers at c - s or later finds all their pushes of clocks up to c - s - 1 in
 * queues or in pieces. It then waits until each queue is empty up to where it is filled now, and whatever it pulls in
 * its clock c contains those pushes. It does that once per clock, and pulls look at nothing but pieces.
 *
 * A rank that has ended, or left, has UINT64_MAX in `reached`. */
#ifndef KOLO_TABLE_CLOCKS_H
#define KOLO_TABLE_CLOCKS_H

#include "table/table.h"

/* Prepares the waiter, before the table's first wait. */
void kolo_clocks_begin(struct kolo_table *table);

/* Ends this worker's clock. */
int kolo_clocks_advance(struct kolo_table *table);

/* Waits until no worker is too far behind, and the pushes that the staleness promises are in the pieces. */
int kolo_clocks_wait(struct kolo_table *table);

/* Runs a server: applies what comes until all workers have left or ended. */
int kolo_clocks_serve(struct kolo_table *table);

/* Makes this rank leave the table. */
void kolo_clocks_leave(struct kolo_table *table);

#endif
