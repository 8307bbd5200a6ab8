#include "sched_team.h"

#include <stdlib.h>

#include "comm/failure/failure.h"
#include "comm/step/history.h"
#include "reduce/instances.h"
#include "sched_control.h"
#include "sched_memory.h"
#include "sched_table.h"

enum { TIMEOUT_NS = 1000000000 };

/* In place of reduce/reducer_choice.c: the portable instance is the only one that is instrumented. */
const kolo_reducer *kolo_reducer_select(uint32_t features) {
    (void)features;
    return &kolo_reducer_portable;
}

void sched_team_create(const sched_shape *shape) {
    if (team_layout_of(&shape->team).begin[TEAM_PARTS] > SCHED_ARENA_BYTES ||
        team_create(&shape->team, sched_memory_arena()) != 0)
        abort();
    for (uint32_t rank = 0; rank < shape->team.ranks; rank++) {
        kolo_comm *comm = team_comm(rank);
        comm->waiter = (kolo_waiter){.spins = shape->spins,
                                     .spins_max = shape->spins,
                                     .yields = shape->yields,
                                     .publisher_fences = shape->publisher_fences,
                                     .timeout_ns = TIMEOUT_NS,
                                     .check = kolo_failure_check,
                                     .note = kolo_history_note_wait,
                                     .owner = comm};
        comm->call.ticket = shape->first_ticket;
        if (sched_breaks(SCHED_TURN_WRONG) && rank == 1)
            comm->call.ticket += KOLO_SLOTS;
    }
}

static sched_word signal_word(size_t offset) {
    switch (offset) {
    case offsetof(struct kolo_shared_signal, progress):
        return SCHED_WORD_PROGRESS;
    case offsetof(struct kolo_shared_signal, calls):
        return SCHED_WORD_CALLS;
    case offsetof(struct kolo_shared_signal, bell.sleepers):
        return SCHED_WORD_SLEEPERS;
    case offsetof(struct kolo_shared_signal, bell.rings):
        return SCHED_WORD_RINGS;
    default:
        return (offset >= offsetof(struct kolo_shared_signal, stamps) &&
                offset < offsetof(struct kolo_shared_signal, places)) ||
                       offset >= offsetof(struct kolo_shared_signal, all_stamps)
                   ? SCHED_WORD_STAMP
                   : SCHED_WORD_OTHER;
    }
}

sched_word sched_team_word(const void *address) {
    team_place place;
    if (!team_find(address, &place))
        return sched_table_word(address);
    switch (place.part) {
    case TEAM_HEADER:
        return place.offset == offsetof(struct kolo_shared_header, failure) ? SCHED_WORD_FAILURE : SCHED_WORD_OTHER;
    case TEAM_SIGNALS:
        return signal_word(place.offset);
    case TEAM_HISTORIES:
        return place.offset < offsetof(struct kolo_shared_history, records) ? SCHED_WORD_KEY : SCHED_WORD_OTHER;
    case TEAM_LINES:
        return place.offset % sizeof(struct kolo_shared_line) == 0 ? SCHED_WORD_ROUND : SCHED_WORD_OTHER;
    case TEAM_SLOTS:
        return SCHED_WORD_SLOT;
    default:
        return SCHED_WORD_OTHER;
    }
}
