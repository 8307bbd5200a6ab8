#include "sched_team.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "comm/failure/failure.h"
#include "comm/step/history.h"
#include "reduce/instances.h"
#include "sched_control.h"
#include "sched_engine.h"
#include "sched_memory.h"

enum { TIMEOUT_NS = 1000000000, SEND = 0, RECV = 1, PID_FIRST = 1000 };

static struct {
    uint32_t ranks;
    struct kolo_layout layout;
    kolo_comm comms[SCHED_RANKS_MAX];
    struct kolo_token tokens[SCHED_RANKS_MAX];
} team;

/* In place of reduce/reducer.c: the portable instance is the only one that is instrumented. */
const kolo_reducer *kolo_reducer_select(uint32_t features) {
    (void)features;
    return &kolo_reducer_portable;
}

static uint8_t *buffers(int which) {
    return sched_memory_arena() + team.layout.bytes + (size_t)which * team.ranks * SCHED_BUFFER_BYTES;
}

uint8_t *sched_team_send(uint32_t rank) {
    return buffers(SEND) + (size_t)rank * SCHED_BUFFER_BYTES;
}

uint8_t *sched_team_recv(uint32_t rank) {
    return buffers(RECV) + (size_t)rank * SCHED_BUFFER_BYTES;
}

kolo_comm *sched_team_comm(uint32_t rank) {
    return &team.comms[rank];
}

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(KOLO_PAGE_BYTES, kolo_whole_pages(bytes));
    if (!memory)
        abort();
    memset(memory, 0, bytes);
    return memory;
}

static void add_heap(kolo_comm *comm) {
    for (int which = SEND; which <= RECV; which++) {
        const struct kolo_region region = {
            .base = buffers(which), .part_bytes = SCHED_BUFFER_BYTES, .parts = team.ranks};
        if (kolo_heap_reserve(&comm->heap) < 0)
            abort();
        kolo_heap_add(&comm->heap, &region);
    }
}

static void fill_comm(kolo_comm *comm, uint32_t rank, const sched_shape *shape) {
    *comm = (kolo_comm){.rank = rank,
                        .size = shape->ranks,
                        .global_rank = rank,
                        .global_size = shape->ranks,
                        .token = &team.tokens[rank]};
    *comm->token = (struct kolo_token){.usable = true, .ours = true};
    comm->reducer = kolo_reducer_select(0);
    kolo_segment_view(&comm->segment, sched_memory_arena(), shape->ranks, SCHED_SLOT_BYTES, false);
    comm->signal = &comm->segment.signals[rank];
    comm->history = &comm->segment.histories[rank];
    comm->settings = shape->settings;
    comm->lines_bytes_end = kolo_plan_lines_bytes_end(&shape->settings);
    comm->peer_steps = allocate(shape->ranks * sizeof *comm->peer_steps);
    comm->sources = allocate(shape->ranks * sizeof *comm->sources);
    comm->targets = allocate(shape->ranks * sizeof *comm->targets);
    comm->unpacked = allocate(shape->ranks * sizeof(struct kolo_shared_lines) / 2);
    comm->stage = allocate(KOLO_STREAMED_PIECE_BYTES);
    comm->waiter = (kolo_waiter){.spins = shape->spins,
                                 .spins_max = shape->spins,
                                 .yields = shape->yields,
                                 .publisher_fences = shape->publisher_fences,
                                 .timeout_ns = TIMEOUT_NS,
                                 .check = kolo_failure_check,
                                 .note = kolo_history_note_wait,
                                 .owner = comm};
    comm->ticket = shape->first_ticket;
    if (sched_breaks(SCHED_TURN_WRONG) && rank == 1)
        comm->ticket += KOLO_SLOTS;
    if (kolo_liveness_create(&comm->liveness, shape->ranks) < 0)
        abort();
    if (shape->has_heap)
        add_heap(comm);
}

void sched_team_create(const sched_shape *shape) {
    team.ranks = shape->ranks;
    team.layout = kolo_layout_compute(shape->ranks, SCHED_SLOT_BYTES, false);
    if (team.layout.bytes + 2 * (size_t)shape->ranks * SCHED_BUFFER_BYTES > SCHED_ARENA_BYTES)
        abort();
    memset(sched_memory_arena(), 0, team.layout.slots);
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        fill_comm(&team.comms[rank], rank, shape);
        struct kolo_shared_member *member = &team.comms[0].segment.members[rank];
        member->process.pid = PID_FIRST + rank;
        atomic_store(&member->state, KOLO_MEMBER_PRESENT);
    }
    team.comms[0].segment.header->ranks = shape->ranks;
    team.comms[0].segment.header->settings = shape->settings;
}

void sched_team_destroy(void) {
    for (uint32_t rank = 0; rank < team.ranks; rank++) {
        kolo_comm *comm = &team.comms[rank];
        free(comm->peer_steps);
        free(comm->sources);
        free(comm->targets);
        free(comm->unpacked);
        free(comm->stage);
        free(comm->heap.regions);
        kolo_liveness_destroy(&comm->liveness, true);
    }
}

/* Offset of `address` within an array of `stride` bytes a rank from `base` on; *rank is whose. -1: not in it. */
static ptrdiff_t offset_in(const void *base, size_t stride, const void *address, uint32_t *rank) {
    const ptrdiff_t offset = (const uint8_t *)address - (const uint8_t *)base;
    if (offset < 0 || (size_t)offset >= stride * team.ranks)
        return -1;
    *rank = (uint32_t)((size_t)offset / stride);
    return (ptrdiff_t)((size_t)offset % stride);
}

sched_word sched_team_word(const void *address) {
    const struct kolo_segment *segment = &team.comms[0].segment;
    uint32_t rank;
    const ptrdiff_t signal = offset_in(segment->signals, sizeof *segment->signals, address, &rank);
    if (signal == offsetof(struct kolo_shared_signal, progress))
        return SCHED_WORD_PROGRESS;
    if (signal >= (ptrdiff_t)offsetof(struct kolo_shared_signal, stamps) &&
        signal < (ptrdiff_t)offsetof(struct kolo_shared_signal, places))
        return SCHED_WORD_STAMP;
    if (signal == offsetof(struct kolo_shared_signal, calls))
        return SCHED_WORD_CALLS;
    const ptrdiff_t history = offset_in(segment->histories, sizeof *segment->histories, address, &rank);
    if (history >= 0 && history < (ptrdiff_t)offsetof(struct kolo_shared_history, records))
        return SCHED_WORD_CALL;
    if (signal == offsetof(struct kolo_shared_signal, bell.sleepers))
        return SCHED_WORD_SLEEPERS;
    if (signal == offsetof(struct kolo_shared_signal, bell.rings))
        return SCHED_WORD_RINGS;
    const ptrdiff_t line = offset_in(segment->lines, sizeof *segment->lines, address, &rank);
    if (line >= 0 && line % (ptrdiff_t)sizeof(struct kolo_shared_line) == 0)
        return SCHED_WORD_ROUND;
    if (offset_in(segment->slots, (size_t)KOLO_SLOTS * SCHED_SLOT_BYTES, address, &rank) >= 0)
        return SCHED_WORD_SLOT;
    return address == (const void *)&segment->header->failure ? SCHED_WORD_FAILURE : SCHED_WORD_OTHER;
}

static void describe_signal(ptrdiff_t offset, uint32_t rank, char *text, size_t text_bytes) {
    static const struct {
        size_t begin;
        const char *name;
    } parts[] = {{offsetof(struct kolo_shared_signal, progress), "progress"},
                 {offsetof(struct kolo_shared_signal, stamps), "stamps"},
                 {offsetof(struct kolo_shared_signal, places), "places"},
                 {offsetof(struct kolo_shared_signal, bell.sleepers), "sleepers"},
                 {offsetof(struct kolo_shared_signal, bell.rings), "rings"},
                 {offsetof(struct kolo_shared_signal, calls), "calls"},
                 {offsetof(struct kolo_shared_signal, waiting), "waiting"}};
    size_t part = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].begin <= (size_t)offset)
            part = i;
    snprintf(text, text_bytes, "%s%+td of rank %" PRIu32, parts[part].name, offset - (ptrdiff_t)parts[part].begin,
             rank);
    char *zero = strstr(text, "+0 of");
    if (zero)
        memmove(zero, zero + 2, strlen(zero + 2) + 1);
}

void sched_team_describe(const void *address, char *text, size_t text_bytes) {
    const struct kolo_segment *segment = &team.comms[0].segment;
    const size_t line_bytes = sizeof(struct kolo_shared_line), slots_bytes = (size_t)KOLO_SLOTS * SCHED_SLOT_BYTES;
    uint32_t rank;
    ptrdiff_t at;
    if ((at = offset_in(segment->signals, sizeof *segment->signals, address, &rank)) >= 0)
        describe_signal(at, rank, text, text_bytes);
    else if ((at = offset_in(segment->lines, sizeof *segment->lines, address, &rank)) >= 0)
        snprintf(text, text_bytes, "byte %zu of line %zu of set %zu of rank %" PRIu32, (size_t)at % line_bytes,
                 (size_t)at / line_bytes % KOLO_LINES, (size_t)at / line_bytes / KOLO_LINES, rank);
    else if ((at = offset_in(segment->slots, slots_bytes, address, &rank)) >= 0)
        snprintf(text, text_bytes, "byte %zu of slot %zu of rank %" PRIu32, (size_t)at % SCHED_SLOT_BYTES,
                 (size_t)at / SCHED_SLOT_BYTES, rank);
    else if ((at = offset_in(buffers(SEND), SCHED_BUFFER_BYTES, address, &rank)) >= 0)
        snprintf(text, text_bytes, "byte %td of send of rank %" PRIu32, at, rank);
    else if ((at = offset_in(buffers(RECV), SCHED_BUFFER_BYTES, address, &rank)) >= 0)
        snprintf(text, text_bytes, "byte %td of recv of rank %" PRIu32, at, rank);
    else if ((at = offset_in(segment->members, sizeof *segment->members, address, &rank)) >= 0)
        snprintf(text, text_bytes, "byte %td of member %" PRIu32, at, rank);
    else if (address == (const void *)&segment->header->failure)
        snprintf(text, text_bytes, "the failure");
    else
        snprintf(text, text_bytes, "byte %td of the segment", (const uint8_t *)address - sched_memory_arena());
}
