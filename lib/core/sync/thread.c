/* The start of the library's own threads, the futex system call, and the common lock with its handlers at a fork. */
#include "sync/thread.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

void kolo_futex_sleep(kolo_atomic_u32 *word, uint32_t expected, int64_t ns) {
    struct timespec limit = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, NULL, 0);
}

void kolo_futex_wake_all(kolo_atomic_u32 *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, adopting = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t registered = PTHREAD_ONCE_INIT;
static uint64_t forks; /* under the mutex */

static void before_fork(void) {
    pthread_mutex_lock(&adopting);
    pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&mutex);
    pthread_mutex_unlock(&adopting);
}

static void after_fork_in_child(void) {
    forks++;
    after_fork_in_parent();
}

/* Registering may fail for lack of memory. Then only a child that is forked while the lock is held is harmed. */
static void register_handlers(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

uint64_t kolo_common_lock(void) {
    pthread_once(&registered, register_handlers);
    pthread_mutex_lock(&mutex);
    return forks;
}

void kolo_common_unlock(void) {
    pthread_mutex_unlock(&mutex);
}

void kolo_adoption_lock(void) {
    pthread_once(&registered, register_handlers);
    pthread_mutex_lock(&adopting);
}

void kolo_adoption_unlock(void) {
    pthread_mutex_unlock(&adopting);
}
