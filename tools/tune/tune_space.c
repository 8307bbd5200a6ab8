#include "tune_parts.h"

#include <math.h>

#define STREAM_BYTES_MIN   ((size_t)256 << 10) /* below, results fit second-level caches */
#define DENSE_BYTES_MAX    ((size_t)4 << 20)   /* up to here algorithms and chunks change places */
#define HOPELESS_BYTES_MIN ((size_t)1 << 20)   /* from here on, who is far behind stays there */
#define HOPELESS_RATIO     2.0
#define CHUNK_BYTES_MIN    ((size_t)16 << 10)

enum { TREE_RANKS_MIN = 5 };

static void add_size(tune_space *space, size_t bytes) {
    if (space->sizes < TUNE_SIZES_MAX)
        space->size_bytes[space->sizes++] = bytes;
}

/* 8, 64 and 512 bytes, then powers of two, fewer of them where all is quick or little changes. */
static void list_sizes(tune_space *space, size_t max_bytes, bool quick) {
    for (size_t bytes = 8; bytes < 1024 && bytes <= max_bytes; bytes *= 8)
        add_size(space, bytes);
    for (size_t bytes = 1024; bytes <= max_bytes; bytes *= quick || bytes >= DENSE_BYTES_MAX ? 4 : 2)
        add_size(space, bytes);
}

kolo_collective tune_collective_at(unsigned index) {
    kolo_collective collective = 0;
    while (collective < KOLO_COLLECTIVES && (!(kolo_collective_has(collective) & KOLO_HAS_CHOICES) || index-- > 0))
        collective++;
    return collective;
}

/* What a profile may choose; a tree needs ranks to group. Each with chunks of a slot, half a slot, and so on. */
static void list_ways(tune_space *space, size_t slot_bytes, bool quick) {
    const int halvings = quick ? 2 : 1;
    int chunks = 1;
    while (chunks < TUNE_CHUNKS_MAX && slot_bytes >> halvings * chunks >= CHUNK_BYTES_MIN)
        chunks++;
    for (kolo_algorithm i = 0; i < KOLO_ALGORITHMS; i++) {
        if (!(kolo_collective_has(space->collective) & KOLO_HAS_CHOICE(i)) ||
            (i == KOLO_ALGORITHM_TREE && space->ranks < TREE_RANKS_MIN))
            continue;
        const int whole = space->ways + chunks - 1;
        for (int smaller = chunks - 1; smaller >= 0; smaller--)
            space->way[space->ways++] = (tune_way){i, slot_bytes >> halvings * smaller & ~(size_t)127, whole};
    }
    space->candidates = 1 + 2 * space->ways;
}

static int tune_candidate_of(int way, bool stream) {
    return 1 + 2 * way + stream;
}

int tune_candidate_way(int candidate) {
    return (candidate - 1) / 2;
}

bool tune_candidate_streams(int candidate) {
    return (candidate - 1) % 2 == 1;
}

/* A message of one chunk is the same for all chunks that hold it: the largest one stands for them. */
int tune_space_measured(const tune_space *space, int candidate, int size) {
    const int way = tune_candidate_way(candidate);
    const bool whole = space->way[way].chunk_bytes >= space->size_bytes[size];
    const bool streams = tune_candidate_streams(candidate) && space->size_bytes[size] >= STREAM_BYTES_MIN;
    return tune_candidate_of(whole ? space->way[way].whole : way, streams);
}

static int find_default(const tune_space *space, int size) {
    const kolo_plan *plan = &space->default_plan[size];
    for (int i = 0; i < space->ways; i++) {
        const tune_way *way = &space->way[i];
        const bool same_chunk =
            plan->chunks == 1 ? way->chunk_bytes >= space->size_bytes[size] : way->chunk_bytes == plan->chunk_bytes;
        if (way->algorithm == plan->algorithm && same_chunk)
            return tune_space_measured(space, tune_candidate_of(i, plan->stream), size);
    }
    return TUNE_DEFAULT;
}

int tune_space_plan(const tune_space *space, size_t bytes, kolo_plan *plan) {
    *plan = (kolo_plan){.plan_bytes = sizeof *plan};
    return kolo_plan_query(plan, NULL, space->ranks, space->collective, bytes / sizeof(float), KOLO_F32, KOLO_SUM);
}

int tune_space_make(tune_space *space, kolo_collective collective, int ranks, size_t max_bytes, bool quick) {
    kolo_plan plan;
    *space = (tune_space){.collective = collective, .ranks = ranks};
    int status = tune_space_plan(space, sizeof(float), &plan);
    if (status < 0)
        return status;
    list_ways(space, plan.slot_bytes, quick);
    list_sizes(space, max_bytes, quick);
    for (int size = 0; size < space->sizes && status == 0; size++) {
        status = tune_space_plan(space, space->size_bytes[size], &space->default_plan[size]);
        space->default_candidate[size] = find_default(space, size);
    }
    return status;
}

double tune_space_us(const tune_space *space, const tune_times *times, int candidate, int size) {
    const int measured = tune_space_measured(space, candidate, size);
    const double us = times->us[size][measured] > 0 ? times->us[size][measured] : HUGE_VAL;
    return measured == space->default_candidate[size] ? fmin(us, times->default_low_us[size]) : us;
}

bool tune_space_tries(const tune_space *space, const tune_times *times, int candidate, int size) {
    if (candidate == TUNE_DEFAULT)
        return true;
    if (tune_space_measured(space, candidate, size) != candidate)
        return false;
    if (size == 0 || space->size_bytes[size] < HOPELESS_BYTES_MIN)
        return true;
    double best_us = HUGE_VAL;
    for (int i = 0; i < space->candidates; i++)
        if (times->us[size - 1][i] > 0)
            best_us = fmin(best_us, times->us[size - 1][i]);
    return tune_space_us(space, times, candidate, size - 1) <= HOPELESS_RATIO * best_us;
}
