/* One lock for what all communicators of a process share: the processes that it watches (comm/failure/peers.h), and the
 * locks by which others see that it lives (shm/guard.h). It is held for moments only, and never taken by a call that
 * does not have to wait.
 *
 * fork takes it, so that the child finds the protected data consistent. But the data is the parent's: kolo_common_lock
 * returns how many forks lie between the first process and this one, and a user that finds another number than last
 * time has to begin anew. */
#ifndef KOLO_SYNC_COMMON_LOCK_H
#define KOLO_SYNC_COMMON_LOCK_H

#include <stdint.h>

uint64_t kolo_common_lock(void);
void kolo_common_unlock(void);

#endif
