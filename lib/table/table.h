/* A table as its own rank holds it. table/table_layout.h has what the ranks share. */
#pragma once

#include "base/new_file.h"
#include "comm/comm.h"
#include "shm/region.h"
#include "table/table_layout.h"
#include "sync/racing.h"
#include "table/rows/pieces.h"
#include "table/rows/rule.h"

#define KOLO_NO_WAIT              UINT32_MAX
#define KOLO_TABLE_RESERVED_BYTES ((size_t)2 << 20)

#define KOLO_TABLE_FOLDED (UINT64_C(1) << 63) /* in kolo_shared_shard.place, see clocks.h */

struct kolo_table {
    kolo_comm *comm;
    kolo_table_options options; /* checked; pointers of the caller's are not used but function and context */
    struct kolo_pieces pieces;
    struct kolo_rule rule;
    uint64_t made_in_call;          /* the same number on all ranks, and of no other table of `comm` */
    uint32_t rank, ranks, workers;  /* of this node, in the order of their ranks: those below `workers` are */
    uint32_t servers, shards;       /* of all nodes */
    const struct kolo_nodes *nodes; /* NULL: there is one */
    uint32_t node;                  /* this one */
    struct kolo_rounds *rounds;     /* of a node's leader, where there are several: see table/nodes/rounds.h */
    struct kolo_remnant remnant;    /* of a leader that has left, while its thread goes on */
    struct kolo_liveness *liveness; /* what this thread knows of the node's ranks */
    bool is_service;                /* this is how its thread holds the table */

    struct kolo_region regions[2]; /* the two buffers, see table/table_layout.h */
    struct kolo_shared_table_header *header;
    struct kolo_shared_table_rank *members, *self;
    struct kolo_shared_shard *shard;
    kolo_atomic_u64 *changed; /* several nodes: a bit for each piece, see nodes/outbox.h */
    uint8_t *piece;           /* the first one */
    uint64_t even_rows;       /* how many rows there are, where each is one piece of row_bytes; else 0 */
    size_t row_bytes;
    uint64_t *places;                /* [pieces]: places behind `piece`, where rows differ; NULL: by stride */
    size_t stride;                   /* bytes from one piece to the next */
    size_t version_bytes;            /* of the longest piece: where rows do not differ */
    struct kolo_memory_file file;    /* of the first buffer, kept open for observers */
    uint8_t *pushes;                 /* the second buffer */
    size_t memory_bytes;             /* of both buffers */
    uint8_t *rings;                  /* in the second buffer, behind the queues */
    size_t queue_bytes;              /* of a ring */
    size_t bits_bytes, staged_bytes; /* staleness 0: of a worker's bits, and of all its part of `pushes` */

    kolo_waiter waiter;
    uint32_t awaits_shard;  /* the shard that this rank waits for, and may write itself; KOLO_NO_WAIT: none */
    uint64_t clock;         /* of this worker */
    uint64_t *reserved;     /* a bit for each KOLO_TABLE_RESERVED_BYTES of own updates, or each ring, that has memory */
    uint64_t *settled;      /* [shards]: `fillings` when all queues of the shard were last seen to be empty, plus one */
    uint64_t low, high;     /* staleness 0: this clock may have set words low .. high - 1 of this worker's bits */
    uint32_t callers_fpenv; /* of cpu/fpenv.h, while this rank holds a role */
    bool has_queued;        /* this rank has put updates in a queue since it last saw all of its queues empty */
    bool has_ended;         /* staleness 0: this worker has ended its clock, is not left out, and waits */
    bool is_broken;
    bool is_saving;                   /* the last save is not known to be written */
    bool is_coming;                   /* the last save is not copied */
    bool has_come;                    /* this worker has said so to the others */
    uint64_t saves;                   /* calls of kolo_table_save */
    uint32_t saver;                   /* the worker that does the last save */
    struct kolo_table_saving *saving; /* the save that this rank's thread writes; NULL: none */
    int save_status;                  /* of the first save that has failed since kolo_table_wait told of one; 0: none */
    char save_message[KOLO_NEW_FILE_TEXT_BYTES];
    uint64_t pulled_again, left_out;

    /* Rows that are named several times in one push, see access.c. */
    struct kolo_table_named *named; /* [rows]; NULL: not yet */
    uint32_t naming;                /* number of the push */
    uint8_t *sums;                  /* room for sums of updates */
    size_t sums_bytes;
    struct kolo_listed *list; /* the entries of a push of rows */
    size_t list_bytes;
    size_t *shard_ends;  /* [shards]: ends of the shards' parts of `list` */
    const void **folded; /* [workers]: inputs of a fold */
    uint8_t *zeros;      /* of the longest piece */
    uint8_t *sum;        /* of the longest piece: the result of a fold */
    uint8_t *came;       /* several nodes: a version that has come from another */
    uint8_t *made;       /* a version that is made here for thread checkers, which do not see why a rule may store it */
};

static inline bool kolo_table_is_synchronous(const kolo_table *table) {
    return table->options.staleness == 0;
}

/* Whether the table goes on without workers that have ended. */
static inline bool kolo_table_is_tolerant(const kolo_table *table) {
    return table->options.staleness > 0 || table->options.backup_workers > 0;
}

static inline bool kolo_table_is_worker(const kolo_table *table) {
    return table->rank < table->workers;
}

/* Whether some worker of this node has neither left nor ended. */
static inline bool kolo_table_has_workers(const kolo_table *table) {
    for (uint32_t worker = 0; worker < table->workers; worker++)
        if (kolo_load_acquire(&table->members[worker].state) == KOLO_TABLE_PRESENT)
            return true;
    return false;
}

/* The rank, of all nodes, that a shard was made for. */
static inline uint32_t kolo_table_shard_rank(const struct kolo_table *table, uint32_t shard) {
    const uint32_t ranks = table->comm->global_size;
    return table->servers ? ranks - table->servers + shard % table->servers : shard % ranks;
}

/* Whether that rank is on this node. */
static inline bool kolo_table_is_native(const struct kolo_table *table, uint32_t shard) {
    return !table->nodes || table->nodes->node_of[kolo_table_shard_rank(table, shard)] == table->node;
}

/* The node that owns the shard now. Only where there are several nodes. */
static inline uint32_t kolo_table_shard_node(const struct kolo_table *table, uint32_t shard) {
    const uint32_t node = table->nodes->node_of[kolo_table_shard_rank(table, shard)];
    const bool is_gone = kolo_load_acquire(&table->header->gone[node / 64]) >> node % 64 & 1;
    return is_gone ? (uint32_t)kolo_load_acquire(&table->header->heir) : node;
}

/* Whether the shard is another node's, and this node has but a copy. */
static inline bool kolo_table_is_foreign(const struct kolo_table *table, uint32_t shard) {
    return table->nodes && kolo_table_shard_node(table, shard) != table->node;
}

/* The rank of this node that owns a shard; the leader, if it was made for one of another node. */
static inline uint32_t kolo_table_shard_owner(const struct kolo_table *table, uint32_t shard) {
    const uint32_t rank = kolo_table_shard_rank(table, shard);
    if (!table->nodes)
        return rank;
    return kolo_table_is_native(table, shard) ? kolo_nodes_local_rank(table->nodes, rank) : 0;
}

/* A rank's clock, as its word gives it. */
static inline uint64_t kolo_table_clock_of(const struct kolo_table *table, uint32_t rank) {
    return kolo_load_acquire(&table->members[rank].clock) / 2;
}

static inline struct kolo_shared_queue *kolo_table_queue(const struct kolo_table *table, uint32_t worker,
                                                         uint32_t shard) {
    return (struct kolo_shared_queue *)(void *)table->pushes + (size_t)worker * table->shards + shard;
}

static inline uint8_t *kolo_table_ring(const struct kolo_table *table, uint32_t worker, uint32_t shard) {
    return table->rings + ((size_t)worker * table->shards + shard) * table->queue_bytes;
}

/* Adds to a counter of this rank's own. */
static inline void kolo_table_count(kolo_atomic_u64 *counter, uint64_t addend) {
    kolo_show_relaxed(counter, kolo_load_relaxed(counter) + addend);
}

static inline double kolo_table_learning_rate(const kolo_table *table) {
    const uint64_t bits = kolo_load_relaxed(&table->header->learning_rate);
    double rate;
    memcpy(&rate, &bits, sizeof rate);
    return rate;
}
