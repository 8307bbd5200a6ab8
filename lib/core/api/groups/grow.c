/* kolo_comm_listen, kolo_comm_grow and kolo_comm_join.
 *
 * Roles. The members are the ranks of a communicator; joiners are processes that ask to become members. In the end all
 * members are in one communicator with the joiners, or all members stay in theirs.
 *
 *   1. Rank 0 accepts the processes that wait at the socket (join_socket.h), and refuses those that do not fit. It
 *      makes a file for a new communicator, tells the members how many come, and gives them the file. Then it answers
 *      the joiners with the file and with their ranks: by then all members have come, and a joiner's time begins.
 *   2. All create the larger communicator. That may fail: a joiner or member dies or is stopped, or something is
 *      lacking.
 *   3. The members ask each other, in their old communicator, whether all of them have the new one. If all
 *      have it, they move. If not, those that have it destroy it, and all go on in the old one.
 *
 * Step 3 must end in the same way on all members. But if a member dies during the exchange, the exchange may succeed on
 * some members and fail on others. So its result does not decide. A member that learns by it that all have the new
 * communicator aborts the old one, with a code that says so. A communicator breaks once, and every rank sees the same
 * failure:
 *   - That abort: all move, also those whose exchange it broke. All have the new communicator, since the member that
 *     aborted knew that.
 *   - A death or an overdue rank, which was found first: nobody moves. All drop the new communicator, and can shrink
 *     the old one.
 * (KOLO_LOG=info shows that abort, too.)
 *
 * A joiner decides nothing. It waits in the new communicator for a message from rank 0, which sends it after it has
 * moved. If the members stay in the old one, the joiner finds them gone, and may ask again.
 *
 *   death of                       leaves
 *   a joiner, before step 2        a creation that fails when its time is over; the members stay
 *   a joiner, in step 2            a creation that fails at once, and the members stay; or, had it attached, that
 *   or later                       succeeds: the members move, and find the death in the first call
 *   a member, in step 1            an old communicator that is broken by its death; joiners that are not answered
 *   a member, in steps 2 and 3     an old communicator that is broken by its death, and nobody moves; or by the abort,
 *                                  and all move: the new one's first call finds the death
 *
 * tests/models/groups.pml is a model of this protocol, and of kolo_comm_split. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/groups/derive.h"
#include "api/groups/join_socket.h"
#include "api/lanes/lanes.h"
#include "api/requests/queue.h"
#include "api/sharing.h"
#include "base/sized.h"
#include "comm/creation/options.h"
#include "comm/failure/failure.h"
#include "shm/memory_file.h"

enum {
    JOINERS_MAX = 64, /* taken at once; the others wait for the next time */
    LOOKS_MAX = 256,  /* visitors that are looked at */
    READY_MS = 10000,
    MOVED = 0x6d6f7665 /* the code with which the old communicator is aborted */
};

/* Checks the arguments of both calls, and that all ranks are on one machine. */
static int check(kolo_comm *comm, const char *function, const void *result) {
    const int rc = kolo_get_ready(function, comm);
    if (rc < 0)
        return rc;
    if (!result)
        return KOLO_REFUSE(comm, function, "the pointer for the result is NULL");
    if (comm->nodes)
        return KOLO_FAIL_IN(comm, function, KOLO_ERR_UNSUPPORTED,
                            "the ranks are on several machines, and processes can join only ranks that are all on one");
    return 0;
}

static int check_timeout(const char *function, int64_t timeout_ms) {
    return timeout_ms >= -1 && timeout_ms <= KOLO_TIMEOUT_MS_MAX
               ? 0
               : kolo_fail(KOLO_ERR_ARG, "%s: options.timeout_ms %" PRId64 ": must be from 0 to %" PRId64 " ms",
                           function, timeout_ms, KOLO_TIMEOUT_MS_MAX);
}

/* Returns the descriptor, unless no process can wait there. */
static int check_listener(const kolo_comm *comm, const char *function, int fd) {
    int listens = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &(socklen_t){sizeof listens}) == 0 && listens)
        return fd;
    return KOLO_REFUSE(comm, function, "the listener %d is not a descriptor of kolo_comm_listen", fd);
}

/* Listening. */

static int open_listener(const kolo_comm *comm, const char *job) {
    if (!job || !kolo_settings_job_is_legal(job))
        return KOLO_REFUSE(comm, "kolo_comm_listen", "'%s' is not a job's name", job ? job : "");
    const int fd = kolo_join_listen(job);
    if (fd == -EADDRINUSE)
        return KOLO_REFUSE(comm, "kolo_comm_listen", "the name '%s' is in use", job);
    return fd >= 0 ? fd
                   : kolo_fail_system(-fd, "rank %u: kolo_comm_listen: listening under the name '%s'",
                                      comm->global_rank, job);
}

int kolo_comm_listen(kolo_comm *comm, const char *job, int *listener) {
    static const char *const function = "kolo_comm_listen";
    int fd = -1, rc = check(comm, function, listener);
    if (rc == 0)
        rc = kolo_shared_call_begin(function, comm, kolo_call_key_of(KOLO_GROW, true));
    if (rc < 0)
        return rc;
    KOLO_POINT("listen.begun");
    if (comm->rank == 0)
        fd = *listener >= 0 ? check_listener(comm, function, *listener) : open_listener(comm, job);
    KOLO_POINT("listen.opened");
    rc = kolo_file_hand_to_all(comm, function, &fd);
    if (rc == 0)
        rc = kolo_status_agree(comm, function, fd < 0 ? fd : 0);
    KOLO_POINT("listen.agreed");
    kolo_shared_call_leave(comm);
    KOLO_POINT("listen.ended");
    if (rc == 0 && *listener < 0)
        *listener = fd;
    else if (fd >= 0 && fd != *listener)
        close(fd);
    return rc;
}

int kolo_comm_unlisten(int listener, const char *why) {
    struct kolo_join_visitor visitor;
    for (int looks = 0; why && looks < LOOKS_MAX && kolo_join_accept(listener, &visitor); looks++)
        kolo_join_refuse(&visitor, why);
    if (listener >= 0)
        close(listener);
    return 0;
}

/* Growing. */

/* The processes that rank 0 takes in, and the file in which all meet. */
struct newcomers {
    struct kolo_join_visitor list[JOINERS_MAX];
    uint32_t count;
    int fd;
};

/* Says in words why a visitor cannot become rank `rank`; "" if it can. */
static void find_obstacle(const struct kolo_join_visitor *visitor, uint32_t rank, char *why) {
    why[0] = '\0';
    if (visitor->user != geteuid())
        snprintf(why, KOLO_JOIN_TEXT_BYTES, "user %u started it, and the others are user %u's", (unsigned)visitor->user,
                 (unsigned)geteuid());
    else if (visitor->request.version != KOLO_VERSION_WORD)
        snprintf(why, KOLO_JOIN_TEXT_BYTES, "it has kolo " KOLO_VERSION_FORMAT ", the others %s",
                 KOLO_VERSION_PARTS(visitor->request.version), kolo_version());
    else if (rank >= KOLO_RANKS_MAX)
        snprintf(why, KOLO_JOIN_TEXT_BYTES, "there are %d ranks, which is as many as there can be", KOLO_RANKS_MAX);
}

static bool fits(const kolo_grow_options *options, const struct kolo_join_visitor *visitor, uint32_t rank, char *why) {
    find_obstacle(visitor, rank, why);
    const bool is_possible = why[0] == '\0';
    char obstacle[KOLO_JOIN_TEXT_BYTES];
    memcpy(obstacle, why, sizeof obstacle);
    const kolo_joiner joiner = {.joiner_bytes = sizeof joiner,
                                .pid = (int)visitor->pid,
                                .rank = (int)rank,
                                .message = visitor->request.message,
                                .message_bytes = is_possible ? visitor->request.message_bytes : 0,
                                .refused = is_possible ? NULL : obstacle};
    return (!options->check || options->check(options->context, &joiner, why)) && is_possible;
}

/* Rank 0 accepts the processes that wait and fit. One without a request yet is refused, and may come again. */
static void receive(const kolo_comm *comm, const kolo_grow_options *options, struct newcomers *newcomers) {
    struct kolo_join_visitor *visitor = newcomers->list;
    for (int looks = 0; looks < LOOKS_MAX && newcomers->count < JOINERS_MAX; looks++) {
        char why[KOLO_JOIN_TEXT_BYTES];
        if (!kolo_join_accept(options->listener, visitor))
            break;
        if (visitor->user == geteuid() && !visitor->valid)
            close(visitor->fd);
        else if (fits(options, visitor, comm->size + newcomers->count, why))
            visitor = &newcomers->list[++newcomers->count];
        else
            kolo_join_refuse(visitor, why);
    }
}

/* Rank 0 sends the newcomers their answers. */
static void welcome(const kolo_comm *comm, const struct newcomers *newcomers) {
    for (uint32_t i = 0; newcomers->fd >= 0 && i < newcomers->count; i++)
        kolo_join_answer_to(&newcomers->list[i],
                            &(struct kolo_join_answer){.taken = 1,
                                                       .rank = (int32_t)(comm->size + i),
                                                       .size = (int32_t)(comm->size + newcomers->count)},
                            newcomers->fd);
}

/* Step 3: decides whether the members move. Returns 0 if they do, else why they stay. */
static int decide(kolo_comm *comm, int rc) {
    kolo_failure failure;
    rc = kolo_status_agree(comm, "kolo_comm_grow", rc);
    KOLO_POINT("grow.agreed");
    if (rc == 0)
        kolo_failure_publish(comm, KOLO_ERR_ABORTED, MOVED);
    kolo_failure_describe(comm, &failure);
    if (failure.status == KOLO_ERR_ABORTED && failure.code == MOVED)
        return 0;
    return rc < 0 ? rc : failure.status;
}

/* Sends the message of rank 0 for which the joiners wait. Where sending fails, the next call says why. */
static int say_moved(kolo_comm *grown) {
    uint8_t word = 1;
    return kolo_broadcast(grown, &word, sizeof word, KOLO_U8, 0);
}

/* Steps 2 and 3, for `joiners` newcomers. */
static int make(kolo_comm *comm, int64_t timeout_ms, uint32_t joiners, int fd, kolo_comm **grown) {
    const struct kolo_derivation derivation = {.parent = comm,
                                               .function = "kolo_comm_grow",
                                               .rank = comm->rank,
                                               .size = comm->size + joiners,
                                               .ranks_count = comm->size,
                                               .fd = fd,
                                               .timeout_ns = timeout_ms * KOLO_NS_PER_MS};
    kolo_comm *made = NULL;
    int rc = fd < 0 ? fd : kolo_comm_derive(&derivation, &made);
    KOLO_POINT("grow.made");
    rc = decide(comm, rc);
    KOLO_POINT("grow.decided");
    if (rc < 0) {
        kolo_comm_destroy(made);
        return rc;
    }
    kolo_comm_break(comm);
    kolo_lanes_break(comm);
    KOLO_POINT("grow.moving");
    say_moved(made);
    *grown = made;
    return 0;
}

static int grow(kolo_comm *comm, const kolo_grow_options *options, struct newcomers *newcomers, kolo_comm **grown) {
    static const char *const function = "kolo_comm_grow";
    newcomers->fd = -1;
    int rc = comm->rank == 0 ? check_listener(comm, function, options->listener) : 0;
    rc = kolo_status_agree(comm, function, rc < 0 ? rc : 0);
    if (rc < 0)
        return rc;
    if (comm->rank == 0)
        receive(comm, options, newcomers);
    if (newcomers->count) {
        const int fd = kolo_memory_file_create("kolo-join", 0);
        newcomers->fd = fd >= 0 ? fd : kolo_fail_system(-fd, "rank 0: kolo_comm_grow: creating a memfd");
    }
    KOLO_POINT("grow.received");
    const uint64_t own = newcomers->count;
    uint64_t joiners = 0;
    rc = kolo_words_reduce(comm, KOLO_SUM, &own, &joiners, 1);
    KOLO_POINT("grow.told");
    if (rc == 0 && joiners > 0)
        rc = kolo_file_hand_to_all(comm, function, &newcomers->fd);
    if (rc < 0 || joiners == 0)
        return rc;
    welcome(comm, newcomers);
    return make(comm, options->timeout_ms < 0 ? READY_MS : options->timeout_ms, (uint32_t)joiners, newcomers->fd,
                grown);
}

int kolo_comm_grow(kolo_comm *comm, const kolo_grow_options *theirs, kolo_comm **grown) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_grow_options, grow_bytes, context);
    static const char *const function = "kolo_comm_grow";
    kolo_grow_options options = KOLO_GROW_INIT;
    kolo_comm *made = NULL;
    int rc = check(comm, function, grown);
    if (rc == 0)
        rc = kolo_sized_read(&sized, function, &options, theirs);
    if (rc == 0)
        rc = check_timeout(function, options.timeout_ms);
    struct newcomers *newcomers = rc == 0 ? calloc(1, sizeof *newcomers) : NULL;
    if (rc == 0 && !newcomers)
        rc = KOLO_FAIL_IN(comm, function, KOLO_ERR_SYSTEM, "out of memory");
    if (rc == 0)
        rc = kolo_shared_call_begin(function, comm, kolo_call_key_of(KOLO_GROW, false));
    if (rc == 0) {
        KOLO_POINT("grow.begun");
        rc = grow(comm, &options, newcomers, &made);
        kolo_shared_call_leave(comm);
        KOLO_POINT("grow.ended");
        for (uint32_t i = 0; i < newcomers->count; i++)
            close(newcomers->list[i].fd);
        if (newcomers->fd >= 0)
            close(newcomers->fd);
    }
    free(newcomers);
    if (rc == 0)
        *grown = made;
    return rc;
}

/* Joining. */

static int fail_asking(const char *job, int error, int64_t timeout_ms) {
    if (error == EAGAIN)
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "kolo_comm_join: those that listen under the name '%s' had no room for one more process that "
                         "waits for %" PRId64 " ms: do they call kolo_comm_grow? is the name another user's?",
                         job, timeout_ms);
    if (error == ECONNREFUSED)
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_join: nobody of this user listens under the name '%s'", job);
    if (error == EPIPE || error == ECONNRESET) /* before the request could be sent */
        return kolo_fail(KOLO_ERR_PEER_DEAD, "kolo_comm_join: those that listen under the name '%s' went away", job);
    return kolo_fail_system(error, "kolo_comm_join: asking under the name '%s'%s", job,
                            error == EPERM ? ", which is another user's" : "");
}

/* Makes the communicator with the members that have taken this process in, and waits until they have moved. */
static int join(kolo_comm **comm, const kolo_join_options *options, const struct kolo_join_answer *answer, int fd) {
    kolo_options place = KOLO_OPTIONS_INIT;
    kolo_comm *made;
    place.shm_fd = fd;
    place.rank = answer->rank;
    place.size = answer->size;
    place.rendezvous = "";
    place.create_timeout_ms = options->timeout_ms;
    int rc = kolo_comm_create(&made, &place);
    if (rc < 0)
        return rc;
    KOLO_POINT("join.made");
    rc = say_moved(made);
    KOLO_POINT("join.told");
    if (rc == 0)
        *comm = made;
    else
        kolo_comm_destroy(made);
    return rc;
}

static int check_join(const kolo_comm *const *comm, const kolo_join_options *options) {
    if (!comm || !options->job || !kolo_settings_job_is_legal(options->job))
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_join: %s", !comm ? "comm is NULL" : "job is not a job's name");
    if (options->message_bytes > KOLO_JOIN_BYTES || (options->message_bytes && !options->message))
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_join: a message of %zu bytes: %s", options->message_bytes,
                         options->message ? "too long" : "it is NULL");
    return check_timeout("kolo_comm_join", options->timeout_ms);
}

int kolo_comm_join(kolo_comm **comm, const kolo_join_options *theirs) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_join_options, join_bytes, context);
    kolo_join_options options = KOLO_JOIN_INIT;
    struct kolo_join_answer answer;
    int file = -1, rc = kolo_sized_read(&sized, "kolo_comm_join", &options, theirs);
    if (rc == 0)
        rc = check_join((const kolo_comm *const *)comm, &options);
    if (rc < 0)
        return rc;
    if (options.timeout_ms < 0)
        options.timeout_ms = READY_MS;
    const int fd = kolo_join_ask(options.job, options.message, options.message_bytes, options.timeout_ms);
    if (fd < 0)
        return fail_asking(options.job, -fd, options.timeout_ms);
    if (options.asked)
        options.asked(options.context);
    rc = kolo_join_await(fd, &answer, &file);
    if (rc < 0) /* rank 0 has ended, and there may be another */
        rc = kolo_fail(KOLO_ERR_PEER_DEAD, "kolo_comm_join: those that listen under the name '%s' went away",
                       options.job);
    else if (!answer.taken)
        rc = kolo_fail(KOLO_ERR_MISMATCH, "%s", answer.text);
    else
        rc = join(comm, &options, &answer, file);
    if (file >= 0)
        close(file);
    close(fd);
    return rc;
}
