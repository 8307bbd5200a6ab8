/* The thread that takes a table through its rounds: see rounds.h. */
#include "table/nodes/rounds.h"
#include "table/api/table_calls.h"

#include <limits.h>
#include <stdlib.h>

#include "api/sharing.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/failure/failure.h"
#include "cpu/fpenv.h"
#include "sync/point.h"
#include "sync/thread.h"
#include "table/clocks.h"
#include "table/shard.h"
#include "table/waits.h"

#define IDLE_NS  (10 * KOLO_NS_PER_MS) /* unbounded: between two rounds, where the last one has carried nothing */
#define BUSY_NS  (1 * KOLO_NS_PER_MS)  /* else */
#define SLICE_NS (10 * KOLO_NS_PER_MS) /* staleness 0: of a wait for the clock's end */
#define POLL_NS  50000                 /* between two looks at a role */

#define SLICE_OVER INT_MIN /* no status: what a wait returns when its slice is over */

enum { STARTED = 1, ABANDONED };

/* Publishes in the table's communicator that a rank of this node has ended. */
static void publish_death(const struct kolo_rounds *rounds, uint32_t rank) {
    kolo_comm *comm = rounds->view.comm;
    const struct kolo_ending ending = rounds->liveness.watched[rank].ending;
    kolo_failure_relay(comm, &(struct kolo_failure_report){.status = KOLO_ERR_PEER_DEAD,
                                                           .cause = ending.cause,
                                                           .detail = ending.code,
                                                           .rank = kolo_rank_global(comm, rank),
                                                           .pid = comm->segment.members[rank].process.pid,
                                                           .reporter = comm->global_rank});
}

/* Marks local ranks that have ended, or returns that a strict table cannot go on. */
static int look_at_ranks(struct kolo_rounds *rounds) {
    struct kolo_table *table = &rounds->view;
    const bool is_tolerant = kolo_table_is_tolerant(table);
    kolo_liveness_look_at(&rounds->liveness, 0, table->ranks);
    for (uint32_t rank = 1; rank < table->ranks; rank++) {
        if (!kolo_liveness_has_ended(&rounds->liveness, rank) ||
            kolo_load_acquire(&table->members[rank].reached) == UINT64_MAX)
            continue;
        if (!is_tolerant && kolo_load_acquire(&table->members[rank].state) == KOLO_TABLE_PRESENT) {
            publish_death(rounds, rank);
            return KOLO_ERR_PEER_DEAD;
        }
        kolo_waits_let_go(table, rank, KOLO_TABLE_DEAD);
    }
    return 0;
}

/* Looks at the node's ranks, and at the table's communicator. 0, or the status with which rounds end. */
static int look(struct kolo_rounds *rounds) {
    struct kolo_table *table = &rounds->view;
    struct kolo_failure_report report = {0};
    if (kolo_load_acquire(&rounds->interrupted))
        return KOLO_ERR_ABORTED;
    if (kolo_load_acquire(kolo_comm_failure_word(table->comm)) && kolo_failure_collect(table->comm, &report) &&
        (!kolo_table_is_tolerant(table) || report.status == KOLO_ERR_ABORTED))
        return report.status;
    return look_at_ranks(rounds);
}

/* The same while the thread waits for the node's workers, which may take long: looks also at the other nodes. */
static int look_around(struct kolo_rounds *rounds) {
    struct kolo_failure_report report = {0};
    const int rc = look(rounds);
    if (rc == 0 && rounds->peers > 1 && kolo_load_acquire(kolo_comm_failure_word(rounds->leaders)) &&
        kolo_failure_collect(rounds->leaders, &report))
        return report.status;
    return rc;
}

/* The waiter's check. */
static int check(kolo_waiter *waiter, const struct kolo_wait *wait) {
    struct kolo_rounds *rounds = waiter->owner;
    const int rc = look_around(rounds);
    if (kolo_wait_reached(wait))
        return 0;
    return rc == 0 && wait->waited_ns >= rounds->slice_ns ? SLICE_OVER : rc;
}

static int wait_slice(struct kolo_rounds *rounds, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                      int64_t slice_ns) {
    rounds->slice_ns = slice_ns;
    return kolo_wait_at_least(&rounds->view.waiter, flag, target, bell, 0);
}

int kolo_round_take_role(struct kolo_rounds *rounds, uint32_t shard) {
    for (uint32_t looks = 1; !kolo_shard_take(&rounds->view, shard); looks++) {
        if (looks < 64)
            kolo_pause();
        else
            kolo_clock_sleep(POLL_NS);
        const int rc = looks % 256 ? 0 : look(rounds);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Staleness 0: whether clock `round` is closed on this node and all shards are folded. */
static bool is_folded(const struct kolo_table *table, uint64_t round) {
    if (kolo_load_acquire(&table->header->closed) <= round)
        return false;
    for (uint32_t shard = 0; shard < table->shards; shard++)
        if (kolo_load_acquire(&table->shard[shard].folded) <= round)
            return false;
    return true;
}

/* Waits until the clock is folded, and helps. Where no worker is left to wait for, it helps once. */
static int await_fold(struct kolo_rounds *rounds) {
    struct kolo_table *table = &rounds->view;
    for (uint32_t looks = 1;; looks++) { /* for as long as the workers compute */
        const bool is_left = !kolo_table_has_workers(table);
        const bool is_closed = kolo_load_acquire(&table->header->closed) > rounds->round;
        int rc = 0;
        if (!is_left && !is_closed)
            rc = wait_slice(rounds, &table->header->closed, rounds->round + 1, &table->header->bell, SLICE_NS);
        else if (is_left || looks % 64 == 0) /* the rank that folds may have ended */
            rc = look_around(rounds);
        if (rc < 0 && rc != SLICE_OVER)
            return rc;
        if (is_folded(table, rounds->round))
            return 0;
        kolo_synchronous_help(table); /* other ranks fold, unless they have ended */
        if (is_left)
            return 0;
        if (looks < 64)
            kolo_pause();
        else if (is_closed)
            kolo_clock_sleep(POLL_NS);
    }
}

static int await_workers(struct kolo_rounds *rounds) {
    struct kolo_table *table = &rounds->view;
    int rc = 0;
    for (uint32_t worker = 0; worker < table->workers && rc == 0; worker++) {
        struct kolo_shared_table_rank *member = &table->members[worker];
        rc = wait_slice(rounds, &member->reached, rounds->round + 1, &member->bell, KOLO_NEVER_NS);
    }
    return rc;
}

/* Unbounded staleness: waits for a moment, unless a worker waits for the round. */
static int pause_between(struct kolo_rounds *rounds) {
    struct kolo_shared_table_header *header = rounds->view.header;
    const uint64_t hurry = kolo_load_acquire(&header->hurry);
    if (rounds->was_busy) {
        kolo_clock_sleep(BUSY_NS);
        return look_around(rounds);
    }
    if (hurry != rounds->hurry || !kolo_table_has_workers(&rounds->view)) {
        rounds->hurry = hurry;
        return look_around(rounds);
    }
    const int rc = wait_slice(rounds, &header->hurry, hurry + 1, &header->hurry_bell, IDLE_NS);
    return rc == SLICE_OVER ? 0 : rc;
}

static int await_clock(struct kolo_rounds *rounds) {
    const struct kolo_table *table = &rounds->view;
    if (kolo_table_is_synchronous(table))
        return await_fold(rounds);
    return table->options.staleness == KOLO_STALENESS_UNBOUNDED ? pause_between(rounds) : await_workers(rounds);
}

/* Makes this node's notice. The notice is made before anything is taken, so that the pushes of a clock are in the
 * message that comes with it. */
static struct kolo_round_notice make_notice(const struct kolo_rounds *rounds) {
    const struct kolo_table *table = &rounds->view;
    struct kolo_round_notice notice = {.slowest = UINT64_MAX};
    notice.rate = kolo_rate_get(table, &notice.rate_set);
    for (uint32_t worker = 0; worker < table->workers; worker++) {
        const uint64_t state = kolo_load_acquire(&table->members[worker].state);
        const uint64_t word = kolo_load_acquire(&table->members[worker].clock), clock = word / 2;
        notice.folded += kolo_table_is_synchronous(table) && word >= 2 * rounds->round + 2;
        notice.dead += state == KOLO_TABLE_DEAD;
        if (state != KOLO_TABLE_PRESENT)
            continue;
        notice.workers++;
        notice.fastest = clock > notice.fastest ? clock : notice.fastest;
        if (clock < notice.slowest) {
            notice.slowest = clock;
            notice.slowest_rank = kolo_rank_global(table->comm, worker);
        }
    }
    return notice;
}

/* Strict tables: each exchange has the leader's limit, and this node's workers wait for its end. A node without workers
 * waits for as long as those of others compute. */
static void limit_exchanges(struct kolo_rounds *rounds) {
    kolo_comm_info info = {.info_bytes = sizeof info};
    kolo_comm_query(rounds->view.comm, &info);
    kolo_comm_set_timeout(rounds->leaders, kolo_table_has_workers(&rounds->view) ? info.timeout_ms : 0);
    kolo_store_relaxed(&rounds->view.header->exchange_limit_ns, (uint64_t)info.timeout_ms * KOLO_NS_PER_MS);
}

/* Exchanges notices with the other nodes, and with them the lengths of the messages. */
static int exchange_notices(struct kolo_rounds *rounds) {
    struct kolo_table *table = &rounds->view;
    if (!kolo_table_is_tolerant(table))
        limit_exchanges(rounds);
    for (uint32_t i = 0; i < rounds->peers; i++) {
        rounds->told[i] = rounds->notice;
        rounds->told[i].bytes = rounds->peer[i].to;
    }
    const int rc =
        kolo_alltoall(rounds->leaders, rounds->told, rounds->heard, sizeof rounds->notice / sizeof(uint64_t), KOLO_U64);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < rounds->peers; i++)
        kolo_rate_take(table, rounds->heard[i].rate_set, rounds->heard[i].rate);
    rounds->sent_bytes += (rounds->peers - 1) * sizeof rounds->notice;
    return 0;
}

static int exchange_updates(struct kolo_rounds *rounds) {
    size_t at = 0;
    for (uint32_t i = 0; i < rounds->peers; i++) {
        struct kolo_round_peer *peer = &rounds->peer[i];
        peer->from = rounds->heard[i].bytes;
        peer->from_at = at;
        at += peer->from;
        rounds->counts[0][i] = peer->to;
        rounds->offsets[0][i] = peer->to_at;
        rounds->counts[1][i] = peer->from;
        rounds->offsets[1][i] = peer->from_at;
        rounds->sent_bytes += peer->to;
    }
    int rc = kolo_round_reserve(rounds, &rounds->received, at);
    return rc < 0 ? rc
                  : kolo_alltoallv(rounds->leaders, rounds->up.bytes, rounds->counts[0], rounds->offsets[0],
                                   rounds->received.bytes, rounds->counts[1], rounds->offsets[1], KOLO_U8);
}

static int exchange_versions(struct kolo_rounds *rounds) {
    const uint64_t own = rounds->own.used;
    uint64_t *each = (uint64_t *)(void *)rounds->told; /* `told` is not needed any more */
    size_t at = 0;
    int rc = kolo_allgather(rounds->leaders, &own, each, 1, KOLO_U64);
    if (rc < 0)
        return rc;
    memset(rounds->told_bytes, 0, rounds->view.nodes->nodes * sizeof *rounds->told_bytes);
    for (uint32_t i = 0; i < rounds->peers; i++) {
        const uint32_t node = rounds->peer[i].node;
        rounds->counts[0][i] = each[i];
        rounds->told_bytes[node] = each[i];
        rounds->told_at[node] = at;
        at += each[i];
    }
    rc = kolo_round_reserve(rounds, &rounds->all, at);
    if (rc == 0)
        rc = kolo_allgatherv(rounds->leaders, rounds->own.bytes, rounds->all.bytes, rounds->counts[0], NULL, KOLO_U8);
    if (rc == 0)
        rounds->sent_bytes += (rounds->peers - 1) * (sizeof own + own);
    return rc;
}

/* Shows the other nodes' last notices, for kolo_table_get_stats. Returns how many workers these nodes have. */
static uint64_t show_others(const struct kolo_rounds *rounds) {
    struct kolo_shared_table_header *header = rounds->view.header;
    uint64_t workers = 0, dead = 0, slowest = UINT64_MAX, slowest_rank = 0, fastest = 0;
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < rounds->peers; i++) {
        const struct kolo_round_notice *heard = &rounds->heard[i];
        if (heard->workers && first == UINT32_MAX)
            first = i;
        if (i == rounds->self)
            continue;
        workers += heard->workers;
        dead += heard->dead;
        fastest = heard->fastest > fastest ? heard->fastest : fastest;
        if (heard->slowest < slowest) {
            slowest = heard->slowest;
            slowest_rank = heard->slowest_rank;
        }
    }
    for (uint32_t node = 0; node < rounds->view.nodes->nodes; node++)
        if (kolo_load_relaxed(&header->gone[node / 64]) >> node % 64 & 1)
            dead +=
                kolo_nodes_ranks_below(rounds->view.nodes, node, rounds->view.comm->global_size - rounds->view.servers);
    kolo_store_release(&header->saving_node, rounds->peer[first == UINT32_MAX ? 0 : first].node);
    kolo_show_relaxed(&header->others_workers, workers);
    kolo_show_relaxed(&header->others_dead, dead);
    kolo_show_relaxed(&header->others_slowest, slowest);
    kolo_show_relaxed(&header->others_slowest_rank, slowest_rank);
    kolo_show_relaxed(&header->others_fastest, fastest);
    return workers;
}

/* Ends the round. Returns whether workers are left on some node. */
static bool publish(struct kolo_rounds *rounds) {
    struct kolo_shared_table_header *header = rounds->view.header;
    kolo_stats stats = {.stats_bytes = sizeof stats};
    uint64_t carried = 0;
    for (uint32_t i = 0; i < rounds->peers; i++)
        carried += rounds->heard[i].bytes + rounds->peer[i].to + rounds->told_bytes[rounds->peer[i].node];
    rounds->was_busy = carried > 0;
    const uint64_t workers = show_others(rounds) + rounds->heard[rounds->self].workers;
    kolo_comm_stats(rounds->leaders, &stats);
    kolo_show_relaxed(&header->sent_bytes, rounds->sent_bytes);
    kolo_show_relaxed(&header->net_sent_bytes, stats.net_sent_bytes);
    kolo_show_relaxed(&header->applied, kolo_load_relaxed(&rounds->line->applied));
    rounds->round++;
    rounds->is_taken = false;
    rounds->applied = 0;
    for (uint32_t i = 0; i < rounds->peers; i++)
        rounds->peer[i].to = 0;
    KOLO_POINT("rounds.ending");
    kolo_publish(&rounds->view.waiter, &header->arrived, rounds->round, &header->rounds_bell);
    KOLO_POINT("rounds.ended");
    return workers > 0;
}

/* Begins a round, which has all that is taken until now. */
static int begin_round(struct kolo_rounds *rounds) {
    int rc = await_clock(rounds);
    if (rc < 0)
        return rc;
    KOLO_POINT("rounds.beginning");
    kolo_store_release(&rounds->view.header->taking, rounds->round + 1);
    rounds->notice = make_notice(rounds);
    rc = kolo_round_take(rounds);
    rounds->is_taken = true;
    return rc;
}

/* Carries what is taken to the owners, and their pieces to all nodes. It runs once more after the end of a node
 * (rounds_shrink.c). */
static int carry(struct kolo_rounds *rounds) {
    int rc = rounds->is_taken ? 0 : begin_round(rounds);
    KOLO_POINT("rounds.taken");
    if (rc == 0)
        rc = exchange_notices(rounds);
    KOLO_POINT("rounds.announced");
    if (rc == 0)
        rc = exchange_updates(rounds);
    KOLO_POINT("rounds.exchanged");
    if (rc == 0)
        rc = kolo_round_apply(rounds);
    KOLO_POINT("rounds.applied");
    if (rc == 0) {
        rounds->own.used = rounds->applied ? rounds->own.used : 0;
        rounds->applied = rounds->rerouted + 1;
        rc = kolo_round_collect(rounds);
    }
    KOLO_POINT("rounds.collected");
    if (rc == 0)
        rc = exchange_versions(rounds);
    KOLO_POINT("rounds.told");
    return rc == 0 ? kolo_round_receive(rounds) : rc;
}

/* Whether a failure is the end of other nodes, which a tolerant table goes on without. A round that has failed here is
 * over, even if another node ends as well: it lacks some updates, or has applied some. */
static bool is_loss(const struct kolo_rounds *rounds, int rc) {
    return kolo_table_is_tolerant(&rounds->view) && (rc == KOLO_ERR_PEER_DEAD || rc == KOLO_ERR_TIMEOUT);
}

/* Works until the round is over here. Begins again each time that a node is lost. */
static int do_round(struct kolo_rounds *rounds) {
    rounds->is_over = rounds->is_cut_off = false;
    int rc = carry(rounds);
    while (!rounds->is_cut_off && is_loss(rounds, rc)) {
        rc = kolo_round_go_on(rounds);
        if (rc < 0)
            continue;
        show_others(rounds);
        if (!rounds->is_over)
            rc = carry(rounds);
    }
    return rc;
}

/* Tells the other leaders why this node's rounds fail, unless they have failed there: else a leader that hears of it
 * late would take the one that leaves first for the culprit. */
static void tell_failure(struct kolo_rounds *rounds, int status) {
    const struct kolo_table *table = &rounds->view;
    struct kolo_failure_report report = {.rank = table->comm->global_rank, .cause = KOLO_CAUSE_FAILED}, found;
    KOLO_POINT("rounds.failing");
    if (rounds->peers == 1)
        return;
    if (kolo_failure_collect(table->comm, &found) && found.status == status)
        report = found;
    const uint32_t node = table->nodes->node_of[report.rank];
    uint32_t culprit = 0;
    while (culprit < rounds->peers && rounds->peer[culprit].node != node)
        culprit++;
    if (rounds->refused)
        culprit = rounds->refused - 1;
    kolo_failure_relay(rounds->leaders,
                       &(struct kolo_failure_report){.status = status,
                                                     .cause = report.cause,
                                                     .detail = report.detail,
                                                     .rank = culprit < rounds->peers ? culprit : rounds->self,
                                                     .reporter = rounds->self});
}

/* Breaks the table's communicator, too, where a node did not come to an exchange of a strict table in time. */
static void publish_late(const struct kolo_rounds *rounds, const kolo_failure *failure) {
    const struct kolo_nodes *nodes = rounds->view.nodes;
    const uint32_t late = rounds->peer[failure->rank].node, reporter = rounds->peer[failure->reporter].node;
    kolo_failure_relay(rounds->view.comm,
                       &(struct kolo_failure_report){.status = KOLO_ERR_TIMEOUT,
                                                     .cause = failure->cause,
                                                     .node = late + 1,
                                                     .rank = kolo_nodes_rank(nodes, late, 0),
                                                     .reporter = kolo_nodes_rank(nodes, reporter, 0)});
}

static void end(struct kolo_rounds *rounds, int status) {
    struct kolo_table *table = &rounds->view;
    struct kolo_shared_table_header *header = table->header;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    uint64_t culprit = 0;
    if (status < 0)
        tell_failure(rounds, status);
    if (status < 0 && kolo_comm_failure(rounds->leaders, &failure) == 0 && failure.status < 0)
        culprit = (uint32_t)failure.rank >= rounds->peers
                      ? 0
                      : kolo_nodes_rank(table->nodes, rounds->peer[failure.rank].node, 0) + 1;
    if (failure.status == KOLO_ERR_TIMEOUT && culprit && !kolo_table_is_tolerant(table))
        publish_late(rounds, &failure);
    kolo_store_relaxed(&header->status, (uint64_t)-status);
    kolo_store_relaxed(&header->culprit, culprit | (culprit && rounds->refused ? KOLO_ROUNDS_REFUSED : 0));
    kolo_publish(&table->waiter, &header->ended, status < 0 ? KOLO_ROUNDS_FAILED : KOLO_ROUNDS_OVER,
                 &header->rounds_bell);
    kolo_waits_call_servers(table);
    kolo_comm *leaders = rounds->leaders;
    rounds->leaders = NULL;     /* first: a child that is forked meanwhile leaves it alone */
    kolo_comm_destroy(leaders); /* so that the others need not wait for this node */
}

static void *run(void *argument) {
    struct kolo_rounds *rounds = argument;
    pthread_setname_np(pthread_self(), "kolo-table");
    kolo_trace_name_thread(KOLO_TRACE_SERVER);
    kolo_fpenv_enter();
    kolo_wait_idly(&rounds->view.waiter, &rounds->go, STARTED, &rounds->go_bell);
    if (kolo_load_acquire(&rounds->go) == ABANDONED)
        return NULL;
    kolo_round_prepare(rounds);
    bool goes_on = true;
    int rc = 0;
    while (goes_on && rc == 0) {
        rc = do_round(rounds);
        if (rc == 0)
            goes_on = publish(rounds);
    }
    end(rounds, rc);
    return NULL;
}

/* Allocates the thread's own memory. */
static int allocate(struct kolo_table *table, struct kolo_rounds *rounds) {
    struct kolo_table *view = &rounds->view;
    const size_t columns = table->pieces.piece_columns;
    const size_t sum_bytes = columns * (table->rule.element_bytes + table->rule.pending_bytes);
    *view = *table;
    view->liveness = &rounds->liveness;
    view->is_service = true;
    view->folded = calloc(table->workers + 1, sizeof *view->folded);
    view->sum = malloc(sum_bytes);
    view->made = malloc(table->version_bytes);
    view->came = malloc(table->version_bytes);
    rounds->line = aligned_alloc(KOLO_LINE_BYTES, sizeof *rounds->line);
    if (!view->folded || !view->sum || !view->made || !view->came || !rounds->line)
        return KOLO_FAIL_IN(table->comm, "kolo_table_create", KOLO_ERR_SYSTEM, "out of memory");
    memset(rounds->line, 0, sizeof *rounds->line);
    view->self = rounds->line;
    view->waiter.check = check;
    view->waiter.work = NULL;
    view->waiter.owner = rounds;
    kolo_store_relaxed(&view->waiter.timeout_ns, (uint64_t)KOLO_NEVER_NS);
    int rc = kolo_liveness_create(&rounds->liveness, table->ranks, table->rank);
    rounds->liveness.members = table->comm->liveness.members;
    for (uint32_t rank = 0; rc == 0 && rank < table->ranks; rank++)
        rounds->liveness.watched[rank].guard = table->comm->liveness.watched[rank].guard;
    return rc < 0 ? rc : kolo_round_reserve(rounds, &rounds->up, 1);
}

static int find_interrupt(void *context) {
    const struct kolo_rounds *rounds = context;
    return (int)kolo_load_acquire(&rounds->interrupted);
}

void kolo_round_prepare(struct kolo_rounds *rounds) {
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .interrupt = find_interrupt, .context = rounds};
    kolo_comm_set_timeout(rounds->leaders, 0);
    kolo_comm_set_hooks(rounds->leaders, &hooks);
    rounds->leaders->stall.warn_ns = 0;
}

static int make(struct kolo_table *table, kolo_comm *leaders) {
    struct kolo_rounds *rounds = calloc(1, sizeof *rounds);
    if (!rounds) {
        kolo_comm_destroy(leaders);
        return KOLO_FAIL_IN(table->comm, "kolo_table_create", KOLO_ERR_SYSTEM, "out of memory");
    }
    table->rounds = rounds;
    rounds->leaders = leaders;
    int rc = allocate(table, rounds);
    if (rc < 0)
        return rc;
    rounds->peers = table->nodes->nodes;
    rounds->self = table->node;
    for (uint32_t i = 0; i < rounds->peers; i++)
        rounds->peer[i].node = i;
    const int error = kolo_thread_start(&rounds->thread, run, rounds);
    if (error)
        return kolo_fail_system(error, "rank %u: kolo_table_create: starting a thread", table->comm->global_rank);
    rounds->has_thread = true;
    return 0;
}

int kolo_rounds_start(struct kolo_table *table) {
    kolo_comm *comm = table->comm, *leaders = NULL;
    const bool leads = comm->rank == 0;
    int rc = kolo_comm_split(comm, leads ? 0 : -1, (int)comm->node, &leaders);
    if (rc < 0)
        return rc;
    if (leads)
        rc = make(table, leaders);
    rc = kolo_table_conclude(table, kolo_table_agree("kolo_table_create", comm, NULL, KOLO_CALL_TABLE_CREATE, 0, rc));
    if (!leads)
        return rc;
    if (table->rounds && table->rounds->has_thread)
        kolo_publish(&table->waiter, &table->rounds->go, rc == 0 ? STARTED : ABANDONED, &table->rounds->go_bell);
    if (rc < 0) {
        if (table->rounds && table->rounds->has_thread)
            pthread_join(table->rounds->thread, NULL);
        kolo_rounds_free(table);
    }
    return rc;
}

bool kolo_rounds_are_over(struct kolo_table *table) {
    struct kolo_rounds *rounds = table->rounds;
    if (!rounds || !rounds->has_thread)
        return true;
    kolo_fetch_add(&table->header->hurry, 1);
    kolo_bell_ring(&table->waiter, &table->header->hurry_bell);
    rounds->has_thread = pthread_tryjoin_np(rounds->thread, NULL) != 0;
    return !rounds->has_thread;
}

/* The waiter's check: looks only whether the program is interrupted. */
static int check_left(kolo_waiter *waiter, const struct kolo_wait *wait) {
    struct kolo_table *table = waiter->owner;
    const int code = kolo_failure_ask(&table->comm->interrupt);
    (void)wait;
    if (code) { /* a tolerant table goes on after an earlier failure: the abort alone would not end its rounds */
        kolo_failure_publish(table->comm, KOLO_ERR_ABORTED, code);
        kolo_store_release(&table->rounds->interrupted, (uint64_t)code);
    }
    return 0;
}

void kolo_rounds_join(struct kolo_table *table) {
    struct kolo_shared_table_header *header = table->header;
    if (kolo_rounds_are_over(table))
        return;
    table->waiter.check = check_left;
    table->waiter.work = NULL;
    kolo_waits_do_as_comm(table);
    kolo_store_relaxed(&table->waiter.timeout_ns, (uint64_t)KOLO_NEVER_NS);
    kolo_wait_at_least(&table->waiter, &header->ended, KOLO_ROUNDS_OVER, &header->rounds_bell, 0);
    pthread_join(table->rounds->thread, NULL);
    table->rounds->has_thread = false;
}

void kolo_rounds_free(struct kolo_table *table) {
    struct kolo_rounds *rounds = table->rounds;
    if (!rounds)
        return;
    kolo_comm_destroy(rounds->leaders);
    kolo_liveness_destroy(&rounds->liveness, !table->comm->token->ours);
    free(rounds->view.folded);
    free(rounds->view.sum);
    free(rounds->view.made);
    free(rounds->view.came);
    free(rounds->line);
    free(rounds->up.bytes);
    free(rounds->received.bytes);
    free(rounds->own.bytes);
    free(rounds->all.bytes);
    free(rounds);
    table->rounds = NULL;
}
