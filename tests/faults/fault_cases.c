#include "fault_cases.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "fault_board.h"
#include "fault_calls.h"
#include "fault_leftovers.h"
#include "fault_team.h"
#include "kolo_lanes.h"
#include "shm/layout.h"

enum { COUNT_MAX = CASE_COUNT_MAX, GATHERERS_MAX = 4, SUBS_MAX = 4, MESSAGE_COUNTS = 5 };
enum { IN_FLIGHT = 3, ISSUE_STEP = CASE_TWIST_STEP, LANES_MAX = 2 };

enum { LATE_MS = 30, LATER_MS = 60, BEATEN_MS = 300 };

/* Scripts. */

enum call {
    CALL_ALLREDUCE,
    CALL_LANES,
    CALL_BROADCAST,
    CALL_ALLGATHER,
    CALL_FAMILY,
    CALL_COMPRESSED,
    CALL_OPTIMIZER,
    CALL_BARRIER,
    CALL_EXCHANGE,
    CALL_COLLECT,
    CALL_ISSUE, /* all requests, and waits for the first */
    CALL_WAIT,  /* for the next one */
    CALL_ALLOC,
    CALL_ALLOC_SHARED,
    CALL_SHARE,
    CALL_DIRECT,
    CALL_HALF_DIRECT,
    CALL_FREE,
    CALL_LISTEN,
    CALL_GROW,
    CALL_DUP,
    CALL_SPLIT
};

static const enum call buffers_script[] = {CALL_ALLOC,       CALL_ALLOC, CALL_DIRECT,  CALL_DIRECT,
                                           CALL_HALF_DIRECT, CALL_FREE,  CALL_BARRIER, CALL_FREE};
static const enum call keep_script[] = {CALL_ALLOC, CALL_ALLOC, CALL_DIRECT};
static const enum call share_script[] = {CALL_SHARE, CALL_ALLOC_SHARED, CALL_DIRECT, CALL_DIRECT, CALL_FREE, CALL_FREE};

static const enum call grow_script[] = {CALL_LISTEN, CALL_GROW, CALL_GROW};
static const enum call channels_script[] = {CALL_EXCHANGE, CALL_COLLECT, CALL_EXCHANGE};
static const enum call split_script[] = {CALL_DUP, CALL_SPLIT, CALL_SPLIT};

static enum call call_of(const struct fault_case *what, int step) {
    if (step > case_calls(what) || what->script == SCRIPT_BARRIER)
        return CALL_BARRIER;
    if (what->script == SCRIPT_REQUESTS)
        return step < ISSUE_STEP ? CALL_ALLREDUCE : step == ISSUE_STEP ? CALL_ISSUE : CALL_WAIT;
    if (what->script == SCRIPT_BUFFERS)
        return buffers_script[step - 1];
    if (what->script == SCRIPT_SHARE || what->script == SCRIPT_KEEP_SHARED)
        return share_script[step - 1];
    if (what->script == SCRIPT_KEEP)
        return keep_script[step - 1];
    if (what->script == SCRIPT_ALLGATHER)
        return CALL_ALLGATHER;
    if (what->script == SCRIPT_FAMILY)
        return CALL_FAMILY;
    if (what->script == SCRIPT_COMPRESSED)
        return CALL_COMPRESSED;
    if (what->script == SCRIPT_OPTIMIZER)
        return CALL_OPTIMIZER;
    if (what->script == SCRIPT_CHANNELS)
        return channels_script[step - 1];
    if (what->script == SCRIPT_SPLIT)
        return split_script[step - 1];
    if (what->script == SCRIPT_GROW)
        return grow_script[step - 1];
    if (what->script == SCRIPT_LANES)
        return CALL_LANES;
    return what->script == SCRIPT_BROADCAST ? CALL_BROADCAST : CALL_ALLREDUCE;
}

int case_calls(const struct fault_case *what) {
    if (what->script == SCRIPT_BUFFERS)
        return sizeof buffers_script / sizeof *buffers_script;
    if (what->script == SCRIPT_SHARE)
        return sizeof share_script / sizeof *share_script;
    return what->script == SCRIPT_REQUESTS ? ISSUE_STEP + IN_FLIGHT - 1 : 3;
}

bool case_runs_ahead(const struct fault_case *what) {
    return what->has_thread;
}

bool case_waits(const struct fault_case *what, int step) {
    return call_of(what, step) != CALL_FREE;
}

bool case_joins(const struct fault_case *what, int step) {
    return case_waits(what, step) &&
           (step > case_calls(what) || (!case_is_one_way(what) && what->script != SCRIPT_CHANNELS));
}

/* A case of broadcasts as one of the family. */
static struct fault_case as_family(const struct fault_case *what) {
    struct fault_case family = *what;
    if (what->script == SCRIPT_BROADCAST)
        family.collective = KOLO_BROADCAST;
    return family;
}

bool case_is_one_way(const struct fault_case *what) {
    const struct fault_case family = as_family(what);
    return (what->script == SCRIPT_FAMILY || what->script == SCRIPT_BROADCAST) && family_is_one_way(&family);
}

bool case_waits_for(const struct fault_case *what, int rank, int peer) {
    const struct fault_case family = as_family(what);
    return family_waits(&family, rank, peer);
}

int case_node(const struct fault_case *what, int rank) {
    const int first = what->ranks - what->nodes + 1;
    if (what->lopsided)
        return rank < first ? 0 : rank - first + 1;
    return rank * what->nodes / what->ranks;
}

int case_leader(const struct fault_case *what, int node) {
    if (what->lopsided)
        return node ? what->ranks - what->nodes + node : 0;
    return what->nodes ? node * what->ranks / what->nodes : 0;
}

int case_actor(const struct fault_case *what, int victim) {
    const int next = (victim + 1) % what->ranks;
    if (what->twist == TWIST_RINGS || what->twist == TWIST_ABORTS || what->twist == TWIST_LACKS)
        return victim;
    if (what->twist == TWIST_SECOND_EARLY && next == 0) /* rank 0's death may keep the others from meeting at all */
        return 1;
    if (what->twist == TWIST_SECOND && what->nodes) /* of the next node, the one that least leads it */
        return case_leader(what, (case_node(what, victim) + 1) % what->nodes) + what->ranks / what->nodes - 1;
    const bool is_played = what->twist != TWIST_NONE && what->twist != TWIST_REPLACES && what->twist != TWIST_AWAITED &&
                           what->twist != TWIST_GIVES_UP && what->twist != TWIST_FOREIGN;
    return is_played ? next : -1;
}

/* One rank. */

struct player {
    const struct run_mode *mode;
    int rank;
    struct rank_record *record;
    kolo_comm *comm;
    int32_t *buffers[2];       /* of kolo_alloc, or shared */
    kolo_comm *subs[SUBS_MAX]; /* by step */
    kolo_request *requests[IN_FLIGHT];
    int32_t sent[IN_FLIGHT][COUNT_MAX], taken[IN_FLIGHT][COUNT_MAX]; /* by those */
    int listener;
    int held_fd;                 /* see team_held_open */
    char said[BOARD_TEXT_BYTES]; /* what another thread's call has said; "": this one's has */
};

static void sleep_ms(int64_t ms) {
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

static void begin_step(struct player *player, int step) {
    player->record->step = step;
    player->record->steps[step].held_ns = team_held_ns(player->held_fd);
    player->record->steps[step].begin_ns = now_ns();
}

static void end_step(struct player *player, int status) {
    struct rank_record *record = player->record;
    struct step *step = &record->steps[record->step];
    step->end_ns = now_ns();
    step->held_ns = team_held_ns(player->held_fd) - step->held_ns;
    step->status = status;
    step->returned = true;
    if (status < 0)
        snprintf(record->message, sizeof record->message, "%s", player->said[0] ? player->said : kolo_error_message());
}

int32_t case_value(int rank, int step, size_t index) {
    return (rank + 1) * (step + 10) + (int32_t)(index % 97);
}

/* An all-reduce's element as the case has it: its floats are whole numbers, too. */
static int32_t element_of(const struct fault_case *what, int32_t value) {
    const float number = (float)value;
    if (what->rank_order)
        memcpy(&value, &number, sizeof value);
    return value;
}

static void fill(const struct player *player, int step, int32_t *send) {
    const struct fault_case *what = player->mode->what;
    for (size_t i = 0; i < what->count; i++)
        send[i] = element_of(what, case_value(player->rank, step, i));
}

static void check_sum(const struct player *player, int step, const int32_t *recv) {
    const struct fault_case *what = player->mode->what;
    for (size_t i = 0; i < what->count; i++) {
        int32_t sum = 0;
        for (int rank = 0; rank < what->ranks; rank++)
            sum += case_value(rank, step, i);
        player->record->steps[step].is_wrong |= recv[i] != element_of(what, sum);
    }
}

/* Of KOLO_ALLOC_SHARED. */
static bool has_common_buffer(const struct fault_case *what) {
    return what->script == SCRIPT_SHARE || what->script == SCRIPT_KEEP_SHARED;
}

static int allreduce(const struct player *player, int step, int32_t *send, int32_t *recv) {
    const struct fault_case *what = player->mode->what;
    fill(player, step, send);
    const int status =
        what->collective == KOLO_ALLREDUCE_APPLY
            ? family_apply(player->comm, send, recv, what->count)
            : kolo_allreduce(player->comm, send, recv, what->count, what->rank_order ? KOLO_F32 : KOLO_I32, KOLO_SUM);
    if (status == 0)
        check_sum(player, step, recv);
    memory_give_back(status, send, what->count);
    if (call_of(what, step) != CALL_DIRECT ||
        !has_common_buffer(what)) /* that is for all ranks, as long as they like */
        memory_give_back(status, recv, what->count);
    return status;
}

static struct training_step training_of(struct player *player, int step, int32_t *data) {
    return (struct training_step){player->comm, player->mode->what, player->rank,
                                  step,         (float *)data,      &player->record->steps[step].is_wrong,
                                  player->said};
}

/* A thread's part of an all-reduce. */
struct lane_call {
    kolo_comm *lane;
    const int32_t *send;
    int32_t *recv;
    size_t count;
    int status;
    char message[BOARD_TEXT_BYTES];
};

static void *call_in_lane(void *argument) {
    struct lane_call *call = argument;
    call->status = kolo_allreduce(call->lane, call->send, call->recv, call->count, KOLO_I32, KOLO_SUM);
    if (call->status < 0)
        snprintf(call->message, sizeof call->message, "%s", kolo_error_message());
    return NULL;
}

/* What broke the communicator is said in one lane at least; another one may find it broken. */
static int allreduce_in_lanes(struct player *player, int step, int32_t *send, int32_t *recv) {
    const struct fault_case *what = player->mode->what;
    struct lane_call calls[LANES_MAX];
    pthread_t threads[LANES_MAX];
    fill(player, step, send);
    for (int lane = what->lanes - 1; lane >= 0; lane--) {
        calls[lane] = (struct lane_call){kolo_comm_lane(player->comm, lane), send, recv, what->count, 0, ""};
        if (lane == 0)
            call_in_lane(&calls[0]);
        else if (pthread_create(&threads[lane], NULL, call_in_lane, &calls[lane]))
            abort();
    }
    const struct lane_call *telling = &calls[0];
    for (int lane = 1; lane < what->lanes; lane++) {
        pthread_join(threads[lane], NULL);
        if (calls[lane].status < 0 && (telling->status == 0 || telling->status == KOLO_ERR_STATE))
            telling = &calls[lane];
    }
    if (telling->status == 0)
        check_sum(player, step, recv);
    memory_give_back(telling->status, send, what->count);
    memory_give_back(telling->status, recv, what->count);
    snprintf(player->said, sizeof player->said, "%s", telling->message);
    return telling->status;
}

/* The request that is waited for in step `step` is that of index step - ISSUE_STEP. */
static void issue(struct player *player) {
    const size_t count = player->mode->what->count;
    int status = 0;
    for (int i = 0; i < IN_FLIGHT && status == 0; i++) {
        fill(player, ISSUE_STEP + i, player->sent[i]);
        status = kolo_iallreduce(player->comm, player->sent[i], player->taken[i], count, KOLO_I32, KOLO_SUM,
                                 &player->requests[i]);
    }
}

/* A progress thread may have found a failure before the request could be issued. */
static int wait_for(struct player *player, int step) {
    const int index = step - ISSUE_STEP;
    kolo_request *request = player->requests[index];
    kolo_failure failure = {.failure_bytes = sizeof failure};
    if (!request) {
        kolo_comm_failure(player->comm, &failure);
        return failure.status;
    }
    player->requests[index] = NULL;
    const int status = kolo_request_wait(request);
    if (status == 0)
        check_sum(player, step, player->taken[index]);
    memory_give_back(status, player->sent[index], COUNT_MAX);
    memory_give_back(status, player->taken[index], COUNT_MAX);
    return status;
}

/* Waits for what is left in flight after a failure: from some request on, all must have failed with it. */
static void drop_requests(struct player *player) {
    const kolo_failure *failure = &player->record->failure;
    bool has_failed = false;
    for (int i = 0; i < IN_FLIGHT; i++) {
        if (!player->requests[i])
            continue;
        const int status = kolo_request_wait(player->requests[i]);
        player->requests[i] = NULL;
        memory_give_back(status, player->sent[i], COUNT_MAX);
        memory_give_back(status, player->taken[i], COUNT_MAX);
        has_failed |= status < 0;
        if (has_failed && (status != failure->status || !strstr(kolo_error_message(), failure->message)))
            player->record->steps[ISSUE_STEP + i].is_wrong = true;
    }
}

static int broadcast(const struct player *player, int step, int32_t *data) {
    const size_t count = player->mode->what->count;
    for (size_t i = 0; i < count; i++)
        data[i] = case_value(player->rank, step, i);
    const int status = kolo_broadcast(player->comm, data, count, KOLO_I32, 0);
    for (size_t i = 0; status == 0 && i < count; i++)
        player->record->steps[step].is_wrong |= data[i] != case_value(0, step, i);
    memory_give_back(status, data, count);
    return status;
}

static int allgather(const struct player *player, int step, int32_t *send) {
    static int32_t recv[GATHERERS_MAX * COUNT_MAX];
    const struct fault_case *what = player->mode->what;
    for (size_t i = 0; i < what->count; i++)
        send[i] = case_value(player->rank, step, i);
    const int status = kolo_allgather(player->comm, send, recv, what->count, KOLO_I32);
    for (int rank = 0; status == 0 && rank < what->ranks; rank++)
        for (size_t i = 0; i < what->count; i++)
            player->record->steps[step].is_wrong |= recv[(size_t)rank * what->count + i] != case_value(rank, step, i);
    memory_give_back(status, send, what->count);
    memory_give_back(status, recv, what->count * (size_t)what->ranks);
    return status;
}

/* What a rank sends in messages: large ones of several chunks, where the case has them. */
static size_t fill_message(const struct player *player, int rank, int step, int32_t *data) {
    const size_t count = player->mode->what->count * MESSAGE_COUNTS;
    for (size_t i = 0; i < count; i++)
        data[i] = case_value(rank, step, i);
    return count;
}

static void check_message(const struct player *player, int step, int from, const int32_t *message) {
    const size_t count = player->mode->what->count * MESSAGE_COUNTS;
    for (size_t i = 0; i < count; i++)
        player->record->steps[step].is_wrong |= message[i] != case_value(from, step, i);
}

static int send_and_receive(kolo_comm *comm, const int32_t *send, int to, int32_t *recv, int from, size_t count,
                            bool in_background) {
    kolo_request *requests[2] = {NULL};
    if (!in_background)
        return kolo_sendrecv(comm, send, count, to, 1, recv, count, from, 1, KOLO_I32, NULL);
    int status = kolo_irecv(comm, recv, count, KOLO_I32, from, 1, NULL, &requests[0]);
    if (status == 0)
        status = kolo_isend(comm, send, count, KOLO_I32, to, 1, &requests[1]);
    const int waited = kolo_request_wait_all(requests, 2);
    return status < 0 ? status : waited;
}

/* To the next rank, from the one before; in the last step in the background. */
static int exchange(const struct player *player, int step, int32_t *send, int32_t *recv) {
    const int ranks = player->mode->what->ranks, before = (player->rank + ranks - 1) % ranks;
    const size_t count = fill_message(player, player->rank, step, send);
    const int status = send_and_receive(player->comm, send, (player->rank + 1) % ranks, recv, before, count, step > 2);
    if (status == 0)
        check_message(player, step, before, recv);
    memory_give_back(status, send, count);
    memory_give_back(status, recv, count);
    return status;
}

/* To rank 0. */
static int collect(const struct player *player, int step, int32_t *data) {
    const size_t count = fill_message(player, player->rank, step, data);
    kolo_received received = {.received_bytes = sizeof received};
    int status = 0;
    if (player->rank != 0)
        status = kolo_send(player->comm, data, count, KOLO_I32, 0, step);
    for (int i = 1; player->rank == 0 && status == 0 && i < player->mode->what->ranks; i++) {
        status = kolo_recv(player->comm, data, count, KOLO_I32, KOLO_ANY_RANK, step, &received);
        if (status == 0)
            check_message(player, step, received.rank, data);
    }
    memory_give_back(status, data, count);
    return status;
}

/* A communicator made of the player's, in which the ranks before it are `before` and there are `size` in all. */
static int derive(struct player *player, int step, int color, int size, int before) {
    kolo_comm **sub = &player->subs[step];
    const int status = color == 0 ? kolo_comm_dup(player->comm, sub) : kolo_comm_split(player->comm, color, 0, sub);
    player->record->steps[step].is_wrong |=
        status == 0 && (kolo_comm_size(*sub) != size || kolo_comm_rank(*sub) != before);
    return status;
}

static int grow(struct player *player, int step) {
    kolo_grow_options options = KOLO_GROW_INIT;
    options.listener = player->listener;
    return kolo_comm_grow(player->comm, &options, &player->subs[step]);
}

static int make_call(struct player *player, int step) {
    static int32_t send[MESSAGE_COUNTS * COUNT_MAX], recv[MESSAGE_COUNTS * COUNT_MAX];
    const struct training_step training = training_of(player, step, send);
    int32_t **buffers = player->buffers;
    const int next = buffers[0] != NULL; /* buffers are made, and freed, in their order */
    switch (call_of(player->mode->what, step)) {
    case CALL_ALLREDUCE:
        return allreduce(player, step, send, recv);
    case CALL_LANES:
        return allreduce_in_lanes(player, step, send, recv);
    case CALL_BROADCAST:
        return broadcast(player, step, send);
    case CALL_ALLGATHER:
        return allgather(player, step, send);
    case CALL_ISSUE:
        issue(player);
        if (player->mode->what->has_thread && player->mode->what->twist == TWIST_LATE)
            sleep_ms(LATE_MS / 3); /* by then the thread waits, and this one will wait for it */
        return wait_for(player, step);
    case CALL_WAIT:
        return wait_for(player, step);
    case CALL_FAMILY:
        return family_call(player->comm, player->mode->what, player->rank, step, &player->record->steps[step].is_wrong);
    case CALL_COMPRESSED:
        return training_compressed(&training);
    case CALL_OPTIMIZER:
        return training_optimizer(&training);
    case CALL_EXCHANGE:
        return exchange(player, step, send, recv);
    case CALL_COLLECT:
        return collect(player, step, send);
    case CALL_ALLOC:
        return kolo_alloc(player->comm, COUNT_MAX * sizeof **buffers, (void **)&buffers[next]);
    case CALL_ALLOC_SHARED:
        return kolo_alloc_with(player->comm, COUNT_MAX * sizeof **buffers, KOLO_ALLOC_SHARED, (void **)&buffers[next]);
    case CALL_SHARE:
        return memory_share(player->comm, player->rank, COUNT_MAX, &buffers[next],
                            &player->record->steps[step].is_wrong);
    case CALL_DIRECT:
        return allreduce(player, step, buffers[0], buffers[1]);
    case CALL_HALF_DIRECT:
        return allreduce(player, step, buffers[0], player->rank == 0 ? recv : buffers[1]);
    case CALL_FREE: {
        int32_t *buffer = buffers[!next];
        buffers[!next] = NULL;
        return kolo_free(player->comm, buffer);
    }
    case CALL_LISTEN:
        return kolo_comm_listen(player->comm, player->mode->job, &player->listener);
    case CALL_GROW:
        return grow(player, step);
    case CALL_DUP:
        return derive(player, step, 0, player->mode->what->ranks, player->rank);
    case CALL_SPLIT: {
        const bool is_second = player->rank % 2;
        const int ranks = player->mode->what->ranks;
        return derive(player, step, 1 + is_second, is_second ? ranks / 2 : (ranks + 1) / 2, player->rank / 2);
    }
    default:
        return kolo_barrier(player->comm);
    }
}

/* With requests in flight, if the script has some. */
static void abort_comm(struct player *player) {
    if (player->mode->what->script == SCRIPT_REQUESTS)
        issue(player);
    end_step(player, kolo_comm_abort(player->comm, 7));
}

/* What the twist has this rank do before the call of that step; true if it is done instead. */
static bool do_twist(struct player *player, int step) {
    const struct run_mode *mode = player->mode;
    const enum twist twist = mode->what->twist;
    const bool acts = player->rank == mode->actor;
    if (step != CASE_TWIST_STEP)
        return false;
    if (mode->what->phase == PHASE_SHRINK) {
        if (twist == TWIST_DIES || player->rank != 0)
            return false;
        abort_comm(player);
        return true;
    }
    if ((twist == TWIST_LATE || twist == TWIST_RINGS) && acts)
        sleep_ms(mode->what->beats ? BEATEN_MS : LATE_MS);
    if (twist == TWIST_SECOND && !acts && !mode->what->nodes &&
        player->rank != (mode->actor + mode->what->ranks - 1) % mode->what->ranks)
        sleep_ms(LATER_MS); /* so that the victim is the one that finds the actor dead */
    if (twist != TWIST_ABORTS || !acts)
        return false;
    abort_comm(player);
    return true;
}

/* True if somebody else is to die, and this rank to go on until it notices. */
static bool is_to_notice(const struct player *player) {
    for (int i = 0; i < BOARD_FAULTS; i++)
        if (board->faults[i].armed && board->faults[i].action != ACTION_PAUSE && board->faults[i].rank != player->rank)
            return true;
    return false;
}

/* Makes the job file one of another version, as a rank of that one would find it. */
static void put_other_version(int fd) {
    struct kolo_job_header header = {0};
    const uint32_t version = 9 << 16;
    sleep_ms(LATE_MS);
    if (pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header && kolo_load_relaxed(&header.magic))
        (void)!pwrite(fd, &version, sizeof version, offsetof(struct kolo_job_header, version));
}

static int create(struct player *player) {
    const struct run_mode *mode = player->mode;
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = player->rank;
    options.size = mode->what->ranks - mode->what->joiners;
    options.job = mode->fd < 0 && !mode->what->nodes ? mode->job : NULL;
    options.shm_fd = mode->what->nodes ? mode->node_fds[case_node(mode->what, player->rank)] : mode->fd;
    options.rendezvous = mode->what->nodes ? mode->rendezvous : NULL;
    options.algorithm = mode->what->algorithm;
    options.slot_bytes = mode->what->slot_bytes ? mode->what->slot_bytes : CASE_SLOT_BYTES;
    options.timeout_ms = mode->timeout_ms;
    options.create_timeout_ms = mode->create_timeout_ms;
    options.progress = mode->what->has_thread;
    options.threads = mode->what->lanes;
    if (mode->what->twist == TWIST_GIVES_UP && player->rank == 0)
        options.create_timeout_ms = LATE_MS / 3; /* long enough that it sleeps, over before the others come */
    if (mode->what->twist == (player->rank == 0 ? TWIST_AWAITED : TWIST_GIVES_UP))
        sleep_ms(LATE_MS);
    if (mode->what->twist == TWIST_FOREIGN && player->rank == mode->what->ranks - 1)
        put_other_version(mode->fd);
    begin_step(player, CASE_CREATE_STEP);
    const int status = kolo_comm_create(&player->comm, &options);
    end_step(player, status);
    return status;
}

/* The progress thread starts here, where its points count. With an eventfd, it does not defer what it has no processor
 * for. Returns whether there is one. */
static bool start_thread(struct player *player) {
    int fd;
    return player->mode->what->has_thread && kolo_comm_eventfd(player->comm, &fd) == 0;
}

/* However late the system lets the progress thread run, it comes to its first point before points count no more. */
static void await_thread(const struct player *player) {
    while (!board_passed(player->rank, "progress.starting"))
        sleep_ms(1);
}

/* Until one fails. */
static void make_calls(struct player *player) {
    const struct fault_case *what = player->mode->what;
    const bool goes_on = is_to_notice(player) || what->phase == PHASE_SHRINK;
    const int last = case_calls(what) + (goes_on ? CASE_PROBES : 0);
    int step = 1;
    for (; step <= last; step++) {
        begin_step(player, step);
        if (do_twist(player, step))
            return;
        if (player->rank == player->mode->actor || what->twist == TWIST_SECOND)
            begin_step(player, step); /* the pause was not part of it */
        const int status = make_call(player, step);
        end_step(player, status);
        if (status < 0)
            return;
    }
    player->record->step = step;
}

/* After a shrink: who is in the new communicator, and whether sums are right there. */
static int sum_members(struct player *player, int step) {
    static int32_t send[COUNT_MAX], recv[COUNT_MAX];
    const struct fault_case *what = player->mode->what;
    struct step *taken = &player->record->steps[step];
    for (size_t i = 1; i < what->count; i++)
        send[i] = case_value(player->rank, step, i);
    send[0] = 1 << player->rank;
    const int status = kolo_allreduce(player->comm, send, recv, what->count, KOLO_I32, KOLO_SUM);
    if (status < 0)
        return status;
    taken->members = (uint64_t)recv[0];
    taken->is_wrong =
        kolo_comm_size(player->comm) != __builtin_popcountll(taken->members) ||
        kolo_comm_rank(player->comm) != __builtin_popcountll(taken->members & ((UINT64_C(1) << player->rank) - 1));
    for (size_t i = 1; i < what->count; i++) {
        int32_t sum = 0;
        for (int rank = 0; rank < what->ranks; rank++)
            sum += taken->members >> rank & 1 ? case_value(rank, step, i) : 0;
        taken->is_wrong |= recv[i] != sum;
    }
    return 0;
}

static int shrink(struct player *player, int round) {
    const struct run_mode *mode = player->mode;
    const enum twist twist = round == 0 && player->rank == mode->actor ? mode->what->twist : TWIST_NONE;
    const int step = CASE_RECOVERY_STEP + 2 * round;
    struct rlimit before;
    kolo_comm *left = NULL;
    if (twist == TWIST_LATE)
        sleep_ms(LATE_MS);
    getrlimit(RLIMIT_NOFILE, &before);
    if (twist == TWIST_LACKS)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max});
    begin_step(player, step);
    player->record->is_counting = true;
    const int status = kolo_comm_shrink(player->comm, &left);
    end_step(player, status);
    if (twist == TWIST_LACKS)
        setrlimit(RLIMIT_NOFILE, &before);
    if (status == 0) {
        player->record->steps[step].size = kolo_comm_size(left);
        kolo_comm_destroy(player->comm);
        player->comm = left;
    }
    player->record->is_counting = false;
    return status;
}

static void recover(struct player *player) {
    for (int round = 0; round < CASE_ROUNDS; round++) {
        const int step = CASE_RECOVERY_STEP + 2 * round + 1;
        const int status = shrink(player, round);
        if (status == KOLO_ERR_SYSTEM)
            continue;
        if (status < 0)
            return;
        begin_step(player, step);
        end_step(player, sum_members(player, step));
        if (player->record->steps[step].status == 0)
            return;
        player->record->failure.failure_bytes = sizeof player->record->failure;
        kolo_comm_failure(player->comm, &player->record->failure);
    }
}

/* Growing: members take in joiners, and all then sum, and go on, in the communicator in which they are. */

static bool is_joiner(const struct player *player, int rank) {
    return rank >= player->mode->what->ranks - player->mode->what->joiners;
}

/* Until that joiner has asked, or is struck before it can. */
static void await_joiner(int rank) {
    const int index = BOARD_FAULTS - 1;
    while (!board->ranks[rank].asked && !(board->struck[index] && board->faults[index].rank == rank))
        sleep_ms(1);
}

static int grow_by_joiners(struct player *player) {
    kolo_grow_options options = KOLO_GROW_INIT;
    kolo_comm *grown = NULL;
    options.timeout_ms = CASE_GROW_MS;
    int status = kolo_comm_listen(player->comm, player->mode->job, &player->listener);
    if (status < 0)
        return status;
    options.listener = player->listener;
    board->ranks[player->rank].listens = true;
    if (player->rank == 0)
        await_joiner(player->mode->what->ranks - 1);
    begin_step(player, CASE_GROW_STEP);
    player->record->is_counting = true;
    status = kolo_comm_grow(player->comm, &options, &grown);
    player->record->is_counting = false;
    end_step(player, status);
    player->record->steps[CASE_GROW_STEP].size = grown ? kolo_comm_size(grown) : 0;
    if (grown) {
        kolo_comm_destroy(player->comm);
        player->comm = grown;
    }
    return status;
}

static void note_asked(void *record) {
    ((struct rank_record *)record)->asked = true;
}

static void join(struct player *player) {
    const struct run_mode *mode = player->mode;
    kolo_join_options options = KOLO_JOIN_INIT;
    char timeout[24];
    options.job = mode->job;
    options.timeout_ms = CASE_GROW_MS;
    options.asked = note_asked;
    options.context = player->record;
    snprintf(timeout, sizeof timeout, "%lld", (long long)mode->timeout_ms);
    setenv("KOLO_TIMEOUT_MS", timeout, 1);
    while (!board->ranks[0].listens)
        sleep_ms(1);
    if (is_joiner(player, player->rank - 1)) /* so that they get their ranks in order */
        await_joiner(player->rank - 1);
    begin_step(player, CASE_GROW_STEP);
    player->record->is_counting = true;
    const int status = kolo_comm_join(&player->comm, &options);
    player->record->is_counting = false;
    end_step(player, status);
    unsetenv("KOLO_TIMEOUT_MS");
}

static void grow_and_sum(struct player *player) {
    if (is_joiner(player, player->rank))
        join(player);
    else
        grow_by_joiners(player);
    kolo_comm_unlisten(player->listener, NULL);
    if (!player->comm)
        return;
    begin_step(player, CASE_GROW_STEP + 1);
    end_step(player, sum_members(player, CASE_GROW_STEP + 1));
    if (player->record->steps[CASE_GROW_STEP + 1].status < 0)
        recover(player);
}

void case_run(const struct run_mode *mode, int rank) {
    struct rank_record *record = &board->ranks[rank];
    static struct player player;
    player = (struct player){.mode = mode, .rank = rank, .record = record, .listener = -1};
    player.held_fd = team_held_open();
    record->before = leftovers_count();
    board_enter(rank);
    record->is_counting = mode->what->phase == PHASE_CREATE;
    if (mode->what->phase == PHASE_GROW) {
        if (is_joiner(&player, rank) || create(&player) == 0) {
            if (mode->spoil && player.comm && is_to_notice(&player))
                mode->spoil(player.comm);
            grow_and_sum(&player);
        }
        kolo_comm_destroy(player.comm);
    } else if (create(&player) == 0) {
        if (mode->spoil && is_to_notice(&player))
            mode->spoil(player.comm);
        if (mode->what->hides)
            team_hide();
        record->is_counting = mode->what->phase == PHASE_CALLS || rank == mode->dying;
        const bool has_thread = start_thread(&player);
        make_calls(&player);
        record->failure.failure_bytes = sizeof record->failure;
        kolo_comm_failure(player.comm, &record->failure);
        drop_requests(&player);
        if (record->failure.status)
            record->status_after = kolo_barrier(player.comm);
        if (has_thread)
            await_thread(&player);
        record->is_counting = false;
        for (record->lingers = true; board->has_late && !board->released;)
            sleep_ms(1);
        record->is_touched = memory_was_written();
        for (int i = 0; i < SUBS_MAX; i++)
            kolo_comm_destroy(player.subs[i]);
        kolo_comm_unlisten(player.listener, NULL);
        if (mode->what->phase == PHASE_SHRINK)
            recover(&player);
        /* What a leader has found, or published, the other nodes may learn only when it leaves. */
        const bool tells = mode->what->nodes && mode->what->phase == PHASE_CALLS && record->failure.status;
        record->is_counting = mode->what->phase == PHASE_DESTROY || tells;
        if (kolo_comm_destroy(player.comm) < 0)
            record->status_after = KOLO_OK; /* which is an error there */
    }
    record->is_counting = false;
    prctl(PR_SET_DUMPABLE, 1);
    record->after = leftovers_count();
    record->finished = true;
}
