/* The table's waiter, and how a rank finds that others have ended. */
#include "table/waits.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/failure/failure.h"
#include "comm/failure/watchdog.h"
#include "sync/point.h"

/* A worker waits for a round's exchanges for so many limits, and so long beyond them: then its leader is halted. */
enum { EXCHANGES = 4 };
#define GRACE_NS (1000 * KOLO_NS_PER_MS)

static void call(struct kolo_table *table, uint32_t rank) {
    struct kolo_shared_table_rank *server = &table->members[rank];
    kolo_fetch_add(&server->events, 1);
    kolo_bell_ring(&table->waiter, &server->bell);
}

void kolo_waits_call_server(struct kolo_table *table, uint32_t shard) {
    if (table->servers && kolo_table_is_native(table, shard))
        call(table, kolo_table_shard_owner(table, shard));
}

bool kolo_waits_has_ended(const struct kolo_table *table, uint32_t rank) {
    const uint64_t state = kolo_load_acquire(&table->members[rank].state);
    return state == KOLO_TABLE_DEAD || (state == KOLO_TABLE_LEFT && kolo_liveness_has_ended(table->liveness, rank));
}

void kolo_waits_call_servers(struct kolo_table *table) {
    for (uint32_t rank = table->workers; rank < table->ranks; rank++)
        call(table, rank);
}

/* Each step can be done twice, and is done again for a rank that has ended in the middle, or whose finder has, until
 * `reached` is raised, which is the last step. */
void kolo_waits_let_go(struct kolo_table *table, uint32_t rank, uint64_t state) {
    struct kolo_shared_table_rank *member = &table->members[rank];
    kolo_compare_and_swap(&member->state, KOLO_TABLE_PRESENT, state);
    KOLO_POINT("table.letting_go");
    kolo_waits_call_servers(table);
    KOLO_POINT("table.letting_go_saves");
    kolo_publish(&table->waiter, &member->saves, UINT64_MAX, &member->bell);
    KOLO_POINT("table.letting_go_last");
    kolo_publish(&table->waiter, &member->reached, UINT64_MAX, &member->bell);
    KOLO_POINT("table.let_go");
}

static void let_ended_go(struct kolo_table *table) {
    const kolo_comm *comm = table->comm;
    for (uint32_t rank = 0; rank < table->ranks; rank++)
        if (rank != table->rank && kolo_load_relaxed(&table->members[rank].reached) != UINT64_MAX &&
            kolo_liveness_has_ended(&comm->liveness, rank))
            kolo_waits_let_go(table, rank, KOLO_TABLE_DEAD);
}

/* A worker that has died, if with staleness 0 more have died than backup workers allow; else this rank. */
static uint32_t one_too_many(const struct kolo_table *table) {
    uint32_t dead = 0, last = table->rank;
    for (uint32_t rank = 0; rank < table->workers && kolo_table_is_synchronous(table); rank++)
        if (kolo_load_acquire(&table->members[rank].state) == KOLO_TABLE_DEAD &&
            ++dead > (uint32_t)table->options.backup_workers)
            last = rank;
    return last;
}

/* The worker that is furthest behind. */
static uint32_t slowest(const struct kolo_table *table) {
    uint64_t least = UINT64_MAX;
    uint32_t found = table->rank;
    for (uint32_t worker = 0; worker < table->workers; worker++) {
        const uint64_t word = kolo_load_relaxed(&table->members[worker].clock);
        if (kolo_load_relaxed(&table->members[worker].state) == KOLO_TABLE_PRESENT && word < least) {
            least = word;
            found = worker;
        }
    }
    return found;
}

/* The rank that a shard waits for: the one that writes it, or else the one that should. */
static uint32_t holder_of(const struct kolo_table *table, uint32_t shard) {
    const uint64_t writer = kolo_load_relaxed(&table->shard[shard].writer);
    return writer && writer <= table->ranks ? (uint32_t)writer - 1 : kolo_table_shard_owner(table, shard);
}

/* The rank that a wait is for now: the rank that it began with may have come since, or left. */
static uint32_t awaited(const struct kolo_table *table, const struct kolo_wait *wait) {
    if (wait->bell == &table->header->bell || wait->flag == &table->self->events)
        return slowest(table);
    if (wait->flag == &table->header->arrived)
        return 0; /* the leader, whose thread goes through the rounds */
    const uint32_t shard = table->awaits_shard;
    return shard != KOLO_NO_WAIT && wait->bell == &table->shard[shard].bell ? holder_of(table, shard) : wait->peer;
}

/* Whether the rank has destroyed its communicator, but not its table. A rank that leaves the table first stores its
 * `state` before it destroys the communicator. */
static bool has_departed(const struct kolo_table *table, uint32_t rank) {
    return kolo_load_acquire(&table->comm->segment.members[rank].state) == KOLO_MEMBER_DEPARTED &&
           kolo_load_acquire(&table->members[rank].state) == KOLO_TABLE_PRESENT;
}

/* Returns the communicator's failure, in a strict table. A rank that has left the table may leave the communicator as
 * well, between any two looks at it. */
static int fail_with_communicator(struct kolo_table *table, const struct kolo_wait *wait, int64_t waited_ns) {
    const uint32_t peer = awaited(table, wait);
    const bool is_late = waited_ns >= kolo_waiter_timeout_ns(&table->comm->waiter);
    const int rc = kolo_failure_look(table->comm, is_late || has_departed(table, peer) ? peer : table->rank,
                                     is_late ? waited_ns : 0); /* earlier, it would warn of a wait in a collective */
    if (rc < 0)
        table->is_broken = true;
    return rc;
}

int kolo_waits_find_abort(struct kolo_table *table) {
    kolo_comm *comm = table->comm;
    if (!kolo_load_acquire(kolo_comm_failure_word(comm))) /* pairs with its publication */
        return 0;
    kolo_failure failure;
    kolo_failure_describe(comm, &failure);
    if (failure.status != KOLO_ERR_ABORTED)
        return 0;
    table->is_broken = true;
    return kolo_fail(failure.status, "rank %u: %s", comm->global_rank, failure.message);
}

/* The same, or whether the program is interrupted, which aborts it. */
static int find_interrupt(struct kolo_table *table) {
    const int code = kolo_failure_ask(&table->comm->interrupt);
    table->is_broken |= code != 0;
    return code ? kolo_failure_publish(table->comm, KOLO_ERR_ABORTED, code) : kolo_waits_find_abort(table);
}

/* Several nodes: looks whether nothing goes between the other nodes and this one any more. */
static int find_disconnected(struct kolo_table *table) {
    const struct kolo_shared_table_header *header = table->header;
    const uint32_t rank = table->comm->global_rank;
    const bool is_leader_gone = table->rank > 0 && kolo_waits_has_ended(table, 0);
    const uint64_t ended = kolo_load_acquire(&header->ended);
    if (ended == KOLO_ROUNDS_FAILED) { /* after which the leader may have left */
        const int status = -(int)kolo_load_relaxed(&header->status);
        const uint64_t culprit = kolo_load_relaxed(&header->culprit);
        table->is_broken = true;
        if (!kolo_table_is_tolerant(table) && kolo_load_acquire(kolo_comm_failure_word(table->comm)))
            return kolo_failure_look(table->comm, table->rank, 0); /* it tells which rank has ended, and how */
        if (culprit == 0)
            return kolo_fail(status, "rank %u: the table cannot exchange updates with other nodes any more", rank);
        return kolo_fail(status, "rank %u: the table cannot exchange updates with the node of rank %u any more%s", rank,
                         (uint32_t)culprit - 1,
                         culprit & KOLO_ROUNDS_REFUSED ? ": what it has sent makes no sense" : "");
    }
    if (!is_leader_gone || ended == KOLO_ROUNDS_OVER)
        return 0;
    table->is_broken = true;
    return kolo_fail(KOLO_ERR_PEER_DEAD, "rank %u: rank %u, which connects the table with other nodes, has ended", rank,
                     kolo_rank_global(table->comm, 0));
}

/* Whether a strict table's leader is in the exchanges of the awaited round. Its thread ends them by its own limit, and
 * then tells which node is late. */
static bool is_exchanging(const struct kolo_table *table, const struct kolo_wait *wait, int64_t limit_ns) {
    const int64_t leaders_ns = (int64_t)kolo_load_relaxed(&table->header->exchange_limit_ns);
    return wait->flag == &table->header->arrived && !kolo_table_is_tolerant(table) &&
           kolo_load_acquire(&table->header->taking) >= wait->target &&
           (wait->waited_ns - GRACE_NS) / EXCHANGES < (leaders_ns > limit_ns ? leaders_ns : limit_ns) &&
           kolo_liveness_activity(&table->comm->liveness, 0) != 'T';
}

/* The waiter's check. */
static int check(kolo_waiter *waiter, const struct kolo_wait *wait) {
    struct kolo_table *table = waiter->owner;
    kolo_comm *comm = table->comm;
    const bool awaits_saver = wait->bell == &table->header->saver_bell;
    if (awaits_saver && wait->peer == table->rank)
        return find_interrupt(table); /* a thread of this rank writes a file */
    const uint32_t peer = awaited(table, wait);
    if (wait->bell == &table->header->bell)
        kolo_show_relaxed(&table->self->waits_for, peer + 1);
    const bool awaits_nodes = wait->flag == &table->header->arrived, is_strict = !kolo_table_is_tolerant(table);
    const bool awaits_save = awaits_saver || wait->flag == &table->members[peer].saves; /* which breaks nothing */
    const int64_t limit_ns = kolo_waiter_timeout_ns(&comm->waiter);
    const int64_t waited_ns = wait->waited_ns >= limit_ns && is_exchanging(table, wait, limit_ns) ? 0 : wait->waited_ns;
    kolo_liveness_look_at(&comm->liveness, peer, 1); /* all that watch it may be waiting in other tables */
    if (is_strict) {
        const int rc = fail_with_communicator(table, wait, kolo_table_is_worker(table) && !awaits_save ? waited_ns : 0);
        if (rc < 0 || (!table->nodes && !awaits_save) || kolo_wait_reached(wait))
            return rc;
    }
    int rc = find_interrupt(table);
    if (rc < 0)
        return rc;
    kolo_watchdog_look(comm);
    let_ended_go(table);
    const uint32_t dead = one_too_many(table); /* first: one that is disconnected leaves as dead */
    rc = table->nodes && !kolo_wait_reached(wait) ? find_disconnected(table) : 0;
    if (rc < 0)
        return rc;
    if (dead != table->rank && (rc = kolo_failure_look(comm, dead, 0)) < 0) {
        table->is_broken = true;
        return rc;
    }
    if (awaits_saver && kolo_load_acquire(&table->members[peer].state) != KOLO_TABLE_PRESENT &&
        !kolo_wait_reached(wait))
        return kolo_fail(KOLO_ERR_PEER_DEAD, "rank %u: rank %u ended while it saved the table", comm->global_rank,
                         kolo_rank_global(comm, peer));
    if (waited_ns < limit_ns || kolo_wait_reached(wait))
        return 0;
    if (awaits_nodes)
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "rank %u: other nodes did not come: clock %" PRIu64
                         " of the table has not ended there; this rank is at %" PRIu64,
                         comm->global_rank, kolo_load_acquire(&table->header->arrived), table->clock);
    if (awaits_saver)
        return kolo_fail(KOLO_ERR_TIMEOUT, "rank %u: rank %u has not saved the table yet", comm->global_rank,
                         kolo_rank_global(comm, peer));
    return kolo_fail(KOLO_ERR_TIMEOUT,
                     "rank %u: rank %u did not come: it is at clock %" PRIu64 " of the table, this rank at %" PRIu64,
                     comm->global_rank, kolo_rank_global(comm, peer), kolo_table_clock_of(table, peer), table->clock);
}

void kolo_waits_prepare(struct kolo_table *table, bool (*help)(kolo_waiter *waiter)) {
    const kolo_waiter *of_comm = &table->comm->waiter;
    table->waiter = (kolo_waiter){.spins = of_comm->spins,
                                  .spins_max = of_comm->spins_max,
                                  .yields = of_comm->yields,
                                  .publisher_fences = of_comm->publisher_fences,
                                  .check = check,
                                  .work = help,
                                  .owner = table,
                                  .trace = of_comm->trace};
    table->awaits_shard = KOLO_NO_WAIT;
}

void kolo_waits_do_as_comm(struct kolo_table *table) {
    const kolo_waiter *of_comm = &table->comm->waiter;
    table->waiter.elsewhere = of_comm->elsewhere; /* not in the thread of several nodes, which comes by another way */
    table->waiter.idle = of_comm->idle;
    table->waiter.idle_context = of_comm->idle_context;
}

int kolo_wait_for(struct kolo_table *table, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                  uint32_t peer) {
    kolo_store_relaxed(&table->waiter.timeout_ns, (uint64_t)kolo_waiter_timeout_ns(&table->comm->waiter));
    kolo_waits_do_as_comm(table);
    return kolo_wait_at_least(&table->waiter, flag, target, bell, peer);
}

int kolo_wait_shard(struct kolo_table *table, uint32_t shard, const kolo_atomic_u64 *flag, uint64_t target) {
    if (kolo_load_acquire(flag) >= target)
        return 0;
    table->awaits_shard = shard;
    table->waiter.work(&table->waiter);
    const int rc = kolo_wait_for(table, flag, target, &table->shard[shard].bell, holder_of(table, shard));
    table->awaits_shard = KOLO_NO_WAIT;
    return rc;
}

/* Shows which worker this rank waits for, and counts the time. `peer` is this rank where it waits for no worker. */
static int wait_counted(struct kolo_table *table, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                        uint32_t peer) {
    const int64_t start_ns = kolo_clock_ns();
    kolo_show_relaxed(&table->self->waits_since_ns, (uint64_t)start_ns);
    kolo_show_release(&table->self->waits_for, peer == table->rank ? 0 : peer + 1);
    const int rc = kolo_wait_for(table, flag, target, bell, peer);
    kolo_show_relaxed(&table->self->waits_for, 0);
    kolo_table_count(&table->self->waited_ns, (uint64_t)(kolo_clock_ns() - start_ns));
    return rc;
}

int kolo_wait_closed(struct kolo_table *table, uint64_t clocks) {
    if (kolo_load_acquire(&table->header->closed) >= clocks)
        return 0;
    table->awaits_shard = 0;
    const int rc = wait_counted(table, &table->header->closed, clocks, &table->header->bell, slowest(table));
    table->awaits_shard = KOLO_NO_WAIT;
    return rc;
}

int kolo_wait_worker(struct kolo_table *table, uint32_t worker, uint64_t clock) {
    struct kolo_shared_table_rank *member = &table->members[worker];
    if (kolo_load_acquire(&member->reached) >= clock) /* pairs with kolo_clocks_advance */
        return 0;
    return wait_counted(table, &member->reached, clock, &member->bell, worker);
}

int kolo_wait_arrived(struct kolo_table *table, uint64_t rounds) {
    struct kolo_shared_table_header *header = table->header;
    if (kolo_load_acquire(&header->arrived) >= rounds) /* pairs with publish in table/nodes/rounds.c */
        return 0;
    kolo_fetch_add(&header->hurry, 1);
    kolo_bell_ring(&table->waiter, &header->hurry_bell);
    return wait_counted(table, &header->arrived, rounds, &header->rounds_bell, table->rank);
}
