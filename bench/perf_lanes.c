#include "perf_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kolo_lanes.h"
#include "perf_team.h"
#include "perf_collectives.h"

/* The thread in one lane. */
typedef struct perf_lane {
    perf_word done; /* calls */
    int status;     /* of the last one */
    pthread_t thread;
} perf_lane;

static perf_lane lanes[KOLO_THREADS_MAX]; /* the first is that of the rank's first thread */
static int started;                       /* of them, with that one */
static perf_word posted;                  /* calls, by the first thread */
static const perf_sampler *caller;        /* of the last one; NULL: the threads are to end */
static const perf_call *arguments;

static void await(const _Atomic uint64_t *word, uint64_t value) {
    enum { SPINS = 4000, YIELDS = 100, PAUSE_NS = 50000 };
    for (int looks = 0; !perf_word_reached(word, value); looks++) {
        if (looks < SPINS) {
            perf_cpu_relax();
        } else if (looks < SPINS + YIELDS) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
            looks = SPINS + YIELDS;
        }
    }
}

static int call_in_lane(const perf_sampler *sampler, const perf_call *call, int lane) {
    perf_call own = *call;
    own.comm = kolo_comm_lane(call->comm, lane);
    return sampler->collective->call(&own);
}

static void *serve(void *argument) {
    perf_lane *self = argument;
    for (uint64_t call = 1;; call++) {
        await(&posted.value, call);
        if (caller == NULL)
            break;
        self->status = call_in_lane(caller, arguments, (int)(self - lanes));
        perf_word_store(&self->done.value, call);
    }
    perf_tensors_free();
    return NULL;
}

static uint64_t post(const perf_sampler *sampler, const perf_call *call) {
    caller = sampler;
    arguments = call;
    perf_word_store(&posted.value, posted.value + 1);
    return posted.value;
}

int perf_lanes_begin(int count) {
    memset(lanes, 0, sizeof(lanes));
    memset(&posted, 0, sizeof(posted));
    for (started = 1; started < count; started++) {
        const int error = pthread_create(&lanes[started].thread, NULL, serve, &lanes[started]);
        if (error != 0) {
            fprintf(stderr, "kolo-perf: starting thread %d of %d: %s; use fewer --threads\n", started + 1, count,
                    strerror(error));
            return 1;
        }
    }
    return 0;
}

void perf_lanes_end(void) {
    post(NULL, NULL);
    for (int i = 1; i < started; i++)
        pthread_join(lanes[i].thread, NULL);
    started = 0;
}

int perf_lanes_call(const perf_sampler *sampler, const perf_call *call) {
    const uint64_t number = post(sampler, call);
    int status = call_in_lane(sampler, call, 0), others = KOLO_OK;
    for (int i = 1; i < started; i++) {
        await(&lanes[i].done.value, number);
        others = lanes[i].status != KOLO_OK ? lanes[i].status : others;
    }
    if (status == KOLO_OK && others != KOLO_OK) /* the same failure, with its message in this thread */
        status = kolo_barrier(call->comm);
    return status;
}
