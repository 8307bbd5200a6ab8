/* Helpers for calls that are made of several exchanges, such as kolo_alloc and kolo_comm_split: sums of words over all
 * ranks, files that one rank has and others get, and one status for all. Each function is collective, within a call
 * that has begun. It returns 0 or the status with which the communicator broke, unless its comment says otherwise. */
#pragma once

#include "comm/comm.h"

/* Begin and leave such a call. It begins once no request is in flight and kolo_enter has let this thread in; if not,
 * the call does not begin, and this returns why. On a communicator of one rank the call meets no other. */
int kolo_shared_call_begin(const char *function, kolo_comm *comm, struct kolo_call_key key);
void kolo_shared_call_leave(kolo_comm *comm);

/* Sets words[rank] to what that rank, among those of all nodes, has passed as `own`. */
int kolo_words_gather(kolo_comm *comm, const uint64_t *own, uint64_t *words);

/* Sets results[i] to the sum (KOLO_SUM) over all ranks of words[i], or to the largest one (KOLO_MAX). */
int kolo_words_reduce(kolo_comm *comm, kolo_op op, const uint64_t *words, uint64_t *results, size_t count);

#define KOLO_NO_GIVER UINT32_MAX

/* The files that ranks of this node hand to others: which rank gets one from which. */
struct kolo_handing {
    const char *function;   /* for messages */
    uint32_t givers;        /* ranks that have a file, the same on all; numbered from 0 */
    uint32_t giver;         /* number of the giver of this rank's file; KOLO_NO_GIVER: it takes none */
    bool gives;             /* this rank is that giver */
    const uint64_t *takers; /* of a giver: the ranks that take it, one bit each */
};

/* On entry a giver's *fd is its descriptor, or the negative status with which it could not make its file. On return *fd
 * is a descriptor for the caller to close, or a negative status with its message set. A rank that may not open the file
 * through /proc gets it through a socket (shm/memory_file.h). */
int kolo_file_hand_out(kolo_comm *comm, const struct kolo_handing *handing, int *fd);

/* The same where rank 0 gives, and all others take. */
int kolo_file_hand_to_all(kolo_comm *comm, const char *function, int *fd);

/* Agrees on the status of a part of a call, which has ended with `rc` on this rank. Returns 0 if the part has succeeded
 * on all ranks, else the same status on all, with a message. The communicator stays usable. */
int kolo_status_agree(kolo_comm *comm, const char *function, int rc);

/* The same as a call of its own, with that key. What is made of several calls begins with it: where a rank calls
 * something else, all find a mismatch. */
int kolo_status_meet(kolo_comm *comm, const char *function, struct kolo_call_key key, int rc);

/* Checks that all ranks pass the same items. If not, returns KOLO_ERR_ARG on all, with a message that names the first
 * item that differs, and the communicator stays usable. It makes calls, and so is not called within one. */
int kolo_items_agree(kolo_comm *comm, const char *function, const struct kolo_items *items);
