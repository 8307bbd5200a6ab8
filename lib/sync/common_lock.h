/* One lock for what all communicators of a process share: whom it watches (comm/failure/peers.h), and by what others
 * see that it lives (shm/guard.h). It is held for moments, and never on the path of a call that nobody keeps waiting.
 *
 * fork takes it, so that the child finds what it protects whole. But that is the parent's: kolo_common_lock returns how
 * many forks lie between the first process and this one, and who finds another number than it last saw has to begin
 * anew. */
#ifndef KOLO_SYNC_COMMON_LOCK_H
#define KOLO_SYNC_COMMON_LOCK_H

#include <stdint.h>

uint64_t kolo_common_lock(void);
void kolo_common_unlock(void);

#endif
