/* The rules, but for shrinks, which are in fault_recovery.c, joiners, in fault_joining.c, and several nodes, in
 * fault_nodes.c and fault_rejoin.c. V is the victim; a step is a call of the script, then barriers, until one fails.
 *
 * Creation. It ends in the same way on all survivors. Who has not registered is unknown to the others, which time out;
 * who has is missed within 100 ms by those that have registered too. Rank 0 is known to those from when it has made the
 * job's file; and, by name, to those that had looked for it before. (The others find no job to register with, and time
 * out.) Either way the message names V. Creation may succeed for the survivors once V has said that it is attached, and
 * must once the creation is complete; then the first call fails. With lanes, which are made then, it may once V has
 * made all stores by which the ranks agree that they have them, and must once it has come to the end of that. Where
 * rank 0 gives up before the others come, it fails whoever dies, for want of time or by V's death; and if rank 0 lives,
 * the others learn of it as soon as they come.
 *
 * Calls. V dies in step t. If it had not made all stores of that step that others wait for, some survivor's first error
 * is in step t, and every survivor's in t or in the next step that waits. If it had made them all, step t may succeed,
 * and the next one that waits fails. Steps before t succeed where two ranks are left to themselves; with more, one that
 * is still in the step before t may find there what another has published. A broadcast waits for its root alone: who
 * receives may lag behind the root, and the root runs ahead of who receives, to the first step that joins all ranks. So
 * may ranks that exchange messages, not all of which a rank waits for. With a progress thread, V may have made the
 * stores of later steps, too: those may succeed, up to the first step behind the script. In a tree with a partial
 * block, nobody waits for some of the stores of the ranks in it; nor, with lanes, for those by which a rank's threads
 * hand each other work: then step t may succeed or fail. So may it where the others read out of V's memory: that is
 * gone when they come.
 *
 * Status and rank. Killed or exited: PEER_DEAD, V. Stopped: TIMEOUT, V; but PEER_DEAD once V has left the communicator.
 * A rank that calls abort: ABORTED if it had published that. If another rank died before V: PEER_DEAD, either of them;
 * that other one if V was stopped or had published it. The same failure on all ranks. Called by lanes, the first error
 * of a rank may be STATE, with that failure in words; and lane 0 may find it only in the next call.
 *
 * Afterwards: the next call returns STATE, destroy works, and descriptors, mappings, memory blocks and names are as
 * before; results of calls that succeeded are right. */
#include "fault_verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "fault_nodes.h"

enum { MS = 1000000 };

static void complain(struct run *run, const char *format, va_list list) {
    const size_t used = strlen(run->complaint);
    run->is_late = false;
    if (used + 2 < sizeof run->complaint) {
        snprintf(run->complaint + used, sizeof run->complaint - used, "%s", used ? "; " : "");
        const size_t begun = strlen(run->complaint);
        vsnprintf(run->complaint + begun, sizeof run->complaint - begun, format, list);
    }
}

void verdict_complain(struct run *run, const char *format, ...) {
    va_list list;
    va_start(list, format);
    complain(run, format, list);
    va_end(list);
}

void verdict_condemn(struct run *run, const char *format, ...) {
    va_list list;
    va_start(list, format);
    complain(run, format, list);
    va_end(list);
    run->is_condemned = true;
}

void verdict_raise(int64_t *ns, int64_t other_ns) {
    if (*ns < other_ns)
        *ns = other_ns;
}

bool verdict_is_survivor(const struct run *run, int rank) {
    return rank != run->victim && rank != run->first_victim;
}

uint64_t verdict_survivors(const struct run *run) {
    uint64_t set = 0;
    for (int rank = 0; rank < run->team.ranks; rank++)
        if (verdict_is_survivor(run, rank))
            set |= UINT64_C(1) << rank;
    return set;
}

bool verdict_is_stopped(const struct run *run) {
    return run->trial->fault.action == ACTION_STOP;
}

int verdict_failed_step(const struct rank_record *record) {
    int step = 0;
    while (step < BOARD_STEPS_MAX - 1 && record->steps[step].returned && record->steps[step].status == 0)
        step++;
    return step;
}

/* A rank whose call has failed has its buffers back, but where the victim was stopped within a piece that it writes
 * into others' parameters. */
static void check_data(struct run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    const char *last = board_point_name(board->faults[BOARD_FAULTS - 1].point);
    const bool in_piece = board->has_late && (!strcmp(last, "apply.folded_piece") || !strcmp(last, "apply.handed_out"));
    for (int step = 0; step < BOARD_STEPS_MAX; step++)
        if (record->steps[step].is_wrong)
            verdict_condemn(run, "rank %d has a wrong result in step %d", rank, step);
    if (record->is_touched && !in_piece)
        verdict_condemn(run, "rank %d had its buffers written to after its call had failed", rank);
}

/* What happens in the process whatever the error is. */
bool verdict_check_end(struct run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    const struct leftovers *before = &record->before, *after = &record->after;
    if (!record->finished && run->team.ended[rank]) {
        verdict_condemn(run, "rank %d crashed, last at %s in step %d", rank, board_point_name(record->last_point),
                        record->step);
        return false;
    }
    if (!record->finished) {
        verdict_complain(run, "rank %d hangs, last at %s in step %d", rank, board_point_name(record->last_point),
                         record->step);
        return false;
    }
    if (after->descriptors != before->descriptors)
        verdict_condemn(run, "rank %d has %d descriptors, %d before", rank, after->descriptors, before->descriptors);
    if (after->mappings != before->mappings)
        verdict_condemn(run, "rank %d has %d shared mappings, %d before", rank, after->mappings, before->mappings);
    if (after->blocks != before->blocks)
        verdict_condemn(run, "rank %d has %lld memory blocks, %lld before", rank, (long long)after->blocks,
                        (long long)before->blocks);
    check_data(run, rank);
    return true;
}

/* Calls. */

static int next_waiting(const struct fault_case *what, int step) {
    while (!case_waits(what, step))
        step++;
    return step;
}

static int waiting_before(const struct fault_case *what, int step) {
    do
        step--;
    while (step > 1 && !case_waits(what, step));
    return step < 1 ? 1 : step;
}

/* Whether V had made all stores of its last step that others wait for. */
static bool has_contributed(const struct run *run) {
    const struct fault_case *what = run->trial->what;
    const struct rank_record *record = &board->ranks[run->victim];
    if (record->step > case_calls(what) || (what->twist == TWIST_ABORTS && record->step == CASE_TWIST_STEP))
        return false; /* it does not make the call that the others make */
    return record->steps[record->step].contributions >= run->trial->listing->contributions[run->victim][record->step];
}

/* In which steps a survivor's first error may be, by the rules at the top. */
static void bound_step(const struct run *run, int rank, int *first, int *last) {
    const struct fault_case *what = run->trial->what;
    const int died = board->ranks[run->victim].step;
    const bool is_alone = what->ranks == 2;
    *last = has_contributed(run) ? next_waiting(what, died + 1) : next_waiting(what, died);
    *first = !is_alone ? waiting_before(what, died) : what->single_copy ? next_waiting(what, died) : *last;
    if (what->ranks > 2)
        *last = next_waiting(what, died + 1);
    if (what->script == SCRIPT_CHANNELS) {
        *first = is_alone ? waiting_before(what, died) : 1;
        *last = case_calls(what) + 1;
        return;
    }
    if (case_runs_ahead(what)) {
        *first = is_alone ? died : waiting_before(what, died);
        *last = case_calls(what) + 1;
    }
    if (what->lanes) {
        *first = is_alone ? died : waiting_before(what, died);
        *last = next_waiting(what, died + 1);
    }
    if (!case_is_one_way(what))
        return;
    if (!is_alone)
        *first = 1; /* who waits for nobody may have died far ahead of others */
    if (died <= case_calls(what) && !case_waits_for(what, rank, run->victim)) {
        *first = is_alone ? died : 1;
        *last = case_calls(what) + 1;
    }
}

static void check_steps(struct run *run) {
    const struct fault_case *what = run->trial->what;
    const int died = board->ranks[run->victim].step;
    bool is_missed = false;
    for (int rank = 0; rank < what->ranks; rank++) {
        int first, last;
        if (!verdict_is_survivor(run, rank))
            continue;
        const int failed = verdict_failed_step(&board->ranks[rank]);
        bound_step(run, rank, &first, &last);
        if (failed < first || failed > last)
            verdict_complain(run, "rank %d failed in step %d, not in %d to %d", rank, failed, first, last);
        is_missed |= failed <= next_waiting(what, died);
    }
    const bool is_partial = what->lanes || (what->algorithm == KOLO_ALGORITHM_TREE && what->ranks % 2);
    if (!is_missed && !has_contributed(run) && case_joins(what, died) && !is_partial && !case_runs_ahead(what))
        verdict_complain(run, "step %d succeeded for all, but rank %d had not contributed", died, run->victim);
}

/* Status and rank. */

static int wanted_status(const struct run *run) {
    const bool has_published = board_passed(run->victim, "failure.published");
    if (run->first_victim >= 0)
        return KOLO_ERR_PEER_DEAD;
    if (run->trial->what->twist == TWIST_ABORTS && has_published)
        return KOLO_ERR_ABORTED;
    return verdict_is_stopped(run) && !board_passed(run->victim, "destroy.departed") ? KOLO_ERR_TIMEOUT
                                                                                     : KOLO_ERR_PEER_DEAD;
}

static bool may_be_named(const struct run *run, int rank) {
    const bool is_victim_dead = !verdict_is_stopped(run) && !board_passed(run->victim, "failure.published");
    if (run->first_victim < 0)
        return rank == run->victim;
    return rank == run->first_victim || (rank == run->victim && is_victim_dead);
}

static void check_failure(struct run *run, int rank, int *named) {
    const struct rank_record *record = &board->ranks[rank];
    const int wanted = wanted_status(run), status = record->steps[verdict_failed_step(record)].status;
    const bool by_lane = run->trial->what->script == SCRIPT_LANES;
    char name[32];
    if (status != wanted && !(by_lane && status == KOLO_ERR_STATE)) {
        verdict_complain(run, "rank %d got %d (%s), not %d (%s): %s", rank, status, kolo_strerror(status), wanted,
                         kolo_strerror(wanted), record->message);
        return;
    }
    if (record->failure.status != wanted || !may_be_named(run, record->failure.rank))
        verdict_complain(run, "rank %d: kolo_comm_failure tells of %d (%s) of rank %d: %s", rank,
                         record->failure.status, kolo_strerror(record->failure.status), record->failure.rank,
                         record->failure.message);
    if (*named >= 0 && record->failure.rank != *named)
        verdict_condemn(run, "rank %d blames rank %d, another one rank %d", rank, record->failure.rank, *named);
    *named = record->failure.rank;
    snprintf(name, sizeof name, ": rank %d ", record->failure.rank);
    if (!strstr(record->message, name))
        verdict_complain(run, "rank %d: the message does not name rank %d: %s", rank, *named, record->message);
    if (record->status_after != KOLO_ERR_STATE && !(by_lane && record->status_after == wanted))
        verdict_complain(run, "rank %d: the call after the error returned %d", rank, record->status_after);
}

/* Times. */

/* How much of a call was the machine's: waiting for a processor; and, in a creation, for the kernel to register the
 * process with membarrier, which takes a grace period of its RCU: ever so long where others keep the processors. */
static int64_t machine_ns(const struct rank_record *record, int step) {
    return record->steps[step].held_ns + (step == CASE_CREATE_STEP ? record->registering_ns : 0);
}

int64_t verdict_ignorance_ns(const struct rank_record *record, int64_t struck_ns, int64_t *held_ns) {
    const int failed = verdict_failed_step(record);
    int64_t begin_ns = record->steps[failed].begin_ns;
    *held_ns = 0;
    for (int step = 0; step <= failed; step++) {
        if (record->steps[step].end_ns < struck_ns)
            continue;
        *held_ns += machine_ns(record, step);
        if (record->steps[step].begin_ns < begin_ns)
            begin_ns = record->steps[step].begin_ns;
    }
    return record->steps[failed].end_ns - (begin_ns > struck_ns ? begin_ns : struck_ns);
}

static bool timed_out(const struct rank_record *record) {
    return record->steps[verdict_failed_step(record)].status == KOLO_ERR_TIMEOUT;
}

/* How long the victims had to wait for a processor from the fault until they were dead. */
static int64_t dying_held_ns(const struct run *run) {
    int64_t sum_ns = 0;
    for (int i = 0; i < BOARD_FAULTS; i++) {
        const int rank = board->faults[i].rank;
        if (!board->struck[i] || board->faults[i].action == ACTION_PAUSE || !run->team.ended[rank])
            continue;
        const int64_t held_ns = run->team.waited_ns[rank] - board->held_ns[i];
        sum_ns += held_ns > 0 ? held_ns : 0;
    }
    return sum_ns;
}

/* Those that did not wait for the deadline. */
static void check_noticed(struct run *run, int64_t held_ns) {
    const int index = run->first_victim >= 0 && verdict_is_stopped(run) ? 0 : BOARD_FAULTS - 1;
    for (int rank = 0; rank < run->team.ranks; rank++) {
        int64_t own_held_ns;
        if (!verdict_is_survivor(run, rank) || timed_out(&board->ranks[rank]))
            continue;
        const int64_t ns = verdict_ignorance_ns(&board->ranks[rank], board->struck_ns[index], &own_held_ns);
        held_ns += own_held_ns;
        verdict_raise(&run->noticed_ns, ns);
    }
    run->machine_ns = held_ns;
    if (run->noticed_ns > VERDICT_NOTICED_NS + held_ns)
        verdict_complain(run, "noticed after %.1f ms, of which the machine took %.1f", (double)run->noticed_ns / MS,
                         (double)held_ns / MS);
}

/* Those that did. The deadline counts for each wait: what a survivor did before it came to wait for V is not part of
 * it, nor is the time in which V was on its way to the fault; and who finds a timeout published may have waited for a
 * shorter time. */
static void check_deadline(struct run *run, int64_t held_ns) {
    int64_t call_ns = 0, past_ns = 0, deadline_ns = 0;
    for (int rank = 0; rank < run->team.ranks; rank++) {
        const struct rank_record *record = &board->ranks[rank];
        if (rank == run->victim || !timed_out(record)) /* an actor that should have died may not have come to that */
            continue;
        const struct step *step = &record->steps[verdict_failed_step(record)];
        int64_t from_ns = board->struck_ns[BOARD_FAULTS - 1];
        verdict_raise(&from_ns, step->begin_ns);
        deadline_ns = (step == record->steps ? run->mode.create_timeout_ms : run->mode.timeout_ms) * MS;
        held_ns += machine_ns(record, verdict_failed_step(record));
        verdict_raise(&call_ns, step->end_ns - step->begin_ns);
        verdict_raise(&past_ns, step->end_ns - from_ns - deadline_ns);
    }
    if (deadline_ns == 0)
        return;
    if (call_ns < deadline_ns)
        verdict_condemn(run, "gave up %.1f ms before the deadline", (double)(deadline_ns - call_ns) / MS);
    if (past_ns > deadline_ns * 2 / 10 + held_ns)
        verdict_complain(run, "gave up %.1f ms past the deadline of %.0f ms, of which the machine took %.1f",
                         (double)past_ns / MS, (double)deadline_ns / MS, (double)held_ns / MS);
    run->past_ns = past_ns;
}

static void check_calls(struct run *run) {
    int named = -1;
    if (run->first_victim < 0)
        check_steps(run);
    for (int rank = 0; rank < run->team.ranks; rank++)
        if (verdict_is_survivor(run, rank))
            check_failure(run, rank, &named);
}

/* Creation. */

static bool is_created(int rank) {
    return board->ranks[rank].steps[CASE_CREATE_STEP].status == 0;
}

/* Whether the survivor can know of a victim that it is dead, not late. */
static bool can_know(const struct run *run, int rank, int victim) {
    const bool by_descriptor = run->trial->what->by_descriptor;
    const bool has_made_file = victim == 0 && board_passed(0, by_descriptor ? "job.signed" : "job.linked");
    if (board_passed(rank, "job.registered"))
        return has_made_file || board_passed(victim, "job.registered");
    return has_made_file && !by_descriptor && board_passed(rank, "job.nameless");
}

static int wanted_creation_status(const struct run *run, int rank, int victim) {
    const bool is_known = can_know(run, rank, victim);
    return is_known && !(victim == run->victim && verdict_is_stopped(run)) ? KOLO_ERR_PEER_DEAD : KOLO_ERR_TIMEOUT;
}

static bool message_names(const char *message, int victim) {
    char name[32];
    snprintf(name, sizeof name, ": rank %d ", victim);
    return strstr(message, name) != NULL;
}

/* A survivor whose creation failed. */
static void check_not_created(struct run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    const int status = record->steps[CASE_CREATE_STEP].status;
    const int victims[] = {run->victim, run->first_victim};
    for (size_t i = 0; i < 2; i++)
        if (victims[i] >= 0 && status == wanted_creation_status(run, rank, victims[i]) &&
            message_names(record->message, victims[i]))
            return;
    verdict_complain(run, "rank %d: creation returned %d (%s), not %d (%s) of rank %d: %s", rank, status,
                     kolo_strerror(status), wanted_creation_status(run, rank, run->victim),
                     kolo_strerror(wanted_creation_status(run, rank, run->victim)), run->victim, record->message);
}

static void check_creation(struct run *run) {
    const int victim = run->victim;
    const bool has_lanes = run->trial->what->lanes > 0;
    const bool must = has_lanes ? board_passed(victim, "split.ending")
                                : board_passed(victim, "create.completed") || board_passed(victim, "create.complete");
    const bool may = must || (has_lanes ? has_contributed(run)
                                        : board_passed(victim, victim == 0 ? "create.completing" : "create.settled"));
    int named = -1, survivors = 0, created = 0;
    for (int rank = 0; rank < run->team.ranks; rank++) {
        if (!verdict_is_survivor(run, rank))
            continue;
        survivors++;
        created += is_created(rank);
        if (is_created(rank) && !may)
            verdict_complain(run, "rank %d created it without rank %d", rank, victim);
        else if (is_created(rank) && verdict_failed_step(&board->ranks[rank]) > 1)
            verdict_complain(run, "rank %d made its first call without rank %d", rank, victim);
        else if (is_created(rank))
            check_failure(run, rank, &named);
        else if (must)
            verdict_complain(run, "rank %d: creation failed after all had come: %s", rank, board->ranks[rank].message);
        else
            check_not_created(run, rank);
    }
    if (created && created < survivors)
        verdict_complain(run, "%d of %d survivors created it", created, survivors);
}

static void check_given_up(struct run *run) {
    for (int rank = 0; rank < run->team.ranks; rank++) {
        const struct rank_record *record = &board->ranks[rank];
        const struct step *step = &record->steps[CASE_CREATE_STEP];
        if (!verdict_is_survivor(run, rank))
            continue;
        const bool is_late = step->status == KOLO_ERR_TIMEOUT && (rank == 0 || strstr(record->message, "rank 0"));
        if (!is_late && (step->status != KOLO_ERR_PEER_DEAD || !message_names(record->message, run->victim)))
            verdict_complain(run, "rank %d: creation returned %d (%s): %s", rank, step->status,
                             kolo_strerror(step->status), record->message);
        const int64_t ns = step->end_ns - step->begin_ns, held_ns = machine_ns(record, CASE_CREATE_STEP);
        if (run->victim != 0 && rank != 0 && ns > VERDICT_NOTICED_NS + held_ns)
            verdict_complain(run, "rank %d learnt of it after %.1f ms", rank, (double)ns / MS);
    }
}

/* All are told of the other version, unless the victim keeps its rank from saying so, or was found first. */
static void check_foreign(struct run *run) {
    for (int rank = 0; rank < run->team.ranks; rank++) {
        const struct rank_record *record = &board->ranks[rank];
        const int status = record->steps[CASE_CREATE_STEP].status;
        const bool is_told = status == KOLO_ERR_VERSION && strstr(record->message, "use one version on all ranks");
        const bool is_other = (status == KOLO_ERR_PEER_DEAD || status == KOLO_ERR_TIMEOUT) &&
                              !board_passed(run->victim, "job.estranged") && strstr(record->message, "rank ");
        if (verdict_is_survivor(run, rank) && !is_told && !(is_other && message_names(record->message, run->victim)))
            verdict_complain(run, "rank %d: creation returned %d (%s): %s", rank, status, kolo_strerror(status),
                             record->message);
    }
}

bool verdict_name_may_stay(const struct run *run) {
    const bool is_stale = run->trial->what->twist == TWIST_REPLACES;
    const int victims[] = {run->victim, run->first_victim};
    for (size_t i = 0; i < 2; i++)
        if (victims[i] == 0 && run->trial->what->phase == PHASE_CREATE && !run->mode.what->by_descriptor &&
            (is_stale || board_passed(0, "job.linking")) && !board_passed(0, "job.unlinked"))
            return true;
    return false;
}

void verdict_find(struct run *run) {
    bool all_ended = true;
    for (int rank = 0; rank < run->team.ranks; rank++)
        if (verdict_is_survivor(run, rank))
            all_ended &= verdict_check_end(run, rank);
    if (!all_ended)
        return;
    if (board->has_late)
        check_data(run, run->victim);
    if (run->trial->what->twist == TWIST_GIVES_UP) {
        check_given_up(run);
        return;
    }
    if (run->trial->what->twist == TWIST_FOREIGN) {
        check_foreign(run);
        return;
    }
    const int64_t held_ns = run->team.held_ns + dying_held_ns(run);
    if (run->trial->what->nodes && run->trial->what->phase == PHASE_SHRINK) {
        rejoin_find(run, held_ns);
        return;
    }
    if (run->trial->what->nodes) {
        nodes_find(run, held_ns);
        return;
    }
    if (run->trial->what->phase == PHASE_SHRINK) {
        recovery_find(run, held_ns);
        return;
    }
    if (run->trial->what->phase == PHASE_GROW) {
        joining_find(run, held_ns);
        return;
    }
    if (run->trial->what->phase == PHASE_CREATE)
        check_creation(run);
    else
        check_calls(run);
    const bool is_right = !run->complaint[0];
    check_noticed(run, held_ns);
    check_deadline(run, held_ns);
    run->is_late = is_right && run->complaint[0];
}
