/* Jobs of 2 to 8 ranks that make all-reduces of mixed sizes, of which one or more are killed at any time, some while
 * the communicator is still being created. Every other rank must get an error that names one of the dead, the same one
 * on all; then nothing may be left of the job: no process, no name, and in the survivors no descriptor, mapping or
 * block of memory. */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fault_leftovers.h"
#include "fault_team.h"
#include "number_option.h"
#include "splitmix64.h"

enum {
    SKIPPED = 77,
    JOBS_DEFAULT = 60,
    RANKS_MIN = 2,
    COUNT_MAX = 20000,
    SLOT_BYTES = 8192,
    CREATION_MS = 1000, /* where kills come early: who has not registered is waited for so long */
    DEADLINE_MS = 20000,
    LIMIT_MS = 15000,
    EARLY_US_MAX = 6000,  /* when the first kill comes, from the start */
    LATE_US_MAX = 20000,  /* or from the end of creation */
    BETWEEN_US_MAX = 2000 /* and the next after that */
};

#define NOTICED_NS INT64_C(100000000)

struct job {
    uint64_t seed;
    int ranks;
    char name[64];
    bool early; /* kills come from the start on, not only after creation */
};

/* What a rank leaves for the parent to see. */
struct record {
    bool finished, created, is_wrong;
    int status; /* of the first error */
    int64_t call_begin_ns, error_ns, held_ns;
    char message[400];
    kolo_failure failure;
    struct leftovers before, after;
};

static struct shared {
    _Atomic int created;
    struct record records[TEAM_RANKS_MAX];
} * shared;

static struct {
    uint64_t seed;
    uint64_t jobs;
    bool is_small;
} options = {.jobs = JOBS_DEFAULT};

static int failures, kills, replaced;
static int64_t waited_ns[TEAM_RANKS_MAX]; /* of a victim when it was killed: see team_waited_ns */
static struct times noticed;

__attribute__((format(printf, 2, 3))) static void fail(const struct job *job, const char *format, ...) {
    va_list list;
    va_start(list, format);
    printf("FAILED: job %s of %d ranks: ", job->name, job->ranks);
    vprintf(format, list);
    printf("\n    repeat: random_kills --seed %" PRIu64 " --jobs %" PRIu64 "%s\n", options.seed, options.jobs,
           options.is_small ? " --small-shm" : "");
    va_end(list);
    failures++;
}

/* A rank. */

/* Small messages mostly, through lines; some through one slot or many. */
static size_t count_of(uint64_t *random) {
    static const size_t limits[] = {14, 110, 2000, COUNT_MAX};
    return 1 + random_below(random, limits[random_below(random, 4)]);
}

/* All-reduces until one fails, whose status it returns. */
static int reduce_until_error(kolo_comm *comm, const struct job *job, struct record *record, int held_fd) {
    static int32_t send[COUNT_MAX], recv[COUNT_MAX];
    uint64_t random = job->seed;
    const int rank = kolo_comm_rank(comm), sum_of_ranks = job->ranks * (job->ranks - 1) / 2;
    for (int call = 0;; call++) {
        const size_t count = count_of(&random);
        for (size_t i = 0; i < count; i++)
            send[i] = rank + call;
        record->held_ns = team_held_ns(held_fd);
        record->call_begin_ns = now_ns();
        const int status = kolo_allreduce(comm, send, recv, count, KOLO_I32, KOLO_SUM);
        if (status < 0)
            return status;
        for (size_t i = 0; i < count; i++)
            record->is_wrong |= recv[i] != sum_of_ranks + job->ranks * call;
    }
}

static void run_rank(const void *context, int rank) {
    const struct job *job = context;
    struct record *record = &shared->records[rank];
    kolo_options create = KOLO_OPTIONS_INIT;
    kolo_comm *comm = NULL;
    create.rank = rank;
    create.size = job->ranks;
    create.job = job->name;
    create.slot_bytes = SLOT_BYTES;
    create.timeout_ms = DEADLINE_MS;
    create.create_timeout_ms = job->early ? CREATION_MS : DEADLINE_MS;
    const int held_fd = team_held_open();
    record->before = leftovers_count();
    record->status = kolo_comm_create(&comm, &create);
    record->created = record->status == 0;
    if (record->created) {
        atomic_fetch_add(&shared->created, 1);
        record->status = reduce_until_error(comm, job, record, held_fd);
        record->error_ns = now_ns();
        record->held_ns = team_held_ns(held_fd) - record->held_ns;
        record->failure.failure_bytes = sizeof record->failure;
        kolo_comm_failure(comm, &record->failure);
    }
    snprintf(record->message, sizeof record->message, "%s", kolo_error_message());
    kolo_comm_destroy(comm);
    record->after = leftovers_count();
    record->finished = true;
}

/* The parent. */

static void pause_us(uint64_t us) {
    const struct timespec pause = {.tv_nsec = (long)us * 1000};
    nanosleep(&pause, NULL);
}

/* Kills one rank or more, never all, and returns when the first kill was. */
static int64_t kill_some(const struct job *job, const struct team *team, uint64_t *random) {
    const uint64_t most = (uint64_t)job->ranks - 1;
    const uint64_t victims = 1 + random_below(random, random_below(random, 3) ? (most < 2 ? most : 2) : most);
    const int64_t limit_ns = now_ns() + INT64_C(1000000) * LIMIT_MS;
    while (!job->early && atomic_load(&shared->created) < job->ranks && now_ns() < limit_ns)
        pause_us(100);
    pause_us(random_below(random, job->early ? EARLY_US_MAX : LATE_US_MAX));
    const int64_t first_ns = now_ns();
    for (uint64_t i = 0, rank = random_below(random, (uint64_t)job->ranks); i < victims; i++) {
        waited_ns[rank] = team_waited_ns(team, (int)rank);
        kill(team->pids[rank], SIGKILL);
        pause_us(random_below(random, BETWEEN_US_MAX));
        rank = (rank + 1) % (uint64_t)job->ranks;
    }
    return first_ns;
}

static bool was_killed(const struct team *team, int rank) {
    return team->ended[rank] && WIFSIGNALED(team->wait_status[rank]) && WTERMSIG(team->wait_status[rank]) == SIGKILL;
}

static void check_error(const struct job *job, const struct team *team, int rank) {
    const struct record *record = &shared->records[rank];
    char name[32];
    snprintf(name, sizeof name, ": rank %d ", record->failure.rank);
    for (int other = 0; other < rank; other++)
        if (!was_killed(team, other) && shared->records[other].created != record->created)
            fail(job, "rank %d has created it, rank %d has not", record->created ? rank : other,
                 record->created ? other : rank);
    if (!record->created) {
        if (!job->early || (record->status != KOLO_ERR_PEER_DEAD && record->status != KOLO_ERR_TIMEOUT))
            fail(job, "rank %d: creation returned %d: %s", rank, record->status, record->message);
        return;
    }
    if (record->status != KOLO_ERR_PEER_DEAD || record->failure.status != KOLO_ERR_PEER_DEAD)
        fail(job, "rank %d got %d, and kolo_comm_failure tells of %d: %s", rank, record->status, record->failure.status,
             record->message);
    else if (!was_killed(team, record->failure.rank) || !strstr(record->message, name))
        fail(job, "rank %d blames rank %d: %s", rank, record->failure.rank, record->message);
    for (int other = 0; other < rank; other++)
        if (!was_killed(team, other) && shared->records[other].created &&
            shared->records[other].failure.rank != record->failure.rank)
            fail(job, "rank %d blames rank %d, rank %d blames rank %d", rank, record->failure.rank, other,
                 shared->records[other].failure.rank);
}

static void check_survivor(const struct job *job, const struct team *team, int rank) {
    const struct record *record = &shared->records[rank];
    const struct leftovers *before = &record->before, *after = &record->after;
    if (!record->finished) {
        fail(job, "rank %d crashed", rank);
        return;
    }
    check_error(job, team, rank);
    if (record->is_wrong)
        fail(job, "rank %d has a wrong result", rank);
    if (memcmp(before, after, sizeof *before) != 0)
        fail(job, "rank %d has %d descriptors, %d mappings, %" PRId64 " blocks; before: %d, %d, %" PRId64, rank,
             after->descriptors, after->mappings, after->blocks, before->descriptors, before->mappings, before->blocks);
}

/* From the first kill, or the begin of the call that failed if that is later, to the last error. */
static void check_time(const struct job *job, const struct team *team, int64_t first_ns) {
    int64_t longest_ns = -1, held_ns = team->held_ns;
    for (int rank = 0; rank < job->ranks; rank++) {
        const struct record *record = &shared->records[rank];
        if (was_killed(team, rank))
            held_ns += team->waited_ns[rank] - waited_ns[rank]; /* before it was dead */
        if (was_killed(team, rank) || !record->created)
            continue;
        const int64_t begin_ns = record->call_begin_ns > first_ns ? record->call_begin_ns : first_ns;
        held_ns += record->held_ns;
        if (record->error_ns - begin_ns > longest_ns)
            longest_ns = record->error_ns - begin_ns;
    }
    if (longest_ns < 0)
        return;
    times_add(&noticed, longest_ns);
    if (longest_ns > NOTICED_NS + held_ns)
        fail(job, "noticed after %.1f ms, of which the machine took %.1f", (double)longest_ns * 1e-6,
             (double)held_ns * 1e-6);
}

/* A rank 0 that was killed before all had come may leave the name, which the next job replaces. */
static void check_name(struct job *job, const struct team *team) {
    if (!leftovers_named(job->name))
        return;
    if (!job->early || !was_killed(team, 0)) {
        fail(job, "%s is left", leftovers_path(job->name));
        return;
    }
    struct team next;
    memset(shared, 0, sizeof *shared);
    job->ranks = RANKS_MIN;
    team_start(&next, job->ranks, run_rank, job);
    for (int64_t begin_ns = now_ns();
         atomic_load(&shared->created) < job->ranks && now_ns() - begin_ns < INT64_C(1000000) * LIMIT_MS;)
        pause_us(200);
    if (atomic_load(&shared->created) < job->ranks)
        fail(job, "the next job of that name: %s %s", shared->records[0].message, shared->records[1].message);
    team_kill(&next);
    if (leftovers_named(job->name))
        fail(job, "%s is left by the next job of that name", leftovers_path(job->name));
    replaced++;
}

static void run_job(uint64_t number) {
    uint64_t random = options.seed ^ number * UINT64_C(0xd1342543de82ef95);
    struct job job = {.seed = random_next(&random), .early = random_below(&random, 4) == 0};
    struct team team;
    job.ranks = RANKS_MIN + (int)random_below(&random, TEAM_RANKS_MAX - RANKS_MIN + 1);
    snprintf(job.name, sizeof job.name, "kills-%d-%" PRIu64, (int)getpid(), number);
    memset(shared, 0, sizeof *shared);
    team_start(&team, job.ranks, run_rank, &job);
    const int64_t first_ns = kill_some(&job, &team, &random);
    const bool ended = team_await(&team, -1, INT64_C(1000000) * LIMIT_MS);
    for (int rank = 0; rank < job.ranks; rank++) {
        kills += was_killed(&team, rank);
        if (!ended && !team.ended[rank])
            fail(&job, "rank %d hangs", rank);
        else if (!was_killed(&team, rank))
            check_survivor(&job, &team, rank);
    }
    if (ended)
        check_time(&job, &team, first_ns);
    team_kill(&team);
    check_name(&job, &team);
    unlink(leftovers_path(job.name));
    if (team_is_left())
        fail(&job, "a process is left");
}

/* Arguments. */

static void print_usage(FILE *to) {
    fprintf(to, "usage: random_kills [--jobs N] [--seed N] [--small-shm]\n\n"
                "Kills ranks of jobs at random times, and looks what becomes of the others.\n\n"
                "  --jobs N     how many jobs, 60 without it\n"
                "  --seed N     of ranks, sizes, victims and times; without it, TEST_SEED, or 1\n"
                "  --small-shm  with a /dev/shm that holds no segment: they are memory files of rank 0's\n"
                "  --help       print this\n\n"
                "Exit status: 0 passed, 1 failed, 2 wrong arguments, 77 no right to mount for --small-shm.\n\n"
                "example: random_kills --jobs 1000\n");
}

static void parse(int argc, char **argv) {
    static const struct option longs[] = {{"jobs", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"small-shm", no_argument, NULL, 'm'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    options.seed = default_seed();
    for (int option; (option = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        if (option == 'n')
            options.jobs = number_option("jobs", UINT64_MAX);
        else if (option == 's')
            options.seed = number_option("seed", UINT64_MAX);
        else if (option == 'm')
            options.is_small = true;
        else {
            print_usage(option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
    }
}

/* In a mount namespace of this process's own. */
static void make_shm_small(void) {
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=16k,mode=1777") == 0)
        return;
    perror("random_kills: mounting a small /dev/shm");
    exit(SKIPPED);
}

int main(int argc, char **argv) {
    parse(argc, argv);
    if (options.is_small)
        make_shm_small();
    setenv("KOLO_TUNE_FILE", "none", 1);
    unsetenv("KOLO_LOG");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    const int64_t begin_ns = now_ns();
    const int descriptors = leftovers_count().descriptors;
    printf("seed %" PRIu64 "\n", options.seed);
    for (uint64_t number = 1; number <= options.jobs; number++) {
        run_job(number);
        if (number % 100 == 0) {
            printf("%" PRIu64 " of %" PRIu64 " jobs, %d failures\n", number, options.jobs, failures);
            fflush(stdout);
        }
    }
    if (leftovers_count().descriptors != descriptors) {
        printf("FAILED: this process has %d descriptors, %d before\n", leftovers_count().descriptors, descriptors);
        failures++;
    }
    printf("%" PRIu64 " jobs, %d ranks killed, %d names replaced; from the first kill to the last survivor's error:\n",
           options.jobs, kills, replaced);
    times_print(&noticed, "jobs");
    printf("%s, %d failures, seed %" PRIu64 ", %.1f s\n", failures ? "FAILED" : "passed", failures, options.seed,
           (double)(now_ns() - begin_ns) * 1e-9);
    return failures ? 1 : 0;
}
