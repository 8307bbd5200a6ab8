/* What is tried: ways (an algorithm with a chunk) for messages of a number of sizes, each with results stored through
 * the caches or past them. */
#ifndef KOLO_TUNE_SPACE_H
#define KOLO_TUNE_SPACE_H

#include <stdbool.h>
#include <stddef.h>

#include "kolo_tools.h"

enum {
    TUNE_ALGORITHMS_MAX = KOLO_ALGORITHMS,
    TUNE_CHUNKS_MAX = 6,
    TUNE_WAYS_MAX = TUNE_ALGORITHMS_MAX * TUNE_CHUNKS_MAX,
    TUNE_CANDIDATES_MAX = 1 + 2 * TUNE_WAYS_MAX,
    TUNE_SIZES_MAX = 32,
    TUNE_DEFAULT = 0 /* the candidate that is no way: what kolo does without a profile */
};

typedef struct tune_way {
    kolo_algorithm algorithm;
    size_t chunk_bytes;
    int whole; /* the way with the same algorithm whose chunk is a whole slot */
} tune_way;

typedef struct tune_space {
    kolo_collective collective;
    int ranks;
    int ways;
    int candidates; /* TUNE_DEFAULT included */
    int sizes;
    tune_way way[TUNE_WAYS_MAX];       /* chunks of an algorithm ascend */
    size_t size_bytes[TUNE_SIZES_MAX]; /* of messages, ascending */
    kolo_plan default_plan[TUNE_SIZES_MAX];
    int default_candidate[TUNE_SIZES_MAX]; /* that does the same as the default; TUNE_DEFAULT: there is none */
} tune_space;

/* Microseconds a call of each candidate at each size, as medians over the rounds; 0: not measured. */
typedef struct tune_times {
    double default_low_us[TUNE_SIZES_MAX]; /* the lower quartile of TUNE_DEFAULT */
    double us[TUNE_SIZES_MAX][TUNE_CANDIDATES_MAX];
} tune_times;

/* The collectives that have algorithms to choose from, as the library says; KOLO_COLLECTIVES past the last. */
kolo_collective tune_collective_at(unsigned index);

/* Fills *space for messages of up to max_bytes; no profile must be in use. Returns 0, or a KOLO_ERR_* with
 * kolo_error_message. */
int tune_space_make(tune_space *space, kolo_collective collective, int ranks, size_t max_bytes, bool quick);

/* What kolo does for a message of the space's collective, by the profile in use. */
int tune_space_plan(const tune_space *space, size_t bytes, kolo_plan *plan);

/* Of candidates other than TUNE_DEFAULT. */
int tune_candidate_way(int candidate);
bool tune_candidate_streams(int candidate);

/* Whether a candidate is worth measuring at a size: it differs there from others that are measured, and was not
 * hopeless at the size before, of which `times` tells. */
bool tune_space_tries(const tune_space *space, const tune_times *times, int candidate, int size);

/* The candidate that is measured for one at a size. Results of small messages are never stored past the caches. */
int tune_space_measured(const tune_space *space, int candidate, int size);

/* The time by which a candidate is judged at a size; HUGE_VAL: not known. What the default does, too, is judged by the
 * lower quartile: a profile is to depart from the defaults only for what is beyond the noise. */
double tune_space_us(const tune_space *space, const tune_times *times, int candidate, int size);

#endif
