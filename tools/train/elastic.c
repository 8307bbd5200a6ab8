/* How members and joiners come to be in one communicator, or the members stay in theirs, all of them the same.
 *
 *   1. Rank 0 takes from the socket (join_socket.h) who waits there and refuses who does not fit. It makes a file for a
 *      new communicator, without a name, and answers the others with it and with their ranks. It tells the members how
 *      many come, and gives them the file.
 *   2. All create the larger communicator. That may fail, also on some only: a joiner or member dies or is stopped, or
 *      something is lacking.
 *   3. The members ask each other, by an all-reduce in their old communicator, whether all of them have the new one.
 *      Where not, each destroys it, if it has it, and they go on in the old one. If all have it, they move.
 *
 * The last step must not end one way on some members and the other way on others, and a member that dies in the
 * all-reduce can have it succeed here and fail there. So it is not its result that counts. Who learns by it that all
 * have the new communicator aborts the old one, with a code that means just that. A communicator breaks once, and every
 * rank sees the same failure (kolo.h): either that abort, and all move, those too whose all-reduce it broke, and they
 * have what to move to, since somebody knew that all have it; or a death or an overdue rank, which was found first, and
 * nobody moves: they drop the new communicator and shrink the old one. (KOLO_LOG=info tells of that abort, too.)
 *
 * A joiner decides nothing. The first it hears in the new communicator comes from rank 0 after it has moved. If the
 * members stay where they are, it finds them gone and asks again; if it dies after step 3, the members find that as
 * they find any rank's death. */
#include "elastic.h"

#include "complain.h"
#include "descriptor.h"
#include "join_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    JOINERS_MAX = 64, /* in one epoch; the others wait for the next one's end */
    LOOKS_MAX = 256,  /* visitors that are looked at in one epoch */
    TRIES_MAX = 10,
    CREATE_TIMEOUT_MS = 10000, /* the members wait, and all of the others live and need only wake up */
    MOVED = 0x6d6f7665         /* the code with which the old communicator is aborted */
};

enum { AGAIN = 1 };

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

int elastic_open(int *listener, kolo_comm *comm, const train_options *options) {
    int rc = 0;
    if (kolo_comm_rank(comm) == 0) {
        if (options->job == NULL)
            return complain(comm,
                            "--elastic: those who join need a name: set KOLO_JOB, or start the ranks with kolorun");
        rc = *listener = join_socket_listen(options->job);
    }
    if (rc == -EADDRINUSE)
        return complain(comm, "--elastic: a training named '%s' is running; choose another KOLO_JOB", options->job);
    if (rc < 0)
        return complain(comm, "--elastic: cannot listen for those who join '%s': %s", options->job, strerror(-rc));
    return descriptor_share(comm, listener);
}

static void refuse(const join_visitor *visitor, const char *why) {
    join_answer answer = {.verdict = JOIN_REFUSED};
    snprintf(answer.text, sizeof(answer.text), "%s", why);
    join_socket_answer(visitor, &answer, -1);
    close(visitor->fd);
}

/* Whether a visitor can be rank number `ranks`; if not, `why` says in words why not. */
static int fits(const join_visitor *visitor, const train_options *options, size_t ranks, char *why, size_t why_bytes) {
    const train_settings training = train_settings_of(options);
    const join_request *request = &visitor->request;
    if (visitor->user != geteuid())
        snprintf(why, why_bytes, "user %u started it, and the training is user %u's", (unsigned)visitor->user,
                 (unsigned)geteuid());
    else if (strcmp(request->version, kolo_version()) != 0)
        snprintf(why, why_bytes, "it has kolo %s, the training %s", request->version, kolo_version());
    else if (ranks >= options->batch_rows || ranks >= KOLO_RANKS_MAX)
        snprintf(why, why_bytes, "a batch of %zu rows has none for one more than %zu ranks", options->batch_rows,
                 ranks);
    else
        return train_settings_agree(&request->settings, request->given, &training, why, why_bytes);
    return 0;
}

/* Rank 0's: who waits and fits, at most JOINERS_MAX. Who has not sent its request yet is sent away, and comes again. */
static uint32_t receive_visitors(int listener, const kolo_comm *comm, const train_options *options,
                                 join_visitor *visitors) {
    uint32_t count = 0;
    join_visitor visitor;
    for (int looks = 0; looks < LOOKS_MAX && count < JOINERS_MAX && join_socket_accept(listener, &visitor); looks++) {
        char why[JOIN_TEXT_BYTES];
        if (visitor.user == geteuid() && !visitor.valid) {
            close(visitor.fd);
        } else if (fits(&visitor, options, (size_t)kolo_comm_size(comm) + count, why, sizeof(why))) {
            visitors[count++] = visitor;
        } else {
            refuse(&visitor, why);
            fprintf(stderr, "kolo-train: refused process %d, which asked to join: %s\n", (int)visitor.pid, why);
        }
    }
    return count;
}

/* An empty file without a name, in which ranks can meet (kolo_options.shm_fd). Kernels before 6.3 do not know
 * MFD_NOEXEC_SEAL, later ones may insist on it. */
static int create_file(void) {
    int fd = memfd_create("kolo-train", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("kolo-train", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (fchmod(fd, 0600) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Rank 0's: tells those who fit their part. */
static void welcome(const kolo_comm *comm, const join_visitor *visitors, uint32_t count, int file) {
    for (uint32_t i = 0; i < count; i++) {
        const join_answer answer = {
            .verdict = JOIN_WELCOME, .rank = kolo_comm_size(comm) + (int)i, .size = kolo_comm_size(comm) + (int)count};
        join_socket_answer(&visitors[i], &answer, file);
    }
}

static int create_larger(kolo_comm **comm, int file, int rank, int size) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.shm_fd = file;
    options.rank = rank;
    options.size = size;
    options.create_timeout_ms = CREATE_TIMEOUT_MS;
    return kolo_comm_create(comm, &options);
}

/* Step 3: 1 to move, 0 to stay, or COMPLAIN_LOST; see above. */
static int decide(kolo_comm *members, int has_larger) {
    const int32_t mine = has_larger;
    int32_t all = mine;
    if (kolo_comm_size(members) == 1)
        return has_larger;
    if (kolo_allreduce(members, &mine, &all, 1, KOLO_I32, KOLO_MIN) == 0) {
        if (!all)
            return 0;
        kolo_comm_abort(members, MOVED);
    }
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(members, &failure);
    return failure.status == KOLO_ERR_ABORTED && failure.code == MOVED ? 1 : COMPLAIN_LOST;
}

static int create_and_decide(kolo_comm **comm, int file, int joiners) {
    int rank = kolo_comm_rank(*comm), size = kolo_comm_size(*comm);
    kolo_comm *larger = NULL;
    char why[512] = "not all ranks could";
    if (file < 0)
        snprintf(why, sizeof(why), "no file to meet in");
    else if (create_larger(&larger, file, rank, size + joiners) < 0)
        snprintf(why, sizeof(why), "%s", kolo_error_message());
    int verdict = decide(*comm, larger != NULL);
    if (verdict == 1) {
        kolo_comm_destroy(*comm);
        *comm = larger;
        return joiners;
    }
    kolo_comm_destroy(larger);
    if (verdict == 0 && rank == 0)
        fprintf(stderr, "kolo-train: could not take in %d more: %s: going on with %d rank%s\n", joiners, why, size,
                size == 1 ? "" : "s");
    return verdict;
}

int elastic_admit(int listener, kolo_comm **comm, const train_options *options) {
    join_visitor visitors[JOINERS_MAX];
    uint32_t count = 0;
    int file = -1;
    if (kolo_comm_rank(*comm) == 0 && listener >= 0)
        count = receive_visitors(listener, *comm, options, visitors);
    if (count > 0)
        file = create_file();
    if (file >= 0)
        welcome(*comm, visitors, count, file);
    uint32_t joiners = count;
    int rc = 0;
    if (kolo_broadcast(*comm, &joiners, 1, KOLO_U32, 0) < 0)
        rc = complain_kolo(*comm, "cannot tell who joins");
    if (rc == 0 && joiners > 0)
        rc = descriptor_share(*comm, &file);
    if (rc == 0 && joiners > 0)
        rc = create_and_decide(comm, file, (int)joiners);
    if (file >= 0)
        close(file);
    for (uint32_t i = 0; i < count; i++)
        close(visitors[i].fd);
    return rc;
}

void elastic_close(int *listener, const kolo_comm *comm) {
    join_visitor visitor;
    if (*listener < 0)
        return;
    for (int looks = 0; kolo_comm_rank(comm) == 0 && looks < LOOKS_MAX && join_socket_accept(*listener, &visitor);
         looks++)
        refuse(&visitor, "the training is over");
    close(*listener);
    *listener = -1;
}

static int cannot_ask(const char *job, int rc, int asked_before) {
    if (rc == -ECONNREFUSED && asked_before)
        return complain(NULL, "cannot join '%s': the training is over", job);
    if (rc == -ECONNREFUSED)
        return complain(NULL, "cannot join '%s': no training of that name and user is running", job);
    if (rc == -EPERM)
        return complain(NULL, "cannot join '%s': another user's process has that name", job);
    return complain(NULL, "cannot join '%s': %s", job, strerror(-rc));
}

/* One try: 0, -1 when that is final and has been said, or AGAIN. */
static int try_join(kolo_comm **comm, const train_options *options, int tries) {
    const train_settings settings = train_settings_of(options);
    const char *job = options->join_job;
    int fd = join_socket_ask(job, &settings, options->given);
    if (fd == -EPIPE || fd == -ECONNRESET) /* before the request could be sent */
        return AGAIN;
    if (fd < 0)
        return cannot_ask(job, fd, tries > 0);
    if (tries == 0)
        fprintf(stderr, "kolo-train: process %d waits for the end of an epoch, to join '%s'\n", (int)getpid(), job);
    join_answer answer;
    int file = -1;
    int rc = join_socket_await(fd, &answer, &file);
    if (rc == 0 && answer.verdict != JOIN_WELCOME)
        rc = complain(NULL, "cannot join '%s': %s", job, answer.text);
    else if (rc < 0) /* rank 0 has ended, and there may be another */
        rc = AGAIN;
    else if (create_larger(comm, file, answer.rank, answer.size) < 0) {
        complain(NULL, "could not join '%s', and asks again: %s", job, kolo_error_message());
        rc = AGAIN;
    }
    if (file >= 0)
        close(file);
    close(fd);
    return rc;
}

int elastic_join(kolo_comm **comm, const train_options *options) {
    int rc = AGAIN;
    for (int tries = 0; rc == AGAIN && tries < TRIES_MAX; tries++)
        rc = try_join(comm, options, tries);
    if (rc == AGAIN)
        return complain(NULL, "cannot join '%s': %d times without success", options->join_job, TRIES_MAX);
    return rc;
}
