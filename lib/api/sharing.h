/* What calls need that are made of several exchanges, as kolo_alloc and kolo_comm_split are: the sum of words of all
 * ranks, a file that one rank has and others get, and one status for all. Each function is collective, in a call that
 * has begun, and returns 0 or the status with which the communicator broke, unless it says otherwise. */
#ifndef KOLO_API_SHARING_H
#define KOLO_API_SHARING_H

#include "comm/comm.h"

/* words[rank] = what that rank of all has passed as `own`. */
int kolo_words_gather(kolo_comm *comm, const uint64_t *own, uint64_t *words);

/* sums[i] = the sum over all ranks of words[i]. */
int kolo_words_sum(kolo_comm *comm, const uint64_t *words, uint64_t *sums, size_t count);

/* The same, over the ranks of this node. */
int kolo_words_sum_on_node(kolo_comm *comm, const uint64_t *words, uint64_t *sums, size_t count);

#define KOLO_NO_GIVER UINT32_MAX

/* Who gets a file from whom, among the ranks of this node. Any file, and any socket. */
struct kolo_handing {
    const char *function;   /* for messages */
    uint32_t givers;        /* ranks that have a file, the same on all; numbered from 0 */
    uint32_t giver;         /* from whom this rank has it; KOLO_NO_GIVER: it takes none */
    bool gives;             /* this rank is that giver */
    const uint64_t *takers; /* of a giver: who takes it, a bit a rank */
};

/* Before, *fd is a giver's descriptor, or the status, below 0, of one that could not make its file. After, it is a
 * descriptor for the caller to close, or a status with its message set. Who may not open the file through /proc gets it
 * by a socket (shm/handover.h). */
int kolo_file_hand_out(kolo_comm *comm, const struct kolo_handing *handing, int *fd);

/* Of a part of a call that has ended with `rc` on this rank: 0 where it has succeeded on all, else the same status on
 * all, with a message; the communicator stays usable. */
int kolo_status_agree(kolo_comm *comm, const char *function, int rc);

#endif
