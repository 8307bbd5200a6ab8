/* Ends workers' clocks, and runs servers. */
#include "table/clocks.h"

#include "sync/point.h"
#include "table/shard.h"
#include "table/synchronous.h"
#include "table/waits.h"

/* The waiter's other work: does what this rank waits for, if no other rank is doing it. */
static bool help(kolo_waiter *waiter) {
    struct kolo_table *table = waiter->owner;
    if (table->awaits_shard == KOLO_NO_WAIT)
        return false;
    if (kolo_table_is_synchronous(table))
        kolo_synchronous_help(table);
    else
        kolo_shard_help(table, table->awaits_shard);
    return true;
}

void kolo_clocks_begin(struct kolo_table *table) {
    kolo_waits_prepare(table, help);
}

/* Waits for the workers that are behind `clock`. */
static int wait_for_workers(struct kolo_table *table, uint64_t clock) {
    int rc = 0;
    for (uint32_t worker = 0; worker < table->workers && rc == 0; worker++)
        rc = kolo_wait_worker(table, worker, clock);
    return rc;
}

/* Waits until the promise of the staleness holds. is_all: waits also until this worker's pushes have come to other
 * nodes, where that needs no other worker, and, with unbounded staleness, until the pushes of workers that have ended
 * are applied. */
static int catch_up(struct kolo_table *table, bool is_all) {
    const uint64_t staleness = (uint64_t)table->options.staleness;
    int rc = table->clock > staleness ? wait_for_workers(table, table->clock - staleness) : 0;
    const bool is_bounded = table->options.staleness != KOLO_STALENESS_UNBOUNDED, is_of_all = is_bounded || is_all;
    for (uint32_t i = 0; i < table->shards && rc == 0 && (is_of_all || table->has_queued); i++)
        rc = kolo_shard_settle(table, (table->rank + i) % table->shards, !is_of_all);
    if (rc == 0)
        table->has_queued = false;
    if (rc < 0 || !table->nodes)
        return rc;
    /* The next round has what has been pushed until now. When the round after that is over here, the next round's
     * updates are everywhere. */
    if (!is_bounded)
        return is_all ? kolo_wait_arrived(table, kolo_load_acquire(&table->header->taking) + 2) : 0;
    return table->clock > staleness ? kolo_wait_arrived(table, table->clock - staleness) : 0;
}

int kolo_clocks_advance(struct kolo_table *table) {
    table->clock++;
    KOLO_POINT("clock.ending");
    kolo_store_release(&table->self->clock, 2 * table->clock);
    kolo_publish(&table->waiter, &table->self->reached, table->clock, &table->self->bell);
    KOLO_POINT("clock.ended");
    return catch_up(table, false);
}

int kolo_clocks_wait(struct kolo_table *table) {
    return catch_up(table, true);
}

void kolo_clocks_leave(struct kolo_table *table) {
    /* Other workers end clocks without a rank that has left. If this rank leaves a broken table, they get its error
     * instead. */
    const bool has_failed = kolo_table_is_synchronous(table) && table->is_broken;
    kolo_waits_let_go(table, table->rank, has_failed ? KOLO_TABLE_DEAD : KOLO_TABLE_LEFT);
    if (kolo_table_is_synchronous(table) && !table->is_broken)
        kolo_synchronous_help(table); /* others may wait for this rank alone */
}

static bool are_workers_gone(const struct kolo_table *table) {
    for (uint32_t worker = 0; worker < table->workers; worker++)
        if (kolo_load_acquire(&table->members[worker].state) == KOLO_TABLE_PRESENT)
            return false;
    return true;
}

/* Applies the updates that this server finds. */
static void serve_once(struct kolo_table *table) {
    if (kolo_table_is_synchronous(table)) {
        kolo_synchronous_help(table);
        return;
    }
    for (uint32_t shard = 0; shard < table->shards; shard++)
        if (kolo_table_shard_owner(table, shard) == table->rank)
            kolo_shard_help(table, shard);
}

int kolo_clocks_serve(struct kolo_table *table) {
    for (;;) {
        const uint64_t events = kolo_load_acquire(&table->self->events); /* pairs with kolo_waits_call_server */
        const bool is_over =
            are_workers_gone(table) && (!table->nodes || kolo_load_acquire(&table->header->ended) != KOLO_ROUNDS_GO_ON);
        serve_once(table); /* applies also what workers pushed before they left */
        if (is_over)
            return 0;
        const int rc = kolo_wait_event(table, events);
        if (rc < 0 && rc != KOLO_ERR_TIMEOUT) /* a server may wait for as long as workers compute */
            return rc;
    }
}
