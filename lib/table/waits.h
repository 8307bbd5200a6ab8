/* Waits in a table's calls: for other workers, and for updates to be applied.
 *
 * A rank that waits for updates to be applied applies them itself meanwhile, if no other rank does (`help`). So no wait
 * depends on a rank that computes. Ranks that wait find that another rank has ended, and only then is its `state` set;
 * its roles are taken over after that (shard.h). With staleness 0 and no backup workers the end of a rank is the
 * failure of the communicator, which breaks the table. */
#pragma once

#include "table/table.h"

/* Prepares the table's waiter. `help` does what this rank waits for, table->awaits_shard, if no other rank does. */
void kolo_waits_prepare(struct kolo_table *table, bool (*help)(kolo_waiter *waiter));

/* Has the table's waits do meanwhile what the communicator's do, as that is now. */
void kolo_waits_do_as_comm(struct kolo_table *table);

/* Waits for any flag, with its bell, that `peer` raises. Returns 0, or a status. */
int kolo_wait_for(struct kolo_table *table, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                  uint32_t peer);

/* Wait for a flag: of a worker; of a shard, which this rank may raise itself; or, with staleness 0, until so many
 * clocks are closed. Return 0, or a status. */
int kolo_wait_worker(struct kolo_table *table, uint32_t worker, uint64_t clock);
int kolo_wait_shard(struct kolo_table *table, uint32_t shard, const kolo_atomic_u64 *flag, uint64_t target);
int kolo_wait_closed(struct kolo_table *table, uint64_t clocks);

/* Several nodes: waits until so many rounds are over. */
int kolo_wait_arrived(struct kolo_table *table, uint64_t rounds);

/* Wakes the shard's server to look at it; does nothing where there are no servers. */
void kolo_waits_call_server(struct kolo_table *table, uint32_t shard);

void kolo_waits_call_servers(struct kolo_table *table); /* all of this node */

/* Whether a rank has aborted the communicator, which breaks the table: 0, or a status. */
int kolo_waits_find_abort(struct kolo_table *table);

/* Whether some rank has seen that the rank has ended. Of a rank that had left before, this rank has seen the end. */
bool kolo_waits_has_ended(const struct kolo_table *table, uint32_t rank);

/* Releases all waits for the rank, which has left, or is dead. */
void kolo_waits_let_go(struct kolo_table *table, uint32_t rank, uint64_t state);
