/* Waiting in a table's calls: for other workers, and for what is to be applied.
 *
 * Who waits for what somebody has to apply does it himself meanwhile, if nobody else does (`help`). So nothing depends
 * on a rank that computes. That a rank has ended is found in waits, by whoever waits, and only then is its `state` set;
 * its roles are taken over after that (shard.h). With staleness 0 and no backup workers its end is the failure of the
 * communicator, which breaks the table. */
#ifndef KOLO_TABLE_WAITS_H
#define KOLO_TABLE_WAITS_H

#include "table/table.h"

/* Prepares the table's waiter. help: does what this rank waits for, table->awaits_shard, if nobody is at it. */
void kolo_waits_prepare(struct kolo_table *table, bool (*help)(kolo_waiter *waiter));

/* Wait for a flag: of a worker; of a shard, which this rank may raise itself; or, staleness 0, until so many clocks are
 * closed. 0, or a status. */
int kolo_wait_worker(struct kolo_table *table, uint32_t worker, uint64_t clock);
int kolo_wait_shard(struct kolo_table *table, uint32_t shard, const kolo_atomic_u64 *flag, uint64_t target);
int kolo_wait_closed(struct kolo_table *table, uint64_t clocks);

/* For kolo_table_save: until the worker has come to save number `saves`; and until a word of the header, of the rank
 * that saves, has reached `target`. */
int kolo_wait_saves(struct kolo_table *table, uint32_t worker, uint64_t saves);
int kolo_wait_saver(struct kolo_table *table, uint32_t saver, const kolo_atomic_u64 *word, uint64_t target);

/* Several nodes: until so many rounds are over. */
int kolo_wait_arrived(struct kolo_table *table, uint64_t rounds);

/* Of a server: until there has been another event than `events`. */
int kolo_wait_event(struct kolo_table *table, uint64_t events);

/* Has the shard's server look at it; nothing where there are no servers. */
void kolo_waits_call_server(struct kolo_table *table, uint32_t shard);

void kolo_waits_call_servers(struct kolo_table *table); /* all of this node */

/* Whether somebody has seen that the rank has ended; of one that had left before, this rank. */
bool kolo_waits_has_ended(const struct kolo_table *table, uint32_t rank);

/* Nobody waits for the rank any more: it has left, or is dead. */
void kolo_waits_let_go(struct kolo_table *table, uint32_t rank, uint64_t state);

#endif
