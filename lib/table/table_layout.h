/* The shared memory of a table (kolo_table.h), and who writes and reads it. It consists of two buffers that all ranks
 * of the machine have mapped:
 *
 *     table     [ header | ranks | shards | several nodes: a bit for each piece | pieces ]
 *     pushes    staleness > 0:  [ queues | rings ], one of each for each worker and shard, worker by worker
 *               staleness 0:    for each worker a bit for each piece, and room for an update of each
 *
 * A worker takes the pages of the second buffer before it writes there. Offsets follow from the table's options alone,
 * which every rank has checked to be the same; no rank trusts an offset that it reads. lib/table/README.md says which
 * rank writes what, and what becomes of it if a rank ends. */
#pragma once

#include "shm/layout.h"

#define KOLO_TABLE_MAGIC      UINT64_C(0x6b6f6c6f2d746162) /* "kolo-tab" */
#define KOLO_TABLE_NAME_BYTES 32
#define KOLO_TABLE_SHARDS_MAX 65536

struct kolo_shared_table_header {
    /* Rank 0 writes these before the table is complete. They never change afterwards. Observers read them, see
     * table/observed_tables.h. The fields before `workers` keep their places in all later versions. */
    KOLO_ALIGNED kolo_atomic_u64 magic;                     /* stored last, with release */
    uint32_t layout;                                        /* KOLO_LAYOUT */
    uint32_t ranks;                                         /* on this machine, as the next */
    uint64_t segment_device, segment_inode, segment_offset; /* of the communicator; 0: it has none */
    char name[KOLO_TABLE_NAME_BYTES];
    uint32_t workers; /* all ranks below this number are workers */
    uint32_t servers; /* of all machines */
    uint64_t shards, rows, memory_bytes;
    int64_t staleness;

    /* Written by any rank, as clocks.c says: the bits of a double; which set of it counts, raised by compare-and-swap;
     * and what the leader's thread has got last from other nodes. */
    KOLO_ALIGNED kolo_atomic_u64 learning_rate;
    kolo_atomic_u64 rate_set;
    kolo_atomic_u64 others_rate;

    /* For staleness 0: the clocks that have ended for all workers, by compare-and-swap, see table/clocks.h. */
    KOLO_ALIGNED kolo_atomic_u64 closed;
    kolo_bell bell;

    /* Written by the rank that saves, see table/api/table_file.c. copied: the number of saves whose pieces have been
     * copied. The next word: the number of saves whose file is written, in the upper bits, and the negated status of
     * the last of them in the lower 8. */
    KOLO_ALIGNED kolo_atomic_u64 copied;
    kolo_atomic_u64 written;
    kolo_atomic_u64 saver; /* by compare-and-swap: the number of the save, in the upper bits, and the rank that saves,
                              in the lower 16 */
    kolo_bell saver_bell;

    /* Written once, by compare-and-swap: KOLO_TABLE_MADE, or KOLO_TABLE_FAILED plus the negated status. */
    kolo_atomic_u64 outcome;

    /* With several nodes: the rounds, which the leader's thread writes, see table/nodes/rounds.h. */
    KOLO_ALIGNED kolo_atomic_u64 arrived; /* rounds that are over: what they carried is in the pieces */
    kolo_atomic_u64 taking;               /* rounds that have begun to take what is pending */
    kolo_atomic_u64 exchange_limit_ns;    /* strict tables: of each exchange of a round; 0: none */
    kolo_atomic_u64 ended;                /* KOLO_ROUNDS_* */
    kolo_atomic_u64 status;               /* the negated status with which the rounds have failed; before `ended` */
    kolo_atomic_u64 culprit;              /* the rank at fault, plus one; 0: not known. And KOLO_ROUNDS_REFUSED */
    kolo_bell rounds_bell;                /* of `arrived` and `ended` */
    kolo_atomic_u64 sent_bytes, net_sent_bytes, applied; /* for kolo_table_get_stats */

    /* Written by the leader's thread, for kolo_table_get_stats: totals of other nodes, as of the last round. */
    KOLO_ALIGNED kolo_atomic_u64 others_workers;
    kolo_atomic_u64 others_dead, others_slowest, others_slowest_rank, others_fastest;

    /* Workers that do not want the leader's thread to sleep on add to this. */
    KOLO_ALIGNED kolo_atomic_u64 hurry;
    kolo_bell hurry_bell;

    /* Written by the leader's thread: a bit for each node that has ended, and who has got their shards. */
    KOLO_ALIGNED kolo_atomic_u64 heir;
    kolo_atomic_u64 gone[KOLO_RANK_WORDS];
    kolo_atomic_u64 saving_node; /* the first node that had workers in the last round */
};

enum { KOLO_TABLE_MADE = 1, KOLO_TABLE_FAILED };

enum { KOLO_ROUNDS_GO_ON, KOLO_ROUNDS_OVER, KOLO_ROUNDS_FAILED };

#define KOLO_ROUNDS_REFUSED (UINT64_C(1) << 32) /* what the culprit has sent makes no sense */

enum { KOLO_TABLE_PRESENT, KOLO_TABLE_LEFT, KOLO_TABLE_DEAD };

/* The words of one rank. */
struct kolo_shared_table_rank {
    /* Twice the number of clocks that this rank has ended; the rank writes it after all that it has pushed in them. For
     * staleness 0, any rank adds one where the next clock has been ended without this rank. See table/clocks.h. */
    KOLO_ALIGNED kolo_atomic_u64 clock;
    /* The number of clocks that this rank has ended, for waits; UINT64_MAX once nobody has to wait for it. The rank
     * writes it, and so does any rank that has seen that this one has ended. */
    kolo_atomic_u64 reached;
    kolo_atomic_u64 state;   /* KOLO_TABLE_*; likewise */
    kolo_atomic_u64 events;  /* of a server: any rank adds, after there is something for the server to do */
    kolo_atomic_u64 saves;   /* calls of kolo_table_save, by its rank, once all that it had pushed is applied */
    kolo_atomic_u64 rate[2]; /* learning rates that this rank has set, see clocks.c */
    kolo_bell bell;          /* of `reached`, `events` and `saves` */

    /* Written by this rank, for kolo_table_get_stats and observers. */
    KOLO_ALIGNED kolo_atomic_u64 waits_for; /* the rank that it waits for in kolo_table_clock, plus one; 0: none */
    kolo_atomic_u64 waits_since_ns;         /* written before `waits_for` */
    kolo_atomic_u64 pulled, pushed, applied;
    kolo_atomic_u64 waited_ns; /* in waits that are over */
    uint64_t pid, start;       /* of its process, before the table is complete; constant */
};

/* The words of one shard. The holder of the writer role writes them, except the role itself, which any rank takes by
 * compare-and-swap, and `fillings` and `pending`, which workers write. */
struct kolo_shared_shard {
    KOLO_ALIGNED kolo_atomic_u64 writer; /* 0: free; else the holder's rank, plus one */
    kolo_bell bell;                      /* of the queues' `taken` and of `folded` */
    kolo_atomic_u64 fillings;            /* workers add, after they have filled a queue */

    /* A bit for each worker, set after the worker has filled a queue; the holder clears it. */
    KOLO_ALIGNED kolo_atomic_u64 pending[KOLO_RANK_WORDS];

    /* The update that is being applied: see table/shard.h. `place` is stored last. */
    KOLO_ALIGNED kolo_atomic_u64 piece;
    kolo_atomic_u64 sequence; /* of the piece, before the update */
    kolo_atomic_u64 place;

    kolo_atomic_u64 folded; /* for staleness 0: the clocks whose updates are all in the pieces */
};

/* The queue from one worker to one shard, through a ring of `queue_bytes` bytes. */
struct kolo_shared_queue {
    KOLO_ALIGNED kolo_atomic_u64 filled; /* bytes, by the worker, counted over all rounds of the ring */
    KOLO_ALIGNED kolo_atomic_u64 taken;  /* of those, bytes that are applied, by the holder of the shard's role */
};

/* The head of an entry of a queue; the update follows, rounded up to 8 bytes. piece KOLO_QUEUE_WRAP: the rest of the
 * ring is not used. */
struct kolo_shared_update {
    uint64_t piece;
};

#define KOLO_QUEUE_WRAP UINT64_MAX

static_assert(sizeof(struct kolo_shared_table_rank) == 2 * KOLO_LINE_BYTES, "a line for others, one for counters");
static_assert(sizeof(struct kolo_shared_shard) == 2 * KOLO_LINE_BYTES + KOLO_RANKS_MAX / 8 &&
                  sizeof(struct kolo_shared_shard) % KOLO_LINE_BYTES == 0,
              "lines for the role, the workers and the holder");
static_assert(sizeof(struct kolo_shared_queue) == 2 * KOLO_LINE_BYTES, "a line a writer");
