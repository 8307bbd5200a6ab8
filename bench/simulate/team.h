/* A team: the communicators of all ranks, in one address space. What comm/creation/ makes of processes that meet, but
 * for the meeting. An arena holds all that ranks share: the segment, one for each lane if ranks have several, and
 * behind it two buffers a rank, `send` and `recv`, as two calls of kolo_alloc would give them. One team at a time. */
#pragma once

#include "comm/comm.h"

enum { TEAM_BUFFERS_ALIGNMENT = 65536 }; /* whole pages, whatever a page's size is */

typedef struct team_shape {
    uint32_t ranks;
    uint32_t lanes; /* of each; 0 is 1, too */
    size_t slot_bytes;
    size_t buffer_bytes; /* of one send or recv; those begin at a multiple of TEAM_BUFFERS_ALIGNMENT */
    struct kolo_shared_settings settings;
    bool has_heap; /* the buffers are known as kolo_alloc's */
} team_shape;

/* The parts of the arena, in their order: those of a segment, which every lane has, and the buffers. All but the first
 * have a piece for each rank. */
typedef enum team_part {
    TEAM_HEADER,
    TEAM_MEMBERS,
    TEAM_SIGNALS,
    TEAM_HISTORIES,
    TEAM_LINES,
    TEAM_SLOTS,
    TEAM_SEND,
    TEAM_RECV,
    TEAM_PARTS
} team_part;

typedef struct team_layout {
    size_t begin[TEAM_PARTS + 1]; /* of each part, in lane 0; the last is where the arena ends */
    size_t segment_bytes;         /* from a lane's segment to the next one's */
    size_t piece[TEAM_PARTS];     /* bytes of one rank */
} team_layout;

team_layout team_layout_of(const team_shape *shape);

/* Makes the team in an arena, of which it zeroes and fills what lies before the slots. 0, or -1 if there is no memory.
 * kolo_reducer_select is the caller's or the library's. */
int team_create(const team_shape *shape, uint8_t *arena);
void team_destroy(void);

kolo_comm *team_comm(uint32_t rank);

/* Where a lane's segment begins, and how much of it lies before the slots. */
uint8_t *team_segment(uint32_t lane);
size_t team_flags_bytes(void);

/* A rank's piece of a part, in lane 0; and how large each is. */
uint8_t *team_piece(team_part part, uint32_t rank);
size_t team_piece_bytes(team_part part);

typedef struct team_place {
    team_part part;
    uint32_t lane; /* 0 of a buffer */
    uint32_t rank;
    size_t offset; /* in the rank's piece */
} team_place;

/* False: the address is not in the arena. */
bool team_find(const void *address, team_place *place);

/* "progress of rank 2", "bytes 0 to 128 of slot 1 of rank 0 in lane 2". */
void team_describe(const void *address, size_t bytes, char *text, size_t text_bytes);
