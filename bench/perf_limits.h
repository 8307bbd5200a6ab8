/* Measuring what the hardware allows: single pieces of work that collectives cannot do without, each done alone and in
 * the fastest of several ways. perf_bound.h makes of them the time below which a call cannot fall. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "perf_team.h"

enum { PERF_CURVE_POINTS_MAX = 16, PERF_PAIRS_CPUS_MAX = 64 };

/* Time as a function of size, at growing sizes. */
typedef struct perf_curve {
    int points;
    size_t bytes[PERF_CURVE_POINTS_MAX];
    double us[PERF_CURVE_POINTS_MAX];
    const char *way[PERF_CURVE_POINTS_MAX]; /* the fastest one's name */
} perf_curve;

typedef struct perf_latency {
    double ns;
    double min_ns; /* of the fastest round */
} perf_latency;

typedef enum perf_piece {
    PERF_LATENCY, /* hop, exchange, ahead */
    PERF_PAIRS,   /* the hop of each pair of the first CPUs */
    PERF_HANDOVER,
    /* Curves: */
    PERF_EXCHANGES, /* all at once, in pairs: each writes a block and reads the other's */
    PERF_SENDRECV,  /* all at once, in pairs: each has the other's private block in its own private memory */
    PERF_FETCH,     /* all at once: each reads a block that another has just written */
    PERF_COPY,      /* all at once: each reads a private block and writes another private block */
    PERF_UPDATE,    /* all at once: each reads a private block and writes it back changed */
    PERF_READ,      /* all at once: each reads a private block */
    PERF_PIECES
} perf_piece;

/* "All at once" means all CPUs of the job, each doing the same. What was not asked for, or needs more CPUs than there
 * are, is 0. Every time is the lower quartile of many rounds (perf_rounds.h). */
typedef struct perf_limits {
    char reason[PERF_REASON_BYTES]; /* why they cannot be measured; "": they can */
    int ranks;                      /* of the job */
    int cpus;
    int cpu[PERF_CPUS_MAX];
    perf_latency hop;      /* a cache line goes from one CPU to another: half of a round trip; the slowest pair tried */
    perf_latency exchange; /* two CPUs each write a line and read the other's; the slowest pair tried */
    perf_latency exchange_nearest; /* the fastest pair tried */
    perf_latency ahead; /* a line of many that one CPU writes for another, without waiting; the slowest pair tried */
    double pair_hop_ns[PERF_PAIRS_CPUS_MAX][PERF_PAIRS_CPUS_MAX]; /* in either order */
    double handover_us; /* one process gives its CPU to another that is ready; fastest round */
    perf_curve curve[PERF_PIECES];
} perf_limits;

typedef struct perf_limits_request {
    unsigned pieces;           /* bits, by perf_piece */
    size_t exchange_bytes_max; /* curves go to the first point at or above this, or to their end */
    size_t stream_bytes_max;   /* likewise: copy, update, read */
    bool in_place;             /* sendrecv: the private blocks are one */
    bool cold;                 /* sendrecv: the private blocks are in no cache */
    double point_us;           /* time for each way at each point */
} perf_limits_request;

/* Time for each way at each point: a first look in a second or two, and figures to keep. */
#define PERF_POINT_QUICK_US    2.5e3
#define PERF_POINT_THOROUGH_US 4e4

/* Fills limits->cpu as perf_place_cpus does, and zeroes the rest. Returns 0, or -1 with the reason. */
int perf_limits_begin(perf_limits *limits, int ranks, bool launched);

/* Measures the pieces that *request names, into *limits; may be called again for other pieces. Returns 0, or -1 with
 * the reason. */
int perf_limits_measure(perf_limits *limits, const perf_limits_request *request);
