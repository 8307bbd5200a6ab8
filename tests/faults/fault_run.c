#include "fault_run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fault_verdict.h"
#include "fault_leftovers.h"
#include "fault_nodes.h"

/* Deadlines that nothing reaches but what is stopped; those that it does reach are short. */
enum { DEADLINE_MS = 3000, DEADLINE_SHORT_MS = 200, CREATION_MS = 500, LISTING_TRIES = 3 };

static bool is_rejoin(const struct fault_case *what) {
    return what->phase == PHASE_SHRINK && what->nodes;
}

/* What takes longer hangs. */
static int64_t limit_ns(const struct run_mode *mode) {
    if (is_rejoin(mode->what))
        return REJOIN_LIMIT_NS;
    return INT64_C(1000000) * (2 * mode->timeout_ms + 2000);
}

static const char *fresh_job(void) {
    static char job[64];
    static unsigned jobs;
    snprintf(job, sizeof job, "fault-%d-%u", (int)getpid(), ++jobs);
    return job;
}

static void run_rank(const void *mode, int rank) {
    case_run(mode, rank);
}

/* Makes a fault that is part of a case strike that rank. */
static void arm_twist(int rank, const char *point, uint64_t passage) {
    board->faults[0] = (struct fault){true, rank, board_point(point), passage, ACTION_KILL};
}

static void arm_pause(int rank, const char *point) {
    board->faults[1] = (struct fault){true, rank, board_point(point), 1, ACTION_PAUSE};
}

static void arm_twists(struct run *run, const struct fault_case *what) {
    const int actor = run->mode.actor;
    run->first_victim = -1;
    switch (what->twist) {
    case TWIST_SECOND:
        arm_twist(run->first_victim = actor, "call.beginning", CASE_TWIST_STEP);
        break;
    case TWIST_SECOND_EARLY:
        arm_twist(run->first_victim = actor, "create.introducing", 1);
        break;
    case TWIST_DIES:
        arm_twist(run->first_victim = run->mode.dying = actor, "call.beginning", CASE_TWIST_STEP);
        arm_pause((actor + 1) % what->ranks, "destroy.beginning");
        break;
    case TWIST_SECOND_VIEW:
        arm_twist(run->first_victim = actor, "shrink.adopted", 1);
        arm_pause((actor + 1) % what->ranks, "shrink.adopted");
        break;
    case TWIST_PAUSES:
        if (what->nodes)
            arm_pause(0, "assembly.agreed");
        else
            arm_pause(actor, what->phase == PHASE_SHRINK ? "create.attached" : "derive.meeting");
        break;
    default:
        break;
    }
}

/* Leaves the job's name behind, by the death of a rank 0. */
static void leave_name(const struct run_mode *mode) {
    struct team team;
    board_clear();
    arm_twist(0, "job.linked", 1);
    team_start(&team, 1, run_rank, mode);
    team_await(&team, -1, limit_ns(mode));
    team_kill(&team);
    board_clear();
}

static bool stops(const struct run *run) {
    return run->trial && run->trial->fault.action == ACTION_STOP;
}

static void prepare(struct run *run, const struct fault_case *what, int victim, int64_t deadline_ms,
                    int64_t create_deadline_ms) {
    snprintf(run->job, sizeof run->job, "%s", fresh_job());
    run->mode = (struct run_mode){.what = what,
                                  .actor = case_actor(what, victim),
                                  .dying = -1,
                                  .job = run->job,
                                  .fd = what->by_descriptor ? memfd_create("fault", MFD_CLOEXEC) : -1,
                                  .timeout_ms = deadline_ms,
                                  .create_timeout_ms = create_deadline_ms};
    setenv("KOLO_ALGO", what->levels ? what->levels : "auto", 1);
    setenv("KOLO_SINGLE_COPY", what->single_copy ? "1" : "off", 1);
    if (what->sleeps)
        setenv("KOLO_WAIT", "sleep", 1);
    else
        unsetenv("KOLO_WAIT");
    nodes_prepare(&run->mode, deadline_ms == DEADLINE_MS || (is_rejoin(what) && !stops(run)),
                  stops(run) ? "majority" : "any"); /* of dead nodes none comes back */
    if (what->twist == TWIST_REPLACES)
        leave_name(&run->mode);
    board_clear();
    arm_twists(run, what);
}

static void finish(struct run *run) {
    team_kill(&run->team);
    if (run->mode.fd >= 0)
        close(run->mode.fd);
    nodes_finish(&run->mode);
}

/* False if the rank did not do what it does undisturbed. */
static bool list_rank(const struct run *run, int rank, struct listing *listing) {
    const struct fault_case *what = run->mode.what;
    const struct rank_record *record = &board->ranks[rank];
    const bool may_fail = what->twist == TWIST_SECOND || what->twist == TWIST_SECOND_EARLY ||
                          what->twist == TWIST_GIVES_UP || what->twist == TWIST_FOREIGN;
    const bool is_well = what->phase == PHASE_SHRINK ? recovery_is_done(record) : !record->message[0] || may_fail;
    if (run->hung || !record->finished || !is_well) {
        fprintf(stderr, "case %s, rank %d: does not run undisturbed%s, last at %s: %s\n", what->name, rank,
                run->hung ? " to its end" : "", board_point_name(record->last_point), record->message);
        return false;
    }
    for (int point = 0; point < board_points(); point++)
        listing->passages[rank][point] = record->passages[point];
    for (int step = 0; step < BOARD_STEPS_MAX; step++)
        listing->contributions[rank][step] = record->steps[step].contributions;
    return true;
}

/* Lists what the case does with that victim: of the victim, or of all ranks where nobody plays a twist. */
static bool list_run(const struct fault_case *what, int victim, struct listing *listing) {
    struct run run = {.victim = victim};
    const bool lists_all = what->twist == TWIST_NONE;
    bool is_well = true;
    prepare(&run, what, victim, DEADLINE_MS, DEADLINE_MS);
    team_start(&run.team, what->ranks, run_rank, &run.mode);
    run.hung = !team_await(&run.team, -1, limit_ns(&run.mode));
    finish(&run);
    for (int rank = 0; rank < what->ranks; rank++)
        if (lists_all || rank == victim)
            is_well = list_rank(&run, rank, listing) && is_well;
    return is_well;
}

void run_listing(const struct fault_case *what, struct listing *listing) {
    const int runs = what->twist == TWIST_NONE ? 1 : what->ranks;
    for (int victim = 0; victim < runs; victim++) {
        int tries_left = LISTING_TRIES; /* a machine that is busy elsewhere may let deadlines pass */
        while (!list_run(what, victim, listing))
            if (--tries_left == 0)
                exit(1);
    }
}

/* A name that rank 0 left some time ago is to be removed by the next job, of another name, which leaves nothing. */
static void expect_removed(struct run *run) {
    const struct timespec times[2] = {{0}};
    char next_job[sizeof run->job];
    snprintf(next_job, sizeof next_job, "%s", fresh_job());
    utimensat(AT_FDCWD, leftovers_path(run->job), times, 0);
    static const struct fault_case next = {.name = "next", .phase = PHASE_DESTROY, .ranks = 2, .count = 1};
    struct run_mode mode = {.what = &next,
                            .actor = -1,
                            .dying = -1,
                            .job = next_job,
                            .fd = -1,
                            .timeout_ms = DEADLINE_MS,
                            .create_timeout_ms = DEADLINE_MS};
    struct team team;
    board_clear();
    team_start(&team, next.ranks, run_rank, &mode);
    const bool ended = team_await(&team, -1, limit_ns(&mode));
    team_kill(&team);
    for (int rank = 0; rank < next.ranks; rank++)
        if (!ended || !board->ranks[rank].finished || board->ranks[rank].steps[CASE_CREATE_STEP].status < 0)
            verdict_complain(run, "the next job, rank %d: %s", rank, board->ranks[rank].message);
    if (leftovers_named(run->job))
        verdict_condemn(run, "%s is still there after the next job", leftovers_path(run->job));
}

/* The others are through: the stopped victim goes on. */
static void go_on_late(struct run *run) {
    kill(run->team.pids[run->victim], SIGCONT);
    team_await(&run->team, -1, limit_ns(&run->mode));
    if (is_rejoin(run->trial->what))
        rejoin_find_late(run);
    else
        recovery_find_late(run);
}

/* Whether the stopped victim goes on while the others, whose calls have failed, still have their buffers. */
static bool has_late(const struct trial *trial) {
    return trial->fault.action == ACTION_STOP && trial->what->phase == PHASE_CALLS && !trial->what->nodes;
}

static bool all_linger(const struct run *run, bool with_victim) {
    for (int rank = 0; rank < run->trial->what->ranks; rank++)
        if ((with_victim || rank != run->victim) && !board->ranks[rank].lingers)
            return false;
    return true;
}

static void await_lingering(const struct run *run, bool with_victim) {
    const int64_t end_ns = now_ns() + limit_ns(&run->mode);
    while (!all_linger(run, with_victim) && now_ns() < end_ns)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The victim is stopped, or comes to the end like the others. *stopped is its record up to then. */
static void let_late_go_on(const struct run *run, struct rank_record *stopped) {
    await_lingering(run, false);
    memcpy(stopped, &board->ranks[run->victim], sizeof *stopped);
    if (board->struck[BOARD_FAULTS - 1])
        kill(run->team.pids[run->victim], SIGCONT);
    await_lingering(run, true);
    board->released = true;
}

/* The verdict is about what the victim had done when it was stopped; and about its data since then. */
static void forget_late(const struct run *run, struct rank_record *stopped) {
    struct rank_record *record = &board->ranks[run->victim];
    for (int step = 0; step < BOARD_STEPS_MAX; step++)
        stopped->steps[step].is_wrong = record->steps[step].is_wrong;
    stopped->is_touched = record->is_touched;
    memcpy(record, stopped, sizeof *record);
}

/* How long the machine kept a rank waiting that has ended, or hangs. */
static int64_t held_ns(const struct team *team, int rank) {
    return team->ended[rank] ? team->waited_ns[rank] : team_waited_ns(team, rank);
}

bool run_trial(const struct trial *trial, struct run *run) {
    static struct rank_record stopped;
    const enum action action = trial->fault.action;
    *run = (struct run){.trial = trial,
                        .victim = trial->fault.rank,
                        .noticed_ns = -1,
                        .recovered_ns = -1,
                        .past_ns = -1,
                        .waited_ns = -1};
    prepare(run, trial->what, run->victim,
            trial->deadline_ms       ? trial->deadline_ms
            : is_rejoin(trial->what) ? REJOIN_DEADLINE_MS
            : action != ACTION_STOP  ? DEADLINE_MS
            : trial->what->nodes     ? nodes_deadline_ms(trial->what)
                                     : DEADLINE_SHORT_MS,
            trial->what->phase == PHASE_CREATE ? CREATION_MS : DEADLINE_MS);
    run->mode.spoil = trial->spoil;
    board->faults[BOARD_FAULTS - 1] = trial->fault;
    board->has_late = has_late(trial);
    team_start(&run->team, trial->what->ranks, run_rank, &run->mode);
    if (board->has_late)
        let_late_go_on(run, &stopped);
    /* A victim that never comes to its point ends like the others. */
    run->hung = !team_await(&run->team, board->has_late ? -1 : run->victim, limit_ns(&run->mode));
    if (run->hung && joining_waits_for_victim(run)) {
        kill(run->team.pids[run->victim], SIGKILL);
        run->hung = !team_await(&run->team, -1, limit_ns(&run->mode));
    }
    if (!board->struck[BOARD_FAULTS - 1])
        team_await(&run->team, -1, limit_ns(&run->mode));
    const bool is_reached = board->struck[BOARD_FAULTS - 1];
    if (board->has_late && is_reached)
        forget_late(run, &stopped);
    if (trial->litters)
        close(open(leftovers_path(run->job), O_CREAT | O_RDONLY | O_CLOEXEC, 0600));
    run->held_ns = run->team.held_ns;
    for (int rank = 0; rank < trial->what->ranks; rank++)
        run->held_ns += held_ns(&run->team, rank) + board->ranks[rank].registering_ns;
    if (is_reached)
        verdict_find(run);
    if (is_reached && action == ACTION_STOP && trial->what->phase == PHASE_SHRINK)
        go_on_late(run);
    finish(run);
    if (is_reached && leftovers_named(run->job)) {
        if (verdict_name_may_stay(run))
            expect_removed(run);
        else
            verdict_condemn(run, "%s is left", leftovers_path(run->job));
    }
    if (team_is_left())
        verdict_complain(run, "a process is left");
    unlink(leftovers_path(run->job));
    return is_reached;
}
