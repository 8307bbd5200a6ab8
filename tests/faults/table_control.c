#include "table_verdict.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/failure/failure.h"
#include "kolo_table.h"
#include "table/shard.h"
#include "table/rows/versions.h"
#include "table/waits.h"

enum { TRIES = 5, MISSES_MAX = 50, SOON_NS = 60000000 };

/* Defects. What the takeover of a role has found, for those that undo what it does. */
static struct {
    uint32_t shard;
    uint64_t place;
    uint64_t taken[TABLE_RANKS_MAX];
} found;

static bool is_at(const char *point, const char *name) {
    return strcmp(point, name) == 0;
}

/* The shard of which this rank has taken the role last. */
static uint32_t held_shard(const kolo_table *table) {
    for (uint32_t shard = 0; shard < table->shards; shard++)
        if (kolo_load_relaxed(&table->shard[shard].writer) == table->rank + 1)
            return shard;
    abort();
}

static void note_takeover(const kolo_table *table) {
    found.shard = held_shard(table);
    found.place = kolo_load_relaxed(&table->shard[found.shard].place);
    for (uint32_t worker = 0; worker < table->workers; worker++)
        found.taken[worker] = kolo_load_relaxed(&kolo_table_queue(table, worker, found.shard)->taken);
}

static void await_update(const kolo_table *table, uint32_t worker, uint32_t shard) {
    enum { LOOKS = 1000 };
    const struct timespec look = {.tv_nsec = 200000};
    const struct kolo_shared_queue *queue = kolo_table_queue(table, worker, shard);
    for (int i = 0; i < LOOKS && kolo_load_acquire(&queue->filled) == kolo_load_acquire(&queue->taken); i++)
        nanosleep(&look, NULL);
}

/* Rank 0 holds its first role until the others have queued updates, however late they are: it dies when it applies
 * theirs. */
static void let_others_queue(const kolo_table *table, const char *point) {
    static bool has_waited;
    if (table->rank != 0 || has_waited || !is_at(point, "piece.writing"))
        return;
    has_waited = true;
    for (uint32_t worker = 1; worker < table->workers; worker++)
        await_update(table, worker, held_shard(table));
}

/* What is applied already is applied again: recover() is left out. */
static void leave_out_recovery(const kolo_table *table, const char *point) {
    let_others_queue(table, point);
    if (is_at(point, "shard.taken_over"))
        note_takeover(table);
    for (uint32_t worker = 0; worker < table->workers && is_at(point, "shard.recovering"); worker++)
        kolo_store_release(&kolo_table_queue(table, worker, found.shard)->taken, found.taken[worker]);
}

/* An entry that is not applied is passed over: the piece's sequence is not looked at. */
static void believe_applied(const kolo_table *table, const char *point) {
    let_others_queue(table, point);
    if (is_at(point, "shard.taken_over"))
        note_takeover(table);
    if (!is_at(point, "shard.recovering") || !found.place)
        return;
    const uint32_t worker = (uint32_t)(found.place >> 48) - 1;
    kolo_atomic_u64 *taken = &kolo_table_queue(table, worker, found.shard)->taken;
    if (kolo_load_relaxed(taken) == found.taken[worker])
        kolo_store_release(taken, found.taken[worker] + sizeof(uint64_t) + table->version_bytes);
}

/* Two holders die: rank 0 when it has noted the second update of rank 2, and rank 1, which takes over, when it has
 * stored half of the next record, of its own update to a piece that is one update ahead. Together with the old place
 * that reads as if the update of rank 2 had been applied, unless the place is cleared first. */
static const struct table_case in_a_row = {.name = "asp-in-a-row",
                                           .ranks = 3,
                                           .staleness = KOLO_STALENESS_UNBOUNDED,
                                           .pauses = {{.point = "piece.writing", .rank = 0, .passage = 1}}};

static void die(const kolo_table *table) {
    table_board->killed[kolo_comm_rank(table->comm)] = true; /* table->rank is counted on its node */
    kill(getpid(), SIGKILL);
}

static void die_in_a_row(const kolo_table *table, const char *point, bool clears) {
    enum { WORKER = 2, LOOKS = 1000 };
    static int noted;
    const struct timespec look = {.tv_nsec = 200000};
    struct kolo_shared_shard *shard = &table->shard[0];
    let_others_queue(table, point);
    for (int i = 0; i < LOOKS && is_at(point, "shard.taking_over") && table->rank == 2 && !table_board->killed[1]; i++)
        nanosleep(&look, NULL); /* rank 1 takes over first */
    if (is_at(point, "shard.taken_over") && table->rank == 1 && held_shard(table) == 0)
        note_takeover(table);
    if (is_at(point, "shard.noted") && table->rank == 0 && kolo_load_relaxed(&shard->place) >> 48 == WORKER + 1 &&
        ++noted == 2) {
        await_update(table, 1, 0);
        die(table);
    }
    if (!is_at(point, "shard.noting_sequence") || !found.place)
        return;
    const uint64_t piece = kolo_load_relaxed(&shard->piece);
    if (kolo_load_relaxed(kolo_piece_sequence(table, piece)) == kolo_load_relaxed(&shard->sequence) + 1) {
        if (!clears)
            kolo_store_release(&shard->place, found.place);
        die(table);
    }
    found.place = 0;
}

static void die_after_clearing(const kolo_table *table, const char *point) {
    die_in_a_row(table, point, true);
}

static void die_without_clearing(const kolo_table *table, const char *point) {
    die_in_a_row(table, point, false);
}

/* Rounds that end on some nodes only. A call of the leaders fails on the nodes that are behind, which have got nothing
 * in it: the victim ends when it has returned. */
struct split {
    const char *call; /* NULL: that was the last one */
    int size, number; /* of leaders, and of such calls */
    uint32_t victim;
    uint64_t behind;
};

/* A node is lost while the last message of another, which was lost before, lies in the memory of the rest. */
static const struct split of_old_message[] = {{"kolo_allgatherv", 3, 3, 2, 1}, {0}};
static const struct table_case sparse = {.name = "nodes-sparse",
                                         .ranks = 4,
                                         .staleness = 1,
                                         .calls = 8,
                                         .full_pushes = 6,
                                         .first = {"rounds.collected", 3, 4},
                                         .nodes = {1, 1, 1, 1}};

/* A node that helps one that is behind was behind itself. */
static const struct split of_helper[] = {{"kolo_allgatherv", 4, 3, 3, 3}, {"kolo_broadcast", 3, 4, 2, 1}, {0}};
static const struct table_case helped = {.name = "nodes-helped", .ranks = 4, .staleness = 2, .nodes = {1, 1, 1, 1}};

/* A node's heir is behind. */
static const struct split of_heir[] = {{"kolo_allgatherv", 3, 3, 1, 1}, {0}};
static const struct table_case heir = {.name = "nodes-heir", .ranks = 3, .staleness = 2, .nodes = {1, 1, 1}};

static const kolo_table *split_table;
static const struct split *split;

static void split_old_message(kolo_table *table) {
    split_table = table;
    split = of_old_message;
}

static void split_helper(kolo_table *table) {
    split_table = table;
    split = of_helper;
}

static void split_heir(kolo_table *table) {
    split_table = table;
    split = of_heir;
}

/* The heir's worker pushes when its leader knows which node is lost, and has not caught up. */
static void push_meanwhile(const kolo_table *table, const char *point) {
    enum { HELD = 3, LOOKS = 500 };
    static _Atomic int ended, inherited;
    const bool ends = is_at(point, "clock.ended"), inherits = is_at(point, "rounds.inherited");
    const struct timespec look = {.tv_nsec = 1000000};
    if (table->node)
        return;
    ended += ends;
    inherited += inherits;
    for (int i = 0; i < LOOKS && ended == HELD && (inherits || (ends && !inherited)); i++)
        nanosleep(&look, NULL);
}

static int split_call(kolo_comm *leaders, const char *call, int rc, void *got, size_t bytes) {
    enum { LOOKS = 8000 }; /* who went on in a communicator that is not broken yet would wait for ever */
    static int calls;
    const struct timespec look = {.tv_nsec = 1000000};
    const struct split *now = split;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    if (!now || !now->call || rc < 0 || strcmp(now->call, call) != 0 || kolo_comm_size(leaders) != now->size ||
        ++calls != now->number)
        return rc;
    split++;
    calls = 0;
    for (int i = 0; i < 20 && split_table->node == now->victim; i++) /* what it has sent leaves it */
        nanosleep(&look, NULL);
    if (split_table->node == now->victim)
        die(split_table);
    if (!(now->behind >> split_table->node & 1))
        return rc;
    memset(got, 0xff, bytes);
    for (int i = 0; i < LOOKS && failure.status == 0; i++) {
        nanosleep(&look, NULL);
        kolo_comm_failure(leaders, &failure);
    }
    return KOLO_ERR_PEER_DEAD;
}

int __real_kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root);
int __wrap_kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root);
int __real_kolo_allgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                           kolo_dtype dtype);
int __wrap_kolo_allgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                           kolo_dtype dtype);

int __wrap_kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root) {
    const int rc = __real_kolo_broadcast(comm, buffer, count, dtype, root);
    return split_call(comm, "kolo_broadcast", rc, buffer, dtype == KOLO_U8 ? count : 0);
}

int __wrap_kolo_allgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                           kolo_dtype dtype) {
    const int rc = __real_kolo_allgatherv(comm, send, recv, counts, offsets, dtype);
    size_t bytes = 0;
    for (int rank = 0; rank < kolo_comm_size(comm) && dtype == KOLO_U8; rank++)
        bytes += counts[rank];
    return split_call(comm, "kolo_allgatherv", rc, recv, bytes);
}

/* A fold begins again. */
static void fold_again(const kolo_table *table, const char *point) {
    if (!is_at(point, "shard.taken_over"))
        return;
    struct kolo_shared_shard *shard = &table->shard[held_shard(table)];
    kolo_store_release(&shard->place, KOLO_TABLE_FOLDED | kolo_load_relaxed(&shard->folded));
}

/* A file is not written to its end. */
static char saved_path[160];

static void cut_short(const kolo_table *table, const char *point) {
    char path[200];
    (void)table;
    if (!is_at(point, "table_file.renaming"))
        return;
    snprintf(path, sizeof path, "%s.new-%d", saved_path, (int)getpid());
    if (truncate(path, 200) < 0)
        perror(path);
}

/* Waits for queues do not set the bits of workers that have died before they did. */
static bool forgets_bits;

/* What the worker that saves waits for before it copies the table does not come. */
static bool is_stuck;

static void get_stuck(const kolo_table *table, const char *point) {
    is_stuck |= is_at(point, "table_file.chosen") && table->saver == 0 && table->rank == 0;
}

int __real_kolo_shard_settle(struct kolo_table *table, uint32_t shard, bool own);
int __wrap_kolo_shard_settle(struct kolo_table *table, uint32_t shard, bool own);

int __wrap_kolo_shard_settle(struct kolo_table *table, uint32_t shard, bool own) {
    if (is_stuck && !own) {
        is_stuck = false;
        return kolo_fail(KOLO_ERR_TIMEOUT, "rank %u: what it saves is not applied", table->rank);
    }
    int rc = forgets_bits ? 0 : __real_kolo_shard_settle(table, shard, own);
    for (uint32_t worker = 0; worker < table->workers && forgets_bits && rc == 0; worker++) {
        const struct kolo_shared_queue *queue = kolo_table_queue(table, worker, shard);
        rc = kolo_wait_shard(table, shard, &queue->taken, kolo_load_acquire(&queue->filled));
    }
    return rc;
}

static void forget_bits(kolo_table *table) {
    (void)table;
    forgets_bits = true;
}

/* What waits do instead of looking who has ended. */
static int look_at_nothing(kolo_waiter *waiter, const struct kolo_wait *wait) {
    return wait->waited_ns < kolo_waiter_timeout_ns(waiter) ? 0 : KOLO_ERR_TIMEOUT;
}

static int blame_another(kolo_waiter *waiter, const struct kolo_wait *wait) {
    const kolo_table *table = waiter->owner;
    if (wait->waited_ns < SOON_NS)
        return 0;
    return kolo_failure_publish_near(table->comm, KOLO_ERR_PEER_DEAD, (wait->peer + 1) % table->ranks, 0);
}

static void be_blind(kolo_table *table) {
    table->waiter.check = look_at_nothing;
}

static void misname(kolo_table *table) {
    table->waiter.check = blame_another;
}

static void keep_descriptor(kolo_table *table) {
    (void)table;
    if (dup(STDERR_FILENO) < 0)
        perror("dup");
}

/* Where a rank is killed; in cases in which another has died before, none is. */
static const struct control {
    const char *name, *case_name, *point;
    int rank;
    uint64_t passage;
    void (*spoil)(kolo_table *table);
    void (*spoil_point)(const kolo_table *table, const char *point);
    const char *noticed; /* words of the complaint; NULL: there is none */
} controls[] = {
    {"no defect, a holder dies", "ssp-second-current", NULL, 0, 0, NULL, NULL, NULL},
    {"no defect, a fold is broken off", "backup-second", NULL, 0, 0, NULL, NULL, NULL},
    {"no defect, before a bit is set", "ssp-paused", "shard.filled", 1, 1, NULL, NULL, NULL},
    {"no defect, synchronous", "bsp-3", "synchronous.ending", 1, 2, NULL, NULL, NULL},
    {"no defect, two holders die", "asp-in-a-row", NULL, 0, 0, NULL, die_after_clearing, NULL},
    {"no defect, an old message", "nodes-sparse", NULL, 0, 0, split_old_message, NULL, NULL},
    {"no defect, a helper was behind", "nodes-helped", NULL, 0, 0, split_helper, NULL, NULL},
    {"no defect, an heir was behind", "nodes-heir", NULL, 0, 0, split_heir, push_meanwhile, NULL},
    {"the place is not cleared", "asp-in-a-row", NULL, 0, 0, NULL, die_without_clearing, " pushes of rank 2"},
    {"nothing is set right", "ssp-second-current", NULL, 0, 0, NULL, leave_out_recovery, " pushes of rank "},
    {"what was noted counts as applied", "ssp-second-noted", NULL, 0, 0, NULL, believe_applied, " pushes of rank "},
    {"a fold begins again", "backup-second", NULL, 0, 0, NULL, fold_again, " pushes of rank "},
    {"bits of the dead are not set", "ssp-paused", "shard.filled", 1, 1, forget_bits, NULL, "status -4"},
    {"deaths are not looked for", "asp-3", "piece.writing", 1, 5, be_blind, NULL, "status -4"},
    {"another rank is blamed", "bsp-3", "synchronous.ending", 1, 2, misname, NULL, "does not name who died"},
    {"a file is cut short", "ssp-save", "clock.ended", 2, 5, NULL, cut_short, "the file: "},
    {"the saver is stuck", "ssp-save", "clock.ended", 2, 5, NULL, get_stuck, "rank 0, which saved, has said why"},
    {"a descriptor is left", "bsp-3", "synchronous.ending", 1, 2, keep_descriptor, NULL, "descriptors, "},
};

static const struct table_case *find_case(const char *name) {
    for (int index = 0; index < table_cases_count; index++)
        if (strcmp(table_cases[index].name, name) == 0)
            return &table_cases[index];
    static const struct table_case *const own[] = {&sparse, &helped, &heir};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i]->name, name) == 0)
            return own[i];
    return &in_a_row;
}

/* What a defect does is partly for the scheduler to say: it must be noticed once. So is whether those die that should:
 * runs in which they do not are no tries. */
static bool try_control(const struct control *control, const char *folder, struct table_run *run) {
    struct table_trial trial = {
        .what = find_case(control->case_name), .spoil = control->spoil, .spoil_point = control->spoil_point};
    const int deaths = trial.what->nodes[3] || trial.what == &in_a_row ? 2 : 1;
    if (control->point)
        trial.fault = (struct fault){true, control->rank, board_point(control->point), control->passage, ACTION_KILL};
    for (int tries = 0, misses = 0; tries < TRIES && misses < MISSES_MAX;) {
        if (!table_run_trial(&trial, folder, run) || run->deaths < deaths) {
            misses++;
            continue;
        }
        tries++;
        if (control->noticed ? strstr(run->complaint, control->noticed) != NULL : !run->complaint[0])
            return true;
        if (!control->noticed && !run->is_late)
            return false;
    }
    return false;
}

int table_control_run(const char *folder) {
    static struct table_run run;
    int failures = 0;
    snprintf(saved_path, sizeof saved_path, "%s/table", folder);
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
        const bool is_right = try_control(&controls[i], folder, &run);
        printf("%s: %s: %s: %d died: %.300s\n", is_right ? "right" : "FAILED", controls[i].case_name, controls[i].name,
               run.deaths, run.complaint[0] ? run.complaint : "no complaint");
        fflush(stdout);
        failures += !is_right;
    }
    return failures;
}
