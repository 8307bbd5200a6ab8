/* Compressed messages: encode, exchange, decode. */
#include "training/compress/compressed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/path.h"
#include "base/minimum.h"
#include "base/status.h"
#include "comm/step/items.h"
#include "cpu/fpenv.h"
#include "sync/point.h"

enum { ROW_ELEMENTS = KOLO_SIGNS_BLOCK, PART_ALIGNMENT = 8 };

static bool is_half(const struct kolo_compressed *compressed) {
    return compressed->kind == KOLO_COMPRESSION_BF16 || compressed->kind == KOLO_COMPRESSION_F16;
}

static size_t sign_words(size_t count) {
    return count / KOLO_SIGNS_WORD + (count % KOLO_SIGNS_WORD != 0);
}

static size_t sign_blocks(size_t count) {
    return count / KOLO_SIGNS_BLOCK + (count % KOLO_SIGNS_BLOCK != 0);
}

/* The number of a tensor's elements that TOPK sends: the share, rounded up, at least one of any. It is the same in
 * every environment of a caller, since it says where the messages are, on all ranks. */
static size_t chosen_of(double share, size_t count) {
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    __asm__ __volatile__("" : "+m"(share)); /* what follows is computed between the two, not before or after them */
    const double exact = share * (double)count;
    size_t chosen = (size_t)exact;
    chosen += (double)chosen < exact || (chosen == 0 && count > 0);
    __asm__ __volatile__("" : "+r"(chosen));
    kolo_fpenv_leave(callers_fpenv);
    return kolo_minimum(chosen, count);
}

size_t kolo_compressed_bytes(const struct kolo_compressed *compressed, size_t count) {
    size_t bytes;
    if (is_half(compressed))
        return count * sizeof(uint16_t);
    if (compressed->kind == KOLO_COMPRESSION_TOPK)
        bytes = chosen_of(compressed->share, count) * (sizeof(uint32_t) + sizeof(float));
    else
        bytes = sign_words(count) * sizeof(uint64_t) + sign_blocks(count) * sizeof(float);
    return (bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
}

/* The number of ranks for whose messages there is room. */
static size_t copies(const struct kolo_compressed *compressed) {
    return is_half(compressed) ? 1 : compressed->ranks;
}

/* Allocates what the reader of several ranks' messages needs, and the choice among up to count_max elements. */
static bool allocate_work(struct kolo_compressed *compressed, size_t count_max) {
    const size_t ranks = compressed->ranks;
    if (is_half(compressed))
        return true;
    compressed->rows = calloc(ranks * ROW_ELEMENTS, sizeof *compressed->rows);
    compressed->rows_of = calloc(ranks, sizeof *compressed->rows_of);
    compressed->parts = calloc(ranks, sizeof *compressed->parts);
    compressed->next = calloc(ranks, sizeof *compressed->next);
    if (!compressed->rows || !compressed->rows_of || !compressed->parts || !compressed->next)
        return false;
    compressed->bytes += ranks * ROW_ELEMENTS * sizeof *compressed->rows;
    for (uint32_t rank = 0; rank < ranks; rank++)
        compressed->rows_of[rank] = compressed->rows + rank * (size_t)ROW_ELEMENTS;
    if (compressed->kind != KOLO_COMPRESSION_TOPK)
        return true;
    const size_t chosen = chosen_of(compressed->share, count_max);
    const size_t room = kolo_topk_room(count_max, chosen);
    compressed->work = malloc((room + 1) * sizeof *compressed->work);
    compressed->bytes += room * sizeof *compressed->work;
    return compressed->work;
}

int kolo_compressed_allocate(struct kolo_compressed *compressed, const kolo_comm *comm,
                             const kolo_bucket_options *options, const kolo_tensor *tensors, size_t ntensors) {
    size_t bytes = 0, elements = 0, count_max = 0;
    *compressed = (struct kolo_compressed){.kind = options->compression,
                                           .share = options->compression_share,
                                           .op = options->op,
                                           .rank = comm->global_rank,
                                           .ranks = comm->global_size,
                                           .reducer = comm->reducer,
                                           .kernels = kolo_training_kernels_of(comm->reducer)};
    for (size_t i = 0; i < ntensors; i++)
        if (options->compression == KOLO_COMPRESSION_TOPK && tensors[i].count > UINT32_MAX)
            return KOLO_REFUSE(comm, "kolo_bucket_create", "tensor %zu: topk is for up to %u elements, not %zu", i,
                               UINT32_MAX, tensors[i].count);
    compressed->begins = malloc((ntensors + 1) * sizeof *compressed->begins);
    for (size_t i = 0; compressed->begins && i < ntensors; i++) {
        compressed->begins[i] = elements;
        elements += tensors[i].count;
        bytes += kolo_compressed_bytes(compressed, tensors[i].count);
        count_max = tensors[i].count > count_max ? tensors[i].count : count_max;
    }
    compressed->messages = malloc(copies(compressed) * bytes + 1);
    compressed->bytes = copies(compressed) * bytes;
    if (options->error_feedback) {
        compressed->residual = calloc(elements + 1, sizeof *compressed->residual);
        compressed->bytes += elements * sizeof *compressed->residual;
    }
    if (compressed->begins && compressed->messages && (compressed->residual || !options->error_feedback) &&
        allocate_work(compressed, count_max))
        return 0;
    kolo_compressed_free(compressed);
    return KOLO_FAIL_IN(comm, "kolo_bucket_create", KOLO_ERR_SYSTEM,
                        "out of memory for messages of %zu bytes and residuals of %zu elements", bytes, elements);
}

void kolo_compressed_free(struct kolo_compressed *compressed) {
    free(compressed->begins);
    free(compressed->messages);
    free(compressed->residual);
    free(compressed->work);
    free(compressed->rows);
    free(compressed->rows_of);
    free(compressed->parts);
    free(compressed->next);
    *compressed = (struct kolo_compressed){0};
}

static void encode_signs(const kolo_training_kernels *kernels, uint8_t *part, const kolo_tensor *tensor,
                         float *residual) {
    uint8_t *mean_at = part + sign_words(tensor->count) * sizeof(uint64_t);
    for (size_t done = 0; done < tensor->count; done += KOLO_SIGNS_BLOCK) {
        const float mean =
            kernels->to_signs(part + done / 8, (const uint8_t *)tensor->data + done * sizeof mean,
                              residual ? residual + done : NULL, kolo_minimum(tensor->count - done, KOLO_SIGNS_BLOCK));
        memcpy(mean_at, &mean, sizeof mean);
        mean_at += sizeof mean;
    }
}

/* Zeroes infinite elements and NaN. One exists only if the largest element is one. */
static void remove_strange(float *residual, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(residual[i]))
            residual[i] = 0;
}

static void encode_largest(struct kolo_compressed *compressed, uint8_t *part, const kolo_tensor *tensor,
                           float *residual) {
    const size_t chosen = chosen_of(compressed->share, tensor->count);
    uint32_t *indices = (uint32_t *)part;
    float *values = (float *)(part + chosen * sizeof *indices);
    const uint8_t *owed = tensor->data;
    bool all_finite = true;
    if (residual) {
        const void *const both[] = {tensor->data, residual};
        compressed->reducer->kernels[KOLO_F32][KOLO_SUM].fold(residual, both, 2, tensor->count, 0);
        owed = (const uint8_t *)residual;
    }
    if (chosen > 0)
        kolo_topk_choose(compressed->kernels, indices, chosen, owed, tensor->count, compressed->work);
    for (size_t i = 0; i < chosen; i++) {
        memcpy(&values[i], owed + (size_t)indices[i] * sizeof *values, sizeof *values);
        all_finite &= isfinite(values[i]) != 0;
        if (residual)
            residual[indices[i]] = 0;
    }
    if (residual && !all_finite)
        remove_strange(residual, tensor->count);
}

static size_t message_bytes(const struct kolo_compressed *compressed, const struct kolo_compressed_bucket *bucket) {
    size_t bytes = 0;
    for (size_t i = 0; i < bucket->count; i++)
        bytes += kolo_compressed_bytes(compressed, bucket->tensors[i].count);
    return bytes;
}

/* The place of this rank's message for the bucket. */
static uint8_t *own_message(const struct kolo_compressed *compressed, const struct kolo_compressed_bucket *bucket) {
    return compressed->messages + copies(compressed) * bucket->at +
           (is_half(compressed) ? 0 : compressed->rank * message_bytes(compressed, bucket));
}

void kolo_compressed_encode(struct kolo_compressed *compressed, const struct kolo_compressed_bucket *bucket) {
    const kolo_training_kernels *kernels = compressed->kernels;
    uint8_t *message = own_message(compressed, bucket);
    size_t at = 0;
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    for (size_t i = 0; i < bucket->count; i++) {
        const kolo_tensor *tensor = &bucket->tensors[i];
        float *residual = compressed->residual ? compressed->residual + compressed->begins[bucket->order[i]] : NULL;
        if (compressed->kind == KOLO_COMPRESSION_BF16)
            kernels->to_bf16(message + at, tensor->data, residual, tensor->count);
        else if (compressed->kind == KOLO_COMPRESSION_F16)
            kernels->to_f16(message + at, tensor->data, residual, tensor->count);
        else if (compressed->kind == KOLO_COMPRESSION_TOPK)
            encode_largest(compressed, message + at, tensor, residual);
        else
            encode_signs(kernels, message + at, tensor, residual);
        at += kolo_compressed_bytes(compressed, tensor->count);
    }
    kolo_fpenv_leave(callers_fpenv);
    KOLO_POINT("compressed.encoded");
}

static kolo_dtype half_of(const struct kolo_compressed *compressed) {
    return compressed->kind == KOLO_COMPRESSION_BF16 ? KOLO_BF16 : KOLO_F16;
}

int kolo_compressed_issue(const struct kolo_compressed *compressed, kolo_comm *comm,
                          const struct kolo_compressed_bucket *bucket, struct kolo_items items,
                          kolo_request **request) {
    uint8_t *messages = compressed->messages + copies(compressed) * bucket->at, *own = own_message(compressed, bucket);
    const size_t bytes = message_bytes(compressed, bucket);
    struct kolo_arguments call = WITH_COUNT(own, own, bytes / sizeof(uint16_t), half_of(compressed), compressed->op, 0);
    if (!is_half(compressed))
        call = WITH_COUNT(own, messages, bytes / PART_ALIGNMENT, KOLO_U64, KOLO_SUM, 0);
    call.digest = kolo_items_digest(&items, 0, items.count, 0); /* the length alone does not tell how it is made */
    call.items = items;
    return is_half(compressed) ? kolo_path_issue(KOLO_ALLREDUCE, "kolo_iallreduce", comm, &call, request)
                               : kolo_path_issue(KOLO_ALLGATHER, "kolo_iallgather", comm, &call, request);
}

/* Reads `count` elements from `begin` on out of a rank's part. */
static void read_signs(const kolo_training_kernels *kernels, float *row, const uint8_t *part, size_t tensor_count,
                       size_t begin, size_t count) {
    float mean;
    memcpy(&mean, part + sign_words(tensor_count) * sizeof(uint64_t) + begin / KOLO_SIGNS_BLOCK * sizeof mean,
           sizeof mean);
    kernels->from_signs(row, part + begin / 8, mean, count);
}

/* Does the same for TOPK, where `row` was zeroed before. Returns how many pairs lie in the row, from `next` on. */
static size_t read_largest(float *row, const uint8_t *part, size_t chosen, size_t next, size_t begin, size_t count) {
    const uint32_t *indices = (const uint32_t *)part;
    const float *values = (const float *)(part + chosen * sizeof *indices);
    size_t pairs = 0;
    for (; next + pairs < chosen && indices[next + pairs] - begin < count; pairs++)
        row[indices[next + pairs] - begin] = values[next + pairs];
    return pairs;
}

/* Zeroes the elements that these pairs have set, and goes on to the pairs behind them. */
static void forget_largest(struct kolo_compressed *compressed, uint32_t rank, size_t begin, size_t pairs) {
    const uint32_t *indices = (const uint32_t *)compressed->parts[rank] + compressed->next[rank];
    float *row = compressed->rows + rank * (size_t)ROW_ELEMENTS;
    for (size_t i = 0; i < pairs; i++)
        row[indices[i] - begin] = 0;
    compressed->next[rank] += pairs;
}

/* Folds one tensor's parts, whose places are in compressed->parts. */
static void fold_tensor(struct kolo_compressed *compressed, const kolo_tensor *tensor) {
    const kolo_kernel *kernel = &compressed->reducer->kernels[KOLO_F32][compressed->op];
    const bool is_topk = compressed->kind == KOLO_COMPRESSION_TOPK;
    const size_t chosen = is_topk ? chosen_of(compressed->share, tensor->count) : 0;
    memset(compressed->next, 0, compressed->ranks * sizeof *compressed->next);
    for (size_t begin = 0; begin < tensor->count; begin += ROW_ELEMENTS) {
        const size_t count = kolo_minimum(tensor->count - begin, ROW_ELEMENTS);
        size_t pairs[KOLO_RANKS_MAX];
        for (uint32_t rank = 0; rank < compressed->ranks; rank++) {
            float *row = compressed->rows + rank * (size_t)ROW_ELEMENTS;
            if (is_topk)
                pairs[rank] = read_largest(row, compressed->parts[rank], chosen, compressed->next[rank], begin, count);
            else
                read_signs(compressed->kernels, row, compressed->parts[rank], tensor->count, begin, count);
        }
        kernel->fold((uint8_t *)tensor->data + begin * sizeof(float), compressed->rows_of, compressed->ranks, count,
                     compressed->ranks);
        for (uint32_t rank = 0; is_topk && rank < compressed->ranks; rank++)
            forget_largest(compressed, rank, begin, pairs[rank]);
    }
}

static void read_gathered(struct kolo_compressed *compressed, const struct kolo_compressed_bucket *bucket) {
    const uint8_t *messages = compressed->messages + copies(compressed) * bucket->at;
    const size_t bytes = message_bytes(compressed, bucket);
    size_t at = 0;
    for (size_t i = 0; i < bucket->count; i++) {
        for (uint32_t rank = 0; rank < compressed->ranks; rank++)
            compressed->parts[rank] = messages + rank * bytes + at;
        fold_tensor(compressed, &bucket->tensors[i]);
        at += kolo_compressed_bytes(compressed, bucket->tensors[i].count);
    }
}

static void read_halves(const struct kolo_compressed *compressed, const struct kolo_compressed_bucket *bucket) {
    const kolo_kernel *kernel = &compressed->reducer->kernels[half_of(compressed)][KOLO_SUM];
    const uint8_t *from = compressed->messages + bucket->at;
    for (size_t i = 0; i < bucket->count; i++) {
        kernel->widen(bucket->tensors[i].data, from, bucket->tensors[i].count);
        from += bucket->tensors[i].count * sizeof(uint16_t);
    }
}

void kolo_compressed_read(struct kolo_compressed *compressed, const struct kolo_compressed_bucket *bucket) {
    KOLO_POINT("compressed.reading");
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    if (is_half(compressed))
        read_halves(compressed, bucket);
    else
        read_gathered(compressed, bucket);
    kolo_fpenv_leave(callers_fpenv);
}
