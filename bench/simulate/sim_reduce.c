/* The model in place of reduce/: kernels and copies that take time and move nothing, but for small messages, whose
 * bytes are real. */
#include <string.h>

#include "reduce/copy.h"
#include "reduce/reducer.h"
#include "sim_check.h"
#include "sim_engine.h"
#include "sim_lines.h"
#include "sim_memory.h"
#include "sim_run.h"

/* Others go on between pieces of this size, so that what is shared is shared fairly. */
enum { PIECE_BYTES = 32 << 10 };

/* Of an element and of the accumulation type. The library's kernels do not say what they are called for, but a run has
 * one dtype. */
static size_t element_bytes, acc_bytes;

/* What a piece of work costs. */
typedef struct work {
    double core_ns;
    double shared_end_ns;
} work;

static void do_work(const work *work) {
    const double start_ns = sim_now_ns();
    sim_work(work->core_ns);
    if (work->shared_end_ns > start_ns)
        sim_spend_until(work->shared_end_ns);
}

static void begin(void) {
    sim_pause();
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
        work.core_ns = sim_memory_access(SIM_READ, src + done, part, &work.shared_end_ns);
        work.core_ns += sim_memory_access(stream ? SIM_STREAM : SIM_WRITE, dst + done, part, &work.shared_end_ns);
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

/* A fold of the whole message from as many sources as there are ranks has all their inputs as its sources. */
static void check_inputs(const void *const *sources, uint32_t n, size_t bytes) {
    const bool is_whole = n == sim_run_asked()->ranks && bytes == sim_run_bytes();
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
    const sim_machine *machine = sim_run_asked()->machine;
    bool possible = bytes > 0 && fits(dst, dst_bytes) && (!second || fits(second, dst_bytes));
    for (uint32_t i = 0; i < n && possible; i++)
        possible = fits(sources[i], bytes);
    if (!possible)
        return;
    begin();
    for (uint32_t i = 0; i < n; i++)
        sim_check_read(sources[i], bytes);
    sim_check_write(dst, dst_bytes);
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
            work.core_ns += sim_memory_access(SIM_READ, (const uint8_t *)sources[i] + done, part, &work.shared_end_ns);
        work.core_ns += sim_memory_access(SIM_WRITE, (uint8_t *)dst + dst_done, dst_part, &work.shared_end_ns);
        if (second)
            work.core_ns += sim_memory_access(SIM_WRITE, (uint8_t *)second + dst_done, dst_part, &work.shared_end_ns);
        const double fold_ns = n * machine->load_ns + (double)n * (double)part / machine->fold_gbps;
        work.core_ns = work.core_ns > fold_ns ? work.core_ns : fold_ns;
        do_work(&work);
    }
}

/* A partial result and a source of the dtype become another partial result, or a final one. */
static void chain_to(void *dst, size_t dst_bytes, const void *partial, const void *source, size_t count) {
    const void *sources[] = {partial, source};
    const size_t partial_bytes = count * acc_bytes, source_bytes = count * element_bytes;
    if (partial_bytes == source_bytes) {
        fold_to(dst, NULL, sources, 2, source_bytes, dst_bytes);
        return;
    }
    if (dst_bytes == 0 || !fits(dst, dst_bytes) || !fits(partial, partial_bytes) || !fits(source, source_bytes))
        return;
    begin();
    sim_check_read(partial, partial_bytes);
    sim_check_read(source, source_bytes);
    sim_check_write(dst, dst_bytes);
    sim_turn();
    sim_spend(latency_ns(sources, 2));
    work work = {0};
    work.core_ns = sim_memory_access(SIM_READ, partial, partial_bytes, &work.shared_end_ns) +
                   sim_memory_access(SIM_READ, source, source_bytes, &work.shared_end_ns) +
                   sim_memory_access(SIM_WRITE, dst, dst_bytes, &work.shared_end_ns);
    do_work(&work);
}

static void fold(void *dst, const void *const *sources, uint32_t n, size_t count, uint32_t ranks) {
    (void)ranks;
    check_inputs(sources, n, count * element_bytes);
    fold_to(dst, NULL, sources, n, count * element_bytes, count * element_bytes);
}

static void fold_to_both(void *dst, void *second, const void *const *sources, size_t count, uint32_t ranks) {
    (void)ranks;
    check_inputs(sources, 2, count * element_bytes);
    fold_to(dst, second, sources, 2, count * element_bytes, count * element_bytes);
}

static void chain(void *acc_out, const void *acc_in, const void *source, size_t count) {
    chain_to(acc_out, count * acc_bytes, acc_in, source, count);
}

static void chain_end(void *dst, const void *acc_in, const void *source, size_t count, uint32_t ranks) {
    (void)ranks;
    chain_to(dst, count * element_bytes, acc_in, source, count);
}

static void widen(void *acc_out, const void *source, size_t count) {
    fold_to(acc_out, NULL, &source, 1, count * element_bytes, count * acc_bytes);
}

static void fold_partial(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {
    check_inputs(sources, n, count * element_bytes);
    fold_to(acc_dst, NULL, sources, n, count * element_bytes, count * acc_bytes);
}

static void fold_partials(void *acc_dst, const void *const *acc_sources, uint32_t n, size_t count) {
    fold_to(acc_dst, NULL, acc_sources, n, count * acc_bytes, count * acc_bytes);
}

static void finish(void *dst, const void *const *acc_sources, uint32_t n, size_t count, uint32_t ranks) {
    (void)ranks;
    fold_to(dst, NULL, acc_sources, n, count * acc_bytes, count * element_bytes);
}

const kolo_reducer *kolo_reducer_select(uint32_t features) {
    static kolo_reducer reducer = {.name = "model"};
    const kolo_dtype dtype = sim_run_asked()->dtype;
    (void)features;
    element_bytes = kolo_dtype_bytes(dtype);
    acc_bytes = sim_acc_bytes(dtype);
    for (int op = 0; op < KOLO_OPS; op++)
        reducer.kernels[dtype][op] = (kolo_kernel){.fold = fold,
                                                   .fold_to_both = fold_to_both,
                                                   .chain = chain,
                                                   .chain_end = chain_end,
                                                   .widen = widen,
                                                   .fold_partial = fold_partial,
                                                   .fold_partials = fold_partials,
                                                   .finish = finish,
                                                   .element_bytes = (uint32_t)element_bytes,
                                                   .acc_bytes = (uint32_t)acc_bytes};
    return &reducer;
}
