/* A parameter server: tables of rows that workers pull and push, each at its own pace within a bound. kolo.h
 * says what holds for all calls.
 *
 * Who. A table belongs to the ranks of a communicator. Each is a worker, which pulls, computes, pushes and ends its
 * clock, in a loop of its own. The last `servers` of them can be servers instead, which only apply what is pushed.
 *
 * Rows are atomic: a pull gets a row as it was after some pushes, all of them whole, never half of one. A row longer
 * than split_bytes is several pieces, each of which is atomic. Pulls wait for nobody, and lock nothing: a pull copies
 * a piece again if that was written to meanwhile.
 *
 * Clocks. Each worker has a clock, from 0, which kolo_table_clock ends. With staleness s a worker goes on to clock c
 * when the slowest has come to c - s, and what it pulls then contains all pushes of clocks up to c - s - 1, and its
 * own of earlier clocks.
 *     s = 0, synchronous (BSP): what is pushed during a clock is applied at its end, all together. The updates of the
 * workers to a row are summed as kolo_allreduce does it, and the rule is applied to the sum once. The bits are the same
 * from run to run, and those of an all-reduce of the updates with the same rule.
 *     s > 0, stale-synchronous (SSP): updates are applied as they come, one after another. A worker sees its own at
 * once.
 *     s = KOLO_STALENESS_UNBOUNDED, asynchronous (ASP): the same, and nobody waits.
 *
 * A worker that has ended is not waited for: it leaves the minimum. What it had pushed before is applied once, whoever
 * was applying it. With staleness 0 all others get KOLO_ERR_PEER_DEAD instead, unless backup_workers allows for it.
 * Otherwise a table goes on after the failure of its communicator, of which the collectives then fail.
 *
 * Several machines. Each has a copy of all rows in its memory, so that pulls are local there, too. Pushes to rows that
 * a rank of another machine owns travel when their clock has ended on this one: one update of each row, their sum (with
 * ASSIGN the last one); unbounded, every few milliseconds. All machines then get the rows' new values. So the rule is
 * applied to rows of others with the sum of the pushes of a machine's clock, and rows that other machines have pushed
 * are as fresh as the bound promises, not fresher. A worker sees its own pushes at once, and those of its machine. With
 * staleness 0 the bits are those of kolo_allreduce over the same machines, with KOLO_NET_ORDER=node and no
 * KOLO_NET=wire:bf16: tables do not go by these two, and their bits depend on which ranks share a machine. hogwild is
 * as without it; backup_workers are counted on each machine. The lowest rank of each machine has a thread for that,
 * which may call the program's function. When that rank ends, the other ranks of its machine get KOLO_ERR_PEER_DEAD,
 * and so do all of a machine that is cut off from most others. Where the table goes on without workers that have ended,
 * so do the other machines: the first of them takes over the rows that were the other's. What they had pushed is
 * applied once; what the lost machine's own workers had pushed and had not travelled is lost.
 *
 * One thread at a time uses a table of a rank. A table's calls are also calls on its communicator: meanwhile no other
 * thread uses that, and a progress thread has nothing to carry out there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_TABLE_H
#define KOLO_TABLE_H

#include "kolo_comm.h"

typedef struct kolo_table kolo_table; /* one rank's hold on a table */

/* What is done to a row with an update u: the sum of the pushes of one clock where staleness is 0, else one push. */
typedef enum kolo_table_rule {
    KOLO_TABLE_ASSIGN,   /* row = u; staleness 0: of the lowest rank that has pushed the row */
    KOLO_TABLE_ADD,      /* row = row + u */
    KOLO_TABLE_SGD,      /* row = row - learning_rate * u; with momentum as KOLO_OPTIMIZER_SGD. Floats */
    KOLO_TABLE_ADAGRAD,  /* h = h + u * u; row = row - learning_rate * u / (sqrt(h) + epsilon). Floats */
    KOLO_TABLE_ADAM,     /* as KOLO_OPTIMIZER_ADAM; each piece counts its own steps. Floats */
    KOLO_TABLE_FUNCTION, /* what the program's function does */
    KOLO_TABLE_RULES     /* how many there are */
} kolo_table_rule;

/* The program's rule: changes values[0 .. count-1], which are elements first .. first + count - 1 of row `row`, and
 * `state`, the piece's state_bytes, zeroed at first. It must not call kolo. It may run in any rank, one at a time for a
 * piece, and may be called once more for an update if the rank in which it runs ends: it changes nothing else. */
typedef void (*kolo_table_function)(void *context, uint64_t row, size_t first, size_t count, const void *update,
                                    void *values, void *state);

/* Which of the table's shards a piece is in. */
typedef enum kolo_placement {
    KOLO_PLACEMENT_RANGE,       /* about as many bytes in each, in order */
    KOLO_PLACEMENT_ROUND_ROBIN, /* piece p in shard p % shards */
    KOLO_PLACEMENT_HASH,        /* by a hash of p; the next shard if that one has more than its part of the bytes */
    KOLO_PLACEMENT_GREEDY,      /* in order, each where the fewest bytes are so far */
    KOLO_PLACEMENTS             /* how many there are */
} kolo_placement;

#define KOLO_STALENESS_UNBOUNDED INT64_MAX

/* How to make a table. Begin with KOLO_TABLE_OPTIONS_INIT. */
typedef struct kolo_table_options {
    size_t options_bytes;         /* sizeof(kolo_table_options); set by KOLO_TABLE_OPTIONS_INIT */
    const char *name;             /* what tools call it, up to 31 characters; default NULL: "table" */
    uint64_t rows;                /* at least 1 */
    size_t columns;               /* elements of each row; at least 1, unless row_columns is set */
    const size_t *row_columns;    /* of each row, where rows differ; default NULL */
    kolo_dtype dtype;             /* default F32 */
    kolo_table_rule rule;         /* default ADD */
    kolo_table_function function; /* of KOLO_TABLE_FUNCTION */
    void *context;                /* passed to it: each rank's own */
    size_t state_bytes;           /* of KOLO_TABLE_FUNCTION: beside each piece; default 0 */
    double learning_rate;         /* default 0.01; kolo_table_set_learning_rate changes it */
    double momentum;              /* of SGD; default 0 */
    double beta1, beta2;          /* of ADAM; default 0.9 and 0.999 */
    double epsilon;               /* of ADAM and ADAGRAD; default 1e-8 */
    double weight_decay;          /* of SGD, ADAGRAD and ADAM: times the row, added to the update; default 0 */
    kolo_op op;                   /* staleness 0: SUM, by default, or AVG of the workers' updates */
    int64_t staleness;            /* clocks; default 0 */
    int backup_workers;           /* staleness 0: a clock ends when all workers but so many have ended it; what the
                                     others push in that clock is left out (kolo_table_stats counts it). Default 0 */
    int hogwild;                  /* 1: with ADD, or SGD without momentum or weight decay, of F32 or F64: pushes add to
                                     rows in place, element by element, in no order; rows are not atomic.
                                     staleness > 0. Default 0 */
    kolo_placement placement;     /* default RANGE */
    int shards;         /* parts of the table, each written by one rank at a time, 65536 at most; default 0: one for
                           each owner */
    int servers;        /* ranks from size - servers on are servers, and own the shards; default 0: all ranks are
                           workers, and own them */
    size_t split_bytes; /* longer rows are split into pieces of so many bytes, at least 64; default 65536 */
    size_t queue_bytes; /* of pushes that one worker has under way to one shard, staleness > 0; at least four
                           pieces; default 0: 64 KiB, or that */
} kolo_table_options;

#define KOLO_TABLE_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(kolo_table_options), NULL, 0, 0, NULL, KOLO_F32, KOLO_TABLE_ADD, NULL, NULL, 0, 0.01, 0, 0.9, 0.999,    \
            1e-8, 0, KOLO_SUM, 0, 0, 0, KOLO_PLACEMENT_RANGE, 0, 0, 65536, 0                                           \
    }

/* Makes a table of zeros. Collective: all ranks pass the same options, but for function and context, and block until
 * all have come. It belongs to the caller, who ends it with kolo_table_destroy before the communicator.
 *     Memory, shared by the ranks of a machine: each row twice, with its state, and 8 bytes, where rows differ rounded
 * up to 64 (on several machines also, twice for each piece, 8 bytes and an update); with staleness > 0 256 bytes for
 * each worker and shard, and queue_bytes where two meet; with staleness 0 one clock of updates of each worker, which it
 * takes as it pushes.
 *     KOLO_ERR_ARG: an option is wrong, or differs between ranks, naming both values. KOLO_ERR_NO_SPACE,
 * KOLO_ERR_SYSTEM: on all ranks. In these cases the communicator stays usable. Others as kolo_allreduce. */
KOLO_API int kolo_table_create(kolo_comm *comm, const kolo_table_options *options, kolo_table **table);

/* Leaves the table: this worker is not waited for any more. What it has pushed is applied first; staleness 0: what it
 * has pushed in this clock is not. Waits for no clock, and for no rank that has ended, but for the file that this rank
 * is writing. Each rank calls it when it likes, and leaves the tables of all its communicators before it destroys the
 * first of these: on several machines a table goes on in the lowest rank of each, with its memory, its function and
 * context, until all workers have left or ended, which kolo_comm_destroy waits for. So no rank that is still in a table
 * may wait for another one that is behind that one's kolo_comm_destroy. NULL is fine. Always 0. */
KOLO_API int kolo_table_destroy(kolo_table *table);

/* Sets all rows to values[], one row behind the other, of rank `root`; elsewhere values is not used. State becomes
 * zero. Collective; before anybody pushes or pulls. Blocks until all ranks have the values. KOLO_ERR_ARG: NULL on the
 * root, on all ranks; or no such root. KOLO_ERR_MISMATCH: ranks name different tables, or roots. Others as
 * kolo_allreduce. */
KOLO_API int kolo_table_initialize(kolo_table *table, const void *values, int root);

/* values = rows first .. first + rows - 1, one behind the other. Waits for nobody, but that with staleness > 0 this
 * rank's own pushes are applied first, if they are in a queue. There is no pull in the background: each machine has a
 * copy of the rows, so that a pull only copies memory. KOLO_ERR_ARG: no such rows, or NULL. KOLO_ERR_STATE: the
 * table is broken, or inherited through fork. KOLO_ERR_TIMEOUT: a rank that applies updates is stopped.
 * KOLO_ERR_ABORTED, and on several machines KOLO_ERR_PEER_DEAD, which break the table. */
KOLO_API int kolo_table_pull(kolo_table *table, uint64_t first, uint64_t rows, void *values);

/* The rows `ids[0 .. count-1]`, in any order, one behind the other; a row may be named several times. */
KOLO_API int kolo_table_pull_rows(kolo_table *table, const uint64_t *ids, size_t count, void *values);

/* Pushes an update of each of those rows. When it returns `updates` may be used again, and what is pushed will be
 * applied, once, even if this rank ends; kolo_table_wait says when it has been. If this rank ends within the call,
 * some pieces of it are applied and others are not.
 *     So pushes need no second form in the background: if another rank is writing the shard, updates go into a queue,
 * which that rank empties. While a queue is full the call waits, or empties it itself.
 *     KOLO_ERR_ARG, KOLO_ERR_STATE as above. KOLO_ERR_TIMEOUT, KOLO_ERR_ABORTED, KOLO_ERR_PEER_DEAD as above, and
 * KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM, where there is no memory for a queue: with staleness > 0 some pieces are pushed,
 * and others are not. Where there is no memory for what is pushed in this clock (staleness 0), or for the list of rows,
 * nothing is pushed. A server pushes nothing: KOLO_ERR_ARG. */
KOLO_API int kolo_table_push(kolo_table *table, uint64_t first, uint64_t rows, const void *updates);

/* The same for the rows `ids[0 .. count-1]`; the updates of a row that is named several times are summed first, in
 * their order, or with KOLO_TABLE_ASSIGN the last one counts. */
KOLO_API int kolo_table_push_rows(kolo_table *table, const uint64_t *ids, size_t count, const void *updates);

/* A piece in place, in this machine's memory. */
typedef struct kolo_table_view {
    size_t view_bytes;  /* sizeof(kolo_table_view); set by the caller */
    const void *values; /* of the piece */
    size_t first;       /* the piece's first element, in the row */
    size_t count;       /* its elements: all of the row, unless that is split */
    uint64_t piece;     /* its number, for kolo_table_view_holds */
    uint64_t version;   /* how often it has been written */
} kolo_table_view;

/* *view = the piece of row `row` with element `first`. It must not be written to. What has been read of it counts if
 * kolo_table_view_holds says so afterwards; with staleness 0 it holds until the worker's next kolo_table_clock,
 * unless clocks may end without this worker (backup_workers). Blocks for nobody. KOLO_ERR_ARG: no such element. */
KOLO_API int kolo_table_view_row(kolo_table *table, uint64_t row, size_t first, kolo_table_view *view);
KOLO_API int kolo_table_view_holds(const kolo_table *table, const kolo_table_view *view); /* 1 or 0 */

/* Ends this worker's clock. Blocks until the slowest worker is near enough, and what that promises is in the table;
 * meanwhile this rank applies what others have pushed and nobody applies. The wait for a worker that is not near enough
 * ends at the communicator's timeout: KOLO_ERR_TIMEOUT names it, the clock has ended, and kolo_table_wait goes on
 * waiting. With staleness 0 and no backup workers KOLO_ERR_TIMEOUT and KOLO_ERR_PEER_DEAD break the table and the
 * communicator. A server has no clock: KOLO_ERR_ARG.
 *     With backup_workers a call passes all clocks that have ended without this worker: a late worker skips them.
 * kolo_table_stats.clock says which one it is in then. */
KOLO_API int kolo_table_clock(kolo_table *table);

/* Blocks until all that this worker has pushed is applied (staleness 0: in the clocks that it has ended), and until the
 * slowest worker is near enough. Unbounded, also what is in other workers' queues: where two workers have ended, one
 * while it was applying a push of the other, that stays in its queue until somebody pushes to that shard, saves, or
 * calls this. On several machines what this worker has pushed to rows of others is applied there when that clock has
 * ended for all; unbounded, it blocks until it is on all machines. Errors as kolo_table_clock, but KOLO_ERR_TIMEOUT
 * breaks nothing where it is for the file of kolo_table_save. */
KOLO_API int kolo_table_wait(kolo_table *table);

/* A server's part: applies what is pushed until all workers have left or ended. On a worker KOLO_ERR_ARG. */
KOLO_API int kolo_table_serve(kolo_table *table);

/* Sets the learning rate from the next update on, whoever applies that; staleness 0: from the end of this clock on, and
 * every worker sets it. Nothing changes where one is set in a later clock already. On other machines it counts from the
 * next round. Blocks for nobody. KOLO_ERR_ARG: below 0, or not finite; unless unbounded, also what would be the 2^20th
 * change in one clock. KOLO_ERR_STATE as kolo_table_pull. */
KOLO_API int kolo_table_set_learning_rate(kolo_table *table, double learning_rate);

/* *rank = the rank that owns element `first` of row `row`. Blocks for nobody. KOLO_ERR_ARG: no such element, or NULL.
 * KOLO_ERR_STATE as kolo_table_pull. */
KOLO_API int kolo_table_owner(const kolo_table *table, uint64_t row, size_t first, int *rank);

/* What a rank, and the table, have done so far. The caller sets stats_bytes. */
typedef struct kolo_table_stats {
    size_t stats_bytes;     /* sizeof(kolo_table_stats) */
    uint64_t rows, shards;  /* of the table */
    uint64_t memory_bytes;  /* that its ranks share on this machine */
    uint64_t clock;         /* of this worker */
    uint64_t slowest_clock; /* of the workers that are there */
    uint64_t fastest_clock;
    int slowest_rank;        /* -1: no worker is there */
    int workers;             /* that are there */
    int workers_dead;        /* that have ended without kolo_table_destroy */
    uint64_t pulled;         /* pieces, by this rank */
    uint64_t pulled_again;   /* and of those, copied again since they were written to meanwhile */
    uint64_t pushed;         /* pieces, by this rank */
    uint64_t applied;        /* pieces' updates, by this rank, whoever had pushed them */
    uint64_t left_out;       /* pieces that it pushed in clocks that ended without it (backup_workers) */
    uint64_t waited_ns;      /* in kolo_table_clock and kolo_table_wait, for other workers */
    uint64_t rounds;         /* several machines: exchanges with the others that are over */
    uint64_t sent_bytes;     /* what this machine has sent in them: numbers, updates and values */
    uint64_t net_sent_bytes; /* the same with all headers */
} kolo_table_stats;

/* Fills *stats, also of a broken table. Blocks for nobody. KOLO_ERR_ARG: NULL argument, or stats_bytes was not set.
 * KOLO_ERR_STATE: inherited through fork. */
KOLO_API int kolo_table_get_stats(const kolo_table *table, kolo_table_stats *stats);

/* Saves the table in file `path`, in a consistent cut: every push of the clocks before this one, and none of later
 * ones. With staleness > 0 a worker saves before it pushes in this clock: what it has pushed in it is in the file on
 * one machine, and may be on several. Each worker calls it between the same two clocks, and waits until all have come
 * and one has copied the table; then training goes on, while a thread of that one writes the file. Nobody sees a file
 * that is not complete: it gets its name at the end. kolo_table_wait, and the next save, wait for that; kolo_table_wait
 * returns what went wrong in the first save that has failed since its last call. Servers go on with kolo_table_serve.
 *     KOLO_ERR_TIMEOUT: a worker did not come, or the last file is not written yet; until it is called again, with
 * success, this worker can push nothing and end no clock (KOLO_ERR_STATE). Nothing is broken. On the one that saves
 * also where a rank that applies updates is stopped: then this save is over for all, as kolo_table_wait tells the
 * others. KOLO_ERR_PEER_DEAD: the worker that saved has ended; the new file may be there, whole. KOLO_ERR_ARG, also on
 * a server. KOLO_ERR_SYSTEM, KOLO_ERR_NO_SPACE. KOLO_ERR_UNSUPPORTED: on several machines, with staleness unbounded.
 * There a worker of the first machine that has workers writes the file (none does if these leave in this clock without
 * saving), and kolo_table_wait tells that machine's workers alone what went wrong. */
KOLO_API int kolo_table_save(kolo_table *table, const char *path);

/* Sets rows and state to what a table of the same rows, columns, dtype, rule and split_bytes has saved, whatever its
 * shards, placement and ranks. Collective; before anybody pushes; rank 0 reads the file, on several machines the lowest
 * rank of each. KOLO_ERR_ARG: another table's file, or none, or a damaged one, or machines have different files; on all
 * ranks, and no row has changed. KOLO_ERR_SYSTEM: out of memory, on all ranks. Others as kolo_allreduce. */
KOLO_API int kolo_table_load(kolo_table *table, const char *path);

#endif
