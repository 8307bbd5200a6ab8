/* Buckets as their own rank holds them. */
#ifndef KOLO_TRAINING_BUCKETS_BUCKET_STATE_H
#define KOLO_TRAINING_BUCKETS_BUCKET_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "training/compress/compressed.h"
#include "kolo.h"
#include "kolo_fusion.h"

/* A range of the tensors in their agreed order, which go out in one message. */
struct kolo_bucket {
    const struct kolo_buckets *buckets;
    size_t first, count;   /* in `order` and `list` */
    size_t compressed_at;  /* of a compressed message, see compressed.h */
    size_t missing;        /* tensors of the bucket that are not ready in this step */
    kolo_request *request; /* of the bucket's message in flight; NULL: none is */
};

struct kolo_buckets {
    kolo_comm *comm;
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
    size_t nbuckets;
    size_t issued; /* number of buckets of this step that are issued, the first ones */
    bool learning; /* the first step is to learn the order */
    struct kolo_compressed compressed;
    int failed; /* the status with which a step failed; 0: none has */
};

#endif
