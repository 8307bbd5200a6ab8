#include "algo/plan.h"

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static kolo_algorithm choose(const struct kolo_question *question, const struct kolo_shared_settings *settings) {
    if (settings->algorithm != KOLO_ALGORITHM_AUTO)
        return (kolo_algorithm)settings->algorithm;
    return question->count * question->element_bytes <= settings->oneshot_bytes_max ? KOLO_ONESHOT : KOLO_MESH;
}

/* Bytes of a chunk, as the message has them, that one slot can take. The ring keeps partial results of the accumulation
 * type and final ones of the dtype side by side. */
static size_t chunk_bytes(kolo_algorithm algorithm, const struct kolo_question *question,
                          const struct kolo_shared_settings *settings, size_t slot_bytes) {
    switch (algorithm) {
    case KOLO_ONESHOT:
        return smaller(slot_bytes, settings->oneshot_chunk_bytes);
    case KOLO_MESH:
        return smaller(slot_bytes, settings->mesh_chunk_bytes);
    case KOLO_RING:
        return slot_bytes / (question->acc_bytes + question->element_bytes) * question->element_bytes;
    default:
        return slot_bytes;
    }
}

struct kolo_answer kolo_plan_make(const struct kolo_question *question, const struct kolo_shared_settings *settings,
                                  size_t slot_bytes) {
    struct kolo_answer answer = {.algorithm = choose(question, settings)};
    if (answer.algorithm == KOLO_ONESHOT && question->count * question->element_bytes <= KOLO_LINES_BYTES_MAX) {
        answer.lines = true;
        answer.chunk_count = question->count ? question->count : 1;
        return answer;
    }
    answer.chunk_count = chunk_bytes(answer.algorithm, question, settings, slot_bytes) / question->element_bytes;
    answer.chunks = (question->count + answer.chunk_count - 1) / answer.chunk_count;
    if (answer.chunks == 0)
        answer.chunks = 1; /* a call for nothing still meets the others */
    return answer;
}

void kolo_plan_settings(struct kolo_shared_settings *settings, kolo_algorithm algorithm, uint32_t ranks,
                        size_t slot_bytes, const kolo_topology *topology) {
    /* One shot makes every rank read N - 1 messages and fold N; mesh has each byte cross twice, with a step more
     * between: the more ranks, the sooner mesh wins. Where two ranks meet was measured at a quarter of L2, with ranks
     * as far apart as near; four ranks on two processors at a sixteenth. */
    const uint64_t l2_bytes = topology->l2_bytes ? topology->l2_bytes : UINT64_C(1) << 20;
    *settings = (struct kolo_shared_settings){
        .algorithm = (uint32_t)algorithm,
        .oneshot_bytes_max = l2_bytes / ((uint64_t)ranks * ranks),
        .oneshot_chunk_bytes = slot_bytes,
        .mesh_chunk_bytes = slot_bytes,
    };
    if (settings->oneshot_bytes_max < KOLO_LINES_BYTES_MAX)
        settings->oneshot_bytes_max = KOLO_LINES_BYTES_MAX;
}

size_t kolo_plan_slice(size_t chunk_count, uint32_t element_bytes, uint32_t ranks, uint32_t rank, size_t *first) {
    const size_t line_count = KOLO_LINE_BYTES / element_bytes;
    const size_t lines = (chunk_count + line_count - 1) / line_count;
    const size_t slice_count = (lines + ranks - 1) / ranks * line_count;
    *first = smaller(chunk_count, rank * slice_count);
    return smaller(chunk_count - *first, slice_count);
}
