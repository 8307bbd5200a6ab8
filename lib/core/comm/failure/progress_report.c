/* Progress reports: which rank is furthest behind, and the warnings about long waits. */
#include "comm/failure/progress_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "comm/ranks.h"
#include "comm/step/history.h"

static bool is_stopped(const kolo_comm *comm, uint32_t rank) {
    return kolo_liveness_activity(&comm->liveness, rank) == 'T';
}

/* Returns the rank for which `peer` waits in the end: the rank that it waits for may itself wait for another. */
static uint32_t follow(const kolo_comm *comm, uint32_t peer) {
    uint32_t last = peer, next;
    int64_t since_ns;
    for (uint32_t i = 0; i < comm->size; i++) {
        if (is_stopped(comm, last) ||
            !kolo_history_waits(kolo_load_acquire(&comm->segment.signals[last].waiting), &next, &since_ns))
            return last;
        for (uint32_t rank = 0; next == KOLO_RANKS_MAX && rank < comm->size; rank++)
            if (rank != comm->rank && is_stopped(comm, rank))
                return rank;
        if (next == KOLO_RANKS_MAX)
            return last;
        if (next == comm->rank)
            break;
        last = next;
    }
    return peer; /* the ranks wait for each other */
}

/* Returns the rank that a send or a receive waits for in the end: a stopped one, if there is one. */
static uint32_t last_awaited(const kolo_comm *comm, uint32_t peer) {
    uint32_t found = comm->size;
    for (uint32_t local = 0; local < comm->size; local++) {
        if (!kolo_ranks_have(comm->channels.awaited, kolo_rank_global(comm, local)))
            continue;
        const uint32_t last = follow(comm, local);
        if (is_stopped(comm, last))
            return last;
        if (found == comm->size)
            found = last;
    }
    return found < comm->size ? found : follow(comm, peer);
}

uint32_t kolo_progress_report_last(const kolo_comm *comm, uint32_t peer) {
    const struct kolo_shared_signal *signals = comm->segment.signals;
    uint32_t last = peer;
    if (kolo_channels_busy(&comm->channels) && !comm->channels.awaits_any)
        return last_awaited(comm, peer);
    uint64_t last_calls = kolo_load_acquire(&signals[peer].calls);
    uint64_t last_step = kolo_load_acquire(&signals[peer].progress);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const uint64_t calls = kolo_load_acquire(&signals[rank].calls);
        const uint64_t step = kolo_load_acquire(&signals[rank].progress);
        const bool is_equal = calls == last_calls && step == last_step;
        if (rank != comm->rank &&
            (calls < last_calls || (calls == last_calls && step < last_step) || (is_equal && is_stopped(comm, rank))))
            last = rank, last_calls = calls, last_step = step;
    }
    return last;
}

const char *kolo_progress_report_activity(char activity) {
    switch (activity) {
    case 'T':
        return "stopped (by a signal such as SIGSTOP, or a debugger)";
    case 'R':
        return "running";
    case 'D':
        return "sleeping in the kernel, where nothing can wake it";
    case 'S':
        return "sleeping";
    default:
        return "in a state that cannot be seen from here";
    }
}

/* Writes each rank's calls begun and steps published: "rank 0-2: call 5, step 40; rank 3: call 4, step 31". */
static void list_ranks(const kolo_comm *comm, char *text, size_t text_bytes) {
    const struct kolo_shared_signal *signals = comm->segment.signals;
    size_t used = 0;
    for (uint32_t first = 0, next; first < comm->size && used < text_bytes; first = next) {
        const uint64_t calls = kolo_load_acquire(&signals[first].calls);
        const uint64_t step = kolo_load_acquire(&signals[first].progress);
        for (next = first + 1; next < comm->size && kolo_load_acquire(&signals[next].calls) == calls &&
                               kolo_load_acquire(&signals[next].progress) == step;)
            next++;
        char last[16] = "";
        if (next - first > 1)
            snprintf(last, sizeof last, "-%u", kolo_rank_global(comm, next - 1));
        used += (size_t)snprintf(text + used, text_bytes - used, "%srank %u%s: call %" PRIu64 ", step %" PRIu64,
                                 used ? "; " : "", kolo_rank_global(comm, first), last, calls, step);
    }
}

static void warn(kolo_comm *comm, const struct kolo_wait *wait) {
    const uint32_t late = kolo_progress_report_last(comm, kolo_peer_rank(wait->peer));
    const char activity = kolo_liveness_activity(&comm->liveness, late);
    const uint64_t calls = kolo_load_acquire(&comm->segment.signals[late].calls);
    char call[KOLO_CALL_TEXT_BYTES], where[600];
    if (kolo_channels_busy(&comm->channels))
        kolo_pair_describe(comm->channels.own.word, comm->channels.own.detail, call);
    else
        kolo_call_describe(comm->call.word, call);
    list_ranks(comm, where, sizeof where);
    kolo_log(comm->log_level, KOLO_LOG_WARN, (int)comm->global_rank,
             "has waited %.1f s in call %" PRIu64 " (%s) for rank %u (pid %u), which is %s and %s %" PRIu64
             "; begun so far: %s",
             (double)wait->waited_ns * 1e-9, comm->call.number, call, kolo_rank_global(comm, late),
             comm->segment.members[late].process.pid, kolo_progress_report_activity(activity),
             calls < comm->call.number ? "has come as far as call" : "is in call", calls, where);
}

void kolo_progress_report_warn(kolo_comm *comm, const struct kolo_wait *wait) {
    struct kolo_stall *stall = &comm->stall;
    if (stall->warn_ns == 0 || wait->waited_ns < stall->warn_ns)
        return;
    if (stall->wait != comm->waiter.slept) {
        stall->wait = comm->waiter.slept;
        stall->next_ns = stall->warn_ns;
    }
    if (wait->waited_ns < stall->next_ns)
        return;
    while (stall->next_ns <= wait->waited_ns)
        stall->next_ns *= 2;
    warn(comm, wait);
}
