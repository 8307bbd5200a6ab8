/* Several threads a rank on several nodes, which here are ranks of one machine that inherit different files: every
 * collective by lanes and with helpers, against the sequential reference; and a failure in one lane reaches all lanes
 * on all nodes. */
#include <pthread.h>
#include <stdlib.h>

#include "kolo_lanes.h"
#include "node_files.h"
#include "reference.h"
#include "losses.h"

enum { THREADS = 3, SLICE_BYTES = 4096, HELPED_BYTES = 512 << 10 };

/* The node of each rank; -1: no more ranks. */
static const int spreads[][6] = {{0, 1, -1}, {0, 0, 1, -1}, {0, 1, 2, 1, 0, -1}};

/* One lane of a call; prepared NULL: an all-reduce in which rank 1's last lane aborts. */
struct lane {
    const struct rank *rank;
    const struct prepared *prepared;
    int index, status;
};

static void *run_lane(void *argument) {
    struct lane *lane = argument;
    kolo_comm *comm = lane->rank->comm;
    static const float zeros[THREADS * SLICE_BYTES];
    static _Thread_local float sums[THREADS * SLICE_BYTES];
    if (lane->prepared) {
        lane->status = call_make(lane->prepared, kolo_comm_lane(comm, lane->index));
    } else if (lane->rank->rank == 1 && lane->index == THREADS - 1) {
        await_counter((uint64_t)lane->rank->ranks); /* others may still be in the call before */
        lane->status = kolo_comm_abort(kolo_comm_lane(comm, lane->index), 7);
    } else {
        lane->status =
            kolo_allreduce(kolo_comm_lane(comm, lane->index), zeros, sums, THREADS * SLICE_BYTES, KOLO_F32, KOLO_SUM);
    }
    return NULL;
}

/* Returns the first lane's status that is not 0. */
static int run_lanes(const struct rank *rank, const struct prepared *prepared) {
    struct lane lanes[THREADS];
    pthread_t threads[THREADS];
    int status = 0;
    for (int i = 0; i < THREADS; i++) {
        lanes[i] = (struct lane){rank, prepared, i, 0};
        pthread_create(&threads[i], NULL, run_lane, &lanes[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        status = status ? status : lanes[i].status;
    }
    return status;
}

static bool run_calls(const struct rank *rank, const int *node_of) {
    uint32_t index = 1;
    for (size_t kind = 0; kind < COLLECTIVES; kind++)
        for (int helped = 0; helped < 2; helped++, index += 5) {
            struct prepared prepared;
            const kolo_dtype dtype = (kolo_dtype)(index % KOLO_DTYPES);
            const size_t bytes = helped ? HELPED_BYTES : THREADS * SLICE_BYTES;
            const struct call call = {.index = index,
                                      .kind = &collective_shapes[kind],
                                      .dtype = dtype,
                                      .op = (kolo_op)(index % KOLO_AVG),
                                      .root = (int)index % rank->ranks,
                                      .count = bytes / kolo_dtype_bytes(dtype) + index % 77,
                                      .in_place = index % 2 && works_in_place(&collective_shapes[kind]),
                                      .node_of = node_of};
            call_prepare(&prepared, &call, rank->comm);
            if (!call_check(rank, &prepared, helped ? call_make(&prepared, rank->comm) : run_lanes(rank, &prepared)))
                return false;
        }
    return true;
}

static void run(struct rank *rank) {
    const int *node_of = rank->team->argument;
    kolo_options options = rank->options;
    nodes_place(&options, node_of[rank->rank]);
    options.threads = rank->rank == 0 ? THREADS : 0; /* rank 0 decides */
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create"))
        return;
    const bool is_right = expect(rank, info_of(rank->comm).lanes == THREADS, "%d lanes", info_of(rank->comm).lanes) &&
                          run_calls(rank, node_of);
    counter_add(1);
    if (is_right) {
        kolo_failure failure = {.failure_bytes = sizeof failure};
        run_lanes(rank, NULL);
        for (int lane = 0; lane < THREADS; lane++)
            expect(rank, kolo_barrier(kolo_comm_lane(rank->comm, lane)) < 0, "lane %d goes on", lane);
        kolo_comm_failure(rank->comm, &failure);
        expect(rank, failure.status == KOLO_ERR_ABORTED && failure.rank == 1 && failure.code == 7, "%d by rank %d: %s",
               failure.status, failure.rank, failure.message);
    }
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

int main(int argc, char **argv) {
    static const char *const transports[] = {"auto", "poll"};
    int emptied[HARNESS_RANKS_MAX];
    harness_begin(argc, argv, "Moves data between nodes with several threads a rank.");
    setenv("KOLO_SECRET", "none", 1);
    nodes_open();
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++) {
        struct team team = {.creates_itself = true, .slot_bytes = 8192, .run = run, .argument = spreads[i]};
        while (spreads[i][team.ranks] >= 0)
            team.ranks++;
        nodes_lay_out((const int[NODES_MAX]){0}, emptied);
        nodes_meet_at("127.0.0.1");
        /* The thread sanitizer does not see that a ring of io_uring is unmapped, and another one mapped there. */
        setenv("KOLO_NET", transports[i % 2 || arguments.threads], 1);
        if (wants_ranks(team.ranks))
            harness_run(&team);
    }
    return harness_end();
}
