/* Threads of the library's own, beside those of the program. */
#ifndef KOLO_SYNC_THREAD_H
#define KOLO_SYNC_THREAD_H

#include <pthread.h>

/* Starts one. Signals are the program's, and go to its own threads; only those that a thread's own mistake sends it
 * come here, so that a program's handler, or a sanitizer's, can tell of it. 0 or an errno. */
int kolo_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
