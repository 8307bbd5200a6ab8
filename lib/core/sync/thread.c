/* The start of the library's own threads. */
#include "sync/thread.h"

#include <signal.h>

int kolo_thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before); /* the new thread inherits this mask */
    const int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
