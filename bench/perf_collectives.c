#include "perf_collectives.h"

#include <stdlib.h>

#include "kolo_fusion.h"
#include "kolo_tools.h"

static int barrier(const perf_call *of) {
    return kolo_barrier(of->comm);
}

static int broadcast(const perf_call *of) {
    return kolo_broadcast(of->comm, of->recv, of->count, of->dtype, of->root);
}

static int allreduce(const perf_call *of) {
    return kolo_allreduce(of->comm, of->send, of->recv, of->count, of->dtype, of->op);
}

static int allreduce_many(const perf_call *of) {
    return kolo_allreduce_many(of->comm, perf_tensors_of(of), (size_t)perf_tensors_count, of->dtype, of->op);
}

static int reduce(const perf_call *of) {
    return kolo_reduce(of->comm, of->send, of->recv, of->count, of->dtype, of->op, of->root);
}

static int reduce_scatter(const perf_call *of) {
    return kolo_reduce_scatter(of->comm, of->send, of->recv, of->count, of->dtype, of->op);
}

static int reduce_scatterv(const perf_call *of) {
    return kolo_reduce_scatterv(of->comm, of->send, of->recv, of->counts, of->dtype, of->op);
}

static int allgather(const perf_call *of) {
    return kolo_allgather(of->comm, of->send, of->recv, of->count, of->dtype);
}

static int allgatherv(const perf_call *of) {
    return kolo_allgatherv(of->comm, of->send, of->recv, of->counts, NULL, of->dtype);
}

static int gather(const perf_call *of) {
    return kolo_gather(of->comm, of->send, of->recv, of->count, of->dtype, of->root);
}

static int gatherv(const perf_call *of) {
    return kolo_gatherv(of->comm, of->send, of->count, of->recv, of->counts, NULL, of->dtype, of->root);
}

static int scatter(const perf_call *of) {
    return kolo_scatter(of->comm, of->send, of->recv, of->count, of->dtype, of->root);
}

static int scatterv(const perf_call *of) {
    return kolo_scatterv(of->comm, of->send, of->counts, NULL, of->recv, of->count, of->dtype, of->root);
}

static int alltoall(const perf_call *of) {
    return kolo_alltoall(of->comm, of->send, of->recv, of->count, of->dtype);
}

static int alltoallv(const perf_call *of) {
    return kolo_alltoallv(of->comm, of->send, of->counts, NULL, of->recv, of->counts, NULL, of->dtype);
}

static int scan(const perf_call *of) {
    return kolo_scan(of->comm, of->send, of->recv, of->count, of->dtype, of->op);
}

static int exscan(const perf_call *of) {
    return kolo_exscan(of->comm, of->send, of->recv, of->count, of->dtype, of->op);
}

#define WHOLE                                                                                                          \
    { PERF_WHOLE, false }
#define BLOCK                                                                                                          \
    { PERF_BLOCK, false }
#define BLOCKS                                                                                                         \
    { PERF_BLOCKS, false }
#define ROOT_WHOLE                                                                                                     \
    { PERF_WHOLE, true }
#define ROOT_BLOCKS                                                                                                    \
    { PERF_BLOCKS, true }
#define BOTH (PERF_OUT | PERF_IN)

/* The factors are those of nccl-tests; it has no scans, in which everything but the first input passes each rank. */
static const perf_collective collectives[] = {
    {KOLO_ALLREDUCE, "every rank gets the reduction of all ranks' inputs", WHOLE, WHOLE, PERF_OF_ALL, false, BOTH, 2,
     true, allreduce},
    {KOLO_ALLREDUCE_MANY, "the same of a list of tensors (--tensors)", WHOLE, WHOLE, PERF_OF_ALL, false, PERF_IN, 2,
     true, allreduce_many},
    {KOLO_REDUCE, "the root gets the reduction", WHOLE, ROOT_WHOLE, PERF_OF_ALL, false, BOTH, 1, false, reduce},
    {KOLO_REDUCE_SCATTER, "each rank gets its block of the reduction", BLOCKS, BLOCK, PERF_OF_ALL, false, BOTH, 1, true,
     reduce_scatter},
    {KOLO_REDUCE_SCATTERV, "the same with unequal blocks", BLOCKS, BLOCK, PERF_OF_ALL, true, BOTH, 1, true,
     reduce_scatterv},
    {KOLO_ALLGATHER, "every rank gets a block of each rank", BLOCK, BLOCKS, PERF_OF_EACH, false, BOTH, 1, true,
     allgather},
    {KOLO_ALLGATHERV, "the same with unequal blocks", BLOCK, BLOCKS, PERF_OF_EACH, true, BOTH, 1, true, allgatherv},
    {KOLO_BROADCAST, "every rank gets the root's buffer", ROOT_WHOLE, WHOLE, PERF_OF_ROOT, false, PERF_IN, 1, false,
     broadcast},
    {KOLO_GATHER, "the root gets a block of each rank", BLOCK, ROOT_BLOCKS, PERF_OF_EACH, false, BOTH, 1, true, gather},
    {KOLO_GATHERV, "the same with unequal blocks", BLOCK, ROOT_BLOCKS, PERF_OF_EACH, true, BOTH, 1, true, gatherv},
    {KOLO_SCATTER, "each rank gets a block of the root's", ROOT_BLOCKS, BLOCK, PERF_OF_ROOT, false, BOTH, 1, true,
     scatter},
    {KOLO_SCATTERV, "the same with unequal blocks", ROOT_BLOCKS, BLOCK, PERF_OF_ROOT, true, BOTH, 1, true, scatterv},
    {KOLO_ALLTOALL, "each rank sends a block to each rank", BLOCKS, BLOCKS, PERF_OF_EACH, false, BOTH, 1, true,
     alltoall},
    {KOLO_ALLTOALLV, "the same with unequal blocks", BLOCKS, BLOCKS, PERF_OF_EACH, true, PERF_OUT, 1, true, alltoallv},
    {KOLO_SCAN, "each rank gets the reduction of its own and all lower ranks' inputs", WHOLE, WHOLE, PERF_OF_PREFIX,
     false, BOTH, 1, false, scan},
    {KOLO_EXSCAN, "the same without its own", WHOLE, WHOLE, PERF_OF_EARLIER, false, BOTH, 1, false, exscan},
    {
        .kolo = KOLO_BARRIER,
        .meaning = "no data",
        .places = PERF_OUT,
        .factor = 1,
        .call = barrier,
    },
};

enum { COLLECTIVES = sizeof(collectives) / sizeof(collectives[0]) };

int perf_collective_start(const perf_collective *collective, const perf_call *of, kolo_request **request) {
    const bool has_list = collective->kolo == KOLO_ALLREDUCE_MANY;
    return kolo_start(of->comm,
                      &(kolo_call){.call_bytes = sizeof(kolo_call),
                                   .collective = collective->kolo,
                                   .dtype = of->dtype,
                                   .op = of->op,
                                   .root = of->root,
                                   .send = of->send,
                                   .recv = of->recv,
                                   .count = of->count,
                                   .send_counts = of->counts,
                                   .recv_counts = of->counts,
                                   .tensors = has_list ? perf_tensors_of(of) : NULL,
                                   .ntensors = has_list ? (size_t)perf_tensors_count : 0},
                      request);
}

const perf_collective *perf_collective_at(unsigned index) {
    return index < COLLECTIVES ? &collectives[index] : NULL;
}

unsigned perf_collectives_count(void) {
    return COLLECTIVES;
}

const char *perf_collective_name(const perf_collective *collective) {
    return kolo_name(KOLO_NAME_COLLECTIVE, collective->kolo);
}

const perf_collective *perf_collective_find(kolo_collective kolo) {
    for (unsigned i = 0; i < COLLECTIVES; i++)
        if (collectives[i].kolo == kolo)
            return &collectives[i];
    return NULL;
}

double perf_side_bytes(perf_side side, double message_bytes, int ranks) {
    if (side.shape == PERF_NONE)
        return 0;
    return side.at_root || side.shape == PERF_BLOCK ? message_bytes : message_bytes * ranks;
}

bool perf_collective_in_place(const perf_collective *collective, bool wanted) {
    return collective->places == PERF_IN || (wanted && (collective->places & PERF_IN));
}

/* What a rank has to write. Its own block stays where it is if it only moves, and the two buffers are one. */
static double result_bytes(const perf_collective *collective, int ranks, double bytes, bool in_place, bool is_root) {
    const bool is_moved = collective->origin == PERF_OF_ROOT || collective->origin == PERF_OF_EACH;
    const bool has_own = collective->origin != PERF_OF_ROOT || is_root;
    if (collective->recv.at_root && !is_root)
        return 0;
    const double whole_bytes = collective->recv.shape == PERF_BLOCK ? bytes / ranks : bytes;
    if (!is_moved || !has_own || !in_place)
        return whole_bytes;
    return collective->keeps_own ? whole_bytes - bytes / ranks : 0;
}

/* What other cores have for the ranks of one. Of blocks from all to all each rank has its own; a core that is sent
 * blocks by a root gets no others; for all else a core's ranks can share what comes. */
static double crossing_bytes(const perf_collective *collective, int ranks, int cores, double bytes) {
    const bool from_all_to_all = collective->send.shape == PERF_BLOCKS && collective->recv.shape == PERF_BLOCKS;
    const bool is_scattered = collective->origin == PERF_OF_ROOT && collective->recv.shape == PERF_BLOCK;
    if (cores > 1 && is_scattered)
        return bytes / cores;
    return perf_collective_bus_factor(collective, cores) * bytes * (from_all_to_all ? (double)ranks / cores : 1);
}

perf_traffic perf_collective_traffic(const perf_collective *collective, int ranks, int cores, double bytes,
                                     bool in_place) {
    const double ranks_per_core = (double)ranks / cores;
    const bool reduces = kolo_collective_has(collective->kolo) & KOLO_HAS_OP;
    const bool to_all = collective->origin == PERF_OF_EACH || collective->origin == PERF_OF_ALL;
    perf_traffic traffic = {.both_ways = to_all && !collective->recv.at_root, .reduces = reduces};
    if (!perf_collective_has_data(collective)) {
        traffic.both_ways = true;
        return traffic;
    }
    const double root_bytes = result_bytes(collective, ranks, bytes, in_place, true);
    const double other_bytes = result_bytes(collective, ranks, bytes, in_place, false);
    const double with_root_bytes = root_bytes + (ranks_per_core - 1) * other_bytes;
    const double without_bytes = cores > 1 ? ranks_per_core * other_bytes : 0;
    traffic.written_bytes = with_root_bytes > without_bytes ? with_root_bytes : without_bytes;
    traffic.input_bytes = perf_side_bytes(collective->send, bytes, ranks) / cores;
    traffic.read_bytes = reduces ? traffic.input_bytes : traffic.written_bytes;
    traffic.crossing_bytes = crossing_bytes(collective, ranks, cores, bytes);
    return traffic;
}

bool perf_collective_has_data(const perf_collective *collective) {
    return collective->recv.shape != PERF_NONE;
}

bool perf_collective_has_blocks(const perf_collective *collective) {
    return collective->send.shape == PERF_BLOCKS || collective->recv.shape == PERF_BLOCKS;
}

bool perf_collective_has_algorithms(const perf_collective *collective) {
    return kolo_collective_has(collective->kolo) & KOLO_HAS_CHOICES;
}

bool perf_collective_spends_input(const perf_collective *collective) {
    return kolo_collective_has(collective->kolo) & KOLO_HAS_OP ||
           (collective->send.shape == PERF_BLOCKS && collective->recv.shape == PERF_BLOCKS);
}

size_t perf_collective_unit_bytes(const perf_collective *collective, int ranks, kolo_dtype dtype) {
    const bool equal_blocks = perf_collective_has_blocks(collective) && !collective->unequal;
    return perf_collective_has_data(collective) ? kolo_dtype_bytes(dtype) * (size_t)(equal_blocks ? ranks : 1) : 0;
}

double perf_collective_bus_factor(const perf_collective *collective, int ranks) {
    if (ranks < 2) /* nothing is on a bus */
        return 0;
    return collective->factor * (collective->keeps_own ? (double)(ranks - 1) / ranks : 1);
}

int perf_tensors_count = 1000;

/* The thread's last list: dividing the message takes longer than a small call, and is no part of it. */
static _Thread_local struct {
    kolo_tensor *tensors;
    const void *data;
    size_t count;
    kolo_dtype dtype;
} made;

const kolo_tensor *perf_tensors_of(const perf_call *call) {
    const size_t number = (size_t)perf_tensors_count, bytes = kolo_dtype_bytes(call->dtype);
    if (!made.tensors)
        made.tensors = calloc(number, sizeof(*made.tensors));
    if (!made.tensors || (made.data == call->recv && made.count == call->count && made.dtype == call->dtype))
        return made.tensors;
    for (size_t i = 0, first = 0; i < number; i++) {
        const size_t count = call->count / number + (i < call->count % number);
        made.tensors[i] = (kolo_tensor){(char *)call->recv + first * bytes, count};
        first += count;
    }
    made.data = call->recv;
    made.count = call->count;
    made.dtype = call->dtype;
    return made.tensors;
}

void perf_tensors_free(void) {
    free(made.tensors);
    made.tensors = NULL;
    made.data = NULL;
}
