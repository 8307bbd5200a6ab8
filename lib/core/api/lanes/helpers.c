/* Starts helpers, gives them work, and ends them. */
#include "api/lanes/helpers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/failure/failure.h"
#include "sync/thread.h"

/* An idle helper spins for a tenth of what its lane's waits do, for work that follows at once. */
enum { SPINS_SHARE = 10 };

struct helper {
    KOLO_ALIGNED kolo_atomic_u64 done; /* works */
    int status;                        /* of the last one */
    kolo_comm *lane;
    struct kolo_helpers *all;
    pthread_t thread;
};

struct kolo_helpers {
    KOLO_ALIGNED kolo_atomic_u64 posted; /* works */
    kolo_lane_fn *run;                   /* of the last one; NULL: to end */
    const void *argument;
    kolo_bell bell; /* rung with `posted` */
    KOLO_ALIGNED kolo_bell done_bell;
    kolo_waiter waiter; /* the poster's, for `done` */
    bool has_tried;     /* to start them */
    uint32_t started;   /* the first ones */
    uint32_t count;
    struct helper helper[];
};

static void *serve(void *argument) {
    struct helper *self = argument;
    struct kolo_helpers *all = self->all;
    const kolo_comm *lane = self->lane;
    kolo_waiter waiter = {.publisher_fences = true, .spins = lane->waiter.spins_max / SPINS_SHARE};
    waiter.spins_max = waiter.spins;
    char name[16];
    snprintf(name, sizeof name, "kolo-lane-%u", lane->origin.lane);
    pthread_setname_np(pthread_self(), name);
    kolo_trace_name_thread(KOLO_TRACE_HELPER);
    if (lane->segment.header)
        kolo_cpu_set_bind(&lane->segment.members[lane->rank].cpus);
    for (uint64_t work = 1;; work++) {
        kolo_wait_idly(&waiter, &all->posted, work, &all->bell);
        if (!all->run)
            return NULL;
        KOLO_POINT("helper.beginning");
        self->status = all->run(self->lane, all->argument);
        KOLO_POINT("helper.ending");
        kolo_publish(&waiter, &self->done, work, &all->done_bell); /* pairs with kolo_helpers_run */
    }
}

/* The check of waits for helpers, which never fail: the waits in its lane bound every part of a work. What the program
 * answers breaks the communicator, which ends those waits. */
static int ask(kolo_waiter *waiter, const struct kolo_wait *wait) {
    kolo_comm *comm = waiter->owner;
    const int code = kolo_comm_is_usable(comm) ? kolo_failure_ask(&comm->interrupt) : 0;
    if (code && !kolo_wait_reached(wait))
        kolo_failure_publish(comm, KOLO_ERR_ABORTED, code);
    return 0;
}

struct kolo_helpers *kolo_helpers_create(kolo_comm *const *lanes, uint32_t count) {
    const size_t bytes = sizeof(struct kolo_helpers) + (count - 1) * sizeof(struct helper);
    struct kolo_helpers *helpers = aligned_alloc(KOLO_LINE_BYTES, bytes);
    if (!helpers)
        return NULL;
    memset(helpers, 0, bytes);
    helpers->count = count - 1;
    helpers->waiter = (kolo_waiter){.spins = lanes[0]->waiter.spins_max,
                                    .spins_max = lanes[0]->waiter.spins_max,
                                    .yields = lanes[0]->waiter.yields,
                                    .publisher_fences = true,
                                    .timeout_ns = KOLO_NEVER_NS,
                                    .check = ask,
                                    .owner = lanes[0],
                                    .trace = lanes[0]->waiter.trace};
    for (uint32_t i = 0; i < helpers->count; i++) {
        helpers->helper[i].lane = lanes[i + 1];
        helpers->helper[i].all = helpers;
    }
    return helpers;
}

static void start(struct kolo_helpers *helpers) {
    helpers->has_tried = true;
    while (helpers->started < helpers->count) {
        struct helper *next = &helpers->helper[helpers->started];
        if (kolo_thread_start(&next->thread, serve, next))
            break;
        helpers->started++;
    }
}

static void post(struct kolo_helpers *helpers, kolo_lane_fn *run, const void *argument) {
    helpers->run = run;
    helpers->argument = argument;
    KOLO_POINT("helper.posting");
    kolo_publish(&helpers->waiter, &helpers->posted, kolo_load_relaxed(&helpers->posted) + 1, &helpers->bell);
}

/* Waits for all helpers; returns 0 or the status of one. */
static int await(struct kolo_helpers *helpers) {
    const uint64_t work = kolo_load_relaxed(&helpers->posted);
    int rc = 0;
    for (uint32_t i = 0; i < helpers->started; i++) {
        struct helper *helper = &helpers->helper[i];
        kolo_wait_at_least(&helpers->waiter, &helper->done, work, &helpers->done_bell,
                           UINT32_MAX); /* pairs with serve */
        rc = helper->status < 0 ? helper->status : rc;
    }
    return rc;
}

int kolo_helpers_run(struct kolo_helpers *helpers, kolo_comm *const *lanes, uint32_t count, kolo_lane_fn *run,
                     const void *argument) {
    if (helpers && !helpers->has_tried)
        start(helpers);
    const uint32_t helped = helpers ? helpers->started : 0;
    if (helped)
        post(helpers, run, argument);
    int rc = run(lanes[0], argument);
    for (uint32_t lane = 1 + helped; lane < count; lane++) {
        const int status = run(lanes[lane], argument);
        rc = rc < 0 ? rc : status;
    }
    const int status = helped ? await(helpers) : 0;
    if (rc == 0 && (status < 0 || !kolo_comm_is_usable(lanes[0]))) { /* the message is the helper's, or an answer's */
        rc = kolo_failure_look(lanes[0], lanes[0]->rank, 0);
        rc = rc < 0 ? rc : kolo_fail(status, "rank %u: the call was given up", lanes[0]->global_rank);
    }
    return rc;
}

void kolo_helpers_end(struct kolo_helpers *helpers, bool forked) {
    if (helpers && helpers->started && !forked) {
        post(helpers, NULL, NULL);
        for (uint32_t i = 0; i < helpers->started; i++)
            pthread_join(helpers->helper[i].thread, NULL);
    }
    free(helpers);
}
