/* The communicators of all ranks in the arena of sched_memory.h: what comm/creation/create.c makes of processes that
 * meet, but for the meeting. Behind the segment lie two buffers a rank, as two calls of kolo_alloc would give them. */
#ifndef SCHED_TEAM_H
#define SCHED_TEAM_H

#include "comm/comm.h"

enum { SCHED_SLOT_BYTES = 4096, SCHED_BUFFER_BYTES = 8192 };

/* How a team is made. */
typedef struct sched_shape {
    uint32_t ranks;
    struct kolo_shared_settings settings;
    bool has_heap;         /* the buffers are known as kolo_alloc's */
    bool publisher_fences; /* as where membarrier is refused */
    uint32_t spins, yields;
    uint64_t first_ticket; /* as if calls had been made before */
} sched_shape;

void sched_team_create(const sched_shape *shape);
void sched_team_destroy(void);

kolo_comm *sched_team_comm(uint32_t rank);
uint8_t *sched_team_send(uint32_t rank);
uint8_t *sched_team_recv(uint32_t rank);

/* What lies at an address of the arena. */
typedef enum sched_word {
    SCHED_WORD_OTHER,
    SCHED_WORD_PROGRESS,
    SCHED_WORD_STAMP,
    SCHED_WORD_CALLS,
    SCHED_WORD_CALL, /* of the history */
    SCHED_WORD_SLEEPERS,
    SCHED_WORD_RINGS,
    SCHED_WORD_ROUND,
    SCHED_WORD_SLOT, /* or one of many in it */
    SCHED_WORD_FAILURE
} sched_word;

sched_word sched_team_word(const void *address);

/* "progress of rank 2", "byte 128 of slot 1 of rank 0". */
void sched_team_describe(const void *address, char *text, size_t text_bytes);

#endif
