#include "tune_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "binding.h"
#include "forked_team.h"
#include "messages.h"
#include "now.h"

enum { ROUNDS_MAX = 101, ROUNDS_MIN = 7, ROUNDS_MIN_QUICK = 5, CALLS_MAX = 400, WAIT_MS = 60000 };

#define SAMPLE_US       1500.0
#define SAMPLE_US_QUICK 500.0

/* A candidate at the present size. */
typedef struct trial {
    kolo_comm *comm; /* NULL: not tried, or dropped out */
    int rounds;
    double us[ROUNDS_MAX]; /* ascending */
} trial;

typedef struct measurement {
    const tune_job *job;
    int rank;
    kolo_comm *control; /* for agreement */
    tune_times times;   /* the same on all ranks */
    trial trials[TUNE_CANDIDATES_MAX];
    float *send;
    float *recv;
    double sizes_s; /* spent on the sizes before */
} measurement;

/* The parent tells which rank died: what the others then find is no news. */
static int complain(const measurement *m, int status) {
    if (status != KOLO_ERR_PEER_DEAD)
        message_print("with %d ranks: %s", m->job->space->ranks, kolo_error_message()); /* which names the rank */
    return status;
}

static int create(measurement *m, int candidate, kolo_comm **comm) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = m->rank;
    options.size = m->job->space->ranks;
    options.shm_fd = m->job->shm_fd;
    options.timeout_ms = options.create_timeout_ms = WAIT_MS;
    if (m->rank == 0 && tune_profile_try(m->job->space, candidate) < 0)
        return KOLO_ERR_SYSTEM;
    const int status = kolo_comm_create(comm, &options);
    return status < 0 ? complain(m, status) : 0;
}

/* The largest of each over all ranks. */
static int agree(measurement *m, double *values, int count) {
    const int status = kolo_allreduce(m->control, values, values, (size_t)count, KOLO_F64, KOLO_MAX);
    return status < 0 ? complain(m, status) : 0;
}

static int call(const measurement *m, kolo_comm *comm, float *send, size_t count) {
    switch (m->job->space->collective) {
    case KOLO_ALLREDUCE:
        return kolo_allreduce(comm, send, m->recv, count, KOLO_F32, KOLO_SUM);
    case KOLO_REDUCE:
        return kolo_reduce(comm, send, m->recv, count, KOLO_F32, KOLO_SUM, 0);
    default:
        message_print("kolo-tune cannot call %s", kolo_name(KOLO_NAME_COLLECTIVE, m->job->space->collective));
        return KOLO_ERR_UNSUPPORTED;
    }
}

/* `calls` calls out of place and as many in place. The inputs are zeros, and stay zeros when summed. */
static int run_calls(measurement *m, kolo_comm *comm, size_t count, int calls) {
    int status = 0;
    for (int i = 0; i < calls && status == 0; i++)
        status = call(m, comm, m->send, count);
    for (int i = 0; i < calls && status == 0; i++)
        status = call(m, comm, m->recv, count);
    return status;
}

/* This rank's time of one call. */
static int sample(measurement *m, kolo_comm *comm, size_t bytes, int calls, double *us) {
    const size_t count = bytes / sizeof(float);
    int status = run_calls(m, comm, count, 1); /* brings slots and buffers to where they are used */
    if (status == 0)
        status = kolo_barrier(comm);
    const double begin_s = now_s();
    if (status == 0)
        status = run_calls(m, comm, count, calls);
    *us = (now_s() - begin_s) * 1e6 / (2 * calls);
    return status < 0 ? complain(m, status) : 0;
}

/* Creates a communicator for each candidate of a size. */
static int open_trials(measurement *m, int size) {
    const tune_space *space = m->job->space;
    for (int i = 0; i < space->candidates; i++) {
        m->trials[i] = (trial){.comm = NULL};
        const int status = tune_space_tries(space, &m->times, i, size) ? create(m, i, &m->trials[i].comm) : 0;
        if (status < 0)
            return status;
    }
    return 0;
}

static void close_trial(trial *trial) {
    kolo_comm_destroy(trial->comm);
    trial->comm = NULL;
}

static void close_trials(measurement *m) {
    for (int i = 0; i < m->job->space->candidates; i++)
        close_trial(&m->trials[i]);
}

/* How many calls make a sample of the default long enough for the clock. */
static int choose_calls(measurement *m, size_t bytes, int *calls) {
    const double wanted_us = m->job->quick ? SAMPLE_US_QUICK : SAMPLE_US;
    double us;
    int status = sample(m, m->trials[TUNE_DEFAULT].comm, bytes, 3, &us);
    if (status == 0)
        status = agree(m, &us, 1);
    *calls = (int)fmax(1, fmin(CALLS_MAX, wanted_us / fmax(us, 0.001)));
    return status;
}

static void insert(trial *trial, double us) {
    int at = trial->rounds++;
    for (; at > 0 && trial->us[at - 1] > us; at--)
        trial->us[at] = trial->us[at - 1];
    trial->us[at] = us;
}

/* 2: the median; 4: the lower quartile. */
static double quantile(const trial *trial, int part) {
    return trial->rounds > 0 ? trial->us[trial->rounds / part] : 0;
}

/* Measures each candidate that is left once, and agrees on the times and on the time spent so far. */
static int take_round(measurement *m, size_t bytes, int calls, double begin_s, double *spent_s) {
    const int candidates = m->job->space->candidates;
    double values[TUNE_CANDIDATES_MAX + 1] = {0};
    int status = 0;
    for (int i = 0; i < candidates && status == 0; i++)
        if (m->trials[i].comm)
            status = sample(m, m->trials[i].comm, bytes, calls, &values[i]);
    values[candidates] = now_s() - begin_s;
    if (status == 0)
        status = agree(m, values, candidates + 1);
    for (int i = 0; i < candidates && status == 0; i++)
        if (m->trials[i].comm)
            insert(&m->trials[i], values[i]);
    *spent_s = values[candidates];
    return status;
}

/* Drops who even at its best was slower than the best one usually is; by less, the more rounds say so. */
static void drop_hopeless(measurement *m, int round) {
    const double ratio_max = round == 0 ? 2 : round < 3 ? 1.4 : 1.15;
    const int candidates = m->job->space->candidates;
    double best_us = HUGE_VAL;
    for (int i = 0; i < candidates; i++)
        if (m->trials[i].comm)
            best_us = fmin(best_us, quantile(&m->trials[i], 2));
    for (int i = 0; i < candidates; i++)
        if (i != TUNE_DEFAULT && m->trials[i].comm && m->trials[i].us[0] > ratio_max * best_us)
            close_trial(&m->trials[i]);
}

static int take_rounds(measurement *m, int size, double begin_s) {
    const tune_job *job = m->job;
    const size_t bytes = job->space->size_bytes[size];
    const int rounds_min = job->quick ? ROUNDS_MIN_QUICK : ROUNDS_MIN;
    /* What earlier sizes left over or took too much is spread over the rest. */
    const double budget_s = (job->seconds - m->sizes_s) / (job->space->sizes - size);
    double spent_s = 0;
    int calls;
    int status = choose_calls(m, bytes, &calls);
    for (int round = 0; round < ROUNDS_MAX && status == 0 && (round < rounds_min || spent_s < budget_s); round++) {
        status = take_round(m, bytes, calls, begin_s, &spent_s);
        if (status == 0)
            drop_hopeless(m, round);
    }
    m->sizes_s += spent_s;
    return status;
}

static void show_progress(const measurement *m, int size) {
    const tune_job *job = m->job;
    const int done = job->steps_before + size;
    const double spent_s = now_s() - job->begin_s;
    const double left_s = done > 0 ? spent_s / done * (job->steps_total - done) : 0;
    char left[48] = "";
    if (done > 0)
        snprintf(left, sizeof left, ", about %.0f s left", ceil(left_s));
    fprintf(stderr, "kolo-tune: %s, %d ranks, %zu bytes: %d %%%s%s",
            kolo_name(KOLO_NAME_COLLECTIVE, job->space->collective), job->space->ranks, job->space->size_bytes[size],
            100 * done / job->steps_total, left, isatty(STDERR_FILENO) ? "   \r" : "\n");
}

static int measure_size(measurement *m, int size) {
    const double begin_s = now_s();
    if (m->rank == 0)
        show_progress(m, size);
    int status = open_trials(m, size);
    if (status == 0)
        status = take_rounds(m, size, begin_s);
    for (int i = 0; i < m->job->space->candidates; i++)
        m->times.us[size][i] = quantile(&m->trials[i], 2);
    m->times.default_low_us[size] = quantile(&m->trials[TUNE_DEFAULT], 4);
    close_trials(m);
    return status;
}

static int measure_sizes(measurement *m) {
    int status = create(m, TUNE_DEFAULT, &m->control);
    for (int size = 0; size < m->job->space->sizes && status == 0; size++)
        status = measure_size(m, size);
    kolo_comm_destroy(m->control);
    if (m->rank == 0 && status == 0)
        *m->job->times = m->times;
    return status;
}

/* Returns an exit status; after a complaint if it is not 0. */
static int tune_measure(const tune_job *job, int rank) {
    const size_t bytes = job->space->size_bytes[job->space->sizes - 1];
    measurement *m = calloc(1, sizeof *m);
    void *send = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    void *recv = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    int status = KOLO_ERR_SYSTEM;
    if (m && send && recv) {
        memset(send, 0, bytes);
        memset(recv, 0, bytes);
        *m = (measurement){.job = job, .rank = rank, .send = send, .recv = recv};
        status = measure_sizes(m);
    } else {
        message_print("rank %d of %d: no memory for messages of %zu bytes: use a smaller --max", rank,
                      job->space->ranks, bytes);
    }
    free(m);
    free(send);
    free(recv);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* What a rank's process is told. */
typedef struct assignment {
    const tune_job *job;
    struct binding binding;
} assignment;

/* In the child. */
static int be_rank(void *argument, int rank) {
    const assignment *of = argument;
    const int rc = of->binding.ranks != NULL ? binding_apply(&of->binding.ranks[rank]) : 0;
    if (rc == 0)
        return tune_measure(of->job, rank);
    message_print("rank %d cannot be bound: %s: use --unbound", rank, strerror(-rc));
    return EXIT_FAILURE;
}

int tune_team_run(const tune_job *job, bool *bound) {
    assignment of = {.job = job};
    forked_failure failure;
    int rc = binding_choose(&of.binding, job->space->ranks, *bound ? BIND_AUTO : BIND_NONE);
    if (rc < 0)
        return message_print("cannot choose CPUs for the ranks: %s", strerror(-rc));
    binding_settle(&of.binding); /* other jobs look at the ranks of kolorun only */
    *bound = of.binding.ranks != NULL;
    rc = forked_team_run(job->space->ranks, be_rank, &of, &failure);
    binding_close(&of.binding);
    if (rc < 0)
        message_print("cannot start %d ranks: %s", job->space->ranks, strerror(-rc));
    else if (rc > 0 && WIFSIGNALED(failure.wait_status))
        message_print("rank %d of %d was ended by signal %d (%s)", failure.index, job->space->ranks,
                      WTERMSIG(failure.wait_status), strsignal(WTERMSIG(failure.wait_status)));
    return rc == 0 ? 0 : -1;
}
