/* Workers' clocks, and what a rank does from its first call to its last.
 *
 * Staleness > 0 (stale synchronous parallel; unbounded: asynchronous). A worker stores its clock, and `reached`, after
 * all that it has pushed in the clocks before is in queues or applied. So a worker that finds `reached` of all workers
 * at c - s or later finds all their pushes of clocks up to c - s - 1 in queues or in pieces. It then waits until each
 * queue is empty up to where it is filled now, and whatever it pulls in its clock c contains those pushes. It does that
 * once per clock, and pulls look at nothing but pieces. A rank that has ended, or left, has UINT64_MAX in `reached`.
 *
 * Staleness 0 (bulk synchronous parallel). The workers keep what they push during a clock, and it is applied when the
 * clock ends. A worker has room for an update of each piece, where it adds up what it pushes, and a bit for each piece
 * that it has pushed in this clock. Only that worker writes there, and only before it ends its clock. It ends clock c
 * by raising its word, `clock`, from 2c to 2c + 2, by compare-and-swap.
 *
 * Closing. A clock c can be closed once enough workers have ended it: all of them, or with backup workers all but so
 * many. Any rank then raises the words of the other workers to 2c + 1, by compare-and-swap, and then the table's
 * `closed` from c to c + 1. So each worker either ended clock c or is left out of it, the same for all ranks that look
 * from then on. A worker that is left out does not raise its word again before the clock's updates are in the pieces,
 * after which no rank looks at that clock. Several ranks may be closing at once, and may end in the middle: each step
 * can be done twice.
 *
 * Folding. After that, a rank that takes the role of a shard whose `folded` is c folds the shard: for each of its
 * pieces that a worker of clock c has pushed, it sums the workers' updates as kolo_allreduce does, with zeros for those
 * that have not pushed it, and applies the rule to the sum. Before each piece it stores in `place` which piece it is,
 * and the low bits of its sequence, in one word, and after the last piece that all are done; then it raises `folded`. A
 * rank that takes the role from a rank that has ended goes on there: if the piece's sequence is another one, the piece
 * has been written. A worker goes on when all shards are folded. From then on no rank reads its updates, and it clears
 * its bits.
 *
 *   a worker's end              staleness 0                           with backup workers
 *   before its word is raised   PEER_DEAD: nobody closes the clock    it is left out
 *   after that                  PEER_DEAD in this clock or the next   its updates count
 *   while it closes             as that of a worker                   others close
 *   while it folds              as that of a worker                   the next one goes on behind the last piece */
#pragma once

#include "table/table.h"

/* The waiter's other work: does what this rank waits for, if no other rank is doing it. */
bool kolo_clocks_help(kolo_waiter *waiter);

/* Ends this worker's clock. With staleness 0 it returns when the clock is closed and folded. */
int kolo_clocks_advance(struct kolo_table *table);

/* Waits until no worker is too far behind, and the pushes that the staleness promises are in the pieces. */
int kolo_clocks_wait(struct kolo_table *table);

/* Runs a server: applies what comes until all workers have left or ended. */
int kolo_clocks_serve(struct kolo_table *table);

/* Makes this rank leave the table. */
void kolo_clocks_leave(struct kolo_table *table);

/* Sets the learning rate, to the bits of a double, unless one of a later clock is set. False: no number is left for it
 * in this clock. */
bool kolo_rate_set(struct kolo_table *table, uint64_t bits);

/* Returns the rate; *set: which set of it this is, for kolo_rate_take of other nodes, whose thread calls it. */
uint64_t kolo_rate_get(const struct kolo_table *table, uint64_t *set);
void kolo_rate_take(struct kolo_table *table, uint64_t set, uint64_t bits);

/* Staleness 0. */

/* Reserves memory for this worker's updates of elements first .. end - 1. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM. */
int kolo_synchronous_reserve(struct kolo_table *table, uint64_t first, uint64_t end);

/* Adds an update to what this worker pushes in this clock. */
void kolo_synchronous_stage(struct kolo_table *table, uint64_t piece, const void *update);

/* Closes a clock and folds shards, as far as that is due and no other rank does it. */
void kolo_synchronous_help(struct kolo_table *table);
