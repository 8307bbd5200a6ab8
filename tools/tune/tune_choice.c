/* The sum over all sizes of the logarithm of their times, so that 3 % weigh the same at any size, plus the logarithm of
 * 1.03 for each change of the way and for a threshold of streaming, is made as small as it gets: by dynamic programming
 * over the sizes, for each place where streaming may begin. */
#include "tune_choice.h"

#include <math.h>

#define GAIN_MIN          1.03
#define SETTLED_BYTES_MIN ((size_t)16 << 20) /* what is fastest there is so for larger messages, too */

/* The way at each size, with streaming from size number `stream_size` on. Returns the sum. */
static double choose_ways(const tune_space *space, const tune_times *times, int stream_size, double change_cost,
                          int way_at[TUNE_SIZES_MAX]) {
    double cost[TUNE_WAYS_MAX] = {0};
    int came_from[TUNE_SIZES_MAX][TUNE_WAYS_MAX];
    int best = 0;
    for (int size = 0; size < space->sizes; size++) {
        const double changed = cost[best] + change_cost;
        const int best_before = best;
        for (int way = 0; way < space->ways; way++) {
            const bool changes = size > 0 && changed < cost[way];
            came_from[size][way] = changes ? best_before : way;
            cost[way] =
                (changes ? changed : cost[way]) + log(tune_space_us(space, times, way, size >= stream_size, size));
        }
        for (int way = 0; way < space->ways; way++)
            if (cost[way] <= cost[best]) /* of equals the largest chunk, in which larger messages are safe */
                best = way;
    }
    int way = best;
    for (int size = space->sizes - 1; size >= 0; size--) {
        way_at[size] = way;
        way = came_from[size][way];
    }
    return cost[best];
}

/* Where streaming begins, as the number of a size, which is not 0; space->sizes: nowhere. */
static int choose_stream(const tune_space *space, const tune_times *times, double change_cost,
                         int way_at[TUNE_SIZES_MAX]) {
    int chosen = space->sizes;
    double least = choose_ways(space, times, chosen, change_cost, way_at);
    for (int size = 0; size < space->sizes; size++) {
        int ways[TUNE_SIZES_MAX];
        if (!tune_space_may_stream(space, size))
            continue;
        const double cost = choose_ways(space, times, size, change_cost, ways) + change_cost;
        if (cost >= least)
            continue;
        least = cost;
        chosen = size;
        for (int i = 0; i < space->sizes; i++)
            way_at[i] = ways[i];
    }
    return chosen;
}

/* The threshold between two sizes that were measured: halfway, as factors go. */
static uint64_t between(const tune_space *space, int size) {
    return (uint64_t)sqrt((double)space->size_bytes[size] * (double)space->size_bytes[size + 1]);
}

static int count_bands(const tune_space *space, const int way_at[TUNE_SIZES_MAX]) {
    int bands = 1;
    for (int size = 1; size < space->sizes; size++)
        bands += way_at[size] != way_at[size - 1];
    return bands;
}

/* The way at each size, and the number of the size from which on results are streamed. */
static int choose_ways_in_few_bands(const tune_space *space, const tune_times *times, int way_at[TUNE_SIZES_MAX]) {
    double change_cost = log(GAIN_MIN);
    int stream_size;
    do { /* at the latest when no change is worth its cost, one band is left */
        stream_size = choose_stream(space, times, change_cost, way_at);
        change_cost *= 2;
    } while (count_bands(space, way_at) > TUNE_BANDS_MAX && change_cost < HUGE_VAL);
    return stream_size;
}

void tune_choose(const tune_space *space, const tune_times *times, tune_choice *choice) {
    int way_at[TUNE_SIZES_MAX];
    const int stream_size = choose_ways_in_few_bands(space, times, way_at);
    const uint64_t largest = space->size_bytes[space->sizes - 1];
    const bool settled = largest >= SETTLED_BYTES_MIN, streams = stream_size < space->sizes;
    const uint64_t last_bytes_max = settled ? UINT64_MAX : largest;
    kolo_profile_section *section = &choice->section;
    *section = (kolo_profile_section){.section_bytes = sizeof *section,
                                      .collective = KOLO_ALLREDUCE,
                                      .ranks = space->ranks,
                                      .has_stream = settled || streams,
                                      .stream_bytes_min = streams ? between(space, stream_size - 1) : UINT64_MAX};
    for (int size = 0; size < space->sizes; size++) {
        const tune_way *way = &space->way[way_at[size]];
        const bool last = size + 1 == space->sizes;
        choice->candidate[size] = tune_space_measured(space, way_at[size], size >= stream_size, size);
        if (last || way_at[size + 1] != way_at[size])
            section->band[section->bands++] = (kolo_profile_band){last ? last_bytes_max : between(space, size),
                                                                  way->algorithm, (uint32_t)way->chunk_bytes};
    }
}
