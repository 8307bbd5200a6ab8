/* A rank of the tests of jobs on several nodes.
 *
 *   net_rank loop BYTES        all-reduces messages of so many bytes, checks each, until a call fails. Prints
 *                              "looping|RANK" when it has begun, and at the end
 *                              "failed|RANK|STATUS|RANK AT FAULT|NS|MESSAGE", or "uncreated|RANK|STATUS|-1|NS|MESSAGE";
 *                              NS is CLOCK_MONOTONIC when the call returned
 *   net_rank shrink BYTES      the same, but shrinks the communicator where a call fails, and goes on. Prints
 *                              "shrunk|RANK|NEW RANK|NEW SIZE|NS", or "unshrunk|RANK|STATUS|-1|NS|MESSAGE" at the end
 *   net_rank barriers N MS     N barriers, and MS milliseconds before each
 *   net_rank bits SEED CALLS   makes so many calls, random by SEED, and prints "bits|RANK|EXACT|ROUNDED": a hash of all
 *                              results that do not depend on the order of sums, and one of those that may
 *
 * Exit code 0, 1 where a result was wrong, 2 bad command line, 3 where a call failed, 4 where no communicator was made.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kolo.h"

enum { WRONG = 1, USAGE, FAILED, UNCREATED };
enum { CALLS_BEFORE_LOOPING = 3, COUNT_MAX = 400000, ELEMENT_BYTES_MAX = 8, KINDS = 8 };

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int report(const char *what, kolo_comm *comm, int status, int code) {
    const int64_t ns = now_ns();
    const char *own = getenv("KOLO_RANK");
    kolo_failure failure = {.failure_bytes = sizeof failure, .rank = -1};
    if (comm != NULL)
        kolo_comm_failure(comm, &failure);
    printf("%s|%s|%s|%d|%" PRId64 "|%s\n", what, own ? own : "?", kolo_strerror(status), failure.rank, ns,
           kolo_error_message());
    fflush(stdout);
    return code;
}

static int loop(kolo_comm *comm, size_t bytes) {
    const size_t count = bytes / sizeof(uint32_t);
    const uint32_t rank = (uint32_t)kolo_comm_rank(comm), size = (uint32_t)kolo_comm_size(comm);
    uint32_t *send = malloc(bytes + 1), *recv = malloc(bytes + 1);
    int code = send && recv ? 0 : FAILED;
    for (uint32_t call = 0; code == 0; call++) {
        for (size_t i = 0; i < count; i++)
            send[i] = (uint32_t)i * 2654435761u + call + rank;
        const int status = kolo_allreduce(comm, send, recv, count, KOLO_U32, KOLO_SUM);
        if (status < 0)
            code = report("failed", comm, status, FAILED);
        for (size_t i = 0; i < count && code == 0; i++)
            if (recv[i] != size * ((uint32_t)i * 2654435761u + call) + size * (size - 1) / 2)
                code = report("wrong", comm, 0, WRONG);
        if (call == CALLS_BEFORE_LOOPING && code == 0) {
            printf("looping|%" PRIu32 "\n", rank);
            fflush(stdout);
        }
    }
    free(recv);
    free(send);
    return code;
}

static int shrink(kolo_comm **comm) {
    kolo_comm *left;
    const int status = kolo_comm_shrink(*comm, &left);
    if (status < 0)
        return report("unshrunk", NULL, status, FAILED);
    kolo_comm_destroy(*comm);
    *comm = left;
    printf("shrunk|%s|%d|%d|%" PRId64 "\n", getenv("KOLO_RANK"), kolo_comm_rank(left), kolo_comm_size(left), now_ns());
    fflush(stdout);
    return 0;
}

static uint64_t random_next(uint64_t *state) {
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* Any integers; floats of either sign from 1/32 to 32 and the like, whose sums have to be rounded. */
static void fill(void *buffer, size_t count, kolo_dtype dtype, uint64_t *random) {
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = random_next(random);
        const uint32_t sign = (uint32_t)(bits >> 63), scale = (uint32_t)(bits >> 40) % 10;
        if (dtype == KOLO_F64)
            ((uint64_t *)buffer)[i] = (uint64_t)sign << 63 | (uint64_t)(1018 + scale) << 52 | bits >> 12;
        else if (dtype == KOLO_F32)
            ((uint32_t *)buffer)[i] = sign << 31 | (122 + scale) << 23 | (uint32_t)(bits & 0x7fffff);
        else if (dtype == KOLO_BF16)
            ((uint16_t *)buffer)[i] = (uint16_t)(sign << 15 | (122 + scale) << 7 | (bits & 0x7f));
        else if (dtype == KOLO_F16)
            ((uint16_t *)buffer)[i] = (uint16_t)(sign << 15 | (10 + scale) << 10 | (bits & 0x3ff));
        else
            memcpy((char *)buffer + i * kolo_dtype_bytes(dtype), &bits, kolo_dtype_bytes(dtype));
    }
}

static void mix(uint64_t *hash, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
}

static bool is_rounded(kolo_dtype dtype, kolo_op op) {
    const bool is_float = dtype == KOLO_F16 || dtype == KOLO_BF16 || dtype == KOLO_F32 || dtype == KOLO_F64;
    return is_float && (op == KOLO_SUM || op == KOLO_PROD || op == KOLO_AVG);
}

/* One call that all ranks draw alike from `common`; each has inputs of its own from `own`. */
static int make_call(kolo_comm *comm, uint64_t *common, uint64_t *own, uint64_t hashes[2], void *send, void *recv) {
    static const size_t limits[] = {2, 12, 110, 1000, 5000, 30000, 120000, COUNT_MAX};
    const size_t count = random_next(common) % limits[random_next(common) % KINDS];
    const kolo_dtype dtype = (kolo_dtype)(random_next(common) % KOLO_DTYPES);
    kolo_op op;
    do
        op = (kolo_op)(random_next(common) % KOLO_OPS);
    while (!kolo_op_supports(op, dtype));
    const uint64_t draw = random_next(common);
    const size_t bytes = count * kolo_dtype_bytes(dtype);
    fill(send, count, dtype, own);
    if (draw % 8 == 0)
        return kolo_barrier(comm);
    if (draw % 8 == 1) {
        const int root = (int)((draw >> 8) % (uint64_t)kolo_comm_size(comm));
        const int status = kolo_broadcast(comm, send, count, dtype, root);
        mix(&hashes[0], send, status < 0 ? 0 : bytes);
        return status;
    }
    void *result = draw % 8 == 2 ? send : recv;
    const int status = kolo_allreduce(comm, send, result, count, dtype, op);
    mix(&hashes[is_rounded(dtype, op)], result, status < 0 ? 0 : bytes);
    return status;
}

static int bits(kolo_comm *comm, uint64_t seed, long calls) {
    uint64_t common = seed, own = seed * 31 + (uint64_t)kolo_comm_rank(comm) + 1;
    uint64_t hashes[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0xcbf29ce484222325)};
    void *send = malloc((size_t)COUNT_MAX * ELEMENT_BYTES_MAX), *recv = malloc((size_t)COUNT_MAX * ELEMENT_BYTES_MAX);
    int code = send && recv ? 0 : FAILED;
    for (long call = 0; call < calls && code == 0; call++) {
        const int status = make_call(comm, &common, &own, hashes, send, recv);
        if (status < 0)
            code = report("failed", comm, status, FAILED);
    }
    if (code == 0)
        printf("bits|%d|%016" PRIx64 "|%016" PRIx64 "\n", kolo_comm_rank(comm), hashes[0], hashes[1]);
    free(recv);
    free(send);
    return code;
}

static int make_barriers(kolo_comm *comm, long count, long ms) {
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    for (long i = 0; i < count; i++) {
        nanosleep(&pause, NULL);
        const int status = kolo_barrier(comm);
        if (status < 0)
            return report("failed", comm, status, FAILED);
    }
    return 0;
}

int main(int argc, char **argv) {
    const bool barriers = argc == 4 && strcmp(argv[1], "barriers") == 0;
    const bool shrinks = argc == 3 && strcmp(argv[1], "shrink") == 0;
    const bool loops = shrinks || (argc == 3 && strcmp(argv[1], "loop") == 0);
    if (!loops && !barriers && !(argc == 4 && strcmp(argv[1], "bits") == 0)) {
        fprintf(stderr, "usage: net_rank loop BYTES | net_rank shrink BYTES | net_rank barriers N MS | "
                        "net_rank bits SEED CALLS\n");
        return USAGE;
    }
    kolo_comm *comm;
    const int status = kolo_comm_create(&comm, NULL);
    if (status < 0)
        return report("uncreated", NULL, status, UNCREATED);
    int code = loops      ? loop(comm, strtoul(argv[2], NULL, 10))
               : barriers ? make_barriers(comm, strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10))
                          : bits(comm, strtoull(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
    while (code == FAILED && shrinks && shrink(&comm) == 0) /* ends when one is left, or the test ends it */
        code = loop(comm, strtoul(argv[2], NULL, 10));
    kolo_comm_destroy(comm);
    return code;
}
