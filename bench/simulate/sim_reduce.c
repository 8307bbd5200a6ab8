/* The model in place of reduce/: kernels and copies that take time and move nothing, but for small messages, whose
 * bytes are real. */
#include <math.h>
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

/* A size that is wrong would keep the model busy for very long. */
static bool fits(const void *address, size_t bytes) {
    if (sim_memory_fits(address, bytes))
        return true;
    sim_run_fail("copy or kernel", "leaves its slot or buffer");
    return false;
}

/* What a core reads or writes in one go. */
typedef struct block {
    const uint8_t *address;
    size_t bytes;
    sim_access access;
} block;

/* The first line of each source has to come; they overlap. */
static double latency_ns(const block *blocks, uint32_t count) {
    double latency_ns = 0;
    for (uint32_t i = 0; i < count; i++)
        if (blocks[i].access == SIM_READ)
            latency_ns = fmax(latency_ns, sim_memory_latency_ns(blocks[i].address));
    return latency_ns;
}

/* Sources and results, side by side from their beginnings to their ends. Arithmetic, where it `folds`, and memory
 * overlap. */
static void pass(const block *blocks, uint32_t count, bool folds) {
    const sim_machine *machine = sim_run_asked()->machine;
    const size_t whole = blocks[0].bytes;
    for (uint32_t i = 0; i < count; i++)
        if (blocks[i].bytes == 0 || !fits(blocks[i].address, blocks[i].bytes))
            return;
    sim_pause();
    sim_line_settle();
    for (uint32_t i = 0; i < count; i++)
        (blocks[i].access == SIM_READ ? sim_check_read : sim_check_write)(blocks[i].address, blocks[i].bytes);
    sim_turn();
    sim_spend(latency_ns(blocks, count));
    for (size_t done = 0, part; done < whole; done += part) {
        double core_ns = 0, shared_end_ns = 0, fold_ns = 0;
        sim_turn();
        part = whole - done < PIECE_BYTES ? whole - done : PIECE_BYTES;
        for (uint32_t i = 0; i < count; i++) {
            const block *of = &blocks[i];
            const size_t bytes = part * of->bytes / whole;
            core_ns += sim_memory_access(of->access, of->address + done * of->bytes / whole, bytes, &shared_end_ns);
            if (folds && of->access == SIM_READ)
                fold_ns += machine->load_ns + (double)bytes / machine->fold_gbps;
        }
        sim_work(fmax(core_ns, fold_ns));
        sim_spend_until(shared_end_ns);
    }
}

static void copy(uint8_t *dst, const uint8_t *src, size_t bytes, sim_access access) {
    const block blocks[] = {{src, bytes, SIM_READ}, {dst, bytes, access}};
    if (sim_team_is_real(dst, bytes) && sim_team_is_real(src, bytes))
        memmove(dst, src, bytes);
    pass(blocks, 2, false);
}

void kolo_copy(void *dst, const void *src, size_t bytes) {
    copy(dst, src, bytes, SIM_WRITE);
}

void kolo_copy_stream(void *dst, const void *src, size_t bytes, const void *next) {
    (void)next; /* reading and writing at once is not modelled */
    copy(dst, src, bytes, SIM_STREAM);
}

/* Which core has a line last is not modelled. */
kolo_atomic_u64 kolo_recalls;

void kolo_recall(const void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}

void kolo_take(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}

void kolo_copy_take(void *dst, void *src, size_t bytes, bool streams) {
    copy(dst, src, bytes, streams ? SIM_STREAM : SIM_WRITE);
}

/* A fold of the whole message from as many sources as there are ranks has all their inputs as its sources. */
static void check_inputs(const void *const *sources, uint32_t n, size_t bytes) {
    const bool is_whole = n == sim_run_asked()->ranks && bytes == sim_run_bytes();
    for (uint32_t rank = 0; is_whole && rank < n; rank++)
        sim_check_input(sources[rank], bytes, rank, sim_run_call());
}

/* n inputs of `bytes` each become `dst_bytes`, in `second`, too, unless that is NULL. */
static void fold_to(void *dst, void *second, const void *const *sources, uint32_t n, size_t bytes, size_t dst_bytes) {
    block blocks[KOLO_RANKS_MAX + 2];
    for (uint32_t i = 0; i < n; i++)
        blocks[i] = (block){sources[i], bytes, SIM_READ};
    blocks[n] = (block){dst, dst_bytes, SIM_WRITE};
    blocks[n + 1] = (block){second, dst_bytes, SIM_WRITE};
    pass(blocks, second ? n + 2 : n + 1, true);
}

/* A partial result and a source of the dtype become another partial result, or a final one. */
static void chain_to(void *dst, size_t dst_bytes, const void *partial, const void *source, size_t count) {
    const block blocks[] = {
        {partial, count * acc_bytes, SIM_READ}, {source, count * element_bytes, SIM_READ}, {dst, dst_bytes, SIM_WRITE}};
    pass(blocks, 3, true);
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
