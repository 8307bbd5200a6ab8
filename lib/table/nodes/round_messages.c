/* The messages of a round, and how they are applied. A message consists of entries: each is a piece's number, with its
 * word (table/nodes/outbox.h) in the high bits, and then the update, or values and state. Entries are in the order of
 * shards, and of pieces. */
#include <stdlib.h>

#include "table/nodes/rounds.h"
#include "base/status.h"
#include "table/nodes/outbox.h"
#include "table/shard.h"

#define WORD_SHIFT 48 /* of an entry's first word, below it the piece */
#define PIECE_MASK ((UINT64_C(1) << WORD_SHIFT) - 1)

int kolo_round_reserve(struct kolo_rounds *rounds, struct kolo_round_message *message, size_t bytes) {
    if (bytes <= message->room)
        return 0;
    uint8_t *grown = realloc(message->bytes, bytes + bytes / 2);
    if (!grown)
        return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: a table's exchange between nodes: out of memory",
                         rounds->view.comm->global_rank);
    message->bytes = grown;
    message->room = bytes + bytes / 2;
    return 0;
}

/* Makes room for another entry of so many bytes, at *body, behind its first word, which it sets. */
static int append(struct kolo_rounds *rounds, struct kolo_round_message *message, uint64_t first, size_t bytes,
                  uint8_t **body) {
    const int rc = kolo_round_reserve(rounds, message, message->used + sizeof first + bytes);
    if (rc < 0)
        return rc;
    memcpy(message->bytes + message->used, &first, sizeof first);
    *body = message->bytes + message->used + sizeof first;
    message->used += sizeof first + bytes;
    return 0;
}

/* Takes the pending updates of one shard's pieces, for its owner. */
static int take_shard(struct kolo_rounds *rounds, uint32_t shard) {
    struct kolo_table *table = &rounds->view;
    int rc = kolo_round_take_role(rounds, shard);
    if (rc < 0)
        return rc;
    if (!kolo_table_is_synchronous(table))
        kolo_shard_drain(table, shard);
    for (uint64_t piece = 0; rc == 0 && (piece = kolo_outbox_next(table, shard, piece)) != KOLO_NO_PIECE; piece++) {
        const void *update;
        const uint64_t word = kolo_outbox_pending(table, piece, &update);
        const size_t bytes = kolo_outbox_update_bytes(table, piece);
        uint8_t *body;
        if (word && (rc = append(rounds, &rounds->up, word << WORD_SHIFT | piece, bytes, &body)) < 0)
            break;
        kolo_outbox_forget(table, piece);
        if (!word)
            continue;
        memcpy(body, update, bytes);
        kolo_outbox_clear(table, piece);
    }
    kolo_shard_give(table, shard);
    return rc;
}

int kolo_round_take(struct kolo_rounds *rounds) {
    struct kolo_table *table = &rounds->view;
    int rc = 0;
    rounds->up.used = 0;
    memset(rounds->taken, 0, table->nodes->nodes * sizeof *rounds->taken);
    for (uint32_t i = 0; i < rounds->peers && rc == 0; i++) {
        struct kolo_round_peer *peer = &rounds->peer[i];
        struct kolo_round_list *list = &rounds->taken[peer->node];
        peer->to_at = list->at = rounds->up.used;
        for (uint32_t shard = 0; i != rounds->self && shard < table->shards && rc == 0; shard++)
            if (kolo_table_shard_node(table, shard) == peer->node)
                rc = take_shard(rounds, shard);
        peer->to = list->bytes = rounds->up.used - list->at;
        list->owner = peer->node;
    }
    return rc;
}

/* What peer `peer` has sent is no message. kolo_table's calls say so, which is why this thread notes it. */
static int refuse_message(struct kolo_rounds *rounds, uint32_t peer) {
    rounds->refused = peer + 1;
    return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: a table's exchange: another node has sent what makes no sense",
                     rounds->view.comm->global_rank);
}

bool kolo_round_entry(const struct kolo_table *table, const uint8_t *at, size_t left, bool is_update,
                      struct kolo_round_entry *entry) {
    uint64_t first;
    if (left < sizeof first)
        return false;
    memcpy(&first, at, sizeof first);
    entry->piece = first & PIECE_MASK;
    entry->word = first >> WORD_SHIFT;
    entry->body = at + sizeof first;
    if (entry->piece >= table->pieces.pieces)
        return false;
    entry->bytes = sizeof first + (is_update ? kolo_outbox_update_bytes(table, entry->piece)
                                             : kolo_outbox_version_bytes(table, entry->piece));
    return entry->bytes <= left;
}

int kolo_round_put(struct kolo_rounds *rounds, uint32_t peer, const uint8_t *at, size_t left, bool are_updates) {
    struct kolo_table *table = &rounds->view;
    uint32_t held = KOLO_NO_WAIT;
    struct kolo_round_entry entry;
    uint64_t applied = 0;
    int rc = 0;
    for (; left > 0 && rc == 0; at += entry.bytes, left -= entry.bytes) {
        if (!kolo_round_entry(table, at, left, are_updates, &entry)) {
            rc = refuse_message(rounds, peer);
            break;
        }
        const uint32_t shard = kolo_piece_shard(&table->pieces, entry.piece);
        if (shard != held && held != KOLO_NO_WAIT)
            kolo_shard_give(table, held);
        if (shard != held && (rc = kolo_round_take_role(rounds, shard)) < 0)
            return rc;
        held = shard;
        if (are_updates) {
            kolo_shard_write(table, entry.piece, entry.body);
            applied++;
        } else
            kolo_outbox_receive(table, entry.piece, entry.body);
    }
    if (held != KOLO_NO_WAIT)
        kolo_shard_give(table, held);
    kolo_table_count(&table->self->applied, applied);
    return rc;
}

/* Staleness 0: the piece of a node's next entry, if it is of that shard; else KOLO_NO_PIECE. */
static uint64_t peek(struct kolo_rounds *rounds, const struct kolo_round_peer *peer, uint32_t shard,
                     struct kolo_round_entry *entry) {
    const struct kolo_table *table = &rounds->view;
    if (peer->node == table->node || !kolo_round_entry(table, rounds->received.bytes + peer->from_at + peer->next,
                                                       peer->from - peer->next, true, entry))
        return KOLO_NO_PIECE;
    return kolo_piece_shard(&table->pieces, entry->piece) == shard ? entry->piece : KOLO_NO_PIECE;
}

/* Joins the nodes' folds of a piece, which the next entries may have, and applies the rule. */
static void join_piece(struct kolo_rounds *rounds, uint32_t shard, uint64_t piece) {
    struct kolo_table *table = &rounds->view;
    uint64_t workers = 0, word, lowest = UINT64_MAX;
    uint32_t sources = 0;
    const void *update = NULL;
    struct kolo_round_entry entry;
    for (uint32_t i = 0; i < rounds->peers; i++) {
        struct kolo_round_peer *peer = &rounds->peer[i];
        const void *source = NULL;
        if (i == rounds->self)
            word = kolo_outbox_pending(table, piece, &source);
        else if (peek(rounds, peer, shard, &entry) == piece) {
            word = entry.word;
            source = entry.body;
            peer->next += entry.bytes;
        } else
            word = 0;
        if (word && word < lowest) {
            lowest = word;
            update = source;
        }
        const uint64_t folded = rounds->heard[i].folded;
        if (folded)
            rounds->sources[sources++] = word ? source : table->zeros;
        workers += folded;
    }
    if (!update)
        return;
    if (table->rule.kind != KOLO_TABLE_ASSIGN) {
        const size_t count = kolo_outbox_update_bytes(table, piece) / table->rule.pending_bytes;
        const kolo_kernel *kernel = &table->comm->reducer->kernels[table->rule.dtype][table->options.op];
        kernel->finish(table->sum, rounds->sources, sources, count, (uint32_t)workers);
        update = table->sum;
    }
    kolo_shard_write(table, piece, update);
    kolo_table_count(&table->self->applied, 1);
}

static int join_shard(struct kolo_rounds *rounds, uint32_t shard) {
    struct kolo_table *table = &rounds->view;
    const int rc = kolo_round_take_role(rounds, shard);
    if (rc < 0)
        return rc;
    for (uint64_t from = 0;;) { /* the bits stay: the pieces have changed for all */
        uint64_t piece = kolo_outbox_next(table, shard, from);
        struct kolo_round_entry entry;
        for (uint32_t i = 0; i < rounds->peers; i++) {
            const uint64_t theirs = peek(rounds, &rounds->peer[i], shard, &entry);
            piece = theirs < piece ? theirs : piece;
        }
        if (piece == KOLO_NO_PIECE)
            break;
        join_piece(rounds, shard, piece);
        from = piece + 1;
    }
    kolo_shard_give(table, shard);
    return 0;
}

int kolo_round_apply(struct kolo_rounds *rounds) {
    struct kolo_table *table = &rounds->view;
    int rc = 0;
    if (!kolo_table_is_synchronous(table)) {
        for (uint32_t i = 0; i < rounds->peers && rc == 0; i++)
            if (i != rounds->self)
                rc = kolo_round_put(rounds, i, rounds->received.bytes + rounds->peer[i].from_at, rounds->peer[i].from,
                                    true);
        return rc;
    }
    for (uint32_t i = 0; i < rounds->peers; i++)
        rounds->peer[i].next = 0;
    for (uint32_t shard = 0; shard < table->shards && rc == 0; shard++)
        if (!kolo_table_is_foreign(table, shard))
            rc = join_shard(rounds, shard);
    for (uint32_t i = 0; i < rounds->peers && rc == 0; i++)
        if (i != rounds->self && rounds->peer[i].next != rounds->peer[i].from)
            rc = refuse_message(rounds, i);
    return rc;
}

int kolo_round_collect(struct kolo_rounds *rounds) {
    struct kolo_table *table = &rounds->view;
    for (uint32_t shard = 0; shard < table->shards; shard++) {
        if (kolo_table_is_foreign(table, shard))
            continue;
        int rc = kolo_round_take_role(rounds, shard);
        if (rc < 0)
            return rc;
        if (!kolo_table_is_synchronous(table)) /* what workers have pushed in the round's clock may be in queues */
            kolo_shard_drain(table, shard);
        for (uint64_t piece = 0; (piece = kolo_outbox_next(table, shard, piece)) != KOLO_NO_PIECE; piece++) {
            uint8_t *body;
            rc = append(rounds, &rounds->own, piece, kolo_outbox_version_bytes(table, piece), &body);
            if (rc < 0)
                break;
            kolo_outbox_forget(table, piece);
            kolo_outbox_copy(table, piece, body);
        }
        kolo_shard_give(table, shard);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int kolo_round_receive(struct kolo_rounds *rounds) {
    int rc = 0;
    for (uint32_t i = 0; i < rounds->peers && rc == 0; i++) {
        const uint32_t node = rounds->peer[i].node;
        if (i != rounds->self)
            rc = kolo_round_put(rounds, i, rounds->all.bytes + rounds->told_at[node], rounds->told_bytes[node], false);
    }
    return rc;
}
