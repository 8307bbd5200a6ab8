/* The program around a shim: what a sample is, and how many are taken, is the same for every library.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "driver.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_buffers.h"
#include "driver_exchange.h"
#include "driver_gate.h"
#include "driver_values.h"
#include "perf_flush.h"
#include "perf_statistics.h"

/* As in kolo-perf: a small warm call can be shorter than reading the clock. */
enum { BATCH_CALLS = 50, BATCH_BYTES_MAX = 4096 };

enum { SIZES_MAX = 64, CPUS_MAX = 1024, SAMPLES_MIN = 3, WARMUPS_MAX = 10 };

/* What a result holds before a verified call. */
enum { POISON = 0xa7 };

/* A batch of calls that take longer than this, as where ranks share CPUs, is shorter. */
enum { SLOW_BATCH_CALL_US = 1000, SLOW_BATCH_CALLS = 5 };

static const double slow_call_us = 1e6; /* a call above this is sampled once, and nothing larger is called */
static const double long_size_us = 1e6; /* a size that takes more than this in all is not measured twice */

typedef enum buffer_state { BUFFERS_WARM, BUFFERS_DIRTY, BUFFERS_COLD } buffer_state;

typedef struct driver_options {
    const char *gate_path;
    const char *out_path;
    size_t size_bytes[SIZES_MAX];
    int sizes;
    int cpu[CPUS_MAX]; /* rank r is bound to cpu[r % cpus] */
    int cpus;          /* 0: not bound */
    driver_dtype dtype;
    buffer_state buffers;
    bool in_place;
    bool twice;
    double budget_us; /* of the timed samples of a size */
} driver_options;

/* What taking a size's samples gave, beside them. The exchanges are known to rank 0. */
typedef struct sampling {
    int samples;
    int calls; /* per sample */
    double exchange_before_ns;
    double exchange_after_ns;
} sampling;

/* What a size's time says of what to do next; the same on every rank. */
typedef enum pace { PACE_QUICK, PACE_LONG, PACE_TOO_SLOW } pace;

typedef struct driver {
    const driver_options *options;
    const driver_shim *shim;
    driver_gate gate;
    int rank;
    int ranks;
    size_t element_bytes;
    void *send;
    void *recv; /* not allocated in place */
    driver_values *values;
    char *zeros; /* a table like those of the values */
    FILE *out;   /* of rank 0 */
} driver;

static const char usage_text[] =
    "usage: DRIVER --gate FILE --out FILE --sizes BYTES[,BYTES...] [option]...\n"
    "\n"
    "Times all-reduces (sum) of one library; started by bench/compare, as each rank of a job.\n"
    "\n"
    "  --gate FILE        an empty file that the ranks of this job, and no other, share\n"
    "  --out FILE         where rank 0 writes a JSON object a line: the library, then each size\n"
    "  --sizes LIST       bytes of the messages, in this order; ends after one whose call takes above a second\n"
    "  --dtype NAME       f32 (default) or bf16\n"
    "  --buffers STATE    warm (default), dirty or cold, as kolo-perf has them\n"
    "  --in-place         recv is send\n"
    "  --cpus LIST        bind rank r to the CPU at r modulo the list's length\n"
    "  --budget-ms N      about the time of a size's timed samples (default 100)\n"
    "  --twice            then, in reverse order, once more each size that took less than a second\n"
    "  --help             this text\n"
    "\n"
    "Exit status: 0 done, 1 a call failed, 2 bad command line, 3 the library cannot sum this dtype.\n"
    "\n"
    "example:\n"
    "  : >/dev/shm/gate && mpirun -n 2 ./driver-mpi --gate /dev/shm/gate --out rows.json --sizes 8,65536\n";

static bool parse_sizes(const char *text, driver_options *options) {
    for (options->sizes = 0; options->sizes < SIZES_MAX;) {
        char *end;
        errno = 0;
        unsigned long long bytes = strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || errno != 0 || bytes < 4 || bytes % 4 != 0 || bytes > PTRDIFF_MAX / 4)
            return false;
        options->size_bytes[options->sizes++] = (size_t)bytes;
        if (*end != ',')
            return *end == '\0';
        text = end + 1;
    }
    return false;
}

static bool parse_cpus(const char *text, driver_options *options) {
    for (options->cpus = 0; options->cpus < CPUS_MAX;) {
        char *end;
        errno = 0;
        long cpu = strtol(text, &end, 10);
        if (*text < '0' || *text > '9' || errno != 0 || cpu >= CPU_SETSIZE)
            return false;
        options->cpu[options->cpus++] = (int)cpu;
        if (*end != ',')
            return *end == '\0';
        text = end + 1;
    }
    return false;
}

static bool parse_name(const char *text, const char *const names[], int *index) {
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

static bool set_option(driver_options *options, int id, const char *text) {
    static const char *const dtypes[] = {[DRIVER_F32] = "f32", [DRIVER_BF16] = "bf16", NULL};
    static const char *const states[] = {
        [BUFFERS_WARM] = "warm", [BUFFERS_DIRTY] = "dirty", [BUFFERS_COLD] = "cold", NULL};
    int index;
    char *end;
    switch (id) {
    case 'g':
        options->gate_path = text;
        return true;
    case 'o':
        options->out_path = text;
        return true;
    case 's':
        return parse_sizes(text, options);
    case 'c':
        return parse_cpus(text, options);
    case 'i':
        options->in_place = true;
        return true;
    case 't':
        options->twice = true;
        return true;
    case 'm':
        options->budget_us = strtod(text, &end) * 1e3;
        return end != text && *end == '\0' && options->budget_us > 0 && options->budget_us <= 1e9;
    case 'd':
        if (!parse_name(text, dtypes, &index))
            return false;
        options->dtype = (driver_dtype)index;
        return true;
    default:
        if (!parse_name(text, states, &index))
            return false;
        options->buffers = (buffer_state)index;
        return true;
    }
}

/* Returns -1 to go on, or an exit status. */
static int parse(driver_options *options, int argc, char **argv) {
    static const struct option long_options[] = {{"gate", required_argument, NULL, 'g'},
                                                 {"out", required_argument, NULL, 'o'},
                                                 {"sizes", required_argument, NULL, 's'},
                                                 {"dtype", required_argument, NULL, 'd'},
                                                 {"buffers", required_argument, NULL, 'b'},
                                                 {"in-place", no_argument, NULL, 'i'},
                                                 {"cpus", required_argument, NULL, 'c'},
                                                 {"budget-ms", required_argument, NULL, 'm'},
                                                 {"twice", no_argument, NULL, 't'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {0}};
    *options = (driver_options){.budget_us = 1e5};
    int id;
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (id == 'h')
            return fputs(usage_text, stdout) == EOF ? DRIVER_FAILED : 0;
        if (id == '?')
            return DRIVER_USAGE; /* getopt has said what is wrong */
        if (!set_option(options, id, optarg)) {
            fprintf(stderr, "driver: '%s' is not allowed for an option; see --help\n", optarg);
            return DRIVER_USAGE;
        }
    }
    if (optind < argc || options->gate_path == NULL || options->out_path == NULL || options->sizes == 0) {
        fprintf(stderr, "driver: --gate, --out and --sizes are needed, and nothing but options; see --help\n");
        return DRIVER_USAGE;
    }
    if (options->buffers == BUFFERS_COLD && !perf_can_flush()) {
        fprintf(stderr, "driver: programs cannot flush the caches of this machine; use --buffers warm or dirty\n");
        return DRIVER_USAGE;
    }
    return -1;
}

static void bind_to_cpu(const driver_options *options, int rank) {
    if (options->cpus == 0 || rank < 0)
        return;
    int cpu = options->cpu[rank % options->cpus];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) /* slower, but not wrong */
        fprintf(stderr, "driver: rank %d cannot be bound to CPU %d: %s\n", rank, cpu, strerror(errno));
}

/* The rank, before the library is asked: memory that it touches when it begins shall be near this rank's CPU. */
static int rank_from_launcher(void) {
    static const char *const variables[] = {"KOLO_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *text = getenv(variables[i]);
        if (text != NULL && *text >= '0' && *text <= '9')
            return atoi(text);
    }
    return -1;
}

static size_t size_bytes_max(const driver_options *options) {
    size_t max = 0;
    for (int i = 0; i < options->sizes; i++)
        if (options->size_bytes[i] > max)
            max = options->size_bytes[i];
    return max;
}

static int allocate(driver *driver) {
    const driver_options *options = driver->options;
    size_t bytes = size_bytes_max(options);
    driver->values = malloc(sizeof(*driver->values));
    driver->zeros = calloc(1, DRIVER_VALUES_BYTES_MAX);
    driver->send = driver_buffer_allocate(bytes);
    if (!options->in_place)
        driver->recv = driver_buffer_allocate(bytes);
    if (driver->values == NULL || driver->zeros == NULL || driver->send == NULL ||
        (!options->in_place && driver->recv == NULL)) {
        fprintf(stderr, "driver: rank %d: no memory for buffers of %zu bytes; use smaller sizes\n", driver->rank,
                bytes);
        return DRIVER_FAILED;
    }
    driver_values_make(driver->values, options->dtype, driver->rank, driver->ranks);
    return 0;
}

static void *result_of(const driver *driver) {
    return driver->options->in_place ? driver->send : driver->recv;
}

/* Each call then works on the result of the last one: zeros, so that nothing grows. */
static bool feeds_on_results(const driver_options *options) {
    return options->in_place && options->buffers == BUFFERS_WARM;
}

static void fill_timed(driver *driver, size_t count) {
    const char *table = feeds_on_results(driver->options) ? driver->zeros : driver->values->input[DRIVER_SEED_TIMED];
    perf_table_fill(driver->send, count, driver->element_bytes, table);
}

static void prepare_sample(driver *driver, size_t count) {
    const driver_options *options = driver->options;
    size_t bytes = count * driver->element_bytes;
    if (options->buffers == BUFFERS_WARM)
        return;
    if (options->buffers == BUFFERS_DIRTY || options->in_place)
        fill_timed(driver, count);
    if (options->buffers == BUFFERS_COLD) {
        perf_flush(driver->send, bytes);
        if (!options->in_place)
            perf_flush(driver->recv, bytes);
    }
}

/* The time of one of *calls calls on this rank. How many is for rank 0 to say; with 0 nothing is called. */
static int take_sample(driver *driver, size_t count, int *calls, double *sample_us) {
    prepare_sample(driver, count);
    if (driver_gate_pass(&driver->gate, calls) != 0)
        return DRIVER_FAILED;
    if (*calls == 0)
        return 0;
    void *result = result_of(driver);
    int status = 0;
    double begin_us = perf_now_us();
    for (int i = 0; i < *calls && status == 0; i++)
        status = driver->shim->allreduce(driver->send, result, count);
    *sample_us = (perf_now_us() - begin_us) / *calls;
    return status == 0 ? 0 : DRIVER_FAILED;
}

/* One call on fresh inputs, every element compared. */
static int verify_call(driver *driver, size_t count, int seed, double *call_us, uint64_t *wrong) {
    int ignored = 0;
    perf_table_fill(driver->send, count, driver->element_bytes, driver->values->input[seed]);
    if (!driver->options->in_place)
        memset(driver->recv, POISON, count * driver->element_bytes);
    if (driver_gate_pass(&driver->gate, &ignored) != 0)
        return DRIVER_FAILED;
    double begin_us = perf_now_us();
    if (driver->shim->allreduce(driver->send, result_of(driver), count) != 0)
        return DRIVER_FAILED;
    *call_us = perf_now_us() - begin_us;
    *wrong += perf_table_wrong(result_of(driver), count, driver->element_bytes, driver->values->sum[seed], NULL);
    return 0;
}

/* Calls in a sample, by the time that one has taken. */
static int calls_of_sample(const driver *driver, size_t count, double call_us) {
    if (driver->options->buffers != BUFFERS_WARM || count * driver->element_bytes > BATCH_BYTES_MAX)
        return 1;
    return call_us < SLOW_BATCH_CALL_US ? BATCH_CALLS : SLOW_BATCH_CALLS;
}

/* *call_us is the time of one call, before and after. */
static int warm_up(driver *driver, size_t count, double *call_us) {
    double budget_us = driver->options->budget_us / 4;
    double begin_us = perf_now_us();
    int calls = 1;
    int status = 0;
    for (int i = 0; i < WARMUPS_MAX && calls > 0 && status == 0; i++) {
        bool is_warm = *call_us > slow_call_us || perf_now_us() - begin_us > budget_us;
        calls = is_warm ? 0 : calls_of_sample(driver, count, *call_us);
        status = take_sample(driver, count, &calls, call_us);
    }
    return status;
}

/* Until rank 0 finds that there were enough samples; by its clock, so that all ranks take the same number. */
static int take_timed_samples(driver *driver, size_t count, sampling *sampling) {
    double *samples_us = driver_gate_samples(&driver->gate, driver->rank);
    double spent_us = 0;
    int taken = 0;
    int status = 0;
    while (taken < DRIVER_SAMPLES_MAX && status == 0) {
        bool is_slow = taken > 0 && samples_us[taken - 1] > slow_call_us;
        bool go_on = !is_slow && (taken < SAMPLES_MIN || spent_us < driver->options->budget_us);
        int calls = go_on ? sampling->calls : 0;
        status = take_sample(driver, count, &calls, &samples_us[taken]);
        if (calls == 0)
            break;
        spent_us += samples_us[taken] * calls;
        taken++;
    }
    sampling->samples = taken;
    return status;
}

/* call_us is the time that one call has taken. */
static int take_samples(driver *driver, size_t count, double call_us, sampling *sampling) {
    int status = warm_up(driver, count, &call_us);
    sampling->calls = calls_of_sample(driver, count, call_us);
    if (status == 0)
        status = driver_exchange_measure(&driver->gate, &sampling->exchange_before_ns);
    if (status == 0)
        status = take_timed_samples(driver, count, sampling);
    if (status == 0)
        status = driver_exchange_measure(&driver->gate, &sampling->exchange_after_ns);
    return status == 0 ? 0 : DRIVER_FAILED;
}

static void write_exchange(FILE *out, const char *name, double ns) {
    if (ns > 0)
        fprintf(out, ", \"%s\": %.1f", name, ns);
}

/* Rank 0 joins what the ranks have left in the gate: the slowest rank's time of each sample counts. */
static int report(driver *driver, size_t bytes, const sampling *sampling) {
    double *slowest_us = driver_gate_samples(&driver->gate, 0);
    uint64_t wrong = *driver_gate_wrong(&driver->gate, 0);
    for (int rank = 1; rank < driver->ranks; rank++) {
        const double *samples_us = driver_gate_samples(&driver->gate, rank);
        for (int i = 0; i < sampling->samples; i++)
            if (samples_us[i] > slowest_us[i])
                slowest_us[i] = samples_us[i];
        wrong += *driver_gate_wrong(&driver->gate, rank);
    }
    perf_statistics time_us = perf_statistics_of(slowest_us, (size_t)sampling->samples);
    fprintf(driver->out,
            "{\"bytes\": %zu, \"median_us\": %.4f, \"min_us\": %.4f, \"max_us\": %.4f, \"samples\": %d, "
            "\"calls_per_sample\": %d, \"wrong\": %llu",
            bytes, time_us.median, time_us.min, time_us.max, sampling->samples, sampling->calls,
            (unsigned long long)wrong);
    write_exchange(driver->out, "exchange_ns", sampling->exchange_before_ns);
    write_exchange(driver->out, "exchange_after_ns", sampling->exchange_after_ns);
    fprintf(driver->out, "}\n");
    if (fflush(driver->out) == 0)
        return 0;
    fprintf(stderr, "driver: cannot write %s: %s\n", driver->options->out_path, strerror(errno));
    return DRIVER_FAILED;
}

/* One call before the samples is verified, and what the last of them left; in place that is gone, and another call must
 * do. */
static int sample_and_verify(driver *driver, size_t count, sampling *sampling, uint64_t *wrong) {
    double call_us = 0;
    *wrong = 0;
    int status = verify_call(driver, count, DRIVER_SEED_VERIFIED, &call_us, wrong);
    if (status != 0)
        return status;
    fill_timed(driver, count);
    status = take_samples(driver, count, call_us, sampling);
    if (status != 0)
        return status;
    if (driver->options->in_place)
        return verify_call(driver, count, DRIVER_SEED_TIMED, &call_us, wrong);
    const driver_values *values = driver->values;
    *wrong += perf_table_wrong(driver->recv, count, driver->element_bytes, values->sum[DRIVER_SEED_TIMED], NULL);
    *wrong += perf_table_wrong(driver->send, count, driver->element_bytes, values->input[DRIVER_SEED_TIMED], NULL);
    return 0;
}

static int measure_size(driver *driver, size_t bytes, pace *pace) {
    double begin_us = perf_now_us();
    sampling sampling = {0};
    int status = sample_and_verify(driver, bytes / driver->element_bytes, &sampling,
                                   driver_gate_wrong(&driver->gate, driver->rank));
    if (status != 0)
        return status;
    int rank_pace = perf_now_us() - begin_us > long_size_us ? PACE_LONG : PACE_QUICK;
    if (driver_gate_samples(&driver->gate, driver->rank)[0] > slow_call_us)
        rank_pace = PACE_TOO_SLOW;
    if (driver_gate_pass(&driver->gate, &rank_pace) != 0)
        return DRIVER_FAILED;
    *pace = (enum pace)rank_pace;
    return driver->rank == 0 ? report(driver, bytes, &sampling) : 0;
}

static int measure_sizes(driver *driver) {
    const driver_options *options = driver->options;
    pace paces[SIZES_MAX];
    int measured = 0;
    int status = 0;
    /* Beyond a size that is too slow, larger ones would take the time of all other measurements. */
    for (bool go_on = true; measured < options->sizes && go_on && status == 0; measured++) {
        status = measure_size(driver, options->size_bytes[measured], &paces[measured]);
        go_on = status == 0 && paces[measured] != PACE_TOO_SLOW;
    }
    for (int i = measured - 1; options->twice && i >= 0 && status == 0; i--) {
        pace ignored;
        if (paces[i] == PACE_QUICK)
            status = measure_size(driver, options->size_bytes[i], &ignored);
    }
    return status;
}

static int open_out(driver *driver, const char *library) {
    if (driver->rank != 0)
        return 0;
    driver->out = fopen(driver->options->out_path, "we");
    if (driver->out == NULL) {
        fprintf(stderr, "driver: cannot write %s: %s\n", driver->options->out_path, strerror(errno));
        return DRIVER_FAILED;
    }
    fprintf(driver->out, "{\"library\": \"");
    /* The first part of what can be many lines; nothing that JSON would want escaped. */
    for (const char *c = library; *c != '\0' && *c != ',' && *c != '\n'; c++)
        if (*c > ' ' && *c != '"' && *c != '\\')
            fputc(*c, driver->out);
        else if (c[1] > ' ')
            fputc(' ', driver->out);
    fprintf(driver->out, "\", \"ranks\": %d}\n", driver->ranks);
    return 0;
}

static int measure(driver *driver, const char *library) {
    const int cpus = driver->options->cpus > 0 ? driver->options->cpus : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int status = driver_gate_open(&driver->gate, driver->options->gate_path, driver->rank, driver->ranks, cpus);
    if (status == 0)
        status = open_out(driver, library);
    if (status == 0)
        status = allocate(driver);
    if (status == 0)
        status = measure_sizes(driver);
    if (driver->out != NULL && fclose(driver->out) != 0 && status == 0) {
        fprintf(stderr, "driver: cannot write %s: %s\n", driver->options->out_path, strerror(errno));
        status = DRIVER_FAILED;
    }
    driver_gate_close(&driver->gate);
    free(driver->send);
    free(driver->recv);
    free(driver->values);
    free(driver->zeros);
    return status == 0 ? 0 : DRIVER_FAILED;
}

int driver_run(int argc, char **argv, const driver_shim *shim) {
    driver_options options;
    int status = parse(&options, argc, argv);
    if (status >= 0)
        return status;
    driver driver = {.options = &options, .shim = shim, .element_bytes = driver_dtype_bytes(options.dtype)};
    const char *library = "";
    bind_to_cpu(&options, rank_from_launcher());
    status = shim->begin(options.dtype, &driver.rank, &driver.ranks, &library);
    if (status != 0)
        return status == DRIVER_UNSUPPORTED ? DRIVER_UNSUPPORTED : DRIVER_FAILED;
    if (driver.ranks < 1 || driver.ranks > DRIVER_RANKS_MAX) {
        fprintf(stderr, "driver: %d ranks; 1 to %d can be measured\n", driver.ranks, DRIVER_RANKS_MAX);
        return DRIVER_FAILED;
    }
    bind_to_cpu(&options, driver.rank);
    status = measure(&driver, library);
    if (status == 0 && shim->end() != 0)
        status = DRIVER_FAILED;
    return status;
}
