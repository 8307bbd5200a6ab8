/* Tables of several nodes: what a node keeps for the others, and what it gets from them.
 *
 * Each node has all pieces in its memory, so that pulls are local and wait for nobody. A shard is one node's, that of
 * the rank which owns it. On the other nodes its pieces are copies.
 *
 * Pending. A version of a piece has room, behind values and state, for an update that is yet to travel: a word, 0 for
 * none, and the update. What a worker pushes to a copy is applied to it at once, so that the node sees its own pushes,
 * and is added to what is pending. Both become current by the one store of the piece's sequence. So what shard.h says
 * of ranks that end holds for what is pending, too. staleness > 0: pending is the sum of the node's pushes since it was
 * taken last; ASSIGN: the last of them. staleness 0: pending is the fold of the node's workers' updates, as
 * kolo_allreduce hands it on from node to node: not rounded, not divided. That is so on the owner's node, too, where it
 * is joined with those of the others. ASSIGN: the update of the lowest rank, plus one, which is the word.
 *
 * `changed` has a bit for each piece. The holder of the shard's role sets it before it writes the piece, and the
 * leader's thread clears it, with the role: so it finds what is pending in copies, and what other nodes have to get of
 * its own.
 *
 * All functions but kolo_outbox_next need the role of the piece's shard. */
#ifndef KOLO_TABLE_NODES_OUTBOX_H
#define KOLO_TABLE_NODES_OUTBOX_H

#include "table/rows/versions.h"

#define KOLO_NO_PIECE UINT64_MAX

/* While kolo_shard_write makes a version: what is pending in it. */
void kolo_outbox_note(struct kolo_table *table, const struct kolo_writing *writing, const void *update);

/* Staleness 0: the piece's values stay, and `partial` is pending. */
void kolo_outbox_hold(struct kolo_table *table, uint64_t piece, const void *partial, uint64_t word);

/* What is pending: its word, 0 for nothing, and where it is, until the piece is written. */
uint64_t kolo_outbox_pending(const struct kolo_table *table, uint64_t piece, const void **update);

/* The piece is to be told to all, though nobody writes it now. */
void kolo_outbox_tell(struct kolo_table *table, uint64_t piece);

/* Nothing is pending any more. */
void kolo_outbox_clear(struct kolo_table *table, uint64_t piece);

/* What has come back from the owner: values and state, one behind the other. What is pending is applied to it. */
void kolo_outbox_receive(struct kolo_table *table, uint64_t piece, const void *from);

/* Copies values and state, which are so many bytes. */
void kolo_outbox_copy(const struct kolo_table *table, uint64_t piece, void *to);
size_t kolo_outbox_version_bytes(const struct kolo_table *table, uint64_t piece);

/* Bytes of what is pending of a piece. */
size_t kolo_outbox_update_bytes(const struct kolo_table *table, uint64_t piece);

/* The first piece of the shard from `piece` on whose bit is set, or KOLO_NO_PIECE. */
uint64_t kolo_outbox_next(const struct kolo_table *table, uint32_t shard, uint64_t piece);

/* Clears the piece's bit. */
void kolo_outbox_forget(struct kolo_table *table, uint64_t piece);

#endif
