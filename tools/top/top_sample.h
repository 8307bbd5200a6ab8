/* What kolo-top knows of communicators and tables: each reading, and what lies between it and the one before.
 *
 * Waits beyond spinning are what counts as waiting. How long a rank waited in all is exact; for whom is known of the
 * longest wait of each of its last 64 calls, and of the present wait. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kolo_watch.h"

typedef struct top_rank {
    kolo_watched_rank seen;
    kolo_watched_call last_calls[KOLO_WATCH_CALLS]; /* those that can be read, from the oldest on */
    int last_calls_count;
    double cpu_s; /* user and system time of its process; -1: it has none any more */
    double calls_per_s;
    double bytes_per_s;
    double cpu_share;      /* of one CPU in the interval; above 1 if several threads ran; -1: not known */
    double waiting_share;  /* of the interval, 0 .. 1 */
    double spinning_share; /* in which it waited and did not sleep: at most that much of cpu_share */
    double awaited_share;  /* what the others waited for it */
    double waited_known_s; /* in the interval, of waits of which it is known for whom */
    int waited_most_for;   /* a rank; -1: none */
} top_rank;

typedef struct top_comm {
    kolo_watched_comm seen;
    top_rank *ranks;
    double interval_s; /* since the reading before; 0: there was none */
    int straggler;     /* a rank; -1: nobody was waited for */
} top_comm;

typedef struct top_table_rank {
    kolo_watched_table_rank seen;
    double pulled_per_s, pushed_per_s, applied_per_s; /* pieces */
    double waiting_share;                             /* of the interval, 0 .. 1 */
} top_table_rank;

typedef struct top_table {
    kolo_watched_table seen;
    top_table_rank *ranks; /* none if it cannot be read */
    double interval_s;     /* as in top_comm */
} top_table;

/* A watch, and what it has found: how many of each there are to read. */
typedef struct top_watch {
    kolo_watch *watch;
    int comms, tables;
} top_watch;

typedef struct top_sample {
    top_comm *comms;
    int count;
    top_table *tables;
    int tables_count;
} top_sample;

/* Opens a watch of `target` and searches, or closes it and returns a negative KOLO_ERR_*. */
int top_watch_open(top_watch *watched, const char *target);

/* Searches, again. A negative KOLO_ERR_*: no communicator is left. */
int top_watch_search(top_watch *watched);

/* Reads all communicators and tables of `watched`; `before` is the sample before this one. False with a message on
 * standard error.
 */
bool top_sample_take(top_sample *sample, const top_watch *watched, const top_sample *before);

/* Frees what it holds. */
void top_sample_free(top_sample *sample);

/* True if all communicators are over. */
bool top_sample_over(const top_sample *sample);

/* The last call that the rank has begun; NULL: it is not known. */
const kolo_watched_call *top_rank_call(const top_rank *rank);

/* "in call", "waiting", ... */
const char *top_rank_state(const top_rank *rank);

/* Of a table's rank: "working", "waiting", "serving", ... */
const char *top_table_rank_state(const top_table_rank *rank);

/* Parts of the sample, in files of their own. */
bool top_tables_take(top_sample *sample, const top_watch *watched, const top_sample *before);
void top_tables_free(top_sample *sample);

/* How much more it is now, a second; 0: it is not. */
double top_rate(uint64_t now, uint64_t before, double interval_s);
