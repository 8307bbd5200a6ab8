/* Runs, and what must be true of them:
 *
 *   Nobody hangs or crashes; survivors leave no descriptor, mapping or block of memory, and no call of theirs takes
 *   longer than TABLE_WITHIN_NS.
 *   Where the table goes on without the dead, survivors get no error, but that a save may fail for a rank that died.
 *   Otherwise they get KOLO_ERR_PEER_DEAD, which names one that died, if they wait for it at all. So do those whom a
 *   dead leader cuts off from other nodes.
 *   If a rank dies while the table is made, the survivors of a node have it or get KOLO_ERR_PEER_DEAD, all alike.
 *   In each piece each rank's pushes are there once: all that had returned, staleness 0: of the clocks that it is in,
 *   and of the one under way all or nothing. What is applied twice in one place and not at all in another shows in the
 *   sum of the pushes' numbers. Of a node that is lost it is any number of its first ones.
 *   The file of a save is whole and has what had been pushed before, or it is not there. */
#include "table_verdict.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fault_leftovers.h"
#include "free_port.h"
#include "splitmix64.h"

#define LIMIT_NS INT64_C(12000000000) /* what takes longer hangs */

enum { KILL_AFTER_US = 25000, KILL_BETWEEN_US = 3000, OFTEN = 3 };

__attribute__((format(printf, 2, 3))) static void complain(struct table_run *run, const char *format, ...) {
    const size_t used = strlen(run->complaint);
    va_list list;
    run->is_late = false;
    va_start(list, format);
    if (used + 2 < sizeof run->complaint) {
        snprintf(run->complaint + used, sizeof run->complaint - used, "%s", used ? "; " : "");
        const size_t begun = strlen(run->complaint);
        vsnprintf(run->complaint + begun, sizeof run->complaint - begun, format, list);
    }
    va_end(list);
}

static bool is_dead(const struct table_run *run, int rank) {
    return run->team.ended[rank] && WIFSIGNALED(run->team.wait_status[rank]) &&
           WTERMSIG(run->team.wait_status[rank]) == SIGKILL;
}

static int dead_workers(const struct table_run *run) {
    int dead = 0;
    for (int rank = 0; rank < table_workers(run->trial->what); rank++)
        dead += is_dead(run, rank);
    return dead;
}

/* Whether the rank's node is not connected with the others any more. */
static bool is_lost(const struct table_run *run, int rank) {
    const int leader = table_leader(run->trial->what, rank);
    return leader >= 0 && is_dead(run, leader);
}

static bool has_table(const struct table_run *run, int rank) {
    return !is_dead(run, rank) && strcmp(table_board->ranks[rank].call, "create") != 0;
}

static bool goes_on(const struct table_run *run, int rank) {
    const struct table_case *what = run->trial->what;
    if (table_is_tolerant(what) && is_lost(run, rank))
        return false;
    return what->staleness > 0 || (table_is_tolerant(what) && dead_workers(run) <= what->backup_workers) ||
           run->deaths == 0;
}

/* Errors and times. */

/* Of ranks that other nodes have lost the message may name the one that connects them. */
static bool names_dead(const struct table_run *run, const char *message) {
    static const char *const forms[] = {": rank %d ", ": rank %d,", ": rank %d:", "of rank %d any", "(rank %d"};
    char name[32];
    for (int rank = 0; rank < run->trial->what->ranks; rank++)
        for (size_t i = 0; is_dead(run, rank) && i < sizeof forms / sizeof *forms; i++) {
            const int leader = table_leader(run->trial->what, rank);
            snprintf(name, sizeof name, forms[i], i > 2 ? leader : rank);
            if (strstr(message, name))
                return true;
        }
    return false;
}

/* The making of the table: the survivors of a node fare alike. */
static void check_creation(struct table_run *run) {
    const struct table_case *what = run->trial->what;
    for (int rank = 0; rank < what->ranks; rank++)
        for (int other = 0; other < rank; other++)
            if (!is_dead(run, rank) && !is_dead(run, other) && table_node(what, rank) == table_node(what, other) &&
                has_table(run, rank) != has_table(run, other))
                complain(run, "rank %d has the table and rank %d has not: %s%s", has_table(run, rank) ? rank : other,
                         has_table(run, rank) ? other : rank, table_board->ranks[rank].message,
                         table_board->ranks[other].message);
}

static void check_error(struct table_run *run, int rank) {
    const struct table_case *what = run->trial->what;
    const struct table_record *record = &table_board->ranks[rank];
    if (record->save_status && (record->save_status != KOLO_ERR_PEER_DEAD || !names_dead(run, record->save_message)))
        complain(run, "rank %d: kolo_table_save: status %d: %s", rank, record->save_status, record->save_message);
    if (record->status == 0)
        return;
    if (goes_on(run, rank) && !(what->creates && run->deaths > 0 && !has_table(run, rank)))
        complain(run, "rank %d: %s: status %d: %s", rank, record->call, record->status, record->message);
    else if (record->status != KOLO_ERR_PEER_DEAD || !names_dead(run, record->message))
        complain(run, "rank %d: %s: status %d does not name who died: %s", rank, record->call, record->status,
                 record->message);
    else if (!what->nodes[0] && (record->failure.status != KOLO_ERR_PEER_DEAD || !is_dead(run, record->failure.rank)))
        complain(run, "rank %d: kolo_comm_failure tells of %d, rank %d", rank, record->failure.status,
                 record->failure.rank);
}

static void check_end(struct table_run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    const struct leftovers *before = &record->before, *after = &record->after;
    const struct table_record *of_table = &table_board->ranks[rank];
    if (!record->finished) {
        complain(run, "rank %d %s, last at %s", rank, run->team.ended[rank] ? "crashed" : "hangs",
                 board_point_name(record->last_point));
        return;
    }
    if (memcmp(before, after, sizeof *before) != 0)
        complain(run, "rank %d has %d descriptors, %d shared mappings, %lld memory blocks; before: %d, %d, %lld", rank,
                 after->descriptors, after->mappings, (long long)after->blocks, before->descriptors, before->mappings,
                 (long long)before->blocks);
    if (of_table->complaint[0])
        complain(run, "rank %d: %s", rank, of_table->complaint);
    check_error(run, rank);
}

static void check_times(struct table_run *run) {
    for (int rank = 0; rank < run->trial->what->ranks; rank++) {
        const struct table_record *record = &table_board->ranks[rank];
        const bool is_long = strcmp(record->longest, "kolo_table_serve") == 0 ||
                             (run->trial->what->nodes[0] && strcmp(record->longest, "create") == 0);
        if (is_dead(run, rank) || is_long)
            continue;
        if (record->longest_ns > run->longest_ns)
            run->longest_ns = record->longest_ns;
        if (record->longest_ns <= TABLE_WITHIN_NS)
            continue;
        const bool was_well = !run->complaint[0] || run->is_late;
        complain(run, "rank %d: %s took %.0f ms", rank, record->longest, (double)record->longest_ns * 1e-6);
        run->is_late = was_well;
    }
}

/* Counts. */

static int64_t sum_to(uint64_t number) {
    return (int64_t)(number * (number + 1) / 2);
}

/* What a rank has in a piece for sure, in counts[0], and with what is under way, in counts[1]. `saved`: in the file
 * instead. */
static void expect_counts(const struct table_run *run, int rank, int piece, bool saved, struct table_count counts[2]) {
    const struct table_record *record = &table_board->ranks[rank];
    const bool is_exact = saved && record->is_saving;
    if (run->trial->what->staleness > 0) {
        const struct table_case *what = run->trial->what;
        const uint64_t least = table_pushes_of(what, piece, is_exact ? record->saved_begun : record->returned),
                       most = table_pushes_of(what, piece, is_exact ? record->saved_begun : record->begun);
        counts[0] = (struct table_count){(int64_t)least, sum_to(least)};
        counts[1] = (struct table_count){(int64_t)most, sum_to(most)};
        return;
    }
    counts[0] = counts[1] = (struct table_count){0, 0};
    for (uint64_t call = 0, before = 0; call < (is_exact ? record->saved_calls : record->calls); call++) {
        const uint64_t after = record->pushed_in[call];
        const struct table_count added = {(int64_t)(after - before), sum_to(after) - sum_to(before)};
        for (int i = record->outcomes[call] == OUTCOME_IN ? 0 : 1; i < 2 && record->outcomes[call] != OUTCOME_OUT;
             i++) {
            counts[i].pushes += added.pushes;
            counts[i].numbers += added.numbers;
        }
        before = after;
    }
}

static bool are_same(struct table_count a, struct table_count b) {
    return a.pushes == b.pushes && a.numbers == b.numbers;
}

/* Of one observer, or of the file. True: all right. */
static bool check_counts(struct table_run *run, const char *observer, bool saved,
                         struct table_count counts[TABLE_PIECES][TABLE_RANKS_MAX]) {
    const struct table_case *what = run->trial->what;
    for (int rank = 0; rank < table_workers(what); rank++) {
        for (int piece = 0; piece < TABLE_PIECES; piece++) {
            const struct table_count found = counts[piece][rank];
            struct table_count expected[2];
            expect_counts(run, rank, piece, saved, expected);
            const bool is_whole = what->staleness > 0 || are_same(found, counts[0][rank]);
            if (is_lost(run, rank) && found.pushes >= 0 && found.pushes <= expected[1].pushes &&
                found.numbers == sum_to((uint64_t)found.pushes))
                continue;
            if ((are_same(found, expected[0]) || are_same(found, expected[1])) && is_whole)
                continue;
            complain(run, "%s: piece %d has %lld pushes of rank %d, with the sum %lld, not %lld with %lld%s", observer,
                     piece, (long long)found.pushes, rank, (long long)found.numbers, (long long)expected[0].pushes,
                     (long long)expected[0].numbers, is_whole ? "" : ", and another piece has others");
            return false;
        }
    }
    return true;
}

/* After an error with staleness 0: each piece is as it was after some clock, for all ranks the same. */
static void check_broken(struct table_run *run, int observer) {
    const struct table_case *what = run->trial->what;
    struct table_count expected[2];
    for (int piece = 0; piece < TABLE_PIECES; piece++)
        for (int rank = 0; rank < table_workers(what); rank++) {
            const struct table_count found = table_board->ranks[observer].counts[piece][rank];
            expect_counts(run, rank, piece, false, expected);
            if (found.pushes <= expected[1].pushes && (rank != observer || found.pushes >= expected[0].pushes) &&
                (what->backup_workers || (found.numbers == sum_to((uint64_t)found.pushes) &&
                                          are_same(found, table_board->ranks[observer].counts[piece][0]))))
                continue;
            complain(run,
                     "rank %d, after its error: piece %d has %lld pushes of rank %d, with the sum %lld, and %lld of "
                     "rank 0",
                     observer, piece, (long long)found.pushes, rank, (long long)found.numbers,
                     (long long)table_board->ranks[observer].counts[piece][0].pushes);
            return;
        }
}

/* Staleness 0: nobody goes on from a clock that another worker has not ended. */
static void check_clocks(struct table_run *run) {
    const struct table_case *what = run->trial->what;
    for (int rank = 0; rank < table_workers(what); rank++)
        for (int other = 0; other < table_workers(what); other++) {
            const struct table_record *ahead = &table_board->ranks[rank], *behind = &table_board->ranks[other];
            if (table_is_tolerant(what) || ahead->calls <= behind->calls ||
                ahead->outcomes[behind->calls] != OUTCOME_IN)
                continue;
            complain(run, "rank %d has ended clock %d, and rank %d has not", rank, (int)behind->calls, other);
        }
}

static void check_ranks_counts(struct table_run *run) {
    for (int rank = 0; rank < run->trial->what->ranks; rank++) {
        struct table_record *record = &table_board->ranks[rank];
        char observer[16];
        snprintf(observer, sizeof observer, "rank %d", rank);
        if (is_dead(run, rank) || !board->ranks[rank].finished || !record->has_counts)
            continue;
        if (is_lost(run, rank) && table_is_tolerant(run->trial->what)) /* it gets nothing from the others any more */
            continue;
        if (record->status == 0)
            check_counts(run, observer, false, record->counts);
        else if (!goes_on(run, rank))
            check_broken(run, rank);
    }
}

/* Files. */

static void load(const void *mode, int rank) {
    (void)rank;
    table_load_counts(mode, TABLE_RANKS_MAX);
}

static bool has_somebody_saved(const struct table_run *run) {
    for (int rank = 0; rank < run->trial->what->ranks; rank++)
        if (!is_dead(run, rank) && table_board->ranks[rank].has_saved)
            return true;
    return false;
}

/* Removes what a rank that died in the middle of writing has left; of others nothing may be left. */
static void remove_new_files(struct table_run *run, const char *folder) {
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *suffix = strstr(entry->d_name, ".new-");
        char path[400];
        if (!suffix)
            continue;
        bool is_of_dead = false;
        for (int rank = 0; rank < run->trial->what->ranks; rank++)
            is_of_dead |= is_dead(run, rank) && run->team.pids[rank] == atoi(suffix + strlen(".new-"));
        if (!is_of_dead)
            complain(run, "%s is left", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (entries)
        closedir(entries);
}

static void check_file(struct table_run *run, const char *folder) {
    struct table_record *record = &table_board->ranks[TABLE_RANKS_MAX];
    const bool is_there = access(run->path, F_OK) == 0;
    if (!is_there && has_somebody_saved(run))
        complain(run, "the save has succeeded, and there is no file");
    if (is_there) {
        struct team team;
        team_start(&team, 1, load, &run->mode);
        const bool has_ended = team_await(&team, -1, LIMIT_NS);
        team_kill(&team);
        if (!has_ended || !WIFEXITED(team.wait_status[0]) || WEXITSTATUS(team.wait_status[0]) != 0)
            complain(run, "the file: %s", record->message);
        else
            check_counts(run, "the file", true, record->counts);
    }
    unlink(run->path);
    remove_new_files(run, folder);
}

/* Runs. */

static void arm(int index, const struct table_twist *twist, enum action action) {
    if (twist->point)
        board->faults[index] = (struct fault){true, twist->rank, board_point(twist->point), twist->passage, action};
}

static void pause_us(uint64_t us) {
    const struct timespec pause = {.tv_nsec = (long)us * 1000};
    nanosleep(&pause, NULL);
}

/* Kills ranks at random times once all push; not all of them. */
static void kill_some(const struct table_run *run) {
    const int ranks = run->trial->what->ranks, workers = table_workers(run->trial->what);
    uint64_t random = run->trial->random;
    const int64_t begin_ns = now_ns();
    for (int rank = 0; rank < workers; rank++)
        while (table_board->ranks[rank].begun == 0 && now_ns() - begin_ns < LIMIT_NS)
            pause_us(100);
    const uint64_t most = (uint64_t)ranks - 1;
    const uint64_t victims = 1 + random_below(&random, random_below(&random, OFTEN) && most > 2 ? 2 : most);
    pause_us(random_below(&random, KILL_AFTER_US));
    for (uint64_t i = 0, rank = random_below(&random, (uint64_t)ranks); i < victims;
         i++, rank = (rank + 1) % (uint64_t)ranks) {
        kill(run->team.pids[rank], SIGKILL);
        siginfo_t info;
        waitid(P_PID, (id_t)run->team.pids[rank], &info, WEXITED | WNOWAIT);
        table_board->killed[rank] = true;
        pause_us(random_below(&random, KILL_BETWEEN_US));
    }
}

static void prepare(const struct table_trial *trial, const char *folder, struct table_run *run) {
    static unsigned jobs;
    const struct table_case *what = trial->what;
    *run = (struct table_run){.trial = trial};
    snprintf(run->job, sizeof run->job, "table-fault-%d-%u", (int)getpid(), ++jobs);
    snprintf(run->path, sizeof run->path, "%s/table", folder);
    run->mode = (struct table_mode){.what = trial->what,
                                    .job = run->job,
                                    .path = run->path,
                                    .spoil = trial->spoil,
                                    .spoil_point = trial->spoil_point,
                                    .is_random = trial->random != 0};
    for (int node = 0; node < TABLE_NODES_MAX && what->nodes[node]; node++)
        run->mode.node_fds[node] = memfd_create("table-fault-node", MFD_CLOEXEC);
    if (what->nodes[0])
        snprintf(run->mode.rendezvous, sizeof run->mode.rendezvous, "127.0.0.1:%d", free_port((uint64_t)getpid()));
    board_clear();
    memset(table_board, 0, sizeof *table_board);
    arm(0, &trial->what->first, ACTION_KILL);
    for (int i = 0; i < TABLE_PAUSES_MAX; i++)
        arm(1 + i, &trial->what->pauses[i], ACTION_PAUSE);
    board->faults[BOARD_FAULTS - 1] = trial->fault;
}

bool table_run_trial(const struct table_trial *trial, const char *folder, struct table_run *run) {
    prepare(trial, folder, run);
    team_start(&run->team, trial->what->ranks, table_run_rank, &run->mode);
    if (trial->random)
        kill_some(run);
    team_await(&run->team, -1, LIMIT_NS);
    for (int rank = 0; rank < trial->what->ranks; rank++) {
        run->held_ns += run->team.ended[rank] ? run->team.waited_ns[rank] : team_waited_ns(&run->team, rank);
        run->deaths += is_dead(run, rank);
    }
    for (int rank = 0; rank < trial->what->ranks; rank++)
        if (!is_dead(run, rank))
            check_end(run, rank);
    check_creation(run);
    check_ranks_counts(run);
    check_clocks(run);
    check_times(run);
    check_file(run, folder);
    team_kill(&run->team);
    for (int node = 0; node < TABLE_NODES_MAX && trial->what->nodes[node]; node++)
        close(run->mode.node_fds[node]);
    if (leftovers_named(run->job))
        complain(run, "%s is left", leftovers_path(run->job));
    unlink(leftovers_path(run->job));
    if (team_is_left())
        complain(run, "a process is left");
    return !trial->fault.armed || board->struck[BOARD_FAULTS - 1];
}
