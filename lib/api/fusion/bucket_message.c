/* Buckets as they are: the tensors themselves are the message. */
#include "api/fusion/bucket_message.h"

int kolo_bucket_issue(struct kolo_buckets *buckets, struct kolo_bucket *bucket) {
    return kolo_iallreduce_many(buckets->comm, buckets->list + bucket->first, bucket->count, buckets->options.dtype,
                                buckets->options.op, &bucket->request);
}

int kolo_bucket_take(struct kolo_buckets *buckets, struct kolo_bucket *bucket) {
    kolo_request *request = bucket->request;
    (void)buckets;
    bucket->request = NULL;
    return kolo_request_wait(request);
}
