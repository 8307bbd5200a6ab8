/* The common lock, and its handlers at a fork. */
#include "sync/common_lock.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t registered = PTHREAD_ONCE_INIT;
static uint64_t forks; /* under the mutex */

static void before_fork(void) {
    pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void) {
    forks++;
    pthread_mutex_unlock(&mutex);
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
