#include "fault_family.h"

#include <stdint.h>
#include <string.h>

#include "kolo_tools.h"
#include "collective_shapes.h"
#include "fault_memory.h"
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
    if (!kolo_collective_has_op(what->collective))
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
    return kolo_collective_has_op(what->collective) && collective_inputs(what->collective, 0, 2) < 2;
}

/* With a root, lines are for two ranks. Of several nodes one waits in a scan only for those before it. */
bool family_is_one_way(const struct fault_case *what) {
    const collective_shape *shape = &collective_shapes[what->collective];
    if (is_scan(what))
        return what->nodes > 0 || what->count * sizeof(int32_t) <= KOLO_LINES_BYTES_MAX;
    return shape->sent_by_root || shape->taken_by_root;
}

bool family_waits(const struct fault_case *what, int rank, int peer) {
    if (is_scan(what))
        return what->nodes ? case_node(what, peer) <= case_node(what, rank) : peer <= rank;
    return (collective_shapes[what->collective].sent_by_root ? peer : rank) == what->root;
}
