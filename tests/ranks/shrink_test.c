/* kolo_comm_shrink: the survivors of any loss go on with the ranks in their old order, with right sums and the same
 * bits, down to the last one; also where more die or stop while they agree; and nothing is left behind. */
#include <errno.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "losses.h"

enum { CALLS = 10, COUNT = 5000, CODE = 7, STOPPED_TIMEOUT_MS = 1500 };

/* Who is lost, as sets with a bit a rank, and how. */
struct losses {
    uint64_t first;     /* die (threads: leave) after some calls */
    uint64_t meanwhile; /* die at a random moment from when they begin to shrink */
    int signal;         /* SIGKILL, or SIGSTOP for those of `meanwhile` */
    uint64_t seed;
};

/* What the survivors do. */

/* Sums of floats that round, compared by all through a hash of their bits. */
static bool bits_are_the_same(const struct rank *rank, kolo_comm *comm) {
    float *data = malloc(COUNT * sizeof *data);
    uint64_t random = random_seed(1, (uint64_t)rank->rank), hash = 0, lowest, highest;
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)random_below(&random, 1000003) * 0x1p-13f;
    int status = kolo_allreduce(comm, data, data, COUNT, KOLO_F32, KOLO_SUM);
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    }
    free(data);
    if (status == 0)
        status = kolo_allreduce(comm, &hash, &lowest, 1, KOLO_U64, KOLO_MIN);
    if (status == 0)
        status = kolo_allreduce(comm, &hash, &highest, 1, KOLO_U64, KOLO_MAX);
    return expect_status(rank, status, 0, "kolo_allreduce") &&
           expect(rank, lowest == highest, "the ranks that are left have different bits");
}

/* The library's nameless files can be opened by their user only. Among threads any of them may be closed meanwhile. */
static bool memory_is_private(const struct rank *rank) {
    bool is_private = true;
    DIR *directory = arguments.threads ? NULL : opendir("/proc/self/fd");
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        char target[64] = "";
        struct stat found;
        if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) > 0 &&
            strncmp(target, "/memfd:kolo", 11) == 0 && fstatat(dirfd(directory), entry->d_name, &found, 0) == 0)
            is_private &=
                expect(rank, (found.st_mode & 0777) == 0600, "%s has mode %o", target, (unsigned)found.st_mode & 0777);
    }
    if (directory)
        closedir(directory);
    return is_private;
}

static bool works(const struct rank *rank, kolo_comm *comm, uint64_t alive) {
    const int wanted = count_of(alive & all_of(rank->rank));
    return expect(rank, kolo_comm_size(comm) == count_of(alive) && kolo_comm_rank(comm) == wanted,
                  "is rank %d of %d after shrinking, not %d of %d", kolo_comm_rank(comm), kolo_comm_size(comm), wanted,
                  count_of(alive)) &&
           sums_are_right(rank, comm, alive, COUNT) && bits_are_the_same(rank, comm) && memory_is_private(rank) &&
           expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
}

/* Replaces rank->comm by what is left of it. */
static bool shrink(struct rank *rank) {
    kolo_comm *left = NULL;
    if (!expect_status(rank, kolo_comm_shrink(rank->comm, &left), 0, "kolo_comm_shrink"))
        return false;
    expect_status(rank, kolo_comm_shrink(rank->comm, &left), KOLO_ERR_STATE, "kolo_comm_shrink once more");
    expect_message(rank, "kolo_comm_shrink once more", "shrunk already", NULL);
    kolo_comm_destroy(rank->comm);
    rank->comm = left;
    return true;
}

/* Down to one rank, one after another in random order. */
static void run_chain(struct rank *rank) {
    uint64_t alive = all_of(rank->ranks), random = random_seed(2, (uint64_t)rank->ranks);
    while (count_of(alive) > 1) {
        int victim = (int)random_below(&random, (uint64_t)rank->ranks);
        while (!has(alive, victim))
            victim = (victim + 1) % rank->ranks;
        if (rank->rank == victim) {
            end_rank(rank);
            return;
        }
        alive &= ~RANK(victim);
        if (!expect_status(rank, call_until_failure(rank->comm, count_for(rank->comm)), KOLO_ERR_PEER_DEAD,
                           "kolo_allreduce") ||
            !shrink(rank) || !works(rank, rank->comm, alive))
            return;
    }
}

/* Some at once. */
static void run_first_losses(struct rank *rank) {
    const struct losses *losses = rank->team->argument;
    float data[CALLS] = {0};
    for (int i = 0; i < CALLS; i++)
        if (!expect_status(rank, kolo_allreduce(rank->comm, data, data, CALLS, KOLO_F32, KOLO_MAX), 0,
                           "kolo_allreduce"))
            return;
    kolo_barrier(rank->comm);
    if (has(losses->first, rank->rank))
        end_rank(rank);
    else if (expect_status(rank, call_until_failure(rank->comm, count_for(rank->comm)), KOLO_ERR_PEER_DEAD,
                           "kolo_allreduce")) {
        while (kolo_comm_size(rank->comm) > rank->ranks - count_of(losses->first)) {
            if (!shrink(rank)) /* one of two may die a moment later than the other */
                return;
            if (kolo_comm_size(rank->comm) > rank->ranks - count_of(losses->first))
                call_until_failure(rank->comm, count_for(rank->comm));
        }
        works(rank, rank->comm, all_of(rank->ranks) & ~losses->first);
    }
}

/* More while the others agree. */

/* A rank that was stopped and goes on: the others are past it. */
static void check_left_out(const struct rank *rank, int status) {
    kolo_comm *left = NULL;
    for (int i = 0; i < 2; i++) {
        if (expect_status(rank, status, KOLO_ERR_TIMEOUT, "kolo_comm_shrink of one that was stopped"))
            expect_message(rank, "kolo_comm_shrink", "went on without this rank", NULL);
        const int64_t begin_ns = now_ns();
        status = kolo_comm_shrink(rank->comm, &left);
        expect_prompt(rank, now_ns() - begin_ns, 500, "a rank that is left out was told");
    }
    expect(rank, left == NULL, "a handle was set on failure");
}

static void run_meanwhile(struct rank *rank) {
    const struct losses *losses = rank->team->argument;
    const uint64_t alive = all_of(rank->ranks) & ~losses->first & ~losses->meanwhile;
    uint64_t random = losses->seed + (uint64_t)rank->rank;
    bool armed = !has(losses->meanwhile, rank->rank);
    if (!expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier"))
        return;
    if (has(losses->first, rank->rank))
        end_rank(rank);
    while (kolo_comm_size(rank->comm) > count_of(alive)) {
        kolo_comm *left;
        call_until_failure(rank->comm, count_for(rank->comm));
        if (!armed)
            arm(losses->signal, random_below(&random, 3000));
        armed = true;
        const int status = kolo_comm_shrink(rank->comm, &left);
        if (status < 0 && has(losses->meanwhile, rank->rank)) {
            check_left_out(rank, status);
            return;
        }
        if (!expect_timely(rank, rank->comm, status, 0, -1, "kolo_comm_shrink")) {
            counter_add(1);
            return;
        }
        kolo_comm_destroy(rank->comm);
        rank->comm = left;
    }
    works(rank, rank->comm, alive);
    counter_add(1);
}

static void continue_stopped(const struct team *team, const pid_t *pids) {
    const struct losses *losses = team->argument;
    const uint64_t survivors = (uint64_t)(team->ranks - count_of(losses->meanwhile | losses->first));
    const int64_t deadline_ns = now_ns() + 60000 * INT64_C(1000000);
    while (counter_add(0) < survivors && now_ns() < deadline_ns)
        sleep_ms(1);
    for (int rank = 0; rank < team->ranks; rank++)
        if (has(losses->meanwhile, rank))
            kill(pids[rank], SIGCONT);
}

static void run_random_losses(uint64_t round, int signal_number) {
    uint64_t random = random_seed(3 + (uint64_t)signal_number, round);
    const int ranks = 3 + (int)random_below(&random, 6);
    struct losses losses = {.signal = signal_number};
    losses.first = RANK(random_below(&random, (uint64_t)ranks));
    const uint64_t more = 1 + random_below(&random, (uint64_t)(signal_number == SIGSTOP ? 1 : ranks - 2));
    for (uint64_t i = 0; i < more; i++)
        losses.meanwhile |= RANK(random_below(&random, (uint64_t)ranks));
    losses.meanwhile &= ~losses.first;
    losses.seed = random_next(&random);
    if (!wants_ranks(ranks) || !losses.meanwhile)
        return;
    harness_run(&(struct team){.ranks = ranks,
                               .slot_bytes = 8192,
                               .victims = losses.first | (signal_number == SIGKILL ? losses.meanwhile : 0),
                               .timeout_ms = signal_number == SIGSTOP ? patience_ms(STOPPED_TIMEOUT_MS) : 0,
                               .run = run_meanwhile,
                               .argument = &losses,
                               .meanwhile = signal_number == SIGSTOP ? continue_stopped : NULL});
}

/* Nobody is lost. */

static void check_refusals(struct rank *rank) {
    kolo_comm *left = NULL;
    int exit_code = -1;
    expect_status(rank, kolo_comm_shrink(NULL, &left), KOLO_ERR_ARG, "kolo_comm_shrink of NULL");
    expect_status(rank, kolo_comm_shrink(rank->comm, NULL), KOLO_ERR_ARG, "kolo_comm_shrink into NULL");
    expect_status(rank, kolo_comm_shrink(rank->comm, &left), KOLO_ERR_STATE, "kolo_comm_shrink of a sound one");
    expect_message(rank, "kolo_comm_shrink of a sound one", "is not broken", NULL);
    if (arguments.threads)
        return;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        expect_status(rank, kolo_comm_shrink(rank->comm, &left), KOLO_ERR_STATE, "kolo_comm_shrink in a child");
        expect_message(rank, "kolo_comm_shrink in a child", "inherited through fork", NULL);
        _exit(0);
    }
    expect(rank, pid > 0 && waitpid(pid, &exit_code, 0) == pid && exit_code == 0, "the child ended with %d", exit_code);
    expect(rank, left == NULL, "a handle was set on failure");
}

/* After an abort all are still there, with settings and buffers as before. */
static void run_abort(struct rank *rank) {
    void *buffer = NULL;
    const int64_t limit_ms = info_of(rank->comm).timeout_ms + 1000;
    check_refusals(rank);
    expect_status(rank, kolo_comm_set_timeout(rank->comm, limit_ms), 0, "kolo_comm_set_timeout");
    expect_status(rank, kolo_alloc(rank->comm, 100000, &buffer), 0, "kolo_alloc");
    if (rank->rank == rank->ranks / 2 || kolo_comm_size(rank->comm) == 1)
        expect_status(rank, kolo_comm_abort(rank->comm, CODE), 0, "kolo_comm_abort");
    else
        expect_status(rank, call_until_failure(rank->comm, 6), KOLO_ERR_ABORTED, "kolo_allreduce");
    if (!shrink(rank) || !works(rank, rank->comm, all_of(rank->ranks)))
        return;
    expect(rank, info_of(rank->comm).timeout_ms == limit_ms, "a limit of %lld ms",
           (long long)info_of(rank->comm).timeout_ms);
    expect_status(rank, kolo_alloc(rank->comm, 100000, &buffer), 0, "kolo_alloc");
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(rank->comm, &stats);
    expect(rank,
           stats.calls_by_algorithm[rank->team->algorithm] > 0 || rank->ranks == 1 ||
               rank->team->algorithm == KOLO_ALGORITHM_DIRECT /* in buffers of kolo_alloc only */,
           "the algorithm that was asked for is forgotten");
}

/* Rank 1 comes when it has received a message, which rank 0 sends while it waits in kolo_comm_shrink. */
static void run_beside_messages(struct rank *rank) {
    enum { LARGE = 300000 };
    char *data = calloc(1, LARGE);
    kolo_comm *other = NULL;
    kolo_request *request = NULL;
    expect_status(rank, kolo_comm_dup(rank->comm, &other), 0, "kolo_comm_dup");
    if (rank->rank == 0)
        expect_status(rank, kolo_isend(other, data, LARGE, KOLO_I8, 1, 0, &request), 0, "kolo_isend");
    if (rank->rank == 0)
        expect_status(rank, kolo_comm_abort(rank->comm, CODE), 0, "kolo_comm_abort");
    else if (expect_status(rank, kolo_recv(other, data, LARGE, KOLO_I8, 0, 0, NULL), 0, "kolo_recv"))
        call_until_failure(rank->comm, 6);
    if (shrink(rank))
        works(rank, rank->comm, all_of(rank->ranks));
    expect_status(rank, kolo_request_wait(request), 0, "the send");
    kolo_comm_destroy(other);
    free(data);
}

/* One rank cannot open a file: all fail, and may try again. */
static void run_without_descriptors(struct rank *rank) {
    const int *victim = rank->team->argument;
    struct rlimit before, none;
    kolo_comm *left = NULL;
    expect(rank, getrlimit(RLIMIT_NOFILE, &before) == 0, "getrlimit failed");
    none = before;
    none.rlim_cur = 3;
    if (rank->rank == *victim) {
        kolo_comm_abort(rank->comm, CODE);
        expect(rank, setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit failed");
    }
    call_until_failure(rank->comm, 6);
    if (expect_status(rank, kolo_comm_shrink(rank->comm, &left), KOLO_ERR_SYSTEM, "kolo_comm_shrink"))
        expect_message(rank, "kolo_comm_shrink", "kolo_comm_shrink",
                       rank->rank == *victim ? strerror(EMFILE) : "see that rank's message", NULL);
    expect(rank, left == NULL, "a handle was set on failure");
    expect(rank, setrlimit(RLIMIT_NOFILE, &before) == 0, "setrlimit failed");
    if (shrink(rank))
        works(rank, rank->comm, all_of(rank->ranks));
}

/* Nothing is left. */

enum { CYCLES = 40 };

/* Through an inherited file, which may hold nothing in the end, not even the segment that a dead rank never left. */
static void run_cycles(struct rank *rank) {
    int before = 0;
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
            return;
        if (cycle == 2)
            before = open_descriptors();
        if (cycle + 1 == CYCLES && rank->rank == 0)
            end_rank(rank);
        if (rank->rank == cycle % rank->ranks && cycle + 1 < CYCLES)
            kolo_comm_abort(rank->comm, CODE);
        call_until_failure(rank->comm, 6);
        if (cycle == CYCLES - 2)
            expect(rank, open_descriptors() == before, "%d descriptors in the third cycle, %d now", before,
                   open_descriptors());
        const uint64_t lost = cycle + 1 == CYCLES; /* rank 0 */
        if (!shrink(rank) || !works(rank, rank->comm, all_of(rank->ranks) & ~lost))
            return;
        kolo_comm_destroy(rank->comm);
        rank->comm = NULL;
    }
}

static void run_for(int ranks) {
    for (kolo_algorithm algorithm = KOLO_ALGORITHM_ONESHOT; algorithm < KOLO_ALGORITHMS; algorithm++)
        if (wants_algorithm(algorithm) && (ranks == 3 || (int)algorithm == ranks % KOLO_ALGORITHMS))
            harness_run(&(struct team){.ranks = ranks, .algorithm = algorithm, .slot_bytes = 8192, .run = run_abort});
    if (ranks == 1)
        return;
    harness_run(&(struct team){.ranks = ranks, .victims = all_of(ranks), .slot_bytes = 8192, .run = run_chain});
    for (int one = 0; one < ranks; one++)
        for (int other = one; other<ranks; other += ranks> 4 && other == one ? 1 + ranks / 3 : 1) {
            const struct losses losses = {.first = RANK(one) | RANK(other)};
            if (count_of(losses.first) == ranks || (arguments.quick && (one + other) % 3))
                continue;
            harness_run(&(struct team){.ranks = ranks,
                                       .slot_bytes = 8192,
                                       .victims = losses.first,
                                       .run = run_first_losses,
                                       .argument = &losses});
        }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Breaks communicators and goes on with the ranks that are left.");
    for (int ranks = 1; ranks <= 8; ranks++)
        if (wants_ranks(ranks))
            run_for(ranks);
    if (wants_ranks(2))
        harness_run(&(struct team){.ranks = 2, .slot_bytes = 8192, .timeout_ms = 20000, .run = run_beside_messages});
    if (arguments.threads)
        return harness_end();
    for (uint64_t round = 0; round < (arguments.quick ? 12 : 80); round++)
        run_random_losses(round, SIGKILL);
    for (uint64_t round = 0; round < (arguments.quick ? 1 : 3); round++)
        run_random_losses(round, SIGSTOP);
    for (int victim = 0; victim < 3; victim++)
        if (wants_ranks(3))
            harness_run(
                &(struct team){.ranks = 3, .slot_bytes = 8192, .run = run_without_descriptors, .argument = &victim});
    for (int ranks = 2; ranks <= 4; ranks += 2)
        if (wants_ranks(ranks))
            harness_run(&(struct team){.ranks = ranks,
                                       .slot_bytes = 16384,
                                       .by_descriptor = true,
                                       .empties_file = true,
                                       .creates_itself = true,
                                       .victims = 1,
                                       .run = run_cycles});
    return harness_end();
}
