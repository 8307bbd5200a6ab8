/* SPDX-License-Identifier: Apache-2.0
 */
#include "sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "comm/creation/options.h"
#include "sim_check.h"
#include "sim_engine.h"
#include "sim_lines.h"
#include "sim_memory.h"
#include "sim_noise.h"
#include "sim_team.h"

/* Calls of up to BATCH_BYTES_MAX are made back to back, as kolo-perf makes them; others after a meeting of all ranks.
 */
enum { BATCH_BYTES_MAX = 4096, BATCH_CALLS = 8, CALLS_MANY = 2, MANY_RANKS = 256, CHECK_CALLS = 6 };
enum { GRANULE_BYTES_MIN = 128, GRANULE_BYTES_MAX = 4096, GRANULES_MAX = 4 << 20 };

/* Long messages are cut to as many chunks as keep a run within this many accesses to flags and blocks. */
enum { CHUNKS_MIN = 6, CHUNKS_MAX = 96 };
#define ACCESSES_MAX UINT64_C(6000000)
#define EVENTS_MAX   (UINT64_C(1) << 31)

static struct {
    const sim_case *asked;
    size_t count; /* of the calls that are made: less than asked where the message was cut */
    double age;   /* how much longer the message asked for is than what is done of it */
    uint32_t warm_ups;
    uint32_t calls;
    double start_ns;
    double end_ns; /* latest */
    uint64_t waits;
    uint64_t call[SIM_CORES_MAX];
    char problem[384]; /* the first */
} run;

const sim_machine *sim_run_machine(void) {
    return run.asked->machine;
}

uint64_t sim_run_call(void) {
    return run.call[sim_self()];
}

uint32_t sim_run_ranks(void) {
    return run.asked->ranks;
}

size_t sim_run_bytes(void) {
    return run.count * kolo_dtype_bytes(run.asked->dtype);
}

bool sim_run_skips_wait(void) {
    return ++run.waits == run.asked->skipped_wait;
}

static void fail(const char *function, const char *what) {
    if (run.problem[0] == '\0')
        snprintf(run.problem, sizeof run.problem, "rank %" PRIu32 " in call %" PRIu64 ": %s: %s", sim_self(),
                 sim_run_call(), function, what);
}

void sim_run_fault(const char *what) {
    fail("copy or kernel", what);
}

/* One call of a rank; false if it failed. */
static bool call_once(uint32_t rank) {
    const sim_case *asked = run.asked;
    uint8_t *send = team_piece(TEAM_SEND, rank);
    uint8_t *recv = asked->in_place ? send : team_piece(TEAM_RECV, rank);
    sim_check_call(send, recv, sim_run_bytes(), ++run.call[rank]);
    sim_noise_pause();
    sim_spend(asked->machine->call_ns);
    const int rc = kolo_allreduce(team_comm(rank), send, recv, run.count, asked->dtype, KOLO_SUM);
    sim_line_settle();
    if (rc == 0)
        sim_check_read(recv, sim_run_bytes());
    else
        fail(kolo_strerror(rc), kolo_error_message());
    return rc == 0;
}

static void body(uint32_t rank) {
    for (uint32_t i = 0; i < run.warm_ups; i++) {
        if (!call_once(rank))
            return;
    }
    sim_meet();
    if (rank == 0) { /* the first to go on */
        sim_memory_age(run.age);
        run.start_ns = run.end_ns = sim_now_ns();
    }
    for (uint32_t i = 0; i < run.calls; i++) {
        if (!call_once(rank))
            return;
    }
    if (sim_now_ns() > run.end_ns)
        run.end_ns = sim_now_ns();
}

/* Who waits for what, of the first ranks that do. */
static void describe_deadlock(char *text, size_t text_bytes) {
    enum { SHOWN_MAX = 4 };
    int shown = 0;
    size_t length = (size_t)snprintf(text, text_bytes, "deadlock:");
    for (uint32_t rank = 0; rank < run.asked->ranks && shown < SHOWN_MAX && length < text_bytes; rank++) {
        if (sim_engine_state(rank) != SIM_BLOCKED)
            continue;
        const sim_poll poll = sim_line_polled(rank);
        const struct kolo_shared_signal *signal = &team_comm(rank)->segment.signals[poll.peer];
        const bool is_progress = (const void *)poll.word == (const void *)&signal->progress;
        length +=
            (size_t)snprintf(text + length, text_bytes - length,
                             "%s rank %" PRIu32 " in call %" PRIu64 " waits for %s of rank %" PRIu32
                             " to reach %" PRIu64 ", and it is %" PRIu64,
                             shown++ > 0 ? ";" : "", rank, run.call[rank],
                             is_progress ? "progress" : "a line or another flag", poll.peer, poll.target, *poll.word);
    }
}

static int judge(sim_end end, sim_outcome *outcome) {
    char *text = outcome->problem;
    const size_t text_bytes = sizeof outcome->problem;
    if (end == SIM_END_NO_MEMORY)
        snprintf(text, text_bytes, "no memory for the model of %" PRIu32 " ranks: try fewer, or smaller messages",
                 run.asked->ranks);
    else if (sim_check_problem() != NULL)
        snprintf(text, text_bytes, "protocol: %s", sim_check_problem());
    else if (run.problem[0] != '\0')
        snprintf(text, text_bytes, "%s", run.problem);
    else if (end == SIM_END_DEADLOCK)
        describe_deadlock(text, text_bytes);
    else if (end == SIM_END_ENDLESS)
        snprintf(text, text_bytes, "no end after %" PRIu64 " events: fewer ranks or smaller messages may have one",
                 sim_engine_events());
    if (end != SIM_END_NO_MEMORY)
        outcome->events += sim_engine_events();
    return text[0] == '\0' ? 0 : -1;
}

/* One simulation of some calls. */
typedef struct attempt {
    struct kolo_shared_settings settings;
    size_t slot_bytes;
    size_t count;
    size_t chunks;      /* 0: in lines */
    size_t chunk_bytes; /* of the message */
    double age;
} attempt;

/* Blocks no larger than a rank's slice, which is touched at once, and not more of them than there is memory for. */
static size_t granule_bytes(size_t slot_bytes, size_t chunk_bytes, size_t message_bytes) {
    const uint32_t ranks = run.asked->ranks;
    const size_t shared_bytes = message_bytes < chunk_bytes ? message_bytes : chunk_bytes;
    const size_t most_bytes = message_bytes > KOLO_SLOTS * slot_bytes ? message_bytes : KOLO_SLOTS * slot_bytes;
    size_t bytes = GRANULE_BYTES_MIN;
    while (bytes < GRANULE_BYTES_MAX && 2 * bytes * ranks <= shared_bytes)
        bytes *= 2;
    while (most_bytes / bytes * ranks > GRANULES_MAX)
        bytes *= 2;
    return bytes;
}

static int build(const attempt *attempt) {
    const sim_case *asked = run.asked;
    const size_t slot_bytes = attempt->slot_bytes, bytes = sim_run_bytes();
    if (sim_team_create(asked, &attempt->settings, slot_bytes, bytes) != 0)
        return -1;
    const uint8_t *flags = team_piece(TEAM_HEADER, 0), *flags_end = team_piece(TEAM_SLOTS, 0);
    if (sim_memory_create(asked->machine, asked->ranks, granule_bytes(slot_bytes, attempt->chunk_bytes, bytes)) != 0 ||
        sim_lines_create(asked->machine, flags, (size_t)(flags_end - flags)) != 0)
        return -1;
    return sim_check_begin(asked->check, asked->ranks, slot_bytes);
}

static void tear_down(void) {
    sim_lines_destroy();
    sim_memory_destroy();
    sim_team_destroy();
}

/* Every slot, or both sets of lines, are in use before what is timed. */
static uint32_t warm_ups(const attempt *attempt) {
    return attempt->chunks == 0 ? 2 : (uint32_t)((KOLO_SLOTS + attempt->chunks - 1) / attempt->chunks);
}

static uint32_t timed_calls(const attempt *attempt) {
    if (run.asked->ranks >= MANY_RANKS)
        return CALLS_MANY;
    if (run.asked->check)
        return CHECK_CALLS;
    return attempt->count * kolo_dtype_bytes(run.asked->dtype) <= BATCH_BYTES_MAX ? BATCH_CALLS : 1;
}

/* Sets *time_ns to one call's time. */
static int simulate(const attempt *attempt, sim_outcome *outcome, double *time_ns) {
    const sim_case *asked = run.asked;
    run.count = attempt->count;
    run.age = attempt->age;
    run.problem[0] = '\0';
    run.waits = 0;
    memset(run.call, 0, sizeof run.call);
    run.warm_ups = warm_ups(attempt);
    run.calls = timed_calls(attempt);
    sim_noise_begin(asked->noise_seed);
    const sim_end end = build(attempt) == 0 ? sim_engine_run(asked->ranks, body, EVENTS_MAX) : SIM_END_NO_MEMORY;
    const int rc = judge(end, outcome);
    *time_ns = (run.end_ns - run.start_ns) / run.calls;
    tear_down();
    return rc;
}

/* Chunks of a message that are simulated at most. Each chunk costs some looks at each peer's flags, and one shot reads
 * all of everybody's. */
static size_t chunks_max(const struct kolo_answer *plan, const attempt *attempt) {
    const uint64_t pairs = (uint64_t)run.asked->ranks * run.asked->ranks;
    uint64_t accesses = 3 * pairs;
    if (plan->algorithm == KOLO_ALGORITHM_ONESHOT)
        accesses += pairs * (attempt->chunk_bytes /
                             granule_bytes(attempt->slot_bytes, attempt->chunk_bytes, attempt->chunk_bytes));
    const uint64_t chunks = ACCESSES_MAX / accesses;
    return chunks < CHUNKS_MIN ? CHUNKS_MIN : chunks > CHUNKS_MAX ? CHUNKS_MAX : (size_t)chunks;
}

/* Settings with which a shorter message is treated as the long one would be. */
static void pin(struct kolo_shared_settings *settings, const struct kolo_answer *plan, size_t element_bytes) {
    settings->algorithm = (uint32_t)plan->algorithm;
    settings->bands = 1;
    settings->band[0].bytes_max = UINT64_MAX;
    settings->band[0].algorithm = (uint32_t)plan->algorithm;
    settings->band[0].chunk_bytes = (uint32_t)(plan->chunk_count * element_bytes);
    settings->stream_bytes_min = plan->stream ? 0 : UINT64_MAX;
}

static int simulate_part(attempt *attempt, const struct kolo_answer *plan, size_t chunks, sim_outcome *outcome,
                         double *time_ns) {
    attempt->chunks = chunks;
    attempt->count = chunks * plan->chunk_count;
    attempt->age = (double)plan->chunks / (double)chunks - 1;
    return simulate(attempt, outcome, time_ns);
}

/* A long message goes through the same pipeline chunk after chunk: time is linear in chunks once it is filled. */
static int extrapolate(attempt *attempt, const struct kolo_answer *plan, size_t chunks, sim_outcome *outcome) {
    const size_t few = chunks / 2;
    double few_ns = 0, many_ns = 0;
    pin(&attempt->settings, plan, kolo_dtype_bytes(run.asked->dtype));
    outcome->extrapolated = true;
    int rc = simulate_part(attempt, plan, few, outcome, &few_ns);
    if (rc == 0)
        rc = simulate_part(attempt, plan, chunks, outcome, &many_ns);
    const double chunk_ns = (many_ns - few_ns) / (double)(chunks - few);
    outcome->time_us = (many_ns + chunk_ns * (double)(plan->chunks - chunks)) * 1e-3;
    return rc;
}

int sim_run(const sim_case *asked, sim_outcome *outcome) {
    const size_t element_bytes = kolo_dtype_bytes(asked->dtype);
    attempt attempt = {.count = asked->count};
    attempt.slot_bytes = asked->slot_bytes ? asked->slot_bytes : kolo_settings_slot_bytes(asked->ranks);
    *outcome = (sim_outcome){.algorithm = asked->algorithm};
    run.asked = asked;
    sim_team_settings(&attempt.settings, asked, attempt.slot_bytes);
    const bool halves = asked->dtype == KOLO_F16 || asked->dtype == KOLO_BF16;
    const struct kolo_question question = {.collective = KOLO_ALLREDUCE,
                                           .count = asked->count,
                                           .element_bytes = (uint32_t)element_bytes,
                                           .acc_bytes = (uint32_t)(halves ? 2 * element_bytes : element_bytes)};
    const struct kolo_answer plan = kolo_plan_make(&question, &attempt.settings, attempt.slot_bytes);
    if (asked->algorithm == KOLO_ALGORITHM_DIRECT) { /* no slots, and the plan does not know of it */
        attempt.chunks = 1;
        attempt.chunk_bytes = SIZE_MAX;
        attempt.slot_bytes = KOLO_PAGE_BYTES;
    } else {
        outcome->algorithm = plan.algorithm;
        outcome->chunks = attempt.chunks = plan.lines ? 0 : plan.chunks;
        attempt.chunk_bytes = plan.chunk_count * element_bytes;
        const size_t most = chunks_max(&plan, &attempt);
        if (plan.chunks > most)
            return extrapolate(&attempt, &plan, most, outcome);
    }
    double time_ns = 0;
    const int rc = simulate(&attempt, outcome, &time_ns);
    outcome->time_us = time_ns * 1e-3;
    return rc;
}
