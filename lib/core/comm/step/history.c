/* The history of calls: writing, reading and logging it. */
#include "comm/step/history.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

/* A rank, plus one, and a time, in one word, so that neither is ever read without the other. */
#define RANK_BITS 11
#define RANK_MASK ((UINT64_C(1) << RANK_BITS) - 1)
#define TIME_MAX  (UINT64_MAX >> RANK_BITS)
static_assert(KOLO_RANKS_MAX < RANK_MASK, "a rank, or one past them, plus one, fits");

static uint64_t pack(uint32_t rank, uint64_t time) {
    return (time < TIME_MAX ? time : TIME_MAX) << RANK_BITS | (rank + 1);
}

/* Returns the present call's record; if it has none yet, a new one that began at `began_ns`. */
static struct kolo_shared_record *open_record(kolo_comm *comm, int64_t began_ns) {
    struct kolo_shared_record *record = &comm->history->records[comm->call.number % KOLO_HISTORY];
    if (comm->call.recorded != comm->call.number) {
        comm->call.recorded = comm->call.number;
        comm->call.recorded_longest_ns = 0;
        kolo_show_release(&record->ended_ns, 0);
        kolo_show_release(&record->longest, 0);
        kolo_show_release(&record->began_ns, (uint64_t)began_ns);
        kolo_show_release(&record->number, comm->call.number); /* pairs with kolo_history_read, as do the others */
    }
    return record;
}

void kolo_history_begin(kolo_comm *comm) {
    open_record(comm, kolo_clock_ns());
}

void kolo_history_end(kolo_comm *comm) {
    const int64_t now_ns = kolo_clock_ns();
    kolo_show_release(&open_record(comm, now_ns)->ended_ns, (uint64_t)now_ns);
}

void kolo_history_note_wait(kolo_waiter *waiter, const struct kolo_wait *wait, bool over) {
    kolo_comm *comm = waiter->owner;
    const bool in_call = !kolo_channels_busy(&comm->channels);
    const bool for_any = in_call ? kolo_peer_rank(wait->peer) == comm->rank : comm->channels.awaits_any;
    const uint32_t peer = for_any ? KOLO_RANKS_MAX : kolo_peer_rank(wait->peer);
    struct kolo_shared_record *record = in_call ? open_record(comm, wait->start_ns) : NULL;
    if (!over) {
        kolo_show_release(&comm->signal->waiting, pack(peer, (uint64_t)wait->start_ns / 1000));
        return;
    }
    const uint64_t waited_ns = (uint64_t)wait->waited_ns;
    if (in_call && waited_ns > comm->call.recorded_longest_ns) {
        comm->call.recorded_longest_ns = waited_ns;
        kolo_show_release(&record->longest, pack(peer, waited_ns));
    }
    if (in_call)
        kolo_show_release(&record->ended_ns, (uint64_t)(wait->start_ns + wait->waited_ns));
    kolo_show_release(&comm->history->waited_ns, waiter->waited_ns);
    kolo_show_release(&comm->signal->waiting, 0);
}

bool kolo_history_waits(uint64_t waiting, uint32_t *peer, int64_t *since_ns) {
    if (!(waiting & RANK_MASK))
        return false;
    *peer = (uint32_t)(waiting & RANK_MASK) - 1;
    *since_ns = (int64_t)((waiting >> RANK_BITS) % (INT64_MAX / 1000) * 1000);
    return true;
}

bool kolo_history_read(const struct kolo_shared_signal *signal, const struct kolo_shared_history *history,
                       uint64_t number, struct kolo_past_call *call) {
    const struct kolo_shared_record *record = &history->records[number % KOLO_HISTORY];
    const uint64_t ended = kolo_load_acquire(&signal->ended);
    *call = (struct kolo_past_call){.number = number, .waited_for = -1};
    call->key = kolo_call_key_load(history->keys[number % (2 * KOLO_HISTORY)]);
    if (kolo_load_acquire(&record->number) == number) {
        const uint64_t longest = kolo_load_acquire(&record->longest);
        call->began_ns = (int64_t)kolo_load_acquire(&record->began_ns);
        if (ended >= number)
            call->ended_ns = (int64_t)kolo_load_acquire(&record->ended_ns);
        if (longest & RANK_MASK) {
            call->waited_for = (int32_t)(longest & RANK_MASK) - 1;
            call->waited_ns = (int64_t)(longest >> RANK_BITS);
        }
    }
    const uint64_t calls = kolo_load_acquire(&signal->calls);
    return number > 0 && number <= calls && calls - number < KOLO_HISTORY;
}

/* Limits of the log lines that tell where the ranks stand. */
enum {
    STAND_BYTES = 400,
    STANDS_MAX = 16, /* lines; with more ranks, those in the same state share a line */
};

/* Writes where a rank stands: "in call 7, allreduce of 1024 f32, sum; 31 steps; waiting for rank 2 for 11 ms". now_ns
 * 0: no time. */
static void describe_stand(const kolo_comm *comm, uint32_t rank, int64_t now_ns, char text[STAND_BYTES]) {
    const struct kolo_shared_signal *signal = &comm->segment.signals[rank];
    const bool left = kolo_load_acquire(&comm->segment.members[rank].state) == KOLO_MEMBER_DEPARTED;
    const char *end = left                                             ? "; has left"
                      : kolo_liveness_has_ended(&comm->liveness, rank) ? "; its process has ended"
                                                                       : "";
    const uint64_t calls = kolo_load_acquire(&signal->calls), ended = kolo_load_acquire(&signal->ended);
    const uint64_t steps = kolo_load_acquire(&signal->progress);
    struct kolo_past_call call;
    char what[KOLO_CALL_TEXT_BYTES] = "too many calls ago", wait[64] = "";
    uint32_t peer;
    int64_t since_ns;
    if (calls == 0) {
        snprintf(text, STAND_BYTES, "has begun no call%s", end);
        return;
    }
    if (kolo_history_read(signal, &comm->segment.histories[rank], calls, &call))
        kolo_call_key_describe(call.key, what);
    if (kolo_history_waits(kolo_load_acquire(&signal->waiting), &peer, &since_ns)) {
        const int length = peer == KOLO_RANKS_MAX
                               ? snprintf(wait, sizeof wait, "; waiting for any rank")
                               : snprintf(wait, sizeof wait, "; waiting for rank %u", kolo_rank_global(comm, peer));
        if (now_ns)
            snprintf(wait + length, sizeof wait - (size_t)length, " for %" PRId64 " ms",
                     (now_ns > since_ns ? now_ns - since_ns : 0) / KOLO_NS_PER_MS);
    }
    snprintf(text, STAND_BYTES, "%s %" PRIu64 ", %s; %" PRIu64 " steps%s%s",
             ended < calls ? "in call" : "in no call, after", calls, what, steps, wait, end);
}

/* Logs one line for all ranks in the same state. */
static void log_groups(const kolo_comm *comm, kolo_log_level level) {
    uint64_t logged[KOLO_RANK_WORDS] = {0};
    for (uint32_t rank = 0, lines = 0; rank < comm->size && lines < STANDS_MAX; rank++) {
        uint64_t alike[KOLO_RANK_WORDS] = {0};
        char stand[STAND_BYTES], others[STAND_BYTES], list[256];
        if (kolo_ranks_have(logged, rank))
            continue;
        describe_stand(comm, rank, 0, stand);
        for (uint32_t other = rank; other < comm->size; other++) {
            describe_stand(comm, other, 0, others); /* this rank may itself have changed its state meanwhile */
            if (kolo_ranks_have(logged, other) || (other != rank && strcmp(others, stand) != 0))
                continue;
            kolo_ranks_add(logged, other);
            kolo_ranks_add(alike, kolo_rank_global(comm, other));
        }
        kolo_ranks_list(alike, list, sizeof list);
        kolo_log(comm->log_level, level, (int)comm->global_rank, "  rank %s: %s", list, stand);
        lines++;
    }
    const uint32_t more = comm->size - kolo_ranks_count_below(logged, comm->size);
    if (more)
        kolo_log(comm->log_level, level, (int)comm->global_rank, "  and %u more ranks", more);
}

void kolo_history_log(const kolo_comm *comm, kolo_log_level level) {
    const int64_t now_ns = kolo_clock_ns();
    if (comm->log_level < level)
        return;
    kolo_log(comm->log_level, level, (int)comm->global_rank, "where the ranks stood:");
    if (comm->size > STANDS_MAX) {
        log_groups(comm, level);
        return;
    }
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        char stand[STAND_BYTES];
        describe_stand(comm, rank, now_ns, stand);
        kolo_log(comm->log_level, level, (int)comm->global_rank, "  rank %u (pid %u): %s", kolo_rank_global(comm, rank),
                 comm->segment.members[rank].process.pid, stand);
    }
}
