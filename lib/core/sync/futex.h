/* Futexes: sleeping on a 32-bit word that may be shared between processes, and waking its sleepers. */
#ifndef KOLO_SYNC_FUTEX_H
#define KOLO_SYNC_FUTEX_H

#include <stdint.h>

#include "sync/atomic.h"

/* Sleeps for at most `ns` while *word holds `expected`. Returns early on a wake-up, on a signal (EINTR), or at once
 * where *word holds something else (EAGAIN): the caller looks at its condition again in every case. */
void kolo_futex_sleep(kolo_atomic_u32 *word, uint32_t expected, int64_t ns);

/* Wakes all threads that sleep on *word. */
void kolo_futex_wake_all(kolo_atomic_u32 *word);

#endif
