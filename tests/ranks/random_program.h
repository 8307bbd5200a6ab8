/* Random programs: the ranks derive the same calls from the seed, on communicators that the program makes and destroys,
 * and compare every result with the sequential reference.
 *
 * An event of the program is a row of the table in random_program.c: a further kind of call gets a row there. */
#pragma once

#include "harness.h"
#include "reference.h"

/* How ranks wait for requests. What each allows is legal by kolo_requests.h. */
typedef enum program_waits {
    WAITS_ANYHOW,   /* a progress thread carries requests out: each rank waits for what and when it likes */
    WAITS_IN_ORDER, /* without one: each rank waits when it likes, in the order of issue, and blocks only after that */
    WAITS_TOGETHER, /* without one: all ranks wait, and block, at the same places of the program */
    PROGRAM_WAITS
} program_waits;

/* What becomes of some rank, the culprit, on the way; only of processes. */
typedef enum program_loss {
    LOSES_NOTHING,
    LOSES_TIME, /* it stands still at any instruction, for longer than the others have patience */
    GIVES_UP,   /* it has little patience, and the others come late now and then */
    ABORTS,
    LEAVES, /* it destroys its communicators with requests in flight */
    DIES,
    PROGRAM_LOSSES
} program_loss;

struct program {
    program_loss loss;
    int culprit;
    uint32_t loss_position; /* at which it begins */
    program_waits waits;
    uint32_t calls;     /* of each stream */
    int lanes;          /* of each communicator, which kolo's threads use, or the program's */
    bool reads;         /* scatter, allgather and all-to-all, out of the other ranks' memory */
    uint32_t streams;   /* threads of each rank, which run programs of their own on communicators of their own */
    const int *node_of; /* the node of each rank, if ranks are reduced node by node; NULL: in their order */
    bool has_nodes;     /* there are several */
};

/* One call of a communicator of so many ranks, on one node or several, which the reference can follow; `index` is as in
 * struct call. */
struct call call_draw(uint64_t draw, uint32_t index, int ranks, bool has_nodes, kolo_algorithm algorithm);

/* Makes what calls need, before anything else. */
void program_begin(void);

/* How many ranks the program of the present seed has, how they wait, and with what their communicator is made. */
void program_draw(struct program *program, struct team *team);

/* And what becomes of one of them. */
void program_draw_loss(struct program *program, struct team *team);

/* Prints the same. */
void program_tell(const struct program *program, const struct team *team);

/* Runs the program on the communicator of all ranks of the team, which stays the caller's. */
void program_run(const struct rank *rank, kolo_comm *world, const struct program *program);

/* Random programs in which one rank makes one call that differs: in anything, at any place, blocking or in the
 * background, in memory of kolo_alloc or not; or sends a message that does not fit the receive. Every rank gets
 * KOLO_ERR_MISMATCH, after at most as many calls as kolo_collectives.h allows, in the words of both calls; what
 * succeeded before has the bits of the reference. */

/* Tries so many, each on a copy of the rank's communicator, which has one node or several; node_of is as in struct
 * program. */
void mismatches_run(const struct rank *rank, uint32_t cases, bool has_nodes, const int *node_of);

/* Messages between two ranks in a random program: what one event of it does, blocking or in the background. */

/* Sends and receives among all ranks of the communicator, as `draw` says, which is the same on all of them; `mine` is
 * each rank's own. All that is sent is received. */
bool messages_run(const struct rank *rank, kolo_comm *comm, uint32_t position, uint64_t draw, uint64_t *mine);

/* A call in the background. */
struct posted;

enum { POSTED_MAX = 4 };

/* The same in the background. The calls that were issued are in posted[] and requests[]; false: one could not be. */
bool messages_post(const struct rank *rank, kolo_comm *comm, uint32_t position, uint64_t draw, uint64_t *mine,
                   struct posted *posted[POSTED_MAX], kolo_request *requests[POSTED_MAX], int *count);

/* Expects that the call has received what it should, where it receives, and frees it. */
bool posted_check(struct posted *posted, int status);
void posted_free(struct posted *posted);
