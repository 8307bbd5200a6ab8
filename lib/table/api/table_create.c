/* Makes tables, and ends them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/buffers.h"
#include "api/requests/queue.h"
#include "api/sharing.h"
#include "table/nodes/rounds.h"
#include "table/api/table_calls.h"
#include "base/file.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/failure/failure.h"
#include "comm/failure/process.h"
#include "shm/memory_file.h"
#include "shm/region.h"
#include "sync/point.h"
#include "table/clocks.h"
#include "table/shard.h"
#include "table/waits.h"
#include "table/rows/versions.h"

static const char function[] = "kolo_table_create";
static const struct kolo_sized sized_options = KOLO_SIZED(kolo_table_options, options_bytes, queue_bytes);

enum { SPLIT_BYTES_MIN = 64 };

#define SIZE_LIMIT (SIZE_MAX / 64) /* of the bytes of each part: sums of such do not overflow */

static int refuse(const kolo_comm *comm, const char *what, double value, const char *must) {
    return KOLO_REFUSE(comm, function, "%s %g: must be %s", what, value, must);
}

static int check_sizes(const kolo_comm *comm, const kolo_table_options *options) {
    if (options->rows == 0)
        return refuse(comm, "rows", 0, "at least 1");
    if (!options->row_columns && options->columns == 0)
        return refuse(comm, "columns", 0, "at least 1, or row_columns given");
    for (uint64_t row = 0; options->row_columns && row < options->rows; row++)
        if (options->row_columns[row] == 0)
            return KOLO_REFUSE(comm, function, "row_columns[%" PRIu64 "] is 0: must be at least 1", row);
    if (options->split_bytes < SPLIT_BYTES_MIN)
        return refuse(comm, "split_bytes", (double)options->split_bytes, "at least 64");
    if (options->queue_bytes > SIZE_LIMIT)
        return refuse(comm, "queue_bytes", (double)options->queue_bytes, "what memory can hold");
    if (options->name && strlen(options->name) >= KOLO_TABLE_NAME_BYTES)
        return KOLO_REFUSE(comm, function, "name \"%.40s\" is longer than 31 characters", options->name);
    return 0;
}

static int check_modes(const kolo_comm *comm, const kolo_table_options *options) {
    const int workers = (int)comm->global_size - options->servers;
    if (options->op != KOLO_SUM && (options->op != KOLO_AVG || options->staleness != 0))
        return refuse(comm, "op", options->op, "SUM, or with staleness 0 AVG");
    if (options->staleness < 0)
        return refuse(comm, "staleness", (double)options->staleness, "0 or more; INT64_MAX: unbounded");
    if (options->servers < 0 || workers < 1)
        return refuse(comm, "servers", options->servers, "from 0 to the number of ranks less 1");
    if (options->backup_workers < 0 || options->backup_workers >= workers ||
        (options->backup_workers > 0 && options->staleness > 0))
        return refuse(comm, "backup_workers", options->backup_workers,
                      "from 0 to the number of workers less 1, and 0 unless staleness is 0");
    if (options->hogwild != 0 && options->hogwild != 1)
        return refuse(comm, "hogwild", options->hogwild, "0 or 1");
    if (options->hogwild &&
        (options->staleness == 0 || (options->dtype != KOLO_F32 && options->dtype != KOLO_F64) ||
         !(options->rule == KOLO_TABLE_ADD ||
           (options->rule == KOLO_TABLE_SGD && options->momentum == 0 && options->weight_decay == 0))))
        return refuse(
            comm, "hogwild", 1,
            "0, but with ADD, or SGD without momentum and weight decay, of F32 or F64, and staleness above 0");
    if ((unsigned)options->placement >= KOLO_PLACEMENTS)
        return refuse(comm, "placement", options->placement, "one of KOLO_PLACEMENT_*");
    if (options->shards < 0 || options->shards > KOLO_TABLE_SHARDS_MAX)
        return refuse(comm, "shards", options->shards, "from 0 to 65536");
    return 0;
}

enum { OPTIONS = 22 }; /* before row_columns */

/* One of the items that ranks have to agree on. */
static struct kolo_item item_of(const void *context, size_t index) {
    const kolo_table_options *options = context;
    if (index >= OPTIONS)
        return kolo_item_of_list("row_columns", index - OPTIONS, "", options->row_columns[index - OPTIONS]);
    const struct kolo_item items[OPTIONS] = {kolo_item_number("rows", options->rows),
                                             kolo_item_number("columns", options->columns),
                                             kolo_item_named("dtype", KOLO_NAME_DTYPE, options->dtype),
                                             kolo_item_named("rule", KOLO_NAME_TABLE_RULE, options->rule),
                                             kolo_item_named("op", KOLO_NAME_OP, options->op),
                                             kolo_item_number("staleness", (uint64_t)options->staleness),
                                             kolo_item_number("state_bytes", options->state_bytes),
                                             kolo_item_named("placement", KOLO_NAME_PLACEMENT, options->placement),
                                             kolo_item_number("shards", (uint64_t)options->shards),
                                             kolo_item_number("split_bytes", options->split_bytes),
                                             kolo_item_number("servers", (uint64_t)options->servers),
                                             kolo_item_number("backup_workers", (uint64_t)options->backup_workers),
                                             kolo_item_number("queue_bytes", options->queue_bytes),
                                             kolo_item_number("hogwild", (uint64_t)options->hogwild),
                                             kolo_item_real("learning_rate", options->learning_rate),
                                             kolo_item_real("momentum", options->momentum),
                                             kolo_item_real("beta1", options->beta1),
                                             kolo_item_real("beta2", options->beta2),
                                             kolo_item_real("epsilon", options->epsilon),
                                             kolo_item_real("weight_decay", options->weight_decay),
                                             {.name = "name", .text = options->name ? options->name : ""},
                                             {.name = "row_columns", .text = options->row_columns ? "given" : "NULL"}};
    return items[index];
}

static struct kolo_items items_of(const kolo_table_options *options) {
    return (struct kolo_items){
        .count = OPTIONS + (options->row_columns ? options->rows : 0), .item = item_of, .context = options};
}

int kolo_table_agree(const char *caller, kolo_comm *comm, const kolo_table *table, unsigned what, int root, int rc) {
    struct kolo_call_key key = kolo_call_key_of(KOLO_TABLE, table ? table->made_in_call : 0);
    key.op = (uint8_t)what;
    key.root = (uint16_t)root;
    return kolo_status_meet(comm, caller, key, rc);
}

/* Places the pieces: by stride, or one behind the other. *bytes is the size of all. */
static int place_pieces(struct kolo_table *table, size_t *bytes) {
    const struct kolo_pieces *pieces = &table->pieces;
    table->even_rows = pieces->per_row == 1 ? pieces->rows : 0;
    table->row_bytes = pieces->columns * table->rule.element_bytes;
    table->version_bytes = kolo_version_bytes(&table->rule, pieces->piece_columns);
    table->stride = kolo_piece_bytes(table->version_bytes);
    if (pieces->pieces > SIZE_LIMIT / table->stride)
        return KOLO_REFUSE(table->comm, function, "rows %" PRIu64 ": the table is larger than memory can be",
                           pieces->rows);
    *bytes = pieces->pieces * table->stride;
    if (pieces->per_row)
        return 0;
    table->places = malloc(pieces->pieces * sizeof *table->places);
    if (!table->places)
        return KOLO_FAIL_IN(table->comm, function, KOLO_ERR_SYSTEM, "out of memory");
    *bytes = 0;
    for (struct kolo_walk walk = kolo_walk_rows(pieces, 0, pieces->rows); kolo_walk_next(&walk);) {
        table->places[walk.piece] = *bytes;
        *bytes += (kolo_piece_bytes(kolo_version_bytes(&table->rule, walk.count)) + 63) / 64 * 64;
    }
    return 0;
}

static size_t lines(size_t bytes) {
    return (bytes + KOLO_LINE_BYTES - 1) / KOLO_LINE_BYTES * KOLO_LINE_BYTES;
}

/* Of the node that has most of them, and `own` at least: how many of the ranks below `end` are there. Nodes have
 * buffers of one size. */
static uint32_t most_of(const struct kolo_table *table, uint32_t own, uint32_t end) {
    uint32_t most = own;
    for (uint32_t node = 0; table->nodes && node < table->nodes->nodes; node++) {
        const uint32_t ranks = kolo_nodes_ranks_below(table->nodes, node, end);
        most = ranks > most ? ranks : most;
    }
    return most;
}

static uint32_t most_workers(const struct kolo_table *table) {
    return most_of(table, table->workers, table->comm->global_size - table->servers);
}

/* Lays out the second buffer; *bytes is its size. */
static int lay_out_pushes(struct kolo_table *table, size_t *bytes) {
    const struct kolo_pieces *pieces = &table->pieces;
    const size_t piece_bytes = pieces->piece_columns * table->rule.element_bytes;
    if (kolo_table_is_synchronous(table)) {
        table->bits_bytes = lines((pieces->pieces + 63) / 64 * 8);
        const size_t staged = table->bits_bytes + pieces->elements * table->rule.element_bytes;
        table->staged_bytes = (staged + KOLO_PAGE_BYTES - 1) / KOLO_PAGE_BYTES * KOLO_PAGE_BYTES;
        *bytes = most_workers(table) * table->staged_bytes;
        return 0;
    }
    const size_t least = 4 * (piece_bytes + 2 * sizeof(uint64_t));
    const size_t wanted = table->options.queue_bytes ? table->options.queue_bytes : 65536;
    table->queue_bytes = lines(wanted > least ? wanted : least);
    const size_t queues = (size_t)most_workers(table) * table->shards;
    if (table->queue_bytes > SIZE_LIMIT / queues)
        return KOLO_REFUSE(table->comm, function, "%zu queues of %zu bytes: more than memory can hold", queues,
                           table->queue_bytes);
    *bytes = queues * (sizeof(struct kolo_shared_queue) + table->queue_bytes);
    return 0;
}

static void release(struct kolo_table *table) {
    for (int i = 0; i < 2; i++)
        if (table->regions[i].base && table->comm->token->ours)
            kolo_region_leave(&table->regions[i]);
        else if (table->regions[i].base)
            kolo_region_forget(&table->regions[i]);
    if (table->file.inode)
        kolo_file_close((int)table->file.fd, table->file.device, table->file.inode);
    kolo_pieces_destroy(&table->pieces);
    free(table->places);
    free(table->named);
    free(table->sums);
    free(table->list);
    free(table->shard_ends);
    free(table->folded);
    free(table->reserved);
    free(table->settled);
    free(table->zeros);
    free(table->sum);
    free(table->made);
    free(table->came);
    free(table);
}

/* Allocates what a rank keeps for itself. */
static int allocate(struct kolo_table *table) {
    const size_t element_bytes = table->rule.element_bytes, pending_bytes = table->rule.pending_bytes;
    const size_t piece_bytes =
        table->pieces.piece_columns * (pending_bytes > element_bytes ? pending_bytes : element_bytes);
    table->shard_ends = calloc(table->shards, sizeof *table->shard_ends);
    table->folded = calloc(table->workers + 1, sizeof *table->folded);
    const size_t parts =
        kolo_table_is_synchronous(table) ? table->staged_bytes / KOLO_TABLE_RESERVED_BYTES : table->shards;
    table->reserved = calloc(parts / 64 + 1, sizeof *table->reserved);
    table->settled = calloc(table->shards, sizeof *table->settled);
    table->zeros = calloc(1, piece_bytes);
    table->sum = malloc(piece_bytes);
    table->made = malloc(table->version_bytes);
    table->came = malloc(table->version_bytes);
    if (!table->came || !table->shard_ends || !table->folded || !table->reserved || !table->settled || !table->zeros ||
        !table->sum || !table->made)
        return KOLO_FAIL_IN(table->comm, function, KOLO_ERR_SYSTEM, "out of memory");
    return 0;
}

static void introduce(struct kolo_table *table) {
    struct kolo_shared_table_header *header = table->header;
    uint64_t rate;
    memcpy(&rate, &table->options.learning_rate, sizeof rate);
    kolo_store_relaxed(&header->learning_rate, rate);
    for (uint32_t shard = 0; shard < table->shards; shard++)
        kolo_store_relaxed(&table->shard[shard].place, kolo_table_is_synchronous(table) ? KOLO_TABLE_FOLDED : 0);
    header->layout = KOLO_LAYOUT;
    header->ranks = table->ranks;
    header->segment_device = table->comm->segment.device;
    header->segment_inode = table->comm->segment.inode;
    header->segment_offset = table->comm->segment.offset;
    header->workers = table->workers;
    header->servers = table->servers;
    header->shards = table->shards;
    header->rows = table->pieces.rows;
    header->memory_bytes = table->memory_bytes;
    header->staleness = table->options.staleness;
    snprintf(header->name, sizeof header->name, "%s", table->options.name ? table->options.name : "table");
    kolo_store_release(&header->magic, KOLO_TABLE_MAGIC);
}

/* Concludes the making of a table. Where a rank ends in the last step, some ranks may have found that all have come,
 * and others that it has ended. One word gives all ranks of a node the result of the first rank to store it. */
int kolo_table_conclude(struct kolo_table *table, int rc) {
    kolo_atomic_u64 *outcome = &table->header->outcome;
    kolo_failure failure;
    KOLO_POINT("table.concluding");
    kolo_compare_and_swap(outcome, 0, rc == 0 ? KOLO_TABLE_MADE : KOLO_TABLE_FAILED + (uint64_t)-rc);
    KOLO_POINT("table.concluded");
    const uint64_t found = kolo_load_acquire(outcome);
    if (found == KOLO_TABLE_MADE || rc < 0)
        return found == KOLO_TABLE_MADE ? 0 : rc;
    kolo_failure_describe(table->comm, &failure);
    return KOLO_FAIL_IN(table->comm, function, -(int)(found - KOLO_TABLE_FAILED), "%s",
                        failure.status ? failure.message : "another rank has failed");
}

/* Reserves the memory of the second buffer that this rank writes to, or others read, in any case: its queues, or its
 * bits. All ranks succeed, or none. */
static int meet(struct kolo_table *table) {
    uint8_t *begin = table->pushes + table->rank * table->staged_bytes;
    size_t bytes = table->bits_bytes;
    if (!kolo_table_is_synchronous(table)) {
        bytes = table->shards * sizeof(struct kolo_shared_queue);
        begin = table->pushes + table->rank * bytes;
    }
    int rc = kolo_table_is_worker(table) ? kolo_region_populate(function, begin, bytes) : 0;
    rc = kolo_table_agree(function, table->comm, NULL, KOLO_CALL_TABLE_CREATE, 0, rc);
    return table->nodes ? rc : kolo_table_conclude(table, rc);
}

/* Gets the shared buffers, and finds the place of everything in them. */
static int share(struct kolo_table *table, size_t pieces_bytes, size_t pushes_bytes) {
    const size_t header = lines(sizeof *table->header),
                 members = most_of(table, table->ranks, table->comm->global_size) * sizeof *table->members;
    const size_t shards = table->shards * sizeof *table->shard;
    const size_t changed = table->nodes ? lines((table->pieces.pieces + 63) / 64 * sizeof *table->changed) : 0;
    int fd = -1;
    table->memory_bytes = header + members + shards + changed + pieces_bytes;
    int rc = kolo_buffer_create(function, table->comm, table->memory_bytes, false, &table->regions[0], &fd);
    if (rc == 0 && fd >= 0)
        kolo_memory_file_name(fd, &table->file);
    if (rc == 0)
        rc = kolo_buffer_create(function, table->comm, pushes_bytes, true, &table->regions[1], NULL);
    if (rc < 0)
        return rc;
    uint8_t *first = table->regions[0].own;
    table->memory_bytes += pushes_bytes;
    table->header = (struct kolo_shared_table_header *)(void *)first;
    table->members = (struct kolo_shared_table_rank *)(void *)(first + header);
    table->self = &table->members[table->rank];
    table->shard = (struct kolo_shared_shard *)(void *)(first + header + members);
    table->changed = (kolo_atomic_u64 *)(void *)(first + header + members + shards);
    table->piece = first + header + members + shards + changed;
    table->pushes = table->regions[1].own;
    table->rings = table->pushes + (size_t)most_workers(table) * table->shards * sizeof(struct kolo_shared_queue);
    table->self->pid = (uint64_t)getpid();
    table->self->start = kolo_process_own_start();
    if (table->rank == 0)
        introduce(table);
    return meet(table);
}

/* Bytes per element of a pending update for other nodes: table/nodes/outbox.h. */
static size_t pending_bytes(const struct kolo_table *table) {
    const struct kolo_rule *rule = &table->rule;
    return kolo_table_is_synchronous(table) && rule->kind != KOLO_TABLE_ASSIGN
               ? table->comm->reducer->kernels[rule->dtype][table->options.op].acc_bytes
               : rule->element_bytes;
}

static int make(struct kolo_table *table) {
    size_t pieces_bytes = 0;
    int rc = kolo_pieces_create(&table->pieces, &table->options, table->shards);
    kolo_rule_init(&table->rule, &table->options, table->comm->reducer);
    if (table->nodes)
        table->rule.pending_bytes = pending_bytes(table);
    if (rc == 0)
        rc = place_pieces(table, &pieces_bytes);
    size_t pushes_bytes = 0;
    if (rc == 0)
        rc = lay_out_pushes(table, &pushes_bytes);
    if (rc == 0)
        rc = allocate(table);
    rc = kolo_table_agree(function, table->comm, NULL, KOLO_CALL_TABLE_CREATE, 0, rc);
    return rc < 0 ? rc : share(table, pieces_bytes, pushes_bytes);
}

/* Counts the workers of this node, which may be fewer than backup_workers: one at least ends a clock. */
static void set_workers(struct kolo_table *table) {
    const uint32_t workers = table->comm->global_size - table->servers;
    table->workers = table->nodes ? kolo_nodes_ranks_below(table->nodes, table->node, workers) : workers;
    if (table->nodes)
        table->options.hogwild = 0; /* what is pending is added up piece by piece */
}

/* Ends what is left here of a table: waits for its rounds, unless this is a forked child. */
static void end_remnant(void *owner) {
    kolo_table *table = owner;
    if (table->comm->token->ours)
        kolo_rounds_join(table);
    kolo_rounds_free(table);
    release(table);
}

/* Frees the tables that this rank has left before and that all others have left since. */
static void free_remnants(kolo_comm *comm) {
    for (struct kolo_remnant **place = &comm->remnants, *remnant; (remnant = *place);) {
        if (remnant->end != end_remnant || !kolo_rounds_are_over(remnant->owner)) {
            place = &remnant->next;
            continue;
        }
        *place = remnant->next;
        end_remnant(remnant->owner);
    }
}

int kolo_table_create(kolo_comm *comm, const kolo_table_options *options, kolo_table **made) {
    kolo_table_options read = KOLO_TABLE_OPTIONS_INIT;
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "%s: comm is NULL", function);
    int rc = options && made ? kolo_sized_read(&sized_options, function, &read, options)
                             : KOLO_REFUSE(comm, function, "%s is NULL", options ? "table" : "options");
    if (rc == 0)
        rc = check_sizes(comm, &read);
    if (rc == 0)
        rc = check_modes(comm, &read);
    if (rc == 0)
        rc = kolo_rule_check(&read, comm->global_rank);
    struct kolo_table *table = calloc(1, sizeof *table);
    if (rc == 0 && !table)
        rc = KOLO_FAIL_IN(comm, function, KOLO_ERR_SYSTEM, "out of memory");
    rc = kolo_table_agree(function, comm, NULL, KOLO_CALL_TABLE_CREATE, 0, rc);
    const struct kolo_items items = items_of(&read);
    if (rc == 0)
        rc = kolo_items_agree(comm, function, &items);
    if (rc < 0) {
        free(table);
        return rc;
    }
    free_remnants(comm);
    table->comm = comm;
    table->made_in_call = comm->call.number;
    table->liveness = &comm->liveness;
    table->options = read;
    table->rank = comm->rank;
    table->ranks = comm->size;
    table->nodes = comm->nodes;
    table->node = comm->nodes ? comm->node : 0;
    table->servers = (uint32_t)read.servers;
    set_workers(table);
    table->shards = read.shards ? (uint32_t)read.shards : table->servers ? table->servers : comm->global_size;
    table->low = UINT64_MAX;
    kolo_waits_prepare(table, kolo_clocks_help);
    rc = make(table);
    if (rc == 0 && table->nodes)
        rc = kolo_rounds_start(table);
    if (rc < 0) {
        release(table);
        return rc;
    }
    *made = table;
    return 0;
}

int kolo_table_destroy(kolo_table *table) {
    if (!table)
        return 0;
    kolo_comm *comm = table->comm;
    if (!comm->token->ours) {
        end_remnant(table);
        return 0;
    }
    KOLO_POINT("table.leaving");
    kolo_table_file_end(table);
    if (kolo_table_is_worker(table) && !kolo_table_is_synchronous(table) && !table->is_broken)
        kolo_shards_settle_own(table);
    kolo_clocks_leave(table);
    KOLO_POINT("table.left");
    table->remnant = (struct kolo_remnant){.next = comm->remnants, .end = end_remnant, .owner = table};
    comm->remnants = &table->remnant;
    free_remnants(comm);
    return 0;
}
