/* Rounds of tables of several nodes: how the pushes of one node come to the others.
 *
 * The lowest rank of each node, its leader, has a thread, and the leaders have a communicator of their own. The threads
 * go through rounds together. A round has five steps:
 *
 *   wait      staleness > 0: until all workers of this node have ended clock k, in round k, or have gone; unbounded:
 *             for a moment; 0: until clock k is closed and folded on this node
 *   take      what is pending in pieces of other nodes, in one message for each, with the role of each shard
 *   exchange  sizes and what else a node has to say (struct kolo_round_notice), then the messages (kolo_alltoallv)
 *   apply     to own shards, by the rule, the sum of each node by itself, in the order of nodes;
 *             staleness 0: the nodes' folds are joined as kolo_allreduce does it, and the rule is applied once
 *   return    the owners tell all what their changed pieces are now, values and state (kolo_allgatherv);
 *             those go into the copies, and `arrived` of the header becomes k + 1
 *
 * So `arrived` k + 1 on a node says that all pushes of clock k of all nodes are in its pieces, and a worker that goes
 * on to clock c waits for c - s. Updates to a row travel summed, once for each clock and node, however often the row
 * was pushed.
 *
 * Bytes that a node sends in a round, with n nodes, m pieces of others that its workers have pushed, and p own pieces
 * that have changed: (n - 1) notices + m (8 + a piece's update) + (n - 1) (8 + p (8 + a piece's values and state))
 *
 *   end of                      leaves
 *   a worker                    what shard.h and clocks.h say of it; its node's thread sees that it has gone
 *   a node's leader, or all of  strict (staleness 0 without backup workers): all others get PEER_DEAD
 *   its ranks, or its cable     tolerant: its other ranks get PEER_DEAD. The leaders that are left agree as
 *                               rounds_shrink.c says, and go on
 *   an exchange, for want of    all get SYSTEM
 *   memory
 *
 * With strict tables a node that does not come to an exchange in time breaks the communicator: all get TIMEOUT.
 *
 * The rounds end with the one in which no worker is left on any node. A leader that leaves before does not wait for it:
 * its table is a remnant of the communicator, and kolo_comm_destroy waits. No table closes a circle there: a leader
 * that waits has left all tables of the communicator, and its threads go on, so that no worker in these tables waits
 * for its clock or its rounds. What else a worker that has not left waits for is the program's: a collective of that
 * communicator ends at its limit, but one of another communicator, or another one's table, may not. Hence what
 * kolo_table_destroy asks of programs. */
#pragma once

#include <pthread.h>

#include "table/table.h"

/* Starts the thread of a table that is complete. Collective; ranks that are not leaders have no thread. */
int kolo_rounds_start(struct kolo_table *table);

/* For a leader that has left: returns whether its thread has ended, which is when the workers of all nodes have gone.
 * Ranks that are not leaders have none to wait for. */
bool kolo_rounds_are_over(struct kolo_table *table);

/* Waits for that, or until the program is interrupted, which aborts the table's communicator. */
void kolo_rounds_join(struct kolo_table *table);

/* Frees a leader's memory, after that, or in a forked child. */
void kolo_rounds_free(struct kolo_table *table);

/* The rest is for the thread's own files. */

/* A node's notice to another node, before the message. */
struct kolo_round_notice {
    uint64_t bytes;   /* of the message */
    uint64_t workers; /* that are there */
    uint64_t dead;
    uint64_t slowest, slowest_rank, fastest; /* clocks of workers that are there; UINT64_MAX, and 0: none is */
    uint64_t folded;                         /* staleness 0: workers whose updates are in the pending ones */
    uint64_t rate_set, rate;                 /* of kolo_rate_get */
};

struct kolo_round_message {
    uint8_t *bytes;
    size_t used, room;
};

/* The state of each other node that is left, by its rank among the leaders, which is in the order of nodes. */
struct kolo_round_peer {
    uint32_t node;
    size_t to, to_at;     /* bytes for the node in `up` that it has not applied, and their begin */
    size_t from, from_at; /* bytes from the node in `received`, and their begin */
    size_t next;          /* staleness 0: next entry of `received` to join */
};

/* What was pending for shards of a node, as it was taken into `up` in this round. */
struct kolo_round_list {
    size_t bytes, at;
    size_t next;    /* entry to join */
    uint32_t owner; /* the node that has these shards now */
    uint64_t moved; /* `rerouted` when the shards came to that node; 0: before the round */
};

struct kolo_rounds {        /* pages of arrays that no node needs cost nothing */
    struct kolo_table view; /* the table as this thread has it, with memory of its own where threads would share some */
    struct kolo_shared_table_rank *line; /* the thread's counters */
    kolo_comm *leaders;
    pthread_t thread;
    kolo_atomic_u64 go; /* to the thread: STARTED or ABANDONED, of rounds.c */
    kolo_bell go_bell;
    kolo_atomic_u64 interrupted; /* the code with which the program has interrupted kolo_rounds_join; 0: it has not */
    struct kolo_liveness liveness;
    int64_t slice_ns; /* of the wait under way */

    uint64_t round;
    bool is_taken;     /* in this round what was pending is in `up` */
    uint64_t applied;  /* 0: no update of this round yet; else `rerouted` at the last time, plus one */
    uint64_t rerouted; /* how often the leaders that are left have agreed who owns the shards */
    uint32_t peers, self;
    uint32_t refused; /* the peer whose message makes no sense, plus one; 0: none */
    struct kolo_round_peer peer[KOLO_RANKS_MAX];
    struct kolo_round_notice notice, told[KOLO_RANKS_MAX], heard[KOLO_RANKS_MAX];
    size_t told_bytes[KOLO_RANKS_MAX], told_at[KOLO_RANKS_MAX]; /* by node: of its part of `all` */
    struct kolo_round_list taken[KOLO_RANKS_MAX];               /* by node */
    struct kolo_round_message up, received, own, all;
    size_t counts[2][KOLO_RANKS_MAX], offsets[2][KOLO_RANKS_MAX];
    const void *sources[KOLO_RANKS_MAX]; /* of a join */
    uint64_t sent_bytes;
    uint64_t hurry; /* of the header, when it was looked at last */
    bool has_thread;
    bool is_over;    /* the others have said in kolo_round_go_on that the round is over */
    bool is_cut_off; /* found in kolo_round_go_on: this node cannot go on with the others */
    bool was_busy;   /* the last round has carried something */
};

/* The steps. Each returns 0 or a status. */
int kolo_round_take(struct kolo_rounds *rounds);
int kolo_round_apply(struct kolo_rounds *rounds);
int kolo_round_collect(struct kolo_rounds *rounds); /* fills `own`, for all nodes */
int kolo_round_receive(struct kolo_rounds *rounds);

/* Goes on after the end of a node: 0, or the status with which the rounds end. */
int kolo_round_go_on(struct kolo_rounds *rounds);

/* Prepares the communicator of leaders, which waits for workers that compute, for the thread that calls this. */
void kolo_round_prepare(struct kolo_rounds *rounds);

/* One entry of a message. */
struct kolo_round_entry {
    uint64_t piece, word;
    const uint8_t *body;
    size_t bytes; /* in all */
};

/* Reads the entry at `at`, which is an update, or else values and state. False: the bytes are no entry. */
bool kolo_round_entry(const struct kolo_table *table, const uint8_t *at, size_t left, bool is_update,
                      struct kolo_round_entry *entry);

/* Writes a peer's entries into pieces: updates by the rule, or values and state from owners. */
int kolo_round_put(struct kolo_rounds *rounds, uint32_t peer, const uint8_t *at, size_t bytes, bool are_updates);

/* Takes the role of a shard, and waits for it if another rank has it. */
int kolo_round_take_role(struct kolo_rounds *rounds, uint32_t shard);

/* Makes room for so many bytes. */
int kolo_round_reserve(struct kolo_rounds *rounds, struct kolo_round_message *message, size_t bytes);
