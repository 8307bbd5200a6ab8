/* The rules. V is the victim; there may have been another one, the first, see enum twist.
 *
 * Creation. Each survivor's ends with an error that names a victim, or in a communicator whose first call does. All
 * survivors of a node fare alike. None has one unless V had said that it is ready; all have if V had learnt that all
 * are. The error is PEER_DEAD; or TIMEOUT where V is stopped, or where V or the survivor had not been let in by rank 0.
 * Where rank 0 is stopped as it tells ranks where they belong, who knows may name who does not. With lanes, which are
 * made then, none has a communicator unless V had made its own; and all may, or not.
 *
 * Calls. If V dies in step t, every survivor's first error is in step t, the one before or the next one. (A root of
 * broadcasts runs ahead of who receives, and they lag behind it, as with messages: there it may be in any.) Killed or
 * exited: PEER_DEAD. Stopped: TIMEOUT, which with messages names whoever was waited for, as only V's node sees that V
 * is stopped; or PEER_DEAD, once V has left the communicator. A rank that calls abort: ABORTED where it got as far as
 * to publish that; a node that has not heard of it finds V's death. Where another rank died first: PEER_DEAD, either of
 * them. The same on all ranks of a node; messages name the rank, or the node that it leads.
 *
 * Times. A death is known everywhere after a second; a rank that is stopped, at the deadline; a leader that is, when it
 * has been silent for NODES_SILENCE_MS, or at the deadline, plus what a wait for other nodes is given beyond that. In a
 * creation, which rank 0 is asked about when its time is over, when an answer is overdue.
 *
 * Afterwards as in fault_verdict.c. */
#include "fault_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault_verdict.h"
#include "free_port.h"
#include "net/engine.h"

enum {
    MS = 1000000,
    PATIENT_SILENCE_MS = 10000,
    BEATING_SILENCE_MS = 1000,               /* a heartbeat goes four times as often */
    SILENCE_MS_LEAST = NODES_SILENCE_MS / 2, /* a heartbeat may have been due just before, and one just after */
    GRACE_MS = 250,                          /* see comm/failure/failure.c */
    ANSWER_MS = 1250 /* what rank 0 is given to say who is missing, see internode/assembly/assembly_peers.c */
};

/* Preparing. */

/* A creation in a call has half of the deadline, and ANSWER_MS more; whoever waits for it learns of that in time. */
int64_t nodes_deadline_ms(const struct fault_case *what) {
    return what->script == SCRIPT_SPLIT ? 4 * ANSWER_MS : 800;
}

static int next_port(void) {
    const int port = free_port((uint64_t)getpid());
    if (port >= 0)
        return port;
    fprintf(stderr, "fault_sweep: no port is free\n");
    exit(1);
}

static void set_number(const char *name, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

void nodes_prepare(struct run_mode *mode, bool patient, const char *quorum) {
    const struct fault_case *what = mode->what;
    char links[64];
    for (int node = 0; node < what->nodes; node++)
        mode->node_fds[node] = memfd_create("fault-node", MFD_CLOEXEC);
    if (!what->nodes)
        return;
    snprintf(mode->rendezvous, sizeof mode->rendezvous, "127.0.0.1:%d", next_port());
    setenv("KOLO_SECRET", "none", 1);
    snprintf(links, sizeof links, "%s,threads:%d,streams:%d,quorum:%s", nodes_have_uring() ? what->engine : "poll",
             what->threads ? what->threads : 1, what->threads ? 1 : 2, quorum);
    setenv("KOLO_NET", links, 1);
    setenv("KOLO_NET_ALGO", what->exchange ? what->exchange : "auto", 1);
    setenv("KOLO_NET_ORDER", what->rank_order ? "rank" : "node", 1);
    set_number("KOLO_NET_SILENCE_MS", !patient      ? NODES_SILENCE_MS
                                      : what->beats ? BEATING_SILENCE_MS
                                                    : PATIENT_SILENCE_MS);
}

void nodes_finish(const struct run_mode *mode) {
    for (int node = 0; node < mode->what->nodes; node++)
        close(mode->node_fds[node]);
}

bool nodes_have_uring(void) {
    return kolo_engine_probe_uring() == 0;
}

/* Names. */

/* Whether a list like "1, 3-5" has the rank. */
static bool list_has(const char *list, int rank) {
    char *end;
    do {
        const long first = strtol(list, &end, 10);
        if (end == list)
            return false;
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (rank >= first && rank <= last)
            return true;
        list = end + 2;
    } while (strncmp(end, ", ", 2) == 0);
    return false;
}

static bool message_names(const struct fault_case *what, const char *message, int rank) {
    char node[32];
    snprintf(node, sizeof node, ": node %d (rank", case_node(what, rank));
    if (rank == case_leader(what, case_node(what, rank)) && strstr(message, node))
        return true;
    for (const char *at = message; (at = strstr(at, ": rank ")) != NULL;) {
        at += strlen(": rank ");
        if (list_has(at, rank))
            return true;
    }
    return false;
}

static bool is_stopped(const struct run *run, int victim) {
    return victim == run->victim && verdict_is_stopped(run);
}

/* Creation. */

static bool is_created(int rank) {
    return board->ranks[rank].steps[CASE_CREATE_STEP].status == 0;
}

static bool was_let_in(int rank) {
    return rank == 0 || board_passed(rank, "connect.admitted");
}

static bool may_time_out(const struct run *run, int rank, int victim) {
    return is_stopped(run, victim) || !was_let_in(victim) || (victim == 0 && !was_let_in(rank));
}

static bool names_lost(const struct run *run, const char *message) {
    for (int rank = 1; is_stopped(run, 0) && rank < run->trial->what->ranks; rank++)
        if (!board_passed(rank, "assembly.placed") && message_names(run->trial->what, message, rank))
            return true;
    return false;
}

static void check_not_created(struct run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    const int status = record->steps[CASE_CREATE_STEP].status, victims[] = {run->victim, run->first_victim};
    if (status == KOLO_ERR_TIMEOUT && names_lost(run, record->message))
        return;
    for (size_t i = 0; i < 2; i++)
        if (victims[i] >= 0 && message_names(run->trial->what, record->message, victims[i]) &&
            (status == KOLO_ERR_PEER_DEAD || (status == KOLO_ERR_TIMEOUT && may_time_out(run, rank, victims[i]))))
            return;
    verdict_complain(run, "rank %d: creation returned %d (%s), for rank %d: %s", rank, status, kolo_strerror(status),
                     run->victim, record->message);
}

static void check_creation(struct run *run) {
    const struct fault_case *what = run->trial->what;
    const int victim = run->victim;
    const bool leads = victim == case_leader(what, case_node(what, victim));
    const bool has_lanes = what->lanes > 0; /* which are made when this creation is over */
    const bool must =
        !has_lanes && (board_passed(victim, "create.completed") || board_passed(victim, "create.complete"));
    const bool may = must || board_passed(victim, has_lanes ? "split.made"
                                                  : leads   ? "assembly.linked"
                                                            : "create.settled");
    int created[CASE_NODES_MAX] = {0}, survivors[CASE_NODES_MAX] = {0};
    for (int rank = 0; rank < what->ranks; rank++) {
        if (!verdict_is_survivor(run, rank))
            continue;
        survivors[case_node(what, rank)]++;
        created[case_node(what, rank)] += is_created(rank);
        if (!is_created(rank))
            check_not_created(run, rank);
        if (is_created(rank) && !may)
            verdict_complain(run, "rank %d created it without rank %d", rank, victim);
        else if (!is_created(rank) && must)
            verdict_complain(run, "rank %d: creation failed after all had come: %s", rank, board->ranks[rank].message);
    }
    for (int node = 0; node < what->nodes; node++)
        if (created[node] && created[node] < survivors[node])
            verdict_complain(run, "%d of %d survivors of node %d created it", created[node], survivors[node], node);
}

/* Calls. */

static bool is_right_status(const struct run *run, int status, int named) {
    const bool aborts = run->trial->what->twist == TWIST_ABORTS && board_passed(run->victim, "failure.published");
    if (run->trial->what->script == SCRIPT_CHANNELS && is_stopped(run, run->victim) && status == KOLO_ERR_TIMEOUT)
        return true;
    if (named != run->victim && (named < 0 || named != run->first_victim))
        return false;
    if (is_stopped(run, named) && status == KOLO_ERR_TIMEOUT)
        return true;
    if (aborts && status == KOLO_ERR_ABORTED)
        return true;
    return status == KOLO_ERR_PEER_DEAD && (!is_stopped(run, named) || board_passed(named, "destroy.departed"));
}

/* In which steps a survivor's first error may be, by the rules at the top. */
static void check_step(struct run *run, int rank) {
    const struct fault_case *what = run->trial->what;
    const int died = board->ranks[run->victim].step, failed = verdict_failed_step(&board->ranks[rank]);
    const bool joins = case_joins(what, died);
    const bool lags = what->script == SCRIPT_CHANNELS; /* a rank may have sent all that others still wait for */
    const int first = joins && died > 1 && !lags ? died - 1 : 1, last = joins ? died + 1 : case_calls(what) + 1;
    if (run->first_victim < 0 && (failed < first || failed > last))
        verdict_complain(run, "rank %d failed in step %d, not in %d to %d", rank, failed, first, last);
}

static void check_failure(struct run *run, int rank) {
    const struct rank_record *record = &board->ranks[rank];
    const int status = record->steps[verdict_failed_step(record)].status, named = record->failure.rank;
    if (!is_right_status(run, status, named)) {
        verdict_complain(run, "rank %d got %d (%s) of rank %d, where rank %d was struck: %s", rank, status,
                         kolo_strerror(status), named, run->victim, record->message);
        return;
    }
    if (record->failure.status != status)
        verdict_complain(run, "rank %d: kolo_comm_failure tells of %d (%s)", rank, record->failure.status,
                         kolo_strerror(record->failure.status));
    if (!message_names(run->trial->what, record->message, named))
        verdict_complain(run, "rank %d: the message does not name rank %d: %s", rank, named, record->message);
    if (record->status_after != KOLO_ERR_STATE)
        verdict_complain(run, "rank %d: the call after the error returned %d", rank, record->status_after);
}

/* All ranks of a node that have a communicator say the same of it. */
static void check_agreement(struct run *run) {
    const struct fault_case *what = run->trial->what;
    const kolo_failure *said[CASE_NODES_MAX] = {NULL};
    for (int rank = 0; rank < what->ranks; rank++) {
        const kolo_failure *failure = &board->ranks[rank].failure;
        const kolo_failure **other = &said[case_node(what, rank)];
        if (!verdict_is_survivor(run, rank) || !is_created(rank))
            continue;
        if (*other && ((*other)->rank != failure->rank || (*other)->status != failure->status))
            verdict_complain(run, "rank %d blames rank %d (%d), another one of its node rank %d (%d)", rank,
                             failure->rank, failure->status, (*other)->rank, (*other)->status);
        *other = failure;
    }
}

/* Times. */

static int64_t struck_ns(const struct run *run) {
    const bool is_first = run->first_victim >= 0 && is_stopped(run, run->victim);
    return board->struck_ns[is_first ? 0 : BOARD_FAULTS - 1];
}

static void check_noticed(struct run *run, int rank, int64_t held_ns) {
    int64_t own_held_ns;
    const int64_t ns = verdict_ignorance_ns(&board->ranks[rank], struck_ns(run), &own_held_ns);
    verdict_raise(&run->noticed_ns, ns);
    verdict_raise(&run->machine_ns, held_ns + own_held_ns);
    if (ns > NODES_NOTICED_NS + held_ns + own_held_ns)
        verdict_complain(run, "rank %d noticed after %.1f ms, of which the machine took %.1f", rank, (double)ns / MS,
                         (double)(held_ns + own_held_ns) / MS);
}

static void check_deadline(struct run *run, int rank, int64_t held_ns) {
    const struct rank_record *record = &board->ranks[rank];
    const int failed = verdict_failed_step(record);
    const struct step *step = &record->steps[failed];
    const bool creates = failed == CASE_CREATE_STEP;
    int64_t own_held_ns, ns = step->end_ns - step->begin_ns;
    if (!creates)
        ns = verdict_ignorance_ns(record, board->struck_ns[BOARD_FAULTS - 1], &own_held_ns);
    held_ns += step->held_ns + (creates ? record->registering_ns : 0);
    const int64_t deadline_ms = creates ? run->mode.create_timeout_ms : run->mode.timeout_ms;
    const int64_t least_ms = creates ? deadline_ms / 2 : SILENCE_MS_LEAST;
    const int64_t most_ms = (creates ? deadline_ms + ANSWER_MS : deadline_ms + GRACE_MS) * 12 / 10;
    /* It may have come when others had waited for a while already. */
    const int64_t since_ns = creates ? ns : step->end_ns - board->struck_ns[BOARD_FAULTS - 1];
    if (since_ns < least_ms * MS)
        verdict_complain(run, "rank %d gave up after %.1f ms", rank, (double)since_ns / MS);
    if (ns > most_ms * MS + held_ns)
        verdict_complain(run, "rank %d gave up after %.1f ms, of which the machine took %.1f", rank, (double)ns / MS,
                         (double)held_ns / MS);
    verdict_raise(&run->waited_ns, ns);
}

void nodes_find(struct run *run, int64_t held_ns) {
    const struct fault_case *what = run->trial->what;
    if (what->phase == PHASE_CREATE)
        check_creation(run);
    for (int rank = 0; rank < what->ranks; rank++) {
        if (!verdict_is_survivor(run, rank) || !is_created(rank))
            continue;
        check_step(run, rank);
        check_failure(run, rank);
    }
    check_agreement(run);
    const bool is_right = !run->complaint[0];
    for (int rank = 0; rank < what->ranks; rank++) {
        const struct rank_record *record = &board->ranks[rank];
        if (!verdict_is_survivor(run, rank))
            continue;
        if (record->steps[verdict_failed_step(record)].status == KOLO_ERR_TIMEOUT)
            check_deadline(run, rank, held_ns);
        else
            check_noticed(run, rank, held_ns);
    }
    run->is_late = is_right && run->complaint[0];
}
