/* Ranks as forked processes (forked_team.h): how each ends, while others are waited for or go on, and how long it took.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TEAM_RANKS_MAX = 12 };

struct team {
    int ranks;
    pid_t pids[TEAM_RANKS_MAX];
    bool ended[TEAM_RANKS_MAX];
    int wait_status[TEAM_RANKS_MAX];   /* of those that have ended, as the next */
    int64_t waited_ns[TEAM_RANKS_MAX]; /* see team_held_ns */
    int64_t held_ns;                   /* by how much a short sleep of the parent took too long, at worst */
};

/* Starts the processes, each of which runs `run` and exits with 0. */
void team_start(struct team *team, int ranks, void (*run)(const void *context, int rank), const void *context);

/* Reaps until all but `except` (-1: all) have ended; false if that takes longer than `limit_ns`. */
bool team_await(struct team *team, int except, int64_t limit_ns);

/* Kills and reaps whoever has not ended. */
void team_kill(struct team *team);

/* Whether this process has children. */
bool team_is_left(void);

/* How long this process could have run while another had the processor, since it began: 0 where the kernel does not
 * tell. The descriptor, -1 there, is for the other's argument. */
int team_held_open(void);
int64_t team_held_ns(int fd);

/* The same of another rank that has not been reaped. */
int64_t team_waited_ns(const struct team *team, int rank);

int64_t now_ns(void);

/* Makes this process one whose files no other one of the same user can open through /proc. */
void team_hide(void);

/* Times of one kind, and how they are distributed. */

struct times {
    int64_t *ns;
    size_t count;
    size_t capacity;
};

void times_add(struct times *times, int64_t ns);

/* The time that `percent` of them do not exceed: nearest rank. At least one must be there. */
int64_t times_percentile(struct times *times, double percent);

/* "killed           412   min 0.1  median 5.2  p99 11.0  max 14.2 ms"; nothing where there are none. */
void times_print(struct times *times, const char *name);
