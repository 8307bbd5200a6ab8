/* Calls of every collective, each with what every rank must find in its memory afterwards: a sequential reference,
 * computed from the words of the public headers alone. */
#pragma once

#include "collective_shapes.h"
#include "harness.h"

enum { TENSORS_MAX = 12, SHARED_BYTES = 1 << 20, CALL_WORDS = 128 };

/* alltoallv does not, nor does an update: its result is not in the place of what it reduces. */
bool works_in_place(const collective_shape *kind);

struct call {
    uint32_t index;
    const collective_shape *kind;
    kolo_dtype dtype;
    kolo_op op; /* or one of own_operations.h */
    int root;
    size_t count;
    bool in_place;
    unsigned char *const *shared; /* two buffers of kolo_alloc, for the call to use; or NULL */
    const int *node_of;           /* the node of each rank, if they are reduced node by node; NULL: in their order */
    uint32_t uneven;              /* where blocks, or tensors, have counts of their own: another number, other counts */
};

/* Blocks as a rank lays them out. */
struct layout {
    size_t counts[HARNESS_RANKS_MAX], offsets[HARNESS_RANKS_MAX];
    size_t count; /* elements up to the last block's end */
};

/* Whether ranks must notice that `rank` makes the call `odd` while all others make `common`. */
bool calls_differ(const struct call *common, const struct call *odd, int rank, int ranks);

/* One rank's part of a call. */
struct prepared {
    struct call call;
    struct layout sent, taken;
    unsigned char *memory, *apart;    /* in which the buffers lie; NULL: they are gone */
    void *send, *recv;                /* what the rank passes; NULL: nothing */
    unsigned char *expected;          /* what `memory` must hold after the call */
    size_t room;                      /* its bytes */
    kolo_tensor tensors[TENSORS_MAX]; /* into which `recv` is divided, where the call takes a list */
    size_t ntensors;
    bool shared;        /* the memory is the call's */
    uint64_t send_hash; /* of what `send` has, if that lies apart */
};

/* Writes the call in words, into CALL_WORDS bytes. */
void call_tell(const struct call *call, char *words);

/* Fills the buffers with which this rank of `comm` makes the call. */
void call_prepare(struct prepared *prepared, const struct call *call, const kolo_comm *comm);

/* The call as a value. */
kolo_call call_value(const struct prepared *prepared);

/* Makes the call, or issues it in the background, and returns its status. */
int call_make(const struct prepared *prepared, kolo_comm *comm);
int call_issue(const struct prepared *prepared, kolo_comm *comm, kolo_request **request);

/* Expects that the call, which returned `status`, has changed what it should in the memory, fills that with rubbish,
 * and frees it; but not where the call failed. */
bool call_check(const struct rank *rank, struct prepared *prepared, int status);

/* Expects that nobody has written to the memory of calls that failed, and frees it. */
void calls_untouched(const struct rank *rank);

/* Frees the memory of a call that need not be checked. */
void call_free(struct prepared *prepared);
