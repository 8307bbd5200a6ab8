/* Both sums go over one array in turns, a sample each of some milliseconds; the fastest sample of each counts. The
 * plain one keeps eight vectors of sums, of the widest registers that the machine has. */
#include "perf_modes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_exact.h"
#include "now.h"
#include "perf_progress.h"

enum { SUMS = 8, SAMPLES = 15, SAMPLE_BYTES = 64 << 20 };

#define PLAIN_SUM(name, type, bytes_of_vector, attribute)                                                              \
    attribute static double name(const void *values, size_t bytes) {                                                   \
        typedef type row __attribute__((vector_size(bytes_of_vector)));                                                \
        row sums[SUMS] = {{0}}, loaded;                                                                                \
        type total = 0;                                                                                                \
        for (size_t at = 0; at < bytes; at += sizeof(sums))                                                            \
            for (size_t i = 0; i < SUMS; i++) {                                                                        \
                memcpy(&loaded, (const char *)values + at + i * sizeof(loaded), sizeof(loaded));                       \
                sums[i] += loaded;                                                                                     \
            }                                                                                                          \
        for (size_t i = 0; i < SUMS; i++)                                                                              \
            for (size_t element = 0; element < sizeof(loaded) / sizeof(type); element++)                               \
                total += sums[i][element];                                                                             \
        return (double)total;                                                                                          \
    }

#define FOR_ALL
PLAIN_SUM(base_f32, float, 16, FOR_ALL)
PLAIN_SUM(base_f64, double, 16, FOR_ALL)
#if defined(__x86_64__)
PLAIN_SUM(avx2_f32, float, 32, __attribute__((target("avx2"))))
PLAIN_SUM(avx2_f64, double, 32, __attribute__((target("avx2"))))
PLAIN_SUM(avx512_f32, float, 64, __attribute__((target("avx512f"))))
PLAIN_SUM(avx512_f64, double, 64, __attribute__((target("avx512f"))))
#endif

typedef double plain_sum(const void *values, size_t bytes);

static plain_sum *widest(kolo_dtype dtype) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return dtype == KOLO_F64 ? avx512_f64 : avx512_f32;
    if (__builtin_cpu_supports("avx2"))
        return dtype == KOLO_F64 ? avx2_f64 : avx2_f32;
#endif
    return dtype == KOLO_F64 ? base_f64 : base_f32;
}

/* Numbers of either sign, near 1: sums of many normal ones, more or less. */
static void fill(void *values, kolo_dtype dtype, size_t bytes) {
    uint64_t state = 1;
    for (size_t i = 0; i < bytes / kolo_dtype_bytes(dtype); i++) {
        double sum = 0;
        for (int part = 0; part < 4; part++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            sum += (double)(int64_t)state * 0x1p-63;
        }
        if (dtype == KOLO_F64)
            ((double *)values)[i] = sum;
        else
            ((float *)values)[i] = (float)sum;
    }
}

/* Bytes per ns, of the fastest sample each. */
static int measure(kolo_exact *exact, kolo_dtype dtype, const void *values, size_t bytes, double rates[2]) {
    const size_t rounds = bytes < SAMPLE_BYTES ? SAMPLE_BYTES / bytes : 1, count = bytes / kolo_dtype_bytes(dtype);
    plain_sum *const plain = widest(dtype);
    volatile double kept = 0;
    rates[0] = rates[1] = 0;
    for (int sample = 0; sample < 2 * SAMPLES; sample++) {
        int status = KOLO_OK;
        const double begin = now_s();
        for (size_t i = 0; i < rounds && status == KOLO_OK; i++) {
            if (sample % 2)
                status = kolo_exact_add(exact, 0, 1, values, count);
            else
                kept = kept + plain(values, bytes);
        }
        const double rate = (double)(rounds * bytes) / (now_s() - begin) * 1e-9;
        if (status != KOLO_OK)
            return status;
        if (rate > rates[sample % 2])
            rates[sample % 2] = rate;
    }
    return KOLO_OK;
}

static int report_dtype(const perf_options *options, kolo_dtype dtype, void *values) {
    perf_sizes sizes = {.unit_bytes = SUMS * 64};
    kolo_exact *exact = NULL;
    int status = kolo_exact_create(&exact, dtype, 1);
    fill(values, dtype, perf_sizes_max_bytes(options, sizes.unit_bytes));
    while (status == KOLO_OK && perf_sizes_next(&sizes, options)) {
        double rates[2];
        if (sizes.bytes == 0)
            continue;
        perf_progress_row("exact", sizes.bytes);
        status = measure(exact, dtype, values, sizes.bytes, rates);
        perf_progress_erase();
        if (status == KOLO_OK)
            printf("%12zu %6s %12.2f %12.2f %8.2f\n", sizes.bytes, kolo_name(KOLO_NAME_DTYPE, dtype), rates[0],
                   rates[1], rates[1] / rates[0]);
        fflush(stdout);
    }
    kolo_exact_destroy(exact);
    return status;
}

int perf_exact_report(const perf_options *options, int ranks) {
    (void)ranks;
    const size_t bytes = perf_sizes_max_bytes(options, SUMS * 64);
    void *values = aligned_alloc(64, bytes + 64 - bytes % 64);
    int status = KOLO_OK;
    if (values == NULL) {
        fprintf(stderr, "kolo-perf: out of memory for %zu bytes; use a smaller --max\n", bytes);
        return EXIT_FAILURE;
    }
    printf("# kolo-perf exact: kolo_exact_add beside a plain vectorized sum of the same\n"
           "#   array, one thread\n");
    printf("%12s %6s %12s %12s %8s\n", "bytes", "dtype", "plain GB/s", "exact GB/s", "ratio");
    for (kolo_dtype dtype = KOLO_F32; dtype <= KOLO_F64; dtype++)
        perf_progress_expect(options, SUMS * 64);
    for (kolo_dtype dtype = KOLO_F32; dtype <= KOLO_F64 && status == KOLO_OK; dtype++)
        status = report_dtype(options, dtype, values);
    if (status != KOLO_OK)
        fprintf(stderr, "kolo-perf: %s\n", kolo_error_message());
    free(values);
    return status == KOLO_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
