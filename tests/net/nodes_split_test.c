/* kolo_comm_split and kolo_comm_dup of communicators of several nodes, which here are ranks of one machine that inherit
 * different files: groups within a node, over some or all nodes, of one rank, in any order; groups of groups; all
 * collectives in them, bit by bit; what becomes of a group and of others when a rank of it dies, makes another call,
 * comes late, or lacks descriptors. Nothing is left behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"
#include "losses.h"
#include "node_files.h"
#include "oracle.h"

enum {
    COUNT_MAX = 9000,
    RANKS_MAX = 8,
    SPARE_MAX = 12,
    DEATH_MS = 2000,
    DAWDLED_MS = 4000, /* the deadline of a call in which a rank dawdles */
    SETTLING_MS = 20   /* for the others to be through with the calls before */
};

/* The node of each rank; -1: no more ranks. */
static const int spreads[][RANKS_MAX + 1] = {{0, 0, 0, 1, -1},
                                             {0, 1, 0, 1, 1, -1},
                                             {0, 1, 2, -1},
                                             {0, 0, 1, 1, 1, 2, -1},
                                             {0, 1, 2, 0, 1, 2, 0, -1},
                                             {0, 1, 2, 3, 4, 0, -1},
                                             {0, 1, 1, 2, 3, 3, 3, 4, -1}};

enum { SPREADS = sizeof spreads / sizeof *spreads };

/* How ranks are divided. */
enum way { BY_PARITY, BY_NODE, REVERSED, ALONE, ACROSS, BY_CHANCE, BY_CHANCE_TOO, AS_DUP, WAYS };

struct setup {
    int node_of[HARNESS_RANKS_MAX];
    bool rank_order; /* KOLO_NET_ORDER=rank: sums are those of the group's ranks in their order */
    int victim;      /* of run_death and run_dawdling */
    int dawdles_at;
};

/* Who is in a communicator, in its order, by their ranks in the team. */
struct group {
    int members[RANKS_MAX];
    int count;
};

static const struct setup *setup_of(const struct rank *rank) {
    return rank->team->argument;
}

static struct group everybody(const struct rank *rank) {
    struct group all = {.count = rank->ranks};
    for (int of = 0; of < rank->ranks; of++)
        all.members[of] = of;
    return all;
}

static int place_of(const struct group *group, int member) {
    int place = 0;
    while (place < group->count && group->members[place] != member)
        place++;
    return place;
}

static bool create(struct rank *rank) {
    kolo_options options = rank->options;
    nodes_place(&options, setup_of(rank)->node_of[rank->rank]);
    return expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create");
}

/* Collectives in a group. */

static bool sums_right(const struct rank *rank, kolo_comm *comm, const struct group *group, size_t count) {
    const input_style style = setup_of(rank)->rank_order ? INPUT_NEAR : INPUT_EXACT;
    float *inputs[RANKS_MAX], *expected = malloc(count * sizeof *expected), *found = NULL;
    for (int i = 0; i < group->count; i++) {
        inputs[i] = malloc(count * sizeof **inputs);
        input_fill(style, KOLO_F32, KOLO_SUM, inputs[i], count, random_seed((uint64_t)group->members[i], count));
    }
    oracle_reduce(KOLO_F32, KOLO_SUM, (const void *const *)inputs, group->count, count, expected);
    const float *own = inputs[place_of(group, rank->rank)];
    bool right =
        expect_status(rank, kolo_alloc(comm, count * sizeof *found, (void **)&found), 0, "kolo_alloc") &&
        expect_status(rank, kolo_allreduce(comm, own, found, count, KOLO_F32, KOLO_SUM), 0, "kolo_allreduce") &&
        expect(rank, memcmp(found, expected, count * sizeof *found) == 0, "a sum of %zu is wrong", count);
    if (found)
        right = expect_status(rank, kolo_free(comm, found), 0, "kolo_free") && right;
    for (int i = 0; i < group->count; i++)
        free(inputs[i]);
    free(expected);
    return right;
}

static bool spreads_right(const struct rank *rank, kolo_comm *comm, const struct group *group, size_t count) {
    const int root = group->count - 1, root_member = group->members[root];
    int32_t *blocks = malloc(count * RANKS_MAX * sizeof *blocks), *data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = rank->rank * 100000 + (int32_t)i;
    bool right = expect_status(rank, kolo_allgather(comm, data, blocks, count, KOLO_I32), 0, "kolo_allgather") &&
                 expect_status(rank, kolo_broadcast(comm, data, count, KOLO_I32, root), 0, "kolo_broadcast") &&
                 expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    for (size_t i = 0; right && i < count; i++) {
        right = expect(rank, data[i] == root_member * 100000 + (int32_t)i, "broadcast: element %zu is %d", i, data[i]);
        for (int of = 0; right && of < group->count; of++)
            right = expect(rank, blocks[(size_t)of * count + i] == group->members[of] * 100000 + (int32_t)i,
                           "all-gather: element %zu of rank %d is %d", i, of, blocks[(size_t)of * count + i]);
    }
    free(blocks);
    free(data);
    return right;
}

/* `comm` is that group's, and works. */
static bool is_group(const struct rank *rank, kolo_comm *comm, const struct group *group) {
    static const size_t counts[] = {1, 300, COUNT_MAX};
    const int *node_of = setup_of(rank)->node_of, place = place_of(group, rank->rank);
    uint64_t nodes = 0;
    int local = 0, local_size = 0;
    for (int i = 0; i < group->count; i++) {
        const bool is_near = node_of[group->members[i]] == node_of[rank->rank];
        nodes |= RANK(node_of[group->members[i]]);
        local_size += is_near;
        local += is_near && i < place;
    }
    bool right = expect(rank,
                        kolo_comm_rank(comm) == place && kolo_comm_size(comm) == group->count &&
                            kolo_comm_nodes(comm) == count_of(nodes) && info_of(comm).local_rank == local &&
                            info_of(comm).local_size == local_size,
                        "is rank %d of %d on %d nodes, %d of %d on this one; not %d of %d on %d, %d of %d",
                        kolo_comm_rank(comm), kolo_comm_size(comm), kolo_comm_nodes(comm), info_of(comm).local_rank,
                        info_of(comm).local_size, place, group->count, count_of(nodes), local, local_size);
    for (size_t i = 0; right && i < sizeof counts / sizeof *counts; i++)
        right = sums_right(rank, comm, group, counts[i]) && spreads_right(rank, comm, group, counts[i]);
    return right;
}

/* Dividing. */

/* What rank `of` of the team passes, the same whoever asks. */
static void choose(const struct rank *rank, enum way way, int of, int *color, int *key) {
    const int *node_of = setup_of(rank)->node_of;
    uint64_t random = random_seed(20 + way, (uint64_t)(rank->ranks * 100 + of));
    int on_node = 0;
    for (int other = 0; other < of; other++)
        on_node += node_of[other] == node_of[of];
    *color = way == BY_PARITY  ? of % 2
             : way == BY_NODE  ? node_of[of]
             : way == ALONE    ? of
             : way == ACROSS   ? on_node
             : way < BY_CHANCE ? 0
                               : (int)random_below(&random, 4) - 1;
    *key = way == BY_NODE || way == REVERSED ? -of : way == BY_PARITY ? 0 : (int)random_below(&random, 5) - 2;
    if (way == AS_DUP)
        *color = *key = 0;
}

static struct group group_of(const struct rank *rank, enum way way, int own) {
    struct group group = {.count = 0};
    for (int key = -RANKS_MAX; key <= RANKS_MAX; key++)
        for (int of = 0; of < rank->ranks; of++) {
            int color, its_key;
            choose(rank, way, of, &color, &its_key);
            if (color == own && its_key == key)
                group.members[group.count++] = of;
        }
    return group;
}

/* Divides `comm`; *sub: NULL where this rank is in no group, or it failed. */
static bool divide(const struct rank *rank, kolo_comm *comm, enum way way, kolo_comm **sub, struct group *group) {
    int color, key;
    choose(rank, way, rank->rank, &color, &key);
    *sub = comm;
    *group = group_of(rank, way, color);
    const int status = way == AS_DUP ? kolo_comm_dup(comm, sub) : kolo_comm_split(comm, color, key, sub);
    if (!expect_status(rank, status, 0, "kolo_comm_split")) {
        *sub = NULL;
        return false;
    }
    return expect(rank, (*sub != NULL) == (color >= 0), "color %d, but a communicator: %d", color, *sub != NULL);
}

/* A group is divided once more, by parity and backwards, and a copy of the part is made; the group goes first. */
static bool nests(const struct rank *rank, kolo_comm **sub, const struct group *group) {
    struct group part = {.count = 0};
    kolo_comm *inner, *copy;
    const int place = place_of(group, rank->rank);
    for (int i = group->count - 1; i >= 0; i--)
        if (i % 2 == place % 2)
            part.members[part.count++] = group->members[i];
    if (!expect_status(rank, kolo_comm_split(*sub, place % 2, -place, &inner), 0, "kolo_comm_split of a group"))
        return false;
    kolo_comm_destroy(*sub);
    *sub = NULL;
    bool right = expect_status(rank, kolo_comm_dup(inner, &copy), 0, "kolo_comm_dup of a group's group");
    if (right)
        right = is_group(rank, copy, &part);
    if (right)
        right = is_group(rank, inner, &part);
    if (copy != inner)
        kolo_comm_destroy(copy);
    kolo_comm_destroy(inner);
    return right;
}

static void run_ways(struct rank *rank) {
    const int descriptors = open_descriptors();
    const struct group all = everybody(rank);
    bool good = create(rank);
    for (enum way way = 0; good && way < WAYS; way++) {
        if (arguments.quick && way % 2 == 0 && way != BY_PARITY)
            continue;
        struct group group = {.count = 0};
        kolo_comm *sub;
        good = divide(rank, rank->comm, way, &sub, &group);
        if (good && sub)
            good = is_group(rank, sub, &group) && nests(rank, &sub, &group);
        kolo_comm_destroy(sub);
    }
    if (good)
        is_group(rank, rank->comm, &all);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
    if (!arguments.threads)
        expect(rank, open_descriptors() == descriptors, "%d descriptors are open, not %d", open_descriptors(),
               descriptors);
}

/* Failures. */

static void expect_named(const struct rank *rank, kolo_comm *comm, int status, int wanted, int culprit) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    expect_status(rank, status, wanted, "a call that cannot succeed");
    expect_status(rank, kolo_comm_failure(comm, &failure), 0, "kolo_comm_failure");
    expect(rank, culprit < 0 || failure.rank == culprit, "rank %d is blamed, not %d: %s", failure.rank, culprit,
           failure.message);
}

/* A rank of a group dies: the groups that have it break, and can be shrunk; others go on. */
static void run_death(struct rank *rank) {
    const int victim = setup_of(rank)->victim;
    struct group group = {.count = 0};
    kolo_comm *sub = NULL, *left = NULL;
    bool good = create(rank) && divide(rank, rank->comm, BY_PARITY, &sub, &group);
    const int place = place_of(&group, victim);
    if (good && rank->rank == victim) {
        sleep_ms(SETTLING_MS);
        end_rank(rank);
    }
    if (good && place < group.count) {
        const int64_t begin_ns = now_ns();
        expect_named(rank, sub, call_until_failure(sub, 100), KOLO_ERR_PEER_DEAD, place);
        expect_prompt(rank, now_ns() - begin_ns, DEATH_MS, "a death");
        memmove(&group.members[place], &group.members[place + 1], sizeof(int) * (size_t)(--group.count - place));
        good = expect_status(rank, kolo_comm_shrink(sub, &left), 0, "kolo_comm_shrink of a group");
        kolo_comm_destroy(sub);
        sub = left;
    }
    if (good && is_group(rank, sub, &group))
        expect_named(rank, rank->comm, kolo_comm_dup(rank->comm, &left), KOLO_ERR_PEER_DEAD, victim);
    kolo_comm_destroy(sub);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* One rank calls something else: in a group, and then in the parent. */
static void run_mismatch(struct rank *rank) {
    const bool is_odd_one = rank->rank == rank->ranks - 1;
    struct group group = {.count = 0};
    kolo_comm *sub = NULL, *none = NULL;
    bool good = create(rank) && divide(rank, rank->comm, REVERSED, &sub, &group);
    if (good) {
        float data[10] = {0};
        expect_named(rank, sub,
                     is_odd_one ? kolo_barrier(sub) : kolo_allreduce(sub, data, data, 10, KOLO_F32, KOLO_SUM),
                     KOLO_ERR_MISMATCH, -1);
        const struct group all = everybody(rank);
        good = is_group(rank, rank->comm, &all);
        sleep_ms(SETTLING_MS);
    }
    if (good)
        expect_named(rank, rank->comm,
                     is_odd_one ? kolo_comm_dup(rank->comm, &none) : kolo_comm_split(rank->comm, 0, 0, &none),
                     KOLO_ERR_MISMATCH, -1);
    expect(rank, none == NULL, "a handle was set on failure");
    kolo_comm_destroy(sub);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* One rank has few descriptors left: nobody gets a communicator, and all go on. It is not the only one of its node. */
static void run_without_descriptors(struct rank *rank) {
    struct rlimit before, few;
    const struct group all = everybody(rank);
    bool good = create(rank) && expect(rank, getrlimit(RLIMIT_NOFILE, &before) == 0, "getrlimit failed");
    int failures = 0;
    for (int spare = 0; good && spare < SPARE_MAX; spare++)
        for (int victim = 0; good && victim < rank->ranks; victim++) {
            const int next = dup(0);
            int mates = 0;
            for (int of = 0; of < rank->ranks; of++)
                mates += setup_of(rank)->node_of[of] == setup_of(rank)->node_of[victim];
            close(next);
            few = before;
            few.rlim_cur = (rlim_t)(next + spare);
            if (mates == 1)
                continue;
            kolo_comm *sub = NULL;
            if (rank->rank == victim)
                setrlimit(RLIMIT_NOFILE, &few);
            const int status = kolo_comm_dup(rank->comm, &sub);
            setrlimit(RLIMIT_NOFILE, &before);
            failures += status < 0;
            good = status == 0 ||
                   (expect_status(rank, status, KOLO_ERR_SYSTEM, "kolo_comm_dup") &&
                    expect(rank, sub == NULL, "a handle was set on failure") && is_group(rank, rank->comm, &all));
            kolo_comm_destroy(sub);
        }
    expect(rank, !good || failures > 0, "all had descriptors enough");
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* The library's way to other machines, on which one rank dawdles: once, on its way number `dawdles_at`, from 1. */

static int dawdles_at;
static int64_t dawdles_ms;

int connect(int fd, const struct sockaddr *address, socklen_t bytes) {
    if (dawdles_at > 0 && --dawdles_at == 0)
        sleep_ms(dawdles_ms);
    return (int)syscall(SYS_connect, fd, address, bytes);
}

/* A rank comes too late to the making of its group, but not too late for the deadline: the call fails in the same way
 * on all ranks. Then either all can go on with the parent, or it is broken for all by the same failure. */
static void run_dawdling(struct rank *rank) {
    const int64_t timeout_ms = patience_ms(DAWDLED_MS);
    const struct group all = everybody(rank);
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm *sub = NULL, *left = NULL;
    if (!create(rank))
        return;
    kolo_comm_set_timeout(rank->comm, timeout_ms);
    dawdles_ms = timeout_ms * 6 / 10;
    dawdles_at = rank->rank == setup_of(rank)->victim ? setup_of(rank)->dawdles_at : 0;
    const int status = kolo_comm_split(rank->comm, 0, 0, &sub);
    dawdles_at = 0;
    kolo_comm_failure(rank->comm, &failure);
    expect(rank, status < 0 && sub == NULL, "kolo_comm_split without a rank that dawdles returned %d", status);
    record_result(rank, 0, (uint64_t)status);
    record_result(rank, 1, (uint64_t)failure.status << 32 | (uint64_t)failure.rank << 16 | (uint64_t)failure.reporter);
    if (status == KOLO_ERR_SYSTEM || status == KOLO_ERR_NO_SPACE) {
        expect_status(rank, failure.status, 0, "a parent that stays usable");
        is_group(rank, rank->comm, &all);
    } else if (expect_status(rank, failure.status, status, "what broke the parent") &&
               expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_STATE, "a barrier of a broken parent") &&
               expect_status(rank, kolo_comm_shrink(rank->comm, &left), 0, "kolo_comm_shrink of a broken parent")) {
        is_group(rank, left, &all);
    }
    kolo_comm_destroy(left);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static int lay_out(size_t spread, struct setup *setup) {
    int ranks = nodes_lay_out((const int[NODES_MAX]){0}, setup->node_of);
    for (; spreads[spread][ranks] >= 0; ranks++)
        setup->node_of[ranks] = spreads[spread][ranks];
    return ranks;
}

static void run_team(int ranks, const struct setup *setup, uint64_t victims, void (*run)(struct rank *)) {
    if (!wants_ranks(ranks))
        return;
    nodes_meet_at(setup->rank_order ? "0.0.0.0" : "127.0.0.1"); /* all of a machine's addresses, or one */
    harness_run(&(struct team){.ranks = ranks,
                               .slot_bytes = 16384,
                               .creates_itself = true,
                               .victims = victims,
                               .run = run,
                               .argument = setup});
}

int main(int argc, char **argv) {
    char links[64];
    harness_begin(argc, argv, "Splits communicators of several nodes, and doubles them.");
    setenv("KOLO_SECRET", "none", 1);
    nodes_open();
    for (size_t spread = 0; spread < SPREADS; spread++) {
        struct setup setup = {.rank_order = spread % 2};
        const int ranks = lay_out(spread, &setup);
        uint64_t random = random_seed(1, spread);
        setup.victim = (int)random_below(&random, (uint64_t)ranks);
        setenv("KOLO_NET_ORDER", setup.rank_order ? "rank" : "node", 1);
        snprintf(links, sizeof links, "%s,threads:%d,quorum:any", /* groups go on without one of two nodes */
                 arguments.threads || spread % 3 ? "poll" : "auto", spread % 3 == 1 ? 2 : 1);
        setenv("KOLO_NET", links, 1);
        run_team(ranks, &setup, 0, run_ways);
        run_team(ranks, &setup, 0, run_mismatch);
        if (arguments.threads)
            continue;
        run_team(ranks, &setup, RANK(setup.victim), run_death);
        if (spread < 2)
            run_team(ranks, &setup, 0, run_without_descriptors);
        setup.victim = ranks - 1;
        for (setup.dawdles_at = 1; spread == 2 && setup.dawdles_at <= 2; setup.dawdles_at++)
            run_team(ranks, &setup, 0, run_dawdling);
    }
    return harness_end();
}
