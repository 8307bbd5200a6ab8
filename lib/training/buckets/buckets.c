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
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/arguments.h"
#include "base/sized.h"
#include "base/status.h"
#include "reduce/own_ops.h"
#include "kolo.h"
#include "kolo_fusion.h"
#include "api/path.h"
#include "training/compress/compressed.h"

/* A range of the tensors in their agreed order, which go out in one message. */
struct kolo_bucket {
    const struct kolo_buckets *buckets;
    struct kolo_compressed_bucket range; /* see compressed.h */
    size_t missing;                      /* tensors of the bucket that are not ready in this step */
    bool is_encoded;                     /* the compressed message is made: issuing it may have failed */
    kolo_request *request;               /* of the bucket's message in flight; NULL: none is */
};

struct kolo_buckets {
    kolo_comm *comm;
    uint64_t number; /* from 1: a step that some ranks have left is not taken for the first of other buckets */
    kolo_bucket_options options;
    size_t element_bytes;
    size_t ntensors;
    pthread_mutex_t lock; /* guards all below: tensors become ready in several threads */
    kolo_tensor *tensors; /* [ntensors] as registered */
    kolo_tensor *list;    /* [ntensors] in the agreed order */
    uint32_t *order;      /* [ntensors]: numbers of the tensors of `list` */
    uint32_t *seen;       /* [ntensors]: tensors that are ready in this step, in the order in which they became ready */
    size_t nseen;
    uint32_t *bucket_of; /* [ntensors]: number of each tensor's bucket */
    uint8_t *ready;      /* [ntensors]: 1: the tensor is ready in this step */
    struct kolo_bucket *bucket;
    kolo_atomic_u64 nbuckets; /* which kolo_bucket_query reads without the lock */
    size_t issued;            /* number of buckets of this step that are issued, the first ones */
    bool learning;            /* the first step is to learn the order */
    struct kolo_compressed compressed;
    int failed; /* the status with which a step failed; 0: none has */
};

static const char *const function_of_create = "kolo_bucket_create";
static const struct kolo_sized sized = KOLO_SIZED(kolo_bucket_options, options_bytes, error_feedback);

/* The bytes of an element under these options; 0 where no such reduction exists. */
static size_t element_bytes_of(const kolo_bucket_options *options) {
    const kolo_kernel *own = kolo_own_op_kernel(options->op);
    if (own && (options->dtype == KOLO_OPAQUE || kolo_dtype_bytes(options->dtype) == own->element_bytes))
        return own->element_bytes;
    return kolo_op_supports(options->op, options->dtype) ? kolo_dtype_bytes(options->dtype) : 0;
}

static int check_compression(const kolo_comm *comm, const kolo_bucket_options *options) {
    const char *name = kolo_name(KOLO_NAME_COMPRESSION, options->compression);
    if (!name)
        return KOLO_REFUSE(comm, "kolo_bucket_create", "compression %d: must be one of kolo_compression",
                           (int)options->compression);
    if (options->dtype != KOLO_F32 || (options->op != KOLO_SUM && options->op != KOLO_AVG))
        return KOLO_REFUSE(comm, "kolo_bucket_create", "compression %s: is for f32 with sum or avg, not for %s of %s",
                           name, kolo_name(KOLO_NAME_OP, options->op), kolo_name(KOLO_NAME_DTYPE, options->dtype));
    if (options->compression == KOLO_COMPRESSION_TOPK &&
        !(options->compression_share > 0 && options->compression_share <= 1))
        return KOLO_REFUSE(comm, "kolo_bucket_create", "compression_share %g: must be above 0 and at most 1",
                           options->compression_share);
    if (options->error_feedback != 0 && options->error_feedback != 1)
        return KOLO_REFUSE(comm, "kolo_bucket_create", "error_feedback %d: must be 0 or 1", options->error_feedback);
    return 0;
}

static int check_options(const kolo_comm *comm, const kolo_bucket_options *given, kolo_bucket_options *options) {
    const int rc = given ? kolo_sized_read(&sized, function_of_create, options, given) : 0;
    if (rc < 0)
        return rc;
    if (element_bytes_of(options) == 0)
        return KOLO_REFUSE(comm, "kolo_bucket_create", "there is no op %#x of dtype %d", (unsigned)options->op,
                           (int)options->dtype);
    if ((unsigned)options->unused > KOLO_BUCKET_UNUSED_ZERO)
        return KOLO_REFUSE(comm, "kolo_bucket_create", "unused %d: must be one of kolo_bucket_unused",
                           (int)options->unused);
    const bool adds = options->op == KOLO_SUM || options->op == KOLO_AVG || options->op == KOLO_SUM_EXACT;
    if (options->unused == KOLO_BUCKET_UNUSED_ZERO && !adds)
        return KOLO_REFUSE(comm, "kolo_bucket_create", "zeros for unused tensors are for sums and averages, not for %s",
                           kolo_name(KOLO_NAME_OP, options->op));
    if (options->keep_order != 0 && options->keep_order != 1)
        return KOLO_REFUSE(comm, "kolo_bucket_create", "keep_order %d: must be 0 or 1", options->keep_order);
    if (options->compression != KOLO_COMPRESSION_NONE && check_compression(comm, options) < 0)
        return KOLO_ERR_ARG;
    if (options->bucket_bytes == 0)
        options->bucket_bytes = KOLO_BUCKET_BYTES;
    return 0;
}

static int check_tensors(const kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, size_t element_bytes) {
    size_t left = SIZE_MAX / 4 / element_bytes;
    if ((!tensors && ntensors) || ntensors > UINT32_MAX)
        return KOLO_REFUSE(comm, "kolo_bucket_create", "%s with ntensors %zu",
                           tensors ? "more tensors than a number has" : "tensors is NULL", ntensors);
    for (size_t i = 0; i < ntensors; i++) {
        if (tensors[i].count > left || (!tensors[i].data && tensors[i].count))
            return KOLO_REFUSE(comm, "kolo_bucket_create", "tensor %zu: %s with count %zu", i,
                               tensors[i].data ? "more than memory can hold" : "data is NULL", tensors[i].count);
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
    for (size_t i = 0; i < kolo_load_relaxed(&buckets->nbuckets); i++)
        buckets->bucket[i].missing = buckets->bucket[i].range.count;
}

/* Divides `order` into buckets. */
static void divide(struct kolo_buckets *buckets) {
    size_t bytes = 0, compressed_at = 0, nbuckets = 0;
    for (size_t place = 0; place < buckets->ntensors; place++) {
        const uint32_t tensor = buckets->order[place];
        const size_t more = buckets->tensors[tensor].count * buckets->element_bytes;
        if (place == 0 || more > buckets->options.bucket_bytes || bytes > buckets->options.bucket_bytes - more) {
            buckets->bucket[nbuckets++] = (struct kolo_bucket){
                .buckets = buckets, .range = {buckets->list + place, buckets->order + place, 0, compressed_at}};
            bytes = 0;
        }
        bytes += more;
        if (buckets->options.compression != KOLO_COMPRESSION_NONE)
            compressed_at += kolo_compressed_bytes(&buckets->compressed, buckets->tensors[tensor].count);
        buckets->list[place] = buckets->tensors[tensor];
        buckets->bucket_of[tensor] = (uint32_t)nbuckets - 1;
        buckets->bucket[nbuckets - 1].range.count++;
    }
    kolo_store_relaxed(&buckets->nbuckets, nbuckets);
}

int kolo_bucket_create(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, const kolo_bucket_options *options,
                       kolo_buckets **result) {
    kolo_bucket_options chosen = KOLO_BUCKET_OPTIONS_INIT;
    if (!comm || !comm->token->ours || comm->is_lane || !kolo_comm_is_usable(comm))
        return kolo_unusable(function_of_create, comm);
    if (!result)
        return KOLO_REFUSE(comm, __func__, "buckets is NULL");
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
        return KOLO_FAIL_IN(comm, __func__, KOLO_ERR_SYSTEM, "out of memory for %zu tensors", ntensors);
    buckets->comm = comm;
    buckets->number = ++comm->bucket_sets;
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

enum { SETTINGS = 5 };

static bool is_compressed(const struct kolo_buckets *buckets) {
    return buckets->options.compression != KOLO_COMPRESSION_NONE;
}

/* One of the items that ranks have to pass alike for a bucket, whose tensors are named by their registered numbers. */
static struct kolo_item item_of(const void *context, size_t index) {
    const struct kolo_bucket *bucket = context;
    const struct kolo_buckets *buckets = bucket->buckets;
    if (index >= SETTINGS) {
        const size_t place = index - SETTINGS;
        return kolo_item_of_list("tensors", bucket->range.order[place], ".count", bucket->range.tensors[place].count);
    }
    const kolo_op op = buckets->options.op; /* that of kolo_op_create is a number of this process alone */
    const double share = buckets->options.compression == KOLO_COMPRESSION_TOPK ? buckets->options.compression_share : 0;
    const struct kolo_item settings[SETTINGS] = {
        kolo_item_named("compression", KOLO_NAME_COMPRESSION, buckets->options.compression),
        kolo_item_named("op", KOLO_NAME_OP, op < KOLO_OPS_OWN ? op : KOLO_OPS_OWN),
        kolo_item_real("compression_share", share), kolo_item_number("the number of the buckets", buckets->number),
        kolo_item_number("tensors of the bucket", bucket->range.count)};
    return settings[index];
}

/* Packs a bucket, all tensors of which are ready, and issues its message: the tensors themselves, or their compressed
 * form. Waits for no rank. On success bucket->request is set. */
static int issue_one(struct kolo_buckets *buckets, struct kolo_bucket *bucket) {
    const struct kolo_compressed_bucket *range = &bucket->range;
    const struct kolo_items items = {SETTINGS + range->count, item_of, bucket};
    if (is_compressed(buckets)) {
        if (!bucket->is_encoded)
            kolo_compressed_encode(&buckets->compressed, range);
        bucket->is_encoded = true;
        return kolo_compressed_issue(&buckets->compressed, buckets->comm, range, items, &bucket->request);
    }
    struct kolo_arguments call =
        WITH_TENSORS(range->tensors, range->count, buckets->options.dtype, buckets->options.op);
    call.digest = buckets->number;
    call.items = items;
    return kolo_path_issue(KOLO_ALLREDUCE_MANY, "kolo_iallreduce_many", buckets->comm, &call, &bucket->request);
}

/* Waits for the message of a bucket that was issued, and unpacks it. Returns the message's status. */
static int take_one(struct kolo_buckets *buckets, struct kolo_bucket *bucket) {
    kolo_request *request = bucket->request;
    bucket->request = NULL;
    bucket->is_encoded = false;
    const int rc = kolo_request_wait(request);
    if (rc == 0 && is_compressed(buckets))
        kolo_compressed_read(&buckets->compressed, &bucket->range);
    return rc;
}

/* Waits for all that is in flight. Returns the status, with its message, of the first that has failed. */
static int take_all(struct kolo_buckets *buckets) {
    int status = 0;
    for (size_t i = buckets->issued; i-- > 0;) { /* the message that stays is the first one's */
        const int rc = buckets->bucket[i].request ? take_one(buckets, &buckets->bucket[i]) : 0;
        status = rc < 0 ? rc : status;
    }
    return status;
}

/* Ends a step that has failed for good with `rc`. A bucket that failed before knows the cause better. */
static int give_up(struct kolo_buckets *buckets, int rc) {
    const int first = take_all(buckets);
    buckets->failed = first < 0 ? first : rc;
    return buckets->failed;
}

/* Issues the buckets whose turn it is. */
static int issue(struct kolo_buckets *buckets) {
    int rc = 0;
    while (rc == 0 && buckets->issued < kolo_load_relaxed(&buckets->nbuckets) &&
           buckets->bucket[buckets->issued].missing == 0) {
        rc = issue_one(buckets, &buckets->bucket[buckets->issued]);
        buckets->issued += rc == 0;
    }
    return rc == KOLO_ERR_SYSTEM || rc == 0 ? rc : give_up(buckets, rc);
}

static void mark(struct kolo_buckets *buckets, size_t tensor) {
    buckets->ready[tensor] = 1;
    buckets->seen[buckets->nseen++] = (uint32_t)tensor;
    buckets->bucket[buckets->bucket_of[tensor]].missing--;
}

static int check(const char *function, const struct kolo_buckets *buckets) {
    if (!buckets)
        return kolo_fail(KOLO_ERR_ARG, "%s: buckets is NULL", function);
    return buckets->comm->token->ours ? 0 : kolo_unusable(function, buckets->comm);
}

static int refuse_failed(const char *function, const struct kolo_buckets *buckets) {
    return KOLO_FAIL_IN(buckets->comm, function, KOLO_ERR_STATE, "a step has failed (%s): destroy the buckets",
                        kolo_strerror(buckets->failed));
}

int kolo_bucket_ready(kolo_buckets *buckets, size_t tensor) {
    int rc = check(__func__, buckets);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&buckets->lock);
    if (tensor >= buckets->ntensors) {
        rc = KOLO_REFUSE(buckets->comm, __func__, "tensor %zu: there are %zu", tensor, buckets->ntensors);
    } else if (buckets->failed) {
        rc = refuse_failed(__func__, buckets);
    } else if (buckets->ready[tensor]) {
        rc = KOLO_REFUSE(buckets->comm, __func__, "tensor %zu was ready already in this step", tensor);
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
            return KOLO_REFUSE(buckets->comm, "kolo_bucket_wait",
                               "tensor %zu was not marked ready in this step, as %zu of %zu were not: mark them, or "
                               "set options.unused",
                               tensor, buckets->ntensors - buckets->nseen, buckets->ntensors);
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
        return KOLO_FAIL_IN(buckets->comm, "kolo_bucket_wait", KOLO_ERR_MISMATCH, "rank 0 has other tensors");
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
    kolo_trace_span_begin(KOLO_TRACE_BUCKETS, buckets->comm->waiter.trace, 0, buckets->ntensors, 0);
    rc = end_step(buckets);
    kolo_trace_span_end(KOLO_TRACE_BUCKETS, rc);
    pthread_mutex_unlock(&buckets->lock);
    return rc;
}

int kolo_bucket_query(const kolo_buckets *buckets, kolo_bucket_info *info) {
    static const struct kolo_sized sized_info = KOLO_SIZED(kolo_bucket_info, info_bytes, held_bytes);
    if (!buckets)
        return kolo_fail(KOLO_ERR_ARG, "kolo_bucket_query: buckets is NULL");
    const kolo_bucket_info found = {.buckets = kolo_load_relaxed(&buckets->nbuckets),
                                    .held_bytes = buckets->compressed.bytes};
    return kolo_sized_give(&sized_info, "kolo_bucket_query", info, &found);
}

/* Finds the residual of a tensor, under the lock; NULL, with a message, if the caller cannot have it. */
static float *find_residual(const char *function, const struct kolo_buckets *buckets, size_t tensor) {
    if (tensor >= buckets->ntensors)
        KOLO_REFUSE(buckets->comm, function, "tensor %zu: there are %zu", tensor, buckets->ntensors);
    else if (!buckets->compressed.residual)
        KOLO_REFUSE(buckets->comm, function,
                    "these buckets have no residuals: they take a compression, and error feedback");
    else if (buckets->nseen > 0 && !buckets->failed)
        KOLO_REFUSE(buckets->comm, function, "a step has begun: end it with kolo_bucket_wait");
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
            rc =
                KOLO_REFUSE(buckets->comm, __func__, "element %zu is %g: a residual is a number", i, (double)wanted[i]);
    if (rc == 0 && before && count)
        memcpy(before, residual, count * sizeof *before);
    if (rc == 0 && wanted && count)
        memcpy(residual, wanted, count * sizeof *wanted);
    pthread_mutex_unlock(&buckets->lock);
    return rc;
}

int kolo_bucket_destroy(kolo_buckets *buckets) {
    if (!buckets)
        return 0;
    const int rc = take_all(buckets);
    pthread_mutex_destroy(&buckets->lock);
    free_buckets(buckets);
    return rc;
}
