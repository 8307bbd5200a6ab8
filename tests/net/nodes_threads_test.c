/* Every call of a communicator of two nodes is made by a new thread, which then ends, over io_uring where there is one:
 * the kernel cancels what such a thread has left in the ring, and calls go on all the same. */
#include <pthread.h>
#include <stdlib.h>

#include "harness.h"
#include "node_files.h"

enum { CALLS = 60, COUNT = 300000 };

struct part {
    struct rank *rank;
    int32_t *data;
    int call;
    bool right;
};

static void *make_call(void *argument) {
    struct part *part = argument;
    struct rank *rank = part->rank;
    const size_t count = part->call % 2 ? COUNT : 1;
    for (size_t i = 0; i < count; i++)
        part->data[i] = (int32_t)i + part->call + rank->rank;
    part->right = expect_status(rank, kolo_allreduce(rank->comm, part->data, part->data, count, KOLO_I32, KOLO_SUM), 0,
                                "kolo_allreduce by a new thread");
    const int32_t ranks = rank->ranks, first = ranks * part->call + ranks * (ranks - 1) / 2;
    for (size_t i = 0; part->right && i < count; i++)
        part->right = expect(rank, part->data[i] == first + ranks * (int32_t)i, "call %d: element %zu is %d, not %d",
                             part->call, i, part->data[i], first + ranks * (int32_t)i);
    return NULL;
}

static void run(struct rank *rank) {
    const int *node_of = rank->team->argument;
    kolo_options options = rank->options;
    struct part part = {.rank = rank, .data = malloc(COUNT * sizeof *part.data), .right = true};
    nodes_place(&options, node_of[rank->rank]);
    part.right = expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create");
    for (; part.right && part.call < CALLS; part.call++) {
        pthread_t thread;
        if (!expect(rank, pthread_create(&thread, NULL, make_call, &part) == 0, "no thread"))
            break;
        pthread_join(thread, NULL);
    }
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
    free(part.data);
}

int main(int argc, char **argv) {
    static const int layouts[][NODES_MAX] = {{1, 1}, {2, 1}};
    harness_begin(argc, argv, "Makes every call between two nodes by a thread of its own.");
    setenv("KOLO_SECRET", "none", 1);
    setenv("KOLO_NET", "auto", 1);
    nodes_open();
    for (int i = 0; i < 2; i++) {
        int node_of[HARNESS_RANKS_MAX];
        const int ranks = nodes_lay_out(layouts[i], node_of);
        nodes_meet_at("127.0.0.1");
        if (wants_ranks(ranks))
            harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run, .argument = node_of});
    }
    return harness_end();
}
