#include "tune_space.h"

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

/* Chunks of a slot, half a slot, and so on. */
static void list_chunks(tune_space *space, size_t slot_bytes, bool quick) {
    const int halvings = quick ? 2 : 1;
    size_t bytes = slot_bytes;
    int count = 1;
    while (count < TUNE_CHUNKS_MAX && bytes >> halvings >= CHUNK_BYTES_MIN) {
        bytes >>= halvings;
        count++;
    }
    space->chunks = count;
    for (int i = 0; i < count; i++)
        space->chunk_bytes[i] = slot_bytes >> (halvings * (count - 1 - i)) & ~(size_t)127;
}

/* Those that AUTO may use: ring has other bits, central is for comparison only. A tree needs ranks to group. */
static void list_algorithms(tune_space *space) {
    space->algorithm[space->algorithms++] = KOLO_ALGORITHM_ONESHOT;
    space->algorithm[space->algorithms++] = KOLO_ALGORITHM_MESH;
    if (space->ranks >= TREE_RANKS_MIN)
        space->algorithm[space->algorithms++] = KOLO_ALGORITHM_TREE;
}

int tune_space_ways(const tune_space *space) {
    return space->algorithms * space->chunks;
}

kolo_algorithm tune_space_algorithm(const tune_space *space, int way) {
    return space->algorithm[way / space->chunks];
}

size_t tune_space_chunk_bytes(const tune_space *space, int way) {
    return space->chunk_bytes[way % space->chunks];
}

int tune_space_candidates(const tune_space *space) {
    return 1 + 2 * tune_space_ways(space);
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

bool tune_space_may_stream(const tune_space *space, int size) {
    return space->size_bytes[size] >= STREAM_BYTES_MIN;
}

/* A message of one chunk is the same for all chunks that hold it: the largest one stands for them. */
static int stand_in(const tune_space *space, int way, int size) {
    const int whole = way - way % space->chunks + space->chunks - 1;
    return tune_space_chunk_bytes(space, way) < space->size_bytes[size] ? way : whole;
}

static int find_default(const tune_space *space, int size) {
    const kolo_plan *plan = &space->default_plan[size];
    for (int way = 0; way < tune_space_ways(space); way++)
        if (stand_in(space, way, size) == way && tune_space_algorithm(space, way) == plan->algorithm &&
            (plan->chunks == 1) == (tune_space_chunk_bytes(space, way) >= space->size_bytes[size]) &&
            (plan->chunks == 1 || tune_space_chunk_bytes(space, way) == plan->chunk_bytes))
            return tune_candidate_of(way, plan->stream && tune_space_may_stream(space, size));
    return TUNE_DEFAULT;
}

int tune_space_make(tune_space *space, int ranks, size_t max_bytes, bool quick) {
    kolo_plan plan = {.plan_bytes = sizeof plan};
    int status = kolo_plan_query(&plan, NULL, ranks, KOLO_ALLREDUCE, 1, KOLO_F32, KOLO_SUM);
    if (status < 0)
        return status;
    *space = (tune_space){.ranks = ranks};
    list_algorithms(space);
    list_chunks(space, plan.slot_bytes, quick);
    list_sizes(space, max_bytes, quick);
    for (int size = 0; size < space->sizes && status == 0; size++) {
        plan = (kolo_plan){.plan_bytes = sizeof plan};
        status = kolo_plan_query(&plan, NULL, ranks, KOLO_ALLREDUCE, space->size_bytes[size] / sizeof(float), KOLO_F32,
                                 KOLO_SUM);
        space->default_plan[size] = plan;
        space->default_candidate[size] = find_default(space, size);
    }
    return status;
}

static bool was_hopeless(const tune_space *space, const tune_times *times, int candidate, int size) {
    if (size == 0 || space->size_bytes[size] < HOPELESS_BYTES_MIN)
        return false;
    const int way = stand_in(space, tune_candidate_way(candidate), size - 1);
    const bool stream = tune_candidate_streams(candidate) && tune_space_may_stream(space, size - 1);
    double best_us = HUGE_VAL;
    for (int i = 0; i < tune_space_candidates(space); i++)
        if (times->us[size - 1][i] > 0)
            best_us = fmin(best_us, times->us[size - 1][i]);
    return tune_space_us(space, times, way, stream, size - 1) > HOPELESS_RATIO * best_us;
}

bool tune_space_tries(const tune_space *space, const tune_times *times, int candidate, int size) {
    if (candidate == TUNE_DEFAULT)
        return true;
    const int way = tune_candidate_way(candidate);
    return stand_in(space, way, size) == way &&
           (!tune_candidate_streams(candidate) || tune_space_may_stream(space, size)) &&
           !was_hopeless(space, times, candidate, size);
}

int tune_space_measured(const tune_space *space, int way, bool stream, int size) {
    return tune_candidate_of(stand_in(space, way, size), stream && tune_space_may_stream(space, size));
}

double tune_space_us(const tune_space *space, const tune_times *times, int way, bool stream, int size) {
    const int candidate = tune_space_measured(space, way, stream, size);
    const double us = times->us[size][candidate] > 0 ? times->us[size][candidate] : HUGE_VAL;
    return candidate == space->default_candidate[size] ? fmin(us, times->default_low_us[size]) : us;
}
