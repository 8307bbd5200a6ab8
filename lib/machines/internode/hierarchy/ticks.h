/* Ticks: the rhythm of a collective of several nodes, the same for all. In each tick the ranks of a node begin one
 * ticket, and take what has come of an earlier one. See internode/hierarchy/hierarchy.c. */
#ifndef KOLO_INTERNODE_HIERARCHY_TICKS_H
#define KOLO_INTERNODE_HIERARCHY_TICKS_H

#include "comm/step/progress.h"
#include "internode/proxy.h"

enum { KOLO_TICKS_LAG = 3 };

static_assert(KOLO_TICKS_LAG < KOLO_SLOTS, "a ticket is taken before its slots are claimed again");

/* The steps of ticket `ticket` of the call, from 0. */
static inline uint64_t kolo_shown_at(size_t ticket) {
    return 3 * ticket + 1;
}

static inline uint64_t kolo_folded_at(size_t ticket) {
    return 3 * (ticket + 1) + 2;
}

static inline uint64_t kolo_taken_at(size_t ticket) {
    return 3 * (ticket + KOLO_TICKS_LAG) + 3;
}

static inline void kolo_ticks_begin(kolo_comm *comm, size_t tickets) {
    kolo_schedule_begin(comm, kolo_taken_at(tickets - 1), tickets);
}

/* Ends a ticket for this rank. */
static inline void kolo_ticket_end(kolo_comm *comm, size_t ticket) {
    kolo_step_publish(comm, kolo_taken_at(ticket));
    kolo_slot_retire(comm, ticket, kolo_taken_at(ticket));
}

/* Whether the proxies' threads drive the exchanges: if the leader has other work meanwhile, or if there are several
 * lanes, of which it could drive only one at a time. */
static inline bool kolo_ticks_in_background(const kolo_comm *comm, size_t tickets, bool has_work) {
    return (tickets > KOLO_TICKS_LAG && has_work) || (tickets > 1 && comm->internode->lanes > 1);
}

#endif
