/* kolo_table_save and kolo_table_load.
 *
 * The cut. Each worker comes to a save between the same two of its clocks. It first waits until all that it has pushed
 * is applied, and says in `saves` that it has come. When all have come, no worker pushes: the pieces hold all pushes
 * before the save, and none after. One worker, the lowest that is there, copies the pieces and raises `copied`; until
 * then the others wait. They train on while a thread of that worker writes the copy to a file of another name, renames
 * the file at the end, and raises `written`. If that worker ends, the save has failed, no file has the name, and the
 * others go on.
 *
 * On several nodes all workers wait, too, until the rounds of the clocks before are over (table/nodes/rounds.h). Then
 * the copies of each node have all pushes of these clocks, and get none of later ones while one of its workers is here.
 * The first node saves that had workers in the last of these rounds.
 *
 * The file, in the machine's byte order: a header, then the values and state of each piece in order, each rounded up to
 * 8 bytes. The header has a checksum of that, so that a file that is cut short or damaged is refused. Where rows differ
 * in length the checksum begins with their places. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/sharing.h"
#include "table/api/table_calls.h"
#include "base/file.h"
#include "base/new_file.h"
#include "base/status.h"
#include "sync/point.h"
#include "sync/thread.h"
#include "table/clocks.h"
#include "table/shard.h"
#include "table/rows/versions.h"
#include "table/waits.h"

#define MAGIC UINT64_C(0x32656c6261546c6b) /* "klTable2" */

enum { STATUS_BITS = 8, RANK_BITS = 16, ELSEWHERE = (1 << RANK_BITS) - 1 };

struct file_header {
    uint64_t magic;
    uint64_t rows, pieces, elements, piece_columns;
    uint32_t dtype, rule;
    uint64_t state_bytes; /* of the longest piece */
    uint64_t body_bytes, checksum;
};

struct kolo_table_saving {
    struct kolo_table *table;
    pthread_t thread;
    uint64_t number; /* of the save */
    char *path;
    struct kolo_new_file new;
    uint8_t *file; /* header and body */
    size_t bytes;
    int status;
};

/* One word more. A product's high bits go down, too: else two flipped top bits, as of two signs, would cancel out. */
static uint64_t checksum_step(uint64_t sum, uint64_t word) {
    const uint64_t product = (sum ^ word) * UINT64_C(0x100000001b3);
    return product ^ product >> 32;
}

/* A checksum that is as fast as the disk: as FNV-1a, over 8-byte words, eight side by side. sum: of what is before. */
static uint64_t checksum_on(uint64_t sum, const void *from, size_t count) {
    const uint8_t *bytes = from;
    uint64_t lanes[8];
    for (int i = 0; i < 8; i++)
        lanes[i] = sum + (uint64_t)i;
    size_t at = 0;
    for (; at + 64 <= count; at += 64)
        for (int i = 0; i < 8; i++) {
            uint64_t word;
            memcpy(&word, bytes + at + 8 * (size_t)i, sizeof word);
            lanes[i] = checksum_step(lanes[i], word);
        }
    for (int i = 0; i < 8; i++)
        sum = checksum_step(sum, lanes[i]);
    for (; at < count; at++)
        sum = checksum_step(sum, bytes[at]);
    return sum;
}

static uint64_t checksum_of(const struct kolo_table *table, const uint8_t *body, size_t bytes) {
    const struct kolo_pieces *pieces = &table->pieces;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    if (!pieces->per_row)
        sum = checksum_on(sum, pieces->first_element, (pieces->rows + 1) * sizeof *pieces->first_element);
    return checksum_on(sum, body, bytes);
}

/* Calls `each` for all pieces, with their places in the body. Returns the body's bytes. */
static size_t for_each_piece(struct kolo_table *table, uint8_t *body,
                             void (*each)(struct kolo_table *table, uint64_t piece, size_t count, uint8_t *saved)) {
    size_t at = 0;
    for (struct kolo_walk walk = kolo_walk_rows(&table->pieces, 0, table->pieces.rows); kolo_walk_next(&walk);) {
        if (each)
            each(table, walk.piece, walk.count, body + at);
        at += kolo_version_pending(&table->rule, walk.count);
    }
    return at;
}

static void copy_out(struct kolo_table *table, uint64_t piece, size_t count, uint8_t *saved) {
    const size_t all = kolo_version_bytes(&table->rule, count), saved_all = kolo_version_pending(&table->rule, count);
    const size_t bytes = all < saved_all ? all : saved_all;
    memset(saved + bytes, 0, saved_all - bytes);
    kolo_versions_read(table, kolo_piece_memory(table, piece), all, saved, bytes);
}

static void copy_in(struct kolo_table *table, uint64_t piece, size_t count, uint8_t *saved) {
    const size_t all = kolo_version_bytes(&table->rule, count), saved_all = kolo_version_pending(&table->rule, count);
    memcpy(kolo_version_current(table, piece, all), saved, all < saved_all ? all : saved_all);
}

static struct file_header describe(struct kolo_table *table) {
    return (struct file_header){.magic = MAGIC,
                                .rows = table->pieces.rows,
                                .pieces = table->pieces.pieces,
                                .elements = table->pieces.elements,
                                .piece_columns = table->pieces.piece_columns,
                                .dtype = table->rule.dtype,
                                .rule = table->rule.kind,
                                .state_bytes = kolo_rule_state_bytes(&table->rule, table->pieces.piece_columns),
                                .body_bytes = for_each_piece(table, NULL, NULL)};
}

/* Writes the file under another name, whole and to the disk, and then gives it its own name. */
static int write_file(struct kolo_table_saving *saving) {
    struct file_header header;
    memcpy(&header, saving->file, sizeof header);
    header.checksum = checksum_of(saving->table, saving->file + sizeof header, header.body_bytes);
    memcpy(saving->file, &header, sizeof header);
    int rc = kolo_new_file_write(&saving->new, saving->path, 0666, saving->file, saving->bytes);
    KOLO_POINT("table_file.renaming");
    if (rc == 0)
        rc = kolo_new_file_name(&saving->new);
    return rc == 0 ? 0 : rc == -ENOSPC || rc == -EDQUOT ? KOLO_ERR_NO_SPACE : KOLO_ERR_SYSTEM;
}

static void *run(void *argument) {
    struct kolo_table_saving *saving = argument;
    saving->status = write_file(saving);
    free(saving->file);
    saving->file = NULL;
    struct kolo_shared_table_header *header = saving->table->header;
    KOLO_POINT("table_file.written");
    kolo_publish(&saving->table->waiter, &header->written, saving->number << STATUS_BITS | (uint64_t)-saving->status,
                 &header->saver_bell);
    return NULL;
}

static void free_saving(struct kolo_table_saving *saving) {
    if (!saving)
        return;
    free(saving->path);
    free(saving->file);
    free(saving);
}

/* The path for the thread that writes: the program may be in another folder by then. NULL: no memory. */
static char *lasting_path(const char *path) {
    char *folder = *path == '/' ? NULL : getcwd(NULL, 0), *lasting = NULL;
    if (!folder) /* or the folder is gone: the path leads nowhere */
        return strdup(path);
    if (asprintf(&lasting, "%s/%s", folder, path) < 0)
        lasting = NULL;
    free(folder);
    return lasting;
}

static struct kolo_table_saving *prepare(struct kolo_table *table, const char *path) {
    struct kolo_table_saving *saving = calloc(1, sizeof *saving);
    if (!saving)
        return NULL;
    const struct file_header header = describe(table);
    saving->table = table;
    saving->number = table->saves;
    saving->bytes = sizeof header + header.body_bytes;
    saving->path = lasting_path(path);
    saving->file = malloc(saving->bytes);
    if (!saving->path || !saving->file) {
        free_saving(saving);
        return NULL;
    }
    memcpy(saving->file, &header, sizeof header);
    return saving;
}

/* Gives up a save before a thread writes. The others go on, and learn of it from kolo_table_wait. */
static void give_up(struct kolo_table *table, int rc) {
    kolo_publish(&table->waiter, &table->header->written, table->saves << STATUS_BITS | (uint64_t)-rc,
                 &table->header->saver_bell);
}

/* The worker that saves copies the pieces, and starts the thread that writes the file. */
static int save_here(struct kolo_table *table, const char *path) {
    struct kolo_table_saving *saving = prepare(table, path);
    if (saving)
        for_each_piece(table, saving->file + sizeof(struct file_header), copy_out);
    KOLO_POINT("table_file.copied");
    kolo_publish(&table->waiter, &table->header->copied, table->saves, &table->header->saver_bell);
    assert(!table->saving);
    const int error = saving ? kolo_thread_start(&saving->thread, run, saving) : ENOMEM;
    if (error == 0) {
        table->saving = saving;
        return 0;
    }
    const int rc =
        saving ? kolo_fail_system(error, "kolo_table_save: starting a thread")
               : KOLO_FAIL_IN(table->comm, "kolo_table_save", KOLO_ERR_SYSTEM, "no memory for a copy of the table");
    free_saving(saving);
    give_up(table, rc);
    return rc;
}

/* Chooses the worker that saves: the one that the first to ask finds to be the lowest that is there, or ELSEWHERE: a
 * worker of another node does. */
static uint32_t choose_saver(struct kolo_table *table) {
    kolo_atomic_u64 *word = &table->header->saver;
    uint32_t lowest = table->rank;
    for (uint32_t worker = table->workers; worker-- > 0;)
        if (kolo_load_acquire(&table->members[worker].state) == KOLO_TABLE_PRESENT)
            lowest = worker;
    if (table->nodes && kolo_load_acquire(&table->header->saving_node) != table->node)
        lowest = ELSEWHERE;
    const uint64_t found = kolo_load_acquire(word);
    KOLO_POINT("table_file.choosing");
    if (found >> RANK_BITS < table->saves)
        kolo_compare_and_swap(word, found, table->saves << RANK_BITS | lowest);
    KOLO_POINT("table_file.chosen");
    return (uint32_t)(kolo_load_acquire(word) & ELSEWHERE);
}

/* Keeps the status of a save that has failed until kolo_table_wait tells it: of several the first one. */
static void keep_failure(struct kolo_table *table, int status, const char *what) {
    if (table->save_status)
        return;
    table->save_status = status;
    snprintf(table->save_message, sizeof table->save_message, "%s", what);
}

/* Waits until the last save is written. */
static int await_written(struct kolo_table *table) {
    if (!table->is_saving)
        return 0;
    const int rc = kolo_wait_for(table, &table->header->written, table->saves << STATUS_BITS,
                                 &table->header->saver_bell, table->saver);
    table->is_saving = rc == KOLO_ERR_TIMEOUT;
    if (rc < 0)
        return rc;
    const int status = -(int)(kolo_load_acquire(&table->header->written) & ((1 << STATUS_BITS) - 1));
    char elsewhere[64];
    snprintf(elsewhere, sizeof elsewhere, "rank %u, which saved, has said why",
             kolo_rank_global(table->comm, table->saver));
    if (status < 0)
        keep_failure(table, status, table->saving ? table->saving->new.message : elsewhere);
    kolo_table_file_end(table);
    return 0;
}

/* Says that this worker has come, once all that it has pushed is applied. */
static int come(struct kolo_table *table) {
    int rc = await_written(table);
    if (table->is_saving || (rc < 0 && table->is_broken))
        return rc;
    if (rc == KOLO_ERR_PEER_DEAD) /* the last save is over, and this one begins */
        keep_failure(table, rc, "the rank that saved has ended");
    rc = kolo_table_is_synchronous(table) ? kolo_clocks_wait(table) : kolo_shards_settle_own(table);
    if (rc < 0)
        return rc;
    table->saves++;
    table->has_come = true;
    KOLO_POINT("table_file.coming");
    kolo_publish(&table->waiter, &table->self->saves, table->saves, &table->self->bell);
    return 0;
}

/* Saves, or waits for the worker that saves, once all have come. Updates of workers that have ended since are applied
 * first, if they are in queues. */
static int save_or_wait(struct kolo_table *table, const char *path) {
    if (table->saver != table->rank)
        return kolo_wait_for(table, &table->header->copied, table->saves, &table->header->saver_bell, table->saver);
    int rc = 0;
    for (uint32_t shard = 0; shard < table->shards && rc == 0 && !kolo_table_is_synchronous(table); shard++)
        rc = kolo_shard_settle(table, shard, false);
    if (rc == 0)
        return save_here(table, path);
    give_up(table, rc);
    kolo_publish(&table->waiter, &table->header->copied, table->saves, &table->header->saver_bell);
    table->is_coming = false; /* also after a time-out: this save is over for all */
    return rc;
}

int kolo_table_save(kolo_table *table, const char *path) {
    int rc = kolo_table_check(__func__, table);
    if (rc < 0)
        return rc;
    if (!path || !*path)
        return KOLO_REFUSE(table->comm, __func__, "path is %s", path ? "empty" : "NULL");
    if (!kolo_table_is_worker(table))
        return KOLO_REFUSE(table->comm, __func__, "this rank is a server of the table, and not a worker");
    if (table->nodes && table->options.staleness == KOLO_STALENESS_UNBOUNDED)
        return KOLO_FAIL_IN(table->comm, __func__, KOLO_ERR_UNSUPPORTED,
                            "the table is on several nodes, and its staleness unbounded");
    table->is_coming = true;
    if (!table->has_come)
        rc = come(table);
    for (uint32_t worker = 0; worker < table->workers && rc == 0; worker++)
        rc = kolo_wait_for(table, &table->members[worker].saves, table->saves, &table->members[worker].bell, worker);
    if (rc == 0 && table->nodes)
        rc = kolo_wait_arrived(table, table->clock);
    if (rc == 0)
        table->saver = choose_saver(table);
    const bool is_elsewhere = table->saver == ELSEWHERE;
    if (rc == 0 && !is_elsewhere)
        rc = save_or_wait(table, path);
    /* After a time-out the others rely on this worker to push nothing, and it can only come again. */
    table->is_coming = table->is_coming && rc == KOLO_ERR_TIMEOUT;
    table->has_come = table->has_come && table->is_coming;
    table->is_saving = table->is_saving || (rc == 0 && !is_elsewhere);
    return rc;
}

int kolo_table_file_wait(struct kolo_table *table) {
    const int rc = await_written(table), status = table->save_status;
    if (rc < 0)
        return rc;
    table->save_status = 0;
    return status ? KOLO_FAIL_IN(table->comm, "kolo_table_save", status, "%s", table->save_message) : 0;
}

void kolo_table_file_end(struct kolo_table *table) {
    if (!table->saving)
        return;
    pthread_join(table->saving->thread, NULL);
    free_saving(table->saving);
    table->saving = NULL;
}

static int refuse(const struct kolo_table *table, const char *path, const char *what, uint64_t theirs, uint64_t ours) {
    return KOLO_REFUSE(table->comm, "kolo_table_load",
                       "%s is of a table with %s %" PRIu64 ", and this one has %" PRIu64, path, what, theirs, ours);
}

static int check_file(const struct kolo_table *table, const struct file_header *ours, const char *path,
                      const uint8_t *file, size_t bytes) {
    struct file_header theirs;
    if (bytes >= sizeof theirs)
        memcpy(&theirs, file, sizeof theirs);
    if (bytes < sizeof theirs || theirs.magic != MAGIC)
        return KOLO_REFUSE(table->comm, "kolo_table_load", "%s is no file of kolo_table_save", path);
    if (theirs.rows != ours->rows)
        return refuse(table, path, "rows", theirs.rows, ours->rows);
    if (theirs.elements != ours->elements)
        return refuse(table, path, "elements", theirs.elements, ours->elements);
    if (theirs.dtype != ours->dtype)
        return refuse(table, path, "dtype", theirs.dtype, ours->dtype);
    if (theirs.rule != ours->rule)
        return refuse(table, path, "rule", theirs.rule, ours->rule);
    if (theirs.pieces != ours->pieces || theirs.piece_columns != ours->piece_columns)
        return refuse(table, path, "elements of a piece (split_bytes)", theirs.piece_columns, ours->piece_columns);
    if (theirs.state_bytes != ours->state_bytes || theirs.body_bytes != ours->body_bytes)
        return refuse(table, path, "bytes of state", theirs.state_bytes, ours->state_bytes);
    if (bytes != sizeof theirs + ours->body_bytes ||
        checksum_of(table, file + sizeof theirs, ours->body_bytes) != theirs.checksum)
        return KOLO_REFUSE(table->comm, "kolo_table_load", "%s is damaged, or of a table with other row_columns", path);
    return 0;
}

/* Reads the file and checks it; NULL, with *rc set, where it is not to be loaded. */
static uint8_t *read_checked(struct kolo_table *table, const char *path, int *rc) {
    const struct file_header ours = describe(table);
    const size_t bytes_max = sizeof ours + ours.body_bytes + 1; /* so that a longer file is told */
    uint8_t *file = malloc(bytes_max);
    const ssize_t got = file ? kolo_file_read(path, (char *)file, bytes_max) : -ENOMEM;
    *rc = got < 0 ? KOLO_FAIL_IN(table->comm, "kolo_table_load", file ? KOLO_ERR_ARG : KOLO_ERR_SYSTEM, "%s: %s", path,
                                 strerror((int)-got))
                  : check_file(table, &ours, path, file, (size_t)got);
    if (*rc == 0)
        return file;
    free(file);
    return NULL;
}

static struct kolo_item item_of(const void *context, size_t index) {
    (void)index;
    return kolo_item_number("the file's checksum", *(const uint64_t *)context);
}

/* Several nodes: whether the leaders have read the same. The other ranks say what rank 0 says. */
static int agree_on_file(struct kolo_table *table, const uint8_t *file) {
    uint64_t own = 0, of_first;
    if (file)
        memcpy(&own, file + offsetof(struct file_header, checksum), sizeof own);
    of_first = own;
    const int rc = kolo_broadcast(table->comm, &of_first, 1, KOLO_U64, 0);
    return rc < 0 ? rc
                  : kolo_items_agree(table->comm, "kolo_table_load",
                                     &(struct kolo_items){1, item_of, file ? &own : &of_first});
}

int kolo_table_load(kolo_table *table, const char *path) {
    uint8_t *file = NULL;
    int rc = kolo_table_check(__func__, table);
    if (rc < 0)
        return rc;
    if (!path || !*path)
        rc = KOLO_REFUSE(table->comm, __func__, "path is %s", path ? "empty" : "NULL");
    else if (table->rank == 0)
        file = read_checked(table, path, &rc);
    rc = kolo_table_agree(__func__, table->comm, table, KOLO_CALL_TABLE_LOAD, 0, rc);
    if (rc == 0 && table->nodes)
        rc = agree_on_file(table, file);
    if (rc == 0 && file)
        for_each_piece(table, file + sizeof(struct file_header), copy_in);
    free(file);
    return rc < 0 ? rc : kolo_table_agree(__func__, table->comm, table, KOLO_CALL_TABLE_LOAD, 0, 0);
}
