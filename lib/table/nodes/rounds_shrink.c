/* Rounds after the end of a node, of a table that goes on without workers that have ended.
 *
 * The leaders that are left shrink their communicator, including those that wait for their workers. Each tells the
 * others which round it is in, and whether it has applied the updates that came in it. No node begins a round before
 * all nodes have applied the updates of the round before, and each keeps what it has sent until the next round. So
 * there are two cases:
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

enum { STATE_WORDS = 3 };

/* The state that a node tells the others. */
struct state {
    uint64_t node, round, is_applied;
};

static_assert(sizeof(struct state) == STATE_WORDS * sizeof(uint64_t), "words");

static const struct state *state_of(const struct state *states, uint32_t count, uint32_t node) {
    for (uint32_t i = 0; i < count; i++)
        if (states[i].node == node)
            return &states[i];
    return NULL;
}

/* Takes the heir's own updates for shards that are its own now. staleness > 0: its copies have them already, and the
 * other nodes get those copies. */
static int adopt(struct kolo_rounds *rounds, const struct kolo_round_peer *gone) {
    struct kolo_table *table = &rounds->view;
    for (size_t at = 0; at < gone->to;) {
        struct kolo_round_entry entry;
        if (!kolo_round_entry(table, rounds->up.bytes + gone->to_at + at, gone->to - at, true, &entry))
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
        at += entry.bytes;
    }
    return 0;
}

/* Whether what was for a node goes to that peer now. */
static bool is_for(const struct kolo_rounds *rounds, const struct state *states, uint32_t count, uint32_t node,
                   const struct kolo_round_peer *peer) {
    const struct state *state = state_of(states, count, node);
    if (peer->node == rounds->view.node)
        return false;
    return state ? node == peer->node && !(state->round == rounds->round && state->is_applied)
                 : peer->node == states[0].node;
}

/* Joins the lists for a peer, each of which is in the order of shards and pieces, to one in that order. */
static int join(struct kolo_rounds *rounds, const struct state *states, uint32_t count, struct kolo_round_message *to,
                const struct kolo_round_peer *peer) {
    const struct kolo_pieces *pieces = &rounds->view.pieces;
    for (;;) {
        struct kolo_round_peer *from = NULL;
        struct kolo_round_entry entry, least = {0};
        uint32_t least_shard = UINT32_MAX;
        for (uint32_t old = 0; old < rounds->peers; old++) {
            struct kolo_round_peer *was = &rounds->peer[old];
            if (was->next == was->to || !is_for(rounds, states, count, was->node, peer))
                continue;
            if (!kolo_round_entry(&rounds->view, rounds->up.bytes + was->to_at + was->next, was->to - was->next, true,
                                  &entry))
                return KOLO_ERR_SYSTEM;
            const uint32_t shard = kolo_piece_shard(pieces, entry.piece);
            if (shard >= least_shard) /* no two nodes had the same shard */
                continue;
            from = was;
            least = entry;
            least_shard = shard;
        }
        if (!from)
            return 0;
        const int rc = kolo_round_reserve(rounds, to, to->used + least.bytes);
        if (rc < 0)
            return rc;
        memcpy(to->bytes + to->used, rounds->up.bytes + from->to_at + from->next, least.bytes);
        to->used += least.bytes;
        from->next += least.bytes;
    }
}

/* Sorts the taken updates by the nodes that are left: sets to and to_at of peers[0 .. count-1]. The first is heir. */
static int reroute(struct kolo_rounds *rounds, const struct state *states, struct kolo_round_peer *peers,
                   uint32_t count) {
    struct kolo_round_message routed = {0};
    int rc = kolo_round_reserve(rounds, &routed, 1);
    for (uint32_t old = 0; old < rounds->peers && rc == 0; old++) {
        rounds->peer[old].next = 0;
        if (peers[0].node == rounds->view.node && !state_of(states, count, rounds->peer[old].node))
            rc = adopt(rounds, &rounds->peer[old]);
    }
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        peers[i].to_at = routed.used;
        rc = join(rounds, states, count, &routed, &peers[i]);
        peers[i].to = routed.used - peers[i].to_at;
    }
    if (rc < 0) {
        free(routed.bytes);
        return rc;
    }
    free(rounds->up.bytes);
    rounds->up = routed;
    return 0;
}

/* Sends one node's part of the owners' pieces again, in the round that is over for some nodes, to the nodes for which
 * it is not. `bytes`, unless NULL: this node sends the part. */
static int tell_again(struct kolo_rounds *rounds, const uint8_t *bytes, uint64_t count, bool is_behind) {
    struct kolo_round_message *to = &rounds->received; /* which has been applied */
    uint64_t most = 0;
    count = bytes ? count : 0;
    int rc = kolo_allreduce(rounds->leaders, &count, &most, 1, KOLO_U64, KOLO_MAX);
    const uint64_t own = bytes ? rounds->self + 1 : 0;
    uint64_t teller = 0;
    if (rc == 0)
        rc = kolo_allreduce(rounds->leaders, &own, &teller, 1, KOLO_U64, KOLO_MAX);
    if (rc == 0)
        rc = kolo_round_reserve(rounds, to, most);
    if (rc < 0 || most == 0 || teller == 0)
        return rc;
    if (bytes)
        memcpy(to->bytes, bytes, most);
    rc = kolo_broadcast(rounds->leaders, to->bytes, most, KOLO_U8, (int)teller - 1);
    return rc == 0 && is_behind ? kolo_round_put(rounds, (uint32_t)teller - 1, to->bytes, most, false) : rc;
}

/* Sends or takes again the pieces of the round that some nodes have ended. */
static int catch_up(struct kolo_rounds *rounds, const struct state *states, uint32_t count, uint64_t first_round) {
    const bool is_behind = rounds->round == first_round;
    uint32_t helper = 0;
    while (states[helper].round == first_round)
        helper++;
    int rc = 0;
    for (uint32_t node = 0; node < rounds->view.nodes->nodes && rc == 0; node++) {
        const bool is_own = node == rounds->view.node;
        const bool helps = states[helper].node == rounds->view.node && !state_of(states, count, node);
        const uint8_t *bytes = is_own ? rounds->own.bytes : helps ? rounds->all.bytes + rounds->told_at[node] : NULL;
        rc = tell_again(rounds, bytes, is_own ? rounds->own.used : rounds->told_bytes[node], is_behind && !is_own);
    }
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
    uint64_t first_round = UINT64_MAX, last_round = 0;
    if (!peers)
        return KOLO_ERR_SYSTEM;
    for (uint32_t i = 0; i < count; i++) {
        peers[i].node = (uint32_t)states[i].node;
        first_round = states[i].round < first_round ? states[i].round : first_round;
        last_round = states[i].round > last_round ? states[i].round : last_round;
    }
    note_gone(rounds, states, count);
    KOLO_POINT("rounds.inherited");
    /* A node that is behind has applied all updates that came, and the ended node those for its own shards. */
    const bool is_behind = rounds->round < last_round;
    int rc = is_behind ? 0 : reroute(rounds, states, peers, count);
    if (rc == 0) {
        for (uint32_t i = 0, old = 0; i < count; i++, old++) { /* both are in the order of nodes */
            while (rounds->peer[old].node != peers[i].node)
                old++;
            rounds->heard[i] = rounds->heard[old];
        }
        memcpy(rounds->peer, peers, count * sizeof *peers);
        rounds->peers = count;
        rounds->self = (uint32_t)kolo_comm_rank(rounds->leaders);
        rounds->up.used = is_behind ? 0 : rounds->up.used;
    }
    free(peers);
    KOLO_POINT("rounds.rerouted");
    if (rc == 0 && first_round != last_round)
        rc = catch_up(rounds, states, count, first_round);
    KOLO_POINT("rounds.caught_up");
    rounds->is_over = rc == 0 && is_behind;
    return rc;
}

int kolo_round_go_on(struct kolo_rounds *rounds) {
    kolo_comm *left = NULL;
    kolo_comm_info info = {.info_bytes = sizeof info};
    kolo_comm_query(rounds->view.comm, &info);
    /* Exchanges have no limit, since workers may compute for long. The leaders come at once, whatever they do. */
    kolo_comm_set_timeout(rounds->leaders, info.timeout_ms);
    KOLO_POINT("rounds.shrinking");
    int rc = kolo_comm_shrink(rounds->leaders, &left);
    KOLO_POINT("rounds.shrunk");
    rounds->is_cut_off = rc < 0;
    if (rc < 0) /* TIMEOUT would be for a worker that may still come */
        return rc == KOLO_ERR_TIMEOUT ? KOLO_ERR_PEER_DEAD : rc;
    kolo_comm_destroy(rounds->leaders);
    rounds->leaders = left;
    kolo_round_prepare(left);
    const uint32_t count = (uint32_t)kolo_comm_size(left);
    struct state *states = calloc(count, sizeof *states);
    if (!states)
        return KOLO_ERR_SYSTEM;
    const struct state own = {
        .node = rounds->view.node, .round = rounds->round, .is_applied = rounds->step == KOLO_ROUND_APPLIED};
    rc = kolo_allgather(left, &own, states, STATE_WORDS, KOLO_U64);
    KOLO_POINT("rounds.stated");
    if (rc == 0)
        rc = resume(rounds, states, count);
    free(states);
    return rc;
}
