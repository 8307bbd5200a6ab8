/* The offset of another node's clock. */
#include "internode/clock_offset.h"

#include "base/clock.h"
#include "sync/trace.h"

enum { QUESTIONS = 8 }; /* in a row */

#define ROW_NS      INT64_C(1000000000) /* from the end of a row to the begin of the next one */
#define ANSWER_NS   INT64_C(30000000)   /* a node that expects nothing answers within that: it looks every 20 ms */
#define QUESTION_NS INT64_C(5000000)    /* another question comes within that, or the row is over */
#define MOMENT_NS   INT64_C(200000)     /* how long a thread sleeps that expects a frame */

static int64_t drift_ns(int64_t passed_ns) {
    return passed_ns / KOLO_TRACE_DRIFT_NS + 1;
}

void kolo_clock_offset_take(struct kolo_clock_offset *offset, int64_t asked_ns, int64_t theirs_ns, int64_t heard_ns) {
    if (asked_ns > heard_ns)
        return;
    const struct kolo_clock_offset trip = {
        .least_ns = theirs_ns - heard_ns,
        .most_ns = theirs_ns - asked_ns + drift_ns(heard_ns - asked_ns),
        .heard_ns = heard_ns,
    };
    const struct kolo_clock_offset before = *offset;
    *offset = trip;
    if (before.heard_ns == 0 || before.heard_ns > heard_ns)
        return;
    const int64_t drift = drift_ns(heard_ns - before.heard_ns);
    const int64_t least_ns = before.least_ns - drift > trip.least_ns ? before.least_ns - drift : trip.least_ns;
    const int64_t most_ns = before.most_ns + drift < trip.most_ns ? before.most_ns + drift : trip.most_ns;
    if (least_ns > most_ns)
        return;
    offset->least_ns = least_ns;
    offset->most_ns = most_ns;
}

int64_t kolo_clock_offset_ns(const struct kolo_clock_offset *offset, uint64_t *error_ns) {
    const int64_t half_ns = (offset->most_ns - offset->least_ns) / 2;
    *error_ns = (uint64_t)half_ns + 1;
    return offset->least_ns + half_ns;
}

static void expect(struct kolo_clock_questions *questions, int64_t until_ns) {
    kolo_store_relaxed(&questions->expects_ns, (uint64_t)until_ns);
}

static void ask(struct kolo_clock_questions *questions, kolo_engine *engine) {
    questions->left--;
    questions->asked_ns = kolo_clock_ns();
    expect(questions, questions->asked_ns + ANSWER_NS);
    const struct kolo_frame question = {
        .kind = KOLO_FRAME_CLOCK, .part = KOLO_CLOCK_QUESTION, .ticket = (uint64_t)questions->asked_ns};
    if (kolo_engine_tell(engine, 0, &question, NULL) < 0)
        questions->asked_ns = 0;
}

void kolo_clock_ask(struct kolo_clock_questions *questions, kolo_engine *engine, int64_t now_ns) {
    if (!questions->asks || questions->asked_ns || now_ns < questions->next_ns)
        return;
    questions->next_ns = now_ns + ROW_NS;
    questions->left = QUESTIONS;
    ask(questions, engine);
}

static void answer(struct kolo_clock_questions *questions, kolo_engine *engine, uint32_t node,
                   const struct kolo_frame *question) {
    const int64_t now_ns = kolo_clock_ns();
    const struct kolo_frame frame = {
        .kind = KOLO_FRAME_CLOCK, .part = KOLO_CLOCK_ANSWER, .ticket = question->ticket, .stamp = (uint64_t)now_ns};
    kolo_engine_tell(engine, node, &frame, NULL); /* where it fails, the node asks no more */
    expect(questions, now_ns + QUESTION_NS);
}

void kolo_clock_hear(struct kolo_clock_questions *questions, kolo_engine *engine, uint32_t node,
                     const struct kolo_frame *frame) {
    uint64_t error_ns;
    if (frame->part == KOLO_CLOCK_QUESTION) {
        answer(questions, engine, node, frame);
        return;
    }
    const int64_t now_ns = kolo_clock_ns();
    const bool is_awaited = node == 0 && questions->asked_ns && frame->ticket == (uint64_t)questions->asked_ns;
    if (!is_awaited || frame->stamp > INT64_MAX / 4)
        return;
    kolo_clock_offset_take(&questions->offset, questions->asked_ns, (int64_t)frame->stamp, now_ns);
    questions->asked_ns = 0;
    if (questions->left > 0) {
        ask(questions, engine);
        return;
    }
    questions->next_ns = now_ns + ROW_NS;
    expect(questions, 0);
    const int64_t offset_ns = kolo_clock_offset_ns(&questions->offset, &error_ns);
    if (kolo_traces())
        kolo_trace_offset(offset_ns, error_ns);
}

int64_t kolo_clock_sleep_ns(const struct kolo_clock_questions *questions, int64_t ns) {
    const uint64_t expects_ns = kolo_load_relaxed(&questions->expects_ns);
    return expects_ns && (int64_t)expects_ns > kolo_clock_ns() ? MOMENT_NS : ns;
}
