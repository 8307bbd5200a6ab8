/* Rounds after the end of a node, of a table that goes on without workers that have ended.
 *
 * The leaders that are left shrink their communicator, including those that wait for their workers. Each tells the
 * others which round it is in, and whether it has applied the updates that came in it. No node begins a round before
 * all nodes have applied the updates of the round before, and each keeps what it has taken until the next round, in
 * case that more nodes end. So there are two cases:
 *
 *   - All are in round k, which is carried out once more. A node that has applied its updates does not get them again.
 *     Updates for shards of the node that has ended go to the heir of these shards, the lowest node that is left, as do
 *     all later ones: the heir's copies become the pieces. A node that has not taken its pending updates yet does so
 *     first.
 *   - Some are in round k, others in k + 1. Those in round k have applied the updates, but do not have all pieces that
 *     owners have sent. Each owner sends them once more; for the node that has ended, a node that got them does. Then
 *     all are in round k + 1, where updates for the ended node's shards go to the heir.
 *
 * So the owners that are left apply once what a node has sent. Two kinds of updates are lost: those that the ended
 * node's own workers pushed and that had not travelled, and, for its rows, those that it applied in a round that no
 * other node saw end. Of the latter the heir applies those of other nodes again, to values that do not have them. */
#include <stdlib.h>

#include "table/nodes/rounds.h"
#include "sync/point.h"
#include "table/nodes/outbox.h"
#include "table/shard.h"

/* The state that a node tells the others. */
struct state {
    uint64_t node, round, applied, rerouted;
};

static const struct state *state_of(const struct state *states, uint32_t count, uint32_t node) {
    for (uint32_t i = 0; i < count; i++)
        if (states[i].node == node)
            return &states[i];
    return NULL;
}

static bool list_entry(const struct kolo_rounds *rounds, const struct kolo_round_list *list,
                       struct kolo_round_entry *entry) {
    return kolo_round_entry(&rounds->view, rounds->up.bytes + list->at + list->next, list->bytes - list->next, true,
                            entry);
}

/* Takes the heir's own updates for shards that are its own now. staleness > 0: its copies have them already, and the
 * other nodes get those copies. */
static int adopt(struct kolo_rounds *rounds, struct kolo_round_list *gone) {
    struct kolo_table *table = &rounds->view;
    for (struct kolo_round_entry entry; gone->next < gone->bytes; gone->next += entry.bytes) {
        if (!list_entry(rounds, gone, &entry))
            return KOLO_ERR_SYSTEM;
        const uint32_t shard = kolo_piece_shard(&table->pieces, entry.piece);
        const int rc = kolo_round_take_role(rounds, shard);
        if (rc < 0)
            return rc;
        if (kolo_table_is_synchronous(table))
            kolo_outbox_hold(table, entry.piece, entry.body, entry.word);
        else
            kolo_outbox_tell(table, entry.piece);
        kolo_shard_give(table, shard);
    }
    return 0;
}

/* Whether the node of that state has applied a list of this node's round. */
static bool has_applied(const struct kolo_rounds *rounds, const struct state *state,
                        const struct kolo_round_list *list) {
    return state->round > rounds->round || (state->round == rounds->round && state->applied > list->moved);
}

/* Joins the lists that the node of that state is to get, each of which is in the order of shards and pieces, to one in
 * that order, at the end of `up`. */
static int join(struct kolo_rounds *rounds, const struct state *state) {
    for (;;) {
        struct kolo_round_list *from = NULL;
        struct kolo_round_entry entry, least = {0};
        uint32_t least_shard = UINT32_MAX;
        for (uint32_t node = 0; node < rounds->view.nodes->nodes; node++) {
            struct kolo_round_list *list = &rounds->taken[node];
            if (list->next == list->bytes || list->owner != state->node || has_applied(rounds, state, list))
                continue;
            if (!list_entry(rounds, list, &entry))
                return KOLO_ERR_SYSTEM;
            const uint32_t shard = kolo_piece_shard(&rounds->view.pieces, entry.piece);
            if (shard >= least_shard) /* no two nodes had the same shard */
                continue;
            from = list;
            least = entry;
            least_shard = shard;
        }
        if (!from)
            return 0;
        const int rc = kolo_round_reserve(rounds, &rounds->up, rounds->up.used + least.bytes);
        if (rc < 0)
            return rc;
        memcpy(rounds->up.bytes + rounds->up.used, rounds->up.bytes + from->at + from->next, least.bytes);
        rounds->up.used += least.bytes;
        from->next += least.bytes;
    }
}

/* Sorts the taken updates by the nodes that are left, of which the first is heir: sets to and to_at of
 * peers[0 .. count-1]. What was taken stays in `up`, before that: another node may end. */
static int reroute(struct kolo_rounds *rounds, const struct state *states, struct kolo_round_peer *peers,
                   uint32_t count, bool is_behind) {
    int rc = 0;
    rounds->up.used = 0;
    for (uint32_t node = 0; node < rounds->view.nodes->nodes && rc == 0; node++) {
        struct kolo_round_list *list = &rounds->taken[node];
        rounds->up.used += list->bytes;
        list->next = 0;
        if (!state_of(states, count, list->owner)) {
            list->owner = (uint32_t)states[0].node;
            list->moved = rounds->rerouted;
        }
        if (list->owner == rounds->view.node && !is_behind && rounds->applied <= list->moved)
            rc = adopt(rounds, list);
    }
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        peers[i].to_at = rounds->up.used;
        rc = peers[i].node == rounds->view.node ? 0 : join(rounds, &states[i]);
        peers[i].to = rounds->up.used - peers[i].to_at;
    }
    return rc;
}

/* Sends one node's part of the owners' pieces again, in the round that is over for some nodes. `bytes`, unless NULL:
 * this node sends the part. A node that is behind has it in `all` then, so that it can help others. */
static int tell_again(struct kolo_rounds *rounds, uint32_t node, const uint8_t *bytes, size_t count, bool is_behind) {
    struct kolo_round_message *to = is_behind ? &rounds->all : &rounds->received; /* the latter has been applied */
    const uint64_t own[2] = {bytes ? count : 0, bytes ? rounds->self + 1 : 0};
    const size_t at = is_behind ? to->used : 0;
    uint64_t most[2] = {0};
    int rc = kolo_allreduce(rounds->leaders, own, most, 2, KOLO_U64, KOLO_MAX);
    if (rc == 0)
        rc = kolo_round_reserve(rounds, to, at + most[0]);
    if (is_behind) {
        rounds->told_at[node] = at;
        rounds->told_bytes[node] = most[0];
        rounds->counts[0][node] = most[1];
        to->used = at + most[0];
    }
    if (rc < 0 || most[0] == 0)
        return rc;
    if (bytes)
        memcpy(to->bytes + at, bytes, count);
    return kolo_broadcast(rounds->leaders, to->bytes + at, most[0], KOLO_U8, (int)most[1] - 1);
}

/* Sends or takes again the pieces of the round that some nodes have ended. A node that is behind writes none before it
 * has all. */
static int catch_up(struct kolo_rounds *rounds, const struct state *states, uint32_t count, uint64_t first_round) {
    const bool is_behind = rounds->round == first_round;
    uint32_t helper = 0;
    while (states[helper].round == first_round)
        helper++;
    int rc = 0;
    rounds->all.used = 0;
    for (uint32_t node = 0; node < rounds->view.nodes->nodes && rc == 0; node++) {
        const bool is_own = node == rounds->view.node;
        const bool helps = states[helper].node == rounds->view.node && !state_of(states, count, node);
        const uint8_t *bytes = is_own ? rounds->own.bytes : helps ? rounds->all.bytes + rounds->told_at[node] : NULL;
        rc = tell_again(rounds, node, bytes, is_own ? rounds->own.used : rounds->told_bytes[node], is_behind);
    }
    for (uint32_t node = 0; node < rounds->view.nodes->nodes && is_behind && rc == 0; node++)
        if (node != rounds->view.node && rounds->told_bytes[node])
            rc = kolo_round_put(rounds, (uint32_t)rounds->counts[0][node] - 1,
                                rounds->all.bytes + rounds->told_at[node], rounds->told_bytes[node], false);
    return rc;
}

/* Notes that the nodes that are not among the states have ended. */
static void note_gone(struct kolo_rounds *rounds, const struct state *states, uint32_t count) {
    struct kolo_table *table = &rounds->view;
    kolo_store_release(&table->header->heir, states[0].node);
    for (uint32_t node = 0; node < table->nodes->nodes; node++)
        if (!state_of(states, count, node))
            kolo_set_bits(&table->header->gone[node / 64], UINT64_C(1) << node % 64);
}

static int resume(struct kolo_rounds *rounds, struct state *states, uint32_t count) {
    struct kolo_round_peer *peers = calloc(count, sizeof *peers);
    uint64_t first_round = UINT64_MAX, last_round = 0, rerouted = 0;
    if (!peers)
        return KOLO_ERR_SYSTEM;
    for (uint32_t i = 0; i < count; i++) {
        peers[i].node = (uint32_t)states[i].node;
        first_round = states[i].round < first_round ? states[i].round : first_round;
        last_round = states[i].round > last_round ? states[i].round : last_round;
        rerouted = states[i].rerouted > rerouted ? states[i].rerouted : rerouted;
    }
    /* A node that is behind has applied all updates that came, and the ended node those for its own shards. Until the
     * pieces have come that it lacks, they are copies: what is pushed meanwhile is pending, and applied to them. */
    const bool is_behind = rounds->round < last_round;
    if (!is_behind)
        note_gone(rounds, states, count);
    KOLO_POINT("rounds.inherited");
    rounds->rerouted = rerouted + 1;
    int rc = rounds->is_taken ? reroute(rounds, states, peers, count, is_behind) : 0;
    if (rc == 0) {
        for (uint32_t i = 0, old = 0; i < count; i++, old++) { /* both are in the order of nodes */
            while (rounds->peer[old].node != peers[i].node)
                old++;
            rounds->heard[i] = rounds->heard[old];
        }
        memcpy(rounds->peer, peers, count * sizeof *peers);
        rounds->peers = count;
        rounds->self = (uint32_t)kolo_comm_rank(rounds->leaders);
    }
    free(peers);
    KOLO_POINT("rounds.rerouted");
    if (rc == 0 && first_round != last_round)
        rc = catch_up(rounds, states, count, first_round);
    if (rc == 0 && is_behind)
        note_gone(rounds, states, count);
    KOLO_POINT("rounds.caught_up");
    rounds->is_over = rc == 0 && is_behind;
    return rc;
}

int kolo_round_go_on(struct kolo_rounds *rounds) {
    kolo_comm *left = NULL, *old = rounds->leaders;
    kolo_comm_info info = {.info_bytes = sizeof info};
    kolo_comm_query(rounds->view.comm, &info);
    /* Exchanges have no limit, since workers may compute for long. The leaders come at once, whatever they do. */
    kolo_comm_set_timeout(old, info.timeout_ms);
    KOLO_POINT("rounds.shrinking");
    int rc = kolo_comm_shrink(old, &left);
    KOLO_POINT("rounds.shrunk");
    rounds->is_cut_off = rc < 0;
    if (rc < 0) /* TIMEOUT would be for a worker that may still come */
        return rc == KOLO_ERR_TIMEOUT ? KOLO_ERR_PEER_DEAD : rc;
    rounds->leaders = left; /* first: a child that is forked meanwhile leaves the old one alone */
    kolo_comm_destroy(old);
    kolo_round_prepare(rounds);
    const uint32_t count = (uint32_t)kolo_comm_size(left);
    struct state *states = calloc(count, sizeof *states);
    if (!states)
        return KOLO_ERR_SYSTEM;
    const struct state own = {
        .node = rounds->view.node, .round = rounds->round, .applied = rounds->applied, .rerouted = rounds->rerouted};
    rc = kolo_allgather(left, &own, states, sizeof own / sizeof(uint64_t), KOLO_U64);
    KOLO_POINT("rounds.stated");
    if (rc == 0)
        rc = resume(rounds, states, count);
    free(states);
    return rc;
}
