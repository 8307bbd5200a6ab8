/* SPDX-License-Identifier: Apache-2.0
 */
#include "driver_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

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
    int word[2]; /* rank 0's, by turns: a slow rank may read one while rank 0 already writes the next */
    uint64_t wrong;
    int cpu;
    _Alignas(LINE_BYTES) _Atomic uint64_t exchanged;
} gate_line;

struct driver_gate_shared {
    gate_line line[DRIVER_RANKS_MAX];
    double samples_us[DRIVER_RANKS_MAX][DRIVER_SAMPLES_MAX];
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

int driver_gate_pass(driver_gate *gate, int *word) {
    gate_line *own = &gate->shared->line[gate->rank];
    int turn = (int)(gate->passes % 2);
    gate->passes++;
    own->word[turn] = *word;
    atomic_store_explicit(&own->passes, gate->passes, memory_order_release); /* pairs with wait_for */
    for (int peer = 0; peer < gate->ranks; peer++)
        if (peer != gate->rank && wait_for(gate, peer) != 0)
            return -1;
    *word = gate->shared->line[0].word[turn];
    return 0;
}

double *driver_gate_samples(driver_gate *gate, int rank) {
    return gate->shared->samples_us[rank];
}

uint64_t *driver_gate_wrong(driver_gate *gate, int rank) {
    return &gate->shared->line[rank].wrong;
}

int *driver_gate_cpu(driver_gate *gate, int rank) {
    return &gate->shared->line[rank].cpu;
}

_Atomic uint64_t *driver_gate_exchange_line(driver_gate *gate, int rank) {
    return &gate->shared->line[rank].exchanged;
}
