/* The communicators of all ranks in the arena of sched_memory.h, and what a run sets up in them. */
#pragma once

#include "team.h"

enum { SCHED_SLOT_BYTES = 4096, SCHED_BUFFER_BYTES = 8192 };

/* How a team is made. */
typedef struct sched_shape {
    team_shape team;
    bool publisher_fences; /* as where membarrier is refused */
    uint32_t spins, yields;
    uint64_t first_ticket; /* as if calls had been made before */
} sched_shape;

void sched_team_create(const sched_shape *shape);

/* What lies at an address of the arena. */
typedef enum sched_word {
    SCHED_WORD_OTHER,
    SCHED_WORD_PROGRESS,
    SCHED_WORD_STAMP,
    SCHED_WORD_CALLS,
    SCHED_WORD_KEY, /* of the history */
    SCHED_WORD_SLEEPERS,
    SCHED_WORD_RINGS,
    SCHED_WORD_ROUND,
    SCHED_WORD_SLOT, /* or one of many in it */
    SCHED_WORD_FAILURE,
    /* of a table */
    SCHED_WORD_REACHED,
    SCHED_WORD_PENDING,
    SCHED_WORD_PLACE,
    SCHED_WORD_FILLED,
    SCHED_WORD_TAKEN,
    SCHED_WORD_SEQUENCE
} sched_word;

sched_word sched_team_word(const void *address);
