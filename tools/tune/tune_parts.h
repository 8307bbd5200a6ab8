/* The parts of kolo-tune: what is tried, the ranks that measure it, the choice, and the profile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "kolo_tools.h"

/* What is tried: ways (an algorithm with a chunk) for messages of a number of sizes, each with results stored through
 * the caches or past them. */

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

/* The ranks: processes of our own, bound to cores, that end with us and measure together. */

typedef struct tune_job {
    const tune_space *space;
    tune_times *times; /* in memory that the ranks' parent shares; rank 0 writes it */
    int shm_fd;        /* an empty file through which the ranks meet */
    double seconds;    /* to spend, about */
    bool quick;
    int steps_before; /* sizes of spaces that have been measured, for the progress shown */
    int steps_total;
    double begin_s; /* when the first of them began */
} tune_job;

/* Measures all candidates at all sizes, with job->space->ranks processes, which are bound to a core each if *bound says
 * so and there are enough; then it says whether they are. Returns 0 when all have done their part, or -1 after a
 * complaint. No process is left in any case. */
int tune_team_run(const tune_job *job, bool *bound);

/* From times to a table: which way for which messages. */

enum { TUNE_BANDS_MAX = 12 }; /* a profile's section may have 16, those of the defaults included */

typedef struct tune_choice {
    kolo_profile_section section;
    int candidate[TUNE_SIZES_MAX]; /* what that means at each size */
} tune_choice;

/* Picks the bands that make the sizes together fastest, where each further band must gain 3 %. */
void tune_choose(const tune_space *space, const tune_times *times, tune_choice *choice);

/* The file of a profile: where it is, what stands in it, and that it is replaced whole. How it is written the library
 * knows, as it reads it. */

/* Makes sure that a file can be written there, with the directories above it on request. Returns 0 or -1 after a
 * complaint. */
int tune_profile_prepare(const char *path, bool make_directories);

/* Writes a section, or for NULL what a profile of this machine begins with; copies the sections of `path`, if kolo uses
 * that profile, but for those that these spaces replace. Return 0, or -1 after a complaint. */
int tune_profile_write(FILE *file, const kolo_profile_section *section);
int tune_profile_keep_sections(FILE *file, const char *path, const tune_space *spaces, int count);

/* Puts `text` in place of the file `path`, whole or not at all. Returns 0 or -1 after a complaint. */
int tune_profile_replace(const char *path, const char *text, size_t bytes);

/* From now on communicators that this process creates as rank 0 go by one candidate of the space; TUNE_DEFAULT:
 * by the defaults. Returns 0 or -1 after a complaint. */
int tune_profile_try(const tune_space *space, int candidate);

/* kolo-tune --check: says whether kolo uses the profile here. Returns an exit status. */
int tune_profile_check(const char *path);
