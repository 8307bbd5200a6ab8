/* The rules. V is the victim, a member or a joiner; it is struck in kolo_comm_grow or kolo_comm_join. After that call
 * each survivor that has a communicator sums in it and, while a sum fails, shrinks it; see fault_cases.h for rounds.
 *
 * Result. All members that survive have moved, or none has; all, if V was a member that had. They stay only with an
 * error, PEER_DEAD or, where V is stopped or had not registered, TIMEOUT; or since V had not asked, and nobody came. If
 * V was a joiner and they stay, their communicator is whole: the first sum in it succeeds. A joiner has joined only if
 * the members have moved; else it has PEER_DEAD or TIMEOUT. In the end the members that survive and those that have
 * joined them are in one communicator, they alone, with the ranks in their order and right sums.
 *
 * Times. Where V is killed, each call is over 100 ms after the fault, or the last survivor's coming to it; but a call
 * that waits for a joiner or for a file, and V had not registered, when the time for all to be ready is over. Where V
 * is stopped, after that time and the communicator's, and then after the communicator's, plus a fifth. Where it is rank
 * 0, a joiner that it has not answered waits until it is killed. */
#include "fault_verdict.h"

enum { MS = 1000000 };

#define RANK(rank) (UINT64_C(1) << (rank))

static int members_of(const struct fault_case *what) {
    return what->ranks - what->joiners;
}

static const struct step *grow_of(int rank) {
    return &board->ranks[rank].steps[CASE_GROW_STEP];
}

/* Whether this member has moved, or this joiner has joined. */
static bool is_in_larger(const struct run *run, int rank) {
    return grow_of(rank)->status == 0 && (rank >= members_of(run->trial->what) || grow_of(rank)->size > 0);
}

/* The ranks with which it sums in the end; 0: none. */
static uint64_t last_members(const struct rank_record *record) {
    const struct step *sum = &record->steps[CASE_GROW_STEP + 1];
    if (sum->returned && sum->status == 0)
        return sum->members;
    for (int round = 0; round < CASE_ROUNDS; round++) {
        sum = recovery_shrink(record, round) + 1;
        if (sum->returned && sum->status == 0)
            return sum->members;
    }
    return 0;
}

/* Whether V, in the call in which it was struck, had registered in the creation. */
static bool has_registered(const struct run *run) {
    return board->ranks[run->victim].passages[board_point("job.registered")] > 0;
}

bool joining_waits_for_victim(const struct run *run) {
    return run->trial->what->phase == PHASE_GROW && verdict_is_stopped(run) && run->victim == 0 &&
           board->ranks[0].passages[board_point("join.answered")] < (uint64_t)run->trial->what->joiners;
}

/* Results. */

static void check_status(struct run *run, int rank) {
    const int status = grow_of(rank)->status;
    const bool is_joiner = rank >= members_of(run->trial->what);
    const bool may_time_out =
        verdict_is_stopped(run) || (!has_registered(run) && (is_joiner || run->victim >= members_of(run->trial->what)));
    const bool had_not_asked = run->victim >= members_of(run->trial->what) && !board->ranks[run->victim].asked;
    if (status == 0 && (is_in_larger(run, rank) || had_not_asked))
        return;
    if (status == 0)
        verdict_complain(run, "rank %d stays, without an error", rank);
    else if (status != KOLO_ERR_PEER_DEAD && !(may_time_out && status == KOLO_ERR_TIMEOUT))
        verdict_complain(run, "rank %d: %s: status %d: %s", rank, is_joiner ? "kolo_comm_join" : "kolo_comm_grow",
                         status, board->ranks[rank].message);
}

static void check_member(struct run *run, int rank, bool has_moved) {
    const struct rank_record *record = &board->ranks[rank];
    const bool is_whole = !has_moved && run->victim >= members_of(run->trial->what);
    if (is_in_larger(run, rank) != has_moved)
        verdict_complain(run, "rank %d has %s, others have not: %s", rank, has_moved ? "stayed" : "moved",
                         record->message);
    if (is_whole && record->steps[CASE_GROW_STEP + 1].status < 0)
        verdict_complain(run, "rank %d: the old communicator is broken: %s", rank, record->message);
}

static void check_results(struct run *run) {
    const struct fault_case *what = run->trial->what;
    const bool must_move = run->victim < members_of(what) && board_passed(run->victim, "grow.moving");
    const bool has_moved = is_in_larger(run, verdict_is_survivor(run, 0) ? 0 : 1);
    uint64_t all = 0;
    for (int rank = 0; rank < what->ranks; rank++)
        if (verdict_is_survivor(run, rank) && (rank < members_of(what) || is_in_larger(run, rank)))
            all |= RANK(rank);
    for (int rank = 0; rank < what->ranks; rank++) {
        if (!verdict_is_survivor(run, rank))
            continue;
        check_status(run, rank);
        if (rank < members_of(what))
            check_member(run, rank, must_move || has_moved);
        else if (is_in_larger(run, rank) && members_of(what) > 1 && !has_moved)
            verdict_complain(run, "rank %d has joined members that stay", rank);
        if (all & RANK(rank) && last_members(&board->ranks[rank]) != all)
            verdict_complain(run, "rank %d ends with %#llx, not %#llx: %s", rank,
                             (unsigned long long)last_members(&board->ranks[rank]), (unsigned long long)all,
                             board->ranks[rank].message);
    }
}

/* Times. */

static int64_t limit_ns(const struct run *run, int index) {
    const int64_t ready_ms = index == CASE_GROW_STEP ? CASE_GROW_MS : 0;
    if (verdict_is_stopped(run))
        return (ready_ms + run->mode.timeout_ms) * MS * 12 / 10;
    return has_registered(run) || index != CASE_GROW_STEP ? VERDICT_NOTICED_NS : ready_ms * MS * 12 / 10;
}

static void check_step(struct run *run, int index, int64_t held_ns) {
    int64_t from_ns = board->struck_ns[BOARD_FAULTS - 1], end_ns = 0;
    for (int rank = 0; rank < run->team.ranks; rank++) {
        const struct rank_record *record = &board->ranks[rank];
        const struct step *step = &record->steps[index];
        const bool is_kept = rank >= members_of(run->trial->what) && joining_waits_for_victim(run);
        if (!verdict_is_survivor(run, rank) || !step->returned || is_kept)
            continue;
        held_ns += step->held_ns + (index == CASE_GROW_STEP ? record->registering_ns : 0);
        verdict_raise(&from_ns, step->begin_ns);
        verdict_raise(&end_ns, step->end_ns);
    }
    if (end_ns == 0)
        return;
    verdict_raise(&run->machine_ns, held_ns);
    if (!verdict_is_stopped(run) && limit_ns(run, index) == VERDICT_NOTICED_NS)
        verdict_raise(&run->recovered_ns, end_ns - from_ns);
    if (end_ns - from_ns > limit_ns(run, index) + held_ns)
        verdict_complain(run, "step %d took %.1f ms, of which the machine took %.1f", index,
                         (double)(end_ns - from_ns) / MS, (double)held_ns / MS);
}

void joining_find(struct run *run, int64_t held_ns) {
    check_results(run);
    const bool is_right = !run->complaint[0];
    for (int step = CASE_GROW_STEP; step < CASE_RECOVERY_STEP + 2 * CASE_ROUNDS; step++)
        check_step(run, step, held_ns);
    run->is_late = is_right && run->complaint[0];
}
