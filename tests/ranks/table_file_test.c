/* Files of tables: a save while training goes on has every push of the clocks before and none after; it can be loaded
 * with other shards and another number of ranks; a file that is damaged, cut short or of another table is refused; a
 * save that fails leaves no file; links are followed, and what others have put in the way is not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "table_parts.h"

enum { ROWS = 30, COLUMNS = 50, BEFORE = 5, AFTER = 6 };

static char path[64];

/* Of this process's file systems: files are on the disk when an event is set; there are no modes, nor folders on the
 * disk. */
static _Atomic bool is_slow, is_poor;

/* In place of the C library's, which the library calls. */
int fchmod(int fd, mode_t mode) {
    errno = EPERM;
    return is_poor ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

int fsync(int fd) {
    struct stat found;
    while (is_slow && event_ns() == 0)
        sleep_ms(1);
    errno = EIO;
    return is_poor && fstat(fd, &found) == 0 && S_ISDIR(found.st_mode) ? -1 : (int)syscall(SYS_fsync, fd);
}

struct setup {
    kolo_table_rule rule;
    int64_t staleness;
    int savers; /* ranks of the team that saved; 0: this one saves */
};

static kolo_table_options options_of(const struct setup *setup) {
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = ROWS;
    options.columns = COLUMNS;
    options.rule = setup->rule;
    options.staleness = setup->staleness;
    options.split_bytes = 128;
    options.queue_bytes = 1;
    return options;
}

static float update_of(uint64_t clock, uint64_t element) {
    return (float)((element * 7 + clock * 3) % 11) - 5;
}

static bool push_clock(struct rank *rank, kolo_table *table, uint64_t clock, float *values) {
    for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
        values[i] = update_of(clock, i);
    return expect(rank, kolo_table_push(table, 0, ROWS, values) == 0, "kolo_table_push: %s", kolo_error_message()) &&
           expect(rank, kolo_table_clock(table) == 0, "kolo_table_clock: %s", kolo_error_message());
}

/* What the file must hold: ADD: the sums. ADAM: what the same pushes make of a table of one worker at a time; the test
 * compares what is pulled when everybody has come to the save. */
static void save(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const kolo_table_options options = options_of(setup);
    kolo_table *table = table_make(rank, &options);
    float *values = malloc(2 * ROWS * COLUMNS * sizeof *values), *saved = values + ROWS * COLUMNS;
    if (!table)
        goto leave;
    for (uint64_t clock = 0; clock < BEFORE; clock++)
        if (!push_clock(rank, table, clock, values))
            goto leave;
    if (!expect(rank, kolo_table_save(table, path) == 0, "kolo_table_save: %s", kolo_error_message()))
        goto leave;
    for (uint64_t clock = BEFORE; clock < BEFORE + AFTER; clock++)
        if (!push_clock(rank, table, clock, values))
            goto leave;
    if (!expect(rank, kolo_table_wait(table) == 0, "kolo_table_wait: %s", kolo_error_message()) ||
        !expect(rank, kolo_barrier(rank->comm) == 0, "kolo_barrier: %s", kolo_error_message()) ||
        !expect(rank, kolo_table_destroy(table) == 0, "kolo_table_destroy: %s", kolo_error_message()))
        goto leave;
    kolo_table_options others = options; /* of the same table, placed otherwise */
    others.placement = KOLO_PLACEMENT_HASH;
    others.shards = 3;
    others.staleness = 1;
    table = table_make(rank, &others);
    if (!table || !expect(rank, kolo_table_load(table, path) == 0, "kolo_table_load: %s", kolo_error_message()) ||
        !expect(rank, kolo_table_pull(table, 0, ROWS, saved) == 0, "kolo_table_pull: %s", kolo_error_message()))
        goto leave;
    for (uint64_t i = 0; i < ROWS * COLUMNS && setup->rule == KOLO_TABLE_ADD; i++) {
        float sum = 0;
        for (uint64_t clock = 0; clock < BEFORE; clock++)
            sum += update_of(clock, i) * (float)rank->ranks;
        if (!expect(rank, saved[i] == sum, "element %llu is %g in the file, and the sum of all pushes before is %g",
                    (unsigned long long)i, (double)saved[i], (double)sum))
            break;
    }
    for (uint64_t i = 0; i < 8; i++) {
        uint32_t bits;
        memcpy(&bits, &saved[i], sizeof bits);
        record_result(rank, (uint32_t)i, bits);
    }
leave:
    kolo_table_destroy(table);
    free(values);
}

static void expect_refused(struct rank *rank, kolo_table *table, const char *what, const char *word) {
    const int rc = kolo_table_load(table, path);
    expect(rank, rc == KOLO_ERR_ARG, "%s: %d, not KOLO_ERR_ARG", what, rc);
    expect(rank, strstr(kolo_error_message(), word) != NULL, "%s: \"%s\" lacks \"%s\"", what, kolo_error_message(),
           word);
}

/* Changes the file, `bits` of each 64th byte from `at` on: rank 0 does, between two barriers. */
static void change_file(struct rank *rank, long at, int bytes, int bits, long length) {
    kolo_barrier(rank->comm);
    FILE *file = rank->rank == 0 ? fopen(path, "r+b") : NULL;
    for (int i = 0; file && i < bytes; i++) {
        fseek(file, at + 64 * i, SEEK_SET);
        const int old = fgetc(file);
        fseek(file, at + 64 * i, SEEK_SET);
        fputc(old ^ bits, file);
    }
    if (file)
        fclose(file);
    if (rank->rank == 0 && length >= 0)
        expect(rank, truncate(path, length) == 0, "truncate: %s", strerror(errno));
    kolo_barrier(rank->comm);
}

/* Loads what another team has saved, and damages it. */
static void load(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_table_options options = options_of(setup);
    kolo_table *table = table_make(rank, &options);
    float *values = malloc(ROWS * COLUMNS * sizeof *values);
    if (!table || !expect(rank, kolo_table_load(table, path) == 0, "kolo_table_load: %s", kolo_error_message()))
        goto leave;
    expect_status(rank, kolo_table_load(table, rank->rank == rank->ranks - 1 ? NULL : path), KOLO_ERR_ARG,
                  "no path on the last rank");
    kolo_table_pull(table, 0, ROWS, values);
    for (uint64_t i = 0; i < ROWS * COLUMNS && setup->rule == KOLO_TABLE_ADD; i++) {
        float sum = 0;
        for (uint64_t clock = 0; clock < BEFORE; clock++)
            sum += update_of(clock, i) * (float)setup->savers;
        if (!expect(rank, values[i] == sum, "element %llu is %g, not %g", (unsigned long long)i, (double)values[i],
                    (double)sum))
            break;
    }
    options.rows = ROWS + 1;
    kolo_table *other = table_make(rank, &options);
    if (!other)
        goto leave;
    expect_refused(rank, other, "more rows", rank->rank == 0 ? "rows" : "");
    kolo_table_destroy(other);
    for (int bytes = 1; bytes <= 4; bytes++)
        for (int bit = 0; bit < 8; bit++) {
            change_file(rank, 503, bytes, 1 << bit, -1);
            expect_refused(rank, table, "damaged bytes", rank->rank == 0 ? "damaged" : "");
            change_file(rank, 503, bytes, 1 << bit, -1);
        }
    expect_status(rank, kolo_table_load(table, path), 0, "the file as it was");
    change_file(rank, 0, 0, 0, 1000);
    expect_refused(rank, table, "a short file", rank->rank == 0 ? "damaged" : "");
    change_file(rank, 0, 0, 0, 3);
    expect_refused(rank, table, "three bytes", rank->rank == 0 ? "no file of" : "");
    change_file(rank, 0, 0, 0, 0);
    if (rank->rank == 0)
        unlink(path);
    expect_refused(rank, table, "no file", rank->rank == 0 ? "No such file" : "");
    if (rank->rank == 0)
        mkfifo(path, 0600);
    expect_refused(rank, table, "a pipe", rank->rank == 0 ? "Invalid argument" : "");
    if (rank->rank == 0)
        unlink(path);
leave:
    free(values);
    kolo_table_destroy(table);
}

enum leftover { NOTHING, OWN, LOCKED, LINK };

/* A case of what lies beside the place of a file. */
static const struct beside {
    const char *what;
    enum leftover leftover; /* under the name that a save of this process takes meanwhile */
    bool by_link;           /* `path` is a link to the place */
    const char *refused;    /* NULL: it is saved */
} besides[] = {
    {"a link", NOTHING, true, NULL},
    {"a file that was left", OWN, false, NULL},
    {"a file that was left beside where a link leads", OWN, true, NULL},
    {"a file that another save has locked", LOCKED, false, "is being written by another save"},
    {"a link to a file that is not to be written to", LINK, false, "is in the way: remove it"},
};

/* One rank. The file gets to its place, or nothing has changed. */
static void save_beside(struct rank *rank) {
    const struct beside *beside = rank->team->argument;
    const kolo_table_options options = options_of(&(struct setup){.staleness = 0});
    kolo_table *table = table_make(rank, &options);
    char place[96], new[128], victim[96];
    snprintf(place, sizeof place, "%s%s", path, beside->by_link ? ".place" : "");
    snprintf(new, sizeof new, "%s.new-%d", place, (int)getpid());
    snprintf(victim, sizeof victim, "%s.victim", path);
    FILE *left = beside->leftover == NOTHING ? NULL : fopen(beside->leftover == LINK ? victim : new, "w");
    if (left && (fputs("left", left) < 0 || fflush(left) == EOF))
        abort();
    if ((beside->leftover == LINK && symlink(victim, new) < 0) || (beside->by_link && symlink(place, path) < 0) ||
        (beside->leftover == LOCKED && flock(fileno(left), LOCK_EX) < 0))
        abort();
    int rc = table ? kolo_table_save(table, path) : -1;
    if (rc == 0)
        rc = kolo_table_wait(table);
    expect_status(rank, rc, beside->refused ? KOLO_ERR_SYSTEM : 0, beside->what);
    if (beside->refused)
        expect_message(rank, beside->what, beside->refused, new, NULL);
    struct stat found;
    expect(rank, lstat(path, &found) == 0 ? S_ISLNK(found.st_mode) == beside->by_link : beside->refused != NULL,
           "%s: the path is not what it was", beside->what);
    expect(rank, (access(new, F_OK) == 0) == (beside->refused != NULL), "%s: the file beside is %s", beside->what,
           beside->refused ? "gone" : "left");
    expect(rank, beside->leftover != LINK || (stat(victim, &found) == 0 && found.st_size == 4), "%s: it was written to",
           beside->what);
    if (!beside->refused)
        expect_status(rank, kolo_table_load(table, place), 0, beside->what);
    kolo_table_destroy(table);
    if (left)
        fclose(left);
    unlink(new), unlink(victim), unlink(place), unlink(path);
}

/* The program goes to another folder while a file is written. */
static void save_and_leave(struct rank *rank) {
    kolo_table_options options = options_of(&(struct setup){.staleness = 0});
    options.rows = 100000; /* so that writing takes a while */
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    const char *name = strrchr(path, '/') + 1;
    int rc = chdir("/tmp");
    expect_status(rank, kolo_table_save(table, name), 0, "kolo_table_save");
    rc = rc == 0 ? chdir("/") : rc;
    expect_status(rank, kolo_table_wait(table), 0, "kolo_table_wait");
    expect(rank, rc == 0 && access(path, F_OK) == 0, "the file is not where the program was");
    unlink(path);
    kolo_table_destroy(table);
}

/* A file takes the place of another one though its mode cannot be set, nor its folder written to the disk. */
static void save_poorly(struct rank *rank) {
    const kolo_table_options options = options_of(&(struct setup){.staleness = 0});
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    for (int way = 0; way < 2; way++) {
        is_poor = way > 0;
        expect_status(rank, kolo_table_save(table, path), 0, "kolo_table_save");
        if (expect_status(rank, kolo_table_wait(table), way ? KOLO_ERR_SYSTEM : 0, "kolo_table_wait") && way)
            expect_message(rank, "kolo_table_wait", path, "it is there, but its folder", NULL);
        expect_status(rank, kolo_table_load(table, path), 0, "kolo_table_load");
    }
    is_poor = false;
    unlink(path);
    kolo_table_destroy(table);
}

/* Rank 0 comes late, and its disk is slow: waits of rank 1 for that end at the limit, and break nothing. Rank 1 is held
 * back then until it has saved. */
static void save_slowly(struct rank *rank) {
    const kolo_table_options options = options_of(rank->team->argument);
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    const int64_t timeout_ms = info_of(rank->comm).timeout_ms;
    is_slow = true;
    if (rank->rank == 0) {
        while (counter_add(0) == 0)
            sleep_ms(1);
    } else {
        kolo_comm_set_timeout(rank->comm, 50);
        expect_status(rank, kolo_table_save(table, path), KOLO_ERR_TIMEOUT, "a save without rank 0");
        kolo_comm_set_timeout(rank->comm, timeout_ms);
        counter_add(1);
    }
    expect_status(rank, kolo_table_save(table, path), 0, "kolo_table_save");
    if (rank->rank == 1) {
        kolo_comm_set_timeout(rank->comm, 50);
        if (expect_status(rank, kolo_table_wait(table), KOLO_ERR_TIMEOUT, "kolo_table_wait"))
            expect_message(rank, "kolo_table_wait", "rank 0 has not saved the table yet", NULL);
        expect_status(rank, kolo_table_save(table, path), KOLO_ERR_TIMEOUT, "a second save");
        expect_status(rank, kolo_table_clock(table), KOLO_ERR_STATE, "kolo_table_clock before the second save");
        kolo_comm_set_timeout(rank->comm, timeout_ms);
        event_set();
    }
    expect_status(rank, kolo_table_save(table, path), 0, "kolo_table_save");
    expect_status(rank, kolo_table_wait(table), 0, "kolo_table_wait");
    expect_status(rank, kolo_table_clock(table), 0, "kolo_table_clock");
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    is_slow = false;
    unlink(path);
    kolo_table_destroy(table);
}

static int stop(void *context) {
    (void)context;
    return 7;
}

/* The program is interrupted, or another rank aborts, while rank 0 waits for a file that it writes itself: with
 * kolo_table_wait, or to save once more. */
static void end_wait(struct rank *rank) {
    const bool saves = *(const bool *)rank->team->argument;
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .interrupt = stop};
    const kolo_table_options options = options_of(&(struct setup){.staleness = 1});
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    is_slow = true; /* until the wait is over */
    expect_status(rank, kolo_table_save(table, path), 0, "kolo_table_save");
    if (rank->rank > 0) {
        kolo_table_destroy(table); /* so that a save would not wait for this rank */
        kolo_comm_abort(rank->comm, 7);
        return;
    }
    if (rank->ranks == 1)
        kolo_comm_set_hooks(rank->comm, &hooks);
    if (expect_status(rank, saves ? kolo_table_save(table, path) : kolo_table_wait(table), KOLO_ERR_ABORTED, "a wait"))
        expect_message(rank, "a wait", "code 7", NULL);
    expect_status(rank, kolo_table_save(table, path), KOLO_ERR_STATE, "kolo_table_save after it");
    event_set();
    kolo_table_destroy(table);
    is_slow = false;
    expect(rank, access(path, F_OK) == 0, "the file is not there");
    unlink(path);
}

/* A table whose rows have the lengths of the saved ones in another order is another table. One whose rows are all of
 * one length is the same, however that is said. */
static void load_other_lengths(struct rank *rank) {
    static const size_t lengths[][2] = {{3, 5}, {5, 3}, {4, 4}};
    const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float pulled[8];
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = 2;
    options.columns = 4;
    for (int step = 0; step < 4; step++) {
        const bool saves = step % 2 == 0, is_other = step == 1;
        options.row_columns = step < 3 ? lengths[step] : NULL;
        kolo_table *table = table_make(rank, &options);
        if (!table)
            return;
        if (is_other)
            expect_refused(rank, table, "other lengths", "row_columns");
        else if (saves && expect_status(rank, kolo_table_initialize(table, values, 0), 0, "kolo_table_initialize") &&
                 expect_status(rank, kolo_table_save(table, path), 0, "kolo_table_save"))
            expect_status(rank, kolo_table_wait(table), 0, "kolo_table_wait");
        if (!is_other)
            expect_status(rank, kolo_table_load(table, path), 0, "kolo_table_load");
        kolo_table_pull(table, 0, 2, pulled);
        expect(rank, is_other || memcmp(pulled, values, sizeof values) == 0, "other rows than the saved ones");
        kolo_table_destroy(table);
    }
    unlink(path);
}

static void fail_to_save(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const kolo_table_options options = options_of(setup);
    kolo_table *table = table_make(rank, &options);
    if (!table)
        return;
    expect(rank, kolo_table_save(table, "/proc/no/such/folder") == 0, "kolo_table_save: %s", kolo_error_message());
    const int rc = kolo_table_wait(table);
    expect(rank, rc == KOLO_ERR_SYSTEM, "kolo_table_wait after a save that failed: %d", rc);
    expect(rank, rank->rank > 0 || strstr(kolo_error_message(), "/proc/no/such/folder"),
           "\"%s\" does not name the file", kolo_error_message());
    expect(rank, kolo_table_wait(table) == 0, "the second kolo_table_wait: %s", kolo_error_message());
    expect_status(rank, kolo_table_save(table, "/proc/no/such/folder"), 0, "a save that fails");
    expect_status(rank, kolo_table_save(table, path), 0, "a save after one that fails");
    if (expect_status(rank, kolo_table_wait(table), KOLO_ERR_SYSTEM, "kolo_table_wait after both"))
        expect_message(rank, "after both", rank->rank ? "rank 0, which saved" : "/proc/no/such/folder", NULL);
    expect_status(rank, kolo_table_wait(table), 0, "kolo_table_wait once more");
    kolo_barrier(rank->comm);
    if (rank->rank == 0)
        unlink(path);
    if (rank->rank == 0 && mkfifo(path, 0600) < 0)
        abort();
    kolo_barrier(rank->comm);
    expect(rank, kolo_table_save(table, path) == 0, "kolo_table_save: %s", kolo_error_message());
    if (expect_status(rank, kolo_table_wait(table), KOLO_ERR_SYSTEM, "a pipe") && rank->rank == 0) {
        expect_message(rank, "a pipe", path, "it is not a regular file", NULL);
        unlink(path);
    }
    expect(rank, kolo_table_save(table, "") == KOLO_ERR_ARG, "an empty path is taken");
    kolo_table_destroy(table);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "files of tables");
    snprintf(path, sizeof path, "/tmp/kolo-table-test-%d", (int)getpid());
    static const int64_t stalenesses[] = {0, 2, KOLO_STALENESS_UNBOUNDED};
    static const kolo_table_rule rules[] = {KOLO_TABLE_ADD, KOLO_TABLE_ADAM};
    for (size_t i = 0; wants_ranks(1) && i < sizeof besides / sizeof *besides; i++)
        harness_run(&(struct team){.ranks = 1, .run = save_beside, .argument = &besides[i]});
    if (wants_ranks(1)) {
        harness_run(&(struct team){.ranks = 1, .run = load_other_lengths});
        harness_run(&(struct team){.ranks = 1, .run = save_and_leave});
        harness_run(&(struct team){.ranks = 1, .run = save_poorly});
    }
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int saves = 0; saves < 2 && wants_ranks(ranks); saves++)
            harness_run(&(struct team){.ranks = ranks, .run = end_wait, .argument = &(bool){saves}});
    for (int s = 0; s < 2 && wants_ranks(2); s++)
        harness_run(
            &(struct team){.ranks = 2, .run = save_slowly, .argument = &(struct setup){.staleness = stalenesses[s]}});
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int s = 0; s < 3; s++)
            for (int rule = 0; rule < 2; rule++) {
                struct setup setup = {.rule = rules[rule], .staleness = stalenesses[s]};
                if (!wants_ranks(ranks) || (arguments.quick && (ranks + s + rule) % 2))
                    continue;
                harness_run(&(struct team){.ranks = ranks, .run = save, .argument = &setup});
                setup.savers = ranks;
                harness_run(&(struct team){.ranks = 1 + ranks % 3, .run = load, .argument = &setup});
                harness_run(&(struct team){.ranks = ranks, .run = fail_to_save, .argument = &setup});
            }
    return harness_end();
}
