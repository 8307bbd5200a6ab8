#include "perf_pieces.h"

#include <string.h>

#include "perf_rounds.h"

enum { PAIRS_MAX = 8, CACHE_LINE_BYTES = 64, BATCH_BYTES = 8 << 10 };
enum { BYPASS_BYTES_MIN = 16 << 10, ANSWER_BYTES_MIN = 16 << 10 };
enum { FETCH_BYTES_MIN = 64 << 10, FETCH_BYTES_MAX = 1 << 20, STREAM_BYTES_MIN = 4096, SENDRECV_BYTES_MIN = 16 };
enum { CHUNK_BYTES_MAX = 1 << 20, AHEAD_LINES = 64 };

/* What was read is summed into this, so that no compiler can leave the reading out. */
static volatile uint64_t read_sink;

/* Messages in cache lines, each of which brings its own number: each worker always writes its own lines, or they change
 * hands. Whether it is faster to poll or to relax between two looks differs from processor to processor: both are
 * tried. */

enum { PAYLOAD_BYTES = 56, LINE_WAYS = 4 };

static const char *const line_ways[LINE_WAYS] = {"lines", "lines+relax", "swap+lines", "swap+lines+relax"};

/* A part of a message in each line, before the line's number; the rest of the last one is copied along, and is
 * there: such messages are much shorter than a page. */
static void pass_lines(perf_task *task) {
    const size_t step = task->in != NULL ? PAYLOAD_BYTES : CACHE_LINE_BYTES;
    for (int i = 0; i < task->repetitions; i++) {
        task->sequence++;
        const size_t set = task->swaps ? 0 : task->sequence & 1;
        char *sent = perf_task_lines(task, task->swaps ? perf_swap_written(task) : task->worker->index, set);
        const char *received = perf_task_lines(task, task->swaps ? perf_swap_read(task) : task->partner, set);
        for (size_t at = 0; at < task->bytes; at += step, sent += CACHE_LINE_BYTES) {
            if (task->in != NULL)
                memcpy(sent, task->in + at, PAYLOAD_BYTES);
            perf_word_store((_Atomic uint64_t *)(sent + PAYLOAD_BYTES), task->sequence);
        }
        for (size_t at = 0; at < task->bytes; at += step, received += CACHE_LINE_BYTES) {
            perf_word_await((const _Atomic uint64_t *)(received + PAYLOAD_BYTES), task->sequence, task->relaxes);
            if (task->in != NULL)
                memcpy(task->out + at, received, PAYLOAD_BYTES);
        }
    }
}

/* Passes task->bytes in this way. */
static void choose_lines(perf_task *task, int way) {
    task->work = pass_lines;
    task->swaps = way / 2;
    task->relaxes = way % 2;
}

void perf_lines_try(perf_task *task) {
    for (int way = 0; way < LINE_WAYS; way++) {
        choose_lines(task, way);
        perf_rounds_try(task, task->work, line_ways[way]);
    }
}

/* Latency. */

/* A repetition is two hops. */
static void ping_pong(perf_task *task) {
    perf_word *flags = task->shop->flags;
    int own = task->worker->index;
    bool begins = own < task->partner;
    for (int i = 0; i < task->repetitions; i++) {
        task->sequence++;
        if (begins)
            perf_word_store(&flags[own].value, task->sequence);
        perf_word_await(&flags[task->partner].value, task->sequence, task->relaxes);
        if (!begins)
            perf_word_store(&flags[own].value, task->sequence);
    }
}

/* A repetition is a line that goes one way. Who writes is up to AHEAD_LINES ahead of who reads, which says at every
 * half of them how far it is; a line is written again when its number of before has been read. */
static void write_ahead(perf_task *task) {
    const int own = task->worker->index;
    const bool writes = own < task->partner;
    char *lines = perf_task_lines(task, writes ? own : task->partner, 0);
    if (!writes)
        perf_word_store(&task->shop->flags[own].value, task->sequence);
    for (int i = 0; i < task->repetitions; i++) {
        const uint64_t number = ++task->sequence;
        const bool is_half = number % (AHEAD_LINES / 2) == 0;
        _Atomic uint64_t *line = (_Atomic uint64_t *)(lines + number % AHEAD_LINES * CACHE_LINE_BYTES);
        if (!writes)
            perf_word_await(line, number, task->relaxes);
        else if (is_half)
            perf_word_await(&task->shop->flags[task->partner].value, number - AHEAD_LINES / 2, true);
        if (writes)
            perf_word_store(line, number);
        else if (is_half)
            perf_word_store(&task->shop->flags[own].value, number);
    }
}

/* Replaces *best by the latency of the task's work, of which `per_repetition` hops or exchanges make a repetition,
 * where that is less. */
static void measure_latency_of(perf_task *task, int per_repetition, perf_latency *best) {
    perf_task_time time = perf_rounds_take(task);
    perf_latency latency = {.ns = time.us * 1e3 / per_repetition, .min_ns = time.min_us * 1e3 / per_repetition};
    if (best->ns == 0 || latency.ns < best->ns)
        *best = latency;
}

static void keep_slowest(perf_latency *slowest, perf_latency of_pair) {
    if (of_pair.ns > slowest->ns)
        *slowest = of_pair;
}

static void measure_pair(perf_task *task, int other) {
    int own = task->worker->index;
    perf_limits *limits = &task->shop->limits;
    task->partner = own == 0 ? other : own == other ? 0 : -1;
    task->bytes = CACHE_LINE_BYTES;
    task->repetitions = 100;

    /* A pair's numbers have to agree, and to be above those of pairs before it; who stood by has not counted. */
    task->sequence = (uint64_t)other << 32;
    perf_latency hop = {0}, exchange = {0}, ahead = {0};
    for (int relaxes = 0; relaxes < 2; relaxes++) {
        task->work = ping_pong;
        task->relaxes = relaxes;
        measure_latency_of(task, 2, &hop);
    }
    for (int way = 0; way < LINE_WAYS; way++) {
        choose_lines(task, way);
        measure_latency_of(task, 1, &exchange);
    }
    task->work = write_ahead;
    task->repetitions = AHEAD_LINES * 16;
    measure_latency_of(task, 1, &ahead);
    if (own != 0)
        return;
    keep_slowest(&limits->hop, hop);
    keep_slowest(&limits->exchange, exchange);
    keep_slowest(&limits->ahead, ahead);
    if (limits->exchange_nearest.ns == 0 || exchange.ns < limits->exchange_nearest.ns)
        limits->exchange_nearest = exchange;
}

/* Worker 0 with some of the others, near and far ones. */
static void measure_latency(perf_worker *worker, void *argument) {
    perf_task task = {.shop = argument, .worker = worker};
    int others = worker->team->workers - 1;
    int pairs = others < PAIRS_MAX ? others : PAIRS_MAX;
    for (int pair = 0; pair < pairs; pair++)
        measure_pair(&task, pairs == 1 ? 1 : 1 + pair * (others - 1) / (pairs - 1));
}

/* Pair after pair; the others stand by. */
static void measure_pairs(perf_worker *worker, void *argument) {
    perf_task task = {.shop = argument, .worker = worker, .repetitions = 100, .work = ping_pong};
    const int own = worker->index, workers = worker->team->workers;
    const int cpus = workers < PERF_PAIRS_CPUS_MAX ? workers : PERF_PAIRS_CPUS_MAX;
    perf_limits *limits = &task.shop->limits;
    uint64_t pairs = 0;
    for (int one = 0; one < cpus; one++) {
        for (int other = one + 1; other < cpus; other++) {
            perf_latency hop = {0};
            task.partner = own == one ? other : own == other ? one : -1;
            task.sequence = ++pairs << 32; /* above that of each pair before */
            for (int relaxes = 0; relaxes < 2; relaxes++) {
                task.relaxes = relaxes;
                measure_latency_of(&task, 2, &hop);
            }
            if (own == 0)
                limits->pair_hop_ns[one][other] = limits->pair_hop_ns[other][one] = hop.ns;
        }
    }
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
static void measure_handover(perf_worker *worker, void *argument) {
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

static void try_exchanges(perf_task *task) {
    perf_stream_way ways[PERF_STREAM_WAYS_MAX];
    int ways_count = perf_stream_ways(ways);
    task->repetitions = perf_repetitions(BATCH_BYTES, task->bytes, 100);
    if (task->bytes <= PERF_LINEWISE_BYTES_MAX)
        perf_lines_try(task);
    for (int i = 0; i < ways_count && task->bytes >= PERF_STREAM_BLOCK_BYTES; i++) {
        task->way = ways[i];
        task->way.read = ways[0].read;
        bool bypasses = strstr(task->way.name, "bypass") != NULL;
        if (task->way.fill != NULL && (!bypasses || task->bytes >= BYPASS_BYTES_MIN))
            perf_rounds_try(task, exchange_blocks, task->way.name);
    }
    task->way = ways[0];
    for (int i = 0; i < HANDING_WAYS; i++)
        if (task->bytes >= handing_ways[i].bytes_min)
            perf_rounds_try(task, handing_ways[i].work, handing_ways[i].name);
}

static void write_own_block(perf_task *task) {
    task->way.fill(perf_task_block(task, task->worker->index, 0), ++task->sequence, task->bytes);
}

static void read_partners_block(perf_task *task) {
    read_sink = task->way.read(perf_task_block(task, task->partner, 0), task->bytes);
}

static void try_fetch(perf_task *task) {
    perf_stream_way ways[PERF_STREAM_WAYS_MAX];
    int ways_count = perf_stream_ways(ways);
    task->repetitions = 1;
    task->prepare = write_own_block;
    for (int i = 0; i < ways_count; i++) {
        task->way = ways[i];
        task->way.fill = ways[0].fill;
        if (task->way.read != NULL)
            perf_rounds_try(task, read_partners_block, task->way.name);
    }
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

static void try_stream(perf_task *task) {
    perf_stream_way ways[PERF_STREAM_WAYS_MAX];
    int ways_count = perf_stream_ways(ways);
    task->at_bytes = 0;
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
        /* Of chunks, some may be in a cache, some not. */
        perf_rounds_record(task, chunks > 1 ? time.mean_us * (double)chunks : time.us, task->way.name);
    }
}

/* All pieces. */

/* Who has no neighbour exchanges blocks with itself; private ones it does not exchange at all. */
static int partner_of(const perf_piece_row *row, const perf_worker *worker) {
    const int workers = worker->team->workers, neighbour = worker->index ^ 1;
    if (row->blocks == BLOCKS_FETCHED)
        return (worker->index + 1) % workers;
    return neighbour < workers || row->blocks == BLOCKS_PRIVATE ? neighbour
           : row->private_blocks > 0                            ? -1
                                                                : worker->index;
}

/* Point after point. */
static void measure_curve(perf_worker *worker, void *argument) {
    perf_workshop *shop = argument;
    const perf_piece_row *row = &perf_piece_rows[shop->piece];
    const bool joins_blocks = shop->piece == PERF_SENDRECV && shop->request.in_place;
    size_t wanted_bytes = FETCH_BYTES_MAX, end_bytes = FETCH_BYTES_MAX;
    if (row->blocks != BLOCKS_FETCHED) {
        const bool is_private = row->blocks == BLOCKS_PRIVATE;
        wanted_bytes = is_private ? shop->request.stream_bytes_max : shop->request.exchange_bytes_max;
        end_bytes = is_private ? shop->stream_bytes_max : shop->block_bytes_max;
    }
    size_t last_bytes = row->bytes_min;
    while (perf_point_next(&last_bytes, wanted_bytes, end_bytes)) {
    }
    perf_task task = {.shop = shop, .worker = worker, .partner = partner_of(row, worker), .bytes = row->bytes_min};
    task.curve = &shop->limits.curve[shop->piece];
    task.work = row->work;
    if (row->private_blocks > 0)
        task.in = task.out = perf_private_allocate(last_bytes);
    if (row->private_blocks > 1 && !joins_blocks)
        task.out = perf_private_allocate(last_bytes);
    do {
        row->try_ways(&task);
        task.point++;
    } while (perf_point_next(&task.bytes, wanted_bytes, end_bytes));
}

const perf_piece_row perf_piece_rows[PERF_PIECES] = {
    [PERF_LATENCY] = {.measure = measure_latency, .cpus_min = 2},
    [PERF_PAIRS] = {.measure = measure_pairs, .cpus_min = 2},
    [PERF_HANDOVER] = {.measure = measure_handover, .cpus_min = 1},
    [PERF_EXCHANGES] = {"exchanges", "Blocks between cores, all at once: write one, read another's", measure_curve, 2,
                        try_exchanges, CACHE_LINE_BYTES, BLOCKS_EXCHANGED, 0, NULL},
    [PERF_SENDRECV] = {"sendrecv", "Private blocks to another core's private memory, all cores at once, in pairs",
                       measure_curve, 2, perf_try_sendrecv, SENDRECV_BYTES_MIN, BLOCKS_EXCHANGED, 2, NULL},
    [PERF_FETCH] = {"fetch", "Reading what another core has just written, all at once", measure_curve, 2, try_fetch,
                    FETCH_BYTES_MIN, BLOCKS_FETCHED, 0, NULL},
    [PERF_COPY] = {"copy", "Private memory to private memory, all cores at once (memory out of place)", measure_curve,
                   1, try_stream, STREAM_BYTES_MIN, BLOCKS_PRIVATE, 2, copy_private},
    [PERF_UPDATE] = {"update", "Private memory read and written back, all cores at once (memory in place)",
                     measure_curve, 1, try_stream, STREAM_BYTES_MIN, BLOCKS_PRIVATE, 1, update_private},
    [PERF_READ] = {"read", "Private memory read only, all cores at once", measure_curve, 1, try_stream,
                   STREAM_BYTES_MIN, BLOCKS_PRIVATE, 1, read_private},
};
