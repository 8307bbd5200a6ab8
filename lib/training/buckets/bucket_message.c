/* A bucket's message: the tensors themselves, or their compressed form. The file also reads and writes residuals. */
#include "training/buckets/bucket_message.h"

#include <math.h>
#include <string.h>

#include "api/path.h"
#include "api/checks.h"
#include "base/status.h"

enum { SETTINGS = 4 };

static struct kolo_compressed_bucket compressed_bucket(const struct kolo_buckets *buckets,
                                                       const struct kolo_bucket *bucket) {
    return (struct kolo_compressed_bucket){.tensors = buckets->list + bucket->first,
                                           .order = buckets->order + bucket->first,
                                           .count = bucket->count,
                                           .at = bucket->compressed_at};
}

static bool is_compressed(const struct kolo_buckets *buckets) {
    return buckets->options.compression != KOLO_COMPRESSION_NONE;
}

/* One of the items that ranks have to pass alike for a bucket. Its tensors have the numbers with which they are
 * registered. */
static struct kolo_item item_of(const void *context, size_t index) {
    const struct kolo_bucket *bucket = context;
    const struct kolo_buckets *buckets = bucket->buckets;
    if (index >= SETTINGS) {
        const size_t place = bucket->first + index - SETTINGS;
        return kolo_item_of_list("tensors", buckets->order[place], ".count", buckets->list[place].count);
    }
    const double share = buckets->options.compression == KOLO_COMPRESSION_TOPK ? buckets->options.compression_share : 0;
    const struct kolo_item settings[SETTINGS] = {
        {.name = "compression", .kind = KOLO_ITEM_COMPRESSION, .value = buckets->options.compression},
        {.name = "op", .kind = KOLO_ITEM_OP, .value = buckets->options.op},
        kolo_item_real("compression_share", share),
        kolo_item_number("tensors of the bucket", bucket->count)};
    return settings[index];
}

int kolo_bucket_issue(struct kolo_buckets *buckets, struct kolo_bucket *bucket) {
    const struct kolo_items items = {SETTINGS + bucket->count, item_of, bucket};
    if (is_compressed(buckets)) {
        const struct kolo_compressed_bucket compressed = compressed_bucket(buckets, bucket);
        return kolo_compressed_issue(&buckets->compressed, buckets->comm, &compressed, items, &bucket->request);
    }
    struct kolo_arguments call =
        WITH_TENSORS(buckets->list + bucket->first, bucket->count, buckets->options.dtype, buckets->options.op);
    call.items = items;
    return kolo_path_issue(KOLO_ALLREDUCE_MANY, "kolo_iallreduce_many", buckets->comm, &call, &bucket->request);
}

int kolo_bucket_take(struct kolo_buckets *buckets, struct kolo_bucket *bucket) {
    kolo_request *request = bucket->request;
    bucket->request = NULL;
    const int rc = kolo_request_wait(request);
    if (rc == 0 && is_compressed(buckets)) {
        const struct kolo_compressed_bucket compressed = compressed_bucket(buckets, bucket);
        kolo_compressed_read(&buckets->compressed, &compressed);
    }
    return rc;
}

/* Whether the buckets may be used for `function`. */
static int check(const char *function, const kolo_buckets *buckets) {
    if (!buckets)
        return kolo_fail(KOLO_ERR_ARG, "%s: buckets is NULL", function);
    return buckets->comm->token->ours ? 0 : kolo_unusable(function, buckets->comm);
}

static const char *const function_of_create = "kolo_bucket_create";

int kolo_bucket_check_compression(const kolo_comm *comm, const kolo_bucket_options *options) {
    const char *name = kolo_name(KOLO_NAME_COMPRESSION, options->compression);
    if (!name)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: compression %d: must be one of kolo_compression",
                         comm->global_rank, function_of_create, (int)options->compression);
    if (options->dtype != KOLO_F32 || (options->op != KOLO_SUM && options->op != KOLO_AVG))
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: compression %s: is for f32 with sum or avg, not for %s of %s",
                         comm->global_rank, function_of_create, name, kolo_op_name(options->op),
                         kolo_dtype_name(options->dtype));
    if (options->compression == KOLO_COMPRESSION_TOPK &&
        !(options->compression_share > 0 && options->compression_share <= 1))
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: compression_share %g: must be above 0 and at most 1",
                         comm->global_rank, function_of_create, options->compression_share);
    if (options->error_feedback != 0 && options->error_feedback != 1)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: error_feedback %d: must be 0 or 1", comm->global_rank,
                         function_of_create, options->error_feedback);
    return 0;
}

/* Finds the residual of a tensor, under the lock; NULL, with a message, if the caller cannot have it. */
static float *find_residual(const char *function, const struct kolo_buckets *buckets, size_t tensor) {
    const uint32_t rank = buckets->comm->global_rank;
    if (tensor >= buckets->ntensors)
        kolo_fail(KOLO_ERR_ARG, "rank %u: %s: tensor %zu: there are %zu", rank, function, tensor, buckets->ntensors);
    else if (!buckets->compressed.residual)
        kolo_fail(KOLO_ERR_ARG,
                  "rank %u: %s: these buckets have no residuals: they take a compression, and error"
                  " feedback",
                  rank, function);
    else if (buckets->nseen > 0 && !buckets->failed)
        kolo_fail(KOLO_ERR_ARG, "rank %u: %s: a step has begun: end it with kolo_bucket_wait", rank, function);
    else
        return buckets->compressed.residual + buckets->compressed.begins[tensor];
    return NULL;
}

int kolo_bucket_residual(kolo_buckets *buckets, size_t tensor, const float *wanted, float *before) {
    int rc = check(__func__, buckets);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&buckets->lock);
    float *residual = find_residual(__func__, buckets, tensor);
    const size_t count = residual ? buckets->tensors[tensor].count : 0;
    rc = residual ? 0 : KOLO_ERR_ARG;
    for (size_t i = 0; rc == 0 && wanted && i < count; i++)
        if (!isfinite(wanted[i]))
            rc = kolo_fail(KOLO_ERR_ARG, "rank %u: %s: element %zu is %g: a residual is a number",
                           buckets->comm->global_rank, __func__, i, (double)wanted[i]);
    if (rc == 0 && before && count)
        memcpy(before, residual, count * sizeof *before);
    if (rc == 0 && wanted && count)
        memcpy(residual, wanted, count * sizeof *wanted);
    pthread_mutex_unlock(&buckets->lock);
    return rc;
}
