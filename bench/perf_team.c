#include "perf_team.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forked_team.h"
#include "perf_statistics.h"

int perf_place_affinity(cpu_set_t *set) {
    CPU_ZERO(set);
    return sched_getaffinity(0, sizeof(*set), set);
}

/* The number of the first CPU that shares `cpu`'s core; `cpu` itself where the kernel does not tell. */
static int first_sibling(int cpu) {
    char path[96];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return cpu;
    int first;
    int fields = fscanf(file, "%d", &first);
    fclose(file);
    return fields == 1 && first >= 0 && first < PERF_CPUS_MAX ? first : cpu;
}

/* A job whose ranks are bound to a core each is seen whole by its launcher only. */
static int job_affinity(int ranks, bool launched, cpu_set_t *set) {
    if (perf_place_affinity(set) != 0)
        return -1;
    cpu_set_t launcher;
    CPU_ZERO(&launcher);
    if (launched && CPU_COUNT(set) < ranks && sched_getaffinity(getppid(), sizeof(launcher), &launcher) == 0)
        CPU_OR(set, set, &launcher);
    return 0;
}

int perf_place_cpus(int ranks, bool launched, int cpus[PERF_CPUS_MAX]) {
    cpu_set_t own;
    cpu_set_t job;
    if (perf_place_affinity(&own) != 0 || job_affinity(ranks, launched, &job) != 0)
        return -1;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    int count = 0;
    for (int second_threads = 0; second_threads <= 1; second_threads++) {
        for (int cpu = 0; cpu < PERF_CPUS_MAX && count < ranks; cpu++) {
            if (!CPU_ISSET(cpu, &job))
                continue;
            int core = first_sibling(cpu);
            if ((!second_threads && CPU_ISSET(core, &cores)) || perf_place_bind(cpu) != 0)
                continue;
            CPU_SET(core, &cores);
            CPU_CLR(cpu, &job);
            cpus[count++] = cpu;
        }
    }
    if (sched_setaffinity(0, sizeof(own), &own) != 0 || count == 0)
        return -1;
    return count;
}

enum { WAIT_SECONDS_MAX = 10, RUN_SECONDS_MAX = 120 };
enum { EXIT_TIMEOUT = 3, EXIT_BIND = 4, EXIT_MEMORY = 5 };

void perf_worker_yield(double *deadline_us) {
    double now_us = perf_now_us();
    if (*deadline_us == 0)
        *deadline_us = now_us + WAIT_SECONDS_MAX * 1e6;
    else if (now_us > *deadline_us)
        _exit(EXIT_TIMEOUT);
    sched_yield();
}

char *perf_private_allocate(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(EXIT_MEMORY);
    memset(memory, 1, bytes);
    return memory;
}

void perf_worker_barrier(perf_worker *worker) {
    worker->barriers++;
    perf_word_store(&worker->team->arrivals[worker->index].value, worker->barriers);
    for (int i = 0; i < worker->team->workers; i++) {
        double deadline_us = 0;
        while (worker->team->shares_cpu && !perf_word_reached(&worker->team->arrivals[i].value, worker->barriers))
            perf_worker_yield(&deadline_us);
        perf_word_await(&worker->team->arrivals[i].value, worker->barriers, true);
    }
}

/* What the workers of one run have from their caller. */
typedef struct team_work {
    const perf_team *team;
    const int *cpus;
    perf_worker_function function;
    void *argument;
} team_work;

/* In the forked child. */
static int work(void *argument, int index) {
    const team_work *of = argument;
    signal(SIGALRM, SIG_DFL);
    alarm(RUN_SECONDS_MAX);
    if (perf_place_bind(of->cpus[index]) != 0)
        return EXIT_BIND;
    perf_worker worker = {.team = of->team, .index = index};
    perf_worker_barrier(&worker);
    of->function(&worker, of->argument);
    return 0;
}

static void describe(char reason[PERF_REASON_BYTES], int wait_status, int cpu) {
    if (WIFSIGNALED(wait_status))
        snprintf(reason, PERF_REASON_BYTES, "the measuring process on CPU %d was ended by signal %d", cpu,
                 WTERMSIG(wait_status));
    else if (WEXITSTATUS(wait_status) == EXIT_BIND)
        snprintf(reason, PERF_REASON_BYTES, "a process may not be bound to CPU %d", cpu);
    else if (WEXITSTATUS(wait_status) == EXIT_MEMORY)
        snprintf(reason, PERF_REASON_BYTES, "no memory for the measuring process on CPU %d", cpu);
    else
        snprintf(reason, PERF_REASON_BYTES,
                 "the measuring process on CPU %d waited %d s for another: the machine is too busy", cpu,
                 WAIT_SECONDS_MAX);
}

static bool has_repeated(const int *cpus, int count) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (cpus[i] == cpus[j])
                return true;
    return false;
}

int perf_team_run(const int *cpus, int workers, perf_worker_function function, void *argument,
                  char reason[PERF_REASON_BYTES]) {
    size_t arrivals_bytes = (size_t)workers * sizeof(perf_word);
    perf_team team = {.workers = workers,
                      .shares_cpu = has_repeated(cpus, workers),
                      .arrivals = forked_team_allocate(arrivals_bytes)};
    team_work of = {&team, cpus, function, argument};
    forked_failure failure;
    int result = team.arrivals != NULL ? forked_team_run(workers, work, &of, &failure) : -ENOMEM;
    if (result > 0)
        describe(reason, failure.wait_status, cpus[failure.index]);
    else if (result < 0)
        snprintf(reason, PERF_REASON_BYTES, "cannot run %d processes: %s", workers, strerror(-result));
    forked_team_free(team.arrivals, arrivals_bytes);
    return result == 0 ? 0 : -1;
}
