#include "plan/plan.h"

#include <string.h>

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* KOLO_ALGORITHM_DIRECT is for buffers of kolo_alloc: what is not done in them goes by band. */
static bool is_forced(const struct kolo_shared_settings *settings) {
    return settings->algorithm != KOLO_ALGORITHM_AUTO && settings->algorithm != KOLO_ALGORITHM_DIRECT;
}

static const struct kolo_shared_band *band_of(size_t bytes, const struct kolo_shared_settings *settings) {
    uint32_t band = 0;
    while (band + 1 < settings->bands && bytes > settings->band[band].bytes_max)
        band++;
    return &settings->band[band];
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

static size_t allreduce_lines_bytes_end(const struct kolo_shared_settings *settings) {
    const bool forced = is_forced(settings);
    if ((forced ? settings->algorithm : settings->band[0].algorithm) != KOLO_ALGORITHM_ONESHOT)
        return 0;
    return 1 + (forced ? KOLO_LINES_BYTES_MAX : smaller(KOLO_LINES_BYTES_MAX, settings->band[0].bytes_max));
}

/* Of a collective that has one algorithm, over slots as large as they come. */
static struct kolo_answer only_algorithm(const struct kolo_question *question, size_t slot_bytes) {
    struct kolo_answer answer = {.algorithm = KOLO_ALGORITHM_ONESHOT,
                                 .chunk_count = slot_bytes / question->element_bytes};
    answer.chunks = question->count ? (question->count + answer.chunk_count - 1) / answer.chunk_count : 1;
    return answer;
}

struct kolo_answer kolo_plan_make(const struct kolo_question *question, const struct kolo_shared_settings *settings,
                                  size_t slot_bytes) {
    const size_t bytes = question->count * question->element_bytes;
    const struct kolo_shared_band *band = band_of(bytes, settings);
    const bool forced = is_forced(settings);
    if (question->collective != KOLO_ALLREDUCE)
        return only_algorithm(question, slot_bytes);
    struct kolo_answer answer = {.algorithm = (kolo_algorithm)(forced ? settings->algorithm : band->algorithm)};
    if (bytes < allreduce_lines_bytes_end(settings) ||
        (answer.algorithm == KOLO_ALGORITHM_TREE && fits_tree_lines(question, settings))) {
        answer.lines = true;
        answer.chunk_count = question->count ? question->count : 1;
        return answer;
    }
    size_t chunk_bytes = slot_chunk_bytes(answer.algorithm, question, slot_bytes);
    if (answer.algorithm == (kolo_algorithm)band->algorithm)
        chunk_bytes = smaller(chunk_bytes, band->chunk_bytes);
    answer.chunk_count = chunk_bytes / question->element_bytes;
    answer.chunks = (question->count + answer.chunk_count - 1) / answer.chunk_count;
    if (answer.chunks == 0)
        answer.chunks = 1; /* a call for nothing still meets the others */
    answer.stream = bytes >= settings->stream_bytes_min;
    return answer;
}

bool kolo_plan_settings_valid(const struct kolo_shared_settings *settings) {
    if (settings->algorithm >= KOLO_ALGORITHMS || settings->bands == 0 || settings->bands > KOLO_BANDS)
        return false;
    for (uint32_t band = 0; band < settings->bands; band++) {
        const struct kolo_shared_band *this = &settings->band[band];
        if (this->algorithm == KOLO_ALGORITHM_AUTO || this->algorithm == KOLO_ALGORITHM_DIRECT ||
            this->algorithm >= KOLO_ALGORITHMS || this->chunk_bytes < KOLO_LINE_BYTES ||
            (band > 0 && this->bytes_max <= this[-1].bytes_max))
            return false;
    }
    uint32_t below = 1;
    for (uint32_t level = 0; level < KOLO_TREE_LEVELS && settings->tree_sizes[level]; level++) {
        const uint32_t size = settings->tree_sizes[level];
        if (size <= below || (size & (size - 1)) != 0)
            return false;
        below = size;
    }
    return true;
}

void kolo_plan_lines(const struct kolo_shared_settings *settings, size_t bytes_end[KOLO_COLLECTIVES]) {
    memset(bytes_end, 0, KOLO_COLLECTIVES * sizeof *bytes_end);
    bytes_end[KOLO_BARRIER] = 1;
    bytes_end[KOLO_ALLREDUCE] = allreduce_lines_bytes_end(settings);
}

size_t kolo_plan_slice(size_t chunk_count, uint32_t element_bytes, uint32_t ranks, uint32_t rank, size_t *first) {
    const size_t line_count = KOLO_LINE_BYTES / element_bytes;
    const size_t lines = (chunk_count + line_count - 1) / line_count;
    const size_t slice_count = (lines + ranks - 1) / ranks * line_count;
    *first = smaller(chunk_count, rank * slice_count);
    return smaller(chunk_count - *first, slice_count);
}
