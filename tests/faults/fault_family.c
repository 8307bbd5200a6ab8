#include "fault_family.h"

#include <stdint.h>
#include <string.h>

#include "collective_shapes.h"
#include "fault_memory.h"
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
    const int end = what->collective == KOLO_SCAN ? self + 1 : what->collective == KOLO_EXSCAN ? self : what->ranks;
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
    if ((shape->taken_by_root && self != what->root) || (what->collective == KOLO_EXSCAN && self == 0))
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
    const int root = what->root;
    switch (what->collective) {
    case KOLO_ALLGATHERV:
        return kolo_allgatherv(comm, send, recv, taken.counts, NULL, KOLO_I32);
    case KOLO_REDUCE:
        return kolo_reduce(comm, send, recv, count, KOLO_I32, KOLO_SUM, root);
    case KOLO_REDUCE_SCATTER:
        return kolo_reduce_scatter(comm, send, recv, count, KOLO_I32, KOLO_SUM);
    case KOLO_REDUCE_SCATTERV:
        return kolo_reduce_scatterv(comm, send, recv, sent.counts, KOLO_I32, KOLO_SUM);
    case KOLO_GATHER:
        return kolo_gather(comm, send, recv, count, KOLO_I32, root);
    case KOLO_GATHERV:
        return kolo_gatherv(comm, send, sent.counts[root], recv, taken.counts, NULL, KOLO_I32, root);
    case KOLO_SCATTER:
        return kolo_scatter(comm, send, recv, count, KOLO_I32, root);
    case KOLO_SCATTERV:
        return kolo_scatterv(comm, send, sent.counts, NULL, recv, taken.counts[root], KOLO_I32, root);
    case KOLO_ALLTOALL:
        return kolo_alltoall(comm, send, recv, count, KOLO_I32);
    case KOLO_ALLTOALLV:
        return kolo_alltoallv(comm, send, sent.counts, NULL, recv, taken.counts, NULL, KOLO_I32);
    case KOLO_ALLREDUCE_APPLY:
        return family_apply(comm, send, recv, count);
    case KOLO_SCAN:
        return kolo_scan(comm, send, recv, count, KOLO_I32, KOLO_SUM);
    case KOLO_ALLREDUCE_MANY:
        memcpy(recv, send, count * sizeof *recv);
        return kolo_allreduce_many(comm, (kolo_tensor[]){{recv + count / 3, count - count / 3}, {recv, count / 3}}, 2,
                                   KOLO_I32, KOLO_SUM);
    default:
        return kolo_exscan(comm, send, recv, count, KOLO_I32, KOLO_SUM);
    }
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
    return what->collective == KOLO_SCAN || what->collective == KOLO_EXSCAN;
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
