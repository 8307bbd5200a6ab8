/* Collectives as values: kolo_call_make and kolo_start do what the function of the collective does, bit by bit; take
 * structs of other versions of the library; and refuse what is no collective. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "named_call.h"
#include "reference.h"

enum { COUNT_WRONG = 4 << 20 };

/* A function that leaves what it has been given, and counts. */
static void take_sums(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)first;
    *(size_t *)context += count;
    memcpy(parameters, gradients, count * sizeof(float));
}

static int make(kolo_comm *comm, const kolo_call *call, bool in_background) {
    kolo_request *request = NULL;
    if (!in_background)
        return kolo_call_make(comm, call);
    const int status = kolo_start(comm, call, &request);
    return status < 0 ? status : kolo_request_wait(request);
}

/* Gives values that make no sense to fields that the collective does not have: they are not read. */
static void fill_others(kolo_call *call, const collective_shape *kind) {
    static const size_t wrong[] = {SIZE_MAX};
    const bool is_list = kind->collective == KOLO_ALLREDUCE_MANY, is_barrier = kind->collective == KOLO_BARRIER;
    if (!kind->reduces)
        call->op = (kolo_op)99;
    if (!kind->has_root)
        call->root = -5;
    if (is_list || is_barrier || (kind->counted && !kind->has_root))
        call->count = COUNT_WRONG;
    if (is_list || is_barrier || kind->collective == KOLO_BROADCAST)
        call->send = wrong;
    if (is_list || is_barrier)
        call->recv = NULL;
    if (!kind->counted || !kind->sends_blocks)
        call->send_counts = call->send_offsets = wrong;
    if (!kind->counted || !kind->takes_blocks)
        call->recv_counts = call->recv_offsets = wrong;
    if (!is_list) {
        call->tensors = NULL;
        call->ntensors = SIZE_MAX;
    }
}

/* Every collective, compared with the reference with which others compare the functions. */
static void make_each(struct rank *rank) {
    static const size_t counts[] = {1, 55, 0, 300, 1025};
    kolo_stats stats = {.stats_bytes = sizeof stats};
    for (uint32_t index = 0; index < COLLECTIVES * 5 * 2; index++) {
        const collective_shape *kind = &collective_shapes[index % COLLECTIVES];
        const struct call call = {index,
                                  kind,
                                  index % 4 ? KOLO_F32 : KOLO_I64,
                                  index % 3 ? KOLO_SUM : KOLO_MAX,
                                  (int)(index % (uint32_t)rank->ranks),
                                  counts[index / COLLECTIVES % 5],
                                  index % 7 == 0 && works_in_place(kind),
                                  NULL,
                                  NULL,
                                  0};
        struct prepared prepared;
        call_prepare(&prepared, &call, rank->comm);
        kolo_call value = call_value(&prepared);
        fill_others(&value, kind);
        if (!call_check(rank, &prepared, make(rank->comm, &value, index >= COLLECTIVES * 5)))
            return;
    }
    kolo_comm_stats(rank->comm, &stats);
    expect(rank, stats.payload_bytes < COUNT_WRONG, "calls of %" PRIu64 " bytes in all", stats.payload_bytes);
}

static void apply(struct rank *rank) {
    float gradients[1000], sums[1000], named[1000];
    size_t taken = 0, of_all;
    for (int i = 0; i < 1000; i++)
        gradients[i] = (float)(i * (rank->rank + 1)) / 3;
    kolo_call call = {.call_bytes = sizeof call,
                      .collective = KOLO_ALLREDUCE_APPLY,
                      .dtype = KOLO_F32,
                      .op = KOLO_AVG,
                      .send = gradients,
                      .recv = named,
                      .count = 1000,
                      .function = take_sums,
                      .context = &taken};
    expect_status(rank, named_call_make(rank->comm, &call), 0, "kolo_allreduce_apply");
    of_all = taken;
    for (int in_background = 0; in_background < 2; in_background++) {
        taken = 0;
        call.recv = sums;
        expect_status(rank, make(rank->comm, &call, in_background), 0, "kolo_allreduce_apply as a value");
        expect(rank, taken == of_all, "the function got %zu elements, not %zu", taken, of_all);
        expect(rank, memcmp(sums, named, sizeof sums) == 0, "the function's result is another one");
    }
}

/* Structs as older and newer headers have them: shorter ones do not exist yet, longer ones have zeros. */
static void change_size(struct rank *rank) {
    struct {
        kolo_call known;
        size_t newer;
    } call = {{.call_bytes = sizeof call, .collective = KOLO_BARRIER}, 0};
    expect_status(rank, kolo_call_make(rank->comm, &call.known), 0, "a longer struct");
    call.newer = 1;
    refused(rank, kolo_call_make(rank->comm, &call.known), "kolo_call");
    call.newer = 0;
    for (size_t bytes = 0; bytes < sizeof(kolo_call); bytes += bytes < 16 ? 1 : 8) {
        call.known.call_bytes = bytes;
        refused(rank, kolo_call_make(rank->comm, &call.known), "call_bytes");
    }
    call.known.call_bytes = 5000;
    refused(rank, kolo_call_make(rank->comm, &call.known), "call_bytes");
}

static void refuse(struct rank *rank) {
    static const int none[] = {-1, KOLO_ALLOC, KOLO_FREE, KOLO_SPLIT, KOLO_SEND, KOLO_TABLE, KOLO_COLLECTIVES, 1 << 20};
    static float data[8];
    kolo_request *request = NULL;
    kolo_call call = {.call_bytes = sizeof call, .dtype = KOLO_F32, .send = data, .recv = data, .count = 8};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        call.collective = (kolo_collective)none[i];
        refused(rank, kolo_call_make(rank->comm, &call), "there is no such collective");
        refused(rank, kolo_start(rank->comm, &call, &request), "there is no such collective");
    }
    call.collective = KOLO_ALLREDUCE;
    refused(rank, kolo_call_make(rank->comm, NULL), "kolo_call is NULL");
    refused(rank, kolo_call_make(NULL, &call), "comm is NULL");
    refused(rank, kolo_start(rank->comm, &call, NULL), "request is NULL");
    call.op = KOLO_BAND;
    refused(rank, kolo_call_make(rank->comm, &call), "kolo_allreduce: op band is for integers");
    refused(rank, kolo_start(rank->comm, &call, &request), "kolo_allreduce: op band is for integers");
    call.collective = KOLO_ALLREDUCE_APPLY;
    call.op = KOLO_SUM;
    refused(rank, kolo_call_make(rank->comm, &call), "function is NULL");
    call.collective = KOLO_ALLTOALLV;
    refused(rank, kolo_call_make(rank->comm, &call), "counts of send is NULL");
    /* What a collective does not have is not read. */
    call = (kolo_call){.call_bytes = sizeof call,
                       .collective = KOLO_BARRIER,
                       .dtype = (kolo_dtype)99,
                       .op = (kolo_op)99,
                       .root = -5,
                       .send = data,
                       .count = SIZE_MAX};
    expect_status(rank, kolo_call_make(rank->comm, &call), 0, "a barrier with other fields set");
    expect(rank, request == NULL, "a request that was refused was handed out");
}

static void run_all(struct rank *rank) {
    make_each(rank);
    apply(rank);
    change_size(rank);
    refuse(rank);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Makes every collective by kolo_call_make and kolo_start.");
    for (int ranks = 1; ranks <= 5; ranks += 1 + (ranks == 3))
        if (wants_ranks(ranks))
            harness_run(&(struct team){.ranks = ranks, .slot_bytes = 4096, .run = run_all});
    return harness_end();
}
