/* Compressed all-reduces: encode, exchange, decode. */
#include "api/fusion/compressed.h"

#include <stdlib.h>
#include <string.h>

#include "api/fusion/inner_call.h"
#include "base/status.h"
#include "cpu/fpenv.h"
#include "reduce/compress/compressor.h"
#include "reduce/compress/topk.h"
#include "sync/point.h"

enum { ROW_ELEMENTS = KOLO_SIGNS_BLOCK, PART_ALIGNMENT = 8 };

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool is_half(kolo_compression kind) {
    return kind == KOLO_COMPRESSION_BF16 || kind == KOLO_COMPRESSION_F16;
}

static size_t sign_words(size_t count) {
    return count / KOLO_SIGNS_WORD + (count % KOLO_SIGNS_WORD != 0);
}

static size_t sign_blocks(size_t count) {
    return count / KOLO_SIGNS_BLOCK + (count % KOLO_SIGNS_BLOCK != 0);
}

size_t kolo_compressed_chosen(double share, size_t count) {
    const double exact = share * (double)count;
    size_t chosen = (size_t)exact;
    chosen += (double)chosen < exact || (chosen == 0 && count > 0);
    return min_size(chosen, count);
}

size_t kolo_compressed_bytes(kolo_compression kind, double share, size_t count) {
    size_t bytes;
    if (is_half(kind))
        return count * sizeof(uint16_t);
    if (kind == KOLO_COMPRESSION_TOPK)
        bytes = kolo_compressed_chosen(share, count) * (sizeof(uint32_t) + sizeof(float));
    else
        bytes = sign_words(count) * sizeof(uint64_t) + sign_blocks(count) * sizeof(float);
    return (bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
}

int kolo_compressed_allocate(struct kolo_compressed *compressed, const kolo_comm *comm, kolo_compression kind,
                             double share, size_t message_bytes, size_t count_max) {
    const size_t ranks = comm->global_size;
    *compressed = (struct kolo_compressed){
        .kind = kind, .share = share, .message_bytes = message_bytes, .ranks = comm->global_size};
    compressed->message = malloc((is_half(kind) ? 1 : ranks) * message_bytes + 1);
    bool enough = compressed->message;
    if (!is_half(kind)) {
        compressed->rows = calloc(ranks * ROW_ELEMENTS, sizeof *compressed->rows);
        compressed->rows_of = calloc(ranks, sizeof *compressed->rows_of);
        compressed->parts = calloc(ranks, sizeof *compressed->parts);
        compressed->next = calloc(ranks, sizeof *compressed->next);
        enough &= compressed->rows && compressed->rows_of && compressed->parts && compressed->next;
    }
    if (kind == KOLO_COMPRESSION_TOPK) {
        const size_t chosen = kolo_compressed_chosen(share, count_max);
        compressed->chosen = calloc(chosen + 1, sizeof *compressed->chosen);
        compressed->work = calloc(kolo_topk_room(count_max, chosen) + 1, sizeof *compressed->work);
        enough &= compressed->chosen && compressed->work;
    }
    if (enough)
        return 0;
    kolo_compressed_free(compressed);
    return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: no memory for compressed messages of %zu bytes", comm->global_rank,
                     message_bytes);
}

void kolo_compressed_free(struct kolo_compressed *compressed) {
    free(compressed->message);
    free(compressed->chosen);
    free(compressed->work);
    free(compressed->rows);
    free(compressed->rows_of);
    free(compressed->parts);
    free(compressed->next);
    *compressed = (struct kolo_compressed){0};
}

size_t kolo_compressed_memory(const struct kolo_compressed *compressed, size_t count_max) {
    const size_t ranks = compressed->ranks;
    if (is_half(compressed->kind))
        return compressed->message_bytes;
    size_t bytes = ranks * (compressed->message_bytes + ROW_ELEMENTS * sizeof(float) + 3 * sizeof(size_t));
    if (compressed->kind == KOLO_COMPRESSION_TOPK) {
        const size_t chosen = kolo_compressed_chosen(compressed->share, count_max);
        bytes += (chosen + kolo_topk_room(count_max, chosen)) * sizeof(uint32_t);
    }
    return bytes;
}

static void encode_signs(const kolo_compressor *compressor, uint8_t *part,
                         const struct kolo_compressed_tensor *tensor) {
    uint8_t *mean_at = part + sign_words(tensor->count) * sizeof(uint64_t);
    for (size_t done = 0; done < tensor->count; done += KOLO_SIGNS_BLOCK) {
        const float mean = compressor->to_signs(part + done / 8, (const uint8_t *)tensor->send + done * sizeof mean,
                                                tensor->residual ? tensor->residual + done : NULL,
                                                min_size(tensor->count - done, KOLO_SIGNS_BLOCK));
        memcpy(mean_at, &mean, sizeof mean);
        mean_at += sizeof mean;
    }
}

/* What is left is no residual where it is infinite or NaN. There is such an element only if the largest one is that. */
static void remove_strange(float *residual, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(residual[i] - residual[i] == 0))
            residual[i] = 0;
}

static void encode_largest(struct kolo_compressed *compressed, const kolo_comm *comm, uint8_t *part,
                           const struct kolo_compressed_tensor *tensor) {
    const size_t chosen = kolo_compressed_chosen(compressed->share, tensor->count);
    uint32_t *indices = (uint32_t *)part;
    float *values = (float *)(part + chosen * sizeof *indices);
    const void *owed = tensor->send;
    bool is_finite = true;
    if (tensor->residual) {
        const void *const both[] = {tensor->send, tensor->residual};
        comm->reducer->kernels[KOLO_F32][KOLO_SUM].fold(tensor->residual, both, 2, tensor->count, 0);
        owed = tensor->residual;
    }
    if (chosen > 0)
        kolo_topk_choose(comm->reducer->compressor, compressed->chosen, chosen, owed, tensor->count, compressed->work);
    memcpy(indices, compressed->chosen, chosen * sizeof *indices);
    for (size_t i = 0; i < chosen; i++) {
        memcpy(&values[i], (const uint8_t *)owed + (size_t)indices[i] * sizeof *values, sizeof *values);
        is_finite &= values[i] - values[i] == 0;
        if (tensor->residual)
            tensor->residual[indices[i]] = 0;
    }
    if (tensor->residual && !is_finite)
        remove_strange(tensor->residual, tensor->count);
}

/* Writes this rank's message; returns how long it is. */
static size_t encode(struct kolo_compressed *compressed, const kolo_comm *comm, uint8_t *message,
                     const struct kolo_compressed_tensor *tensors, size_t count) {
    const kolo_compressor *compressor = comm->reducer->compressor;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct kolo_compressed_tensor *tensor = &tensors[i];
        if (compressed->kind == KOLO_COMPRESSION_BF16)
            compressor->to_bf16(message + at, tensor->send, tensor->residual, tensor->count);
        else if (compressed->kind == KOLO_COMPRESSION_F16)
            compressor->to_f16(message + at, tensor->send, tensor->residual, tensor->count);
        else if (compressed->kind == KOLO_COMPRESSION_TOPK)
            encode_largest(compressed, comm, message + at, tensor);
        else
            encode_signs(compressor, message + at, tensor);
        at += kolo_compressed_bytes(compressed->kind, compressed->share, tensor->count);
    }
    return at;
}

/* What a rank's part says of the elements from `begin` on, `count` of them. */
static void read_signs(const kolo_compressor *compressor, float *row, const uint8_t *part, size_t tensor_count,
                       size_t begin, size_t count) {
    float mean;
    memcpy(&mean, part + sign_words(tensor_count) * sizeof(uint64_t) + begin / KOLO_SIGNS_BLOCK * sizeof mean,
           sizeof mean);
    compressor->from_signs(row, part + begin / 8, mean, count);
}

/* The same, with `row` zeroed before. Returns how many pairs lie in it, from *next on. */
static size_t read_largest(float *row, const uint8_t *part, size_t chosen, size_t next, size_t begin, size_t count) {
    const uint32_t *indices = (const uint32_t *)part;
    const float *values = (const float *)(part + chosen * sizeof *indices);
    size_t pairs = 0;
    for (; next + pairs < chosen && indices[next + pairs] - begin < count; pairs++)
        row[indices[next + pairs] - begin] = values[next + pairs];
    return pairs;
}

/* Zeroes what that has set, and goes on to the pairs behind it. */
static void forget_largest(struct kolo_compressed *compressed, uint32_t rank, size_t begin, size_t pairs) {
    const uint32_t *indices = (const uint32_t *)compressed->parts[rank] + compressed->next[rank];
    float *row = compressed->rows + rank * (size_t)ROW_ELEMENTS;
    for (size_t i = 0; i < pairs; i++)
        row[indices[i] - begin] = 0;
    compressed->next[rank] += pairs;
}

/* Folds one tensor's parts, whose places are in compressed->parts. */
static void fold_tensor(struct kolo_compressed *compressed, const kolo_comm *comm,
                        const struct kolo_compressed_tensor *tensor, kolo_op op) {
    const kolo_kernel *kernel = &comm->reducer->kernels[KOLO_F32][op];
    const bool is_topk = compressed->kind == KOLO_COMPRESSION_TOPK;
    const size_t chosen = is_topk ? kolo_compressed_chosen(compressed->share, tensor->count) : 0;
    memset(compressed->next, 0, compressed->ranks * sizeof *compressed->next);
    for (size_t begin = 0; begin < tensor->count; begin += ROW_ELEMENTS) {
        const size_t count = min_size(tensor->count - begin, ROW_ELEMENTS);
        size_t pairs[KOLO_RANKS_MAX];
        for (uint32_t rank = 0; rank < compressed->ranks; rank++) {
            float *row = compressed->rows + rank * (size_t)ROW_ELEMENTS;
            if (is_topk)
                pairs[rank] = read_largest(row, compressed->parts[rank], chosen, compressed->next[rank], begin, count);
            else
                read_signs(comm->reducer->compressor, row, compressed->parts[rank], tensor->count, begin, count);
        }
        kernel->fold((uint8_t *)tensor->recv + begin * sizeof(float), compressed->rows_of, compressed->ranks, count,
                     compressed->ranks);
        for (uint32_t rank = 0; is_topk && rank < compressed->ranks; rank++)
            forget_largest(compressed, rank, begin, pairs[rank]);
    }
}

static void decode_gathered(struct kolo_compressed *compressed, const kolo_comm *comm, size_t message_bytes,
                            const struct kolo_compressed_tensor *tensors, size_t count, kolo_op op) {
    size_t at = 0;
    for (uint32_t rank = 0; rank < compressed->ranks; rank++)
        compressed->rows_of[rank] = compressed->rows + rank * (size_t)ROW_ELEMENTS;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t rank = 0; rank < compressed->ranks; rank++)
            compressed->parts[rank] = compressed->message + rank * message_bytes + at;
        fold_tensor(compressed, comm, &tensors[i], op);
        at += kolo_compressed_bytes(compressed->kind, compressed->share, tensors[i].count);
    }
}

static void decode_halves(const struct kolo_compressed *compressed, const kolo_comm *comm, kolo_dtype dtype,
                          const struct kolo_compressed_tensor *tensors, size_t count) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        comm->reducer->kernels[dtype][KOLO_SUM].widen(tensors[i].recv, compressed->message + at, tensors[i].count);
        at += tensors[i].count * sizeof(uint16_t);
    }
}

static size_t message_length(const struct kolo_compressed *compressed, const struct kolo_compressed_tensor *tensors,
                             size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += kolo_compressed_bytes(compressed->kind, compressed->share, tensors[i].count);
    return bytes;
}

static int reduce_halves(kolo_comm *comm, void *message, size_t bytes, kolo_dtype half, kolo_op op) {
    struct kolo_arguments call = WITH_COUNT(message, message, bytes / sizeof(uint16_t), half, op, 0);
    return kolo_inner_call(KOLO_ALLREDUCE, comm, &call);
}

static int gather(kolo_comm *comm, const void *own, void *messages, size_t bytes) {
    struct kolo_arguments call = WITH_COUNT(own, messages, bytes / PART_ALIGNMENT, KOLO_U64, KOLO_SUM, 0);
    return kolo_inner_call(KOLO_ALLGATHER, comm, &call);
}

int kolo_compressed_reduce(struct kolo_compressed *compressed, kolo_comm *comm,
                           const struct kolo_compressed_tensor *tensors, size_t count, kolo_op op) {
    const kolo_dtype half = compressed->kind == KOLO_COMPRESSION_BF16 ? KOLO_BF16 : KOLO_F16;
    const bool is_halves = is_half(compressed->kind);
    const size_t bytes = message_length(compressed, tensors, count);
    uint8_t *own = compressed->message + (is_halves ? 0 : comm->global_rank * bytes);
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    encode(compressed, comm, own, tensors, count);
    KOLO_POINT("compressed.encoded");
    const int rc =
        is_halves ? reduce_halves(comm, own, bytes, half, op) : gather(comm, own, compressed->message, bytes);
    KOLO_POINT("compressed.exchanged");
    if (rc == 0 && is_halves)
        decode_halves(compressed, comm, half, tensors, count);
    else if (rc == 0)
        decode_gathered(compressed, comm, bytes, tensors, count, op);
    kolo_fpenv_leave(callers_fpenv);
    return rc;
}
