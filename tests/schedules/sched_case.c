#include "sched_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "comm/step/call_key.h"
#include "comm/step/progress.h"
#include "sched_blocks.h"
#include "sched_control.h"
#include "sched_engine.h"
#include "sched_memory.h"
#include "sched_seam.h"
#include "sched_table.h"
#include "splitmix64.h"

/* A failure is found at the end of the slice that some rank sleeps, if not before, and heard of at the end of another;
 * running takes little of the model's time. The library promises 100 ms. */
enum { FOUND_WITHIN_NS = 2 * KOLO_SLICE_NS + KOLO_SLICE_NS / 2, POISON = 0xa5, RUBBISH = 0x3c, ABORT_CODE = 7 };

/* What became of a rank. */
typedef struct ending {
    bool returned; /* from all calls that it made */
    int status;    /* of the last one */
    int64_t at_ns;
    kolo_failure failure; /* as the rank saw it then */
    uint8_t *buffers[2];  /* of a call that failed, which the rank filled with rubbish then; NULL: none */
    size_t bytes[2];
} ending;

static struct {
    sched_plan plan;
    uint64_t seed;
    uint8_t expected[SCHED_CALLS_MAX][SCHED_RANKS_MAX][SCHED_BUFFER_BYTES];
    uint8_t expected_other[SCHED_CALLS_MAX][SCHED_RANKS_MAX][SCHED_BUFFER_BYTES]; /* of plan.other */
    uint8_t outside[SCHED_RANKS_MAX][2][SCHED_BUFFER_BYTES]; /* buffers that are not kolo_alloc's */
    ending endings[SCHED_RANKS_MAX];
    bool has_table;
    int64_t fault_ns; /* when a rank aborted or left, or the last came to disagree; -1: none has */
} run;

/* Any bits: what of them are numbers does not matter here. */
static void fill_input(uint8_t *input, uint32_t rank, uint32_t index, size_t bytes) {
    uint64_t random = run.seed ^ (uint64_t)rank << 32 ^ (uint64_t)index << 48;
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        const uint64_t bits = random_next(&random);
        memcpy(input + at, &bits, bytes - at < sizeof bits ? bytes - at : sizeof bits);
    }
}

static void expect(const sched_call *call, uint32_t index, uint8_t results[][SCHED_BUFFER_BYTES]) {
    static uint8_t inputs[SCHED_RANKS_MAX][SCHED_BUFFER_BYTES];
    const uint32_t ranks = run.plan.shape.team.ranks;
    for (uint32_t rank = 0; rank < ranks; rank++)
        fill_input(inputs[rank], rank, index,
                   sched_lay_out(call, rank, ranks, true).count * kolo_dtype_bytes(call->dtype));
    sched_expect(call, ranks, inputs, results);
}

/* What every rank must hold after each call. */
static void compute_expected(void) {
    for (uint32_t i = 0; i < run.plan.calls; i++) {
        expect(&run.plan.call[i], i, run.expected[i]);
        if (sched_disagrees(&run.plan, i))
            expect(&run.plan.other[i], i, run.expected_other[i]);
    }
}

/* Two ranks may swap their slots (algo/phases.h, algo/regions.h): where they disagree both may write into one of them.
 * No more comes of it: they compare stamps before they read from a slot, and nobody else does. Of more ranks that swap
 * regions others may read there, too, but then their call fails. */
static bool is_given_up(const void *address, bool is_read) {
    bool swap = run.plan.shape.team.ranks == 2 && !is_read;
    for (uint32_t rank = 0; rank < run.plan.shape.team.ranks; rank++)
        swap |= team_comm(rank)->call.swap_calls >= KOLO_SWAP_CALLS && run.plan.shape.team.ranks > 2;
    return run.plan.fault == SCHED_MISMATCH && run.fault_ns >= 0 && swap && sched_team_word(address) == SCHED_WORD_SLOT;
}

/* Ranks. */

/* Where ranks disagree, few calls may succeed: on who sends to the root alone, and, of what the root sends, on the root
 * and on those that agree with it, and on scans if the ranks before agree. With counts that only two ranks know, all
 * meet first. */
static void check_agreement(uint32_t rank, uint32_t index, const sched_call *call) {
    const collective_shape *buffers = &collective_shapes[call->collective];
    if (run.plan.fault != SCHED_MISMATCH || !sched_disagrees(&run.plan, index))
        return;
    if (!buffers->counted && buffers->taken_by_root && rank != call->root)
        return;
    if (buffers->is_prefix) {
        uint32_t alike = 0;
        while (alike < rank && sched_dissents(&run.plan, alike) == sched_dissents(&run.plan, rank))
            alike++;
        if (alike == rank)
            return;
    }
    if (buffers->counted || !buffers->sent_by_root ||
        sched_dissents(&run.plan, rank) != sched_dissents(&run.plan, call->root))
        sched_fail("rank %" PRIu32 ": call %" PRIu32 " succeeds, in which ranks disagree", rank, index);
}

static void check_result(uint32_t rank, uint32_t index, const uint8_t *result, size_t bytes) {
    const sched_call *call = sched_plan_call(&run.plan, rank, index);
    const uint8_t *expected =
        call == &run.plan.other[index] ? run.expected_other[index][rank] : run.expected[index][rank];
    if (collective_inputs(call->collective, (int)rank, 1) == 0)
        return; /* nothing is defined there */
    sched_memory_read(result, bytes);
    for (size_t at = 0; at < bytes; at++)
        if (result[at] != expected[at])
            sched_fail("rank %" PRIu32 ": byte %zu of the result of call %" PRIu32 " is %#x instead of %#x", rank, at,
                       index, result[at], expected[at]);
}

/* The call is over, and its buffers are the rank's again. Where it failed, others may still read there, so that only
 * values tell of that. */
static void overwrite(uint32_t rank, int rc, uint8_t *const buffers[2], const size_t bytes[2]) {
    for (int i = 0; i < 2; i++) {
        if (rc == 0)
            sched_memory_write(buffers[i], bytes[i]);
        memset(buffers[i], RUBBISH, bytes[i]);
        run.endings[rank].buffers[i] = rc ? buffers[i] : NULL;
        run.endings[rank].bytes[i] = bytes[i];
    }
}

static bool was_written(const ending *ending) {
    for (int i = 0; i < 2; i++)
        for (size_t at = 0; ending->buffers[i] && at < ending->bytes[i]; at++)
            if (ending->buffers[i][at] != RUBBISH)
                return true;
    return false;
}

/* The stamp from which `own` leads to where `other` leads from `stamp`. */
static uint64_t stamp_for(uint64_t stamp, struct kolo_call_key own, struct kolo_call_key other) {
    return kolo_stamp_before(kolo_stamp_after(stamp, other), own);
}

static int make_call(kolo_comm *comm, uint32_t index) {
    const uint32_t rank = comm->rank;
    const sched_call *call = sched_plan_call(&run.plan, rank, index);
    const bool is_outside = call->outsider == rank, sends_to_itself = call->collective == KOLO_BROADCAST;
    const size_t element_bytes = kolo_dtype_bytes(call->dtype);
    const sched_layout sent = sched_lay_out(call, rank, comm->size, true);
    const sched_layout taken = sched_lay_out(call, rank, comm->size, false);
    const size_t sent_bytes = sent.count * element_bytes, taken_bytes = taken.count * element_bytes;
    uint8_t *send = is_outside ? run.outside[rank][0] : team_piece(TEAM_SEND, rank);
    uint8_t *recv = is_outside ? run.outside[rank][1] : team_piece(TEAM_RECV, rank);
    if ((call->in_place && sent.count && taken.count) || sends_to_itself) {
        /* One may be this rank's block of the other. */
        uint8_t *both = call->in_place ? send : recv;
        const bool gives_blocks = collective_shapes[call->collective].sends_blocks;
        const bool takes_blocks = collective_shapes[call->collective].takes_blocks;
        send = both + (gives_blocks ? 0 : taken.own * element_bytes);
        recv = both + (takes_blocks ? 0 : sent.own * element_bytes);
    }
    if (sched_breaks(SCHED_LINES_ONE_SET))
        comm->call.line_rounds++;
    if (sched_breaks(SCHED_PASSES_UNBOUNDED) &&
        (comm->call.pass_lines >= KOLO_PASS_LINES - KOLO_LINES || comm->call.passes == KOLO_PASSES)) {
        comm->call.passes = comm->call.pass_lines = 0;
        comm->call.line_rounds++;
    }
    if (sched_breaks(SCHED_STAMPS_EQUAL))
        comm->call.stamp = stamp_for(comm->call.stamp, sched_key_of(call, comm->size),
                                     sched_key_of(&run.plan.call[index], comm->size));
    sched_memory_write(recv, taken_bytes);
    memset(recv, POISON, taken_bytes);
    sched_memory_write(send, sent_bytes);
    fill_input(send, rank, index, sent_bytes);
    sched_seam_calls(true);
    const int rc = sched_make_call(comm, call, send, recv);
    sched_seam_calls(false);
    if (rc == 0) {
        check_agreement(rank, index, call);
        check_result(rank, index, recv, taken_bytes);
    }
    overwrite(rank, rc, (uint8_t *[]){send, recv}, (size_t[]){sent_bytes, taken_bytes});
    return rc;
}

/* True if the rank aborts or leaves now. */
static bool goes_wrong(uint32_t rank, uint32_t call) {
    const sched_plan *plan = &run.plan;
    if (call != plan->fault_call || (plan->culprits[0] != rank && plan->culprits[1] != rank))
        return false;
    return plan->fault == SCHED_ABORT || plan->fault == SCHED_DEPARTURE;
}

static void make_calls(kolo_comm *comm, uint32_t rank, ending *ending) {
    for (uint32_t i = 0; ending->status == 0 && i < run.plan.calls; i++) {
        if (goes_wrong(rank, i)) {
            if (run.fault_ns < 0)
                run.fault_ns = sched_now_ns();
            if (run.plan.fault == SCHED_ABORT)
                ending->status = kolo_comm_abort(comm, ABORT_CODE);
            break;
        }
        if (run.plan.fault == SCHED_MISMATCH && i == run.plan.fault_call)
            run.fault_ns = sched_now_ns();
        if (run.plan.fault == SCHED_LATE && i >= run.plan.fault_call && rank == run.plan.culprits[0]) {
            kolo_store_relaxed(&comm->waiter.timeout_ns, 0); /* time goes on only while all sleep */
            run.fault_ns = sched_now_ns();
        }
        sched_trace("rank %" PRIu32 " begins call %" PRIu32, rank, i);
        ending->status = make_call(comm, i);
        sched_trace("rank %" PRIu32 " has ended call %" PRIu32 ": %d", rank, i, ending->status);
    }
}

static void body(uint32_t rank) {
    kolo_comm *comm = team_comm(rank);
    ending *ending = &run.endings[rank];
    if (run.has_table)
        ending->status = sched_table_work(comm);
    else
        make_calls(comm, rank, ending);
    ending->at_ns = sched_now_ns();
    ending->returned = true;
    ending->failure.failure_bytes = sizeof ending->failure;
    kolo_comm_failure(comm, &ending->failure);
    kolo_comm_destroy(comm);
}

/* All that live sleep. */

static int64_t fault_ns(void) {
    return run.plan.fault == SCHED_DEATH ? sched_death_ns() : run.fault_ns;
}

static void quiet(void) {
    char waits[400] = "", wait[200];
    sched_seam_quiet();
    if (sched_seam_preempts())
        return;
    if (fault_ns() >= 0 && sched_now_ns() - fault_ns() <= FOUND_WITHIN_NS)
        return; /* they find out when their slices end */
    for (uint32_t rank = 0; rank < run.plan.shape.team.ranks; rank++) {
        const size_t length = strlen(waits);
        sched_seam_describe_wait(rank, wait, sizeof wait);
        if (wait[0])
            snprintf(waits + length, sizeof waits - length, "; rank %" PRIu32 " waits for %.100s", rank, wait);
    }
    sched_fail("all sleep, and nothing wakes them%s", waits);
}

/* Judging. */

static bool is_culprit(int rank) {
    return rank == (int)run.plan.culprits[0] || rank == (int)run.plan.culprits[1];
}

/* The two of a mismatch have made different calls. */
static bool names_fault(const kolo_failure *failure) {
    if (run.plan.fault == SCHED_MISMATCH)
        return sched_dissents(&run.plan, (uint32_t)failure->rank) !=
               sched_dissents(&run.plan, (uint32_t)failure->reporter);
    if (run.plan.fault == SCHED_LATE)
        return is_culprit(failure->reporter) && !is_culprit(failure->rank);
    return is_culprit(failure->rank);
}

/* What is wrong with a rank that came back with an error, where there was a fault. */
static const char *judge_failure(const ending *ending, const kolo_failure **first) {
    const int wanted = run.plan.fault == SCHED_ABORT      ? KOLO_ERR_ABORTED
                       : run.plan.fault == SCHED_MISMATCH ? KOLO_ERR_MISMATCH
                       : run.plan.fault == SCHED_LATE     ? KOLO_ERR_TIMEOUT
                                                          : KOLO_ERR_PEER_DEAD;
    if (ending->status != wanted)
        return "returned another error";
    if (ending->failure.status != wanted || !names_fault(&ending->failure))
        return "got a failure that names another rank";
    if (*first && ((*first)->rank != ending->failure.rank || (*first)->reporter != ending->failure.reporter))
        return "got another failure than others did";
    if (ending->at_ns - fault_ns() > FOUND_WITHIN_NS)
        return "learned too late of the failure";
    *first = &ending->failure;
    return NULL;
}

static const char *judge(uint32_t rank, const kolo_failure **first) {
    const ending *ending = &run.endings[rank];
    if (sched_has_died(rank))
        return NULL;
    if (!ending->returned)
        return "never came back";
    if (was_written(ending))
        return "had its buffers written to after its call had failed";
    if (ending->status == 0)
        return run.plan.fault == SCHED_MISMATCH ? "made all its calls" : NULL;
    if (ending->status > 0 || fault_ns() < 0)
        return "failed";
    if (run.plan.fault == SCHED_ABORT && is_culprit((int)rank) && ending->status == KOLO_ERR_STATE)
        return NULL; /* it aborted what was broken already */
    return judge_failure(ending, first);
}

bool sched_case_run(const sched_case *which, uint64_t seed, bool trace, char *problem, size_t problem_bytes) {
    const kolo_failure *first = NULL;
    run.seed = seed;
    run.fault_ns = -1;
    memset(run.endings, 0, sizeof run.endings);
    sched_plan_draw(&run.plan, which, seed);
    run.has_table = sched_case_has_table(which);
    if (run.has_table)
        sched_table_begin(&run.plan, which->features & SCHED_CLOCKS, seed);
    else
        compute_expected();
    sched_team_create(&run.plan.shape);
    sched_memory_begin(run.plan.shape.team.ranks, is_given_up);
    sched_seam_begin(seed, run.plan.fault == SCHED_LATE);
    sched_engine_run(&(sched_run){.ranks = run.plan.shape.team.ranks,
                                  .seed = seed,
                                  .wakes_early = run.plan.wakes_early,
                                  .victim = run.plan.fault == SCHED_DEATH ? run.plan.culprits[0] : SCHED_NOBODY,
                                  .death_step = run.plan.fault_step,
                                  .trace = trace,
                                  .body = body,
                                  .quiet = quiet});
    const char *wrong = sched_problem();
    snprintf(problem, problem_bytes, "%s", wrong ? wrong : "");
    for (uint32_t rank = 0; !wrong && rank < run.plan.shape.team.ranks; rank++) {
        wrong = judge(rank, &first);
        if (wrong)
            snprintf(problem, problem_bytes, "rank %" PRIu32 " %s: status %d; %s", rank, wrong,
                     run.endings[rank].status, run.endings[rank].failure.message);
    }
    if (!wrong && run.has_table && (wrong = sched_table_judge()))
        snprintf(problem, problem_bytes, "%s", wrong);
    team_destroy();
    return !wrong;
}
