/* The outbox of a table of several nodes: updates that a node keeps for the other nodes, and pieces that it gets from
 * them.
 *
 * Each node has all pieces in its memory, so that pulls are local and wait for no other node. A shard belongs to one
 * node, that of the rank which owns it. On the other nodes its pieces are copies.
 *
 * Pending updates. A version of a piece has room, behind values and state, for an update that is yet to travel: a word,
 * 0 for none, and the update. A worker's push to a copy is applied to the copy at once, so that the node sees its own
 * pushes, and is added to the pending update. Both become current by the one store of the piece's sequence, so that
 * what shard.h says of ranks that end holds for pending updates, too. With staleness > 0 the pending update is the sum
 * of the node's pushes since it was taken last; of ASSIGN the last of them. With staleness 0 it is the fold of the
 * node's workers' updates, as kolo_allreduce passes it on from node to node: not rounded, not divided. Then the owner's
 * node has one, too, which is joined with those of the others. Of ASSIGN it is the update of the lowest rank, and the
 * word is that rank plus one.
 *
 * `changed` has a bit for each piece. The holder of the shard's role sets the bit before it writes the piece, and the
 * leader's thread clears it, with the role. So that thread finds the copies with pending updates, and those of the
 * node's own pieces that other nodes have to get.
 *
 * A caller of any function but kolo_outbox_next holds the role of the piece's shard. */
#pragma once

#include "table/rows/versions.h"

#define KOLO_NO_PIECE UINT64_MAX

/* Notes the update in what is pending, while kolo_shard_write makes a version. */
void kolo_outbox_note(struct kolo_table *table, const struct kolo_writing *writing, const void *update);

/* Staleness 0: keeps the piece's values, and makes `partial` pending. */
void kolo_outbox_hold(struct kolo_table *table, uint64_t piece, const void *partial, uint64_t word);

/* The pending update: its word, 0 for none, and its place, until the piece is written. */
uint64_t kolo_outbox_pending(const struct kolo_table *table, uint64_t piece, const void **update);

/* Marks the piece as one that all nodes have to get, though no rank writes it now. */
void kolo_outbox_tell(struct kolo_table *table, uint64_t piece);

/* Clears what is pending. */
void kolo_outbox_clear(struct kolo_table *table, uint64_t piece);

/* Takes a piece that has come back from the owner, values and then state. Applies the pending update to it. */
void kolo_outbox_receive(struct kolo_table *table, uint64_t piece, const void *from);

/* Copies values and state, which have as many bytes as the next function says. */
void kolo_outbox_copy(const struct kolo_table *table, uint64_t piece, void *to);
size_t kolo_outbox_version_bytes(const struct kolo_table *table, uint64_t piece);

/* Bytes of a piece's pending update. */
size_t kolo_outbox_update_bytes(const struct kolo_table *table, uint64_t piece);

/* The first piece of the shard from `piece` on whose bit is set, or KOLO_NO_PIECE. */
uint64_t kolo_outbox_next(const struct kolo_table *table, uint32_t shard, uint64_t piece);

/* Clears the piece's bit. */
void kolo_outbox_forget(struct kolo_table *table, uint64_t piece);
