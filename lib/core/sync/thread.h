/* Threads: how the library starts its own, how they sleep, and the lock that all of a process have in common. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "sync/atomic.h"

/* Starts a thread. Signals are the program's, and go to its own threads. The new thread blocks all signals but those
 * that its own faults raise, which a handler of the program or a sanitizer can report. Returns 0 or an errno. */
int kolo_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Futexes: a thread sleeps on a 32-bit word that may be shared between processes, and is woken there. */

/* Sleeps for at most `ns` while *word holds `expected`. Returns early on a wake-up, on a signal (EINTR), or at once
 * where *word holds something else (EAGAIN): the caller looks at its condition again in every case. */
void kolo_futex_sleep(kolo_atomic_u32 *word, uint32_t expected, int64_t ns);

/* Wakes all threads that sleep on *word. */
void kolo_futex_wake_all(kolo_atomic_u32 *word);

/* The common lock protects what all communicators of a process share: the processes that this one watches
 * (comm/failure/peers.h), and the locks by which others see that it lives (shm/guard.h). The lock is held for moments
 * only. A call that does not have to wait never takes it.
 *
 * fork takes the lock, so that the child finds the protected data consistent. But the data is the parent's:
 * kolo_common_lock returns how many forks lie between the first process and this one, and a user that finds another
 * number than last time has to begin anew. */

uint64_t kolo_common_lock(void);
void kolo_common_unlock(void);

/* Likewise for the copies that kolo_share makes (shm/adoption.h), which take long. It is taken before the common lock,
 * never inside it. */
void kolo_adoption_lock(void);
void kolo_adoption_unlock(void);
