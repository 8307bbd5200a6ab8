/* Who writes a shard's pieces, and what becomes of updates when ranks end.
 *
 * The role. At most one rank at a time holds the writer role of a shard: its number, plus one, is in `writer`. The role
 * is taken by compare-and-swap from 0 and given back by storing 0. Nobody waits for the role itself. Of a holder that
 * has ended it is taken by compare-and-swap from that rank's number, by a rank that has seen the end (clocks.h).
 *
 * Pushing, staleness > 0. A worker that gets the role applies what is in the shard's queues, then its own updates,
 * straight from the caller's memory. One that does not puts its updates in its queue of the shard, sets its bit in
 * `pending`, and tries the role once more; the holder looks at `pending` once more after it has given the role back.
 * Between the two accesses each has a full fence, so that one of them sees the other's store, and no update stays in a
 * queue that nobody looks at (flat combining: Hendler, Incze, Shavit, Tzafrir, 2010). Of one worker's updates to a
 * piece the order is kept: its queue is empty before it applies others directly.
 *
 * Once. Before the holder applies what is in a queue it notes `piece`, its `sequence`, and `place`, which names the
 * queue and the position there, in this order. Then it writes the piece, its sequence, and `taken` of the queue.
 * Whoever takes the role from a rank that has ended finds
 *
 *   the end came                          place is that of `taken`   the piece's sequence    the successor
 *   before or while noting                no: of an earlier one      as it was               applies the update
 *   before the sequence is stored         yes                        as noted                applies the update
 *   before `taken` is stored              yes                        one more than noted     stores `taken`
 *   after that                            no                         one more than noted     goes on with the next
 *   while it applied its own directly     no                         either                  goes on with the queues
 *
 * In the last case some pieces of a push have been updated and others have not; that call has not returned.
 *
 * Who writes what: a worker its queues' `filled` and bytes, and its bit in `pending`; the holder the rest. */
#ifndef KOLO_TABLE_SHARD_H
#define KOLO_TABLE_SHARD_H

#include "table/table.h"

/* Updates for one shard: pieces in order, or a list. */
struct kolo_listed {
    uint64_t piece;
    const void *update;
};

struct kolo_updates {
    uint64_t piece, end;   /* those of piece .. end - 1 that are the shard's, or none */
    bool has_all;          /* all of them are */
    const uint8_t *values; /* of the elements from first_element on */
    uint64_t first_element;
    const struct kolo_listed *list; /* or these */
    size_t listed;
};

/* Takes the role if it is free, or its holder has ended, and this rank may have it: where there are servers, the
 * shard's own, as long as that is there. What a rank that has ended left undone is set right. */
bool kolo_shard_take(struct kolo_table *table, uint32_t shard);

/* Applies all that is in the queues; the caller holds the role. */
void kolo_shard_drain(struct kolo_table *table, uint32_t shard);

/* Gives the role back, and sees to what others have put into queues meanwhile. */
void kolo_shard_give(struct kolo_table *table, uint32_t shard);

/* Applies all that is in the queues, if this rank can take the role. */
void kolo_shard_help(struct kolo_table *table, uint32_t shard);

/* Applies one update, or, of a whole fold, its sum. The caller holds the role. */
void kolo_shard_write(struct kolo_table *table, uint64_t piece, const void *update);

/* Applies the updates, or has them applied. 0, or the status with which a wait has ended. */
int kolo_shard_push(struct kolo_table *table, uint32_t shard, struct kolo_updates *updates);

/* Waits until all that is in the queues of a shard now is applied; `own`: in this worker's. */
int kolo_shard_settle(struct kolo_table *table, uint32_t shard, bool own);

/* Has all that this worker has pushed applied, so that it pulls its own pushes. */
int kolo_shards_settle_own(struct kolo_table *table);

#endif
