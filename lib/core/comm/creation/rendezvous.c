/* The job's file: opening, filling, naming and checking it. */
#include "comm/creation/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "shm/guard.h"

#define REPLACEMENTS_MAX 16
#define LOCKED_NS_MAX    (100 * KOLO_NS_PER_MS) /* the process that has the lock may be stopped */
#define LEFT_MS_MIN      500                    /* age of a name that is taken for left behind */

/* The file. */

static int map_file(struct kolo_job *job) {
    void *mapping;
    int rc = kolo_segment_map(job->fd, 0, job->bytes, &mapping);
    if (rc < 0)
        return rc;
    job->header = mapping;
    job->members = (void *)(job->header + 1);
    return 0;
}

static void unmap_file(struct kolo_job *job) {
    munmap(job->header, job->bytes);
    job->header = NULL;
}

static int fill_file(struct kolo_job *job) {
    int rc = kolo_segment_allocate(job->fd, 0, job->bytes);
    if (rc == 0)
        rc = map_file(job);
    if (rc < 0)
        return rc;
    struct kolo_job_header *header = job->header;
    KOLO_POINT("job.allocated");
    header->version = KOLO_VERSION_WORD;
    header->layout = KOLO_LAYOUT;
    header->ranks = job->ranks;
    kolo_liveness_introduce(&header->creator, job->own_namespace,
                            job->guarded && kolo_guard_take(job->fd, kolo_guard_place(1, 0)));
    kolo_store_relaxed(&header->file_end, job->bytes);
    KOLO_POINT("job.filled");
    kolo_store_release(&header->magic, KOLO_JOB_MAGIC); /* pairs with check_header */
    KOLO_POINT("job.signed");
    return 0;
}

/* Checks a header that another rank wrote. Returns 0, 1 if it is not written yet, or an error. */
static int check_header(const struct kolo_job *job) {
    const uint64_t magic = kolo_load_acquire(&job->header->magic); /* pairs with fill_file */
    const uint32_t version = job->header->version, layout = job->header->layout, ranks = job->header->ranks;
    if (magic == 0)
        return 1;
    if (magic != KOLO_JOB_MAGIC)
        return kolo_fail(KOLO_ERR_VERSION, "rank %u: %s is not a kolo job file (begins with %016" PRIx64 "): %s",
                         job->global_rank, job->path[0] ? job->path : "the inherited descriptor's file", magic,
                         job->path[0] ? "choose another KOLO_JOB" : "start the program with kolorun");
    if (layout != KOLO_LAYOUT || version != KOLO_VERSION_WORD)
        return kolo_job_announce_version(job);
    if (ranks != job->ranks)
        return kolo_fail(KOLO_ERR_MISMATCH,
                         "rank %u was created with size %u, rank 0 with size %u: start all ranks of a job with one "
                         "size (KOLO_SIZE), and each job with a name of its own",
                         job->global_rank, job->ranks, ranks);
    return 0;
}

/* By name. */

static int link_file(const struct kolo_job *job) {
    char self[64];
    if (linkat(job->fd, "", AT_FDCWD, job->path, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno == EEXIST)
        return -EEXIST;
    /* A process without the privilege for an empty path links by way of /proc. */
    snprintf(self, sizeof self, "/proc/self/fd/%d", job->fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, job->path, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

/* Opens the name and checks that the file is this user's own. *fd is -1 if there is none. */
static int open_name(const struct kolo_job *job, struct stat *found, int *fd) {
    *fd = kolo_file_raise(open(job->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (*fd < 0 && errno == ENOENT)
        return 0;
    if (*fd < 0)
        return kolo_fail_system(errno, "rank %u: opening %s%s", job->global_rank, job->path,
                                errno == EMFILE || errno == ENFILE ? "" : " (another user's? choose another KOLO_JOB)");
    /* A file with a second link is refused: somebody could make one job open another's. 0: the name was removed. */
    if (fstat(*fd, found) == 0 && S_ISREG(found->st_mode) && found->st_uid == geteuid() &&
        (found->st_mode & 077) == 0 && found->st_nlink <= 1)
        return 0;
    close(*fd);
    *fd = -1;
    return kolo_fail(
        KOLO_ERR_SYSTEM,
        "rank %u: %s belongs to user %u with mode %o, links %u: it is not this job's; choose another KOLO_JOB",
        job->global_rank, job->path, (unsigned)found->st_uid, (unsigned)found->st_mode & 0777,
        (unsigned)found->st_nlink);
}

bool kolo_job_header_read(int fd, struct kolo_job_header *header) {
    return pread(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header &&
           kolo_load_relaxed(&header->magic) == KOLO_JOB_MAGIC;
}

bool kolo_job_creator_alive(uint64_t own_namespace, int fd, const struct kolo_job_header *header) {
    const struct kolo_shared_process *creator = &header->creator;
    if (header->layout != KOLO_LAYOUT) /* of another version, whose header may say less */
        return kolo_process_alive(creator->pid, creator->start);
    return kolo_liveness_is_alive(creator, own_namespace, fd, kolo_guard_place(1, 0));
}

int kolo_job_name_remove_of(const char *path, int fd) {
    struct stat found, named;
    const int64_t end_ns = kolo_clock_ns() + LOCKED_NS_MAX;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || kolo_clock_ns() > end_ns)
            return -errno;
        kolo_clock_sleep(KOLO_NS_PER_MS);
    }
    if (fstat(fd, &found) < 0)
        return -errno;
    if (lstat(path, &named) < 0 || named.st_ino != found.st_ino || named.st_dev != found.st_dev)
        return 0;
    return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

int kolo_job_names_next(DIR *directory, char *path, size_t path_bytes, struct stat *found) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, KOLO_JOB_PATH, (unsigned)geteuid());
    for (const struct dirent *entry; (entry = readdir(directory));) {
        const int length = snprintf(path, path_bytes, KOLO_JOB_DIRECTORY "/%s", entry->d_name);
        const bool is_ours = length < (int)path_bytes && strncmp(path, prefix, strlen(prefix)) == 0;
        const int fd = is_ours ? kolo_file_open_own(path, found) : -1;
        if (fd >= 0)
            return fd;
    }
    return -1;
}

static int64_t age_ms(const struct stat *found) {
    return kolo_clock_utc_ns() / KOLO_NS_PER_MS - found->st_mtim.tv_sec * 1000 -
           found->st_mtim.tv_nsec / KOLO_NS_PER_MS;
}

/* Removes the names, and with them the memory, that this user's earlier jobs have left because their rank 0 was killed
 * while they met. A name stays for LEFT_MS_MIN, so that the other ranks can learn of the end by it. */
static void sweep(const struct kolo_job *job) {
    char path[sizeof job->path];
    struct stat found;
    struct kolo_job_header header;
    DIR *directory = opendir(KOLO_JOB_DIRECTORY);
    KOLO_POINT("job.sweeping");
    for (int fd; directory && (fd = kolo_job_names_next(directory, path, sizeof path, &found)) >= 0; close(fd))
        if (age_ms(&found) >= LEFT_MS_MIN && kolo_job_header_read(fd, &header) && header.layout == KOLO_LAYOUT &&
            !kolo_job_creator_alive(job->own_namespace, fd, &header))
            (void)kolo_job_name_remove_of(path, fd);
    if (directory)
        closedir(directory);
    KOLO_POINT("job.swept");
}

/* Removes a name whose creator is dead. */
static int remove_stale(struct kolo_job *job) {
    struct stat found;
    struct kolo_job_header header;
    int fd, rc = open_name(job, &found, &fd);
    if (rc < 0 || fd < 0)
        return rc;
    KOLO_POINT("job.other_file");
    if (kolo_job_header_read(fd, &header) && kolo_job_creator_alive(job->own_namespace, fd, &header))
        rc = kolo_fail(KOLO_ERR_MISMATCH,
                       "rank 0: job name in use: %s is being created by process %u; choose another KOLO_JOB", job->path,
                       header.creator.pid);
    else if ((rc = kolo_job_name_remove_of(job->path, fd)) < 0)
        rc = kolo_fail_system(-rc, "rank 0: removing %s, whose creator is gone%s", job->path,
                              rc == -EWOULDBLOCK ? ": another process has it locked" : "");
    KOLO_POINT("job.removed_stale");
    close(fd);
    return rc;
}

/* Checks that a name can be made in the directory. If not, all ranks find that, and none need wait for rank 0. */
static int check_directory(const struct kolo_job *job) {
    struct statvfs mount;
    const int error = statvfs(KOLO_JOB_DIRECTORY, &mount) < 0 ? errno : mount.f_flag & ST_RDONLY ? EROFS : 0;
    return error == 0 ? 0
                      : kolo_fail_system(error,
                                         "rank %u: ranks meet by a name in " KOLO_JOB_DIRECTORY
                                         ": mount a tmpfs there (mount -t tmpfs -o mode=1777 tmpfs " KOLO_JOB_DIRECTORY
                                         "), or start them with kolorun, which does without",
                                         job->global_rank);
}

static int create_named(struct kolo_job *job) {
    job->fd = kolo_file_raise(open(KOLO_JOB_DIRECTORY, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (job->fd < 0)
        return kolo_fail_system(errno, "rank 0: creating a file in " KOLO_JOB_DIRECTORY " (kolorun does without)");
    job->guarded = true;
    int rc = fill_file(job);
    for (int i = 0; rc == 0 && i < REPLACEMENTS_MAX; i++) {
        KOLO_POINT("job.linking");
        const int linked = link_file(job);
        job->linked = linked == 0;
        job->linked_ns = kolo_clock_ns();
        if (linked == 0) {
            KOLO_POINT("job.linked");
            sweep(job);
            return 0;
        }
        if (linked != -EEXIST)
            return kolo_fail_system(-linked, "rank 0: naming the job file %s", job->path);
        rc = remove_stale(job);
    }
    return rc < 0 ? rc
                  : kolo_fail(KOLO_ERR_SYSTEM,
                              "rank 0: %s was recreated %d times by others: choose a KOLO_JOB that no other job has",
                              job->path, REPLACEMENTS_MAX);
}

/* Tries once to open the name. Returns 0 with job->fd < 0 where there is nothing to attach to yet. */
static int try_attach_named(struct kolo_job *job) {
    struct stat found;
    struct kolo_job_header header;
    int rc = open_name(job, &found, &job->fd);
    if (rc == 0 && job->fd < 0) {
        job->was_nameless = true;
        KOLO_POINT("job.nameless");
    }
    if (rc < 0 || job->fd < 0)
        return rc;
    job->guarded = true;
    KOLO_POINT("job.opened");
    if (kolo_job_header_read(job->fd, &header) && !kolo_job_creator_alive(job->own_namespace, job->fd, &header)) {
        if (job->was_nameless)
            return kolo_job_fail_dead(job, 0, &header.creator);
        close(job->fd); /* rank 0 will replace it */
        job->fd = -1;
        return 0;
    }
    if ((size_t)found.st_size < sizeof(struct kolo_job_header))
        return kolo_fail(KOLO_ERR_VERSION, "rank %u: %s is not a kolo job file (%lld bytes): choose another KOLO_JOB",
                         job->global_rank, job->path, (long long)found.st_size);
    return 0;
}

/* By descriptor. */

/* Opens the file anew through /proc, so that each rank has an open file description of its own, which locks need; a
 * duplicate would share that of the process that started the ranks. */
static int duplicate(struct kolo_job *job) {
    struct stat found;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", job->settings->shm_fd);
    const bool regular = fstat(job->settings->shm_fd, &found) == 0 && S_ISREG(found.st_mode);
    job->fd = regular ? kolo_file_raise(open(path, O_RDWR | O_CLOEXEC)) : -1;
    job->guarded = job->fd >= 0;
    if (job->fd < 0)
        job->fd = fcntl(job->settings->shm_fd, F_DUPFD_CLOEXEC, 3);
    job->is_borrowed = job->fd < 0 && errno != EBADF;
    if (job->is_borrowed) /* where no descriptor is left the file is the place to tell the others */
        job->fd = job->settings->shm_fd;
    if (job->fd < 0)
        return kolo_fail(KOLO_ERR_ARG,
                         "rank %u: KOLO_SHM_FD=%d is not an open descriptor: start the program with kolorun, or let it "
                         "inherit the descriptor",
                         job->global_rank, job->settings->shm_fd);
    /* A file from ranks of another communicator may belong to another user: one may have changed its user. */
    if (fstat(job->fd, &found) < 0 || !S_ISREG(found.st_mode) || (found.st_uid != geteuid() && !job->rejoin))
        return kolo_fail(KOLO_ERR_ARG,
                         "rank %u: KOLO_SHM_FD=%d is not this user's shared file: start the program with kolorun",
                         job->global_rank, job->settings->shm_fd);
    return 0;
}

static int fill_inherited(struct kolo_job *job) {
    struct stat found;
    int rc = duplicate(job);
    if (rc < 0)
        return rc;
    if (fstat(job->fd, &found) < 0)
        return kolo_fail_system(errno, "rank 0: looking at the inherited file");
    if (found.st_size == 0)
        return fill_file(job);
    if ((size_t)found.st_size < job->bytes)
        return kolo_fail(KOLO_ERR_MISMATCH,
                         "rank 0: the inherited file has %lld bytes and was not made for %u ranks: give each job an "
                         "empty file of its own (kolorun does)",
                         (long long)found.st_size, job->ranks);
    rc = map_file(job);
    if (rc < 0)
        return rc;
    rc = check_header(job);
    if (rc == KOLO_ERR_VERSION) /* not a file to write into */
        unmap_file(job);
    return rc > 0
               ? kolo_fail(KOLO_ERR_MISMATCH,
                           "rank 0: the inherited file is being filled by another process: is there a second rank 0?")
               : rc;
}

/* By name or by descriptor. */

/* Maps the file if rank 0 has given it a size. A file for fewer ranks is shorter: its first page says how many. */
static int try_map(struct kolo_job *job) {
    struct stat found;
    if (fstat(job->fd, &found) < 0)
        return kolo_fail_system(errno, "rank %u: looking at the job file", job->global_rank);
    if (found.st_size == 0)
        return 0;
    if ((size_t)found.st_size < job->bytes)
        job->bytes = KOLO_PAGE_BYTES;
    KOLO_POINT("job.mapping");
    return map_file(job);
}

/* Fails as the creation of this file that has failed with this rank in it; 0 if there is none. */
static int fail_again(struct kolo_job *job) {
    const uint64_t before = kolo_load_acquire(&job->members[job->rank].epoch); /* pairs with register_rank */
    if (before <= kolo_job_completed(job))
        return 0;
    job->epoch = before; /* that of which the failure tells */
    const int rc = kolo_job_failure(job);
    job->epoch = 0;
    return rc;
}

/* Tries once to attach. Returns 0 once the header is there and right, 1 if it is not there yet, or an error. */
static int try_attach(struct kolo_job *job) {
    int rc = 0;
    if (job->fd < 0)
        rc = try_attach_named(job);
    if (rc == 0 && job->fd >= 0 && !job->header)
        rc = try_map(job);
    if (rc < 0 || !job->header)
        return rc < 0 ? rc : 1;
    rc = check_header(job);
    if (rc == 0 && job->bytes < kolo_layout_job_bytes(job->ranks))
        rc = kolo_fail(KOLO_ERR_VERSION,
                       "rank %u: the job file is cut short: something else has written to it; start the job again",
                       job->global_rank);
    if (rc == KOLO_ERR_VERSION) /* not a file to write into */
        unmap_file(job);
    if (rc == 0 && job->path[0] && fail_again(job) < 0) {
        unmap_file(job);
        close(job->fd); /* rank 0 is about to remove this name, and may make the next one */
        job->fd = -1;
        return 1;
    }
    return rc;
}

/* Attaches to the file that rank 0 makes. */
static int attach(struct kolo_job *job) {
    int rc = job->path[0] ? 0 : duplicate(job);
    if (rc < 0)
        return rc;
    /* The loop is bounded by kolo_job_wait's deadline. */
    while ((rc = try_attach(job)) > 0) {
        /* The wait must not look into the header before it is known to be right. */
        struct kolo_job_header *header = job->header;
        job->header = NULL;
        rc = kolo_job_wait(job);
        job->header = header;
        if (rc < 0)
            break;
    }
    return rc;
}

static int register_rank(struct kolo_job *job) {
    struct kolo_job_member *self = &job->members[job->rank];
    const uint64_t before = kolo_load_acquire(&self->epoch), epoch = before + 1;
    bool taken = before > kolo_job_completed(job); /* by a creation that is not over */
    if (!taken) {
        kolo_liveness_introduce(&self->process, job->own_namespace,
                                job->guarded && kolo_guard_take(job->fd, kolo_guard_place(epoch, job->rank)));
        KOLO_POINT("job.registering");
        taken = !kolo_compare_and_swap(&self->epoch, before, epoch); /* pairs with process_of */
        KOLO_POINT("job.registered");
    }
    if (taken) {
        const int rc = fail_again(job);
        return rc < 0 ? rc
                      : kolo_fail(KOLO_ERR_MISMATCH,
                                  "rank %u is taken already, by process %u: every rank of a job needs a number of its "
                                  "own",
                                  job->global_rank, self->process.pid);
    }
    job->epoch = epoch;
    return 0;
}

int kolo_job_open(struct kolo_job *job, const struct kolo_settings *settings) {
    *job = (struct kolo_job){.settings = settings,
                             .remote = job->remote,
                             .rejoin = job->rejoin,
                             .fd = -1,
                             .rank = (uint32_t)settings->place.rank,
                             .culprit = (uint32_t)settings->place.rank,
                             .ranks = (uint32_t)settings->place.size};
    job->global_rank = kolo_job_rank(job, job->rank);
    job->bytes = kolo_layout_job_bytes(job->ranks);
    job->own_namespace = kolo_process_own_namespace();
    job->awake = job->remote ? job->remote->awake : &job->own_awake;
    job->deadline_ns = job->remote
                           ? job->remote->deadline_ns
                           : kolo_awake_begin(job->awake, settings->create_timeout_ns) + settings->create_timeout_ns;
    if (settings->shm_fd < 0)
        snprintf(job->path, sizeof job->path, KOLO_JOB_PATH "%s", (unsigned)geteuid(), settings->place.job);
    int rc = job->path[0] ? check_directory(job) : 0;
    if (rc == 0)
        rc = job->rank != 0 ? attach(job) : job->path[0] ? create_named(job) : fill_inherited(job);
    if (rc == 0)
        rc = register_rank(job);
    if (rc == 0 && job->remote && job->rank != 0)
        job->remote->calls->depart(job->remote);
    return rc < 0 ? kolo_job_fail(job, rc) : 0;
}

void kolo_job_unlink(struct kolo_job *job) {
    job->linked = job->linked && kolo_job_name_remove_of(job->path, job->fd) < 0;
    KOLO_POINT("job.unlinked");
}

void kolo_job_close(struct kolo_job *job) {
    kolo_job_unlink(job);
    if (job->header)
        unmap_file(job);
    KOLO_POINT("job.unmapped");
    if (job->fd >= 0 && !job->is_borrowed)
        close(job->fd);
    job->fd = -1;
}
