#include "driver_exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf_statistics.h"
#include "perf_team.h"

enum {
    BATCHES = 10,
    BATCH_EXCHANGES = 100,
    POLLS_PER_CLOCK = 256,
    MEETING_US = 20000, /* other ranks may be in turn on the CPU first */
    BATCHES_US = 500,
    TRIES = 5
};

/* The numbers that a line goes through in one measurement: "here", then each exchange, and one for a rank that leaves
 * early, too far ahead to be taken for the next exchange. They only grow, from one measurement to the next as well. */
enum { EXCHANGES = BATCHES * BATCH_EXCHANGES, LEFT = EXCHANGES + 2, NUMBERS = LEFT + 1 };

typedef struct pair {
    perf_word *own;
    perf_word *other;
    uint64_t here; /* the first of this measurement's numbers */
    double deadline_us;
} pair;

int driver_exchange_open(driver_exchange *exchange, kolo_comm *comm, const char *path) {
    *exchange = (driver_exchange){.comm = comm, .lines = MAP_FAILED};
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, 2 * sizeof(perf_word)) == 0)
        exchange->lines = mmap(NULL, 2 * sizeof(perf_word), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (exchange->lines == MAP_FAILED)
        fprintf(stderr, "driver: rank %d: cannot map %s: %s\n", kolo_comm_rank(comm), path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (exchange->lines == MAP_FAILED || kolo_barrier(comm) != KOLO_OK)
        return 1;
    if (kolo_comm_rank(comm) == 0)
        unlink(path);
    return 0;
}

/* *partner is the first rank on another CPU than rank 0, or 0. */
static int find_partner(kolo_comm *comm, int *partner) {
    static int32_t cpus[KOLO_RANKS_MAX];
    const int ranks = kolo_comm_size(comm);
    memset(cpus, 0, sizeof(cpus));
    cpus[kolo_comm_rank(comm)] = sched_getcpu();
    const int status = kolo_allreduce(comm, cpus, cpus, (size_t)ranks, KOLO_I32, KOLO_SUM);
    *partner = 0;
    for (int rank = ranks - 1; rank > 0; rank--)
        if (cpus[rank] != cpus[0])
            *partner = rank;
    return status;
}

static bool sees(const pair *pair, uint64_t number) {
    return perf_word_reached(&pair->other->value, number);
}

static void show(const pair *pair, uint64_t number) {
    perf_word_store(&pair->own->value, number);
}

/* Both are on their CPUs at once from here on. */
static bool meet(const pair *pair) {
    double deadline_us = perf_now_us() + MEETING_US;
    show(pair, pair->here);
    while (!sees(pair, pair->here)) {
        if (perf_now_us() > deadline_us)
            return false;
        sched_yield();
    }
    return true;
}

static bool exchange(const pair *pair, uint64_t number) {
    show(pair, number);
    for (;;) {
        for (int poll = 0; poll < POLLS_PER_CLOCK; poll++)
            if (sees(pair, number))
                return true;
        if (perf_now_us() > pair->deadline_us)
            return false;
    }
}

/* The time of an exchange in one batch, or 0 where it was not done in time, or the other rank has left: exchanges with
 * one that is gone take no time. */
static double batch_ns(const pair *pair, int batch) {
    uint64_t number = pair->here + (uint64_t)batch * BATCH_EXCHANGES;
    double begin_us = perf_now_us();
    for (int i = 0; i < BATCH_EXCHANGES; i++)
        if (!exchange(pair, ++number))
            return 0;
    double end_us = perf_now_us();
    if (end_us > pair->deadline_us || sees(pair, number + 2))
        return 0;
    return (end_us - begin_us) * 1e3 / BATCH_EXCHANGES;
}

static double fastest_ns(pair *pair) {
    double fastest = 0;
    if (!meet(pair)) {
        show(pair, pair->here + LEFT);
        return 0;
    }
    pair->deadline_us = perf_now_us() + BATCHES_US;
    for (int batch = 0; batch < BATCHES; batch++) {
        double ns = batch_ns(pair, batch);
        if (ns == 0) {
            show(pair, pair->here + LEFT);
            break;
        }
        if (fastest == 0 || ns < fastest)
            fastest = ns;
    }
    return fastest;
}

/* The partner's time counts for nothing: one of the two may have been interrupted after the other's last batch. */
int driver_exchange_measure(driver_exchange *exchange, double *ns) {
    const int rank = kolo_comm_rank(exchange->comm);
    for (int i = 0; i < TRIES; i++) {
        int partner;
        int status = find_partner(exchange->comm, &partner);
        *ns = 0;
        if (status == KOLO_OK && partner != 0 && (rank == 0 || rank == partner)) {
            pair pair = {.own = &exchange->lines[rank != 0],
                         .other = &exchange->lines[rank == 0],
                         .here = 1 + exchange->measured * NUMBERS};
            *ns = fastest_ns(&pair);
        }
        exchange->measured++;
        *ns = rank == 0 ? *ns : 0;
        if (status == KOLO_OK) /* nobody disturbs the two */
            status = kolo_allreduce(exchange->comm, ns, ns, 1, KOLO_F64, KOLO_MAX);
        if (status != KOLO_OK || partner == 0 || *ns > 0)
            return status;
    }
    return KOLO_OK;
}
