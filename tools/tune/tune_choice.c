/* The sum over all sizes of the logarithm of their times, so that 3 % weigh the same at any size, plus the logarithm of
 * 1.03 for each change of the way and for a threshold of streaming, is made as small as it gets: by dynamic programming
 * over the sizes. */
#include "tune_parts.h"

#include <math.h>

#define GAIN_MIN          1.03
#define SETTLED_BYTES_MIN ((size_t)16 << 20) /* what is fastest there is so for larger messages, too */

/* What it costs to go from one candidate to another at the next size. Streaming that has begun does not end. */
static double cost_of_change(int from, int to, double change_cost) {
    const bool way = tune_candidate_way(from) != tune_candidate_way(to);
    const int stream = tune_candidate_streams(to) - tune_candidate_streams(from);
    return stream < 0 ? HUGE_VAL : change_cost * (way + stream);
}

/* What it costs to use a candidate at a size; HUGE_VAL also where streaming would be none. */
static double cost_of_use(const tune_space *space, const tune_times *times, int candidate, int size) {
    const int measured = tune_space_measured(space, candidate, size);
    return tune_candidate_streams(candidate) == tune_candidate_streams(measured)
               ? log(tune_space_us(space, times, candidate, size))
               : HUGE_VAL;
}

/* The candidate at each size. Of equals the last, with the largest chunk, in which larger messages are safe. */
static void choose(const tune_space *space, const tune_times *times, double change_cost, int chosen[TUNE_SIZES_MAX]) {
    double cost[TUNE_SIZES_MAX][TUNE_CANDIDATES_MAX];
    int came_from[TUNE_SIZES_MAX][TUNE_CANDIDATES_MAX], best = 1;
    const int last = space->sizes - 1;
    for (int size = 0; size <= last; size++) {
        for (int to = 1; to < space->candidates; to++) {
            double least = size > 0 ? cost[size - 1][to] : 0;
            came_from[size][to] = to;
            for (int from = space->candidates - 1; from > 0 && size > 0; from--) {
                const double changed = cost[size - 1][from] + cost_of_change(from, to, change_cost);
                if (changed < least) {
                    least = changed;
                    came_from[size][to] = from;
                }
            }
            cost[size][to] = least + cost_of_use(space, times, to, size);
        }
    }
    for (int i = 1; i < space->candidates; i++)
        if (cost[last][i] <= cost[last][best])
            best = i;
    for (int size = last; size >= 0; best = came_from[size--][best])
        chosen[size] = best;
}

static bool changes_way(const int chosen[TUNE_SIZES_MAX], int size) {
    return tune_candidate_way(chosen[size]) != tune_candidate_way(chosen[size + 1]);
}

static int count_bands(const tune_space *space, const int chosen[TUNE_SIZES_MAX]) {
    int bands = 1;
    for (int size = 0; size + 1 < space->sizes; size++)
        bands += changes_way(chosen, size);
    return bands;
}

/* The threshold between two sizes that were measured: halfway, as factors go. */
static uint64_t between(const tune_space *space, int size) {
    return (uint64_t)sqrt((double)space->size_bytes[size] * (double)space->size_bytes[size + 1]);
}

void tune_choose(const tune_space *space, const tune_times *times, tune_choice *choice) {
    int chosen[TUNE_SIZES_MAX];
    double change_cost = log(GAIN_MIN);
    do { /* at the latest when no change is worth its cost, one band is left */
        choose(space, times, change_cost, chosen);
        change_cost *= 2;
    } while (count_bands(space, chosen) > TUNE_BANDS_MAX && change_cost < HUGE_VAL);

    const int last = space->sizes - 1;
    const bool settled = space->size_bytes[last] >= SETTLED_BYTES_MIN;
    kolo_profile_section *section = &choice->section;
    *section = (kolo_profile_section){.section_bytes = sizeof *section,
                                      .collective = space->collective,
                                      .ranks = space->ranks,
                                      .has_stream = settled || tune_candidate_streams(chosen[last]),
                                      .stream_bytes_min = UINT64_MAX};
    for (int size = 0; size <= last; size++) {
        const tune_way *way = &space->way[tune_candidate_way(chosen[size])];
        uint64_t bytes_max = settled ? UINT64_MAX : space->size_bytes[last];
        if (size < last)
            bytes_max = between(space, size);
        choice->candidate[size] = tune_space_measured(space, chosen[size], size);
        if (size < last && tune_candidate_streams(chosen[size + 1]) && !tune_candidate_streams(chosen[size]))
            section->stream_bytes_min = bytes_max;
        if (size == last || changes_way(chosen, size))
            section->band[section->bands++] =
                (kolo_profile_band){bytes_max, way->algorithm, (uint32_t)way->chunk_bytes};
    }
}
