/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_pieces.h"

#include <string.h>

#include "perf_boxes.h"
#include "perf_lines_template.h"
#include "perf_rounds.h"

enum { PAIRS_MAX = 8, CACHE_LINE_BYTES = 64, BATCH_BYTES = 8 << 10 };
enum { BYPASS_BYTES_MIN = 16 << 10, ANSWER_BYTES_MIN = 16 << 10 };
enum { FETCH_BYTES_MIN = 64 << 10, FETCH_BYTES_MAX = 1 << 20, STREAM_BYTES_MIN = 4096 };
enum { CHUNK_BYTES_MAX = 1 << 20 };

/* What was read is summed into this, so that no compiler can leave the reading out. */
static volatile uint64_t read_sink;

/* Latency. */

/* Whether it is faster to poll or to relax between two looks differs from processor to processor: both are tried. */

/* A repetition is two hops. */
static inline void ping_pong(perf_task *task, bool relaxes) {
    perf_word *flags = task->shop->flags;
    int own = task->worker->index;
    bool begins = own < task->partner;
    for (int i = 0; i < task->repetitions; i++) {
        task->sequence++;
        if (begins)
            perf_word_store(&flags[own].value, task->sequence);
        perf_word_await(&flags[task->partner].value, task->sequence, relaxes);
        if (!begins)
            perf_word_store(&flags[own].value, task->sequence);
    }
}

static void ping_pong_polling(perf_task *task) {
    ping_pong(task, false);
}

static void ping_pong_relaxing(perf_task *task) {
    ping_pong(task, true);
}

/* A line has its number, and nothing else that is looked at. */
static inline void pass_lines(perf_task *task, char *sent, const char *received, bool relaxes) {
    for (size_t at = 0; at < task->bytes; at += CACHE_LINE_BYTES)
        perf_word_store((_Atomic uint64_t *)(sent + at), task->sequence);
    for (size_t at = 0; at < task->bytes; at += CACHE_LINE_BYTES)
        perf_word_await((const _Atomic uint64_t *)(received + at), task->sequence, relaxes);
}

/* Replaces *best by the latency of this kind of work, of which `per_repetition` hops or exchanges make a repetition,
 * where that is less. */
static void measure_latency_of(perf_task *task, void (*work)(perf_task *), int per_repetition, perf_latency *best) {
    task->work = work;
    perf_task_time time = perf_rounds_take(task);
    perf_latency latency = {.ns = time.us * 1e3 / per_repetition, .min_ns = time.min_us * 1e3 / per_repetition};
    if (best->ns == 0 || latency.ns < best->ns)
        *best = latency;
}

static void measure_pair(perf_task *task, int other) {
    int own = task->worker->index;
    perf_limits *limits = &task->shop->limits;
    task->partner = own == 0 ? other : own == other ? 0 : -1;
    task->bytes = CACHE_LINE_BYTES;
    task->repetitions = 100;

    /* A pair's numbers have to agree, and to be above those of pairs before it; who stood by has not counted. */
    task->sequence = (uint64_t)other << 32;
    perf_latency hop = {0};
    measure_latency_of(task, ping_pong_polling, 2, &hop);
    measure_latency_of(task, ping_pong_relaxing, 2, &hop);
    perf_latency exchange = {0};
    for (int i = 0; i < LINE_WAYS; i++)
        measure_latency_of(task, line_ways[i].work, 1, &exchange);
    if (own != 0)
        return;
    if (hop.ns > limits->hop.ns)
        limits->hop = hop;
    if (exchange.ns > limits->exchange.ns)
        limits->exchange = exchange;
    if (limits->exchange_nearest.ns == 0 || exchange.ns < limits->exchange_nearest.ns)
        limits->exchange_nearest = exchange;
}

/* Worker 0 with some of the others, near and far ones. */
void perf_measure_latency(perf_worker *worker, void *argument) {
    perf_task task = {.shop = argument, .worker = worker};
    int others = worker->team->workers - 1;
    int pairs = others < PAIRS_MAX ? others : PAIRS_MAX;
    for (int pair = 0; pair < pairs; pair++)
        measure_pair(&task, pairs == 1 ? 1 : 1 + pair * (others - 1) / (pairs - 1));
}

/* Both workers share a CPU here. A repetition is two handovers. */
static void hand_over(perf_task *task) {
    _Atomic uint64_t *own = &task->shop->flags[task->worker->index].value;
    _Atomic uint64_t *partner = &task->shop->flags[task->partner].value;
    bool begins = task->worker->index == 0;
    for (int i = 0; i < task->repetitions; i++) {
        task->sequence++;
        if (begins)
            perf_word_store(own, task->sequence);
        double deadline_us = 0;
        while (!perf_word_reached(partner, task->sequence))
            perf_worker_yield(&deadline_us);
        if (!begins)
            perf_word_store(own, task->sequence);
    }
}

/* The fastest round, as whoever else is ready runs in between. */
void perf_measure_handover(perf_worker *worker, void *argument) {
    perf_task task = {
        .shop = argument, .worker = worker, .partner = !worker->index, .repetitions = 20, .work = hand_over};
    perf_task_time time = perf_rounds_take(&task);
    if (worker->index == 0)
        task.shop->limits.handover_us = time.min_us / 2;
}

/* Blocks that go from core to core. */

/* Each writes its own block; two sets in turn. */
static void exchange_blocks(perf_task *task) {
    uint64_t sum = 0;
    for (int i = 0; i < task->repetitions; i++) {
        size_t set = ++task->sequence & 1;
        task->way.fill(perf_task_block(task, task->worker->index, set), task->sequence, task->bytes);
        perf_task_meet(task);
        sum += task->way.read(perf_task_block(task, task->partner, set), task->bytes);
    }
    read_sink = sum;
}

/* The blocks change hands: perf_swap_written says why one set is enough. */
static void swap_blocks(perf_task *task) {
    uint64_t sum = 0;
    for (int i = 0; i < task->repetitions; i++) {
        task->sequence++;
        task->way.fill(perf_task_block(task, perf_swap_written(task), 0), task->sequence, task->bytes);
        perf_task_meet(task);
        sum += task->way.read(perf_task_block(task, perf_swap_read(task), 0), task->bytes);
    }
    read_sink = sum;
}

/* Each sends a block there and back, once or more often: a part of its bytes goes out, and as many come back. The
 * partner reads a part and writes its answer into the same lines, in one pass. So does the owner with an answer and the
 * next part; only the first part is written, and the last answer read, in a pass of its own. Up to one meeting a block
 * is touched by its owner alone, from there to the next by the partner alone, and so on in turn. The meetings of a
 * repetition are an even number, so the next begins where the block is with its owner. */
static void answer_blocks(perf_task *task, size_t journeys) {
    char *own = perf_task_block(task, task->worker->index, 0);
    char *partners = perf_task_block(task, task->partner, 0);
    size_t part_bytes = task->bytes / 2 / journeys;
    uint64_t sum = 0;
    for (int i = 0; i < task->repetitions; i++) {
        task->way.fill(own, task->sequence, part_bytes);
        for (size_t journey = 1; journey <= journeys; journey++) {
            task->sequence++;
            perf_task_meet(task);
            task->way.update(partners, part_bytes);
            task->sequence++;
            perf_task_meet(task);
            if (journey < journeys)
                task->way.update(own, part_bytes);
        }
        sum += task->way.read(own, part_bytes);
    }
    read_sink = sum;
}

static void answer_once(perf_task *task) {
    answer_blocks(task, 1);
}

static void answer_twice(perf_task *task) {
    answer_blocks(task, 2);
}

/* The ways of exchanging blocks that don't miss where they write: with plain stores, as the lines are at hand. */
static const struct {
    const char *name;
    void (*work)(perf_task *task);
    size_t bytes_min;
} handing_ways[] = {
    {"swap", swap_blocks, PERF_STREAM_BLOCK_BYTES},
    {"answer", answer_once, ANSWER_BYTES_MIN},
    {"answers", answer_twice, ANSWER_BYTES_MIN},
};
enum { HANDING_WAYS = sizeof(handing_ways) / sizeof(handing_ways[0]) };

_Static_assert((int)ANSWER_BYTES_MIN / 4 % (int)PERF_STREAM_BLOCK_BYTES == 0, "parts are whole blocks of a stream");

static void measure_exchange_point(perf_task *task, perf_curve *curve, int point) {
    perf_stream_way ways[PERF_STREAM_WAYS_MAX];
    int ways_count = perf_stream_ways(ways);
    task->repetitions = perf_repetitions(BATCH_BYTES, task->bytes, 100);
    if (task->bytes <= PERF_LINEWISE_BYTES_MAX)
        measure_lines(task, curve, point);
    task->work = exchange_blocks;
    for (int i = 0; i < ways_count && task->bytes >= PERF_STREAM_BLOCK_BYTES; i++) {
        task->way = ways[i];
        task->way.read = ways[0].read;
        bool bypasses = strstr(task->way.name, "bypass") != NULL;
        if (task->way.fill != NULL && (!bypasses || task->bytes >= BYPASS_BYTES_MIN))
            perf_rounds_record(task, curve, point, perf_rounds_take(task), task->way.name);
    }
    task->way = ways[0];
    for (int i = 0; i < HANDING_WAYS; i++) {
        task->work = handing_ways[i].work;
        if (task->bytes >= handing_ways[i].bytes_min)
            perf_rounds_record(task, curve, point, perf_rounds_take(task), handing_ways[i].name);
    }
}

void perf_measure_exchanges(perf_worker *worker, void *argument) {
    perf_workshop *shop = argument;
    int neighbour = worker->index ^ 1;
    perf_task task = {.shop = shop, .worker = worker};
    task.partner = neighbour < worker->team->workers ? neighbour : worker->index; /* the odd one: with itself */
    task.bytes = CACHE_LINE_BYTES;
    int point = 0;
    do {
        measure_exchange_point(&task, &shop->limits.exchanges, point++);
    } while (perf_point_next(&task.bytes, shop->request.exchange_bytes_max, shop->block_bytes_max));
}

static void write_own_block(perf_task *task) {
    task->way.fill(perf_task_block(task, task->worker->index, 0), ++task->sequence, task->bytes);
}

static void read_partners_block(perf_task *task) {
    read_sink = task->way.read(perf_task_block(task, task->partner, 0), task->bytes);
}

void perf_measure_fetch(perf_worker *worker, void *argument) {
    perf_workshop *shop = argument;
    perf_stream_way ways[PERF_STREAM_WAYS_MAX];
    int ways_count = perf_stream_ways(ways);
    perf_task task = {.shop = shop, .worker = worker, .repetitions = 1, .prepare = write_own_block};
    task.partner = (worker->index + 1) % worker->team->workers;
    task.work = read_partners_block;
    task.bytes = FETCH_BYTES_MIN;
    int point = 0;
    do {
        for (int i = 0; i < ways_count; i++) {
            task.way = ways[i];
            task.way.fill = ways[0].fill;
            if (task.way.read != NULL)
                perf_rounds_record(&task, &shop->limits.fetch, point, perf_rounds_take(&task), task.way.name);
        }
        point++;
    } while (perf_point_next(&task.bytes, FETCH_BYTES_MAX, FETCH_BYTES_MAX));
}

/* Private memory. Long blocks are done in chunks, one a round, so that a round is much shorter than a scheduler's time
 * slice: on a busy machine most rounds stay undisturbed. Between two visits of a chunk lies the whole block. */

static void advance(perf_task *task) {
    task->at_bytes += task->chunk_bytes;
    if (task->at_bytes == task->bytes)
        task->at_bytes = 0;
}

static void copy_private(perf_task *task) {
    for (int i = 0; i < task->repetitions; i++)
        task->way.copy(task->out + task->at_bytes, task->in + task->at_bytes, task->chunk_bytes);
    advance(task);
}

static void update_private(perf_task *task) {
    for (int i = 0; i < task->repetitions; i++)
        task->way.update(task->in + task->at_bytes, task->chunk_bytes);
    advance(task);
}

static void read_private(perf_task *task) {
    for (int i = 0; i < task->repetitions; i++)
        read_sink = task->way.read(task->in + task->at_bytes, task->chunk_bytes);
    advance(task);
}

static bool has_way(const perf_task *task) {
    if (task->work == copy_private)
        return task->way.copy != NULL;
    return task->work == update_private ? task->way.update != NULL : task->way.read != NULL;
}

static void measure_stream_point(perf_task *task, perf_curve *curve, int point) {
    perf_stream_way ways[PERF_STREAM_WAYS_MAX];
    int ways_count = perf_stream_ways(ways);
    task->chunk_bytes = task->bytes < CHUNK_BYTES_MAX ? task->bytes : CHUNK_BYTES_MAX;
    task->repetitions = perf_repetitions(STREAM_BYTES_MIN * 16, task->bytes, 16);
    size_t chunks = task->bytes / task->chunk_bytes;
    task->way = ways[0];
    for (size_t i = 0; i < chunks; i++) /* the caches forget what was measured before */
        task->work(task);
    for (int i = 0; i < ways_count; i++) {
        task->way = ways[i];
        if (!has_way(task))
            continue;
        perf_task_time time = perf_rounds_take(task);
        if (chunks > 1)
            time.us = time.mean_us * (double)chunks; /* some may be in a cache, some not */
        perf_rounds_record(task, curve, point, time, task->way.name);
    }
}

static void measure_stream(perf_worker *worker, perf_workshop *shop, perf_curve *curve, void (*work)(perf_task *)) {
    size_t wanted_bytes = shop->request.stream_bytes_max;
    size_t mapped_bytes = STREAM_BYTES_MIN;
    while (perf_point_next(&mapped_bytes, wanted_bytes, shop->stream_bytes_max)) {
    }
    perf_task task = {.shop = shop, .worker = worker, .work = work, .bytes = STREAM_BYTES_MIN};
    task.in = perf_private_allocate(mapped_bytes);
    task.out = work == copy_private ? perf_private_allocate(mapped_bytes) : NULL;
    int point = 0;
    do {
        task.at_bytes = 0;
        measure_stream_point(&task, curve, point++);
    } while (perf_point_next(&task.bytes, wanted_bytes, shop->stream_bytes_max));
}

void perf_measure_copy(perf_worker *worker, void *argument) {
    perf_workshop *shop = argument;
    measure_stream(worker, shop, &shop->limits.copy, copy_private);
}

void perf_measure_update(perf_worker *worker, void *argument) {
    perf_workshop *shop = argument;
    measure_stream(worker, shop, &shop->limits.update, update_private);
}

void perf_measure_read(perf_worker *worker, void *argument) {
    perf_workshop *shop = argument;
    measure_stream(worker, shop, &shop->limits.read, read_private);
}
