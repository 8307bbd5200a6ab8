/* A rank whose trace trace_job_test.py reads: `trace_probe WHAT`.
 *
 *   all      some of everything that a trace has
 *   one      calls of one thread, after which the rank prints its number, its calls and their bytes
 *   lanes    the same calls by as many threads as it has lanes
 *   slow     rank 2 comes 20 ms late to each of 40 all-reduces
 *   queued   rank 1 comes 50 ms late to each of 10 all-reduces in the background
 *   helped   rank 1's helper takes 20 ms more for its part of each of 10 all-reduces
 *   skew     rank 1 creates its communicator 1 s after the others, then one all-reduce
 *   random   collectives drawn by chance, without end
 *   pause    ranges and a communicator while the trace pauses, and behind that
 *   fork     a child writes ranges, and a trace of its own
 *   threads  40 threads write ranges, one after another, and then 40 at once
 *   level    10,000 calls, after which the process has no more memory than after 1,000 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kolo.h"
#include "kolo_lanes.h"
#include "kolo_trace.h"

enum { THREADS = 40, COUNT = 1 << 18, LANES_MAX = 8 };

static float data[COUNT], result[COUNT];

static void check(int rc) {
    if (rc < 0) {
        fprintf(stderr, "%s\n", kolo_error_message());
        exit(1);
    }
}

static void run_all(kolo_comm *comm) {
    const int rank = kolo_comm_rank(comm), ranks = kolo_comm_size(comm);
    kolo_comm *group;
    kolo_request *request;
    kolo_trace_begin("a range with a name of more than sixteen bytes");
    check(kolo_allreduce(comm, data, result, 2, KOLO_F32, KOLO_SUM));
    check(kolo_allreduce(comm, data, result, COUNT, KOLO_F32, KOLO_SUM));
    check(kolo_broadcast(comm, data, COUNT, KOLO_F32, 1));
    kolo_trace_end();
    check(kolo_iallreduce(comm, data, result, COUNT, KOLO_F32, KOLO_MAX, &request));
    check(kolo_request_wait(request));
    check(kolo_irun(comm, free, NULL, &request));
    check(kolo_request_wait(request));
    check(kolo_sendrecv(comm, data, 16, (rank + 1) % ranks, 7, result, 16, (rank + ranks - 1) % ranks, 7, KOLO_F32,
                        NULL));
    check(kolo_comm_split(comm, rank % 2, rank, &group));
    check(kolo_barrier(comm));
    check(kolo_comm_destroy(group));
}

/* Each call's message has other bytes. */
static void *call_in_lane(void *lane) {
    for (size_t i = 1; i <= 8; i++) {
        check(kolo_allreduce(lane, data, result, COUNT >> i, KOLO_F32, KOLO_SUM));
        check(kolo_barrier(lane));
        check(kolo_broadcast(lane, result, i, KOLO_U8, 1));
        check(kolo_barrier(lane)); /* lanes that had no part of the broadcast wait for it */
    }
    return NULL;
}

static void print_stats(const kolo_comm *comm) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    check(kolo_comm_stats(comm, &stats));
    printf("%d %llu %llu\n", kolo_comm_rank(comm), (unsigned long long)stats.calls,
           (unsigned long long)stats.payload_bytes);
}

static void run_lanes(kolo_comm *comm) {
    pthread_t threads[LANES_MAX];
    int count = 0;
    for (kolo_comm *lane; count < LANES_MAX && (lane = kolo_comm_lane(comm, count)); count++)
        pthread_create(&threads[count], NULL, call_in_lane, lane);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    print_stats(comm);
}

static void run_one(kolo_comm *comm) {
    kolo_request *request;
    call_in_lane(comm);
    check(kolo_iallreduce(comm, data, result, COUNT, KOLO_F32, KOLO_MAX, &request));
    check(kolo_request_wait(request));
    print_stats(comm);
}

static void run_slow(kolo_comm *comm) {
    for (int i = 0; i < 40; i++) {
        if (kolo_comm_rank(comm) == 2)
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        check(kolo_allreduce(comm, data, result, 4, KOLO_F32, KOLO_SUM));
    }
}

static void run_queued(kolo_comm *comm) {
    for (int i = 0; i < 10; i++) {
        kolo_request *request;
        if (kolo_comm_rank(comm) == 1)
            nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        check(kolo_iallreduce(comm, data, result, COUNT, KOLO_F32, KOLO_SUM, &request));
        nanosleep(&(struct timespec){.tv_nsec = 15000000}, NULL); /* until a progress thread begins */
        check(kolo_request_wait(request));
    }
}

static pthread_t slow_but_here;

static void add_slowly(const void *in, void *inout, size_t count, void *context) {
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((float *)inout)[i] += ((const float *)in)[i];
    if (slow_but_here && !pthread_equal(slow_but_here, pthread_self()))
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void run_helped(kolo_comm *comm) {
    kolo_op add;
    slow_but_here = kolo_comm_rank(comm) == 1 ? pthread_self() : 0;
    check(kolo_op_create(&add, add_slowly, NULL, 4, KOLO_OP_COMMUTATIVE));
    for (int i = 0; i < 10; i++)
        check(kolo_allreduce(comm, data, result, COUNT, KOLO_F32, add));
}

/* All ranks draw the same. */
static void run_random(kolo_comm *comm) {
    unsigned state = 1;
    check(kolo_barrier(comm)); /* or a rank could be killed while others still create the communicator */
    puts("begun");
    fflush(stdout);
    for (;;) {
        state = state * 1103515245u + 12345u;
        const size_t count = state >> 16 & 1 ? (state >> 17) % 16 : (state >> 17) % (COUNT / 4);
        switch (state >> 8 & 3) {
        case 0:
            check(kolo_barrier(comm));
            break;
        case 1:
            check(kolo_broadcast(comm, data, count, KOLO_F32, 0));
            break;
        default:
            check(kolo_allreduce(comm, data, result, count, KOLO_F32, KOLO_SUM));
        }
    }
}

static void run_pause(kolo_comm *comm) {
    kolo_comm *copy;
    check(kolo_allreduce(comm, data, result, 1, KOLO_F32, KOLO_SUM));
    kolo_trace_pause(1);
    kolo_trace_begin("in the pause");
    kolo_trace_end();
    check(kolo_allreduce(comm, data, result, 2, KOLO_F32, KOLO_SUM));
    check(kolo_comm_dup(comm, &copy));
    kolo_trace_pause(0);
    kolo_trace_begin("behind it");
    check(kolo_allreduce(copy, data, result, 3, KOLO_F32, KOLO_SUM));
    kolo_trace_end();
    kolo_trace_pause(1);
    check(kolo_comm_destroy(copy));
}

static void run_fork(kolo_comm *comm) {
    kolo_trace_begin("parent");
    check(kolo_barrier(comm));
    const pid_t child = fork();
    if (child == 0) {
        kolo_options options = KOLO_OPTIONS_INIT;
        kolo_comm *own;
        kolo_trace_begin("child before");
        kolo_trace_end();
        options.rank = 0;
        options.size = 1;
        check(kolo_comm_create(&own, &options));
        kolo_trace_begin("child");
        kolo_trace_end();
        exit(0);
    }
    waitpid(child, NULL, 0);
    kolo_trace_end();
}

static void *write_ranges(void *barrier) {
    if (barrier)
        pthread_barrier_wait(barrier);
    for (int i = 0; i < 100; i++) {
        kolo_trace_begin("thread");
        kolo_trace_end();
    }
    if (barrier)
        pthread_barrier_wait(barrier);
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[0], NULL, write_ranges, NULL);
        pthread_join(threads[0], NULL);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, write_ranges, &barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static long memory_pages(void) {
    long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2)
        resident = -1;
    if (file)
        fclose(file);
    return resident;
}

static void run_level(kolo_comm *comm) {
    long before = 0;
    for (int i = 0; i < 11000; i++) {
        if (i == 1000)
            before = memory_pages();
        check(kolo_allreduce(comm, data, result, 4, KOLO_F32, KOLO_SUM));
    }
    printf("%ld\n", memory_pages() - before);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    kolo_comm *comm;
    if (strcmp(what, "skew") == 0 && strcmp(getenv("KOLO_RANK"), "1") == 0)
        sleep(1);
    check(kolo_comm_create(&comm, NULL));
    if (strcmp(what, "skew") == 0)
        check(kolo_allreduce(comm, data, result, 4, KOLO_F32, KOLO_SUM));
    else if (strcmp(what, "one") == 0)
        run_one(comm);
    else if (strcmp(what, "lanes") == 0)
        run_lanes(comm);
    else if (strcmp(what, "slow") == 0)
        run_slow(comm);
    else if (strcmp(what, "queued") == 0)
        run_queued(comm);
    else if (strcmp(what, "helped") == 0)
        run_helped(comm);
    else if (strcmp(what, "random") == 0)
        run_random(comm);
    else if (strcmp(what, "pause") == 0)
        run_pause(comm);
    else if (strcmp(what, "fork") == 0)
        run_fork(comm);
    else if (strcmp(what, "threads") == 0)
        run_threads();
    else if (strcmp(what, "level") == 0)
        run_level(comm);
    else
        run_all(comm);
    check(kolo_comm_destroy(comm));
    return 0;
}
