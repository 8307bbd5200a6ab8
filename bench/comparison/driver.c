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

#include "driver_exchange.h"
#include "driver_gate.h"
#include "perf_flush.h"
#include "perf_sampler.h"

enum { SIZES_MAX = 64, CPUS_MAX = 1024, SAMPLES_MIN = 3 };

static const double slow_call_us = 1e6; /* a call above this is sampled once, and nothing larger is called */
static const double long_size_us = 1e6; /* a size that takes more than this in all is not measured twice */

typedef struct driver_options {
    perf_options measured;
    const char *gate_path;
    const char *out_path;
    size_t size_bytes[SIZES_MAX];
    int sizes;
    int cpu[CPUS_MAX]; /* rank r is bound to cpu[r % cpus] */
    int cpus;          /* 0: not bound */
    bool twice;
    double budget_us; /* of the timed samples of a size */
} driver_options;

typedef struct driver {
    perf_sampler sampler;
    const driver_options *options;
    const driver_shim *shim;
    driver_gate gate;
    FILE *out; /* of rank 0 */
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
    static const char *const dtypes[] = {"f32", "bf16", NULL};
    static const char *const states[] = {[PERF_WARM] = "warm", [PERF_DIRTY] = "dirty", [PERF_COLD] = "cold", NULL};
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
        options->measured.in_place = true;
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
        options->measured.dtype = index == 0 ? KOLO_F32 : KOLO_BF16;
        return true;
    default:
        if (!parse_name(text, states, &index))
            return false;
        options->measured.buffers = (perf_buffers)index;
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
    *options = (driver_options){
        .measured = {.collective = PERF_ALLREDUCE, .dtype = KOLO_F32, .op = KOLO_SUM, .warmup = -1, .check = true},
        .budget_us = 1e5};
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
    if (options->measured.buffers == PERF_COLD && !perf_can_flush()) {
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

static driver *driver_of(perf_sampler *sampler) {
    return (driver *)sampler; /* its first member */
}

static int call(perf_sampler *sampler, size_t count) {
    return driver_of(sampler)->shim->allreduce(sampler->send.data, perf_sampler_result(sampler)->data, count);
}

static int meet(perf_sampler *sampler) {
    return driver_gate_pass(&driver_of(sampler)->gate);
}

static int join(perf_sampler *sampler, double *values, size_t count, bool sums) {
    return driver_gate_join(&driver_of(sampler)->gate, values, count, sums);
}

static int watch(perf_sampler *sampler, perf_row *row, bool ended) {
    return driver_exchange_measure(&driver_of(sampler)->gate, &row->exchange_ns[ended]);
}

static void write_exchange(FILE *out, const char *name, double ns) {
    if (ns > 0)
        fprintf(out, ", \"%s\": %.1f", name, ns);
}

static int lose_output(const driver *driver) {
    fprintf(stderr, "driver: cannot write %s: %s\n", driver->options->out_path, strerror(errno));
    return DRIVER_FAILED;
}

static int report(const driver *driver, const perf_row *row) {
    FILE *out = driver->out;
    if (out == NULL)
        return 0;
    fprintf(out,
            "{\"bytes\": %zu, \"median_us\": %.4f, \"min_us\": %.4f, \"max_us\": %.4f, \"samples\": %d, "
            "\"calls_per_sample\": %d, \"wrong\": %lld",
            row->bytes, row->time_us.median, row->time_us.min, row->time_us.max, row->samples, row->calls_per_sample,
            (long long)row->wrong);
    write_exchange(out, "exchange_ns", row->exchange_ns[0]);
    write_exchange(out, "exchange_after_ns", row->exchange_ns[1]);
    fprintf(out, "}\n");
    return fflush(out) == 0 ? 0 : lose_output(driver);
}

static int measure_size(driver *driver, size_t bytes, perf_row *row, double *size_us) {
    double begin_us = perf_now_us();
    int status = perf_sampler_row(&driver->sampler, bytes, row);
    *size_us = perf_now_us() - begin_us;
    if (status == 0)
        status = join(&driver->sampler, size_us, 1, false);
    return status == 0 ? report(driver, row) : status;
}

static int measure_sizes(driver *driver) {
    const driver_options *options = driver->options;
    double size_us[SIZES_MAX], ignored_us;
    perf_row row;
    int measured = 0;
    int status = 0;
    /* Beyond a size that is too slow, larger ones would take the time of all other measurements. */
    for (bool go_on = true; measured < options->sizes && go_on && status == 0; measured++) {
        status = measure_size(driver, options->size_bytes[measured], &row, &size_us[measured]);
        go_on = row.time_us.median <= slow_call_us;
    }
    for (int i = measured - 1; options->twice && i >= 0 && status == 0; i--)
        if (size_us[i] <= long_size_us)
            status = measure_size(driver, options->size_bytes[i], &row, &ignored_us);
    return status;
}

static int open_out(driver *driver, const char *library) {
    if (driver->sampler.rank != 0)
        return 0;
    driver->out = fopen(driver->options->out_path, "we");
    if (driver->out == NULL)
        return lose_output(driver);
    fprintf(driver->out, "{\"library\": \"");
    /* The first part of what can be many lines; nothing that JSON would want escaped. */
    for (const char *c = library; *c != '\0' && *c != ',' && *c != '\n'; c++)
        if (*c > ' ' && *c != '"' && *c != '\\')
            fputc(*c, driver->out);
        else if (c[1] > ' ')
            fputc(' ', driver->out);
    fprintf(driver->out, "\", \"ranks\": %d}\n", driver->sampler.ranks);
    return 0;
}

static int measure(driver *driver, const char *library) {
    const driver_options *options = driver->options;
    const perf_sampler *sampler = &driver->sampler;
    const int cpus = options->cpus > 0 ? options->cpus : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int status = driver_gate_open(&driver->gate, options->gate_path, sampler->rank, sampler->ranks, cpus);
    if (status == 0)
        status = open_out(driver, library);
    if (status == 0)
        status = perf_sampler_prepare(&driver->sampler, size_bytes_max(options));
    if (status == 0)
        status = measure_sizes(driver);
    if (driver->out != NULL && fclose(driver->out) != 0 && status == 0)
        status = lose_output(driver);
    driver_gate_close(&driver->gate);
    perf_sampler_free(&driver->sampler);
    return status == 0 ? 0 : DRIVER_FAILED;
}

int driver_run(int argc, char **argv, const driver_shim *shim) {
    static const perf_calls calls = {call, meet, join, watch};
    driver_options options;
    int status = parse(&options, argc, argv);
    if (status >= 0)
        return status;
    driver driver = {.sampler = {.program = "driver",
                                 .collective = "allreduce",
                                 .smaller = "--sizes",
                                 .options = &options.measured,
                                 .calls = &calls,
                                 .in_place = options.measured.in_place,
                                 .budget_us = options.budget_us,
                                 .samples_min = SAMPLES_MIN,
                                 .slow_call_us = slow_call_us},
                     .options = &options,
                     .shim = shim};
    int *rank = &driver.sampler.rank, *ranks = &driver.sampler.ranks;
    const char *library = "";
    bind_to_cpu(&options, rank_from_launcher());
    status = shim->begin(options.measured.dtype, rank, ranks, &library);
    if (status != 0)
        return status == DRIVER_UNSUPPORTED ? DRIVER_UNSUPPORTED : DRIVER_FAILED;
    if (*ranks < 1 || *ranks > DRIVER_RANKS_MAX) {
        fprintf(stderr, "driver: %d ranks; 1 to %d can be measured\n", *ranks, DRIVER_RANKS_MAX);
        return DRIVER_FAILED;
    }
    bind_to_cpu(&options, *rank);
    status = measure(&driver, library);
    if (status == 0 && shim->end() != 0)
        status = DRIVER_FAILED;
    return status;
}
