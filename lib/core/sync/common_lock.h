/* The common lock protects what all communicators of a process share: the processes that this one watches
 * (comm/failure/peers.h), and the locks by which others see that it lives (shm/guard.h). The lock is held for moments
 * only. A call that does not have to wait never takes it.
 *
 * fork takes the lock, so that the child finds the protected data consistent. But the data is the parent's:
 * kolo_common_lock returns how many forks lie between the first process and this one, and a user that finds another
 * number than last time has to begin anew. */
#ifndef KOLO_SYNC_COMMON_LOCK_H
#define KOLO_SYNC_COMMON_LOCK_H

#include <stdint.h>

uint64_t kolo_common_lock(void);
void kolo_common_unlock(void);

#endif
