/* Shards: which rank writes a shard's pieces, and what becomes of updates when ranks end.
 *
 * The role. At most one rank at a time holds the writer role of a shard: its number, plus one, is in `writer`. A rank
 * takes the role by compare-and-swap from 0, and gives it back by storing 0. No rank waits for the role itself. Where
 * the holder has ended, a rank that has seen the end (waits.h) takes the role by compare-and-swap from the holder's
 * number.
 *
 * Pushes, staleness > 0. A worker that gets the role applies what is in the shard's queues, then its own updates,
 * straight from the caller's memory. A worker that does not get it puts its updates in its queue of the shard, sets its
 * bit in `pending`, and tries the role once more. The holder looks at `pending` once more after it has given the role
 * back. Both have a full fence between their two accesses, so that one of them sees the other's store, and no update
 * stays in a queue that no rank looks at (flat combining: Hendler, Incze, Shavit, Tzafrir, 2010). The order of one
 * worker's updates to a piece is kept: the worker's queue is empty before it applies others directly.
 *
 * Each update is applied once. Before the holder applies an entry of a queue it notes `piece`, its `sequence`, and
 * `place`, which names the queue and the position there, in this order. Then it writes the piece, its sequence, and
 * `taken` of the queue. A rank that takes the role from a rank that has ended (the successor) finds
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
 * Writers. A worker writes its queues' `filled` and bytes, adds to `fillings`, and sets its bit in `pending`, or that
 * of a worker whose queue it waits for. The holder writes the rest. */
#pragma once

#include "table/table.h"

/* One update of a list. */
struct kolo_listed {
    uint64_t piece;
    const void *update;
};

/* Updates for one shard: pieces in order, or a list. */
struct kolo_updates {
    uint64_t piece, end;   /* the shard's pieces of piece .. end - 1, or none */
    bool has_all;          /* all of these are the shard's */
    const uint8_t *values; /* of the elements from first_element on */
    uint64_t first_element;
    const struct kolo_listed *list; /* in place of the pieces; NULL: there is no list */
    size_t listed;
};

/* Takes the role if it is free, or its holder has ended, and this rank may have it: where there are servers, only the
 * shard's own may, as long as that server is there. Completes what a rank that has ended left undone. */
bool kolo_shard_take(struct kolo_table *table, uint32_t shard);

/* Applies all that is in the queues; the caller holds the role. */
void kolo_shard_drain(struct kolo_table *table, uint32_t shard);

/* Gives the role back, and applies what others have put into queues meanwhile. */
void kolo_shard_give(struct kolo_table *table, uint32_t shard);

/* Applies all that is in the queues, if this rank can take the role. */
void kolo_shard_help(struct kolo_table *table, uint32_t shard);

/* Applies one update, or, of a whole fold, its sum. The caller holds the role. */
void kolo_shard_write(struct kolo_table *table, uint64_t piece, const void *update);

/* Applies the updates, or has them applied by the holder. Returns 0, or the status with which a wait has ended. */
int kolo_shard_push(struct kolo_table *table, uint32_t shard, struct kolo_updates *updates);

/* Waits until all updates that are in the queues of a shard now are applied; `own`: those in this worker's queue. */
int kolo_shard_settle(struct kolo_table *table, uint32_t shard, bool own);

/* Waits until all that this worker has pushed is applied, so that it pulls its own pushes. */
int kolo_shards_settle_own(struct kolo_table *table);
