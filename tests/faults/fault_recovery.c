/* The rules. V is the victim, and there may have been another one; see fault_cases.h for rounds.
 *
 * Result. Each survivor comes to a communicator that has the survivors and nobody else, with the ranks in their old
 * order and right sums; all of them in the same round. Before that there may be others, in which the dead are still:
 * in each such round at least one of them is found by the sum, PEER_DEAD or, where V is stopped, TIMEOUT. The shrink
 * fails only where V lacks something, with SYSTEM on all, once.
 *
 * Times. A shrink or a sum is over 100 ms after the last survivor came to it, or the last of the faults and pauses of
 * the run if that is later. Where V is stopped one shrink waits for it, to the deadline, and before that a sum may have
 * done so, in a communicator for which V was ready: not for less, and no more than 1.2 times that. (Who hears of
 * another's deadline may have waited for less.) A shrink that makes lanes may wait twice: for V in the new
 * communicator, and then for V to leave that out, too.
 *
 * V itself, if it was stopped, is continued when all others have ended. Its shrink tells it that they went on without
 * it, or gives it the communicator for which it was ready when it was stopped; either way it comes to an end, and
 * leaves nothing. */
#include "fault_verdict.h"

enum { MS = 1000000 };

const struct step *recovery_shrink(const struct rank_record *record, int round) {
    return &record->steps[CASE_RECOVERY_STEP + 2 * round];
}

static const struct step *sum_of(const struct rank_record *record, int round) {
    return recovery_shrink(record, round) + 1;
}

/* The round in which it came to its last communicator; CASE_ROUNDS if it did not. */
static int last_round(const struct rank_record *record) {
    int round = 0;
    while (round < CASE_ROUNDS && !(sum_of(record, round)->returned && sum_of(record, round)->status == 0))
        round++;
    return round;
}

bool recovery_is_done(const struct rank_record *record) {
    return last_round(record) < CASE_ROUNDS;
}

/* Results. */

static bool may_lack(const struct run *run, int round) {
    return run->trial->what->twist == TWIST_LACKS && round == 0 && board_passed(run->victim, "shrink.failing");
}

/* A round after which a rank had to go on. */
static void check_round(struct run *run, int rank, int round) {
    const struct step *shrink = recovery_shrink(&board->ranks[rank], round), *sum = sum_of(&board->ranks[rank], round);
    const bool may_time_out = verdict_is_stopped(run);
    if (shrink->status == KOLO_ERR_SYSTEM && may_lack(run, round))
        return;
    if (!sum->returned)
        verdict_complain(run, "rank %d: shrink %d: status %d: %s", rank, round + 1, shrink->status,
                         board->ranks[rank].message);
    else if (sum->status != KOLO_ERR_PEER_DEAD && !(may_time_out && sum->status == KOLO_ERR_TIMEOUT))
        verdict_complain(run, "rank %d: the sum after shrink %d: status %d: %s", rank, round + 1, sum->status,
                         board->ranks[rank].message);
    else if (shrink->size <= __builtin_popcountll(verdict_survivors(run)))
        verdict_complain(run, "rank %d: shrink %d left %d ranks, and yet one was missing: %s", rank, round + 1,
                         shrink->size, board->ranks[rank].message);
}

static void check_rank(struct run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    const int last = last_round(record);
    for (int round = 0; round < last && recovery_shrink(record, round)->returned; round++)
        check_round(run, rank, round);
    if (last == CASE_ROUNDS)
        verdict_complain(run, "rank %d has no communicator", rank);
    else if (sum_of(record, last)->members != verdict_survivors(run))
        verdict_complain(run, "rank %d: the ranks that are left are %#llx, not %#llx", rank,
                         (unsigned long long)sum_of(record, last)->members, (unsigned long long)verdict_survivors(run));
}

/* Times. */

/* From when on nothing but a deadline may hold up that step. */
static int64_t reference_ns(const struct run *run, int index) {
    int64_t ns = 0, end_ns = 0;
    for (int rank = 0; rank < run->team.ranks; rank++)
        if (verdict_is_survivor(run, rank)) {
            verdict_raise(&ns, board->ranks[rank].steps[index].begin_ns);
            verdict_raise(&end_ns, board->ranks[rank].steps[index].end_ns);
        }
    for (int fault = 0; fault < BOARD_FAULTS; fault++)
        if (board->struck[fault] && board->struck_ns[fault] < end_ns)
            verdict_raise(&ns, board->struck_ns[fault]);
    return ns;
}

/* Whether the survivors waited for the deadline in that step. */
static bool check_step(struct run *run, int index, int64_t held_ns) {
    const int64_t from_ns = reference_ns(run, index), deadline_ns = run->mode.timeout_ms * MS;
    int64_t longest_ns = 0, late_ns = 0;
    for (int rank = 0; rank < run->team.ranks; rank++) {
        const struct step *step = &board->ranks[rank].steps[index];
        if (!verdict_is_survivor(run, rank) || !step->returned)
            continue;
        held_ns += step->held_ns;
        verdict_raise(&longest_ns, step->end_ns - step->begin_ns);
        verdict_raise(&late_ns, step->end_ns - from_ns);
    }
    const bool waited = verdict_is_stopped(run) && longest_ns >= deadline_ns;
    const bool waited_twice = waited && run->trial->what->lanes && longest_ns >= 2 * deadline_ns;
    const int64_t wait_ns = waited_twice ? 2 * deadline_ns : deadline_ns;
    verdict_raise(&run->machine_ns, held_ns);
    if (waited)
        verdict_raise(&run->past_ns, longest_ns - wait_ns);
    else
        verdict_raise(&run->recovered_ns, late_ns);
    if (late_ns > (waited ? wait_ns * 12 / 10 : VERDICT_NOTICED_NS) + held_ns)
        verdict_complain(run, "%s %d took %.1f ms, of which the machine took %.1f", index % 2 ? "sum" : "shrink",
                         (index - CASE_RECOVERY_STEP) / 2 + 1, (double)late_ns / MS, (double)held_ns / MS);
    return waited;
}

static void check_times(struct run *run, int64_t held_ns) {
    int shrinks = 0, sums = 0;
    for (int round = 0; round < CASE_ROUNDS; round++) {
        shrinks += check_step(run, CASE_RECOVERY_STEP + 2 * round, held_ns);
        sums += check_step(run, CASE_RECOVERY_STEP + 2 * round + 1, held_ns);
    }
    if (verdict_is_stopped(run) && (shrinks != 1 || sums > 1))
        verdict_complain(run, "%d shrinks and %d sums waited for the deadline", shrinks, sums);
}

void recovery_find(struct run *run, int64_t held_ns) {
    int round = -1;
    for (int rank = 0; rank < run->team.ranks; rank++) {
        if (!verdict_is_survivor(run, rank))
            continue;
        check_rank(run, rank);
        if (round >= 0 && last_round(&board->ranks[rank]) != round)
            verdict_complain(run, "rank %d was left with the others after %d rounds, another one after %d", rank,
                             last_round(&board->ranks[rank]) + 1, round + 1);
        round = last_round(&board->ranks[rank]);
    }
    const bool is_right = !run->complaint[0];
    check_times(run, held_ns);
    run->is_late = is_right && run->complaint[0];
}

void recovery_check_continued(struct run *run, bool is_right) {
    const struct rank_record *record = &board->ranks[run->victim];
    if (verdict_check_end(run, run->victim) && !is_right)
        verdict_complain(run, "rank %d, continued: status %d: %s", run->victim, recovery_shrink(record, 0)->status,
                         record->message);
}

void recovery_find_late(struct run *run) {
    const int status = recovery_shrink(&board->ranks[run->victim], 0)->status;
    recovery_check_continued(run, status == 0 || status == KOLO_ERR_TIMEOUT || may_lack(run, 0));
}
