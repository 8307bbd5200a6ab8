/* Tree: a hierarchical all-reduce, level by level. Most data crosses within a cache domain, none between all ranks.
 *
 * Shape. Level l joins units of sizes[l] ranks into blocks of sizes[l + 1]: sizes[0] is 1, then come the sizes of the
 * communicator's levels (cpu/levels.h), then one block of all ranks. Units are aligned and their sizes powers of two,
 * so that the canonical order over a block's ranks is the canonical order over its units' results: kernels give partial
 * results in the accumulation type from level to level, and the last level rounds. The last unit of the last block may
 * have fewer ranks. Without levels the tree is oneshot in lines, and mesh in slots.
 *
 * Lines are for messages so small that each level has lines of its own within one set. At each level a rank shows its
 * unit's result and reads those of the block's other units from the ranks in its own place there; then all ranks of the
 * block hold the block's result. That is top + 1 cache-line crossings on the critical path, each within a block. To
 * reduce to one rank of each unit and broadcast back would take twice as many. The set is free again two rounds later,
 * as in oneshot.c: a rank that has finished a round has a result made of what every rank wrote in it, and each rank
 * wrote that after it had finished the round before.
 *
 * Slots are for larger messages. A chunk is cut by digits: a slice of level l, of which there are sizes[l + 1], is the
 * (slice / sizes[l] % fan)th of the fan = sizes[l + 1] / sizes[l] parts of slice (slice % sizes[l]) of the level below.
 * Within each block every slice has one owner (owner_in): in a whole block rank i of it owns slice i; a partial block
 * has fewer ranks than slices, and the digits wrap round. The owner of a slice also owns, within its unit, the slice of
 * the level below that contains it. The stages:
 *   show:       each rank copies its input, except its own slices of level 0, into its slot;
 *   reduce(l):  the owner of each slice of level l folds it from the slots of those ranks of the block's units that own
 *               the slice of the level below: at level 0 inputs, then partial results; at the top into results;
 *   give(l):    the owner copies the slice's result back to where it read what it folded;
 *   collect(l): from the top down, for each slice that it owns of the level below, a rank copies the parts that others
 *               in its block own, which they gave back, out of its slot into `recv`.
 * give(top) belongs to reduce(top), and give(l - 1) to collect(l). So each place in a slot that others touch is shared
 * by two ranks only, and the rank that has read it is the next to write it, for the reason in mesh.c. A slot holds
 * inputs and, behind them, partial results. A partial result takes the place of that of the level below, in a part that
 * only the owner itself has read. The place of the inputs of the owner's own slices of level 0, which nobody reads,
 * holds the results that it gives. At each level two ranks either read from each other or not at all.
 *
 * Stages are numbered show, reduce(0) .. reduce(top), collect(top) .. collect(0), and all but the last are published; a
 * stage waits for the stage before it of ranks of the same block. Chunks overlap: chunk c runs stage s in tick c *
 * period + s, the period such that KOLO_CHUNKS_AT_ONCE chunks are under way, and in one tick the later chunk comes
 * first. Steps number all of that in this order (step_of), and a stage waits only for smaller steps: no deadlock. Stage
 * show(c + 3) comes after collect(0) of c, the last stage that touches the slots of c, and before show(c + 4).
 * In place works: chunk c of `recv` is written after show(c) has copied what others reduce and reduce(0) has read what
 * this rank does. */
#include "algo/algo.h"
#include "algo/lines.h"
#include "comm/step/progress.h"

enum { LEVELS_MAX = KOLO_LEVELS_MAX + 1 };

static_assert(KOLO_CHUNKS_AT_ONCE < KOLO_SLOTS, "one slot is being given back");

struct level {
    uint32_t size;  /* ranks of a unit */
    uint32_t fan;   /* units of a whole block */
    uint32_t first; /* first rank of this rank's block */
    uint32_t units; /* of this rank's block, the partial one included */
    uint32_t unit;  /* this rank's */
};

struct tree {
    kolo_comm *comm;
    const struct kolo_message *message;
    uint32_t top;                        /* levels are 0 .. top */
    struct level levels[LEVELS_MAX + 1]; /* levels[top + 1].size: of the block of all, rounded up to whole units */
    uint32_t period;                     /* ticks between the shows of two chunks */
};

/* A part of a chunk, in elements from its start. */
struct span {
    size_t first;
    size_t count;
};

/* The shape of the tree. */

static struct tree make_tree(kolo_comm *comm, const struct kolo_message *message) {
    struct tree tree = {.comm = comm, .message = message, .levels[0].size = 1};
    const uint32_t *sizes = comm->settings.tree_sizes;
    while (tree.top < KOLO_LEVELS_MAX && sizes[tree.top] && sizes[tree.top] < comm->size) {
        tree.levels[tree.top + 1].size = sizes[tree.top];
        tree.top++;
    }
    const uint32_t last = tree.levels[tree.top].size;
    tree.levels[tree.top + 1].size = (comm->size + last - 1) / last * last;
    for (uint32_t l = 0; l <= tree.top; l++) {
        struct level *level = &tree.levels[l];
        const uint32_t block = level[1].size, first = comm->rank / block * block;
        const uint32_t ranks = comm->size - first < block ? comm->size - first : block;
        level->fan = block / level->size;
        level->first = first;
        level->units = (ranks + level->size - 1) / level->size;
        level->unit = (comm->rank - first) / level->size;
    }
    tree.period = (2 * tree.top + 3 + KOLO_CHUNKS_AT_ONCE - 1) / KOLO_CHUNKS_AT_ONCE;
    return tree;
}

/* Returns the number of `slice` among the parts of the slice of the level below that contains it. */
static uint32_t digit_of(const struct level *level, uint32_t slice) {
    return slice / level->size % level->fan;
}

/* Returns the rank that owns `slice` among those of the unit of `level` that begins with rank `first`. */
static uint32_t owner_in(const struct tree *tree, uint32_t level, uint32_t first, uint32_t slice) {
    while (level-- > 0) {
        const struct level *below = &tree->levels[level];
        const uint32_t left = tree->comm->size - first, units = (left + below->size - 1) / below->size;
        first += digit_of(below, slice) % units * below->size; /* no digit reaches a whole block's units */
    }
    return first;
}

/* Returns the first slice from `slice` on that this rank owns in its unit of `level`; the unit's size past the last. */
static uint32_t own_slice(const struct tree *tree, uint32_t level, uint32_t slice) {
    for (; slice < tree->levels[level].size; slice++) {
        uint32_t below = 0;
        while (below < level &&
               digit_of(&tree->levels[below], slice) % tree->levels[below].units == tree->levels[below].unit)
            below++;
        if (below == level)
            break;
    }
    return slice;
}

/* Returns where `slice` of a unit of `level` is in a chunk of `count` elements. */
static struct span locate(const struct tree *tree, uint32_t level, uint32_t slice, size_t count) {
    struct span span = {0, count};
    for (uint32_t below = 0; below < level; below++) {
        size_t within;
        span.count = kolo_plan_slice(span.count, tree->message->kernel->element_bytes, tree->levels[below].fan,
                                     digit_of(&tree->levels[below], slice), &within);
        span.first += within;
    }
    return span;
}

/* Lines. */

/* Reads the results of the units of `level` into comm->call.sources; this rank's own is `own`. */
static int read_units(const struct tree *tree, uint32_t level, uint32_t first_line, const uint8_t *own, size_t bytes,
                      const struct kolo_round *round) {
    kolo_comm *comm = tree->comm;
    const struct level *this = &tree->levels[level];
    for (uint32_t unit = 0; unit < this->units; unit++) {
        comm->call.sources[unit] = own;
        if (unit == this->unit)
            continue;
        const uint32_t peer = owner_in(tree, level, this->first + unit * this->size, comm->rank % this->size);
        int rc = kolo_lines_read(comm, peer, first_line, bytes, round, &comm->call.sources[unit]);
        if (rc < 0)
            return rc;
        comm->stats.received_bytes += bytes;
    }
    return 0;
}

/* Returns true where a partial block has one unit at `level`, whose partial result is already the block's. */
static bool is_folded(const struct tree *tree, uint32_t level) {
    return level > 0 && tree->levels[level].units == 1;
}

/* Folds comm->call.sources, the results of the units of `level`, into a partial result or, at the top, the result. */
static void fold_units(const struct tree *tree, uint32_t level, void *dst, size_t count) {
    kolo_comm *comm = tree->comm;
    const kolo_kernel *kernel = tree->message->kernel;
    const uint32_t units = tree->levels[level].units;
    if (tree->top == 0)
        kernel->fold(dst, comm->call.sources, units, count, comm->size);
    else if (level == tree->top)
        kernel->finish(dst, comm->call.sources, units, count, comm->size);
    else if (level == 0)
        kernel->fold_partial(dst, comm->call.sources, units, count);
    else
        kernel->fold_partials(dst, comm->call.sources, units, count);
}

static int run_lines(const struct tree *tree) {
    kolo_comm *comm = tree->comm;
    const struct kolo_message *message = tree->message;
    const struct kolo_round round = kolo_lines_round(comm);
    const uint32_t lines = KOLO_LINES / (tree->top + 1);
    _Alignas(KOLO_LINE_BYTES) uint8_t partial[KOLO_LINES * KOLO_LINE_PAYLOAD];
    const uint8_t *own = message->send;
    size_t bytes = message->count * message->kernel->element_bytes;
    for (uint32_t level = 0; level <= tree->top; level++) {
        if (tree->levels[level].units > 1) { /* otherwise nobody reads it */
            KOLO_POINT("tree.showing_lines");
            kolo_lines_write(comm, level * lines, own, bytes, &round);
            kolo_bell_ring(&comm->waiter, &comm->signal->bell);
            comm->stats.sent_bytes += bytes;
        }
        int rc = read_units(tree, level, level * lines, own, bytes, &round);
        if (rc < 0)
            return rc;
        if (message->count > 0 && !is_folded(tree, level))
            fold_units(tree, level, level == tree->top ? message->recv : partial, message->count);
        KOLO_POINT("tree.folded_lines");
        own = partial;
        bytes = message->count * message->kernel->acc_bytes;
    }
    return 0;
}

/* Slots. */

static uint64_t step_of(const struct tree *tree, uint64_t chunk, uint32_t stage) {
    return KOLO_CHUNKS_AT_ONCE * (chunk * tree->period + stage) + stage / tree->period + 1;
}

static int await_stage(const struct tree *tree, uint32_t peer, size_t chunk, uint32_t stage) {
    return peer == tree->comm->rank ? 0 : kolo_step_await(tree->comm, peer, step_of(tree, chunk, stage));
}

/* Returns the input or result at `span` in the slot of `rank`. */
static uint8_t *element_at(const struct tree *tree, uint32_t rank, size_t chunk, struct span span) {
    return kolo_slot(tree->comm, rank, chunk) + span.first * tree->message->kernel->element_bytes;
}

static uint8_t *partial_at(const struct tree *tree, uint32_t rank, size_t chunk, struct span span) {
    const kolo_kernel *kernel = tree->message->kernel;
    return kolo_slot(tree->comm, rank, chunk) + tree->message->plan.chunk_count * kernel->element_bytes +
           span.first * kernel->acc_bytes;
}

/* Returns where in the slot of `rank` the owner of part `span` of a slice of `level` folds, and leaves the result. */
static uint8_t *box_at(const struct tree *tree, uint32_t rank, size_t chunk, uint32_t level, struct span span) {
    return level == 0 ? element_at(tree, rank, chunk, span) : partial_at(tree, rank, chunk, span);
}

static int show(const struct tree *tree, size_t chunk) {
    kolo_comm *comm = tree->comm;
    const struct kolo_message *message = tree->message;
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, count = kolo_chunk(message, chunk, &first);
    int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    for (uint32_t slice = 0, own = own_slice(tree, 1, 0); slice < tree->levels[1].size; slice++) {
        const struct span span = locate(tree, 1, slice, count);
        if (slice == own) {
            own = own_slice(tree, 1, slice + 1);
            continue;
        }
        kolo_copy(element_at(tree, comm->rank, chunk, span), message->send + (first + span.first) * element_bytes,
                  span.count * element_bytes);
        comm->stats.sent_bytes += span.count * element_bytes;
    }
    KOLO_POINT("tree.shown");
    kolo_step_publish(comm, step_of(tree, chunk, 0));
    return 0;
}

/* Waits for the units' results at `span`, in `slice` of the level below, for comm->call.sources; `own`: this rank's. */
static int await_units(const struct tree *tree, size_t chunk, uint32_t level, uint32_t slice, struct span span,
                       const uint8_t *own) {
    kolo_comm *comm = tree->comm;
    const struct level *this = &tree->levels[level];
    for (uint32_t unit = 0; unit < this->units; unit++) {
        const uint32_t rank = owner_in(tree, level, this->first + unit * this->size, slice);
        int rc = await_stage(tree, rank, chunk, level);
        if (rc < 0)
            return rc;
        comm->call.sources[unit] = box_at(tree, rank, chunk, level, span);
        if (rank == comm->rank && own)
            comm->call.sources[unit] = own;
    }
    return 0;
}

/* Folds `count` elements of comm->call.sources, which it uses up, into `slot` and, at the top, into `recv`: piece by
 * piece, since a slot is written by copying, for the reason in copy.c. */
static void fold_slots(const struct tree *tree, uint32_t level, uint8_t *slot, uint8_t *recv, size_t count) {
    kolo_comm *comm = tree->comm;
    const kolo_kernel *kernel = tree->message->kernel;
    const bool is_top = level == tree->top, is_streamed = is_top && tree->message->plan.stream;
    const size_t source_bytes = level == 0 ? kernel->element_bytes : kernel->acc_bytes;
    const size_t result_bytes = is_top ? kernel->element_bytes : kernel->acc_bytes;
    const size_t piece_count = KOLO_PIECE_BYTES / result_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    for (size_t done = 0; done < count; done += piece_count) {
        const size_t left = count - done, part = left < piece_count ? left : piece_count;
        uint8_t *result = is_top && !is_streamed ? recv : comm->call.stage;
        fold_units(tree, level, result, part);
        kolo_copy(slot, result, part * result_bytes);
        if (is_streamed)
            kolo_copy_stream(recv, result, part * result_bytes, NULL);
        for (uint32_t unit = 0; unit < tree->levels[level].units; unit++)
            comm->call.sources[unit] = (const uint8_t *)comm->call.sources[unit] + part * source_bytes;
        slot += part * result_bytes;
        recv += part * result_bytes;
    }
}

/* Gives the results of the slices of `level` that this rank owns back to where reduce(level) read them. */
static void give(const struct tree *tree, size_t chunk, uint32_t level) {
    kolo_comm *comm = tree->comm;
    const struct level *this = &tree->levels[level];
    size_t first, count = kolo_chunk(tree->message, chunk, &first);
    const uint32_t slices = tree->levels[level + 1].size;
    for (uint32_t slice = own_slice(tree, level + 1, 0); slice < slices;
         slice = own_slice(tree, level + 1, slice + 1)) {
        const struct span span = locate(tree, level + 1, slice, count);
        const size_t bytes = span.count * tree->message->kernel->element_bytes;
        for (uint32_t unit = 0; unit < this->units; unit++) {
            if (unit == this->unit)
                continue;
            const uint32_t rank = owner_in(tree, level, this->first + unit * this->size, slice);
            kolo_copy(box_at(tree, rank, chunk, level, span), element_at(tree, comm->rank, chunk, span), bytes);
            KOLO_POINT("tree.given");
            comm->stats.sent_bytes += bytes;
        }
    }
}

static int reduce(const struct tree *tree, size_t chunk, uint32_t level) {
    kolo_comm *comm = tree->comm;
    const struct kolo_message *message = tree->message;
    const kolo_kernel *kernel = message->kernel;
    size_t first, count = kolo_chunk(message, chunk, &first);
    const uint32_t slices = tree->levels[level + 1].size;
    for (uint32_t slice = own_slice(tree, level + 1, 0); slice < slices;
         slice = own_slice(tree, level + 1, slice + 1)) {
        const struct span span = locate(tree, level + 1, slice, count);
        const size_t offset = (first + span.first) * kernel->element_bytes;
        int rc = await_units(tree, chunk, level, slice, span, level == 0 ? message->send + offset : NULL);
        if (rc < 0)
            return rc;
        uint8_t *slot =
            level == tree->top ? element_at(tree, comm->rank, chunk, span) : partial_at(tree, comm->rank, chunk, span);
        if (!is_folded(tree, level))
            fold_slots(tree, level, slot, message->recv + offset, span.count);
        if (level < tree->top)
            comm->stats.sent_bytes += span.count * kernel->acc_bytes;
        comm->stats.received_bytes +=
            span.count * (level == 0 ? kernel->element_bytes : kernel->acc_bytes) * (tree->levels[level].units - 1);
    }
    KOLO_POINT("tree.reduced");
    if (level == tree->top)
        give(tree, chunk, level);
    kolo_step_publish(comm, step_of(tree, chunk, level + 1));
    return 0;
}

/* Copies the results at `span`, given back at `level`, to `recv` and, above level 0, to where they are given from. */
static void take(const struct tree *tree, size_t chunk, uint32_t level, struct span span) {
    kolo_comm *comm = tree->comm;
    const struct kolo_message *message = tree->message;
    const size_t bytes = span.count * message->kernel->element_bytes;
    const uint8_t *source = box_at(tree, comm->rank, chunk, level, span);
    size_t first;
    kolo_chunk(message, chunk, &first);
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
    if (level > 0) {
        uint8_t *result = element_at(tree, comm->rank, chunk, span);
        kolo_copy(result, source, bytes);
        source = result;
    }
    kolo_result_copy(message, first + span.first, source, span.count);
    KOLO_POINT("tree.taken");
    comm->stats.received_bytes += bytes;
}

static int collect(const struct tree *tree, size_t chunk, uint32_t level) {
    const struct level *this = &tree->levels[level];
    const uint32_t stage = 2 * tree->top + 2 - level;
    size_t first, count = kolo_chunk(tree->message, chunk, &first);
    for (uint32_t slice = own_slice(tree, level, 0); slice < this->size; slice = own_slice(tree, level, slice + 1)) {
        for (uint32_t i = 1; i <= this->fan; i++) { /* begins after itself, so that not all read one slot at once */
            const uint32_t part = slice + (this->unit + i) % this->fan * this->size;
            const uint32_t rank = owner_in(tree, level + 1, this->first, part);
            int rc = await_stage(tree, rank, chunk, stage - 1);
            if (rc < 0)
                return rc;
            if (rank != tree->comm->rank)
                take(tree, chunk, level, locate(tree, level + 1, part, count));
        }
    }
    if (level > 0) {
        give(tree, chunk, level - 1);
        KOLO_POINT("tree.collected");
        kolo_step_publish(tree->comm, step_of(tree, chunk, stage));
    }
    return 0;
}

static int run_stage(const struct tree *tree, size_t chunk, uint32_t stage) {
    if (stage == 0)
        return show(tree, chunk);
    if (stage <= tree->top + 1)
        return reduce(tree, chunk, stage - 1);
    return collect(tree, chunk, 2 * tree->top + 2 - stage);
}

/* Returns the ranks that read this rank's slot: the owners, in each block's other units, of the slices that it owns. */
static const uint64_t *find_readers(const struct tree *tree) {
    kolo_comm *comm = tree->comm;
    uint64_t *readers = comm->call.tree_readers;
    if (readers[comm->rank / 64] >> (comm->rank % 64) & 1) /* they were found in an earlier call */
        return readers;
    for (uint32_t l = 0; l <= tree->top; l++) {
        const struct level *level = &tree->levels[l];
        for (uint32_t slice = own_slice(tree, l, 0); slice < level->size; slice = own_slice(tree, l, slice + 1))
            for (uint32_t unit = 0; unit < level->units; unit++) {
                const uint32_t rank = owner_in(tree, l, level->first + unit * level->size, slice);
                readers[rank / 64] |= UINT64_C(1) << (rank % 64);
            }
    }
    return readers;
}

static int run_slots(const struct tree *tree) {
    const size_t chunks = tree->message->plan.chunks;
    const uint32_t stages = 2 * tree->top + 3;
    const uint64_t ticks = (uint64_t)(chunks - 1) * tree->period + stages;
    const uint64_t *readers = find_readers(tree);
    int rc = 0;
    kolo_schedule_begin(tree->comm, step_of(tree, chunks - 1, stages - 1), chunks);
    for (uint64_t tick = 0; rc == 0 && tick < ticks; tick++)
        for (uint32_t age = 0; rc == 0 && age < KOLO_CHUNKS_AT_ONCE && age <= tick / tree->period; age++) {
            const uint64_t chunk = tick / tree->period - age, stage = tick - chunk * tree->period;
            if (chunk >= chunks || stage >= stages)
                continue;
            rc = run_stage(tree, chunk, (uint32_t)stage);
            if (stage == stages - 1)
                kolo_slot_retire_to(tree->comm, chunk, step_of(tree, chunk + KOLO_CHUNKS_AT_ONCE, 0), readers);
        }
    if (tree->message->plan.stream)
        kolo_fence_stream();
    kolo_schedule_end(tree->comm);
    return rc;
}

int kolo_tree_run(kolo_comm *comm, const struct kolo_message *message) {
    const struct tree tree = make_tree(comm, message);
    return message->plan.lines ? run_lines(&tree) : run_slots(&tree);
}
