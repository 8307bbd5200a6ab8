/* The peers of this process are those that it watches: each has one record and one pidfd, for all communicators.
 *
 * The number of a pidfd may come to mean something else, since a program may close descriptors that are not its own,
 * and open others. So the answers of a number count only while it still means that pidfd, which kolo_peer_examine
 * checks. If it does not, the process is opened anew, and the old number is left alone. */
#pragma once

#include <stdint.h>

#include "kolo.h"
#include "shm/layout.h"

struct kolo_ending {
    kolo_cause cause; /* KOLO_CAUSE_KILLED, EXITED, ENDED or EXECED; NONE: it has not ended */
    int code;         /* the signal, the exit status */
};

enum { KOLO_PEERS_POLLED = 64 }; /* poll refuses more than RLIMIT_NOFILE at once */

struct kolo_peer;

/* Takes the common lock (sync/thread.h), which the caller of any function below holds. A forked child has none of its
 * parent's peers. */
void kolo_peers_lock(void);

/* Watches a process of this pid namespace, for one more communicator. NULL: out of memory. */
struct kolo_peer *kolo_peer_hold(const struct kolo_shared_process *process);
void kolo_peer_release(struct kolo_peer *peer);

/* Looks which of up to KOLO_PEERS_POLLED peers have ended, by one poll, which is cheap but does not show every end. */
void kolo_peers_poll(struct kolo_peer *const *peers, uint32_t count);

/* Looks at one peer closely: opens or checks its pidfd or, if it can have none, looks into /proc. */
void kolo_peer_examine(struct kolo_peer *peer);

/* Returns how the peer has ended. */
struct kolo_ending kolo_peer_ending(const struct kolo_peer *peer);
