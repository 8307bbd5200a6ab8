/* SPDX-License-Identifier: Apache-2.0
 */
#include "driver_exchange.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "perf_statistics.h"

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
    _Atomic uint64_t *own;
    _Atomic uint64_t *other;
    uint64_t here; /* the first of this measurement's numbers */
    double deadline_us;
} pair;

/* The first rank on another CPU than rank 0, or 0. */
static int partner(driver_gate *gate) {
    for (int rank = 1; rank < gate->ranks; rank++)
        if (*driver_gate_cpu(gate, rank) != *driver_gate_cpu(gate, 0))
            return rank;
    return 0;
}

static uint64_t seen(const pair *pair) {
    return atomic_load_explicit(pair->other, memory_order_acquire); /* pairs with show */
}

static void show(const pair *pair, uint64_t number) {
    atomic_store_explicit(pair->own, number, memory_order_release); /* pairs with seen */
}

/* Both are on their CPUs at once from here on. */
static bool meet(const pair *pair) {
    double deadline_us = perf_now_us() + MEETING_US;
    show(pair, pair->here);
    while (seen(pair) < pair->here) {
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
            if (seen(pair) >= number)
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
    if (end_us > pair->deadline_us || seen(pair) > number + 1)
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
int driver_exchange_measure(driver_gate *gate, double *ns) {
    for (int i = 0; i < TRIES; i++) {
        *ns = 0;
        *driver_gate_cpu(gate, gate->rank) = sched_getcpu();
        if (driver_gate_pass(gate) != 0)
            return -1;
        const int other = partner(gate);
        if (other != 0 && (gate->rank == 0 || gate->rank == other)) {
            pair pair = {.own = driver_gate_exchange_line(gate, gate->rank),
                         .other = driver_gate_exchange_line(gate, other - gate->rank),
                         .here = 1 + gate->exchanges * NUMBERS};
            *ns = fastest_ns(&pair);
        }
        gate->exchanges++;
        *ns = gate->rank == 0 ? *ns : 0;
        if (driver_gate_join(gate, ns, 1, false) != 0) /* the CPUs are read until here, and nobody disturbs the two */
            return -1;
        if (other == 0 || *ns > 0)
            return 0;
    }
    return 0;
}
