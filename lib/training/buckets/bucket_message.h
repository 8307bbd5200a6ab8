/* A bucket's message: these functions pack a bucket's tensors into it, issue it, and unpack the result. */
#ifndef KOLO_TRAINING_BUCKETS_BUCKET_MESSAGE_H
#define KOLO_TRAINING_BUCKETS_BUCKET_MESSAGE_H

#include "kolo_fusion.h"
#include "training/buckets/bucket_state.h"

/* Packs a bucket, all tensors of which are ready, and issues its message. The caller has the lock. Waits for no rank.
 * On success bucket->request is set. */
int kolo_bucket_issue(struct kolo_buckets *buckets, struct kolo_bucket *bucket);

/* Waits for the message of a bucket that was issued, and unpacks it. The caller has the lock. Returns the message's
 * status. bucket->request is NULL afterwards. */
int kolo_bucket_take(struct kolo_buckets *buckets, struct kolo_bucket *bucket);

/* Checks options with a compression. 0 or KOLO_ERR_ARG. */
int kolo_bucket_check_compression(const kolo_comm *comm, const kolo_bucket_options *options);

#endif
