/* Several threads a rank: every collective, by the program's threads and by kolo's, in buffers of kolo_alloc and
 * outside, against the sequential reference, so with the bits of one lane; blocks that are too short for some lanes;
 * random programs that mix both with calls in the background; what is refused; and what becomes of all lanes when one
 * of them fails, is aborted, or a rank dies. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo_lanes.h"
#include "oracle.h"
#include "reference.h"

enum { SLOT_BYTES = 8192, SLICE_BYTES = 4096, HELPED_BYTES = 512 << 10, LANES_MAX = 4 };

/* How a team's communicator is made and used. */
struct mode {
    int threads;
    bool helpers; /* calls without lanes */
    bool shared;  /* buffers of kolo_alloc */
};

static const struct mode *mode_of(const struct rank *rank) {
    return rank->team->argument;
}

static bool create(struct rank *rank) {
    rank->options.threads = rank->rank == 0 ? mode_of(rank)->threads : 0; /* rank 0 decides */
    return expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") &&
           expect(rank, info_of(rank->comm).lanes == mode_of(rank)->threads, "%d lanes", info_of(rank->comm).lanes);
}

/* The threads of a rank. */
struct crew {
    int threads;
    pthread_barrier_t begin, end;
    pthread_t thread[LANES_MAX];
    int next;                        /* the next thread's lane, at their start */
    int (*work)(void *of, int lane); /* NULL: to end */
    void *of;
    int statuses[LANES_MAX];
};

static void *serve(void *argument) {
    struct crew *crew = argument;
    const int lane = __atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED);
    for (;;) {
        pthread_barrier_wait(&crew->begin);
        if (!crew->work)
            return NULL;
        crew->statuses[lane] = crew->work(crew->of, lane);
        pthread_barrier_wait(&crew->end);
    }
}

static void crew_begin(struct crew *crew, int threads) {
    *crew = (struct crew){.threads = threads, .next = 1};
    pthread_barrier_init(&crew->begin, NULL, (unsigned)threads);
    pthread_barrier_init(&crew->end, NULL, (unsigned)threads);
    for (int lane = 1; lane < threads; lane++)
        pthread_create(&crew->thread[lane], NULL, serve, crew);
}

/* Has all threads do it; returns the first status that is not 0. */
static int crew_work(struct crew *crew, int (*work)(void *of, int lane), void *of) {
    int status = 0;
    crew->work = work;
    crew->of = of;
    pthread_barrier_wait(&crew->begin);
    crew->statuses[0] = work(of, 0);
    pthread_barrier_wait(&crew->end);
    for (int lane = 0; lane < crew->threads; lane++)
        status = status ? status : crew->statuses[lane];
    return status;
}

static void crew_end(struct crew *crew) {
    crew->work = NULL;
    pthread_barrier_wait(&crew->begin);
    for (int lane = 1; lane < crew->threads; lane++)
        pthread_join(crew->thread[lane], NULL);
    pthread_barrier_destroy(&crew->begin);
    pthread_barrier_destroy(&crew->end);
}

struct lane_call {
    const struct prepared *prepared;
    kolo_comm *comm;
};

static int make_in_lane(void *of, int lane) {
    const struct lane_call *call = of;
    return call_make(call->prepared, kolo_comm_lane(call->comm, lane));
}

static bool run_call(const struct rank *rank, struct crew *crew, const struct call *call, bool by_lanes) {
    struct prepared prepared;
    struct lane_call in_lane = {&prepared, rank->comm};
    call_prepare(&prepared, call, rank->comm);
    return call_check(rank, &prepared,
                      by_lanes ? crew_work(crew, make_in_lane, &in_lane) : call_make(&prepared, rank->comm));
}

/* Elements of a call that is divided: a few more or fewer than fill lines. `blocks`: of a call that sends or takes so
 * many. */
static size_t count_for(const struct mode *mode, const collective_shape *kind, kolo_dtype dtype, int ranks,
                        uint32_t index) {
    const size_t slices = (size_t)mode->threads * SLICE_BYTES, blocks = kind->sends_blocks || kind->takes_blocks;
    const size_t helped = (size_t)HELPED_BYTES / (blocks ? (size_t)ranks : 1);
    const size_t bytes = mode->helpers && helped > slices ? helped : slices;
    return bytes / kolo_dtype_bytes(dtype) + 1 + index * 37 % 300;
}

/* Every collective, with dtypes and ops by turns; all roots in turn. */
static void run_each(struct rank *rank) {
    const struct mode *mode = mode_of(rank);
    unsigned char *shared[2] = {NULL, NULL};
    struct crew crew;
    uint32_t index = (uint32_t)mode->threads;
    if (!create(rank))
        return;
    for (int i = 0; mode->shared && i < 2; i++)
        if (!expect_status(rank, kolo_alloc(rank->comm, SHARED_BYTES, (void **)&shared[i]), 0, "kolo_alloc"))
            return;
    crew_begin(&crew, mode->threads);
    bool right = true;
    for (size_t kind = 0; right && kind < COLLECTIVES; kind++)
        for (int turn = 0; right && turn < (mode->helpers ? 2 : 5); turn++, index += 5) {
            struct call call = {.index = index,
                                .kind = &collective_shapes[kind],
                                .dtype = (kolo_dtype)(index % KOLO_DTYPES),
                                .op = (kolo_op)(index % KOLO_AVG),
                                .root = (int)index % rank->ranks,
                                .in_place = turn % 2 && works_in_place(&collective_shapes[kind]),
                                .shared = mode->shared ? shared : NULL};
            call.count = count_for(mode, call.kind, call.dtype, rank->ranks, index);
            if (turn == 3) /* all lanes but the last */
                call.count -= SLICE_BYTES / kolo_dtype_bytes(call.dtype);
            if (turn == 4)
                call.count = index % 50; /* lane 0 alone */
            right = run_call(rank, &crew, &call, !mode->helpers);
        }
    const kolo_collective collective = KOLO_ALLREDUCE;
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(rank->comm, &stats);
    expect(rank,
           stats.calls_by_collective[collective] == (mode->helpers ? 2 : 5) && !stats.calls_by_collective[KOLO_DUP],
           "%llu all-reduces", (unsigned long long)stats.calls_by_collective[collective]);
    crew_end(&crew);
    kolo_comm_destroy(rank->comm);
}

/* A call in the background, and messages round the ranks, which end while lanes are at work. */
static bool run_in_background(const struct rank *rank, const struct call *call) {
    enum { MESSAGES = 5 };
    const int before = (rank->rank + rank->ranks - 1) % rank->ranks, next = (rank->rank + 1) % rank->ranks;
    struct prepared prepared;
    kolo_request *request = NULL, *taking[MESSAGES], *sending[MESSAGES];
    int taken[MESSAGES];
    bool right = true;
    call_prepare(&prepared, call, rank->comm);
    int status = call_issue(&prepared, rank->comm, &request);
    for (int i = 0; status == 0 && i < MESSAGES; i++) {
        status = kolo_irecv(rank->comm, &taken[i], 1, KOLO_I32, before, i, NULL, &taking[i]);
        if (status == 0)
            status = kolo_isend(rank->comm, &rank->rank, 1, KOLO_I32, next, i, &sending[i]);
    }
    for (int i = 0; status == 0 && i < MESSAGES; i++) {
        status = kolo_request_wait(taking[i]);
        right = right && (status || expect(rank, taken[i] == before, "%d has come from rank %d", taken[i], before));
        status = status < 0 ? status : kolo_request_wait(sending[i]);
    }
    status = status < 0 ? status : kolo_request_wait(request);
    return call_check(rank, &prepared, status) && right;
}

/* Random calls, the same on all ranks: by lanes, without, and in the background. */
static void run_mixed(struct rank *rank) {
    const struct mode *mode = mode_of(rank);
    uint64_t random = random_seed(1, (uint64_t)rank->ranks);
    struct crew crew;
    rank->options.progress = mode->shared ? 1 : -1;
    if (!create(rank))
        return;
    crew_begin(&crew, mode->threads);
    for (uint32_t index = 0; index < (arguments.quick ? 60 : 200); index++) {
        const uint64_t draw = random_next(&random);
        const collective_shape *kind = &collective_shapes[draw % COLLECTIVES];
        struct call call = {.index = index,
                            .kind = kind,
                            .dtype = (kolo_dtype)((draw >> 8) % KOLO_DTYPES),
                            .op = (kolo_op)((draw >> 16) % KOLO_AVG),
                            .root = (int)((draw >> 24) % (uint64_t)rank->ranks),
                            .count = (draw >> 44) % 300,
                            .in_place = (draw >> 42 & 1) && works_in_place(kind)};
        if ((draw >> 32) % 8 == 0)
            call.count = count_for(mode, kind, call.dtype, rank->ranks, index);
        if (draw >> 60 & 1) {
            if (!run_in_background(rank, &call))
                break;
        } else if (!run_call(rank, &crew, &call, draw >> 61 & 1)) {
            break;
        }
    }
    crew_end(&crew);
    kolo_comm_destroy(rank->comm);
}

/* All lanes of a rank in one all-reduce. */
struct sum {
    const struct rank *rank;
    kolo_comm *comm;
    float *data;
    size_t count;
    int odd_lane; /* which calls something else on rank 1; -1: none */
    bool aborts;
};

static int make_sum(void *of, int lane) {
    const struct sum *sum = of;
    const bool is_odd = lane == sum->odd_lane && sum->rank->rank == 1;
    if (is_odd && sum->aborts)
        return kolo_comm_abort(kolo_comm_lane(sum->comm, lane), 7) ? KOLO_ERR_STATE : KOLO_ERR_ABORTED;
    return kolo_allreduce(kolo_comm_lane(sum->comm, lane), sum->data, sum->data, sum->count, KOLO_F32,
                          is_odd ? KOLO_MAX : KOLO_SUM);
}

static int meet(void *of, int lane) {
    return kolo_barrier(kolo_comm_lane(of, lane));
}

enum { SUM_COUNT = 10000 };

static bool sums_are_right(const struct rank *rank, struct crew *crew, kolo_comm *comm) {
    float *data = malloc(SUM_COUNT * sizeof *data);
    struct sum sum = {rank, comm, data, SUM_COUNT, -1, false};
    for (int i = 0; i < SUM_COUNT; i++)
        data[i] = (float)(i + kolo_comm_rank(comm));
    bool right = expect_status(rank, crew_work(crew, make_sum, &sum), 0, "kolo_allreduce by lanes") &&
                 expect_status(rank, crew_work(crew, meet, comm), 0, "kolo_barrier by lanes");
    const int size = kolo_comm_size(comm);
    for (int i = 0; right && i < SUM_COUNT; i++)
        right = expect(rank, data[i] == (float)(i * size + size * (size - 1) / 2), "element %d is wrong", i);
    free(data);
    return right;
}

/* Communicators that come of one with lanes have as many. */
static void run_groups(struct rank *rank) {
    const int threads = mode_of(rank)->threads;
    struct crew crew;
    kolo_comm *copy, *half;
    if (!create(rank))
        return;
    crew_begin(&crew, threads);
    if (expect_status(rank, kolo_comm_dup(rank->comm, &copy), 0, "kolo_comm_dup") &&
        expect_status(rank, kolo_comm_split(rank->comm, rank->rank % 2, 0, &half), 0, "kolo_comm_split")) {
        expect(rank, info_of(copy).lanes == threads && info_of(half).lanes == threads, "%d and %d lanes",
               info_of(copy).lanes, info_of(half).lanes);
        (void)(sums_are_right(rank, &crew, copy) && sums_are_right(rank, &crew, half));
        kolo_comm_destroy(copy);
        (void)(sums_are_right(rank, &crew, half) && sums_are_right(rank, &crew, rank->comm));
        kolo_comm_destroy(half);
    }
    crew_end(&crew);
    kolo_comm_destroy(rank->comm);
}

static void expect_child_refused(struct rank *rank) {
    float one = 1;
    int status = 1;
    const pid_t child = fork();
    if (child == 0) {
        const bool right =
            kolo_allreduce(kolo_comm_lane(rank->comm, 1), &one, &one, 1, KOLO_F32, KOLO_SUM) == KOLO_ERR_STATE;
        _exit(kolo_comm_destroy(rank->comm) == 0 && right ? 0 : 1);
    }
    waitpid(child, &status, 0);
    expect(rank, status == 0, "a forked child ended with %d", status);
}

/* A lane takes blocking collectives and kolo_comm_abort, and nothing else. */
static void expect_lane_refuses(struct rank *rank, kolo_comm *lane) {
    float one = 1;
    kolo_request *request;
    kolo_comm *made;
    void *buffer;
    int fd;
    const int statuses[] = {kolo_iallreduce(lane, &one, &one, 1, KOLO_F32, KOLO_SUM, &request),
                            kolo_send(lane, &one, 1, KOLO_F32, 0, 0),
                            kolo_irecv(lane, &one, 1, KOLO_F32, 0, 0, NULL, &request),
                            kolo_alloc(lane, 4096, &buffer),
                            kolo_comm_dup(lane, &made),
                            kolo_comm_split(lane, 0, 0, &made),
                            kolo_comm_shrink(lane, &made),
                            kolo_comm_eventfd(lane, &fd),
                            kolo_comm_set_timeout(lane, 1000),
                            kolo_comm_set_hooks(lane, NULL),
                            kolo_comm_destroy(lane)};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        expect(rank, statuses[i] == KOLO_ERR_ARG, "function %zu of a lane returned %d", i, statuses[i]);
    expect_message(rank, "destroying a lane", "kolo_comm_destroy", "is a lane", NULL);
    expect(rank, kolo_comm_rank(lane) == rank->rank && kolo_comm_size(lane) == rank->ranks, "rank %d of %d in a lane",
           kolo_comm_rank(lane), kolo_comm_size(lane));
    expect_status(rank, kolo_allreduce(lane, NULL, &one, 1, KOLO_F32, KOLO_SUM), KOLO_ERR_ARG, "no send");
    expect_message(rank, "no send", "kolo_allreduce", "send", NULL);
}

/* What is asked about a lane is answered by what holds now. */
static void expect_lane_told(struct rank *rank, int threads) {
    const int64_t limit_ms = info_of(rank->comm).timeout_ms + 1000;
    expect_status(rank, kolo_comm_set_timeout(rank->comm, limit_ms), 0, "kolo_comm_set_timeout");
    for (int lane = 0; lane < threads; lane++) {
        const kolo_comm *one = kolo_comm_lane(rank->comm, lane);
        kolo_stats stats = {.stats_bytes = sizeof stats};
        expect_status(rank, kolo_comm_stats(one, &stats), 0, "kolo_comm_stats");
        expect(rank, info_of(one).lanes == threads && info_of(one).timeout_ms == limit_ms && (lane || stats.calls > 0),
               "lane %d says %d lanes, %lld ms, %llu calls", lane, info_of(one).lanes,
               (long long)info_of(one).timeout_ms, (unsigned long long)stats.calls);
    }
}

/* An abort by a lane completes what is in flight, as one by the communicator does. */
static void expect_lane_aborts(struct rank *rank, kolo_comm *lane) {
    float never_sent;
    kolo_request *request;
    const int rc = kolo_irecv(rank->comm, &never_sent, 1, KOLO_F32, rank->rank, 3, NULL, &request);
    if (!expect_status(rank, rc, 0, "kolo_irecv"))
        return;
    expect_status(rank, kolo_comm_abort(lane, 5), 0, "an abort by a lane");
    expect_status(rank, kolo_request_wait(request), KOLO_ERR_ABORTED, "what was in flight");
}

/* What is refused, and leaves the communicator usable. */
static void run_refused(struct rank *rank) {
    const int threads = mode_of(rank)->threads;
    struct crew crew;
    kolo_request *request;
    float one = 1;
    kolo_options options = rank->options;
    kolo_comm *none;
    options.threads = KOLO_THREADS_MAX + 1;
    expect_status(rank, kolo_comm_create(&none, &options), KOLO_ERR_ARG, "65 threads");
    expect_message(rank, "65 threads", "options.threads 65", "64", NULL);
    if (!create(rank))
        return;
    crew_begin(&crew, threads);
    for (int lane = -1; lane <= threads; lane += threads + 1) {
        expect(rank, !kolo_comm_lane(rank->comm, lane), "there is a lane %d", lane);
        expect_message(rank, "a lane that there is not", "kolo_comm_lane", "lane", "threads", NULL);
    }
    expect(rank, !kolo_comm_lane(NULL, 0), "there is a lane of no communicator");
    expect_message(rank, "no comm", "kolo_comm_lane", "comm is NULL", NULL);
    for (int lane = 0; lane < threads; lane++)
        expect_lane_refuses(rank, kolo_comm_lane(rank->comm, lane));
    if (expect_status(rank, kolo_iallreduce(rank->comm, &one, &one, 1, KOLO_F32, KOLO_SUM, &request), 0, "issuing")) {
        expect_status(rank, kolo_barrier(kolo_comm_lane(rank->comm, 0)), KOLO_ERR_ARG, "a request in flight");
        expect_message(rank, "a request in flight", "background", NULL);
        expect_status(rank, kolo_request_wait(request), 0, "kolo_request_wait");
    }
    sums_are_right(rank, &crew, rank->comm);
    expect_lane_told(rank, threads);
    if (!arguments.threads) /* emulators do not tell a child from its parent */
        expect_child_refused(rank);
    sums_are_right(rank, &crew, rank->comm);
    counter_add(1);
    while (rank->rank == 0 && counter_add(0) < (uint64_t)rank->ranks) /* who is still in its wait would hear of it */
        sleep_ms(1);
    if (rank->rank == 0)
        expect_lane_aborts(rank, kolo_comm_lane(rank->comm, threads - 1));
    expect_status(rank, kolo_barrier(rank->comm), rank->rank == 0 ? KOLO_ERR_STATE : KOLO_ERR_ABORTED,
                  "a call after it");
    crew_end(&crew);
    kolo_comm_destroy(rank->comm);
}

/* How one lane, or a rank, fails. */
enum failing { OTHER_CALL, ABORT, PLAIN_CALL, DEATH, FAILINGS };

static int wanted_status(enum failing failing) {
    return failing == ABORT ? KOLO_ERR_ABORTED : failing == DEATH ? KOLO_ERR_PEER_DEAD : KOLO_ERR_MISMATCH;
}

/* Rank 1 fails while all others are in a call of all lanes. In every lane the call fails alike, or has succeeded before
 * and the next one finds the communicator broken; what is left can shrink it, and goes on by lanes. */
static void run_failing(struct rank *rank, enum failing failing) {
    const int threads = mode_of(rank)->threads;
    struct crew crew;
    float *data = calloc(SUM_COUNT, sizeof *data);
    if (!create(rank))
        return;
    crew_begin(&crew, threads);
    struct sum sum = {rank,
                      rank->comm,
                      data,
                      SUM_COUNT,
                      failing == OTHER_CALL || failing == ABORT ? threads - 1 : -1,
                      failing == ABORT};
    sums_are_right(rank, &crew, rank->comm);
    if (failing == DEATH && rank->rank == 1 && arguments.threads)
        goto leave;
    if (failing == DEATH && rank->rank == 1)
        raise(SIGKILL);
    int status = failing == PLAIN_CALL && rank->rank == 1
                     ? kolo_allreduce(rank->comm, data, data, SUM_COUNT, KOLO_F32, KOLO_SUM)
                     : crew_work(&crew, make_sum, &sum);
    for (int lane = 0; lane < threads && !(failing == PLAIN_CALL && rank->rank == 1); lane++)
        if (crew.statuses[lane] != 0 && crew.statuses[lane] != KOLO_ERR_STATE)
            expect(rank, crew.statuses[lane] == wanted_status(failing), "lane %d returned %d", lane,
                   crew.statuses[lane]);
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(rank->comm, &failure);
    expect(rank, status < 0 && failure.status == wanted_status(failing), "%d; the failure is %d: %s", status,
           failure.status, failure.message);
    if (wanted_status(failing) == KOLO_ERR_MISMATCH) /* the lanes' making is none of the calls */
        expect(rank, failure.call == 3, "the failure is in call %d: %s", (int)failure.call, failure.message);
    if (failing == OTHER_CALL)
        expect(rank, strstr(failure.message, "of lane") && strstr(failure.message, "max, by lanes"), "'%s'",
               failure.message);
    for (int lane = 0; lane < threads; lane++)
        expect(rank, kolo_barrier(kolo_comm_lane(rank->comm, lane)) < 0, "lane %d goes on", lane);
    kolo_comm *left;
    if (expect_status(rank, kolo_comm_shrink(rank->comm, &left), 0, "kolo_comm_shrink")) {
        expect(rank, kolo_comm_size(left) == rank->ranks - (failing == DEATH) && info_of(left).lanes == threads,
               "%d ranks of %d lanes are left", kolo_comm_size(left), info_of(left).lanes);
        sums_are_right(rank, &crew, left);
        kolo_comm_destroy(left);
    }
leave:
    crew_end(&crew);
    kolo_comm_destroy(rank->comm);
    free(data);
}

static void run_other_call(struct rank *rank) {
    run_failing(rank, OTHER_CALL);
}

static void run_abort(struct rank *rank) {
    run_failing(rank, ABORT);
}

static void run_plain_call(struct rank *rank) {
    run_failing(rank, PLAIN_CALL);
}

static void run_death(struct rank *rank) {
    run_failing(rank, DEATH);
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 5};
    static void (*const failings[FAILINGS])(struct rank *) = {run_other_call, run_abort, run_plain_call, run_death};
    harness_begin(argc, argv, "Moves data with several threads a rank, the program's own and kolo's.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct mode mode = {.threads = 1};
        struct team team = {
            .ranks = counts[i], .slot_bytes = SLOT_BYTES, .creates_itself = true, .argument = &mode, .run = run_each};
        if (!wants_ranks(counts[i]))
            continue;
        for (mode.threads = 1; mode.threads <= LANES_MAX; mode.threads++)
            for (int way = 0; way < 4; way++) {
                mode.helpers = way & 1;
                mode.shared = way & 2;
                if ((counts[i] < 5 || mode.threads == 3) && (!arguments.quick || (mode.threads + way) % 2 == 0))
                    harness_run(&team);
            }
        mode = (struct mode){.threads = 2};
        team.run = run_mixed;
        harness_run(&team);
        mode.shared = mode.helpers = true;
        harness_run(&team);
        mode = (struct mode){.threads = 3};
        team.run = run_groups;
        harness_run(&team);
        team.run = run_refused;
        harness_run(&team);
        for (int failing = 0; counts[i] > 1 && failing < FAILINGS; failing++) {
            team.run = failings[failing];
            team.victim = failing == DEATH ? 2 : 0;
            harness_run(&team);
        }
    }
    return harness_end();
}
