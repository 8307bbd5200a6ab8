/* A job in which one rank fails: all make calls, an all-reduce and a barrier in turn, until an error.
 *
 *   crash_probe RANK CALL kill|stop|differ|abort   before call CALL rank RANK does that to itself, or makes another one
 *
 * Each rank prints "rank R is process P". Exit code 0, also after kolo's error, which goes to standard error. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kolo.h"

enum { COUNT = 1000 };

static int make_calls(kolo_comm *comm, int failing_rank, long failing_call, const char *how) {
    static float data[COUNT];
    int status = 0;
    for (long call = 1; status == 0; call++) {
        const bool fails = call == failing_call && kolo_comm_rank(comm) == failing_rank;
        if (fails && (strcmp(how, "kill") == 0 || strcmp(how, "stop") == 0))
            raise(how[0] == 'k' ? SIGKILL : SIGSTOP);
        if (fails && strcmp(how, "abort") == 0)
            status = kolo_comm_abort(comm, 7);
        else if (fails && strcmp(how, "differ") == 0)
            status = kolo_broadcast(comm, data, 1, KOLO_F32, 1);
        else
            status = call % 2 ? kolo_allreduce(comm, data, data, COUNT, KOLO_F32, KOLO_SUM) : kolo_barrier(comm);
    }
    return status;
}

int main(int argc, char **argv) {
    kolo_comm *comm = NULL;
    if (argc != 4)
        return 2;
    int status = kolo_comm_create(&comm, NULL);
    if (status < 0) {
        fprintf(stderr, "crash_probe: %s\n", kolo_error_message());
        return 1;
    }
    printf("rank %d is process %d\n", kolo_comm_rank(comm), (int)getpid());
    fflush(stdout);
    status = make_calls(comm, atoi(argv[1]), atol(argv[2]), argv[3]);
    if (status < 0)
        fprintf(stderr, "crash_probe: %s\n", kolo_error_message());
    kolo_comm_destroy(comm);
    return 0;
}
