/* A list under a lock. */
#include "communicators/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "settings.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mpi_pooled *first;
static int64_t in_list;

static struct mpi_pooled *take(struct mpi_pooled *pooled) {
    if (pooled)
        pooled->is_free = false;
    return pooled;
}

struct mpi_pooled *mpi_pool_take(const void *group) {
    int compared = -1;
    pthread_mutex_lock(&lock);
    struct mpi_pooled *pooled = first;
    for (; pooled; pooled = pooled->next)
        if (pooled->is_free &&
            mpi_host.Group_compare(mpi_word_load(group), mpi_word_load(pooled->group), &compared) == 0 &&
            compared == mpi_host.is.ident)
            break;
    take(pooled);
    pthread_mutex_unlock(&lock);
    return pooled;
}

struct mpi_pooled *mpi_pool_take_job(const char *job, int rank) {
    pthread_mutex_lock(&lock);
    struct mpi_pooled *pooled = first;
    while (pooled && !(pooled->is_free && strcmp(pooled->job, job) == 0 && kolo_comm_rank(pooled->kolo) == rank))
        pooled = pooled->next;
    take(pooled);
    pthread_mutex_unlock(&lock);
    return pooled;
}

/* With the lock held. */
static void forget(struct mpi_pooled **link) {
    struct mpi_pooled *const pooled = *link;
    *link = pooled->next;
    in_list--;
    kolo_comm_destroy(pooled->kolo);
    if (mpi_settings.is_on && mpi_word_load(pooled->group) != 0)
        mpi_host.Group_free(pooled->group);
    free(pooled);
}

struct mpi_pooled *mpi_pool_reserve(int64_t most) {
    struct mpi_pooled *pooled = NULL;
    pthread_mutex_lock(&lock);
    for (struct mpi_pooled **link = &first; *link && in_list >= most;)
        if ((*link)->is_free)
            forget(link);
        else
            link = &(*link)->next;
    if (in_list < most)
        pooled = calloc(1, sizeof *pooled);
    if (pooled) {
        pooled->next = first;
        first = pooled;
        in_list++;
    }
    pthread_mutex_unlock(&lock);
    return pooled;
}

void mpi_pool_return(struct mpi_pooled *pooled) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    if (pooled->kolo && kolo_comm_failure(pooled->kolo, &failure) == 0 && failure.status == 0) {
        pthread_mutex_lock(&lock);
        pooled->is_free = true;
        pthread_mutex_unlock(&lock);
        return;
    }
    pthread_mutex_lock(&lock);
    struct mpi_pooled **link = &first;
    while (*link != pooled)
        link = &(*link)->next;
    forget(link);
    pthread_mutex_unlock(&lock);
}

void mpi_pool_end(void) {
    pthread_mutex_lock(&lock);
    while (first)
        forget(&first);
    pthread_mutex_unlock(&lock);
}
