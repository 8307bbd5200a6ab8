/* What no all-reduce of private buffers can do without, on each core: to read its own `send` and to write as many bytes
 * where its partner can read them, to read as many that the partner has written, and to write as many to its own
 * `recv`. For what a core has to learn from another it reads, and the other has to write, at least as many bytes as the
 * message has, be it inputs or sums; and nothing of a private buffer is seen or changed but by its own core.
 *
 * It is done here with nothing else: one flag a core, no call, no choice. Either in one step, where all of `send` goes
 * across, or in two, as a reduce-scatter and an all-gather do: half of it, and then the sums of the other half. The
 * bytes are the same, but in two steps each line is written where it has been read (perf_pieces.c says why that
 * counts), and comes back in it. */
#include <string.h>

#include "perf_buffers.h"
#include "perf_pieces.h"
#include "perf_rounds.h"

enum { LINES_BYTES_MAX = 1024 };
/* From where on a way is worth a try. */
enum { STEPS_BYTES_MIN = 4096, LIBC_BYTES_MIN = 16 << 10, BYPASS_BYTES_MIN = 1 << 20 };
enum { BOXES = 4 }; /* that the chunks of a message use in turn */
enum { BATCH_BYTES = 16 << 10, BATCH_MAX = 50 };

/* In one step. */

/* In the block that it has read before. */
static void one_step(perf_task *task) {
    for (int i = 0; i < task->repetitions; i++) {
        task->sequence++;
        task->copy_in(perf_task_block(task, perf_swap_written(task), 0), task->in, task->bytes);
        perf_task_meet(task);
        task->way.copy(task->out, perf_task_block(task, perf_swap_read(task), 0), task->bytes);
    }
}

/* In two steps: chunk by chunk, one behind the other, so that what a core waits for has been under way while it did
 * something else. A box is written again when its partner has said that it is done with the joining of that chunk,
 * which its owner has awaited before it copied the chunk out. */

static char *box_of(const perf_task *task, int worker, size_t chunk) {
    return perf_task_block(task, worker, 0) + chunk % BOXES * (task->chunk_bytes / 2);
}

static uint64_t step_in(size_t chunk) {
    return chunk == 0 ? 1 : 2 * chunk;
}

static uint64_t step_joined(size_t chunk) {
    return 2 * chunk + 3;
}

static void publish(perf_task *task, uint64_t step) {
    perf_word_store(&task->shop->flags[task->worker->index].value, task->sequence + step);
}

static void await_partner(perf_task *task, uint64_t step) {
    perf_word_await(&task->shop->flags[task->partner].value, task->sequence + step, true);
}

static void pass_chunks(perf_task *task) {
    const size_t chunks = task->bytes / task->chunk_bytes, half = task->chunk_bytes / 2;
    const int own = task->worker->index, partner = task->partner;
    const size_t own_at = own < partner ? 0 : half, other_at = half - own_at;
    for (size_t tick = 0; tick < chunks + 2; tick++) {
        if (tick < chunks) {
            task->copy_in(box_of(task, own, tick), task->in + tick * task->chunk_bytes + other_at, half);
            publish(task, step_in(tick));
        }
        if (tick >= 1 && tick - 1 < chunks) {
            const size_t at = (tick - 1) * task->chunk_bytes + own_at;
            await_partner(task, step_in(tick - 1));
            task->way.join(box_of(task, partner, tick - 1), task->in + at, task->out + at, half);
            publish(task, step_joined(tick - 1));
        }
        if (tick >= 2) {
            await_partner(task, step_joined(tick - 2));
            task->way.copy(task->out + (tick - 2) * task->chunk_bytes + other_at, box_of(task, own, tick - 2), half);
        }
    }
    task->sequence += step_joined(chunks);
}

static void two_steps(perf_task *task) {
    for (int i = 0; i < task->repetitions; i++)
        pass_chunks(task);
}

/* Measuring. */

/* Chunks of two steps; 0: the whole message. */
static const struct {
    const char *name;
    size_t chunk_bytes;
} step_ways[] = {{"two steps", 0}, {"two steps, 128K", 128 << 10}, {"two steps, 512K", 512 << 10}};

enum { STEP_WAYS = sizeof(step_ways) / sizeof(step_ways[0]) };

static void flush_private(perf_task *task) {
    perf_flush(task->in, task->bytes);
    perf_flush(task->out, task->bytes);
}

static void try_blocks(perf_task *task) {
    if (task->bytes < PERF_STREAM_BLOCK_BYTES)
        return;
    perf_rounds_try(task, one_step, "one step");
    for (int i = 0; i < STEP_WAYS && task->bytes >= STEPS_BYTES_MIN; i++) {
        task->chunk_bytes = step_ways[i].chunk_bytes ? step_ways[i].chunk_bytes : task->bytes;
        if (step_ways[i].chunk_bytes < task->bytes)
            perf_rounds_try(task, two_steps, step_ways[i].name);
    }
}

void perf_try_sendrecv(perf_task *task) {
    perf_stream_way ways[PERF_STREAM_WAYS_MAX];
    const int ways_count = perf_stream_ways(ways);
    task->prepare = task->shop->request.cold ? flush_private : NULL;
    task->repetitions = task->prepare != NULL ? 1 : perf_repetitions(BATCH_BYTES, task->bytes, BATCH_MAX);
    if (task->bytes <= LINES_BYTES_MAX)
        perf_lines_try(task);
    for (int i = 0; i < ways_count; i++) {
        const bool bypasses = strstr(ways[i].name, "bypass") != NULL;
        if (strstr(ways[i].name, "prefetch") != NULL || (bypasses && task->bytes < BYPASS_BYTES_MIN) ||
            (ways[i].join == NULL && task->bytes < LIBC_BYTES_MIN))
            continue;
        task->way = ways[i];
        task->way.join = ways[0].join;
        task->copy_in = bypasses ? ways[0].copy : ways[i].copy;
        try_blocks(task);
    }
}
