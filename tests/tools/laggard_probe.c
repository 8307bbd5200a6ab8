/* A job in which one rank comes late: it makes two communicators, then all-reduces on the first one until a peer fails
 * or rank 0 is told that it is enough.
 *
 *   laggard_probe RANK MS   rank RANK sleeps MS before each call; SIGUSR1 lets rank 0 end the job
 *
 * Each rank prints "rank R is process P" when both communicators are there. Exit code 0, or 1 with kolo's message. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kolo.h"

enum { COUNT = 5000 };

static volatile sig_atomic_t enough;

static void end_job(int number) {
    (void)number;
    enough = 1;
}

static int go_on(kolo_comm *comm, int late_rank, long late_ms) {
    static float data[COUNT];
    int status = 0;
    while (status == 0 && data[0] == 0) {
        const struct timespec pause = {.tv_sec = late_ms / 1000, .tv_nsec = late_ms % 1000 * 1000000};
        if (kolo_comm_rank(comm) == late_rank)
            nanosleep(&pause, NULL);
        data[0] = kolo_comm_rank(comm) == 0 && enough;
        status = kolo_allreduce(comm, data, data, COUNT, KOLO_F32, KOLO_MAX);
    }
    return status;
}

int main(int argc, char **argv) {
    kolo_comm *comm = NULL, *second = NULL;
    if (argc != 3)
        return 2;
    signal(SIGUSR1, end_job);
    int status = kolo_comm_create(&comm, NULL);
    if (status == 0)
        status = kolo_comm_create(&second, NULL);
    if (status == 0)
        status = kolo_barrier(second);
    if (status == 0) {
        printf("rank %d is process %d\n", kolo_comm_rank(comm), (int)getpid());
        fflush(stdout);
        status = go_on(comm, atoi(argv[1]), atol(argv[2]));
    }
    if (status < 0)
        fprintf(stderr, "laggard_probe: %s\n", kolo_error_message());
    kolo_comm_destroy(second);
    kolo_comm_destroy(comm);
    return status < 0;
}
