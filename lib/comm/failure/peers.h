/* The processes that this one watches: one record and one pidfd a process, however many communicators it is in.
 *
 * A pidfd's number may come to mean something else: a program may close descriptors that are not its own, and open
 * others. So what a number says counts only if it is still that pidfd, which kolo_peer_examine finds out; if it is not,
 * the peer is opened anew, and the number is left alone. */
#ifndef KOLO_COMM_FAILURE_PEERS_H
#define KOLO_COMM_FAILURE_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "shm/layout.h"

struct kolo_ending {
    kolo_cause cause; /* KOLO_CAUSE_KILLED, EXITED, ENDED or EXECED */
    int code;         /* the signal, the exit status */
};

struct kolo_peer;

/* All that follow are for whoever holds the lock. A peer that was held before it was taken may be gone with a fork: a
 * communicator that a child inherits is not to be used there. */
void kolo_peers_lock(void);
void kolo_peers_unlock(void);

/* Begins to watch a process of this pid namespace, or goes on: for one communicator more. NULL: out of memory. */
struct kolo_peer *kolo_peer_hold(const struct kolo_shared_process *process);
void kolo_peer_release(struct kolo_peer *peer);

/* Looks which of them have ended, by one poll. NULLs are passed over. Costs little: not every end shows in it. */
void kolo_peers_poll(struct kolo_peer *const *peers, uint32_t count);

/* Looks at one closely: opens or checks its pidfd or, where none is to be had, looks into /proc. */
void kolo_peer_examine(struct kolo_peer *peer);

/* How it has ended; NULL: it has not. */
const struct kolo_ending *kolo_peer_ending(const struct kolo_peer *peer);

#endif
