/* Several communicators: two at once, used in turn with the ranks in another order; one after another under the same
 * job name and through the same descriptor; and nothing left behind by two hundred of them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

static bool sum_is_right(const struct rank *rank, kolo_comm *comm, size_t count) {
    uint64_t *data = malloc(count * sizeof *data);
    const uint64_t size = (uint64_t)kolo_comm_size(comm);
    for (size_t i = 0; i < count; i++)
        data[i] = (uint64_t)kolo_comm_rank(comm) * 1000 + i;
    bool right = expect_status(rank, kolo_allreduce(comm, data, data, count, KOLO_U64, KOLO_SUM), 0, "kolo_allreduce");
    for (size_t i = 0; right && i < count; i++)
        right =
            expect(rank, data[i] == size * (size - 1) / 2 * 1000 + size * i, "element %zu of %zu is wrong", i, count);
    free(data);
    return right;
}

static void run_two_at_once(struct rank *rank) {
    char job[128];
    kolo_options options = rank->options;
    kolo_comm *reversed;
    options.rank = rank->ranks - 1 - rank->rank;
    options.slot_bytes = 8192;
    snprintf(job, sizeof job, "%s-reversed", rank->options.job);
    options.job = job;
    if (!expect_status(rank, kolo_comm_create(&reversed, &options), 0, "kolo_comm_create"))
        return;
    expect(rank, kolo_comm_rank(reversed) == options.rank && kolo_comm_rank(rank->comm) == rank->rank,
           "the communicators have ranks %d and %d", kolo_comm_rank(rank->comm), kolo_comm_rank(reversed));
    for (size_t i = 0; i < 100; i++)
        if (!sum_is_right(rank, i % 2 ? reversed : rank->comm, 1 + i * i) ||
            !sum_is_right(rank, i % 3 ? reversed : rank->comm, 3))
            break;
    kolo_comm_destroy(reversed);
}

static int mappings(void) {
    int lines = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    for (int c; maps && (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    if (maps)
        fclose(maps);
    return lines;
}

enum { CYCLES_BEFORE = 5, CYCLES = 200, MAPPINGS_TOLERATED = 8 /* of the allocator's own */ };

static bool run_cycle(struct rank *rank, size_t count) {
    kolo_comm *comm;
    if (!expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create"))
        return false;
    bool right = sum_is_right(rank, comm, count);
    kolo_comm_destroy(comm);
    return right;
}

static void run_cycles(struct rank *rank) {
    const int cycles = arguments.quick ? CYCLES / 5 : CYCLES;
    for (int i = 0; i < CYCLES_BEFORE; i++)
        if (!run_cycle(rank, 10))
            return;
    const int descriptors = open_descriptors(), maps = mappings();
    for (int i = 0; i < cycles; i++)
        if (!run_cycle(rank, i % 2 ? 1 : 3000))
            return;
    if (arguments.threads) /* which of all ranks' descriptors are open just now is chance */
        return;
    expect(rank, open_descriptors() == descriptors, "%d descriptors before, %d after %d communicators", descriptors,
           open_descriptors(), cycles);
    expect(rank, mappings() <= maps + MAPPINGS_TOLERATED, "%d mappings before, %d after %d communicators", maps,
           mappings(), cycles);
}

/* More communicators at once than one after another: each must find its own peers. */
static void run_many_at_once(struct rank *rank) {
    enum { COMMS = 20 };
    kolo_comm *comms[COMMS] = {NULL};
    int created = 0;
    while (created < COMMS &&
           expect_status(rank, kolo_comm_create(&comms[created], &rank->options), 0, "kolo_comm_create"))
        created++;
    for (size_t i = 0; created == COMMS && i < COMMS; i++)
        if (!sum_is_right(rank, comms[(i * 7) % COMMS], 1 + i * 50))
            break;
    for (int i = 0; i < created; i++)
        kolo_comm_destroy(comms[created - 1 - i]);
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 5};
    harness_begin(argc, argv, "Creates, uses and destroys several communicators at once and one after another.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!wants_ranks(counts[i]))
            continue;
        struct team team = {.ranks = counts[i], .slot_bytes = 4096, .run = run_two_at_once};
        harness_run(&team);
        team.creates_itself = true;
        team.run = run_many_at_once;
        harness_run(&team);
        team.by_descriptor = true;
        harness_run(&team);
        team.by_descriptor = false;
        team.run = run_cycles;
        harness_run(&team);
        team.by_descriptor = team.empties_file = true;
        team.slot_bytes = 16384;
        harness_run(&team);
    }
    return harness_end();
}
