/* One rank of a stress run, started by kolorun: random collectives with every result checked, until rank 0's time is
 * up. What a call gives follows from what every rank puts in: element i of rank r is hash(call, i) + r * STEP, modulo
 * the element's size, whose sum over the ranks needs no second pass over them. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kolo.h"
#include "splitmix64.h"

enum { COUNT_MAX = 1 << 18, CALLS_A_LOOK = 16, STEP = 2654435761u };

static uint32_t *send, *recv;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void give_up(const kolo_comm *comm, const char *what, uint64_t call, uint64_t seed) {
    fprintf(stderr, "FAILED: rank %d, call %" PRIu64 ", seed %" PRIu64 ": %s\n", comm ? kolo_comm_rank(comm) : -1, call,
            seed, what);
    exit(1);
}

static uint32_t element(uint64_t call, size_t index) {
    return (uint32_t)(call * 40503 + index * 2246822519u);
}

/* Small messages mostly, and some of many chunks. */
static size_t draw_count(uint64_t *random) {
    static const size_t limits[] = {12, 110, 1024, 16384, COUNT_MAX};
    const uint64_t draw = random_next(random) % 32;
    const size_t limit = limits[draw < 16 ? 0 : draw < 22 ? 1 : draw < 28 ? 2 : draw < 31 ? 3 : 4];
    return random_next(random) % (limit + 1);
}

static void check(const kolo_comm *comm, const uint32_t *result, size_t count, uint32_t factor, uint32_t addend,
                  uint64_t call, uint64_t seed) {
    char text[96];
    for (size_t i = 0; i < count; i++) {
        const uint32_t wanted = factor * element(call, i) + addend;
        if (result[i] == wanted)
            continue;
        snprintf(text, sizeof text, "element %zu of %zu is %" PRIu32 " instead of %" PRIu32, i, count, result[i],
                 wanted);
        give_up(comm, text, call, seed);
    }
}

static void make_call(kolo_comm *comm, uint64_t call, uint64_t seed, uint64_t *random) {
    const uint32_t ranks = (uint32_t)kolo_comm_size(comm), rank = (uint32_t)kolo_comm_rank(comm);
    const size_t count = draw_count(random);
    const uint64_t draw = random_next(random);
    const uint32_t root = (uint32_t)(draw >> 8) % ranks;
    uint32_t *target = draw & 1 ? send : recv;
    int rc;
    for (size_t i = 0; i < count; i++)
        send[i] = element(call, i) + rank * STEP;
    if (draw % 16 == 0) {
        rc = kolo_barrier(comm);
    } else if (draw % 16 < 4) {
        rc = kolo_broadcast(comm, send, count, KOLO_U32, (int)root);
        if (rc == 0)
            check(comm, send, count, 1, root * STEP, call, seed);
    } else {
        rc = kolo_allreduce(comm, send, target, count, KOLO_U32, KOLO_SUM);
        if (rc == 0)
            check(comm, target, count, ranks, STEP * (ranks * (ranks - 1) / 2), call, seed);
    }
    if (rc < 0)
        give_up(comm, kolo_error_message(), call, seed);
}

/* True while rank 0's time is not up. */
static bool goes_on(kolo_comm *comm, double end_s, uint64_t call, uint64_t seed) {
    uint8_t more = now_s() < end_s;
    if (kolo_broadcast(comm, &more, 1, KOLO_U8, 0) < 0)
        give_up(comm, kolo_error_message(), call, seed);
    return more;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: stress_rank SECONDS SEED, by kolorun\n");
        return 2;
    }
    const double end_s = now_s() + atof(argv[1]);
    const uint64_t seed = strtoull(argv[2], NULL, 10);
    uint64_t random = seed, call = 0;
    kolo_comm *comm = NULL;
    send = calloc(COUNT_MAX + 1, sizeof *send);
    recv = calloc(COUNT_MAX + 1, sizeof *recv);
    if (!send || !recv || kolo_comm_create(&comm, NULL) < 0)
        give_up(NULL, kolo_error_message(), 0, seed);
    do
        make_call(comm, call, seed, &random);
    while (++call % CALLS_A_LOOK || goes_on(comm, end_s, call, seed));
    if (kolo_comm_rank(comm) == 0)
        printf("%" PRIu64 " calls\n", call);
    kolo_comm_destroy(comm);
    free(send);
    free(recv);
    return 0;
}
