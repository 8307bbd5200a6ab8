/* The library's own threads, beside those of the program. */
#ifndef KOLO_SYNC_THREAD_H
#define KOLO_SYNC_THREAD_H

#include <pthread.h>

/* Starts a thread. Signals are the program's, and go to its own threads. The new thread blocks all signals but those
 * that its own faults raise, which a handler of the program or of a sanitizer can then report. Returns 0 or an
 * errno. */
int kolo_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
