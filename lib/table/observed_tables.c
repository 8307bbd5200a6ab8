/* Observed tables: reads a table from outside, also for kolo_watch.h, to whose observer all files that it finds beside
 * segments are tables. */
#include "table/observed_tables.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/tools/watch.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/failure/process.h"
#include "comm/observer.h"

static_assert(sizeof((kolo_watched_table *)0)->name == KOLO_TABLE_NAME_BYTES, "a table's name fits");
static_assert(offsetof(struct kolo_shared_table_header, workers) == 72, "up to there for all versions");

/* The bytes of the header that are the same in all versions. */
static const size_t known_bytes = offsetof(struct kolo_shared_table_header, workers);

static size_t ranks_bytes(uint32_t ranks) {
    return ranks * sizeof(struct kolo_shared_table_rank);
}

/* Returns whether all that is used of the header makes sense, in a file of `file_bytes`. */
static bool is_legal(const struct kolo_shared_table_header *header, uint64_t file_bytes) {
    return header->ranks >= 1 && header->ranks <= KOLO_RANKS_MAX && header->workers <= header->ranks &&
           header->servers < KOLO_RANKS_MAX && header->shards >= 1 && header->shards <= KOLO_TABLE_SHARDS_MAX &&
           header->rows >= 1 && header->staleness >= 0 &&
           header->memory_bytes >= sizeof *header + ranks_bytes(header->ranks) &&
           file_bytes >= sizeof *header + ranks_bytes(header->ranks);
}

/* Cleans a name, which a program may have chosen freely. */
static void clean_name(char *name) {
    name[KOLO_TABLE_NAME_BYTES - 1] = '\0';
    for (unsigned char *at = (unsigned char *)name; *at; at++)
        if (*at < ' ' || *at >= 0x7f)
            *at = '?';
}

/* Reads the header. Returns false where there is no table. */
static bool read_header(int fd, struct kolo_shared_table_header *header, int *status) {
    struct stat file;
    memset(header, 0, sizeof *header);
    const ssize_t got = kolo_file_read_at(fd, header, sizeof *header, 0);
    if (got < (ssize_t)known_bytes || fstat(fd, &file) < 0 || kolo_load_acquire(&header->magic) != KOLO_TABLE_MAGIC)
        return false;
    clean_name(header->name);
    *status = header->layout != KOLO_LAYOUT                                                ? KOLO_ERR_VERSION
              : got < (ssize_t)sizeof *header || !is_legal(header, (uint64_t)file.st_size) ? KOLO_ERR_SYSTEM
                                                                                           : 0;
    return true;
}

/* Opens a table's file where it was open before, if it is still the same one: opening another might have an effect. */
static int open_again(const struct kolo_memory_file *place) {
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/fd/%" PRIu64, place->pid, place->fd);
    return stat(path, &found) == 0 && found.st_dev == place->device && found.st_ino == place->inode
               ? kolo_memory_file_open(place, O_RDONLY)
               : -1;
}

static uint32_t rank_pid(const struct kolo_shared_table_rank *rank) {
    return rank->pid <= INT32_MAX ? (uint32_t)rank->pid : 0;
}

/* Opens the table's file in whatever process has it open; -1: none has. */
static int open_somewhere(struct kolo_observed_table *table) {
    int fd = open_again(&table->file.place);
    for (uint32_t rank = 0; fd < 0 && rank < table->ranks_max; rank++) {
        struct kolo_open_files files = {.count = 0};
        const uint32_t pid = rank_pid(&table->ranks[rank]);
        if (pid)
            fd = kolo_open_files_open(pid, &files, table->file.place.device, table->file.place.inode,
                                      &table->file.place);
    }
    return fd;
}

/* Returns whether those words of all ranks make sense that can have only some values. */
static bool are_ranks_legal(const struct kolo_observed_table *table) {
    for (uint32_t rank = 0; rank < table->header.ranks; rank++)
        if (kolo_load_relaxed(&table->ranks[rank].state) > KOLO_TABLE_DEAD)
            return false;
    return true;
}

static bool is_there(const struct kolo_observed_table *table, uint32_t rank) {
    return kolo_load_relaxed(&table->ranks[rank].state) == KOLO_TABLE_PRESENT && table->processes[rank];
}

/* Looks what the ranks' processes do. Returns whether one is left that has not left the table. */
static bool look_at_processes(struct kolo_observed_table *table) {
    bool lives = false;
    for (uint32_t rank = 0; rank < table->header.ranks; rank++) {
        const struct kolo_shared_table_rank *shared = &table->ranks[rank];
        const uint32_t pid = rank_pid(shared);
        struct kolo_process process;
        const bool found = pid && kolo_process_read(pid, &process) == 0 && !kolo_process_is_zombie(&process) &&
                           (shared->start == 0 || shared->start == process.start);
        table->processes[rank] = found ? process.state : '\0';
        lives |= is_there(table, rank);
    }
    return lives;
}

/* Reads the table through descriptor `fd`; below 0: there is none. */
static void take(struct kolo_observed_table *table, int fd) {
    struct kolo_shared_table_header header;
    int status;
    table->read_ns = kolo_clock_ns();
    table->file.over = fd < 0 || !read_header(fd, &header, &status);
    if (!table->file.over) {
        table->header = header;
        table->file.segment_device = header.segment_device;
        table->file.segment_inode = header.segment_inode;
        table->file.segment_offset = header.segment_offset;
        const size_t bytes = status == 0 ? ranks_bytes(header.ranks) : 0;
        if (bytes > ranks_bytes(table->ranks_max) ||
            kolo_file_read_at(fd, table->ranks, bytes, sizeof header) < (ssize_t)bytes ||
            (status == 0 && !are_ranks_legal(table)))
            status = KOLO_ERR_SYSTEM;
        table->status = status;
    }
    if (table->status == 0)
        table->file.over = !look_at_processes(table) || table->file.over;
}

void kolo_observed_table_read(struct kolo_observed_table *table) {
    const int fd = open_somewhere(table);
    take(table, fd);
    if (fd >= 0)
        close(fd);
}

struct kolo_observed_file *kolo_observed_table_find(int fd, const struct kolo_memory_file *place) {
    struct kolo_shared_table_header header;
    int status;
    if (!read_header(fd, &header, &status))
        return NULL;
    const uint32_t ranks = status == 0 ? header.ranks : 0;
    struct kolo_observed_table *table;
    const size_t bytes = sizeof *table + ranks_bytes(ranks);
    table = aligned_alloc(KOLO_LINE_BYTES, (bytes + KOLO_LINE_BYTES - 1) / KOLO_LINE_BYTES * KOLO_LINE_BYTES);
    if (!table)
        return NULL;
    memset(table, 0, bytes);
    table->file.place = *place;
    table->ranks_max = ranks;
    take(table, fd);
    return &table->file;
}

static uint64_t clock_of(const struct kolo_observed_table *table, uint32_t rank) {
    return kolo_load_relaxed(&table->ranks[rank].clock) / 2;
}

/* Returns the rank that a rank waits for; -1: none. */
static int waits_for(const struct kolo_observed_table *table, uint32_t rank) {
    const uint64_t peer = kolo_load_acquire(&table->ranks[rank].waits_for);
    return is_there(table, rank) && peer >= 1 && peer <= table->header.ranks && peer - 1 != rank ? (int)peer - 1 : -1;
}

/* Compares the clocks of workers that are present: the slowest, the fastest, and how many wait for the slowest. */
static void compare_clocks(const struct kolo_observed_table *table, kolo_watched_table *seen) {
    seen->slowest_rank = -1;
    for (uint32_t rank = 0; rank < table->header.workers; rank++) {
        const uint64_t clock = clock_of(table, rank);
        if (!is_there(table, rank))
            continue;
        if (seen->slowest_rank < 0 || clock < seen->slowest_clock) {
            seen->slowest_rank = (int)rank;
            seen->slowest_clock = clock;
        }
        seen->fastest_clock = clock > seen->fastest_clock ? clock : seen->fastest_clock;
    }
    for (uint32_t rank = 0; rank < table->header.workers; rank++) {
        const int peer = waits_for(table, rank);
        seen->waiting += peer >= 0 && (peer == seen->slowest_rank ||
                                       clock_of(table, rank) - seen->slowest_clock > (uint64_t)table->header.staleness);
    }
}

void kolo_observed_table_tell(const struct kolo_observed_table *table, kolo_watched_table *seen) {
    const struct kolo_shared_table_header *header = &table->header;
    memset(seen, 0, sizeof *seen);
    memcpy(seen->name, header->name, sizeof seen->name);
    seen->table_file = table->file.place.inode;
    seen->file = header->segment_inode;
    seen->offset = header->segment_offset;
    seen->read_ns = table->read_ns;
    seen->over = table->file.over;
    seen->status = table->status;
    seen->layout = header->layout;
    seen->slowest_rank = -1;
    if (table->status < 0)
        return;
    seen->ranks = (int)header->ranks;
    seen->workers = (int)header->workers;
    seen->servers = (int)header->servers;
    seen->shards = (int)header->shards;
    seen->rows = header->rows;
    seen->staleness = header->staleness;
    seen->memory_bytes = header->memory_bytes;
    compare_clocks(table, seen);
}

void kolo_observed_table_tell_rank(const struct kolo_observed_table *table, uint32_t rank,
                                   kolo_watched_table_rank *seen) {
    const struct kolo_shared_table_rank *shared = &table->ranks[rank];
    memset(seen, 0, sizeof *seen);
    seen->pid = (int)rank_pid(shared);
    seen->process = table->processes[rank];
    seen->state = (kolo_watched_table_state)kolo_load_relaxed(&shared->state);
    seen->server = rank >= table->header.workers;
    seen->clock = clock_of(table, rank);
    seen->pulled = kolo_load_relaxed(&shared->pulled);
    seen->pushed = kolo_load_relaxed(&shared->pushed);
    seen->applied = kolo_load_relaxed(&shared->applied);
    seen->waited_ns = kolo_load_relaxed(&shared->waited_ns);
    seen->waits_for = waits_for(table, rank);
    if (seen->waits_for < 0)
        return;
    const uint64_t since_ns = kolo_load_relaxed(&shared->waits_since_ns), now_ns = (uint64_t)table->read_ns;
    seen->waits_since_ns = (int64_t)(since_ns < now_ns ? since_ns : now_ns);
}

/* The tables of kolo_watch.h. */

static bool is_index(const kolo_watch *watch, int index) {
    return watch && index >= 0 && (size_t)index < watch->observer.files_count;
}

int kolo_watch_table_read(kolo_watch *watch, int index, kolo_watched_table *table) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_watched_table, table_bytes, waiting);
    if (!is_index(watch, index))
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_table_read: no such table");
    const int rc = kolo_sized_check(&sized, "kolo_watch_table_read", table);
    if (rc < 0)
        return rc;
    kolo_watched_table now;
    struct kolo_observed_table *read = (struct kolo_observed_table *)watch->observer.files[index];
    kolo_observed_table_read(read);
    kolo_observed_table_tell(read, &now);
    kolo_sized_fill(&sized, table, &now);
    return 0;
}

int kolo_watch_table_rank(const kolo_watch *watch, int index, int rank, kolo_watched_table_rank *seen) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_watched_table_rank, rank_bytes, waited_ns);
    const struct kolo_observed_table *table =
        is_index(watch, index) ? (const struct kolo_observed_table *)watch->observer.files[index] : NULL;
    if (!table || table->status < 0 || rank < 0 || (uint32_t)rank >= table->header.ranks)
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_table_rank: no such table or rank");
    kolo_watched_table_rank now;
    kolo_observed_table_tell_rank(table, (uint32_t)rank, &now);
    return kolo_sized_give(&sized, "kolo_watch_table_rank", seen, &now);
}
