/* The least that a rank can do: joins its job, adds up the rank numbers, says what it got.
 *
 *   rank_probe          prints "rank R of N, sum S" and ends
 *   rank_probe SECONDS  goes on all-reducing for so long, or until a peer fails
 *
 * Exit code 0, or 1 with kolo's message on standard error.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kolo.h"

static int fail(const char *what, int status) {
    fprintf(stderr, "rank_probe: %s: %s: %s\n", what, kolo_strerror(status), kolo_error_message());
    return 1;
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int sum_ranks(kolo_comm *comm, int64_t *sum) {
    int64_t rank = kolo_comm_rank(comm);
    return kolo_allreduce(comm, &rank, sum, 1, KOLO_I64, KOLO_SUM);
}

static int exercise(kolo_comm *comm, double seconds) {
    int64_t size = kolo_comm_size(comm), expected = size * (size - 1) / 2, sum = -1;
    int status = sum_ranks(comm, &sum);
    if (status < 0)
        return fail("all-reduce", status);
    printf("rank %d of %" PRId64 ", sum %" PRId64 "\n", kolo_comm_rank(comm), size, sum);
    fflush(stdout);

    /* Rank 0 says when it is over, so that all make the same number of calls. */
    double end = now_seconds() + seconds;
    int32_t go_on = seconds > 0;
    while (go_on) {
        status = sum_ranks(comm, &sum);
        if (status < 0)
            return fail("all-reduce", status);
        if (sum != expected) {
            fprintf(stderr, "rank_probe: sum %" PRId64 " instead of %" PRId64 "\n", sum, expected);
            return 1;
        }
        go_on = now_seconds() < end;
        status = kolo_broadcast(comm, &go_on, 1, KOLO_I32, 0);
        if (status < 0)
            return fail("broadcast", status);
    }
    return 0;
}

int main(int argc, char **argv) {
    kolo_comm *comm;
    int status = kolo_comm_create(&comm, NULL);
    if (status < 0)
        return fail("create", status);
    int exit_code = exercise(comm, argc > 1 ? strtod(argv[1], NULL) : 0);
    kolo_comm_destroy(comm);
    return exit_code;
}
