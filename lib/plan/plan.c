/* Picks algorithm and pieces, and checks the settings that it goes by. */
#include "plan/plan.h"

#define BIT(algorithm) (1u << KOLO_ALGORITHM_##algorithm)

/* Ranks up to which collectives with a root go through lines. In lines all ranks wait for each other; with more ranks
 * it is worth more that those which have nothing to wait for run ahead, above all where ranks share processors. */
#define ROOTED_LINES 2

/* What the plan knows of each collective. One without a row has one algorithm, in slots. DIRECT is in no row: it is for
 * buffers of kolo_alloc, and calls with other buffers go by band. */
static const struct traits {
    uint32_t table;
    uint32_t algorithms; /* a bit for each that can be forced */
    uint32_t choices;    /* a bit for each that rank 0 may choose */
    uint32_t lines;      /* up to how many ranks ONESHOT can go through lines, which all ranks read of all others */
    bool sends_blocks;   /* a rank sends a block to each other */
    bool has_heads;      /* a block comes with its count */
} traits[KOLO_COLLECTIVES] = {
    [KOLO_BARRIER] = {.lines = KOLO_RANKS_MAX},
    [KOLO_ALLREDUCE] = {.table = KOLO_TABLE_ALLREDUCE,
                        .algorithms = BIT(ONESHOT) | BIT(MESH) | BIT(RING) | BIT(CENTRAL) | BIT(TREE),
                        .choices = BIT(ONESHOT) | BIT(MESH) | BIT(TREE),
                        .lines = KOLO_RANKS_MAX},
    [KOLO_BROADCAST] = {.lines = ROOTED_LINES},
    [KOLO_ALLGATHER] = {.lines = KOLO_RANKS_MAX},
    [KOLO_REDUCE] = {.table = KOLO_TABLE_REDUCE,
                     .algorithms = BIT(ONESHOT) | BIT(MESH),
                     .choices = BIT(ONESHOT) | BIT(MESH),
                     .lines = ROOTED_LINES},
    [KOLO_REDUCE_SCATTER] = {.lines = KOLO_RANKS_MAX, .sends_blocks = true},
    [KOLO_REDUCE_SCATTERV] = {.sends_blocks = true},
    [KOLO_GATHER] = {.lines = ROOTED_LINES},
    [KOLO_GATHERV] = {.has_heads = true},
    [KOLO_SCATTER] = {.lines = ROOTED_LINES, .sends_blocks = true},
    [KOLO_SCATTERV] = {.sends_blocks = true, .has_heads = true},
    [KOLO_ALLTOALL] = {.lines = KOLO_RANKS_MAX, .sends_blocks = true},
    [KOLO_ALLTOALLV] = {.sends_blocks = true, .has_heads = true},
    [KOLO_SCAN] = {.lines = KOLO_RANKS_MAX},
    [KOLO_EXSCAN] = {.lines = KOLO_RANKS_MAX},
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool is_forced(kolo_collective collective, const struct kolo_shared_settings *settings) {
    return traits[collective].algorithms >> settings->algorithm & 1;
}

static const struct kolo_shared_table *table_of(kolo_collective collective,
                                                const struct kolo_shared_settings *settings) {
    return &settings->tables[traits[collective].table];
}

static const struct kolo_shared_band *band_of(size_t bytes, const struct kolo_shared_table *table) {
    uint32_t band = 0;
    while (band + 1 < table->bands && bytes > table->band[band].bytes_max)
        band++;
    return &table->band[band];
}

/* Bytes of a chunk, as the message has them, that one slot can take. Ring and tree keep partial results of the
 * accumulation type and elements of the dtype side by side. */
static size_t slot_chunk_bytes(kolo_algorithm algorithm, const struct kolo_question *question, size_t slot_bytes) {
    const size_t both_bytes = question->acc_bytes + question->element_bytes;
    if (algorithm == KOLO_ALGORITHM_RING)
        return slot_bytes / both_bytes * question->element_bytes;
    if (algorithm == KOLO_ALGORITHM_TREE) /* each kind begins on a line */
        return slot_bytes / both_bytes / KOLO_LINE_BYTES * KOLO_LINE_BYTES * question->element_bytes;
    return slot_bytes;
}

/* True if the message, in the accumulation type, fits the lines that each level of a tree has for itself. */
static bool fits_tree_lines(const struct kolo_question *question, const struct kolo_shared_settings *settings) {
    uint32_t levels = 1;
    while (levels <= KOLO_TREE_LEVELS && settings->tree_sizes[levels - 1])
        levels++;
    return question->count * question->acc_bytes <= KOLO_LINES / levels * KOLO_LINE_PAYLOAD - sizeof(uint64_t);
}

static size_t lines_bytes_end(kolo_collective collective, const struct kolo_shared_settings *settings, uint32_t ranks) {
    const struct kolo_shared_band *first = &table_of(collective, settings)->band[0];
    const bool forced = is_forced(collective, settings);
    if (ranks > traits[collective].lines || (forced ? settings->algorithm : first->algorithm) != KOLO_ALGORITHM_ONESHOT)
        return 0;
    return 1 + (forced ? KOLO_LINES_BYTES_MAX : smaller(KOLO_LINES_BYTES_MAX, first->bytes_max));
}

struct kolo_answer kolo_plan_make(const struct kolo_question *question, const struct kolo_shared_settings *settings,
                                  size_t slot_bytes) {
    const bool sends_blocks = traits[question->collective].sends_blocks;
    const size_t bytes = question->count * question->element_bytes,
                 sent_bytes = bytes * (sends_blocks ? question->ranks : 1);
    const struct kolo_shared_table *table = table_of(question->collective, settings);
    const struct kolo_shared_band *band = band_of(bytes, table);
    const bool forced = is_forced(question->collective, settings);
    struct kolo_answer answer = {.algorithm = (kolo_algorithm)(forced ? settings->algorithm : band->algorithm)};
    if ((sent_bytes <= KOLO_LINES_BYTES_MAX &&
         sent_bytes < lines_bytes_end(question->collective, settings, question->ranks)) ||
        (answer.algorithm == KOLO_ALGORITHM_TREE && fits_tree_lines(question, settings))) {
        answer.lines = true;
        answer.chunk_count = question->count ? question->count : 1;
        return answer;
    }
    size_t chunk_bytes = slot_chunk_bytes(answer.algorithm, question, slot_bytes);
    if (answer.algorithm == (kolo_algorithm)band->algorithm)
        chunk_bytes = smaller(chunk_bytes, band->chunk_bytes);
    answer.blocks = 1;
    answer.head_bytes = traits[question->collective].has_heads ? KOLO_REGION_HEAD_BYTES : 0;
    if (sends_blocks) { /* regions begin on lines */
        answer.blocks = (uint32_t)smaller(question->ranks, chunk_bytes / KOLO_LINE_BYTES);
        chunk_bytes = chunk_bytes / answer.blocks / KOLO_LINE_BYTES * KOLO_LINE_BYTES;
    }
    chunk_bytes -= answer.head_bytes;
    answer.chunk_count = chunk_bytes / question->element_bytes;
    answer.chunks = (question->count + answer.chunk_count - 1) / answer.chunk_count;
    if (answer.chunks == 0)
        answer.chunks = 1; /* a call with no elements still synchronises */
    answer.stream = bytes >= table->stream_bytes_min;
    return answer;
}

/* `algorithms`: those that may stand in the table, a bit each. */
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
    for (int i = 0; i < KOLO_COLLECTIVES; i++)
        if (traits[i].table != KOLO_TABLE_SINGLE &&
            !table_is_valid(&settings->tables[traits[i].table], traits[i].algorithms))
            return false;
    uint32_t below = 1;
    for (uint32_t level = 0; level < KOLO_TREE_LEVELS && settings->tree_sizes[level]; level++) {
        const uint32_t size = settings->tree_sizes[level];
        if (size <= below || (size & (size - 1)) != 0)
            return false;
        below = size;
    }
    return true;
}

void kolo_plan_lines(const struct kolo_shared_settings *settings, uint32_t ranks, size_t bytes_end[KOLO_COLLECTIVES]) {
    for (int i = 0; i < KOLO_COLLECTIVES; i++)
        bytes_end[i] = lines_bytes_end((kolo_collective)i, settings, ranks);
}

uint32_t kolo_plan_table(kolo_collective collective) {
    return traits[collective].table;
}

bool kolo_plan_may_choose(kolo_collective collective, kolo_algorithm algorithm) {
    return traits[collective].choices >> algorithm & 1;
}

size_t kolo_plan_slice(size_t chunk_count, uint32_t element_bytes, uint32_t ranks, uint32_t rank, size_t *first) {
    const size_t line_count = KOLO_LINE_BYTES / element_bytes;
    const size_t lines = (chunk_count + line_count - 1) / line_count;
    const size_t slice_count = (lines + ranks - 1) / ranks * line_count;
    *first = smaller(chunk_count, rank * slice_count);
    return smaller(chunk_count - *first, slice_count);
}
