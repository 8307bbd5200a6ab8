/* The model in place of reduce/: kernels and copies that take time and move nothing, but for small messages, whose
 * bytes are real.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "reduce/copy.h"
#include "reduce/reducer.h"
#include "sim_check.h"
#include "sim_engine.h"
#include "sim_lines.h"
#include "sim_memory.h"
#include "sim_noise.h"
#include "sim_run.h"
#include "sim_team.h"

/* Others go on between pieces of this size, so that what is shared is shared fairly. */
enum { PIECE_BYTES = 32 << 10 };

/* What a piece of work costs. */
typedef struct work {
    double core_ns;
    double shared_end_ns;
} work;

static void do_work(const work *work) {
    const double start_ns = sim_now_ns();
    sim_spend(sim_noise_work_ns(work->core_ns));
    if (work->shared_end_ns > start_ns)
        sim_spend_until(work->shared_end_ns);
}

static void begin(void) {
    sim_noise_pause();
    sim_line_settle();
}

/* A size that is wrong would keep the model busy for very long. */
static bool fits(const void *address, size_t bytes) {
    if (sim_memory_fits(address, bytes))
        return true;
    sim_run_fault("leaves its slot or buffer");
    return false;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void copy(uint8_t *dst, const uint8_t *src, size_t bytes, bool stream) {
    if (bytes == 0 || !fits(dst, bytes) || !fits(src, bytes))
        return;
    begin();
    sim_check_read(src, bytes);
    sim_check_write(dst, bytes);
    if (sim_team_is_real(dst, bytes) && sim_team_is_real(src, bytes))
        memmove(dst, src, bytes);
    sim_turn();
    sim_spend(sim_memory_latency_ns(src));
    for (size_t done = 0, part; done < bytes; done += part) {
        sim_turn();
        part = smaller(bytes - done, PIECE_BYTES);
        work work = {0};
        work.core_ns = sim_memory_read(src + done, part, &work.shared_end_ns);
        work.core_ns += stream ? sim_memory_stream(dst + done, part, &work.shared_end_ns)
                               : sim_memory_write(dst + done, part, &work.shared_end_ns);
        do_work(&work);
    }
}

void kolo_copy(void *dst, const void *src, size_t bytes) {
    copy(dst, src, bytes, false);
}

void kolo_copy_stream(void *dst, const void *src, size_t bytes, const void *next) {
    (void)next; /* reading and writing at once is not modelled */
    copy(dst, src, bytes, true);
}

static void check_sources(const void *const *sources, uint32_t n, size_t bytes, void *dst, size_t dst_bytes) {
    for (uint32_t i = 0; i < n; i++)
        sim_check_read(sources[i], bytes);
    sim_check_write(dst, dst_bytes);
}

/* A fold of the whole message from as many sources as there are ranks has all their inputs as its sources. */
static void check_inputs(const void *const *sources, uint32_t n, size_t bytes) {
    const bool is_whole = n == sim_run_ranks() && bytes == sim_run_bytes();
    for (uint32_t rank = 0; is_whole && rank < n; rank++)
        sim_check_input(sources[rank], bytes, rank, sim_run_call());
}

/* The first line of each source has to come; they overlap. */
static double latency_ns(const void *const *sources, uint32_t n) {
    double latency_ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double one_ns = sim_memory_latency_ns(sources[i]);
        latency_ns = one_ns > latency_ns ? one_ns : latency_ns;
    }
    return latency_ns;
}

/* n inputs of `bytes` each become `dst_bytes`, in `second`, too, unless that is NULL. Arithmetic and memory overlap. */
static void fold_to(void *dst, void *second, const void *const *sources, uint32_t n, size_t bytes, size_t dst_bytes) {
    const sim_machine *machine = sim_run_machine();
    bool possible = bytes > 0 && fits(dst, dst_bytes) && (!second || fits(second, dst_bytes));
    for (uint32_t i = 0; i < n && possible; i++)
        possible = fits(sources[i], bytes);
    if (!possible)
        return;
    begin();
    check_sources(sources, n, bytes, dst, dst_bytes);
    if (second)
        sim_check_write(second, dst_bytes);
    sim_turn();
    sim_spend(latency_ns(sources, n));
    for (size_t done = 0, part; done < bytes; done += part) {
        sim_turn();
        part = smaller(bytes - done, PIECE_BYTES);
        const size_t dst_done = done * dst_bytes / bytes, dst_part = part * dst_bytes / bytes;
        work work = {0};
        for (uint32_t i = 0; i < n; i++)
            work.core_ns += sim_memory_read((const uint8_t *)sources[i] + done, part, &work.shared_end_ns);
        work.core_ns += sim_memory_write((uint8_t *)dst + dst_done, dst_part, &work.shared_end_ns);
        if (second)
            work.core_ns += sim_memory_write((uint8_t *)second + dst_done, dst_part, &work.shared_end_ns);
        const double fold_ns = n * machine->load_ns + (double)n * (double)part / machine->fold_gbps;
        work.core_ns = work.core_ns > fold_ns ? work.core_ns : fold_ns;
        do_work(&work);
    }
}

static void fold(void *dst, const void *const *sources, uint32_t n, size_t bytes, size_t dst_bytes) {
    fold_to(dst, NULL, sources, n, bytes, dst_bytes);
}

/* An accumulation type's partial result and a source of the dtype become another partial result, or a final one. */
static void chain(void *dst, const void *partial, size_t partial_bytes, const void *source, size_t source_bytes,
                  size_t dst_bytes) {
    const void *sources[] = {partial, source};
    if (partial_bytes == source_bytes) {
        fold(dst, sources, 2, source_bytes, dst_bytes);
        return;
    }
    if (dst_bytes == 0 || !fits(dst, dst_bytes) || !fits(partial, partial_bytes) || !fits(source, source_bytes))
        return;
    begin();
    sim_check_read(partial, partial_bytes);
    check_sources(&sources[1], 1, source_bytes, dst, dst_bytes);
    sim_turn();
    sim_spend(latency_ns(sources, 2));
    work work = {0};
    work.core_ns = sim_memory_read(partial, partial_bytes, &work.shared_end_ns) +
                   sim_memory_read(source, source_bytes, &work.shared_end_ns) +
                   sim_memory_write(dst, dst_bytes, &work.shared_end_ns);
    do_work(&work);
}

/* The library's kernels do not say what they are called for, so there is one for each pair of sizes: of an element and
 * of one of the accumulation type. */
#define SIM_ELEMENT_BYTES 1
#define SIM_ACC_BYTES     1
#define SIM_NAME(verb)    verb##_1
#include "sim_reduce_template.h"

#define SIM_ELEMENT_BYTES 2
#define SIM_ACC_BYTES     2
#define SIM_NAME(verb)    verb##_2
#include "sim_reduce_template.h"

#define SIM_ELEMENT_BYTES 2
#define SIM_ACC_BYTES     4
#define SIM_NAME(verb)    verb##_2_4
#include "sim_reduce_template.h"

#define SIM_ELEMENT_BYTES 4
#define SIM_ACC_BYTES     4
#define SIM_NAME(verb)    verb##_4
#include "sim_reduce_template.h"

#define SIM_ELEMENT_BYTES 8
#define SIM_ACC_BYTES     8
#define SIM_NAME(verb)    verb##_8
#include "sim_reduce_template.h"

static const kolo_kernel *kernel_of(kolo_dtype dtype) {
    if (dtype == KOLO_F16 || dtype == KOLO_BF16)
        return &kernel_2_4;
    switch (kolo_dtype_bytes(dtype)) {
    case 1:
        return &kernel_1;
    case 2:
        return &kernel_2;
    case 4:
        return &kernel_4;
    default:
        return &kernel_8;
    }
}

const kolo_reducer *kolo_reducer_select(uint32_t features) {
    static kolo_reducer reducer = {.name = "model"};
    (void)features;
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; op < KOLO_OPS; op++)
            reducer.kernels[dtype][op] = *kernel_of((kolo_dtype)dtype);
    }
    return &reducer;
}
