/* kolo_comm_split and kolo_comm_dup: groups by color in the order of keys, nested, many at once, of ranks that end
 * before or after their parents; and that ranks which call different things are told. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness.h"
#include "losses.h"

enum { COUNT = 3000, MANY = 100, ROUNDS = 12, NESTED_MAX = 5, DROPS = 30 };

/* Who is in a group, in its order, by their ranks in the team. */
struct group {
    int members[HARNESS_RANKS_MAX];
    int count;
};

/* What rank `rank` says in round `round`, the same whoever asks. Few colors, so that groups have several ranks; some of
 * them below 0; equal keys, and negative ones. */
static int color_of(const struct rank *rank, int round, int of) {
    uint64_t random = random_seed(10 + (uint64_t)round, (uint64_t)(rank->ranks * 1000 + of));
    const int color = (int)random_below(&random, (uint64_t)(1 + round % 4)) * (round % 3 ? 1 : 100000007);
    return random_below(&random, 7) == 0 ? -1 - color : color;
}

static int key_of(const struct rank *rank, int round, int of) {
    uint64_t random = random_seed(50 + (uint64_t)round, (uint64_t)(rank->ranks * 1000 + of));
    return round % 4 == 0 ? 0 : (int)random_below(&random, 5) - 2;
}

static struct group group_of(const struct rank *rank, int round) {
    struct group group = {.count = 0};
    const int own = color_of(rank, round, rank->rank);
    for (int key = -2; key <= 2; key++)
        for (int of = 0; of < rank->ranks; of++)
            if (color_of(rank, round, of) == own && key_of(rank, round, of) == key)
                group.members[group.count++] = of;
    return group;
}

/* A sum over the group, and where this rank is in it. */
static bool is_group(const struct rank *rank, kolo_comm *comm, const struct group *group) {
    int64_t *data = malloc(COUNT * sizeof *data), sum = 0;
    int place = -1;
    for (int i = 0; i < group->count; i++) {
        sum += group->members[i] + 1;
        if (group->members[i] == rank->rank)
            place = i;
    }
    for (int i = 0; i < COUNT; i++)
        data[i] = (int64_t)(rank->rank + 1) * (i + 1);
    bool is_right =
        expect(rank, kolo_comm_size(comm) == group->count && kolo_comm_rank(comm) == place,
               "is rank %d of %d, not %d of %d", kolo_comm_rank(comm), kolo_comm_size(comm), place, group->count) &&
        expect_status(rank, kolo_allreduce(comm, data, data, COUNT, KOLO_I64, KOLO_SUM), 0, "kolo_allreduce");
    for (int i = 0; is_right && i < COUNT; i++)
        is_right = expect(rank, data[i] == sum * (i + 1), "element %d is %lld, not %lld", i, (long long)data[i],
                          (long long)sum * (i + 1));
    free(data);
    int32_t first = group->members[0];
    if (is_right && place > 0)
        first = -1;
    return is_right && expect_status(rank, kolo_broadcast(comm, &first, 1, KOLO_I32, 0), 0, "kolo_broadcast") &&
           expect(rank, first == group->members[0], "its rank 0 is %d, not %d", first, group->members[0]);
}

static struct group everybody(const struct rank *rank) {
    struct group all = {.count = rank->ranks};
    for (int of = 0; of < rank->ranks; of++)
        all.members[of] = of;
    return all;
}

static bool parent_works(const struct rank *rank) {
    const struct group all = everybody(rank);
    return is_group(rank, rank->comm, &all);
}

static void run_colors(struct rank *rank) {
    for (int round = 0; round < ROUNDS; round++) {
        const struct group group = group_of(rank, round);
        const int color = color_of(rank, round, rank->rank);
        kolo_comm *sub = rank->comm;
        if (!expect_status(rank, kolo_comm_split(rank->comm, color, key_of(rank, round, rank->rank), &sub), 0,
                           "kolo_comm_split"))
            return;
        if (color < 0)
            expect(rank, sub == NULL, "a rank without a color has a communicator");
        else if (!is_group(rank, sub, &group))
            return;
        if (round % 2 && !parent_works(rank))
            return;
        kolo_comm_destroy(sub);
    }
    parent_works(rank);
}

/* Each rank with one neighbour less, down to one; each from the last one. */
static void run_nested(struct rank *rank) {
    struct group left = everybody(rank);
    kolo_comm *comms[HARNESS_RANKS_MAX] = {rank->comm};
    int depth = 0;
    while (left.count > 1) {
        const bool stays = rank->rank < left.count - 1;
        if (!expect_status(rank, kolo_comm_split(comms[depth], stays ? 5 : -1, 0, &comms[depth + 1]), 0,
                           "kolo_comm_split"))
            break;
        if (!stays)
            break;
        left.count--;
        depth++;
        if (!is_group(rank, comms[depth], &left))
            break;
    }
    /* A parent may go before its children. */
    for (int i = 1; i < depth; i++)
        kolo_comm_destroy(comms[i]);
    if (depth > 0 && left.count > 1)
        expect(rank, left.count == rank->rank + 1, "is in %d ranks at last", left.count);
    if (depth > 0)
        kolo_comm_destroy(comms[depth]);
    parent_works(rank);
}

/* Many at once, of all ranks, of halves and of one rank. */
static void run_many(struct rank *rank) {
    static __thread kolo_comm *comms[MANY];
    const struct group all = everybody(rank);
    struct group half = {.count = 0};
    for (int of = rank->rank % 2; of < rank->ranks; of += 2)
        half.members[half.count++] = of;
    const struct group alone = {.members = {rank->rank}, .count = 1};
    const struct group *groups[] = {&all, &half, &alone};
    const int before = open_descriptors();
    int made = 0;
    for (; made < MANY; made++) {
        const int status =
            made % 3 == 0 ? kolo_comm_dup(rank->comm, &comms[made])
                          : kolo_comm_split(rank->comm, made % 3 == 1 ? rank->rank % 2 : rank->rank, 0, &comms[made]);
        if (!expect_status(rank, status, 0, "kolo_comm_split"))
            break;
    }
    if (!arguments.threads) /* those that look at segments from outside are given some */
        expect(rank, open_descriptors() - before <= 36, "%d communicators cost %d descriptors", made,
               open_descriptors() - before);
    for (int i = made - 1; i >= 0; i--)
        is_group(rank, comms[i], groups[i % 3]);
    for (int i = 0; i < made; i++)
        kolo_comm_destroy(comms[i]);
    if (!arguments.threads)
        expect(rank, open_descriptors() == before, "%d descriptors before, %d after", before, open_descriptors());
    parent_works(rank);
}

struct user {
    struct rank *rank;
    kolo_comm *comm;
};

static void *use(void *argument) {
    const struct user *user = argument;
    const struct group all = everybody(user->rank);
    for (int round = 0; round < ROUNDS; round++)
        is_group(user->rank, user->comm, &all);
    return NULL;
}

/* Two threads of each rank at once, each with its communicator. */
static void run_copies(struct rank *rank) {
    kolo_comm *copy;
    pthread_t thread;
    if (!expect_status(rank, kolo_comm_dup(rank->comm, &copy), 0, "kolo_comm_dup"))
        return;
    struct user user = {.rank = rank, .comm = copy}, own = {.rank = rank, .comm = rank->comm};
    if (expect(rank, pthread_create(&thread, NULL, use, &user) == 0, "no thread")) {
        use(&own);
        pthread_join(thread, NULL);
    }
    kolo_comm_destroy(copy);
    parent_works(rank);
}

static void check_refusals(struct rank *rank) {
    kolo_comm *sub = NULL;
    expect_status(rank, kolo_comm_split(NULL, 0, 0, &sub), KOLO_ERR_ARG, "kolo_comm_split of NULL");
    expect_status(rank, kolo_comm_split(rank->comm, 0, 0, NULL), KOLO_ERR_ARG, "kolo_comm_split into NULL");
    expect_status(rank, kolo_comm_dup(rank->comm, NULL), KOLO_ERR_ARG, "kolo_comm_dup into NULL");
    expect(rank, sub == NULL, "a handle was set on failure");
}

/* One calls kolo_comm_split, the others kolo_comm_dup; then both are broken, and can be shrunk. */
static void run_mismatch(struct rank *rank) {
    kolo_comm *sub = NULL, *left = NULL;
    check_refusals(rank);
    if (!expect_status(rank, kolo_comm_dup(rank->comm, &left), 0, "kolo_comm_dup"))
        return;
    const bool splits = rank->rank == rank->ranks / 2;
    const int status = splits ? kolo_comm_split(rank->comm, 1, 0, &sub) : kolo_comm_dup(rank->comm, &sub);
    if (expect_status(rank, status, KOLO_ERR_MISMATCH, "kolo_comm_split beside kolo_comm_dup"))
        expect_message(rank, "kolo_comm_split beside kolo_comm_dup", "calls split", "calls dup", NULL);
    expect(rank, sub == NULL, "a handle was set on failure");
    expect_status(rank, kolo_comm_dup(rank->comm, &sub), KOLO_ERR_STATE, "kolo_comm_dup of a broken one");
    const struct group all = everybody(rank);
    is_group(rank, left, &all); /* the copy is not broken */
    kolo_comm_destroy(left);
    if (!expect_status(rank, kolo_comm_shrink(rank->comm, &left), 0, "kolo_comm_shrink"))
        return;
    kolo_comm_destroy(rank->comm);
    rank->comm = left;
    if (expect_status(rank, kolo_comm_dup(rank->comm, &left), 0, "kolo_comm_dup of what was shrunk")) {
        is_group(rank, left, &all);
        kolo_comm_destroy(left);
    }
}

/* A rank of a group ends: the groups that have it break, and can be shrunk; others go on. */
static void run_death(struct rank *rank) {
    kolo_comm *sub, *left;
    const bool is_odd = rank->rank % 2;
    struct group group = {.count = 0};
    if (!expect_status(rank, kolo_comm_split(rank->comm, is_odd, -rank->rank, &sub), 0, "kolo_comm_split"))
        return;
    for (int of = rank->ranks - 1; of >= 0; of--)
        if (of % 2 == is_odd && of != 1)
            group.members[group.count++] = of;
    if (rank->rank == 1) {
        if (arguments.threads)
            kolo_comm_destroy(sub);
        end_rank(rank);
        return;
    }
    if (is_odd && rank->ranks > 2) {
        if (!expect_status(rank, call_until_failure(sub, count_for(sub)), KOLO_ERR_PEER_DEAD, "kolo_allreduce") ||
            !expect_status(rank, kolo_comm_shrink(sub, &left), 0, "kolo_comm_shrink of a group"))
            return;
        kolo_comm_destroy(sub);
        sub = left;
    }
    is_group(rank, sub, &group);
    kolo_comm_destroy(sub);
    expect_status(rank, kolo_comm_dup(rank->comm, &left), KOLO_ERR_PEER_DEAD, "kolo_comm_dup with a dead rank");
}

/* One rank has no descriptor left: nobody gets a communicator, and all go on. */
static void run_without_descriptors(struct rank *rank) {
    struct rlimit before, none;
    kolo_comm *sub = NULL;
    expect(rank, getrlimit(RLIMIT_NOFILE, &before) == 0, "getrlimit failed");
    none = before;
    for (int spare = 0; spare < 6; spare++) {
        none.rlim_cur = (rlim_t)(3 + spare);
        for (int victim = 0; victim < rank->ranks; victim++) {
            if (rank->rank == victim)
                setrlimit(RLIMIT_NOFILE, &none);
            const int status = kolo_comm_dup(rank->comm, &sub);
            setrlimit(RLIMIT_NOFILE, &before);
            if (status == 0) {
                kolo_comm_destroy(sub);
                sub = NULL;
                continue;
            }
            if (!expect_status(rank, status, KOLO_ERR_SYSTEM, "kolo_comm_dup") || !parent_works(rank))
                return;
            expect_message(rank, "kolo_comm_dup", rank->rank == victim ? strerror(EMFILE) : "see", NULL);
            expect(rank, sub == NULL, "a handle was set on failure");
        }
    }
    parent_works(rank);
}

/* In a group that another rank leads, too, rank 0's KOLO_SINGLE_COPY holds. */
static void run_led_by_last(struct rank *rank) {
    kolo_comm *comms[2] = {NULL, NULL};
    kolo_stats stats[2] = {{.stats_bytes = sizeof *stats}, {.stats_bytes = sizeof *stats}};
    int64_t sent[COUNT] = {0}, *taken = calloc((size_t)rank->ranks * COUNT, sizeof *taken);
    setenv("KOLO_SINGLE_COPY", rank->rank ? "off" : "1", 1);
    if (expect_status(rank, kolo_comm_create(&comms[0], &rank->options), 0, "kolo_comm_create"))
        expect_status(rank, kolo_comm_split(comms[0], 0, -rank->rank, &comms[1]), 0, "kolo_comm_split");
    for (int i = 0; comms[1] && i < 2; i++) {
        expect_status(rank, kolo_allgather(comms[i], sent, taken, COUNT, KOLO_I64), 0, "kolo_allgather");
        expect_status(rank, kolo_comm_stats(comms[i], &stats[i]), 0, "kolo_comm_stats");
    }
    expect(rank,
           stats[0].calls_by_algorithm[KOLO_ALGORITHM_DIRECT] == stats[1].calls_by_algorithm[KOLO_ALGORITHM_DIRECT],
           "only one of the two reads other ranks' memory");
    kolo_comm_destroy(comms[1]);
    kolo_comm_destroy(comms[0]);
    free(taken);
}

static void run_for(int ranks) {
    harness_run(&(struct team){.ranks = ranks, .slot_bytes = 8192, .run = run_colors});
    harness_run(&(struct team){.ranks = ranks, .slot_bytes = 8192, .run = run_nested});
    if (ranks < 2)
        return;
    harness_run(&(struct team){.ranks = ranks, .slot_bytes = 8192, .run = run_copies});
    harness_run(&(struct team){.ranks = ranks, .slot_bytes = 8192, .run = run_mismatch});
    harness_run(&(struct team){.ranks = ranks, .slot_bytes = 8192, .victims = 2, .run = run_death});
    if (!arguments.threads)
        harness_run(&(struct team){.ranks = ranks, .slot_bytes = 8192, .run = run_without_descriptors});
    if (!arguments.threads)
        harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run_led_by_last});
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Splits communicators, and doubles them.");
    for (int ranks = 1; ranks <= 9; ranks++)
        if (wants_ranks(ranks))
            run_for(ranks);
    for (int ranks = 2; ranks <= 8; ranks += 3)
        if (wants_ranks(ranks))
            harness_run(&(struct team){.ranks = ranks, .slot_bytes = 4096, .run = run_many});
    return harness_end();
}
