/* A team of worker processes, each bound to a CPU of its own, that measure the machine together.
 *
 * perf_team_run forks one worker a CPU, waits for all, and returns; workers share whatever memory the caller has from
 * forked_team_allocate. They meet at perf_worker_barrier and wait for one another's words with perf_word_await. Every
 * wait is bounded: a worker that waits too long, or whose parent has ended, ends, and the team has failed.
 *
 * Memory order: a word that others await is stored with release (perf_word_store) and loaded with acquire (inside
 * perf_word_reached), so what a worker wrote before its word is seen after the wait. */
#pragma once

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PERF_CPUS_MAX = CPU_SETSIZE, PERF_REASON_BYTES = 256 };

/* The CPUs that a job of `ranks` ranks runs on, as seen by one of them: its own. Where those are fewer than the ranks,
 * and a launcher started this process, also the launcher's, which may have bound each rank to a core. Cores come before
 * their second hardware threads. Writes at most `ranks` and at most PERF_CPUS_MAX numbers, only of CPUs that this
 * process may be bound to, and returns how many (at least 1), or -1 with errno set. */
int perf_place_cpus(int ranks, bool launched, int cpus[PERF_CPUS_MAX]);

/* The CPUs that this process may run on now. Returns 0, or -1 with errno set. */
int perf_place_affinity(cpu_set_t *set);

/* Binds this process to a CPU: 0, or -1 with errno set. A cpuset forbids what another process's mask may show. */
static inline int perf_place_bind(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one);
}

enum { PERF_LINE_BYTES = 128 }; /* two cache lines: some processors fetch lines in pairs */

/* A word with a single writer, in cache lines of its own. */
typedef struct perf_word {
    _Alignas(PERF_LINE_BYTES) _Atomic uint64_t value;
} perf_word;

/* Shared by the workers of one run. */
typedef struct perf_team {
    int workers;
    bool shares_cpu;     /* two of them have the same; who spins at a barrier then holds up the other's work */
    perf_word *arrivals; /* a worker's own: how many barriers it has reached */
} perf_team;

typedef struct perf_worker {
    const perf_team *team;
    int index;
    uint64_t barriers;
} perf_worker;

typedef void (*perf_worker_function)(perf_worker *worker, void *argument);

/* Runs function(worker, argument) in `workers` processes, worker i on cpus[i] (which may name a CPU twice). Returns 0
 * when all have returned from it; -1 with the reason in `reason`. */
int perf_team_run(const int *cpus, int workers, perf_worker_function function, void *argument,
                  char reason[PERF_REASON_BYTES]);

/* A worker's own memory, touched, so that no round pays for page faults; the worker ends for want of it. Given back
 * when the worker ends. */
char *perf_private_allocate(size_t bytes);

/* All workers have arrived when this returns. */
void perf_worker_barrier(perf_worker *worker);

/* Gives up the CPU for a moment. *deadline_us is 0 in a wait's first call; once the time for waiting is over, the
 * worker ends. */
void perf_worker_yield(double *deadline_us);

static inline void perf_word_store(_Atomic uint64_t *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_release);
}

static inline bool perf_word_reached(const _Atomic uint64_t *word, uint64_t value) {
    return atomic_load_explicit(word, memory_order_acquire) >= value;
}

/* Tells the CPU that it is spinning. Loads then don't pile up, which some processors take a line over faster for. */
static inline void perf_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" : : : "memory"); /* `yield` does nothing on most cores */
#endif
}

/* Returns when the word has reached `value`. Spins: between CPUs that are free this is the fastest way to see a line
 * change. */
static inline void perf_word_await(const _Atomic uint64_t *word, uint64_t value, bool relaxes) {
    enum { SPINS = 4000 }; /* longer than any exchange, shorter than a scheduler's time slice */
    double deadline_us = 0;
    for (uint32_t spins = 1; !perf_word_reached(word, value); spins++) {
        if (relaxes)
            perf_cpu_relax();
        if (spins % SPINS == 0)
            perf_worker_yield(&deadline_us);
    }
}
