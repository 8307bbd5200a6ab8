/* Ends workers' clocks, runs servers, and sets the learning rate. */
#include "table/clocks.h"

#include "shm/region.h"
#include "sync/point.h"
#include "table/nodes/outbox.h"
#include "table/shard.h"
#include "table/rows/versions.h"
#include "table/waits.h"

/* Staleness 0. */

#define SEQUENCE_BITS 23 /* of `place`; above them the piece, or KOLO_TABLE_FOLDED | clocks: 0 at first */
#define SEQUENCE_MASK ((UINT64_C(1) << SEQUENCE_BITS) - 1)

static inline uint64_t *bits_of(const struct kolo_table *table, uint32_t worker) {
    return (uint64_t *)(void *)(table->pushes + worker * table->staged_bytes);
}

static inline uint8_t *update_of(const struct kolo_table *table, uint32_t worker, uint64_t element) {
    return table->pushes + worker * table->staged_bytes + table->bits_bytes + element * table->rule.element_bytes;
}

void kolo_synchronous_stage(struct kolo_table *table, uint64_t piece, const void *update) {
    const struct kolo_piece what = kolo_piece_at(&table->pieces, piece);
    uint8_t *sum = update_of(table, table->rank, kolo_piece_element(&table->pieces, &what));
    const uint64_t word = piece / 64, bit = UINT64_C(1) << piece % 64;
    uint64_t *bits = &bits_of(table, table->rank)[word];
    if (*bits & bit) {
        kolo_rule_combine(&table->rule, sum, update, what.count);
        return;
    }
    memcpy(sum, update, what.count * table->rule.element_bytes);
    *bits |= bit;
    table->low = word < table->low ? word : table->low;
    table->high = word + 1 > table->high ? word + 1 : table->high;
}

/* Forgets what this worker has pushed in the clock that is over. Returns how many pieces that were. */
static uint64_t clear(struct kolo_table *table) {
    uint64_t *bits = bits_of(table, table->rank), pieces = 0;
    for (uint64_t word = table->low; word < table->high; word++) {
        pieces += (uint64_t)__builtin_popcountll(bits[word]);
        bits[word] = 0;
    }
    table->low = UINT64_MAX;
    table->high = 0;
    return pieces;
}

/* Closes clock `clock` if enough workers have ended it. */
static void close_clock(struct kolo_table *table, uint64_t clock) {
    uint32_t ended = 0, left = 0; /* of the workers, those that have ended it, and those that have left before */
    for (uint32_t worker = 0; worker < table->workers; worker++) {
        const struct kolo_shared_table_rank *member = &table->members[worker];
        if (kolo_load_acquire(&member->clock) >= 2 * clock + 2)
            ended++;
        else
            left += kolo_load_acquire(&member->state) == KOLO_TABLE_LEFT;
    }
    /* A worker that has ended the clock has waited until the clocks before were folded. */
    if (ended == 0 || ended + left + (uint32_t)table->options.backup_workers < table->workers)
        return;
    for (uint32_t worker = 0; worker < table->workers; worker++) {
        kolo_atomic_u64 *word = &table->members[worker].clock;
        for (uint64_t found; (found = kolo_load_acquire(word)) < 2 * clock + 1;) {
            KOLO_POINT("synchronous.leaving_out");
            kolo_compare_and_swap(word, found, 2 * clock + 1); /* fails if the worker has ended the clock by now */
        }
    }
    KOLO_POINT("synchronous.closing");
    if (!kolo_compare_and_swap(&table->header->closed, clock, clock + 1))
        return;
    KOLO_POINT("synchronous.closed");
    kolo_bell_ring(&table->waiter, &table->header->bell);
    kolo_waits_call_servers(table);
}

/* The workers whose updates count in the clock, by rank. */
struct fold {
    uint32_t workers; /* of them */
    uint32_t ranks[KOLO_RANKS_MAX];
};

static void fold_piece(struct kolo_table *table, const struct fold *fold, uint64_t piece) {
    const struct kolo_piece what = kolo_piece_at(&table->pieces, piece);
    const uint64_t element = kolo_piece_element(&table->pieces, &what), bit = UINT64_C(1) << piece % 64;
    const void *first = NULL;
    uint64_t mark = 1; /* of several nodes: the rank of that, plus one */
    for (uint32_t i = 0; i < fold->workers; i++) {
        const bool has_pushed = bits_of(table, fold->ranks[i])[piece / 64] & bit;
        table->folded[i] = has_pushed ? update_of(table, fold->ranks[i], element) : table->zeros;
        if (has_pushed && !first) {
            first = table->folded[i];
            mark = kolo_rank_global(table->comm, fold->ranks[i]) + 1;
        }
    }
    if (table->rule.kind != KOLO_TABLE_ASSIGN) {
        const kolo_kernel *kernel = &table->comm->reducer->kernels[table->rule.dtype][table->options.op];
        if (table->nodes)
            kernel->fold_partial(table->sum, table->folded, fold->workers, what.count);
        else
            kernel->fold(table->sum, table->folded, fold->workers, what.count, fold->workers);
        first = table->sum;
    }
    if (table->nodes)
        kolo_outbox_hold(table, piece, first, mark);
    else
        kolo_shard_write(table, piece, first);
}

/* The first word, from `word` on, of the pieces' bits in which some worker has set some, which *found has. */
static uint64_t next_word(const struct kolo_table *table, const struct fold *fold, uint64_t word, uint64_t end,
                          uint64_t *found) {
    for (; word < end; word++) {
        *found = 0;
        for (uint32_t i = 0; i < fold->workers; i++)
            *found |= bits_of(table, fold->ranks[i])[word];
        if (*found)
            break;
    }
    return word;
}

/* The first piece of the shard that the fold of the clock has not written; UINT64_MAX where all are written. */
static uint64_t first_unwritten(const struct kolo_table *table, uint32_t shard, uint64_t clock, uint64_t begin) {
    const uint64_t place = kolo_load_acquire(&table->shard[shard].place);
    if (place & KOLO_TABLE_FOLDED)
        return place == (KOLO_TABLE_FOLDED | (clock + 1)) ? UINT64_MAX : begin;
    const uint64_t piece = place >> SEQUENCE_BITS, sequence = kolo_load_acquire(kolo_piece_sequence(table, piece));
    return (sequence & SEQUENCE_MASK) == (place & SEQUENCE_MASK) ? piece : piece + 1;
}

static void fold_shard(struct kolo_table *table, uint32_t shard, uint64_t clock) {
    struct kolo_shared_shard *shared = &table->shard[shard];
    const struct kolo_pieces *pieces = &table->pieces;
    uint64_t begin, end;
    const bool is_range = kolo_pieces_shard_range(pieces, shard, &begin, &end);
    const uint64_t first = first_unwritten(table, shard, clock, begin);
    struct fold fold = {.workers = 0};
    for (uint32_t worker = 0; worker < table->workers; worker++)
        if (kolo_load_acquire(&table->members[worker].clock) >= 2 * clock + 2)
            fold.ranks[fold.workers++] = worker;
    uint64_t found, applied = 0;
    for (uint64_t word = first / 64; first < end; word++) {
        word = next_word(table, &fold, word, (end + 63) / 64, &found);
        if (word == (end + 63) / 64)
            break;
        for (; found; found &= found - 1) {
            const uint64_t piece = word * 64 + (uint64_t)__builtin_ctzll(found);
            if (piece < first || piece >= end || (!is_range && kolo_piece_shard(pieces, piece) != shard))
                continue;
            KOLO_POINT("synchronous.noting");
            kolo_store_release(&shared->place,
                               piece << SEQUENCE_BITS |
                                   (kolo_load_relaxed(kolo_piece_sequence(table, piece)) & SEQUENCE_MASK));
            KOLO_POINT("synchronous.noted");
            fold_piece(table, &fold, piece);
            applied++;
        }
    }
    KOLO_POINT("synchronous.folding");
    kolo_store_release(&shared->place, KOLO_TABLE_FOLDED | (clock + 1));
    KOLO_POINT("synchronous.done");
    kolo_publish(&table->waiter, &shared->folded, clock + 1, &shared->bell);
    KOLO_POINT("synchronous.folded");
    kolo_table_count(&table->self->applied, applied);
}

void kolo_synchronous_help(struct kolo_table *table) {
    close_clock(table, kolo_load_acquire(&table->header->closed));
    kolo_fence_full(); /* pairs with the one in kolo_shard_give */
    for (uint32_t i = 0; i < table->shards; i++) {
        const uint32_t shard = (table->rank + i) % table->shards;
        kolo_atomic_u64 *folded = &table->shard[shard].folded;
        /* The loop looks again, since the next clock may be closed while this rank still has the role. A rank that
         * finds the role taken then sleeps until the shard is folded. */
        for (uint64_t clock; (clock = kolo_load_acquire(folded)) < kolo_load_acquire(&table->header->closed) &&
                             kolo_shard_take(table, shard);) {
            /* Another rank may have folded the clock before this one had the role. No clock is closed before the one
             * before it is folded, as all workers wait for that. */
            if (kolo_load_acquire(folded) == clock)
                fold_shard(table, shard, clock);
            kolo_shard_give(table, shard);
        }
    }
}

static int wait_folded(struct kolo_table *table, uint64_t clocks) {
    int rc = kolo_wait_closed(table, clocks);
    for (uint32_t i = 0; i < table->shards && rc == 0; i++) {
        const uint32_t shard = (table->rank + i) % table->shards;
        rc = kolo_wait_shard(table, shard, &table->shard[shard].folded, clocks);
    }
    return rc;
}

static int wait_together(struct kolo_table *table) {
    kolo_atomic_u64 *word = &table->self->clock;
    for (;;) { /* repeats only if this worker is left out of one more clock */
        const uint64_t found = kolo_load_acquire(word), clocks = (found + 1) / 2;
        int rc = wait_folded(table, clocks);
        if (rc == 0 && table->nodes)
            rc = kolo_wait_arrived(table, clocks);
        if (rc < 0)
            return rc;
        if (found % 2 && !kolo_compare_and_swap(word, found, 2 * clocks))
            continue;
        if (clocks > table->clock) {
            const uint64_t pieces = clear(table);
            table->left_out += table->has_ended ? 0 : pieces; /* the word may be odd for the clock after that */
        }
        table->clock = clocks;
        table->has_ended = false;
        return 0;
    }
}

int kolo_synchronous_reserve(struct kolo_table *table, uint64_t first, uint64_t end) {
    /* If the wait for a clock that this worker has ended was given up, what it has pushed in that clock belongs to
     * those that fold it until the clock is over; later clocks may have left the worker out since. */
    const int resumed = table->has_ended ? wait_together(table) : 0;
    if (resumed < 0)
        return resumed;
    const uint64_t last = (end * table->rule.element_bytes - 1) / KOLO_TABLE_RESERVED_BYTES;
    for (uint64_t part = first * table->rule.element_bytes / KOLO_TABLE_RESERVED_BYTES; part <= last; part++) {
        if (table->reserved[part / 64] >> part % 64 & 1)
            continue;
        const size_t begin = part * KOLO_TABLE_RESERVED_BYTES, all = table->staged_bytes - table->bits_bytes;
        const size_t bytes = all - begin < KOLO_TABLE_RESERVED_BYTES ? all - begin : KOLO_TABLE_RESERVED_BYTES;
        const int rc = kolo_region_populate("kolo_table_push", update_of(table, table->rank, 0) + begin, bytes);
        if (rc < 0)
            return rc;
        table->reserved[part / 64] |= UINT64_C(1) << part % 64;
    }
    return 0;
}

static int advance_together(struct kolo_table *table) {
    const bool is_late = kolo_load_relaxed(&table->self->clock) == 2 * table->clock + 2; /* see above */
    const int resumed = is_late ? wait_together(table) : 0;
    if (resumed < 0)
        return resumed;
    KOLO_POINT("synchronous.ending");
    if (!table->has_ended) /* otherwise the last wait for the clock has failed */
        table->has_ended = kolo_compare_and_swap(&table->self->clock, 2 * table->clock, 2 * table->clock + 2);
    KOLO_POINT("synchronous.ended");
    kolo_synchronous_help(table);
    return wait_together(table);
}

/* Any staleness. */

bool kolo_clocks_help(kolo_waiter *waiter) {
    struct kolo_table *table = waiter->owner;
    if (table->awaits_shard == KOLO_NO_WAIT)
        return false;
    if (kolo_table_is_synchronous(table))
        kolo_synchronous_help(table);
    else
        kolo_shard_help(table, table->awaits_shard);
    return true;
}

/* Waits until the promise of the staleness holds. is_all: waits also until this worker's pushes have come to other
 * nodes, where that needs no other worker, and, with unbounded staleness, until the pushes of workers that have ended
 * are applied. */
static int catch_up(struct kolo_table *table, bool is_all) {
    const uint64_t staleness = (uint64_t)table->options.staleness;
    int rc = 0;
    for (uint32_t worker = 0; worker < table->workers && rc == 0 && table->clock > staleness; worker++)
        rc = kolo_wait_worker(table, worker, table->clock - staleness);
    const bool is_bounded = table->options.staleness != KOLO_STALENESS_UNBOUNDED, is_of_all = is_bounded || is_all;
    for (uint32_t i = 0; i < table->shards && rc == 0 && (is_of_all || table->has_queued); i++)
        rc = kolo_shard_settle(table, (table->rank + i) % table->shards, !is_of_all);
    if (rc == 0)
        table->has_queued = false;
    if (rc < 0 || !table->nodes)
        return rc;
    /* The next round has what has been pushed until now, which is everywhere once the round after it is over here. */
    if (!is_bounded)
        return is_all ? kolo_wait_arrived(table, kolo_load_acquire(&table->header->taking) + 2) : 0;
    return table->clock > staleness ? kolo_wait_arrived(table, table->clock - staleness) : 0;
}

int kolo_clocks_advance(struct kolo_table *table) {
    if (kolo_table_is_synchronous(table))
        return advance_together(table);
    table->clock++;
    KOLO_POINT("clock.ending");
    kolo_store_release(&table->self->clock, 2 * table->clock);
    kolo_publish(&table->waiter, &table->self->reached, table->clock, &table->self->bell);
    KOLO_POINT("clock.ended");
    return catch_up(table, false);
}

int kolo_clocks_wait(struct kolo_table *table) {
    return kolo_table_is_synchronous(table) ? wait_together(table) : catch_up(table, true);
}

void kolo_clocks_leave(struct kolo_table *table) {
    /* Others end clocks without a rank that has left. If this rank leaves a broken table, they get its error: they may
     * not have seen yet that it has aborted the communicator. */
    const bool has_failed = kolo_table_is_synchronous(table) && (table->is_broken || kolo_waits_find_abort(table) < 0);
    kolo_waits_let_go(table, table->rank, has_failed ? KOLO_TABLE_DEAD : KOLO_TABLE_LEFT);
    if (kolo_table_is_synchronous(table) && !table->is_broken)
        kolo_synchronous_help(table); /* others may wait for this rank alone */
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
        const bool is_over = !kolo_table_has_workers(table) &&
                             (!table->nodes || kolo_load_acquire(&table->header->ended) != KOLO_ROUNDS_GO_ON);
        serve_once(table); /* applies also what workers pushed before they left */
        if (is_over)
            return 0;
        const int rc = kolo_wait_for(table, &table->self->events, events + 1, &table->self->bell, table->rank);
        if (rc < 0 && rc != KOLO_ERR_TIMEOUT) /* a server may wait for as long as workers compute */
            return rc;
    }
}

/* The learning rate. `rate_set` of the header says whose set of it counts: its clock plus one, how many sets of that
 * clock came before, and the rank, of all nodes. It only ever rises, so that all nodes come to the same. A rank writes
 * its rate before it raises the word: to the one of its two words that the set before does not name, whose rate stays
 * in case the rank ends in between. Who has raised the word copies the rate to where pushes read it, until the word is
 * still the same afterwards: of two that do so at once, the later one leaves the rate that counts. */

enum { RATE_RANK_BITS = 10, RATE_CLOCK_SHIFT = 30 };

static_assert(KOLO_RANKS_MAX <= 1 << RATE_RANK_BITS, "the word has room for each rank");

static uint32_t setter_of(uint64_t set) {
    return (uint32_t)(set & ((1 << RATE_RANK_BITS) - 1));
}

static uint64_t rate_of(const struct kolo_table *table, uint64_t set) {
    const uint32_t rank = setter_of(set);
    if (table->nodes && table->nodes->node_of[rank] != table->node)
        return kolo_load_acquire(&table->header->others_rate);
    const uint32_t local = table->nodes ? kolo_nodes_local_rank(table->nodes, rank) : rank;
    return kolo_load_acquire(&table->members[local].rate[set >> RATE_RANK_BITS & 1]);
}

uint64_t kolo_rate_get(const struct kolo_table *table, uint64_t *set) {
    uint64_t rate;
    do {
        *set = kolo_load_acquire(&table->header->rate_set);
        rate = rate_of(table, *set);
    } while (kolo_load_acquire(&table->header->rate_set) != *set);
    return rate;
}

static void copy_rate(struct kolo_table *table) {
    kolo_atomic_u64 *word = &table->header->rate_set;
    uint64_t copied;
    do {
        copied = kolo_load_acquire(word);
        kolo_store_release(&table->header->learning_rate, rate_of(table, copied));
        kolo_fence_full(); /* pairs with the compare-and-swap of another rank */
    } while (kolo_load_acquire(word) != copied);
}

bool kolo_rate_set(struct kolo_table *table, uint64_t bits) {
    const bool is_bounded = table->options.staleness != KOLO_STALENESS_UNBOUNDED,
               has_clock = kolo_table_is_worker(table) && is_bounded;
    uint64_t found, made;
    do {
        found = kolo_load_acquire(&table->header->rate_set);
        const uint64_t now = found >> RATE_CLOCK_SHIFT, own = table->clock + 1;
        if (has_clock && now > own)
            return true;
        if (now >= own && rate_of(table, found) == bits) /* as where every worker sets it */
            break;
        made = (found >> RATE_RANK_BITS) + 1;
        if (now < own) /* its first number is odd after an even one, and even after an odd one */
            made = own << (RATE_CLOCK_SHIFT - RATE_RANK_BITS) | (made & 1);
        else if (is_bounded &&
                 made >> (RATE_CLOCK_SHIFT - RATE_RANK_BITS) != now) /* it would count for the next clock */
            return false;
        kolo_store_release(&table->self->rate[made & 1], bits);
        made = made << RATE_RANK_BITS | table->comm->global_rank;
    } while (!kolo_compare_and_swap(&table->header->rate_set, found, made));
    copy_rate(table);
    return true;
}

void kolo_rate_take(struct kolo_table *table, uint64_t set, uint64_t bits) {
    uint64_t found;
    if (set == 0 || setter_of(set) >= table->comm->global_size)
        return;
    do { /* also for the same set, of the same rate: a rank of this node may have ended before it copied it */
        found = kolo_load_acquire(&table->header->rate_set);
        if (found > set)
            return;
        kolo_store_release(&table->header->others_rate, bits);
    } while (!kolo_compare_and_swap(&table->header->rate_set, found, set));
    copy_rate(table);
}
