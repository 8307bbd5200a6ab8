/* How one bucket goes out and comes in: here a bucket's tensors are packed into what is sent, and unpacked again. */
#ifndef KOLO_API_FUSION_BUCKET_MESSAGE_H
#define KOLO_API_FUSION_BUCKET_MESSAGE_H

#include "api/fusion/bucket_state.h"

/* Under the lock, all tensors of the bucket being ready: packs it and issues its message. Waits for nobody. On success
 * bucket->request is set. */
int kolo_bucket_issue(struct kolo_buckets *buckets, struct kolo_bucket *bucket);

/* Under the lock, of a bucket that was issued: waits for its message, whose status it returns, and unpacks it.
 * bucket->request is NULL afterwards. */
int kolo_bucket_take(struct kolo_buckets *buckets, struct kolo_bucket *bucket);

/* Checks options with a compression. 0 or KOLO_ERR_ARG. */
int kolo_bucket_check_compression(const kolo_comm *comm, const kolo_bucket_options *options);

#endif
