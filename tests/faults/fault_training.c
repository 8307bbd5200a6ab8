#include "fault_training.h"

#include <stdio.h>

#include "kolo_optimizer.h"
#include "kolo_fusion.h"

static float sum_at(const struct training_step *call, size_t index) {
    int32_t sum = 0;
    for (int rank = 0; rank < call->what->ranks; rank++)
        sum += case_value(rank, call->step, index);
    return (float)sum;
}

static void fill(const struct training_step *call) {
    for (size_t i = 0; i < call->what->count; i++)
        call->data[i] = (float)case_value(call->rank, call->step, i);
}

static void note_message(const struct training_step *call, int status) {
    snprintf(call->said, BOARD_TEXT_BYTES, "%s", status < 0 ? kolo_error_message() : "");
}

/* Nothing is lost of such numbers in F16, nor by TOPK, which sends all. */
int training_compressed(const struct training_step *call) {
    const size_t count = call->what->count;
    const kolo_tensor tensors[] = {{call->data, count / 3}, {call->data + count / 3, count - count / 3}};
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    kolo_buckets *buckets;
    options.op = KOLO_SUM;
    options.bucket_bytes = 1;
    options.keep_order = 1;
    options.compression = call->what->compression;
    options.compression_share = 1;
    fill(call);
    int status = kolo_bucket_create(call->comm, tensors, 2, &options, &buckets);
    if (status < 0)
        return status;
    status = kolo_bucket_ready(buckets, 0);
    if (status == 0)
        status = kolo_bucket_ready(buckets, 1);
    if (status == 0)
        status = kolo_bucket_wait(buckets);
    for (size_t i = 0; status == 0 && i < count; i++)
        *call->is_wrong |= call->data[i] != sum_at(call, i);
    note_message(call, status);
    kolo_bucket_destroy(buckets);
    return status;
}

/* Parameters that were 0 become the sums, negated: all numbers are whole, and small enough for f32. */
int training_optimizer(const struct training_step *call) {
    static float parameters[CASE_COUNT_MAX];
    const size_t count = call->what->count;
    const size_t ends[] = {count / 3, count};
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    kolo_optimizer *optimizer;
    options.kind = KOLO_OPTIMIZER_SGD;
    options.count = group.end = count;
    options.segments = ends;
    options.nsegments = 2;
    options.op = KOLO_SUM;
    options.clip_norm = call->step == case_calls(call->what) ? 1e30 : 0;
    group.learning_rate = 1;
    fill(call);
    for (size_t i = 0; i < count; i++)
        parameters[i] = 0;
    int status = kolo_optimizer_create(call->comm, &options, &group, 1, &optimizer);
    if (status < 0)
        return status;
    status = kolo_optimizer_begin_segment(optimizer, 0, call->data, parameters);
    if (status == 0)
        status = kolo_optimizer_step(optimizer, call->data, parameters, NULL);
    for (size_t i = 0; status == 0 && i < count; i++)
        *call->is_wrong |= parameters[i] != -sum_at(call, i);
    note_message(call, status);
    kolo_optimizer_destroy(optimizer);
    return status;
}
