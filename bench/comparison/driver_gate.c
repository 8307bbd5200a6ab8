/* SPDX-License-Identifier: Apache-2.0
 */
#include "driver_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "perf_sampler.h"

enum {
    /* Where each rank has a CPU: tens of microseconds, so that no rank is within the kernel, and late for the sample,
     * when the last one comes, which has flushed its buffers. */
    SPINS = 20000,
    SPINS_CROWDED = 200,
    YIELDS_PER_CLOCK = 4096, /* reading the clock is for the deadline alone */
    PATIENCE_S = 300,        /* preparing and verifying the largest messages, many ranks to a core */
    LINE_BYTES = 128
};

typedef struct gate_line {
    _Alignas(LINE_BYTES) _Atomic uint64_t passes;
    int cpu;
    _Alignas(LINE_BYTES) _Atomic uint64_t exchanged;
} gate_line;

struct driver_gate_shared {
    gate_line line[DRIVER_RANKS_MAX];
    double joined[2][DRIVER_RANKS_MAX][PERF_SAMPLES_MAX]; /* by turns: a slow rank may still read the one before */
};

int driver_gate_open(driver_gate *gate, const char *path, int rank, int ranks, int cpus) {
    *gate = (driver_gate){.rank = rank, .ranks = ranks, .spins = ranks <= cpus ? SPINS : SPINS_CROWDED};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "driver: rank %d: cannot open the gate %s: %s\n", rank, path, strerror(errno));
        return -1;
    }
    /* Every rank sets the same size; a page that nobody touches takes no memory. */
    void *mapping = MAP_FAILED;
    if (ftruncate(fd, sizeof(struct driver_gate_shared)) == 0)
        mapping = mmap(NULL, sizeof(struct driver_gate_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        fprintf(stderr, "driver: rank %d: cannot map the gate %s: %s\n", rank, path, strerror(errno));
    close(fd);
    if (mapping == MAP_FAILED)
        return -1;
    gate->shared = mapping;
    return 0;
}

void driver_gate_close(driver_gate *gate) {
    if (gate->shared != NULL)
        munmap(gate->shared, sizeof(*gate->shared));
    gate->shared = NULL;
}

static time_t now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static int wait_for(driver_gate *gate, int peer) {
    _Atomic uint64_t *passes = &gate->shared->line[peer].passes;
    for (int spin = 0; spin < gate->spins; spin++)
        if (atomic_load_explicit(passes, memory_order_acquire) >= gate->passes) /* pairs with driver_gate_pass */
            return 0;
    time_t deadline_s = now_s() + PATIENCE_S;
    do {
        for (int yield = 0; yield < YIELDS_PER_CLOCK; yield++) {
            if (atomic_load_explicit(passes, memory_order_acquire) >= gate->passes) /* likewise */
                return 0;
            sched_yield();
        }
    } while (now_s() < deadline_s);
    fprintf(stderr, "driver: rank %d: rank %d did not come within %d s\n", gate->rank, peer, PATIENCE_S);
    return -1;
}

int driver_gate_pass(driver_gate *gate) {
    gate->passes++;
    atomic_store_explicit(&gate->shared->line[gate->rank].passes, gate->passes, memory_order_release); /* pairs with
                                                                                                          wait_for */
    for (int peer = 0; peer < gate->ranks; peer++)
        if (peer != gate->rank && wait_for(gate, peer) != 0)
            return -1;
    return 0;
}

/* Rank 0 joins what all ranks have left in their rows, and leaves the result in its own. */
int driver_gate_join(driver_gate *gate, double *values, size_t count, bool sums) {
    double(*rows)[PERF_SAMPLES_MAX] = gate->shared->joined[gate->joins++ % 2];
    memcpy(rows[gate->rank], values, count * sizeof(*values));
    if (driver_gate_pass(gate) != 0)
        return -1;
    for (int peer = 1; gate->rank == 0 && peer < gate->ranks; peer++)
        for (size_t i = 0; i < count; i++)
            rows[0][i] = sums ? rows[0][i] + rows[peer][i] : fmax(rows[0][i], rows[peer][i]);
    if (driver_gate_pass(gate) != 0)
        return -1;
    memcpy(values, rows[0], count * sizeof(*values));
    return 0;
}

int *driver_gate_cpu(driver_gate *gate, int rank) {
    return &gate->shared->line[rank].cpu;
}

_Atomic uint64_t *driver_gate_exchange_line(driver_gate *gate, int rank) {
    return &gate->shared->line[rank].exchanged;
}
