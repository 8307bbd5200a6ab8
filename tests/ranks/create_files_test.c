/* What may lie under a job's name, or come through an inherited descriptor, that is not a job file of this version: it
 * is refused, or replaced where its maker is dead; never believed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "job_file.h"
#include "shm/layout.h"

enum { FILE_BYTES = 4096 /* of a job file for two ranks */, HEADER_BYTES = sizeof(struct kolo_job_header) };

static const char *path_of(const char *job) {
    return job_path(job, geteuid());
}

static void write_file(const char *job, const void *data, size_t bytes) {
    int fd = open(path_of(job), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (expect(NULL, fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes, "%s: %s", path_of(job), strerror(errno)))
        close(fd);
}

static int create_rank(int rank, const char *job, int fd, int64_t create_timeout_ms) {
    kolo_options options = options_for(rank, 2, job, fd);
    kolo_comm *comm = NULL;
    options.slot_bytes = 4096;
    options.create_timeout_ms = create_timeout_ms;
    int status = kolo_comm_create(&comm, &options);
    kolo_comm_destroy(comm);
    return status;
}

/* Waits until the name stands for something else than the file of that number, for 20 s at most. */
static void await_replacement(const char *job, ino_t number) {
    struct stat found;
    for (int i = 0; i < 20000 && stat(path_of(job), &found) == 0 && found.st_ino == number; i++)
        sleep_ms(1);
}

/* Two ranks under that name; rank 1, a forked process, comes once the file of that number is gone. */
static void expect_job_works(const char *job, ino_t replaced, const char *what) {
    int exit_code = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        await_replacement(job, replaced);
        _exit(create_rank(1, job, -1, 20000) == 0 ? 0 : 1);
    }
    const int64_t begin_ns = now_ns();
    expect_status(NULL, create_rank(0, job, -1, 20000), 0, what);
    waitpid(pid, &exit_code, 0);
    expect(NULL, exit_code == 0, "%s: rank 1 failed", what);
    expect(NULL, now_ns() - begin_ns < patience_ms(10000) * 1000000, "%s: that took too long", what);
}

/* A file that is not a job file: rank 1 says so (or, where it may become one, waits), rank 0 replaces it. */
static void refuse_garbage(void) {
    static const size_t sizes[] = {0, 1, 100, HEADER_BYTES - 1, HEADER_BYTES, FILE_BYTES, 3 * FILE_BYTES};
    unsigned char garbage[3 * FILE_BYTES];
    struct stat file;
    memset(garbage, 0xee, sizeof garbage);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *job = fresh_job();
        write_file(job, garbage, sizes[i]);
        if (expect_status(NULL, create_rank(1, job, -1, 300), KOLO_ERR_VERSION, "rank 1 at garbage"))
            expect_message(NULL, "rank 1 at garbage", "rank 1", path_of(job), "not a kolo job file", NULL);
        if (expect(NULL, stat(path_of(job), &file) == 0, "rank 1 removed %s", path_of(job)))
            expect_job_works(job, file.st_ino, "a job in place of garbage");
    }
    const char *job = fresh_job();
    memset(garbage, 0, sizeof garbage);
    write_file(job, garbage, FILE_BYTES);
    expect_status(NULL, create_rank(1, job, -1, 300), KOLO_ERR_TIMEOUT, "rank 1 at zeros");
    unlink(path_of(job));
}

static void refuse_foreign(void) {
    const char *job = fresh_job();
    if (geteuid() != 0)
        return;
    write_file(job, "", 0);
    expect(NULL, chown(path_of(job), 65534, 65534) == 0, "chown: %s", strerror(errno));
    for (int rank = 0; rank < 2; rank++)
        if (expect_status(NULL, create_rank(rank, job, -1, 300), KOLO_ERR_SYSTEM, "a rank at another user's file"))
            expect_message(NULL, "another user's file", path_of(job), "belongs to user 65534", "KOLO_JOB", NULL);
    unlink(path_of(job));
    write_file(job, "", 0);
    expect(NULL, chmod(path_of(job), 0666) == 0, "chmod: %s", strerror(errno));
    for (int rank = 0; rank < 2; rank++)
        if (expect_status(NULL, create_rank(rank, job, -1, 300), KOLO_ERR_SYSTEM, "a rank at a file open to all"))
            expect_message(NULL, "a file open to all", path_of(job), "mode 666", NULL);
    unlink(path_of(job));
}

/* Starts rank 0 of 2, which waits for its peer, twice if need be, and reads what it has put under the job's name. */
static pid_t start_creator(const char *job, unsigned char *bytes) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        create_rank(0, job, -1, 60000);
        _exit(create_rank(0, job, -1, 60000) == 0 ? 0 : 1);
    }
    for (int i = 0; i < 30000; i++) {
        struct kolo_job_header header;
        int fd = open(path_of(job), O_RDONLY | O_CLOEXEC);
        bool complete = fd >= 0 && pread(fd, bytes, FILE_BYTES, 0) == FILE_BYTES;
        if (fd >= 0)
            close(fd);
        memcpy(&header, bytes, sizeof header);
        if (complete && header.offer == 1)
            return pid;
        sleep_ms(1);
    }
    expect(NULL, false, "rank 0 made no file under its name");
    return pid;
}

static void kill_creator(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void replace_stale(void) {
    unsigned char bytes[FILE_BYTES] = {0};
    const char *job = fresh_job();
    pid_t pid = start_creator(job, bytes);
    if (expect_status(NULL, create_rank(0, job, -1, 300), KOLO_ERR_MISMATCH, "rank 0 at a living one's name"))
        expect_message(NULL, "a living one's name", "job name in use", path_of(job), NULL);
    kill_creator(pid); /* its name stays, until a job of another test removes it */
    if (expect_status(NULL, create_rank(1, job, -1, 300), KOLO_ERR_TIMEOUT, "rank 1 at a dead one's name"))
        expect_message(NULL, "a dead one's name", "rank 0 never came", NULL);
    expect_job_works(job, 0, "a job in place of a dead one's");
}

/* Rank 1 gives up, and comes again while the name of its failed creation is still there: it waits for the next one. */
static void pass_over_failed(void) {
    unsigned char bytes[FILE_BYTES] = {0};
    char job[100];
    int status = -1;
    snprintf(job, sizeof job, "%s", fresh_job());
    const pid_t pid = start_creator(job, bytes);
    kill(pid, SIGSTOP); /* so that it keeps the name */
    waitpid(pid, NULL, WUNTRACED);
    if (expect_status(NULL, create_rank(1, job, -1, 1), KOLO_ERR_TIMEOUT, "rank 1 at a stopped one's name"))
        expect_message(NULL, "a stopped one's name", "rank 0 came, but was not ready", NULL);
    if (expect_status(NULL, create_rank(1, job, -1, 300), KOLO_ERR_TIMEOUT, "rank 1 at its failed creation's name"))
        expect_message(NULL, "a failed creation's name", "rank 0 never came", NULL);
    kill(pid, SIGCONT);
    expect_status(NULL, create_rank(1, job, -1, 60000), 0, "rank 1 after its failed creation");
    waitpid(pid, &status, 0);
    expect(NULL, status == 0, "rank 0 after its failed creation");
}

/* Headers of a living creator, each with one field changed. */
static void refuse_changed(void) {
    static const struct {
        size_t offset;
        uint32_t value;
        int status;
        const char *words;
    } changes[] = {
        {offsetof(struct kolo_job_header, magic), 12345, KOLO_ERR_VERSION, "not a kolo job file"},
        {offsetof(struct kolo_job_header, version), 0x090807, KOLO_ERR_VERSION, "rank 0 has 9.8.7"},
        {offsetof(struct kolo_job_header, layout), 77, KOLO_ERR_VERSION, "layout 77"},
        {offsetof(struct kolo_job_header, ranks), 3, KOLO_ERR_MISMATCH, "rank 0 with size 3"},
        {offsetof(struct kolo_job_header, segment.slot_bytes), 100, KOLO_ERR_VERSION, "slots of 100"},
        {offsetof(struct kolo_job_header, segment.bytes), 8192, KOLO_ERR_VERSION, "8192 bytes at"},
        {offsetof(struct kolo_job_header, segment.offset), 8192000, KOLO_ERR_VERSION, "at 8192000"},
        {offsetof(struct kolo_job_header, segment.offset), 1, KOLO_ERR_VERSION, "at 1,"},
        {offsetof(struct kolo_job_header, creator.start), 1, KOLO_ERR_TIMEOUT, "rank 0 never came"},
        {offsetof(struct kolo_job_header, file_end), 0, KOLO_ERR_VERSION,
         "damaged"}, /* only cut off after the header */
    };
    unsigned char right[FILE_BYTES] = {0}, changed[FILE_BYTES];
    char job[100];
    snprintf(job, sizeof job, "%s", fresh_job());
    pid_t pid = start_creator(job, right);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *other = fresh_job();
        memcpy(changed, right, sizeof right);
        memcpy(changed + changes[i].offset, &changes[i].value, sizeof changes[i].value);
        write_file(other, changed, sizeof changed);
        if (expect_status(NULL, create_rank(1, other, -1, 500), changes[i].status, changes[i].words))
            expect_message(NULL, changes[i].words, "rank 1", changes[i].words, NULL);
        unlink(path_of(other));
    }
    kill_creator(pid);
    unlink(path_of(job));
}

static void refuse_inherited(void) {
    unsigned char garbage[FILE_BYTES] = {0xee}, now[FILE_BYTES];
    for (int rank = 0; rank < 2; rank++) {
        int fd = memfd_create("garbage", MFD_CLOEXEC);
        expect(NULL, write(fd, garbage, sizeof garbage) == sizeof garbage, "write: %s", strerror(errno));
        if (expect_status(NULL, create_rank(rank, NULL, fd, 300), KOLO_ERR_VERSION, "inherited garbage"))
            expect_message(NULL, "inherited garbage", "inherited", "not a kolo job file", NULL);
        expect(NULL, pread(fd, now, sizeof now, 0) == sizeof now && memcmp(now, garbage, sizeof now) == 0,
               "rank %d wrote into a file that is not its job's", rank);
        const int cut = rank == 0 ? KOLO_ERR_MISMATCH : KOLO_ERR_VERSION;
        expect(NULL, ftruncate(fd, 100) == 0, "ftruncate: %s", strerror(errno));
        expect_status(NULL, create_rank(rank, NULL, fd, 300), cut, "an inherited file of 100 bytes");
        close(fd);
        expect_status(NULL, create_rank(rank, NULL, fd, 300), KOLO_ERR_ARG, "a closed descriptor");
        expect_message(NULL, "a closed descriptor", "KOLO_SHM_FD=", "not an open descriptor", NULL);
        expect_status(NULL, create_rank(rank, NULL, STDIN_FILENO, 300), KOLO_ERR_ARG, "a terminal or pipe");
    }
    const int fd = memfd_create("failed", MFD_CLOEXEC);
    for (int i = 0; i < 2; i++) /* the file's creation has failed: so does the next */
        if (expect_status(NULL, create_rank(0, NULL, fd, 1), KOLO_ERR_TIMEOUT, "rank 0 without rank 1"))
            expect_message(NULL, "rank 0 without rank 1", "rank 1 never came", NULL);
    close(fd);
}

/* One rank of three finds another version in the job file, as a rank of that version would: all are told. */
static void tell_all_of_another_version(bool by_descriptor) {
    enum { RANKS = 3, STRANGER = 1, WITHIN_MS = 5000 };
    const char *job = fresh_job();
    const int fd = by_descriptor ? memfd_create("test", MFD_CLOEXEC) : -1;
    const uint32_t version = 9 << 16 | 8 << 8 | 7;
    pid_t pids[RANKS];
    fflush(NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        kolo_options options = options_for(rank, RANKS, job, fd);
        options.create_timeout_ms = 60000;
        pids[rank] = fork();
        if (pids[rank])
            continue;
        kolo_comm *comm = NULL;
        if (rank == STRANGER && await_job(NULL, &options, 1 | 1 << 2)) {
            const int file = by_descriptor ? fd : open(path_of(job), O_RDWR | O_CLOEXEC);
            expect(NULL, pwrite(file, &version, 4, offsetof(struct kolo_job_header, version)) == 4, "pwrite");
        }
        const int64_t begin_ns = now_ns();
        const int status = kolo_comm_create(&comm, &options);
        if (expect(NULL, status == KOLO_ERR_VERSION, "rank %d got %d: %s", rank, status, kolo_error_message()))
            expect_message(NULL, "another version", "rank 1 has kolo", "rank 0 has", "one version on all ranks", NULL);
        expect(NULL, rank != STRANGER || strstr(kolo_error_message(), "9.8.7"), "%s", kolo_error_message());
        expect(NULL, now_ns() - begin_ns < patience_ms(WITHIN_MS) * 1000000, "rank %d was told late", rank);
        _exit(0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        waitpid(pids[rank], NULL, 0);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Puts files under a job's name, and behind descriptors, that are not the job's.");
    int fds[2]; /* whatever standard input was, it is a pipe from here on */
    if (pipe(fds) == 0)
        dup2(fds[0], STDIN_FILENO);
    refuse_garbage();
    refuse_foreign();
    replace_stale();
    pass_over_failed();
    refuse_changed();
    refuse_inherited();
    tell_all_of_another_version(false);
    tell_all_of_another_version(true);
    return harness_end();
}
