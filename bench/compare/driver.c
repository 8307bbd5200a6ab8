/* The program around a shim: what a sample is, and how many are taken, is the same for every library. */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kolo.h"
#include "command_line.h"
#include "driver_exchange.h"
#include "launched_rank.h"
#include "perf_sampler.h"
#include "perf_team.h"
#include "printed_text.h"

enum { SIZES_MAX = 64, CPUS_MAX = 1024, SAMPLES_MIN = 3, CONTROL_SLOT_BYTES = 8192 };

static const double slow_call_us = 1e6; /* a call above this is sampled once, and nothing larger is called */
static const double long_size_us = 1e6; /* a size that takes more than this in all is not measured twice */

/* What the command line asks for. */
static struct {
    perf_options measured;
    const char *gate_path;
    const char *out_path;
    size_t size_bytes[SIZES_MAX];
    size_t size_bytes_max;
    int sizes;
    int cpu[CPUS_MAX]; /* rank r is bound to cpu[r % cpus] */
    int cpus;          /* 0: not bound */
    unsigned dtype;
    unsigned choice; /* of the collectives below */
    const perf_collective *collective;
    bool twice;
    bool first_alone;
    double budget_ms; /* of the timed samples of a size */
} given = {.measured = {.op = KOLO_SUM, .warmup = -1, .check = true}, .budget_ms = 100};

static const driver_shim *library;
static driver_exchange exchange;
static FILE *out; /* of rank 0 */

/* Those that all of them have: with data in one buffer or in blocks of equal length. */
static const perf_collective *collective_at(unsigned index) {
    const perf_collective *collective;
    for (unsigned i = 0; (collective = perf_collective_at(i)) != NULL; i++)
        if (perf_collective_has_data(collective) && !collective->unequal && collective->kolo != KOLO_ALLREDUCE_MANY &&
            index-- == 0)
            break;
    return collective;
}

static const char *collective_name(unsigned index) {
    const perf_collective *collective = collective_at(index);
    return collective != NULL ? perf_collective_name(collective) : NULL;
}

static const char *dtype_name(unsigned dtype) {
    return dtype == 0 ? "f32" : dtype == 1 ? "bf16" : NULL;
}

static void parse(int argc, char **argv) {
    static const command_option options[] = {
        {"--gate FILE", "an empty file that the ranks of this job, and no other, share", TO_TEXT(given.gate_path)},
        {"--out FILE", "where rank 0 writes a JSON object a line: the library, then each size",
         TO_TEXT(given.out_path)},
        {"--sizes LIST", "bytes of the messages, in this order; ends after one whose call takes above a second",
         TO_COUNTS(given.size_bytes, given.sizes, 4, PTRDIFF_MAX / 4)},
        {"--collective NAME", "(default allreduce)", TO_CHOICE(given.choice, collective_name)},
        {"--dtype NAME", "f32 (default) or bf16", TO_CHOICE(given.dtype, dtype_name)},
        {"--buffers STATE", "warm (default), dirty or cold, as kolo-perf has them",
         TO_CHOICE(given.measured.buffers, perf_buffers_name)},
        {"--in-place", "recv is send; of an all-reduce alone", TO_FLAG(given.measured.in_place)},
        {"--cpus LIST", "bind rank r to the CPU at r modulo the list's length",
         TO_INTEGERS(given.cpu, given.cpus, 0, CPU_SETSIZE - 1)},
        {"--budget-ms N", "about the time of a size's timed samples (default 100)",
         TO_NUMBER(given.budget_ms, 0.001, 1e6)},
        {"--twice", "then, in reverse order, once more each size that took less than a second", TO_FLAG(given.twice)},
        {"--first", "nothing but one call: rank 0 writes when it was over, and its memory", TO_FLAG(given.first_alone)},
    };
    command_line line = {
        .program = "driver",
        .before = "usage: DRIVER --gate FILE --out FILE --sizes BYTES[,BYTES...] [option]...\n\n"
                  "Times a collective (sums, root 0) of one library; started by bench/compare, as each rank of a job.",
        .after = "Exit status: 0 done, 1 a call failed, 2 bad command line, 3 the library lacks the "
                 "collective or the dtype.\n\n"
                 "example:\n"
                 "  : >gate; mpirun -n 2 ./driver-mpi --gate gate --out rows.json --sizes 8,65536",
        .options = options,
        .options_count = sizeof(options) / sizeof(options[0])};
    command_line_read(&line, argc, argv);
    if (given.gate_path == NULL || given.out_path == NULL || given.sizes == 0)
        command_line_refuse(&line, "--gate, --out and --sizes are needed");
    if (given.measured.buffers == PERF_COLD && !perf_can_flush())
        command_line_refuse(&line, "programs cannot flush the caches of this machine; use --buffers warm or dirty");
    for (int i = 0; i < given.sizes; i++) {
        if (given.size_bytes[i] % 4 != 0)
            command_line_refuse(&line, "--sizes: %zu is not a whole multiple of 4", given.size_bytes[i]);
        given.size_bytes_max = given.size_bytes[i] > given.size_bytes_max ? given.size_bytes[i] : given.size_bytes_max;
    }
    given.measured.dtype = given.dtype == 0 ? KOLO_F32 : KOLO_BF16;
    given.collective = collective_at(given.choice);
    if (given.measured.in_place && given.collective->kolo != KOLO_ALLREDUCE)
        command_line_refuse(&line, "--in-place is for allreduce alone");
    given.measured.in_place |= given.collective->places == PERF_IN;
}

static void bind_to_cpu(int rank) {
    if (given.cpus == 0)
        return;
    int cpu = given.cpu[rank % given.cpus];
    if (perf_place_bind(cpu) != 0) /* slower, but not wrong */
        fprintf(stderr, "driver: rank %d cannot be bound to CPU %d: %s\n", rank, cpu, strerror(errno));
}

static int call(const perf_sampler *sampler, const perf_call *call) {
    (void)sampler;
    return library->call(call->send, call->recv, call->count);
}

static int watch(perf_sampler *sampler, perf_row *row, bool ended) {
    (void)sampler;
    return driver_exchange_measure(&exchange, &row->exchange_ns[ended]);
}

static void write_exchange(const char *name, double ns) {
    if (ns > 0)
        fprintf(out, ", \"%s\": %.1f", name, ns);
}

static int lose_output(void) {
    fprintf(stderr, "driver: cannot write %s: %s\n", given.out_path, strerror(errno));
    return DRIVER_FAILED;
}

static int report(const perf_row *row) {
    if (out == NULL)
        return 0;
    fprintf(out,
            "{\"bytes\": %zu, \"median_us\": %.4f, \"min_us\": %.4f, \"max_us\": %.4f, \"samples\": %d, "
            "\"calls_per_sample\": %d, \"wrong\": %lld",
            row->bytes, row->time_us.median, row->time_us.min, row->time_us.max, row->samples, row->calls_per_sample,
            (long long)row->wrong);
    write_exchange("exchange_ns", row->exchange_ns[0]);
    write_exchange("exchange_after_ns", row->exchange_ns[1]);
    fprintf(out, "}\n");
    return fflush(out) == 0 ? 0 : lose_output();
}

static int measure_size(perf_sampler *sampler, size_t bytes, perf_row *row, double *size_us) {
    double begin_us = perf_now_us();
    int status = perf_sampler_row(sampler, bytes, given.measured.in_place, row);
    *size_us = perf_now_us() - begin_us;
    if (status == 0)
        status = perf_sampler_join(sampler, size_us, 1);
    return status == 0 ? report(row) : status;
}

static int measure_sizes(perf_sampler *sampler) {
    double size_us[SIZES_MAX], ignored_us;
    perf_row row;
    int measured = 0;
    int status = 0;
    /* Beyond a size that is too slow, larger ones would take the time of all other measurements. */
    for (bool go_on = true; measured < given.sizes && go_on && status == 0; measured++) {
        status = measure_size(sampler, given.size_bytes[measured], &row, &size_us[measured]);
        go_on = row.time_us.median <= slow_call_us;
    }
    for (int i = measured - 1; given.twice && i >= 0 && status == 0; i--)
        if (size_us[i] <= long_size_us)
            status = measure_size(sampler, given.size_bytes[i], &row, &ignored_us);
    return status;
}

static int open_out(int ranks, const char *name) {
    out = fopen(given.out_path, "we");
    if (out == NULL)
        return lose_output();
    fprintf(out, "{\"library\": ");
    json_text_print(out, name);
    fprintf(out, ", \"ranks\": %d}\n", ranks);
    return 0;
}

/* By this the ranks of every library wait for each other and agree, so that none is measured with its own. */
static int open_control(int rank, int ranks, kolo_comm **comm) {
    kolo_options creation = KOLO_OPTIONS_INIT;
    creation.rank = rank;
    creation.size = ranks;
    creation.slot_bytes = CONTROL_SLOT_BYTES;
    creation.shm_fd = open(given.gate_path, O_RDWR | O_CLOEXEC);
    if (creation.shm_fd < 0) {
        fprintf(stderr, "driver: rank %d: cannot open the gate %s: %s\n", rank, given.gate_path, strerror(errno));
        return DRIVER_FAILED;
    }
    int status = kolo_comm_create(comm, &creation);
    close(creation.shm_fd);
    char path[4096];
    snprintf(path, sizeof(path), "%s.lines", given.gate_path);
    return status == KOLO_OK ? driver_exchange_open(&exchange, *comm, path) : status;
}

static int measure(int rank, int ranks, const char *name) {
    perf_sampler sampler = {.call = call,
                            .watch = watch,
                            .program = "driver",
                            .collective = given.collective,
                            .smaller = "--sizes",
                            .options = &given.measured,
                            .budget_us = given.budget_ms * 1e3,
                            .samples_min = SAMPLES_MIN,
                            .slow_call_us = slow_call_us};
    const size_t unit_bytes = perf_collective_unit_bytes(sampler.collective, ranks, given.measured.dtype);
    for (int i = 0; i < given.sizes; i++) {
        if (given.size_bytes[i] % unit_bytes == 0)
            continue;
        fprintf(stderr, "driver: --sizes: %zu bytes are no equal blocks of %d ranks\n", given.size_bytes[i], ranks);
        return DRIVER_FAILED;
    }
    int status = open_control(rank, ranks, &sampler.comm);
    if (status == 0 && rank == 0)
        status = open_out(ranks, name);
    if (status == 0)
        status = perf_sampler_prepare(&sampler, given.size_bytes_max, given.measured.in_place);
    if (status == 0)
        status = measure_sizes(&sampler);
    if (status < 0)
        fprintf(stderr, "driver: %s\n", kolo_error_message());
    if (out != NULL && fclose(out) != 0 && status == 0)
        status = lose_output();
    perf_sampler_free(&sampler);
    kolo_comm_destroy(sampler.comm);
    return status == 0 ? 0 : DRIVER_FAILED;
}

/* One call. Rank 0 writes when its result was there, by the clock that all processes have, and its Pss. */
static int tell_first(const driver_shim *shim, int rank, int ranks, const char *name) {
    float send[2] = {1, 1}, recv[2] = {0, 0};
    char text[128];
    long kib = 0;
    int status = shim->call(send, recv, 2);
    const double first_s = now_s();
    if (status != 0 || recv[1] != (float)ranks)
        return DRIVER_FAILED;
    if (rank > 0)
        return 0;
    FILE *rollup = fopen("/proc/self/smaps_rollup", "re");
    while (rollup != NULL && fgets(text, sizeof(text), rollup) != NULL && sscanf(text, "Pss: %ld", &kib) != 1)
        continue;
    if (rollup != NULL)
        fclose(rollup);
    status = open_out(ranks, name);
    if (status == 0)
        fprintf(out, "{\"first_s\": %.6f, \"memory_kib\": %ld}\n", first_s, kib);
    return status == 0 && fclose(out) != 0 ? lose_output() : status;
}

int driver_run(int argc, char **argv, const driver_shim *shim) {
    const char *name = "";
    int rank, ranks;
    parse(argc, argv);
    library = shim;
    /* Before the library is asked: memory that it touches when it begins shall be near this rank's CPU. */
    const launched_rank guess = launched_rank_guess();
    if (guess.size > 1)
        bind_to_cpu(guess.rank);
    int status = shim->begin(given.collective->kolo, given.measured.dtype, &rank, &ranks, &name);
    if (status != 0)
        return status == DRIVER_UNSUPPORTED ? DRIVER_UNSUPPORTED : DRIVER_FAILED;
    if (ranks < 1 || ranks > KOLO_RANKS_MAX) {
        fprintf(stderr, "driver: %d ranks; 1 to %d can be measured\n", ranks, KOLO_RANKS_MAX);
        return DRIVER_FAILED;
    }
    if (!given.first_alone)
        bind_to_cpu(rank);
    status = given.first_alone ? tell_first(shim, rank, ranks, name) : measure(rank, ranks, name);
    return status == 0 && shim->end() != 0 ? DRIVER_FAILED : status;
}
