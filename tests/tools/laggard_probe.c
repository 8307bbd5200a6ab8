/* A job in which one rank comes late: it makes two communicators, then all-reduces on the first one until a peer fails
 * or rank 0 has had enough of it.
 *
 *   laggard_probe RANK MS SECONDS   rank RANK sleeps MS before each call
 *
 * Each rank prints "rank R is process P" when both communicators are there. Exit code 0, or 1 with kolo's message. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kolo.h"

enum { COUNT = 5000 };

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int go_on(kolo_comm *comm, int late_rank, long late_ms, double seconds) {
    static float data[COUNT];
    const double end = now_seconds() + seconds;
    int status = 0;
    while (status == 0 && data[0] == 0) {
        const struct timespec pause = {.tv_sec = late_ms / 1000, .tv_nsec = late_ms % 1000 * 1000000};
        if (kolo_comm_rank(comm) == late_rank)
            nanosleep(&pause, NULL);
        data[0] = kolo_comm_rank(comm) == 0 && now_seconds() >= end;
        status = kolo_allreduce(comm, data, data, COUNT, KOLO_F32, KOLO_MAX);
    }
    return status;
}

int main(int argc, char **argv) {
    kolo_comm *comm = NULL, *second = NULL;
    if (argc != 4)
        return 2;
    int status = kolo_comm_create(&comm, NULL);
    if (status == 0)
        status = kolo_comm_create(&second, NULL);
    if (status == 0)
        status = kolo_barrier(second);
    if (status == 0) {
        printf("rank %d is process %d\n", kolo_comm_rank(comm), (int)getpid());
        fflush(stdout);
        status = go_on(comm, atoi(argv[1]), atol(argv[2]), strtod(argv[3], NULL));
    }
    if (status < 0)
        fprintf(stderr, "laggard_probe: %s\n", kolo_error_message());
    kolo_comm_destroy(second);
    kolo_comm_destroy(comm);
    return status < 0;
}
