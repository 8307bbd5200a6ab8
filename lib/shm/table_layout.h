/* What ranks share of a table (kolo_table.h), and who writes and reads it. It lies in two buffers that all ranks of the
 * machine have mapped:
 *
 *     table     [ header | ranks | shards | several nodes: a bit for each piece | pieces ]
 *     pushes    staleness > 0:  [ queues | rings ], one of each for each worker and shard, worker by worker
 *               staleness 0:    for each worker a bit for each piece, and room for an update of each
 *
 * Pages of the second are taken by the worker that writes there, before it does so. Offsets follow from the table's
 * options alone, which every rank has checked to be the same; no rank trusts one that it reads. lib/table/README.md
 * says who writes what, and what becomes of it if a rank ends. */
#ifndef KOLO_SHM_TABLE_LAYOUT_H
#define KOLO_SHM_TABLE_LAYOUT_H

#include "shm/layout.h"

#define KOLO_TABLE_MAGIC      UINT64_C(0x6b6f6c6f2d746162) /* "kolo-tab" */
#define KOLO_TABLE_NAME_BYTES 32
#define KOLO_TABLE_SHARDS_MAX 65536

struct kolo_shared_table_header {
    /* Rank 0, before the table is complete; constant. For observers, see comm/observed_tables.h. What comes before
     * `workers` keeps its place in versions to come. */
    KOLO_ALIGNED kolo_atomic_u64 magic;                     /* stored last, with release */
    uint32_t layout;                                        /* KOLO_LAYOUT */
    uint32_t ranks;                                         /* on this machine, as the next */
    uint64_t segment_device, segment_inode, segment_offset; /* of the communicator; 0: it has none */
    char name[KOLO_TABLE_NAME_BYTES];
    uint32_t workers; /* ranks below this one are */
    uint32_t servers; /* of all machines */
    uint64_t shards, rows, memory_bytes;
    int64_t staleness;

    /* Any rank: the bits of a double. */
    KOLO_ALIGNED kolo_atomic_u64 learning_rate;

    /* Staleness 0: clocks that have ended for all, by compare-and-swap, see table/synchronous.h. */
    KOLO_ALIGNED kolo_atomic_u64 closed;
    kolo_bell bell;

    /* By the rank that saves, see api/table/table_file.c: of how many saves the pieces have been copied; and of how
     * many the file is written, in the upper bits, with the negated status of the last one in the lower 8. */
    KOLO_ALIGNED kolo_atomic_u64 copied;
    kolo_atomic_u64 written;
    kolo_atomic_u64
        saver; /* by compare-and-swap: which save it is, in the upper bits, and who saves, in the lower 16 */
    kolo_bell saver_bell;

    /* The clock of the worker that has set the learning rate, plus one: of several nodes' rates that of the latest
     * clock counts. */
    kolo_atomic_u64 rate_clock;

    /* By compare-and-swap, once: KOLO_TABLE_MADE, or KOLO_TABLE_FAILED plus the negated status. */
    kolo_atomic_u64 outcome;

    /* Several nodes: what the node's leader does in rounds, see api/table/rounds.h. By its thread. */
    KOLO_ALIGNED kolo_atomic_u64 arrived;                /* rounds that are over: what they carried is in the pieces */
    kolo_atomic_u64 taking;                              /* rounds that have begun to take what is pending */
    kolo_atomic_u64 ended;                               /* KOLO_ROUNDS_* */
    kolo_atomic_u64 status;                              /* with which they have failed, negated; before `ended` */
    kolo_atomic_u64 culprit;                             /* and the rank at fault, plus one; 0: not known */
    kolo_bell rounds_bell;                               /* of `arrived` and `ended` */
    kolo_atomic_u64 sent_bytes, net_sent_bytes, applied; /* for kolo_table_get_stats */

    /* What the other nodes have said in the last round that is over. By the thread, for kolo_table_get_stats. */
    KOLO_ALIGNED kolo_atomic_u64 others_workers;
    kolo_atomic_u64 others_dead, others_slowest, others_slowest_rank, others_fastest;

    /* By workers that do not want the thread to sleep on, by addition. */
    KOLO_ALIGNED kolo_atomic_u64 hurry;
    kolo_bell hurry_bell;

    /* Nodes that have ended, a bit for each, and who has got their shards. By the thread. */
    KOLO_ALIGNED kolo_atomic_u64 heir;
    kolo_atomic_u64 gone[KOLO_RANK_WORDS];
};

enum { KOLO_TABLE_MADE = 1, KOLO_TABLE_FAILED };

enum { KOLO_ROUNDS_GO_ON, KOLO_ROUNDS_OVER, KOLO_ROUNDS_FAILED };

enum { KOLO_TABLE_PRESENT, KOLO_TABLE_LEFT, KOLO_TABLE_DEAD };

/* Of one rank. */
struct kolo_shared_table_rank {
    /* Twice the clocks that it has ended, by its rank, after all that it has pushed in them; staleness 0: plus one, by
     * any rank, where the clock after that has been ended without it. See table/synchronous.h. */
    KOLO_ALIGNED kolo_atomic_u64 clock;
    /* Clocks that it has ended, for waits; UINT64_MAX once it is not waited for: by its rank, and by any that has seen
     * that the rank has ended. */
    kolo_atomic_u64 reached;
    kolo_atomic_u64 state;  /* KOLO_TABLE_*; likewise */
    kolo_atomic_u64 events; /* of a server: by all, by addition, after there is something for it to do */
    kolo_atomic_u64 saves;  /* by its rank: calls of kolo_table_save, once all that it had pushed is applied */
    kolo_bell bell;         /* of `reached`, `events` and `saves` */

    /* By its rank, for kolo_table_get_stats and observers. */
    KOLO_ALIGNED kolo_atomic_u64 waits_for; /* a rank, plus one, in kolo_table_clock; 0: for nobody */
    kolo_atomic_u64 waits_since_ns;         /* written before it */
    kolo_atomic_u64 pulled, pushed, applied;
    kolo_atomic_u64 waited_ns; /* in waits that are over */
    uint64_t pid, start;       /* of its process, before the table is complete; constant */
};

/* Of one shard. The holder of the writer role writes everything but the role, which all do by compare-and-swap. */
struct kolo_shared_shard {
    KOLO_ALIGNED kolo_atomic_u64 writer; /* 0: free; else the holder's rank, plus one */
    kolo_bell bell;                      /* of queues' `taken` and of `folded` */
    kolo_atomic_u64 fillings;            /* by workers, by addition, after they have filled a queue */

    /* By workers: their bit, after they have filled a queue; the holder clears it. */
    KOLO_ALIGNED kolo_atomic_u64 pending[KOLO_RANK_WORDS];

    /* What is being applied: see table/shard.h. `place` last. */
    KOLO_ALIGNED kolo_atomic_u64 piece;
    kolo_atomic_u64 sequence; /* of the piece, before */
    kolo_atomic_u64 place;

    kolo_atomic_u64 folded; /* clocks of which all updates are in the pieces; staleness 0 */
};

/* From one worker to one shard, through a ring of `queue_bytes` bytes. */
struct kolo_shared_queue {
    KOLO_ALIGNED kolo_atomic_u64 filled; /* by the worker: bytes, counted over all rounds of the ring */
    KOLO_ALIGNED kolo_atomic_u64 taken;  /* by the holder of the shard's role: of those, bytes that are applied */
};

/* What is in a queue: this, and the update, rounded up to 8 bytes. piece KOLO_QUEUE_WRAP: the rest of the ring is not
 * used. */
struct kolo_shared_update {
    uint64_t piece;
};

#define KOLO_QUEUE_WRAP UINT64_MAX

static_assert(sizeof(struct kolo_shared_table_rank) == 2 * KOLO_LINE_BYTES, "a line for others, one for counters");
static_assert(sizeof(struct kolo_shared_shard) == 2 * KOLO_LINE_BYTES + KOLO_RANKS_MAX / 8 &&
                  sizeof(struct kolo_shared_shard) % KOLO_LINE_BYTES == 0,
              "lines for the role, the workers and the holder");
static_assert(sizeof(struct kolo_shared_queue) == 2 * KOLO_LINE_BYTES, "a line a writer");

#endif
