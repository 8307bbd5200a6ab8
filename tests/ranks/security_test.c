/* What another user of the machine can try: every kind of file planted under a job's name, a look at the job's files,
 * its memory and its locks, sockets in place of the job's, and a profile of measurements to be read. Nothing is
 * diverted, stalled, read or damaged: what is in the way is an error at once that names it, and kolorun's way, without
 * a name, goes on. Needs root, which acts as two users of its choice. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "harness.h"
#include "shm/memory_file.h"

enum { OWNER = 54321, ATTACKER = 54322, CREATE_MS = 20000 };

static const char *path_of(const char *job) {
    return job_path(job, OWNER);
}

static bool become(uid_t user) {
    return setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}

/* Runs `act` as a user, in a process of its own. */
static pid_t start_as(uid_t user, void (*act)(const char *job), const char *job) {
    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (expect(NULL, become(user), "becoming user %u: %s", (unsigned)user, strerror(errno)))
        act(job);
    fflush(NULL);
    _exit(0);
}

static void run_as(uid_t user, void (*act)(const char *job), const char *job) {
    const pid_t pid = start_as(user, act, job);
    int status = -1;
    waitpid(pid, &status, 0);
    expect(NULL, status == 0, "the process ended with %x", status);
}

static int create_rank(int rank, const char *job, int fd, int64_t create_timeout_ms, bool uses_it) {
    kolo_options options = options_for(rank, 2, job, fd);
    kolo_comm *comm = NULL;
    float data[4] = {1, 2, 3, 4};
    options.slot_bytes = 4096;
    options.create_timeout_ms = create_timeout_ms;
    int status = kolo_comm_create(&comm, &options);
    for (int call = 0; uses_it && status == 0 && call < 1000; call++)
        status = kolo_allreduce(comm, data, data, 4, KOLO_F32, KOLO_MAX);
    kolo_comm_destroy(comm);
    return status;
}

/* Squatting. */

static void plant_file(const char *job) {
    const int fd = open(path_of(job), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    expect(NULL, fd >= 0 && fchmod(fd, 0666) == 0, "%s: %s", path_of(job), strerror(errno));
    close(fd);
}

static void plant_locked_file(const char *job) {
    plant_file(job);
    flock(open(path_of(job), O_RDWR), LOCK_EX); /* nobody may wait for it; it ends with this process */
    sleep_ms(60000);
}

static void plant_symlink(const char *job) {
    expect(NULL, symlink("/etc/passwd", path_of(job)) == 0, "symlink: %s", strerror(errno));
}

static void plant_symlink_to_own(const char *job) {
    char target[64];
    snprintf(target, sizeof target, "/dev/shm/kolo-%u-elsewhere", (unsigned)OWNER);
    expect(NULL, symlink(target, path_of(job)) == 0, "symlink: %s", strerror(errno));
}

static void plant_directory(const char *job) {
    expect(NULL, mkdir(path_of(job), 0777) == 0, "mkdir: %s", strerror(errno));
}

static void plant_fifo(const char *job) {
    expect(NULL, mkfifo(path_of(job), 0666) == 0 && chmod(path_of(job), 0666) == 0, "mkfifo: %s", strerror(errno));
}

static void be_refused(const char *job, int rank) {
    const int64_t begin_ns = now_ns();
    const int status = create_rank(rank, job, -1, CREATE_MS, false);
    if (expect_status(NULL, status, KOLO_ERR_SYSTEM, "a rank at a name that another user has taken"))
        expect_message(NULL, "a name that another user has taken", path_of(job), "KOLO_JOB", NULL);
    expect(NULL, now_ns() - begin_ns < patience_ms(10000) * 1000000, "rank %d was stalled", rank);
}

static void be_refused_as_rank_0(const char *job) {
    be_refused(job, 0);
}

static void be_refused_as_rank_1(const char *job) {
    be_refused(job, 1);
}

static void remove_planted(const char *job) {
    expect(NULL, unlink(path_of(job)) == 0 || rmdir(path_of(job)) == 0, "%s: %s", path_of(job), strerror(errno));
}

static void squat(void) {
    static void (*const plants[])(const char *) = {plant_file, plant_symlink, plant_symlink_to_own, plant_directory,
                                                   plant_fifo};
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        const char *job = fresh_job();
        run_as(ATTACKER, plants[i], job);
        run_as(OWNER, be_refused_as_rank_0, job);
        run_as(OWNER, be_refused_as_rank_1, job);
        remove_planted(job);
    }
    const char *job = fresh_job();
    const pid_t pid = start_as(ATTACKER, plant_locked_file, job);
    while (access(path_of(job), F_OK) < 0)
        sleep_ms(1);
    sleep_ms(100);
    run_as(OWNER, be_refused_as_rank_0, job);
    run_as(OWNER, be_refused_as_rank_1, job);
    remove_planted(job);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A second name, by a hard link, for the file of a living job: as a system that lets any user link any file would
 * allow. */
static void be_rank_0(const char *job) {
    create_rank(0, job, -1, CREATE_MS, false);
}

static void divert(void) {
    char job[96], other[96];
    snprintf(job, sizeof job, "%s", fresh_job());
    snprintf(other, sizeof other, "%s", fresh_job());
    const pid_t pid = start_as(OWNER, be_rank_0, job);
    char path[160];
    snprintf(path, sizeof path, "%s", path_of(job));
    while (access(path, F_OK) < 0)
        sleep_ms(1);
    expect(NULL, link(path, path_of(other)) == 0, "link: %s", strerror(errno));
    run_as(OWNER, be_refused_as_rank_1, other);
    remove_planted(other);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unlink(path);
}

/* A running job. */

static pid_t victims[2];

static void attack(const char *job) {
    char path[64];
    const int fd = open(path_of(job), O_RDONLY | O_CLOEXEC);
    expect(NULL, fd < 0 && errno == EACCES, "another user opened %s", path_of(job));
    expect(NULL, unlink(path_of(job)) < 0, "another user removed %s", path_of(job));
    expect(NULL, create_rank(1, job, -1, 300, false) < 0, "another user joined the job");
    for (int i = 0; i < 2; i++)
        for (int number = 3; number < 10; number++) {
            snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)victims[i], number);
            expect(NULL, open(path, O_RDWR) < 0, "another user opened %s", path);
        }
    snprintf(path, sizeof path, "/proc/%d/mem", (int)victims[0]);
    expect(NULL, open(path, O_RDWR) < 0, "another user opened %s", path);
    expect(NULL, kill(victims[0], SIGSTOP) < 0, "another user stopped a rank");
}

static void be_victim_0(const char *job) {
    expect_status(NULL, create_rank(0, job, -1, CREATE_MS, true), 0, "rank 0 under attack");
}

static void be_victim_1(const char *job) {
    expect_status(NULL, create_rank(1, job, -1, CREATE_MS, true), 0, "rank 1 under attack");
}

static void attack_job(void) {
    const char *job = fresh_job();
    struct stat found = {0};
    victims[0] = victims[1] = start_as(OWNER, be_victim_0, job);
    while (stat(path_of(job), &found) < 0)
        sleep_ms(1);
    expect(NULL, found.st_uid == OWNER && (found.st_mode & 0777) == 0600, "%s has owner %u and mode %o", path_of(job),
           (unsigned)found.st_uid, (unsigned)found.st_mode & 0777);
    run_as(ATTACKER, attack, job);
    victims[1] = start_as(OWNER, be_victim_1, job);
    for (int i = 0; i < 2; i++)
        waitpid(victims[i], NULL, 0);
}

/* Another user's descriptor, as if handed down by a program with more rights. */
static void be_refused_by_descriptor(const char *job) {
    const int fd = open(job, O_RDWR | O_CLOEXEC);
    if (!expect(NULL, fd >= 0, "%s: %s", job, strerror(errno)))
        return;
    for (int rank = 0; rank < 2; rank++)
        if (expect_status(NULL, create_rank(rank, NULL, fd, 300, false), KOLO_ERR_ARG, "another user's descriptor"))
            expect_message(NULL, "another user's descriptor", "not this user's shared file", NULL);
    close(fd);
}

static void plant_descriptor(const char *path) {
    const int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    expect(NULL, fd >= 0 && fchmod(fd, 0666) == 0, "%s: %s", path, strerror(errno));
    close(fd);
}

static void hand_down(void) {
    char path[] = "/dev/shm/test-security-XXXXXX";
    const int fd = mkstemp(path);
    close(fd);
    unlink(path);
    run_as(ATTACKER, plant_descriptor, path);
    run_as(OWNER, be_refused_by_descriptor, path);
    unlink(path);
}

/* Sockets, whose names all can see, and take. */

enum { SECRET = 54321 };

static void listen_and_ignore(const char *job) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "kolo-join/%u/%s", (unsigned)OWNER, job);
    const socklen_t bytes = (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)length);
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    expect(NULL, bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 0) == 0, "%s: %s", job,
           strerror(errno));
    expect(NULL, kolo_handover_listen(SECRET, 0) >= 0, "listening as a taker");
    counter_add(1);
    sleep_ms(60000);
}

static void be_ignored(const char *job) {
    kolo_join_options options = KOLO_JOIN_INIT;
    kolo_comm *comm;
    options.job = job;
    options.timeout_ms = 200;
    if (expect_status(NULL, kolo_comm_join(&comm, &options), KOLO_ERR_SYSTEM, "joining another user"))
        expect_message(NULL, "joining another user", job, "another user's", NULL);
    /* The listener does not take a connection off its line when the other side closes: there is no more room. */
    if (expect_status(NULL, kolo_comm_join(&comm, &options), KOLO_ERR_TIMEOUT, "joining another user's full line"))
        expect_message(NULL, "joining another user's full line", job, "200 ms", NULL);
    const int fd = kolo_memory_file_create("test", 0), rc = kolo_handover_give(SECRET, 0, 0, fd);
    expect(NULL, rc == -EPERM, "a file was handed to another user: %d", rc);
}

static void squat_sockets(void) {
    const char *job = fresh_job();
    const pid_t pid = start_as(ATTACKER, listen_and_ignore, job);
    while (counter_add(0) == 0)
        sleep_ms(1);
    run_as(OWNER, be_ignored, job);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A profile is read only if nobody else could have written it. */
static void be_warned(const char *path) {
    kolo_plan plan = {.plan_bytes = sizeof plan};
    setenv("KOLO_TUNE_FILE", path, 1);
    expect_status(NULL, kolo_plan_query(&plan, NULL, 2, KOLO_ALLREDUCE, 1024, KOLO_F32, KOLO_SUM), 0,
                  "kolo_plan_query");
    expect(NULL, strstr(plan.tuning, "another user could have written it") != NULL && !plan.tuned,
           "another user's profile: \"%s\"", plan.tuning);
}

static void be_read(const char *path) {
    kolo_plan plan = {.plan_bytes = sizeof plan};
    setenv("KOLO_TUNE_FILE", path, 1);
    expect_status(NULL, kolo_plan_query(&plan, NULL, 2, KOLO_ALLREDUCE, 1024, KOLO_F32, KOLO_SUM), 0,
                  "kolo_plan_query");
    expect(NULL, strstr(plan.tuning, "ignored") && !strstr(plan.tuning, "another user"),
           "the user's own profile: \"%s\"", plan.tuning);
}

static void plant_profile(void) {
    char path[] = "/tmp/test-profile-XXXXXX";
    const int fd = mkstemp(path);
    expect(NULL, fd >= 0 && fchown(fd, ATTACKER, ATTACKER) == 0 && fchmod(fd, 0644) == 0, "%s", strerror(errno));
    run_as(OWNER, be_warned, path);
    expect(NULL, fchown(fd, OWNER, OWNER) == 0 && fchmod(fd, 0666) == 0, "%s", strerror(errno));
    run_as(OWNER, be_warned, path);
    expect(NULL, fchmod(fd, 0644) == 0, "%s", strerror(errno));
    run_as(OWNER, be_read, path);
    expect(NULL, fchown(fd, 0, 0) == 0, "%s", strerror(errno));
    run_as(OWNER, be_read, path); /* the system's */
    close(fd);
    unlink(path);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Attacks one user's jobs as another user.");
    if (geteuid() != 0)
        harness_skip("no right to act as two users (needs root)");
    squat();
    divert();
    attack_job();
    hand_down();
    squat_sockets();
    plant_profile();
    return harness_end();
}
