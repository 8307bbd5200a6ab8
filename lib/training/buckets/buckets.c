/* Buckets: tensors become ready in any order, in a different one on each rank, and go out in one order, like the
 * gradient buckets of PyTorch's DistributedDataParallel.
 *
 * Why ranks agree. All ranks register the same tensors, so all begin with the same buckets: from the last tensor to the
 * first, which is the order of a model's backward pass. A rank issues bucket b when its tensors are ready and b-1 is
 * issued, whatever else is ready. So each rank's calls are bucket 0, 1, ... in this order. After the first step follows
 * the broadcast of the order in which rank 0's tensors became ready, from which all ranks make the next steps' buckets.
 *
 * Why no ranks wait in a circle. kolo_bucket_wait waits once all buckets of the rank are issued. Where issuing has
 * failed for good, it or kolo_bucket_ready waits for those that are issued, as kolo_bucket_destroy does.
 *
 * Ownership. A tensor that was marked ready belongs to kolo until its bucket's request is complete. kolo takes all
 * requests in the order of issue, even where one has failed, so that none is left behind. */
#include "training/buckets/bucket_state.h"

#include <stdlib.h>
#include <string.h>

#include "api/arguments.h"
#include "training/buckets/bucket_message.h"
#include "base/sized.h"
#include "base/status.h"
#include "reduce/own_ops.h"

static const struct kolo_sized sized = KOLO_SIZED(kolo_bucket_options, options_bytes, error_feedback);

static uint32_t rank_of(const struct kolo_buckets *buckets) {
    return buckets->comm->global_rank;
}

/* The bytes of an element under these options; 0 where no such reduction exists. */
static size_t element_bytes_of(const kolo_bucket_options *options) {
    const kolo_kernel *own = kolo_own_op_kernel(options->op);
    if (own && (options->dtype == KOLO_OPAQUE || kolo_dtype_bytes(options->dtype) == own->element_bytes))
        return own->element_bytes;
    return kolo_op_supports(options->op, options->dtype) ? kolo_dtype_bytes(options->dtype) : 0;
}

static int check_options(const kolo_comm *comm, const kolo_bucket_options *given, kolo_bucket_options *options) {
    static const char *const function = "kolo_bucket_create";
    const int rc = given ? kolo_sized_read(&sized, function, options, given) : 0;
    if (rc < 0)
        return rc;
    if (element_bytes_of(options) == 0)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: there is no op %#x of dtype %d", comm->global_rank, function,
                         (unsigned)options->op, (int)options->dtype);
    if ((unsigned)options->unused > KOLO_BUCKET_UNUSED_ZERO)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: unused %d: must be one of kolo_bucket_unused", comm->global_rank,
                         function, (int)options->unused);
    const bool adds = options->op == KOLO_SUM || options->op == KOLO_AVG || options->op == KOLO_SUM_EXACT;
    if (options->unused == KOLO_BUCKET_UNUSED_ZERO && !adds)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: zeros for unused tensors are for sums and averages, not for %s",
                         comm->global_rank, function, kolo_op_name(options->op));
    if (options->keep_order != 0 && options->keep_order != 1)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: keep_order %d: must be 0 or 1", comm->global_rank, function,
                         options->keep_order);
    if (options->compression != KOLO_COMPRESSION_NONE && kolo_bucket_check_compression(comm, options) < 0)
        return KOLO_ERR_ARG;
    if (options->bucket_bytes == 0)
        options->bucket_bytes = KOLO_BUCKET_BYTES;
    return 0;
}

static int check_tensors(const kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, size_t element_bytes) {
    size_t left = SIZE_MAX / 4 / element_bytes;
    if ((!tensors && ntensors) || ntensors > UINT32_MAX)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: kolo_bucket_create: %s with ntensors %zu", comm->global_rank,
                         tensors ? "more tensors than a number has" : "tensors is NULL", ntensors);
    for (size_t i = 0; i < ntensors; i++) {
        if (tensors[i].count > left || (!tensors[i].data && tensors[i].count))
            return kolo_fail(KOLO_ERR_ARG, "rank %u: kolo_bucket_create: tensor %zu: %s with count %zu",
                             comm->global_rank, i, tensors[i].data ? "more than memory can hold" : "data is NULL",
                             tensors[i].count);
        left -= tensors[i].count;
    }
    return 0;
}

static void free_buckets(struct kolo_buckets *buckets) {
    kolo_compressed_free(&buckets->compressed);
    free(buckets->tensors);
    free(buckets->list);
    free(buckets->order);
    free(buckets->seen);
    free(buckets->bucket_of);
    free(buckets->ready);
    free(buckets->bucket);
    free(buckets);
}

static struct kolo_buckets *allocate(size_t ntensors) {
    const size_t count = ntensors ? ntensors : 1;
    struct kolo_buckets *buckets = calloc(1, sizeof *buckets);
    if (!buckets)
        return NULL;
    buckets->tensors = calloc(count, sizeof *buckets->tensors);
    buckets->list = calloc(count, sizeof *buckets->list);
    buckets->order = calloc(count, sizeof *buckets->order);
    buckets->seen = calloc(count, sizeof *buckets->seen);
    buckets->bucket_of = calloc(count, sizeof *buckets->bucket_of);
    buckets->ready = calloc(count, sizeof *buckets->ready);
    buckets->bucket = calloc(count, sizeof *buckets->bucket);
    if (buckets->tensors && buckets->list && buckets->order && buckets->seen && buckets->bucket_of && buckets->ready &&
        buckets->bucket)
        return buckets;
    free_buckets(buckets);
    return NULL;
}

/* Begins a step, with no tensor ready. */
static void begin_step(struct kolo_buckets *buckets) {
    memset(buckets->ready, 0, buckets->ntensors);
    buckets->nseen = 0;
    buckets->issued = 0;
    for (size_t i = 0; i < buckets->nbuckets; i++)
        buckets->bucket[i].missing = buckets->bucket[i].count;
}

/* Divides `order` into buckets. */
static void divide(struct kolo_buckets *buckets) {
    size_t bytes = 0, compressed_at = 0;
    buckets->nbuckets = 0;
    for (size_t place = 0; place < buckets->ntensors; place++) {
        const uint32_t tensor = buckets->order[place];
        const size_t more = buckets->tensors[tensor].count * buckets->element_bytes;
        if (place == 0 || more > buckets->options.bucket_bytes || bytes > buckets->options.bucket_bytes - more) {
            buckets->bucket[buckets->nbuckets++] =
                (struct kolo_bucket){.buckets = buckets, .first = place, .compressed_at = compressed_at};
            bytes = 0;
        }
        bytes += more;
        if (buckets->options.compression != KOLO_COMPRESSION_NONE)
            compressed_at += kolo_compressed_bytes(&buckets->compressed, buckets->tensors[tensor].count);
        buckets->list[place] = buckets->tensors[tensor];
        buckets->bucket_of[tensor] = (uint32_t)buckets->nbuckets - 1;
        buckets->bucket[buckets->nbuckets - 1].count++;
    }
}

int kolo_bucket_create(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, const kolo_bucket_options *options,
                       kolo_buckets **result) {
    static const char *const function = "kolo_bucket_create";
    kolo_bucket_options chosen = KOLO_BUCKET_OPTIONS_INIT;
    if (!comm || !comm->token->ours || !kolo_comm_is_usable(comm))
        return kolo_unusable(function, comm);
    if (!result)
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: buckets is NULL", comm->global_rank, function);
    int rc = check_options(comm, options, &chosen);
    if (rc == 0)
        rc = check_tensors(comm, tensors, ntensors, element_bytes_of(&chosen));
    if (rc < 0)
        return rc;
    struct kolo_buckets *buckets = allocate(ntensors);
    if (buckets && chosen.compression != KOLO_COMPRESSION_NONE) {
        rc = kolo_compressed_allocate(&buckets->compressed, comm, &chosen, tensors, ntensors);
        if (rc < 0) {
            free_buckets(buckets);
            return rc;
        }
    }
    if (!buckets)
        return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: %s: out of memory for %zu tensors", comm->global_rank, function,
                         ntensors);
    buckets->comm = comm;
    buckets->options = chosen;
    buckets->element_bytes = element_bytes_of(&chosen);
    buckets->ntensors = ntensors;
    buckets->learning = !chosen.keep_order;
    pthread_mutex_init(&buckets->lock, NULL);
    for (size_t i = 0; i < ntensors; i++) {
        buckets->tensors[i] = tensors[i];
        buckets->order[i] = (uint32_t)(ntensors - 1 - i);
    }
    divide(buckets);
    begin_step(buckets);
    *result = buckets;
    return 0;
}

/* Waits for all that is in flight. Returns the status, with its message, of the first that has failed. */
static int take_all(struct kolo_buckets *buckets) {
    int status = 0;
    for (size_t i = buckets->issued; i-- > 0;) { /* the message that stays is the first one's */
        const int rc = buckets->bucket[i].request ? kolo_bucket_take(buckets, &buckets->bucket[i]) : 0;
        status = rc < 0 ? rc : status;
    }
    return status;
}

/* Ends a step that has failed for good with `rc`. A bucket that went out before and has failed knows the cause
 * better. */
static int give_up(struct kolo_buckets *buckets, int rc) {
    const int first = take_all(buckets);
    buckets->failed = first < 0 ? first : rc;
    return buckets->failed;
}

/* Issues the buckets whose turn it is. */
static int issue(struct kolo_buckets *buckets) {
    int rc = 0;
    while (rc == 0 && buckets->issued < buckets->nbuckets && buckets->bucket[buckets->issued].missing == 0) {
        rc = kolo_bucket_issue(buckets, &buckets->bucket[buckets->issued]);
        buckets->issued += rc == 0;
    }
    return rc == KOLO_ERR_SYSTEM || rc == 0 ? rc : give_up(buckets, rc);
}

static void mark(struct kolo_buckets *buckets, size_t tensor) {
    buckets->ready[tensor] = 1;
    buckets->seen[buckets->nseen++] = (uint32_t)tensor;
    buckets->bucket[buckets->bucket_of[tensor]].missing--;
}

/* Whether the buckets may be used for `function`. */
static int check(const char *function, const struct kolo_buckets *buckets) {
    if (!buckets)
        return kolo_fail(KOLO_ERR_ARG, "%s: buckets is NULL", function);
    if (!buckets->comm->token->ours)
        return kolo_unusable(function, buckets->comm);
    return 0;
}

static int refuse_failed(const char *function, const struct kolo_buckets *buckets) {
    return kolo_fail(KOLO_ERR_STATE, "rank %u: %s: a step has failed (%s): destroy the buckets", rank_of(buckets),
                     function, kolo_strerror(buckets->failed));
}

int kolo_bucket_ready(kolo_buckets *buckets, size_t tensor) {
    static const char *const function = "kolo_bucket_ready";
    int rc = check(function, buckets);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&buckets->lock);
    if (tensor >= buckets->ntensors) {
        rc = kolo_fail(KOLO_ERR_ARG, "rank %u: %s: tensor %zu: there are %zu", rank_of(buckets), function, tensor,
                       buckets->ntensors);
    } else if (buckets->failed) {
        rc = refuse_failed(function, buckets);
    } else if (buckets->ready[tensor]) {
        rc = kolo_fail(KOLO_ERR_ARG, "rank %u: %s: tensor %zu was ready already in this step", rank_of(buckets),
                       function, tensor);
    } else {
        mark(buckets, tensor);
        rc = issue(buckets);
    }
    pthread_mutex_unlock(&buckets->lock);
    return rc;
}

/* Marks the tensors that were not marked, from the last to the first, as if they became ready now; or refuses that. */
static int mark_unused(struct kolo_buckets *buckets) {
    for (size_t tensor = buckets->ntensors; tensor-- > 0;) {
        if (buckets->ready[tensor])
            continue;
        if (buckets->options.unused == KOLO_BUCKET_UNUSED_ERROR)
            return kolo_fail(KOLO_ERR_ARG,
                             "rank %u: kolo_bucket_wait: tensor %zu was not marked ready in this step, as %zu of %zu"
                             " were not: mark them, or set options.unused",
                             rank_of(buckets), tensor, buckets->ntensors - buckets->nseen, buckets->ntensors);
        if (buckets->tensors[tensor].count)
            memset(buckets->tensors[tensor].data, 0, buckets->tensors[tensor].count * buckets->element_bytes);
        mark(buckets, tensor);
    }
    return 0;
}

/* Whether `order` names each tensor once. Overwrites `ready`. */
static bool is_order(struct kolo_buckets *buckets, const uint32_t *order) {
    memset(buckets->ready, 0, buckets->ntensors);
    for (size_t i = 0; i < buckets->ntensors; i++) {
        if (order[i] >= buckets->ntensors || buckets->ready[order[i]])
            return false;
        buckets->ready[order[i]] = 1;
    }
    return true;
}

/* Makes all ranks take the order in which rank 0's tensors became ready. */
static int agree(struct kolo_buckets *buckets) {
    const int rc = kolo_broadcast(buckets->comm, buckets->seen, buckets->ntensors, KOLO_U32, 0);
    if (rc < 0)
        return rc;
    if (!is_order(buckets, buckets->seen))
        return kolo_fail(KOLO_ERR_MISMATCH, "rank %u: kolo_bucket_wait: rank 0 has other tensors", rank_of(buckets));
    memcpy(buckets->order, buckets->seen, buckets->ntensors * sizeof *buckets->order);
    divide(buckets);
    buckets->learning = false;
    return 0;
}

static int end_step(struct kolo_buckets *buckets) {
    int rc = buckets->failed ? refuse_failed("kolo_bucket_wait", buckets) : mark_unused(buckets);
    if (rc == 0)
        rc = issue(buckets);
    if (rc < 0)
        return rc;
    rc = take_all(buckets);
    if (rc == 0 && buckets->learning && buckets->ntensors)
        rc = agree(buckets);
    if (rc < 0)
        return buckets->failed = rc;
    begin_step(buckets);
    return 0;
}

int kolo_bucket_wait(kolo_buckets *buckets) {
    int rc = check("kolo_bucket_wait", buckets);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&buckets->lock);
    rc = end_step(buckets);
    pthread_mutex_unlock(&buckets->lock);
    return rc;
}

size_t kolo_bucket_count(const kolo_buckets *buckets) {
    return buckets ? buckets->nbuckets : 0;
}

int kolo_bucket_destroy(kolo_buckets *buckets) {
    if (!buckets)
        return 0;
    const int rc = take_all(buckets);
    pthread_mutex_destroy(&buckets->lock);
    free_buckets(buckets);
    return rc;
}
