#include "fault_calls.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kolo_fusion.h"
#include "kolo_optimizer.h"
#include "kolo_tools.h"
#include "collective_shapes.h"
#include "named_call.h"
#include "plan/plan.h"

struct blocks {
    size_t counts[FAMILY_RANKS_MAX], offsets[FAMILY_RANKS_MAX];
};

/* Elements that rank `from` has for rank `to`. */
static size_t block_count(const struct fault_case *what, int from, int to) {
    const collective_shape *shape = &collective_shapes[what->collective];
    const int shorter = (shape->sends_blocks ? to : 0) + (shape->takes_blocks ? from : 0);
    return what->count - (shape->counted ? (size_t)shorter : 0);
}

static struct blocks lay_out(const struct fault_case *what, int rank, bool sends) {
    struct blocks blocks = {.counts = {0}};
    size_t end = 0;
    for (int peer = 0; peer < what->ranks; peer++) {
        blocks.offsets[peer] = end;
        blocks.counts[peer] = sends ? block_count(what, rank, peer) : block_count(what, peer, rank);
        end += blocks.counts[peer];
    }
    return blocks;
}

/* Element `index` of what `rank` sends: to that rank, or to all as if to rank 0. */
static int32_t value_of(int rank, int to, int step, size_t index) {
    return (rank + 1) * (step + 10) + 1000 * to + (int32_t)(index % 97);
}

/* Element `index` of what `self` must receive from `from`, or as a sum. */
static int32_t wanted(const struct fault_case *what, int self, int from, int step, size_t index) {
    const int to = collective_shapes[what->collective].sends_blocks ? self : 0;
    const int end = collective_inputs(what->collective, self, what->ranks);
    int32_t sum = 0;
    if (!(kolo_collective_has(what->collective) & KOLO_HAS_OP))
        return value_of(from, to, step, index);
    for (int rank = 0; rank < end; rank++)
        sum += value_of(rank, to, step, index);
    return sum;
}

static bool is_right(const struct fault_case *what, int self, int step, const int32_t *recv) {
    const collective_shape *shape = &collective_shapes[what->collective];
    const struct blocks taken = lay_out(what, self, false);
    if ((shape->taken_by_root && self != what->root) || collective_inputs(what->collective, self, what->ranks) == 0)
        return true; /* there is no result */
    for (int block = 0; block < (shape->takes_blocks ? what->ranks : 1); block++) {
        const int from = shape->takes_blocks ? block : what->root;
        for (size_t i = 0; i < taken.counts[from]; i++)
            if (recv[(shape->takes_blocks ? taken.offsets[block] : 0) + i] != wanted(what, self, from, step, i))
                return false;
    }
    return true;
}

static void take_sums(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)context;
    (void)first;
    memcpy(parameters, gradients, count * sizeof(int32_t));
}

int family_apply(kolo_comm *comm, const int32_t *gradients, int32_t *parameters, size_t count) {
    return kolo_allreduce_apply(comm, gradients, parameters, count, KOLO_I32, KOLO_SUM, take_sums, NULL);
}

static int make_call(kolo_comm *comm, const struct fault_case *what, int rank, const int32_t *send, int32_t *recv) {
    const struct blocks sent = lay_out(what, rank, true), taken = lay_out(what, rank, false);
    const size_t count = what->count;
    const kolo_tensor tensors[] = {{recv + count / 3, count - count / 3}, {recv, count / 3}};
    if (what->collective == KOLO_ALLREDUCE_MANY)
        memcpy(recv, send, count * sizeof *recv);
    return named_call_make(comm, &(kolo_call){.collective = what->collective,
                                              .dtype = KOLO_I32,
                                              .op = KOLO_SUM,
                                              .root = what->root,
                                              .send = send,
                                              .recv = recv,
                                              .count = what->collective == KOLO_GATHERV    ? sent.counts[what->root]
                                                       : what->collective == KOLO_SCATTERV ? taken.counts[what->root]
                                                                                           : count,
                                              .send_counts = sent.counts,
                                              .recv_counts = taken.counts,
                                              .tensors = tensors,
                                              .ntensors = 2,
                                              .function = take_sums});
}

int family_call(kolo_comm *comm, const struct fault_case *what, int rank, int step, bool *is_wrong) {
    static int32_t send[FAMILY_RANKS_MAX * CASE_COUNT_MAX], recv[FAMILY_RANKS_MAX * CASE_COUNT_MAX];
    const bool sends_blocks = collective_shapes[what->collective].sends_blocks;
    const struct blocks sent = lay_out(what, rank, true);
    for (int to = 0; to < (sends_blocks ? what->ranks : 1); to++)
        for (size_t i = 0; i < sent.counts[to]; i++)
            send[(sends_blocks ? sent.offsets[to] : 0) + i] = value_of(rank, to, step, i);
    const int status = make_call(comm, what, rank, send, recv);
    *is_wrong |= status == 0 && !is_right(what, rank, step, recv);
    memory_give_back(status, send, sizeof send / sizeof *send);
    memory_give_back(status, recv, sizeof recv / sizeof *recv);
    return status;
}

static bool is_scan(const struct fault_case *what) {
    return kolo_collective_has(what->collective) & KOLO_HAS_OP && collective_inputs(what->collective, 0, 2) < 2;
}

/* With a root, lines are for two ranks. Of several nodes one waits in a scan only for those before it. */
bool family_is_one_way(const struct fault_case *what) {
    const collective_shape *shape = &collective_shapes[what->collective];
    if (is_scan(what))
        return what->nodes > 0 || what->count * sizeof(int32_t) <= kolo_lines_bytes_max((uint32_t)what->ranks);
    return shape->sent_by_root || shape->taken_by_root;
}

bool family_waits(const struct fault_case *what, int rank, int peer) {
    if (is_scan(what))
        return what->nodes ? case_node(what, peer) <= case_node(what, rank) : peer <= rank;
    return (collective_shapes[what->collective].sent_by_root ? peer : rank) == what->root;
}

/* What SCRIPT_SHARE shares, and rubbish. */

enum { RUBBISH = 0x5a5a5a5a, GIVEN_BACK_MAX = 16 };

static struct {
    const int32_t *buffer;
    size_t count;
} given_back[GIVEN_BACK_MAX];
static int buffers;

int memory_share(kolo_comm *comm, int rank, int32_t count, int32_t **buffer, bool *is_wrong) {
    const size_t bytes = (size_t)count * sizeof **buffer;
    int32_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    for (int32_t i = 0; i < count; i++)
        memory[i] = i * 3 + rank;
    const int status = kolo_share(comm, memory, bytes);
    for (int32_t i = 0; i < count; i++)
        *is_wrong |= memory[i] != i * 3 + rank;
    if (status == 0)
        *buffer = memory;
    return status;
}

void memory_give_back(int status, int32_t *buffer, size_t count) {
    for (size_t i = 0; i < count; i++)
        buffer[i] = RUBBISH;
    if (status == 0)
        return;
    if (buffers == GIVEN_BACK_MAX)
        abort();
    given_back[buffers].buffer = buffer;
    given_back[buffers++].count = count;
}

bool memory_was_written(void) {
    for (int which = 0; which < buffers; which++)
        for (size_t i = 0; i < given_back[which].count; i++)
            if (given_back[which].buffer[i] != RUBBISH)
                return true;
    return false;
}

static float sum_at(const struct training_step *call, size_t index) {
    int32_t sum = 0;
    for (int rank = 0; rank < call->what->ranks; rank++)
        sum += case_value(rank, call->step, index);
    return (float)sum;
}

static void fill(const struct training_step *call) {
    for (size_t i = 0; i < call->what->count; i++)
        call->data[i] = (float)case_value(call->rank, call->step, i);
}

static void note_message(const struct training_step *call, int status) {
    snprintf(call->said, BOARD_TEXT_BYTES, "%s", status < 0 ? kolo_error_message() : "");
}

/* Nothing is lost of such numbers in F16, nor by TOPK, which sends all. */
int training_compressed(const struct training_step *call) {
    const size_t count = call->what->count;
    const kolo_tensor tensors[] = {{call->data, count / 3}, {call->data + count / 3, count - count / 3}};
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    kolo_buckets *buckets;
    options.op = KOLO_SUM;
    options.bucket_bytes = 1;
    options.keep_order = 1;
    options.compression = call->what->compression;
    options.compression_share = 1;
    fill(call);
    int status = kolo_bucket_create(call->comm, tensors, 2, &options, &buckets);
    if (status < 0)
        return status;
    status = kolo_bucket_ready(buckets, 0);
    if (status == 0)
        status = kolo_bucket_ready(buckets, 1);
    if (status == 0)
        status = kolo_bucket_wait(buckets);
    for (size_t i = 0; status == 0 && i < count; i++)
        *call->is_wrong |= call->data[i] != sum_at(call, i);
    note_message(call, status);
    kolo_bucket_destroy(buckets);
    return status;
}

/* Parameters that were 0 become the sums, negated: all numbers are whole, and small enough for f32. */
int training_optimizer(const struct training_step *call) {
    static float parameters[CASE_COUNT_MAX];
    const size_t count = call->what->count;
    const size_t ends[] = {count / 3, count};
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    kolo_optimizer *optimizer;
    options.kind = KOLO_OPTIMIZER_SGD;
    options.count = group.end = count;
    options.segments = ends;
    options.nsegments = 2;
    options.op = KOLO_SUM;
    options.clip_norm = call->step == case_calls(call->what) ? 1e30 : 0;
    group.learning_rate = 1;
    fill(call);
    for (size_t i = 0; i < count; i++)
        parameters[i] = 0;
    int status = kolo_optimizer_create(call->comm, &options, &group, 1, &optimizer);
    if (status < 0)
        return status;
    status = kolo_optimizer_begin_segment(optimizer, 0, call->data, parameters);
    if (status == 0)
        status = kolo_optimizer_step(optimizer, call->data, parameters, NULL);
    for (size_t i = 0; status == 0 && i < count; i++)
        *call->is_wrong |= parameters[i] != -sum_at(call, i);
    note_message(call, status);
    kolo_optimizer_destroy(optimizer);
    return status;
}
