/* A random MPI program. All ranks draw the same events from the same seed and go through them in the same order, some
 * ranks late. A rank fills its buffers of a collective with rubbish as soon as that is over. What is begun at an event
 * may be completed at any later one, where each rank likes. No rank waits for what another has not begun at an event
 * that is no later, so that only a library that makes no progress can hang. */
#pragma once

#include "mpi_calls.h"

enum { GROUPS_MAX = 5, WINDOWS_MAX = 2, PENDING_MAX = 64, SLOT_INTS = 20000 };

/* A communicator, or those that one split has made: then ranks differ in who is with them. */
struct group {
    bool exists;   /* the same on all ranks */
    MPI_Comm comm; /* MPI_COMM_NULL: this rank is in none */
    int size, rank;
    int members[MPI_RANKS_MAX]; /* in ranks of the world */
    uint64_t draw;              /* the same on its ranks */
};

enum pending_kind { PENDING_SEND, PENDING_RECEIVE, PENDING_SUM, PENDING_BROADCAST, PENDING_BARRIER };

/* What has been begun and not completed. */
struct pending {
    MPI_Request request;
    enum pending_kind kind;
    int group, position, source, count;
    uint64_t draw;
    int32_t *sent, *received; /* freed when it's completed */
};

/* Memory that ranks of a group reach into: a counter and integers for each of them. */
struct window {
    bool exists, has_fences;
    int group;
    MPI_Win win;
    int64_t *memory;
    int64_t more;                 /* is being added to a counter */
    int64_t added[MPI_RANKS_MAX]; /* by this rank, to its counter at each target */
};

struct event {
    int position, group;
    uint64_t draws[4];
};

struct state {
    uint64_t seed;
    int programs; /* what --programs said */
    struct event event;
    const char *doing;
    struct group groups[GROUPS_MAX]; /* the first is the world */
    struct window windows[WINDOWS_MAX];
    struct pending pending[PENDING_MAX];
    int pendings;
    uint64_t mine; /* random numbers of this rank alone */
};

/* Ends the job with a message and the command that repeats the program, unless it is right. */
void require(const struct state *state, bool right, const char *format, ...) __attribute__((format(printf, 3, 4)));
void require_success(const struct state *state, int code, const char *function);

int32_t random_number(uint64_t draw, int source, int index);
int32_t *random_numbers(uint64_t draw, int source, int count);
uint64_t group_draw(const struct state *state, int which); /* differs between the groups of a split */

/* Completing. */
struct pending *pending_add(struct state *state, enum pending_kind kind);
void complete_some(struct state *state);
void complete_group(struct state *state, int group);
void complete_all(struct state *state);

/* Events; each is in a group that exists, and does nothing in a rank that isn't in it. */
void run_collective(struct state *state);
void run_background_collective(struct state *state);
void run_message(struct state *state);
void run_exchange(struct state *state);
void run_wildcards(struct state *state);
void run_window(struct state *state);
void run_group(struct state *state);
void end_windows(struct state *state);
void end_groups(struct state *state);
