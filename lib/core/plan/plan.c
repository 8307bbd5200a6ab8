/* The plan: it picks algorithm and pieces, and checks the settings that it goes by. */
#include "plan/plan.h"

#include "base/minimum.h"

#define BIT(algorithm) (1u << KOLO_ALGORITHM_##algorithm)

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t whole_lines(size_t bytes) {
    return (bytes + KOLO_LINE_BYTES - 1) / KOLO_LINE_BYTES * KOLO_LINE_BYTES;
}

static const struct kolo_shared_band *band_of(size_t bytes, const struct kolo_shared_table *table) {
    uint32_t band = 0;
    while (band + 1 < table->bands && bytes > table->band[band].bytes_max)
        band++;
    return &table->band[band];
}

static_assert(2 * KOLO_OP_ELEMENT_BYTES_MAX <= KOLO_PAGE_BYTES,
              "a slot holds an element and a partial result, or a region of whole lines for an element");

/* Returns the bytes of a chunk, as the message has them, that one slot can take. Ring and tree keep partial results of
 * the accumulation type and elements of the dtype side by side. */
static size_t slot_chunk_bytes(kolo_algorithm algorithm, const kolo_kernel *kernel, size_t slot_bytes) {
    size_t count = slot_bytes / (kernel->acc_bytes + kernel->element_bytes);
    if (algorithm == KOLO_ALGORITHM_TREE && count >= KOLO_LINE_BYTES) /* each kind begins on a line */
        count = count / KOLO_LINE_BYTES * KOLO_LINE_BYTES;
    return algorithm == KOLO_ALGORITHM_RING || algorithm == KOLO_ALGORITHM_TREE ? count * kernel->element_bytes
                                                                                : slot_bytes;
}

/* Returns true if the message, in the accumulation type, fits the lines that each level of a tree has for itself. */
static bool fits_tree_lines(const struct kolo_question *question, const struct kolo_shared_settings *settings) {
    uint32_t levels = 1;
    while (levels <= KOLO_LEVELS_MAX && settings->tree_sizes[levels - 1])
        levels++;
    const size_t lines = kolo_lines_most(question->ranks);
    return lines >= levels &&
           question->count * question->kernel->acc_bytes <= lines / levels * KOLO_LINE_PAYLOAD - sizeof(uint64_t);
}

/* Returns whether an algorithm can be forced on a collective. Never DIRECT: other buffers then go by band. */
static bool can_force(const struct kolo_descriptor *of, uint32_t algorithm) {
    return of->table != KOLO_TABLE_SINGLE && of->algorithms[algorithm];
}

static size_t lines_bytes_end(const struct kolo_descriptor *of, bool forced,
                              const struct kolo_shared_settings *settings, uint32_t ranks) {
    const struct kolo_shared_band *first = &settings->tables[of->table].band[0];
    if (!of->lines || (forced ? settings->algorithm : first->algorithm) != KOLO_ALGORITHM_ONESHOT)
        return 0;
    const size_t most = kolo_lines_bytes_max(ranks);
    return 1 + (forced ? most : kolo_minimum(most, first->bytes_max));
}

/* Returns the bytes of a chunk such that one rank copies it in while others copy the last one out. Between two ranks of
 * a Zen 5 it took 0.64 to 0.9 of the time from 32 to 512 KiB, near and far; smaller chunks gained nothing. Among three
 * or four on two cores a broadcast took 0.83 to 1.0 near, 0.5 to 1.0 far, but a scatter up to twice the time. */
static size_t split_bytes(const struct kolo_question *question, const struct kolo_shared_table *table, size_t bytes) {
    const struct kolo_descriptor *of = question->descriptor;
    const bool is_pair = question->ranks == 2;
    const size_t chunks = is_pair ? 8 : 4, least_bytes = is_pair ? 16 << 10 : 32 << 10;
    return of->has_root && (is_pair || of->way == KOLO_WAY_SPREAD) && bytes >= 2 * least_bytes &&
                   bytes <= table->split_bytes_max
               ? larger(bytes / chunks, least_bytes)
               : SIZE_MAX;
}

void kolo_plan_make(const struct kolo_question *question, const struct kolo_shared_settings *settings,
                    size_t slot_bytes, struct kolo_answer *answer) {
    const struct kolo_descriptor *of = question->descriptor;
    const kolo_kernel *kernel = question->kernel;
    const bool forced = can_force(of, settings->algorithm), sends_blocks = of->send != WHOLE || of->applies;
    const size_t bytes = question->count * kernel->element_bytes,
                 sent_bytes = bytes * (sends_blocks ? question->ranks : 1);
    const struct kolo_shared_table *table = &settings->tables[of->table];
    const struct kolo_shared_band *band = band_of(bytes, table);
    kolo_algorithm algorithm = (kolo_algorithm)(forced ? settings->algorithm : band->algorithm);
    if (((kernel->keeps_order || kernel->is_whole || of->has_tensors) && algorithm == KOLO_ALGORITHM_RING) ||
        (kernel->is_whole && algorithm == KOLO_ALGORITHM_TREE) ||
        (of->has_tensors && bytes > question->packed_bytes_max))
        algorithm = KOLO_ALGORITHM_MESH;
    answer->algorithm = algorithm;
    answer->lines = !question->lanes && (sent_bytes < lines_bytes_end(of, forced, settings, question->ranks) ||
                                         (algorithm == KOLO_ALGORITHM_TREE && fits_tree_lines(question, settings)));
    answer->blocks = 1;
    answer->head_bytes = 0;
    answer->leaves_own_out = of->leaves_own_out;
    answer->takes = bytes * (of->recv == WHOLE ? 1 : question->ranks) >= settings->take_bytes_min;
    answer->chunks = 1; /* a call with no elements still synchronises */
    answer->stream = answer->reads = false;
    if (answer->lines) {
        answer->chunk_count = question->count ? question->count : 1;
        return;
    }
    const size_t element_lines_bytes = whole_lines(kernel->element_bytes);
    size_t chunk_bytes = slot_chunk_bytes(algorithm, kernel, slot_bytes);
    if (algorithm == (kolo_algorithm)band->algorithm) {
        const size_t most_bytes = kolo_minimum(band->chunk_bytes, split_bytes(question, table, sent_bytes));
        chunk_bytes = kolo_minimum(chunk_bytes, larger(most_bytes, element_lines_bytes));
    }
    if (sends_blocks) { /* regions begin on lines */
        answer->blocks = (uint32_t)kolo_minimum(question->ranks, chunk_bytes / element_lines_bytes);
        chunk_bytes = chunk_bytes / answer->blocks / KOLO_LINE_BYTES * KOLO_LINE_BYTES;
    }
    if (of->is_unequal)
        answer->head_bytes = KOLO_REGION_HEAD_BYTES;
    answer->chunk_count = (chunk_bytes - answer->head_bytes) / kernel->element_bytes;
    if (question->count > answer->chunk_count)
        answer->chunks = (question->count + answer->chunk_count - 1) / answer->chunk_count;
    answer->stream = bytes * (question->lanes ? question->lanes : 1) >= table->stream_bytes_min;
    answer->reads = bytes > 0 && bytes >= settings->reads[of->collective].bytes_min &&
                    bytes <= settings->reads[of->collective].bytes_max;
}

/* Returns whether the bands of a collective are valid. `algorithms`: those that may stand there, a bit each. */
static bool table_is_valid(const struct kolo_shared_table *table, uint32_t algorithms) {
    if (table->bands == 0 || table->bands > KOLO_BANDS)
        return false;
    for (uint32_t band = 0; band < table->bands; band++) {
        const struct kolo_shared_band *this = &table->band[band];
        if (this->algorithm >= KOLO_ALGORITHMS || !(algorithms >> this->algorithm & 1) ||
            this->chunk_bytes < KOLO_LINE_BYTES || (band > 0 && this->bytes_max <= this[-1].bytes_max))
            return false;
    }
    return true;
}

bool kolo_plan_settings_valid(const struct kolo_shared_settings *settings) {
    if (settings->algorithm >= KOLO_ALGORITHMS || !table_is_valid(&settings->tables[KOLO_TABLE_SINGLE], BIT(ONESHOT)))
        return false;
    for (int i = 0; i < KOLO_COLLECTIVES; i++) {
        const struct kolo_descriptor *of = kolo_descriptor_of((kolo_collective)i);
        uint32_t algorithms = 0;
        for (uint32_t algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
            algorithms |= (uint32_t)can_force(of, algorithm) << algorithm;
        if (of->table != KOLO_TABLE_SINGLE && !table_is_valid(&settings->tables[of->table], algorithms))
            return false;
    }
    uint32_t below = 1;
    for (uint32_t level = 0; level < KOLO_LEVELS_MAX && settings->tree_sizes[level]; level++) {
        const uint32_t size = settings->tree_sizes[level];
        if (size <= below || (size & (size - 1)) != 0)
            return false;
        below = size;
    }
    return true;
}

void kolo_plan_lines(const struct kolo_shared_settings *settings, uint32_t ranks, size_t bytes_end[KOLO_COLLECTIVES]) {
    for (int i = 0; i < KOLO_COLLECTIVES; i++) {
        const struct kolo_descriptor *of = kolo_descriptor_of((kolo_collective)i);
        bytes_end[i] = lines_bytes_end(of, can_force(of, settings->algorithm), settings, ranks);
    }
}

size_t kolo_plan_slice(size_t chunk_count, uint32_t element_bytes, uint32_t ranks, uint32_t rank, size_t *first) {
    const size_t line_count = larger(KOLO_LINE_BYTES / element_bytes, 1);
    const size_t lines = (chunk_count + line_count - 1) / line_count;
    const size_t slice_count = (lines + ranks - 1) / ranks * line_count;
    *first = kolo_minimum(chunk_count, rank * slice_count);
    return kolo_minimum(chunk_count - *first, slice_count);
}
