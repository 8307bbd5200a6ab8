/* kolo-perf init: how long a job takes from exec to its first result. In each sample every rank starts one process, all
 * at once, which creates a communicator with those of the other ranks and makes one all-reduce of 8 bytes. The new
 * processes meet over a file that they inherit, as kolorun's do. They run this program, by another name. */
#include "perf_modes.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_progress.h"

enum { SAMPLES_MIN = 5, SAMPLES_MAX = 50, WARMUP = 1, ARGUMENTS = 6, NUMBER_BYTES = 24 };
enum { EXEC, CREATE, ALLREDUCE, TOTAL, PARTS };
#define RUN_US 3e6 /* about what all samples take, where --iters does not say */

static const char *const names[] = {[EXEC] = "exec", [CREATE] = "create", [ALLREDUCE] = "allreduce", [TOTAL] = "total"};
/* Of the processes that are started; rank, size, file, pipe and the parent's id follow. */
static const char program[] = "kolo-perf-init";

/* When a started process had done what. */
struct moments {
    double main_us, created_us, reduced_us;
};

bool perf_init_is_started(char *const *arguments) {
    return arguments[0] != NULL && strcmp(arguments[0], program) == 0;
}

int perf_init_start(char *const *arguments) {
    struct moments at = {.main_us = perf_now_us()};
    kolo_options options = KOLO_OPTIONS_INIT;
    kolo_comm *comm;
    double one = 1, sum = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a rank that was ended does not leave its process */
    if (getppid() != atoi(arguments[5]))
        return EXIT_FAILURE;
    options.rank = atoi(arguments[1]);
    options.size = atoi(arguments[2]);
    options.shm_fd = atoi(arguments[3]);
    int status = kolo_comm_create(&comm, &options);
    at.created_us = perf_now_us();
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, &one, &sum, 1, KOLO_F64, KOLO_SUM);
    at.reduced_us = perf_now_us();
    if (status != KOLO_OK || sum != options.size || write(atoi(arguments[4]), &at, sizeof(at)) != (ssize_t)sizeof(at)) {
        fprintf(stderr, "kolo-perf: init: rank %d: %s\n", options.rank,
                status != KOLO_OK ? kolo_error_message() : "a wrong sum, or nobody to tell");
        return EXIT_FAILURE;
    }
    kolo_comm_destroy(comm);
    return EXIT_SUCCESS;
}

/* Returns a new file that the ranks of the next sample have in common, -1 where there is none; collective. */
static int open_common_file(kolo_comm *comm, int *status) {
    int64_t place[2] = {getpid(), -1};
    char path[64];
    int fd = -1;
    if (kolo_comm_rank(comm) == 0)
        place[1] = fd = memfd_create("kolo-perf", MFD_CLOEXEC);
    *status = kolo_broadcast(comm, place, 2, KOLO_I64, 0);
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/fd/%" PRId64, place[0], place[1]);
    if (*status == KOLO_OK && kolo_comm_rank(comm) > 0)
        fd = open(path, O_RDWR | O_CLOEXEC);
    const int barred = kolo_barrier(comm); /* rank 0 keeps the file until all have opened it, and all begin at once */
    *status = *status == KOLO_OK ? barred : *status;
    return fd;
}

/* Starts this rank's process, which inherits `file` and `pipe`. Returns its id, or -1. */
static pid_t start(const kolo_comm *comm, int file, int pipe) {
    char numbers[ARGUMENTS - 1][NUMBER_BYTES];
    const int values[] = {kolo_comm_rank(comm), kolo_comm_size(comm), file, pipe, getpid()};
    char *arguments[ARGUMENTS + 1] = {(char *)program};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    for (int i = 0; i < ARGUMENTS - 1; i++) {
        snprintf(numbers[i], NUMBER_BYTES, "%d", values[i]);
        arguments[i + 1] = numbers[i];
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, file); /* to itself: the process inherits it */
    posix_spawn_file_actions_adddup2(&actions, pipe, pipe);
    if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* Starts this rank's process and waits for its end. Returns 0 with *begin_us and *at, or 1 after a complaint. */
static int run_process(const kolo_comm *comm, int file, double *begin_us, struct moments *at) {
    int ends[2], ended = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        ends[0] = ends[1] = -1;
    *begin_us = perf_now_us();
    const pid_t pid = file >= 0 && ends[0] >= 0 ? start(comm, file, ends[1]) : -1;
    close(ends[1]);
    const bool told = pid > 0 && read(ends[0], at, sizeof(*at)) == (ssize_t)sizeof(*at);
    if (pid > 0)
        waitpid(pid, &ended, 0);
    close(ends[0]);
    close(file);
    if (told && ended == 0)
        return 0;
    fprintf(stderr, "kolo-perf: init: rank %d: its process %s\n", kolo_comm_rank(comm),
            pid > 0 ? "has failed" : "could not be started");
    return 1;
}

/* One start of all processes; collective. Returns 0 with the slowest rank's times, a KOLO_ERR_*, or 1 after a complaint
 * of this rank's. */
static int take_sample(kolo_comm *comm, double parts_us[PARTS]) {
    double begin_us = 0, bounds[2];
    struct moments at = {0};
    int status;
    const int file = open_common_file(comm, &status);
    if (status != KOLO_OK || run_process(comm, file, &begin_us, &at) != 0)
        return status != KOLO_OK ? status : 1;
    parts_us[EXEC] = at.main_us - begin_us;
    parts_us[CREATE] = at.created_us - at.main_us;
    parts_us[ALLREDUCE] = at.reduced_us - at.created_us;
    bounds[0] = at.reduced_us;
    bounds[1] = -begin_us; /* the first to begin, as a maximum */
    status = kolo_allreduce(comm, parts_us, parts_us, TOTAL, KOLO_F64, KOLO_MAX);
    if (status == KOLO_OK)
        status = kolo_allreduce(comm, bounds, bounds, 2, KOLO_F64, KOLO_MAX);
    parts_us[TOTAL] = bounds[0] + bounds[1];
    return status;
}

static void print_head(const perf_report *report) {
    fprintf(report->table, "# kolo-perf %s: init, %d rank%s\n", kolo_version(), report->ranks,
            report->ranks == 1 ? "" : "s");
    perf_report_machine(report);
    fprintf(report->table,
            "# exec: from starting a process to its main; create: kolo_comm_create;\n"
            "#   allreduce: the first, of 8 bytes; total: from the first start to the last\n"
            "#   result; each of the slowest rank, in us\n"
            "#\n#%10s %10s %10s %10s %10s %10s\n",
            "part", "min", "avg", "median", "p99", "max");
}

static void report_part(perf_report *report, int part, const perf_statistics *us, int samples) {
    const double values[] = {us->min, us->avg, us->median, us->p99, us->max};
    fprintf(report->table, " %10s", names[part]);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        perf_print_digits(report->table, values[i], 10);
    fprintf(report->table, "\n");
    perf_field fields[PERF_FIELDS_MAX] = {
        {.name = "collective", .text = "init"}, {"ranks", PERF_NUMBER, NULL, report->ranks, 0},
        {.name = "part", .text = names[part]},  {"iters", PERF_NUMBER, NULL, samples, 0},
        PERF_SPREAD("time_us", us, 1),
    };
    perf_report_record(report, fields);
}

/* *samples becomes how many were taken. */
static int take_samples(const perf_options *options, kolo_comm *comm, double *samples_us[PARTS], int *samples) {
    const int warmup = perf_options_warmup(options, WARMUP);
    double parts_us[PARTS] = {0};
    int status = KOLO_OK;
    for (int i = 0; i < warmup && status == KOLO_OK; i++)
        status = take_sample(comm, parts_us);
    /* All ranks have the same times, and so the same number. */
    *samples = perf_options_samples(options, RUN_US, parts_us[TOTAL], SAMPLES_MIN, SAMPLES_MAX);
    for (int i = 0; i < *samples && status == KOLO_OK; i++) {
        status = take_sample(comm, parts_us);
        for (int part = 0; part < PARTS; part++)
            samples_us[part][i] = parts_us[part];
    }
    return status;
}

int perf_init_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong) {
    const size_t most = options->iters > SAMPLES_MAX ? (size_t)options->iters : SAMPLES_MAX;
    const bool speaks = kolo_comm_rank(comm) == 0;
    double *samples_us[PARTS];
    int samples = 0, status;
    (void)wrong;
    if (kolo_comm_nodes(comm) > 1) {
        if (speaks)
            fprintf(stderr, "kolo-perf: init is for ranks of one machine\n");
        return 1;
    }
    double *memory = calloc(PARTS * most, sizeof(*memory));
    if (memory == NULL) {
        fprintf(stderr, "kolo-perf: init: out of memory\n");
        return 1;
    }
    for (int part = 0; part < PARTS; part++)
        samples_us[part] = memory + (size_t)part * most;
    if (speaks)
        print_head(report);
    perf_progress_say("starting processes ...");
    status = take_samples(options, comm, samples_us, &samples);
    perf_progress_erase();
    for (int part = 0; part < PARTS && status == KOLO_OK && speaks; part++) {
        const perf_statistics us = perf_statistics_of(samples_us[part], (size_t)samples);
        report_part(report, part, &us, samples);
    }
    if (speaks)
        perf_report_flush(report);
    free(memory);
    return status;
}
