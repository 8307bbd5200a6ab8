#include "team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/lanes/lanes.h"
#include "comm/creation/create.h"
#include "plan/plan.h"

enum { PID_FIRST = 1000 };

static struct {
    uint32_t ranks;
    uint32_t lanes; /* at least 1 */
    size_t slot_bytes;
    uint8_t *arena;
    team_layout layout;
    kolo_comm *comms[KOLO_RANKS_MAX];
} team;

static uint32_t lanes_of(const team_shape *shape) {
    return shape->lanes ? shape->lanes : 1;
}

team_layout team_layout_of(const team_shape *shape) {
    const struct kolo_layout segment = kolo_layout_compute(shape->ranks, shape->slot_bytes, false);
    const size_t segment_bytes =
        (segment.allocated + TEAM_BUFFERS_ALIGNMENT - 1) / TEAM_BUFFERS_ALIGNMENT * TEAM_BUFFERS_ALIGNMENT;
    const size_t send = lanes_of(shape) * segment_bytes;
    const size_t recv = send + shape->ranks * shape->buffer_bytes;
    return (team_layout){.begin = {[TEAM_MEMBERS] = segment.members,
                                   [TEAM_SIGNALS] = segment.signals,
                                   [TEAM_HISTORIES] = segment.histories,
                                   [TEAM_LINES] = segment.lines,
                                   [TEAM_SLOTS] = segment.slots,
                                   [TEAM_SEND] = send,
                                   [TEAM_RECV] = recv,
                                   [TEAM_PARTS] = recv + shape->ranks * shape->buffer_bytes},
                         .segment_bytes = segment_bytes,
                         .piece = {[TEAM_HEADER] = segment.members,
                                   [TEAM_MEMBERS] = sizeof(struct kolo_shared_member),
                                   [TEAM_SIGNALS] = sizeof(struct kolo_shared_signal),
                                   [TEAM_HISTORIES] = sizeof(struct kolo_shared_history),
                                   [TEAM_LINES] = sizeof(struct kolo_shared_lines),
                                   [TEAM_SLOTS] = KOLO_SLOTS * shape->slot_bytes,
                                   [TEAM_SEND] = shape->buffer_bytes,
                                   [TEAM_RECV] = shape->buffer_bytes}};
}

static int add_buffers(struct kolo_heap *heap) {
    for (int part = TEAM_SEND; part <= TEAM_RECV; part++) {
        const struct kolo_region region = {
            .base = team_piece((team_part)part, 0), .part_bytes = team.layout.piece[part], .parts = team.ranks};
        if (kolo_heap_reserve(heap) < 0)
            return -1;
        kolo_heap_add(heap, &region);
    }
    return 0;
}

/* Makes lane `lane` of the rank's communicator, of which `first` is lane 0; NULL: it is that itself, or the only one.
 */
static kolo_comm *make_comm(uint32_t rank, uint32_t lane, kolo_comm *first, const team_shape *shape) {
    static const struct kolo_layer_above above; /* nothing */
    const struct kolo_settings settings = {
        .place = {.rank = (int)rank, .size = (int)shape->ranks}, .threads = team.lanes, .lane = lane, .first = first};
    kolo_comm *comm;
    if (kolo_comm_begin(&comm, &settings, &settings.place, &above) < 0)
        return NULL;
    const size_t bytes = kolo_layout_compute(shape->ranks, shape->slot_bytes, false).allocated;
    kolo_segment_view(&comm->segment, team_segment(lane), bytes, shape->ranks, shape->slot_bytes, false);
    comm->liveness.members = comm->segment.members;
    comm->signal = &comm->segment.signals[rank];
    comm->history = &comm->segment.histories[rank];
    comm->settings = shape->settings;
    kolo_plan_lines(&shape->settings, shape->ranks, comm->lines_bytes_end);
    comm->segment.members[rank].process.pid = PID_FIRST + rank;
    atomic_store(&comm->segment.members[rank].state, KOLO_MEMBER_PRESENT);
    return comm;
}

static int add_lanes(kolo_comm *comm, const team_shape *shape) {
    comm->lanes = calloc(1, sizeof *comm->lanes);
    if (!comm->lanes)
        return -1;
    comm->lanes->count = 1;
    comm->lanes->lane[0] = comm;
    comm->lanes->tables = calloc((size_t)team.lanes * 4 * shape->ranks, sizeof *comm->lanes->tables);
    comm->lanes->handed_out = malloc(sizeof *comm->lanes->handed_out);
    if (!comm->lanes->tables || !comm->lanes->handed_out)
        return -1;
    for (uint32_t lane = 1; lane < team.lanes; lane++) {
        comm->lanes->lane[lane] = make_comm(comm->rank, lane, comm, shape);
        if (!comm->lanes->lane[lane])
            return -1;
        comm->lanes->count++;
    }
    kolo_lanes_hand_out(comm);
    return 0;
}

static int add_rank(uint32_t rank, const team_shape *shape) {
    kolo_comm *comm = team.comms[rank] = make_comm(rank, 0, NULL, shape);
    if (!comm || (team.lanes > 1 && add_lanes(comm, shape) < 0))
        return -1;
    return shape->has_heap ? add_buffers(&comm->heap) : 0;
}

int team_create(const team_shape *shape, uint8_t *arena) {
    team.ranks = shape->ranks;
    team.lanes = lanes_of(shape);
    team.slot_bytes = shape->slot_bytes;
    team.arena = arena;
    team.layout = team_layout_of(shape);
    for (uint32_t lane = 0; lane < team.lanes; lane++)
        memset(team_segment(lane), 0, team_flags_bytes());
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        if (add_rank(rank, shape) < 0)
            return -1;
    for (uint32_t lane = 0; lane < team.lanes; lane++) {
        struct kolo_shared_header *header = (void *)team_segment(lane);
        header->ranks = shape->ranks;
        header->slot_bytes = shape->slot_bytes;
        header->settings = shape->settings;
    }
    return 0;
}

static void free_comm(kolo_comm *comm) {
    free(comm->heap.regions);
    comm->heap = (struct kolo_heap){0};
    comm->segment.header = NULL; /* the arena is the caller's */
    kolo_comm_free(comm);
}

void team_destroy(void) {
    for (uint32_t rank = 0; rank < team.ranks && team.comms[rank]; rank++) {
        struct kolo_lanes *lanes = team.comms[rank]->lanes;
        for (uint32_t lane = 1; lanes && lane < lanes->count; lane++)
            free_comm(lanes->lane[lane]);
        if (lanes) {
            free(lanes->handed_out);
            free(lanes->tables);
        }
        free(lanes);
        free_comm(team.comms[rank]);
        team.comms[rank] = NULL;
    }
}

kolo_comm *team_comm(uint32_t rank) {
    return team.comms[rank];
}

uint8_t *team_segment(uint32_t lane) {
    return team.arena + lane * team.layout.segment_bytes;
}

size_t team_flags_bytes(void) {
    return team.layout.begin[TEAM_SLOTS];
}

uint8_t *team_piece(team_part part, uint32_t rank) {
    return team.arena + team.layout.begin[part] + rank * team.layout.piece[part];
}

size_t team_piece_bytes(team_part part) {
    return team.layout.piece[part];
}

bool team_find(const void *address, team_place *place) {
    size_t offset = (uintptr_t)address - (uintptr_t)team.arena;
    uint32_t lane = 0;
    int part = TEAM_RECV;
    if (offset >= team.layout.begin[TEAM_PARTS])
        return false;
    if (offset < team.layout.begin[TEAM_SEND]) {
        lane = (uint32_t)(offset / team.layout.segment_bytes);
        offset %= team.layout.segment_bytes;
    }
    while (offset < team.layout.begin[part])
        part--;
    const size_t within = offset - team.layout.begin[part];
    *place = (team_place){.part = (team_part)part,
                          .lane = lane,
                          .rank = (uint32_t)(within / team.layout.piece[part]),
                          .offset = within % team.layout.piece[part]};
    return true;
}

/* " of rank 2", " of rank 2 in lane 1". */
static void describe_owner(const team_place *place, char *text, size_t text_bytes) {
    if (team.lanes > 1 && place->part < TEAM_SEND)
        snprintf(text, text_bytes, " of rank %u in lane %u", place->rank, place->lane);
    else
        snprintf(text, text_bytes, " of rank %u", place->rank);
}

/* Where in the words of a signal. */
static void describe_signal(const team_place *place, char *text, size_t text_bytes) {
    static const struct {
        size_t begin;
        const char *name;
    } fields[] = {{offsetof(struct kolo_shared_signal, progress), "progress"},
                  {offsetof(struct kolo_shared_signal, stamps), "stamps"},
                  {offsetof(struct kolo_shared_signal, places), "places"},
                  {offsetof(struct kolo_shared_signal, bell.sleepers), "sleepers"},
                  {offsetof(struct kolo_shared_signal, bell.rings), "rings"},
                  {offsetof(struct kolo_shared_signal, calls), "calls"},
                  {offsetof(struct kolo_shared_signal, waiting), "waiting"}};
    char offset[32] = "", of[48];
    size_t field = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].begin <= place->offset)
            field = i;
    if (place->offset > fields[field].begin)
        snprintf(offset, sizeof offset, "+%zu", place->offset - fields[field].begin);
    describe_owner(place, of, sizeof of);
    snprintf(text, text_bytes, "%s%s%s", fields[field].name, offset, of);
}

void team_describe(const void *address, size_t bytes, char *text, size_t text_bytes) {
    static const char *const names[] = {
        [TEAM_HEADER] = "the header", [TEAM_MEMBERS] = "member", [TEAM_HISTORIES] = "history", [TEAM_LINES] = "line",
        [TEAM_SLOTS] = "slot",        [TEAM_SEND] = "send",      [TEAM_RECV] = "recv"};
    team_place place;
    char index[48] = "", of[48] = "";
    if (!team_find(address, &place)) {
        snprintf(text, text_bytes, "what is not shared");
        return;
    }
    if (place.part == TEAM_SIGNALS) {
        describe_signal(&place, text, text_bytes);
        return;
    }
    size_t begin = place.offset;
    if (place.part == TEAM_LINES) {
        const size_t line = begin / sizeof(struct kolo_shared_line);
        snprintf(index, sizeof index, " %zu of set %zu", line % KOLO_LINES, line / KOLO_LINES);
        begin %= sizeof(struct kolo_shared_line);
    } else if (place.part == TEAM_SLOTS) {
        snprintf(index, sizeof index, " %zu", begin / team.slot_bytes);
        begin %= team.slot_bytes;
    }
    if (place.part != TEAM_HEADER)
        describe_owner(&place, of, sizeof of);
    snprintf(text, text_bytes, "bytes %zu to %zu of %s%s%s", begin, begin + bytes, names[place.part], index, of);
}
