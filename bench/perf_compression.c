/* kolo-perf-compression: what each compression of buckets sends, and how long a step takes, beside none. A rank
 * program, for kolorun and any other launcher. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "kolo.h"
#include "kolo_fusion.h"
#include "launched_rank.h"
#include "messages.h"
#include "now.h"
#include "perf_statistics.h"

enum { STEPS_MAX = 10000, TENSORS_MAX = 10000, WARMUP = 2 };

static struct {
    size_t bytes, tensors, steps;
    double share;
    const char *json_path;
} options = {.bytes = 16 << 20, .tensors = 16, .steps = 10, .share = 0.01};

static const command_option table[] = {
    {.help = "What is summed"},
    {"-b, --bytes SIZE", "of all tensors together, of f32 (default 16M)",
     TO_BYTES(options.bytes, sizeof(float), (size_t)1 << 40)},
    {"-t, --tensors N", "of equal size (default 16)", TO_COUNT(options.tensors, 1, TENSORS_MAX)},
    {"-s, --share S", "of a tensor's elements that topk sends (default 0.01)", TO_NUMBER(options.share, 1e-9, 1)},
    {"-n, --steps N", "timed, for each compression (default 10)", TO_COUNT(options.steps, 1, STEPS_MAX)},
    {.help = "Output"},
    {"--json FILE", "also write an object for each compression to FILE, which is replaced", TO_TEXT(options.json_path)},
};

static command_line line = {
    .program = "kolo-perf-compression",
    .before = "Usage: kolorun -n RANKS kolo-perf-compression [OPTION]...\n"
              "\n"
              "Sums tensors of f32 by buckets with each compression, and prints what a rank has put into shared memory "
              "in a step, what its machine has sent to others, and how long the slowest rank took: the median of all "
              "steps.\n",
    .options = table,
    .options_count = sizeof(table) / sizeof(table[0]),
    .after = "Example:\n"
             "  kolorun -n 2 kolo-perf-compression -b 64M --share 0.001",
};

/* What one compression takes of a step. */
struct taken {
    double step_ms;    /* of the slowest rank, median */
    double sent_bytes; /* into the segment, by this rank */
    double net_bytes;  /* to other machines, by this one */
};

static int step(kolo_buckets *buckets) {
    int status = 0;
    for (size_t i = options.tensors; status == 0 && i > 0; i--) /* as a backward pass: the last one first */
        status = kolo_bucket_ready(buckets, i - 1);
    const int waited = kolo_bucket_wait(buckets);
    return status == 0 ? waited : status;
}

/* Times the steps; collective. */
static int time_steps(kolo_comm *comm, kolo_buckets *buckets, double *times_ms, struct taken *taken) {
    kolo_stats before = {.stats_bytes = sizeof(before)}, after = {.stats_bytes = sizeof(after)};
    int status = 0;
    for (size_t i = 0; status == 0 && i < WARMUP; i++)
        status = step(buckets);
    if (status == 0)
        status = kolo_comm_stats(comm, &before);
    for (size_t i = 0; status == 0 && i < options.steps; i++) {
        status = kolo_barrier(comm);
        const double begin_ms = now_s() * 1e3;
        if (status == 0)
            status = step(buckets);
        times_ms[i] = now_s() * 1e3 - begin_ms;
    }
    if (status == 0)
        status = kolo_comm_stats(comm, &after);
    if (status == 0)
        status = kolo_allreduce(comm, times_ms, times_ms, options.steps, KOLO_F64, KOLO_MAX);
    if (status != 0)
        return status;
    perf_samples_sort(times_ms, options.steps);
    *taken =
        (struct taken){.step_ms = times_ms[options.steps / 2],
                       .sent_bytes = (double)(after.sent_bytes - before.sent_bytes) / (double)options.steps,
                       .net_bytes = (double)(after.net_sent_bytes - before.net_sent_bytes) / (double)options.steps};
    return 0;
}

static int measure(kolo_comm *comm, kolo_compression kind, const kolo_tensor *tensors, double *times_ms,
                   struct taken *taken) {
    kolo_buckets *buckets;
    kolo_bucket_options bucket_options = KOLO_BUCKET_OPTIONS_INIT;
    bucket_options.op = KOLO_AVG;
    bucket_options.compression = kind;
    bucket_options.compression_share = options.share;
    int status = kolo_bucket_create(comm, tensors, options.tensors, &bucket_options, &buckets);
    if (status != 0)
        return status;
    status = time_steps(comm, buckets, times_ms, taken);
    kolo_bucket_destroy(buckets);
    return status;
}

static FILE *json; /* of rank 0; NULL: not asked for */

static void print(kolo_comm *comm, kolo_compression kind, const struct taken *taken, const struct taken *none) {
    const int ranks = kolo_comm_size(comm), nodes = kolo_comm_nodes(comm);
    if (json)
        fprintf(json,
                "{\"compression\": \"%s\", \"ranks\": %d, \"nodes\": %d, \"bytes\": %zu, \"tensors\": %zu, "
                "\"share\": %g, \"step_ms\": %.6g, \"sent_bytes\": %.0f, \"net_sent_bytes\": %.0f}\n",
                kolo_name(KOLO_NAME_COMPRESSION, kind), ranks, nodes, options.bytes, options.tensors, options.share,
                taken->step_ms, taken->sent_bytes, taken->net_bytes);
    if (kind == KOLO_COMPRESSION_NONE)
        printf("# %d ranks on %d node%s, %zu tensors of f32 with %zu bytes together; topk sends %g of them\n"
               "%-11s %10s %8s %14s %14s\n",
               ranks, nodes, nodes == 1 ? "" : "s", options.tensors, options.bytes, options.share, "compression",
               "ms / step", "speed", "into segment", "between nodes");
    printf("%-11s %10.3f %7.2fx %14.0f %14.0f\n", kolo_name(KOLO_NAME_COMPRESSION, kind), taken->step_ms,
           none->step_ms / taken->step_ms, taken->sent_bytes, taken->net_bytes);
}

/* Tensors with numbers of every size, as gradients have them. */
static kolo_tensor *make_tensors(int rank) {
    const size_t count = options.bytes / sizeof(float);
    kolo_tensor *tensors = calloc(options.tensors, sizeof(*tensors));
    float *values = malloc(options.bytes);
    if (!tensors || !values || count < options.tensors) {
        fprintf(stderr, "kolo-perf-compression: rank %d: %s\n", rank,
                tensors && values ? "fewer elements than tensors" : "out of memory");
        exit(1);
    }
    uint64_t state = (uint64_t)rank + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        values[i] = ((float)(state >> 40) * 0x1p-23f - 1) * (float)(state >> 32 & 255) * 0x1p-12f;
    }
    for (size_t i = 0; i < options.tensors; i++) {
        const size_t begin = count * i / options.tensors;
        tensors[i] = (kolo_tensor){values + begin, count * (i + 1) / options.tensors - begin};
    }
    return tensors;
}

/* To be called after the last output; says what could not be written. */
static bool is_written(void) {
    bool good = message_unless_written() == 0;
    if (json && fclose(json) != 0)
        good = message_print("cannot write --json '%s': %s", options.json_path, strerror(errno)) == 0;
    return good;
}

int main(int argc, char **argv) {
    static double times_ms[STEPS_MAX];
    kolo_comm *comm;
    struct taken none = {0}, taken;
    line.silent = launched_rank_guess().rank != 0;
    command_line_read(&line, argc, argv);
    int status = kolo_comm_create(&comm, NULL);
    if (status != 0) {
        fprintf(stderr, "kolo-perf-compression: %s\n", kolo_error_message());
        return 1;
    }
    const int rank = kolo_comm_rank(comm);
    kolo_tensor *tensors = make_tensors(rank);
    if (rank == 0 && options.json_path && !(json = fopen(options.json_path, "w"))) {
        fprintf(stderr, "kolo-perf-compression: %s: %s\n", options.json_path, strerror(errno));
        return 1;
    }
    for (kolo_compression kind = KOLO_COMPRESSION_NONE; status == 0 && kind < KOLO_COMPRESSIONS; kind++) {
        status = measure(comm, kind, tensors, times_ms, &taken);
        if (kind == KOLO_COMPRESSION_NONE)
            none = taken;
        if (status == 0 && rank == 0)
            print(comm, kind, &taken, &none);
    }
    if (status != 0)
        fprintf(stderr, "kolo-perf-compression: %s\n", kolo_error_message()); /* which names the rank */
    if (!is_written() && status == 0)
        status = KOLO_ERR_SYSTEM;
    kolo_comm_destroy(comm);
    free(tensors[0].data);
    free(tensors);
    return status != 0;
}
