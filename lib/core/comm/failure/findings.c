/* The search for the first item that two ranks pass differently and for the last rank; warnings of long waits. */
#include "comm/failure/findings.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "comm/step/history.h"

#define SHOWN_NS (1000 * KOLO_NS_PER_MS) /* ranks that wait look for a failure at least every KOLO_SLICE_NS */
#define LOOK_NS  KOLO_NS_PER_MS

enum { SPAN_MAX = 32 * 32 * 32 }; /* items of a word of the first level */

static_assert(KOLO_SHOWN_WORDS == 32 && KOLO_SHOWN_LEVELS == 4, "those of the last level are of one item");

static struct kolo_shared_difference *shown_by(const kolo_comm *comm, uint32_t rank) {
    return &comm->first->segment.members[rank].difference;
}

/* Shows the items from `first` on, `span` items in each word. */
static void show(kolo_comm *comm, uint32_t level, size_t first, size_t span) {
    const struct kolo_items *items = &comm->call.items;
    struct kolo_shared_difference *own = shown_by(comm, comm->rank);
    if (level == 0)
        own->kind = kolo_items_kind(items);
    for (size_t i = 0; i < KOLO_SHOWN_WORDS; i++) {
        const size_t begin = first + i * span;
        own->words[level][i] = span > 1               ? kolo_items_digest(items, begin, begin + span, 0)
                               : begin < items->count ? items->item(items->context, begin).value
                                                      : 0;
    }
    kolo_publish(&comm->waiter, &own->levels, level + 1, &own->bell); /* pairs with await */
}

/* Waits until `rank` has shown that level. Returns whether it has, with items of the same kind as this rank's. */
static bool await(const kolo_comm *comm, uint64_t call, uint32_t rank, uint32_t level, int64_t until_ns) {
    struct kolo_shared_difference *theirs = shown_by(comm, rank);
    for (;;) {
        const bool has_left = kolo_load_acquire(&comm->segment.signals[rank].ended) >= call;
        if (kolo_load_acquire(&theirs->levels) > level) /* pairs with show */
            return theirs->kind == kolo_items_kind(&comm->call.items);
        if (has_left || kolo_clock_ns() >= until_ns)
            return false;
        kolo_wait_briefly(&theirs->levels, level + 1, &theirs->bell, LOOK_NS);
    }
}

static void put_into_words(kolo_comm *comm, size_t index, const uint64_t values[2], const uint32_t names[2]) {
    const struct kolo_items *items = &comm->call.items;
    char name[KOLO_ITEM_TEXT_BYTES], value[2][KOLO_ITEM_TEXT_BYTES];
    if (index >= items->count)
        return;
    const struct kolo_item item = items->item(items->context, index);
    kolo_item_name(items, index, name);
    for (int i = 0; i < 2; i++)
        kolo_item_value(&item, values[i], value[i]);
    snprintf(comm->first->difference, sizeof comm->first->difference, "; %s is %s on rank %u, %s on rank %u", name,
             value[0], names[0], value[1], names[1]);
    kolo_store_release(&comm->first->has_difference, 1); /* pairs with the description of a failure */
}

void kolo_difference_find(kolo_comm *comm, uint64_t call, const uint32_t ranks[2], const uint32_t names[2]) {
    const int64_t until_ns = kolo_clock_ns() + SHOWN_NS;
    size_t first = 0, span = SPAN_MAX;
    uint64_t values[2] = {0};
    for (uint32_t level = 0; level < KOLO_SHOWN_LEVELS; level++, span /= KOLO_SHOWN_WORDS) {
        uint32_t same = 0;
        if (comm->rank == ranks[0] || comm->rank == ranks[1])
            show(comm, level, first, span);
        for (int i = 0; i < 2; i++)
            if (!await(comm, call, ranks[i], level, until_ns))
                return;
        for (; same < KOLO_SHOWN_WORDS; same++) {
            values[0] = shown_by(comm, ranks[0])->words[level][same];
            values[1] = shown_by(comm, ranks[1])->words[level][same];
            if (values[0] != values[1])
                break;
        }
        if (same == KOLO_SHOWN_WORDS)
            return;
        first += same * span;
    }
    put_into_words(comm, first, values, names);
}

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
        const bool on_others = comm->nodes && last == 0; /* a leader: for other machines */
        for (uint32_t rank = 0; next == KOLO_RANKS_MAX && !on_others && rank < comm->size; rank++)
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

uint32_t kolo_progress_report_last(const kolo_comm *comm, const struct kolo_wait *wait) {
    const struct kolo_shared_signal *signals = comm->segment.signals;
    const uint32_t peer = kolo_peer_rank(wait->peer);
    uint32_t last = peer;
    if (!wait->bell) /* of kolo_failure_look: between collectives steps say nothing */
        return peer;
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
    /* It may wait for a message of another one that is as far; not for one that is ahead, whose message has come. */
    const uint32_t awaited = follow(comm, last);
    return kolo_load_acquire(&signals[awaited].calls) > last_calls ? last : awaited;
}

uint32_t kolo_progress_report_node(const kolo_comm *comm, const struct kolo_wait *wait) {
    uint64_t node = 0;
    for (uint32_t i = 0; wait->peer == KOLO_PEER_PROXY && i < KOLO_LANES_MAX; i++)
        if (wait->flag == &comm->segment.internode->lanes[i].done)
            node = kolo_load_relaxed(&comm->segment.internode->lanes[i].late);
    return comm->nodes && node <= comm->nodes->nodes ? (uint32_t)node : 0;
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
    *text = '\0';
    for (uint32_t first = 0, next; first < comm->size; first = next) {
        const uint64_t calls = kolo_load_acquire(&signals[first].calls);
        const uint64_t step = kolo_load_acquire(&signals[first].progress);
        for (next = first + 1; next < comm->size && kolo_load_acquire(&signals[next].calls) == calls &&
                               kolo_load_acquire(&signals[next].progress) == step;)
            next++;
        kolo_text_add(text, text_bytes, "%srank %u", *text ? "; " : "", kolo_rank_global(comm, first));
        if (next - first > 1)
            kolo_text_add(text, text_bytes, "-%u", kolo_rank_global(comm, next - 1));
        kolo_text_add(text, text_bytes, ": call %" PRIu64 ", step %" PRIu64, calls, step);
    }
}

static void warn(kolo_comm *comm, const struct kolo_wait *wait) {
    const uint32_t late = kolo_progress_report_last(comm, wait);
    const char activity = kolo_liveness_activity(&comm->liveness, late);
    const uint64_t calls = kolo_load_acquire(&comm->segment.signals[late].calls);
    const uint32_t node = kolo_progress_report_node(comm, wait);
    char call[KOLO_CALL_TEXT_BYTES], whom[200], where[600];
    kolo_call_key_describe(kolo_channels_busy(&comm->channels) ? comm->channels.own : kolo_call_key_now(comm), call);
    list_ranks(comm, where, sizeof where);
    if (node && activity != 'T')
        snprintf(whom, sizeof whom, "node %u (rank %u)", node - 1, kolo_nodes_rank(comm->nodes, node - 1, 0));
    else
        snprintf(whom, sizeof whom, "rank %u (pid %u), which is %s and %s %" PRIu64, kolo_rank_global(comm, late),
                 comm->segment.members[late].process.pid, kolo_progress_report_activity(activity),
                 calls < comm->call.number ? "has come as far as call" : "is in call", calls);
    kolo_log(comm->log_level, KOLO_LOG_WARN, (int)comm->global_rank,
             "has waited %.1f s in call %" PRIu64 " (%s) for %s; begun so far: %s", (double)wait->waited_ns * 1e-9,
             comm->call.number, call, whom, where);
}

void kolo_progress_report_warn(kolo_comm *comm, const struct kolo_wait *wait) {
    struct kolo_stall *stall = &comm->stall;
    if (stall->warn_ns == 0 || wait->waited_ns < stall->warn_ns)
        return;
    if (stall->wait != comm->waiter.slept || stall->next_ns == 0) { /* no wait has slept yet */
        stall->wait = comm->waiter.slept;
        stall->next_ns = stall->warn_ns;
    }
    if (wait->waited_ns < stall->next_ns)
        return;
    while (stall->next_ns <= wait->waited_ns)
        stall->next_ns *= 2;
    warn(comm, wait);
}
