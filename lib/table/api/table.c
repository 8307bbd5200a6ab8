/* The calls of programs on a table, but for creation and files: checks their arguments. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "table/api/table_calls.h"
#include "base/sized.h"
#include "base/status.h"
#include "table/access.h"
#include "table/clocks.h"

int kolo_table_unusable(const char *function, const kolo_table *table) {
    if (!table)
        return kolo_fail(KOLO_ERR_ARG, "%s: table is NULL", function);
    if (!table->comm->token->ours)
        return kolo_fail(KOLO_ERR_STATE,
                         "%s: the table was inherited through fork; only the process that created it can use it",
                         function);
    return KOLO_FAIL_IN(table->comm, function, KOLO_ERR_STATE, "the table is broken by an earlier failure");
}

__attribute__((cold)) static int refuse_rows(const char *function, const kolo_table *table, uint64_t row) {
    return KOLO_REFUSE(table->comm, function, "row %" PRIu64 ": the table has rows 0 to %" PRIu64, row,
                       table->pieces.rows - 1);
}

__attribute__((cold)) static int refuse_null(const char *function, const kolo_table *table, const char *what) {
    return KOLO_REFUSE(table->comm, function, "%s is NULL", what);
}

__attribute__((cold)) static int refuse_server(const char *function, const kolo_table *table) {
    return KOLO_REFUSE(table->comm, function, "this rank is a server of the table, and not a worker");
}

/* Checks a call of a worker that pushes, or ends a clock. */
static inline int check_worker(const char *function, const kolo_table *table) {
    const int rc = kolo_table_check(function, table);
    if (__builtin_expect(rc == 0 && !kolo_table_is_worker(table), 0))
        return refuse_server(function, table);
    if (__builtin_expect(rc == 0 && table->is_coming, 0))
        return KOLO_FAIL_IN(table->comm, function, KOLO_ERR_STATE,
                            "kolo_table_save has timed out: call it again first");
    return rc;
}

static inline int check_range(const char *function, const kolo_table *table, uint64_t first, uint64_t rows,
                              const void *values) {
    if (__builtin_expect(first > table->pieces.rows || rows > table->pieces.rows - first, 0))
        return refuse_rows(function, table, first > table->pieces.rows ? first : table->pieces.rows);
    return __builtin_expect(!values && rows > 0, 0) ? refuse_null(function, table, "values") : 0;
}

static inline int check_ids(const char *function, const kolo_table *table, const uint64_t *ids, size_t count,
                            const void *values) {
    if (__builtin_expect(count > 0 && (!ids || !values), 0))
        return refuse_null(function, table, ids ? "values" : "ids");
    for (size_t i = 0; i < count; i++)
        if (__builtin_expect(ids[i] >= table->pieces.rows, 0))
            return refuse_rows(function, table, ids[i]);
    return 0;
}

/* Makes a push of several rows, and puts it into the trace. ids: NULL: of rows from `first` on. */
static int push_traced(kolo_table *table, const uint64_t *ids, uint64_t first, uint64_t rows, const void *updates) {
    kolo_trace_span_begin(KOLO_TRACE_PUSH, table->comm->waiter.trace, 0, rows, ids ? 0 : first);
    const int rc = kolo_access_push(table, ids, first, rows, updates);
    kolo_trace_span_end(KOLO_TRACE_PUSH, rc);
    return rc;
}

/* Checks a pull, and puts it into the trace. It is kept out of the callers, so that the shortest calls save no
 * registers. */
static __attribute__((noinline)) int pull(kolo_table *table, bool by_ids, const uint64_t *ids, uint64_t first,
                                          size_t count, void *values) {
    const char *function = by_ids ? "kolo_table_pull_rows" : "kolo_table_pull";
    int rc = kolo_table_check(function, table);
    if (rc == 0)
        rc = by_ids ? check_ids(function, table, ids, count, values)
                    : check_range(function, table, first, count, values);
    if (rc < 0 || (count == 0 && !by_ids))
        return rc;
    kolo_trace_span_begin(KOLO_TRACE_PULL, table->comm->waiter.trace, 0, count, first);
    rc = kolo_access_pull(table, ids, first, count, values);
    kolo_trace_span_end(KOLO_TRACE_PULL, rc);
    return rc;
}

int kolo_table_pull(kolo_table *table, uint64_t first, uint64_t rows, void *values) {
    if (rows == 1 && kolo_table_is_usable(table) && kolo_access_pull_one(table, first, values))
        return 0;
    return pull(table, false, NULL, first, rows, values);
}

int kolo_table_pull_rows(kolo_table *table, const uint64_t *ids, size_t count, void *values) {
    if (count == 1 && ids && kolo_table_is_usable(table) && kolo_access_pull_one(table, ids[0], values))
        return 0;
    return pull(table, true, ids, 0, count, values);
}

int kolo_table_push(kolo_table *table, uint64_t first, uint64_t rows, const void *updates) {
    const int usable = check_worker(__func__, table);
    if (usable < 0)
        return usable;
    const int rc = check_range(__func__, table, first, rows, updates);
    return rc < 0 || rows == 0 ? rc : push_traced(table, NULL, first, rows, updates);
}

int kolo_table_push_rows(kolo_table *table, const uint64_t *ids, size_t count, const void *updates) {
    const int usable = check_worker(__func__, table);
    if (usable < 0)
        return usable;
    const int rc = check_ids(__func__, table, ids, count, updates);
    return rc < 0 || count == 0 ? rc : push_traced(table, ids, 0, count, updates);
}

/* The piece of row `row` that has element `first`. */
static int find_piece(const char *function, const kolo_table *table, uint64_t row, size_t first, uint64_t *piece) {
    if (row >= table->pieces.rows)
        return refuse_rows(function, table, row);
    const size_t columns = kolo_pieces_row_columns(&table->pieces, row);
    if (first >= columns)
        return KOLO_REFUSE(table->comm, function, "element %zu: row %" PRIu64 " has elements 0 to %zu", first, row,
                           columns - 1);
    *piece = kolo_pieces_of_row(&table->pieces, row) + first / table->pieces.piece_columns;
    return 0;
}

#define INITIALIZED_BYTES ((size_t)1 << 20) /* of rows that go to other nodes at a time */

static const struct kolo_sized sized_view = KOLO_SIZED(kolo_table_view, view_bytes, version);

int kolo_table_view_row(kolo_table *table, uint64_t row, size_t first, kolo_table_view *view) {
    const int usable = kolo_table_check(__func__, table);
    if (usable < 0)
        return usable;
    uint64_t piece = 0;
    const int rc = view ? find_piece(__func__, table, row, first, &piece) : refuse_null(__func__, table, "view");
    if (rc < 0)
        return rc;
    const struct kolo_piece what = kolo_piece_at(&table->pieces, piece);
    kolo_table_view ours;
    memset(&ours, 0, sizeof ours);
    ours.values = kolo_access_view(table, piece, &ours.version);
    ours.first = what.first;
    ours.count = what.count;
    ours.piece = piece;
    return kolo_sized_give(&sized_view, __func__, view, &ours);
}

int kolo_table_view_holds(const kolo_table *table, const kolo_table_view *view) {
    uint64_t version;
    if (kolo_table_check("kolo_table_view_holds", table) < 0 || !view || view->piece >= table->pieces.pieces)
        return 0;
    kolo_fence_loads(); /* what the caller has read, before the look at the version */
    kolo_access_view(table, view->piece, &version);
    return version == view->version;
}

int kolo_table_clock(kolo_table *table) {
    const int usable = check_worker(__func__, table);
    if (usable < 0)
        return usable;
    kolo_trace_span_begin(KOLO_TRACE_TABLE_WAIT, table->comm->waiter.trace, 0, table->clock, 0);
    const int rc = kolo_clocks_advance(table);
    kolo_trace_span_end(KOLO_TRACE_TABLE_WAIT, rc);
    return rc;
}

int kolo_table_wait(kolo_table *table) {
    const int usable = kolo_table_check(__func__, table);
    if (usable < 0)
        return usable;
    if (!kolo_table_is_worker(table))
        return refuse_server(__func__, table);
    kolo_trace_span_begin(KOLO_TRACE_TABLE_WAIT, table->comm->waiter.trace, 0, table->clock, 0);
    const int rc = kolo_clocks_wait(table);
    kolo_trace_span_end(KOLO_TRACE_TABLE_WAIT, rc);
    return rc < 0 ? rc : kolo_table_file_wait(table);
}

int kolo_table_serve(kolo_table *table) {
    const int usable = kolo_table_check(__func__, table);
    if (usable < 0)
        return usable;
    if (kolo_table_is_worker(table))
        return KOLO_REFUSE(table->comm, __func__, "this rank is a worker of the table; servers are the last %u ranks",
                           table->servers);
    return kolo_clocks_serve(table);
}

int kolo_table_set_learning_rate(kolo_table *table, double learning_rate) {
    const int usable = kolo_table_check(__func__, table);
    if (usable < 0)
        return usable;
    if (!(learning_rate >= 0 && learning_rate < INFINITY))
        return KOLO_REFUSE(table->comm, __func__, "%g: must be 0 or more, and finite", learning_rate);
    uint64_t bits;
    memcpy(&bits, &learning_rate, sizeof bits);
    return kolo_rate_set(table, bits)
               ? 0
               : KOLO_REFUSE(table->comm, __func__,
                             "%g: the rate has changed a million times in this clock: end it first", learning_rate);
}

int kolo_table_owner(const kolo_table *table, uint64_t row, size_t first, int *rank) {
    const int usable = kolo_table_check(__func__, table);
    if (usable < 0)
        return usable;
    uint64_t piece = 0;
    const int rc = rank ? find_piece(__func__, table, row, first, &piece) : refuse_null(__func__, table, "rank");
    if (rc < 0)
        return rc;
    const uint32_t shard = kolo_piece_shard(&table->pieces, piece);
    const uint32_t node = table->nodes ? kolo_table_shard_node(table, shard) : 0;
    *rank = (int)kolo_table_shard_rank(table, shard);
    if (table->nodes && table->nodes->node_of[*rank] != node) /* that node has ended */
        *rank = (int)kolo_nodes_rank(table->nodes, node, 0);
    return 0;
}

/* Sends the root's values to all nodes, some rows at a time. The leaders set them there. */
static int initialize_nodes(kolo_table *table, const uint8_t *values, int root, int rc) {
    const struct kolo_pieces *pieces = &table->pieces;
    const size_t element_bytes = table->rule.element_bytes, longest = pieces->columns * element_bytes;
    const size_t room = longest > INITIALIZED_BYTES ? longest : INITIALIZED_BYTES;
    uint8_t *buffer = malloc(room);
    if (!buffer)
        rc = KOLO_FAIL_IN(table->comm, "kolo_table_initialize", KOLO_ERR_SYSTEM, "out of memory");
    rc = kolo_table_agree("kolo_table_initialize", table->comm, table, KOLO_CALL_TABLE_INITIALIZE, root, rc);
    for (uint64_t first = 0, end; rc == 0 && first < pieces->rows; first = end) {
        const uint64_t begin = kolo_pieces_row_element(pieces, first);
        for (end = first + 1; end < pieces->rows; end++)
            if ((kolo_pieces_row_element(pieces, end + 1) - begin) * element_bytes > room)
                break;
        const size_t bytes = (kolo_pieces_row_element(pieces, end) - begin) * element_bytes;
        if (values)
            memcpy(buffer, values + begin * element_bytes, bytes);
        rc = kolo_broadcast(table->comm, buffer, bytes, KOLO_U8, root);
        if (rc == 0 && table->rank == 0)
            kolo_access_set(table, first, end - first, buffer);
    }
    free(buffer);
    return rc < 0 ? rc : kolo_barrier(table->comm);
}

int kolo_table_initialize(kolo_table *table, const void *values, int root) {
    const int usable = kolo_table_check(__func__, table);
    if (usable < 0)
        return usable;
    if (root < 0 || (uint32_t)root >= table->comm->global_size)
        return KOLO_REFUSE(table->comm, __func__, "root %d: ranks are 0 to %u", root, table->comm->global_size - 1);
    const bool is_root = table->comm->global_rank == (uint32_t)root;
    const int rc = is_root && !values ? refuse_null(__func__, table, "values") : 0;
    if (table->nodes)
        return initialize_nodes(table, is_root ? values : NULL, root, rc);
    if (is_root && rc == 0)
        kolo_access_set(table, 0, table->pieces.rows, values);
    return kolo_table_agree(__func__, table->comm, table, KOLO_CALL_TABLE_INITIALIZE, root, rc);
}

static const struct kolo_sized sized_stats = KOLO_SIZED(kolo_table_stats, stats_bytes, net_sent_bytes);

/* Adds the other nodes' last notices, and what has been sent to these nodes. */
static void add_nodes(const kolo_table *table, kolo_table_stats *ours) {
    const struct kolo_shared_table_header *header = table->header;
    ours->rounds = kolo_load_acquire(&header->arrived);
    ours->sent_bytes = kolo_load_relaxed(&header->sent_bytes);
    ours->net_sent_bytes = kolo_load_relaxed(&header->net_sent_bytes);
    ours->applied += table->rank == 0 ? kolo_load_relaxed(&header->applied) : 0;
    const uint64_t others = kolo_load_relaxed(&header->others_workers);
    const uint64_t slowest = kolo_load_relaxed(&header->others_slowest);
    const uint64_t fastest = kolo_load_relaxed(&header->others_fastest);
    ours->workers_dead += (int)kolo_load_relaxed(&header->others_dead);
    if (ours->rounds == 0) { /* nothing is known of their workers yet, but that they have not ended a clock */
        ours->slowest_clock = 0;
        return;
    }
    if (others == 0)
        return;
    if (ours->slowest_rank < 0 || slowest < ours->slowest_clock) {
        ours->slowest_clock = slowest;
        ours->slowest_rank = (int)kolo_load_relaxed(&header->others_slowest_rank);
    }
    ours->workers += (int)others;
    ours->fastest_clock = fastest > ours->fastest_clock ? fastest : ours->fastest_clock;
}

int kolo_table_get_stats(const kolo_table *table, kolo_table_stats *stats) {
    if (!table || !table->comm->token->ours)
        return kolo_table_unusable(__func__, table);
    if (!stats)
        return refuse_null(__func__, table, "stats");
    kolo_table_stats ours;
    memset(&ours, 0, sizeof ours);
    ours.rows = table->pieces.rows;
    ours.shards = table->shards;
    ours.memory_bytes = table->memory_bytes;
    ours.clock = table->clock;
    ours.slowest_rank = -1;
    for (uint32_t worker = 0; worker < table->workers; worker++) {
        const uint64_t state = kolo_load_acquire(&table->members[worker].state),
                       clock = kolo_table_clock_of(table, worker);
        ours.workers_dead += state == KOLO_TABLE_DEAD;
        if (state != KOLO_TABLE_PRESENT)
            continue;
        ours.workers++;
        if (ours.slowest_rank < 0 || clock < ours.slowest_clock) {
            ours.slowest_clock = clock;
            ours.slowest_rank = (int)kolo_rank_global(table->comm, worker);
        }
        ours.fastest_clock = clock > ours.fastest_clock ? clock : ours.fastest_clock;
    }
    ours.pulled = kolo_load_relaxed(&table->self->pulled);
    ours.pulled_again = table->pulled_again;
    ours.pushed = kolo_load_relaxed(&table->self->pushed);
    ours.applied = kolo_load_relaxed(&table->self->applied);
    ours.left_out = table->left_out;
    ours.waited_ns = kolo_load_relaxed(&table->self->waited_ns);
    if (table->nodes)
        add_nodes(table, &ours);
    return kolo_sized_give(&sized_stats, __func__, stats, &ours);
}
