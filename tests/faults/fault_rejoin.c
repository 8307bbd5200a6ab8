/* The rules. V is the victim, A one that died before, if any; see fault_cases.h for rounds. Who goes on comes to a
 * communicator in which sums are right; the others' shrinks fail.
 *
 * One part. Those who go on are the members of their communicators, all of them and nobody else, in their old order.
 *
 * Obliged to go on are, where V died, all survivors, if one of them leads its node: it has a listener. There is one
 * moment in which that does not hold (internode/assembly/assembly.h): V leads its node, has its sockets, and has not
 * said to its node that the new communicator is there. Then that node's ranks may be left out; and anybody, if V is the
 * one that says so to all leaders. Where V is stopped: all, if V does not lead its node; else those of the other nodes,
 * if one of them leads its node, and they are more than the ranks of V's node were, or as many and have the lowest, but
 * for that moment.
 *
 * Errors. A shrink that fails is a TIMEOUT or PEER_DEAD; where no leader is left and V had not met the others yet,
 * PEER_DEAD that says so, or whom to ask. A sum fails while V was in its communicator: PEER_DEAD or, where V is
 * stopped, TIMEOUT.
 *
 * Times. Where V died, a shrink of who is obliged is over two seconds after the last one came to it, or the fault.
 *
 * V itself, if it was stopped, is continued when all others have ended: it comes to an end, alone or with an error, and
 * leaves nothing. */
#include "fault_verdict.h"

#include <string.h>

enum { MS = 1000000, SHRINK_MS = 2000 };

#define RANK(rank) (UINT64_C(1) << (rank))

/* Its last communicator's members; 0: none. */
static uint64_t members_of(const struct rank_record *record) {
    for (int round = 0; round < CASE_ROUNDS; round++) {
        const struct step *sum = recovery_shrink(record, round) + 1;
        if (sum->returned && sum->status == 0)
            return sum->members;
    }
    return 0;
}

static uint64_t ranks_of(const struct fault_case *what, int node) {
    uint64_t set = 0;
    for (int rank = 0; rank < what->ranks; rank++)
        set |= case_node(what, rank) == node ? RANK(rank) : 0;
    return set;
}

/* The ranks that led a node of the broken communicator. */
static uint64_t leaders(const struct fault_case *what) {
    uint64_t set = 0;
    for (int node = 0; node < what->nodes; node++)
        set |= RANK(case_leader(what, node));
    return set;
}

/* How often V came to that point since it shrinks. */
static uint64_t passages(const struct run *run, const char *point) {
    return board->ranks[run->victim].passages[board_point(point)];
}

/* Whether that is the lowest of a set. */
static bool is_lowest(int rank, uint64_t set) {
    return (set & (RANK(rank) - 1)) == 0;
}

/* Whether the fault came in the moment in which not all learn the same. */
static bool is_in_doubt(const struct run *run) {
    const uint64_t own = ranks_of(run->trial->what, case_node(run->trial->what, run->victim));
    return is_lowest(run->victim, own & (verdict_survivors(run) | RANK(run->victim))) &&
           passages(run, "assembly.linked") > passages(run, "create.completed");
}

static uint64_t obliged_by_stop(const struct run *run) {
    const struct fault_case *what = run->trial->what;
    const int victim = run->victim, node = case_node(what, victim);
    const uint64_t left = verdict_survivors(run), own = ranks_of(what, node), others = left & ~own;
    if (!is_lowest(victim, own & (left | RANK(victim))))
        return left & leaders(what) ? left : 0;
    if (!(others & leaders(what)) || (is_in_doubt(run) && is_lowest(victim, left | RANK(victim))))
        return 0;
    const int more = __builtin_popcountll(others) - __builtin_popcountll(own);
    return more > 0 || (more == 0 && (others & -others) < (own & -own)) ? others : 0;
}

static uint64_t obliged(const struct run *run) {
    const struct fault_case *what = run->trial->what;
    const int victim = run->victim;
    const uint64_t left = verdict_survivors(run), own = ranks_of(what, case_node(what, victim));
    if (verdict_is_stopped(run))
        return obliged_by_stop(run);
    if (!(left & leaders(what)))
        return 0;
    if (!is_in_doubt(run))
        return left;
    return is_lowest(victim, left | RANK(victim)) ? 0 : left & ~own;
}

/* Results. */

static void check_sums(struct run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    for (int round = 0; round < CASE_ROUNDS; round++) {
        const struct step *shrink = recovery_shrink(record, round), *sum = shrink + 1;
        if (!sum->returned || sum->status == 0)
            continue;
        if (sum->status != KOLO_ERR_PEER_DEAD && !(verdict_is_stopped(run) && sum->status == KOLO_ERR_TIMEOUT))
            verdict_complain(run, "rank %d: the sum after shrink %d: status %d: %s", rank, round + 1, sum->status,
                             record->message);
        else if (shrink->size <= __builtin_popcountll(verdict_survivors(run)))
            verdict_complain(run, "rank %d: shrink %d left %d ranks, and yet one was missing: %s", rank, round + 1,
                             shrink->size, record->message);
    }
}

/* One that does not go on. */
static void check_refusal(struct run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    const struct step *step = &record->steps[record->step];
    const bool is_lost = !verdict_is_stopped(run) && !(verdict_survivors(run) & leaders(run->trial->what)) &&
                         passages(run, "assembly.linked") == 0;
    const bool says_so =
        strstr(record->message, "no other node's") || strstr(record->message, "see that rank's message");
    if (is_lost && (step->status != KOLO_ERR_PEER_DEAD || !says_so))
        verdict_complain(run, "rank %d, where no leader is left: status %d: %s", rank, step->status, record->message);
    else if (step->status != KOLO_ERR_PEER_DEAD && step->status != KOLO_ERR_TIMEOUT)
        verdict_complain(run, "rank %d: shrink: status %d: %s", rank, step->status, record->message);
}

static void check_results(struct run *run) {
    const uint64_t must = obliged(run);
    uint64_t going_on = 0;
    for (int rank = 0; rank < run->team.ranks; rank++)
        if (verdict_is_survivor(run, rank) && recovery_is_done(&board->ranks[rank]))
            going_on |= RANK(rank);
    for (int rank = 0; rank < run->team.ranks; rank++) {
        const struct rank_record *record = &board->ranks[rank];
        if (!verdict_is_survivor(run, rank))
            continue;
        check_sums(run, rank);
        if (!(going_on & RANK(rank)))
            check_refusal(run, rank);
        else if (members_of(record) != going_on)
            verdict_complain(run, "rank %d goes on with %#llx, where %#llx do", rank,
                             (unsigned long long)members_of(record), (unsigned long long)going_on);
        if (must & ~going_on & RANK(rank))
            verdict_complain(run, "rank %d has no communicator: status %d: %s", rank,
                             record->steps[record->step].status, record->message);
    }
}

/* Times. */

static void check_times(struct run *run, int64_t held_ns) {
    const uint64_t must = obliged(run);
    for (int round = 0; round < CASE_ROUNDS; round++) {
        int64_t from_ns = board->struck_ns[BOARD_FAULTS - 1], end_ns = 0, round_held_ns = held_ns;
        for (int rank = 0; rank < run->team.ranks; rank++) {
            const struct step *step = recovery_shrink(&board->ranks[rank], round);
            if (!(must & RANK(rank)) || !step->returned)
                continue;
            verdict_raise(&from_ns, step->begin_ns);
            verdict_raise(&end_ns, step->end_ns);
            round_held_ns += step->held_ns;
        }
        if (end_ns == 0)
            continue;
        verdict_raise(&run->recovered_ns, end_ns - from_ns);
        if (end_ns - from_ns > SHRINK_MS * INT64_C(1000000) + round_held_ns)
            verdict_complain(run, "shrink %d took %.1f ms, of which the machine took %.1f", round + 1,
                             (double)(end_ns - from_ns) / MS, (double)round_held_ns / MS);
    }
}

void rejoin_find(struct run *run, int64_t held_ns) {
    check_results(run);
    const bool is_right = !run->complaint[0];
    if (!verdict_is_stopped(run))
        check_times(run, held_ns);
    run->is_late = is_right && run->complaint[0];
}

void rejoin_find_late(struct run *run) {
    const int status = recovery_shrink(&board->ranks[run->victim], 0)->status;
    recovery_check_continued(run, status == 0 || status == KOLO_ERR_TIMEOUT || status == KOLO_ERR_PEER_DEAD);
}
