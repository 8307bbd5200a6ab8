/* The waits in a creation, and its one word of outcome. */
#include "comm/creation/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "comm/failure/watchdog.h"
#include "shm/guard.h"
#include "sync/thread.h"

#define PAUSE_NS_FIRST 20000
#define PAUSE_NS_MAX   1000000
#define LOOK_NS        (30 * KOLO_NS_PER_MS)
#define STALE_NS       (45 * KOLO_NS_PER_MS)
#define SLEEP_NS_MAX   (500 * KOLO_NS_PER_MS)
#define NAME_NS_MIN    (100 * KOLO_NS_PER_MS) /* minimum life of a name if not all ranks come */

enum {
    SEEKERS = 16, /* that many ranks look for the header every PAUSE_NS_MAX */
    LOOKERS = 32, /* and that many wake up every LOOK_NS to see whether there is a watchdog */
    BATCH = 64    /* looks after which a watchdog renews its lease */
};

/* The outcome: the number of creations that are complete (38 bits) and, if there will be no more, the negated status
 * (6), the rank at fault (10) and the reporter (10). While rank 0 agrees with other nodes, the status is 0, and below
 * it stands AGREEING. */
enum { AGREEING = 1 };

static_assert(KOLO_RANKS_MAX <= 1 << 10, "a rank fits");

static uint64_t completed_of(uint64_t outcome) {
    return outcome >> 26;
}

static int status_of(uint64_t outcome) {
    return -(int)(outcome >> 20 & 0x3f);
}

static uint32_t culprit_of(uint64_t outcome) {
    return outcome >> 10 & 0x3ff;
}

static uint32_t reporter_of(uint64_t outcome) {
    return outcome & 0x3ff;
}

static void ring_all(const struct kolo_job *job) {
    kolo_bell_ring_slowly(&job->header->arrivals_bell);
    kolo_bell_ring_slowly(&job->header->bell);
}

/* Returns the word before the outcome of this creation or, for a rank that has not registered, of the one under way. */
static uint64_t word_before(const struct kolo_job *job) {
    return (job->epoch ? job->epoch - 1 : kolo_job_completed(job)) << 26;
}

/* Writes the outcome of this creation or, for a rank that has not registered, of the one under way; status 0: success.
 * While rank 0 agrees with other nodes only it can do so, or who finds it dead or late. Returns false if the creation
 * has an outcome already, or this rank can't write one. */
static bool conclude(struct kolo_job *job, int status, uint32_t culprit) {
    kolo_atomic_u64 *outcome = &job->header->outcome;
    const uint64_t before = word_before(job);
    const uint64_t failure = (uint64_t)-status << 20 | culprit << 10 | job->rank;
    const uint64_t after = status ? before | failure : before + (UINT64_C(1) << 26);
    if (!kolo_compare_and_swap(outcome, before, after) &&
        ((job->rank != 0 && culprit != 0) || !kolo_compare_and_swap(outcome, before | AGREEING, after)))
        return false;
    KOLO_POINT("job.concluded");
    ring_all(job);
    return true;
}

static bool is_agreeing(const struct kolo_job *job) {
    const uint64_t outcome = kolo_load_acquire(&job->header->outcome); /* pairs with kolo_job_agree */
    return job->epoch && outcome == (word_before(job) | AGREEING);
}

/* Returns whether this rank's creation has an outcome. */
static bool is_concluded(const struct kolo_job *job) {
    const uint64_t outcome = kolo_load_acquire(&job->header->outcome); /* pairs with conclude */
    return status_of(outcome) != 0 || completed_of(outcome) >= job->epoch;
}

static bool publish_failure(struct kolo_job *job, int status, uint32_t culprit) {
    if (job->remote && job->rank == 0 && culprit == 0)
        snprintf(job->header->reason, sizeof job->header->reason, "%s", kolo_error_message());
    KOLO_POINT("job.failing");
    const bool is_first = conclude(job, status, culprit);
    KOLO_POINT("job.failed");
    return is_first;
}

uint64_t kolo_job_completed(const struct kolo_job *job) {
    return completed_of(kolo_load_acquire(&job->header->outcome)); /* pairs with conclude */
}

bool kolo_job_is_complete(const struct kolo_job *job) {
    return job->epoch && kolo_job_completed(job) >= job->epoch;
}

/* Deadline, failures, peers that die. */

static bool is_behind(const struct kolo_job *job, uint32_t rank, bool ready) {
    const struct kolo_job_member *member = &job->members[rank];
    return kolo_load_acquire(ready ? &member->attached : &member->epoch) < job->epoch;
}

/* Lists the ranks that have not begun this creation or, `ready`, that have not attached in it. */
static void list_behind(const struct kolo_job *job, bool ready, char *text, size_t text_bytes) {
    uint64_t behind[KOLO_RANK_WORDS] = {0};
    for (uint32_t rank = 0; rank < job->ranks; rank++)
        if (is_behind(job, rank, ready))
            kolo_ranks_add(behind, kolo_job_rank(job, rank));
    kolo_ranks_list(behind, text, text_bytes);
}

/* Returns the first rank that is waited for. Without any other it is rank 0. */
static uint32_t first_late(const struct kolo_job *job) {
    for (int ready = 0; ready < 2; ready++) {
        if (ready && kolo_load_acquire(&job->header->offer) < job->epoch)
            break;
        for (uint32_t rank = 0; rank < job->ranks; rank++)
            if (is_behind(job, rank, ready))
                return rank;
    }
    return 0;
}

/* Fails with the missing ranks: the deadline of `reporter`, which waited for `culprit` among others, has passed. */
static int fail_late(const struct kolo_job *job, uint32_t reporter, uint32_t culprit) {
    const bool is_own = reporter == job->rank;
    char late[512] = "", time[64];
    if (is_own)
        snprintf(time, sizeof time, "within %" PRId64 " ms", job->settings->create_timeout_ns / KOLO_NS_PER_MS);
    else
        snprintf(time, sizeof time, "before the time of rank %u was over", kolo_job_rank(job, reporter));
    if (job->header)
        list_behind(job, false, late, sizeof late);
    else
        snprintf(late, sizeof late, "%u", kolo_job_rank(job, 0));
    if (late[0])
        return kolo_fail(KOLO_ERR_TIMEOUT,
                         "rank %u: rank %s never came %s%s%s: were all %u ranks started with the same job name and "
                         "size? (KOLO_CREATE_TIMEOUT_MS sets the time)",
                         job->global_rank, late, time, job->path[0] ? "; waited at " : "", job->path, job->ranks);
    if (is_own && culprit != 0)
        list_behind(job, true, late, sizeof late);
    if (late[0] == '\0')
        snprintf(late, sizeof late, "%u", kolo_job_rank(job, culprit));
    return kolo_fail(KOLO_ERR_TIMEOUT,
                     "rank %u: rank %s came, but was not ready %s: is it stopped, or does it get no processor? "
                     "(KOLO_CREATE_TIMEOUT_MS sets the time)",
                     job->global_rank, late, time);
}

int kolo_job_fail_dead(const struct kolo_job *job, uint32_t rank, const struct kolo_shared_process *process) {
    return kolo_fail(
        KOLO_ERR_PEER_DEAD,
        "rank %u: rank %u (pid %u) died while the communicator was being created: its own output may say why",
        job->global_rank, kolo_job_rank(job, rank), process->pid);
}

/* Looks whether kolorun says that `rank` has ended; rank -1: that any rank has. */
static int look_at_ends(const struct kolo_job *job, int64_t rank, uint32_t *culprit) {
    char why[160];
    /* With several machines ranks find ends as look_elsewhere does. */
    if (job->path[0] || job->remote || !kolo_launcher_ended(&job->settings->place, job->fd, &rank, why, sizeof why))
        return 0;
    *culprit = (uint32_t)rank;
    return kolo_fail(KOLO_ERR_PEER_DEAD, "rank %u: %s", job->global_rank, why);
}

/* Returns the process of a rank that has registered; NULL: not known. In the first creation the header names rank 0's
 * process before rank 0 registers. */
static const struct kolo_shared_process *process_of(const struct kolo_job *job, uint32_t rank) {
    const struct kolo_job_member *member = &job->members[rank];
    if (kolo_load_acquire(&member->epoch) >= job->epoch) /* pairs with register_rank */
        return &member->process;
    return rank == 0 && job->epoch == 1 ? &job->header->creator : NULL;
}

/* Fails with the reason that the node's leader has written, about itself or other nodes. */
static int fail_as_told(const struct kolo_job *job, int status) {
    char reason[sizeof job->header->reason];
    memcpy(reason, job->header->reason, sizeof reason);
    return kolo_fail(status, "rank %u: %.*s", job->global_rank, (int)sizeof reason - 1, reason);
}

/* Ranks of other versions write their rank plus one (16 bits), version (24) and layout (24), now and in later ones. */

int kolo_job_announce_version(const struct kolo_job *job) {
    const uint32_t version = job->header->version, layout = job->header->layout;
    const uint64_t self = (uint64_t)KOLO_LAYOUT << 40 | (uint64_t)KOLO_VERSION_WORD << 16 | (job->rank + 1);
    KOLO_POINT("job.estranging");
    kolo_compare_and_swap(&job->header->other_version, 0, self); /* pairs with version_failure */
    KOLO_POINT("job.estranged");
    return kolo_fail(KOLO_ERR_VERSION,
                     "rank %u has kolo %s (layout %u), rank 0 has " KOLO_VERSION_FORMAT
                     " (layout %u): use one version on all ranks",
                     job->global_rank, kolo_version(), KOLO_LAYOUT, KOLO_VERSION_PARTS(version), layout);
}

/* Returns the failure if a rank of another version has come; 0: none has. */
static int version_failure(const struct kolo_job *job) {
    const uint64_t word = kolo_load_acquire(&job->header->other_version); /* pairs with kolo_job_announce_version */
    const uint32_t version = word >> 16 & 0xffffff, rank = (uint32_t)(word & 0xffff);
    if (rank == 0)
        return 0;
    return kolo_fail(KOLO_ERR_VERSION,
                     "rank %u: rank %u has kolo " KOLO_VERSION_FORMAT
                     " (layout %u), rank 0 has %s (layout %u): use one version on all ranks",
                     job->global_rank, kolo_job_rank(job, (rank - 1) % job->ranks), KOLO_VERSION_PARTS(version),
                     (uint32_t)(word >> 40), kolo_version(), KOLO_LAYOUT);
}

int kolo_job_failure(const struct kolo_job *job) {
    const uint64_t outcome = kolo_load_acquire(&job->header->outcome); /* pairs with conclude */
    const int status = status_of(outcome);
    uint32_t culprit = culprit_of(outcome) % job->ranks;
    if (status == 0 || (job->epoch && completed_of(outcome) >= job->epoch))
        return 0;
    if (job->remote && reporter_of(outcome) == 0 && culprit == 0 && job->rank != 0)
        return fail_as_told(job, status);
    if (status == KOLO_ERR_TIMEOUT)
        return fail_late(job, reporter_of(outcome), culprit);
    if (status == KOLO_ERR_VERSION && version_failure(job) < 0)
        return status;
    if (status == KOLO_ERR_PEER_DEAD) {
        const struct kolo_shared_process *process = process_of(job, culprit);
        if ((!process || process->pid == 0) && look_at_ends(job, culprit, &culprit) < 0)
            return status;
        return kolo_job_fail_dead(job, culprit, process ? process : &job->members[culprit].process);
    }
    return kolo_fail(status, "rank %u: creation failed on rank %u: %s; see that rank's message", job->global_rank,
                     kolo_job_rank(job, reporter_of(outcome)), kolo_strerror(status));
}

/* Returns why rank 0 could not write what it wanted. */
static int fail_as_published(const struct kolo_job *job) {
    const int rc = kolo_job_failure(job);
    return rc < 0 ? rc
                  : kolo_fail(KOLO_ERR_VERSION,
                              "rank 0: the job file is damaged: something else has written to it; start the job again");
}

int kolo_job_agree(struct kolo_job *job) {
    const uint64_t before = word_before(job);
    return kolo_compare_and_swap(&job->header->outcome, before, before | AGREEING) ? 0 : fail_as_published(job);
}

int kolo_job_complete(struct kolo_job *job) {
    return conclude(job, 0, 0) ? 0 : fail_as_published(job);
}

/* Checks, on rank 0, that the file still has its name, by which ranks that have not come will look for it. */
static int check_name(const struct kolo_job *job) {
    struct stat found;
    if (!job->linked || fstat(job->fd, &found) < 0 || found.st_nlink > 0)
        return 0;
    return kolo_fail(KOLO_ERR_SYSTEM,
                     "rank 0: %s was removed while ranks were still to come; systemd does so when its user logs out: "
                     "set RemoveIPC=no in logind.conf, or start the ranks with kolorun, which does without a name",
                     job->path);
}

/* Looks for a registered rank that has ended: *culprit. */
static int look_at_members(struct kolo_job *job, uint32_t *culprit) {
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        const struct kolo_shared_process *process = rank == job->rank ? NULL : process_of(job, rank);
        if (rank % BATCH == BATCH - 1 && !job->is_blind &&
            !kolo_watchdog_keep(&job->header->watchdog, job->rank, kolo_clock_ns()))
            return 0;
        if (!process)
            continue;
        job->is_blind |= !kolo_liveness_can_see(process, job->own_namespace);
        if (kolo_liveness_is_alive(process, job->own_namespace, job->fd, kolo_guard_place(job->epoch, rank)))
            continue;
        *culprit = rank;
        return kolo_job_fail_dead(job, rank, process);
    }
    return 0;
}

/* Looks at the members, if this rank is the watchdog. */
static int look_as_watchdog(struct kolo_job *job, uint32_t *culprit) {
    /* The watchdog may have overslept if this rank has. */
    const struct kolo_watchdog_times times = {.renewed_ns = LOOK_NS, .stale_ns = STALE_NS + 2 * job->overslept_ns};
    job->is_watchdog = job->is_blind || kolo_watchdog_take(&job->header->watchdog, job->rank, kolo_clock_ns(), &times);
    if (!job->is_watchdog)
        return 0;
    const int rc = look_at_members(job, culprit);
    return rc < 0 ? rc : look_at_ends(job, -1, culprit);
}

/* Looks whether the creation has failed on other nodes. */
static int look_elsewhere(struct kolo_job *job, uint32_t *culprit) {
    bool is_asked;
    const int rc = job->remote->calls->check(job->remote, &is_asked);
    if (!is_asked)
        return rc;
    *culprit = first_late(job);
    return fail_late(job, job->rank, *culprit);
}

/* Asks the caller of the creation (job->rejoin) whether to go on. */
static int look_as_asked(const struct kolo_job *job, uint32_t *culprit) {
    const int rc = job->rejoin->look(job->rejoin);
    if (job->rejoin->culprit < job->ranks)
        *culprit = job->rejoin->culprit;
    return rc;
}

/* Looks at what the others can tell: other nodes, the caller of the creation, the name. */
static int look_around(struct kolo_job *job, uint32_t *culprit) {
    int rc = job->remote ? look_elsewhere(job, culprit) : 0;
    if (rc == 0 && job->rejoin)
        rc = look_as_asked(job, culprit);
    return rc == 0 && job->header ? check_name(job) : rc;
}

/* Pauses while there is no bell to sleep at. */
static void pause_briefly(struct kolo_job *job) {
    const int64_t longest_ns = PAUSE_NS_MAX * (1 + (job->ranks - 1) / SEEKERS);
    const int64_t next_ns = job->pause_ns == 0 ? PAUSE_NS_FIRST : job->pause_ns * 2;
    job->pause_ns = next_ns < longest_ns ? next_ns : longest_ns;
    KOLO_POINT("job.pausing");
    kolo_clock_sleep(job->pause_ns);
}

/* Returns how long to sleep at a bell. */
static int64_t slice_ns(const struct kolo_job *job, int64_t now_ns) {
    const bool is_asked = job->is_watchdog || job->remote || job->rejoin || job->linked;
    const int64_t all_ns = LOOK_NS * (1 + (job->ranks - 1) / LOOKERS);
    const int64_t seldom_ns = all_ns < SLEEP_NS_MAX ? all_ns : SLEEP_NS_MAX;
    const int64_t left_ns = kolo_awake_slice(job->awake, job->deadline_ns - now_ns);
    /* The first sleep differs by rank, so that ranks that begin together do not wake up together. */
    const int64_t ns = is_asked         ? LOOK_NS
                       : job->has_slept ? seldom_ns
                                        : LOOK_NS + (seldom_ns - LOOK_NS) * job->rank / job->ranks;
    return ns < left_ns ? ns : left_ns;
}

static void sleep_at_bell(struct kolo_job *job, int64_t ns) {
    kolo_bell *bell = job->rank == 0 ? &job->header->arrivals_bell : &job->header->bell;
    const int64_t until_ns = kolo_clock_ns() + ns;
    KOLO_POINT("job.sleeping");
    kolo_futex_sleep(&bell->rings, job->rings, ns);
    KOLO_POINT("job.woken");
    const uint32_t rings = kolo_bell_rings(bell);
    const int64_t overslept_ns = rings == job->rings ? kolo_clock_ns() - until_ns : 0;
    job->overslept_ns = overslept_ns > 0 ? overslept_ns : 0;
    job->has_slept = true;
    if (rings == job->rings && is_concluded(job))
        ring_all(job); /* the rank that concluded it died before it could ring */
    job->rings = rings;
}

int kolo_job_wait(struct kolo_job *job) {
    const int64_t now_ns = kolo_awake_ns(job->awake);
    uint32_t culprit = job->rank;
    int rc = job->header ? kolo_job_failure(job) : 0;
    if (rc < 0)
        return rc;
    /* While rank 0 agrees with other nodes, its end or lateness alone ends the creation: nothing else may hide these.
     */
    const bool is_bound = job->header && job->rank != 0 && is_agreeing(job);
    if (job->header && !is_bound)
        rc = version_failure(job);
    if (rc == 0 && now_ns >= job->look_ns) {
        job->look_ns = now_ns + LOOK_NS;
        rc = is_bound ? 0 : look_around(job, &culprit);
        if (rc == 0)
            rc = job->header ? look_as_watchdog(job, &culprit) : look_at_ends(job, -1, &culprit);
    }
    if ((rc == 0 || is_bound) && now_ns >= job->deadline_ns) {
        culprit = job->header ? first_late(job) : 0;
        rc = fail_late(job, job->rank, culprit);
    }
    if (rc < 0) { /* another rank may have been first to give up */
        job->culprit = culprit;
        const int published = job->header && !publish_failure(job, rc, culprit) ? kolo_job_failure(job) : 0;
        if (published < 0 || !job->header || !is_agreeing(job))
            return published < 0 ? published : rc;
    }
    if (job->header)
        sleep_at_bell(job, rc < 0 ? LOOK_NS : slice_ns(job, now_ns));
    else
        pause_briefly(job);
    return 0;
}

void kolo_job_arrive(struct kolo_job *job) {
    const uint64_t arrivals = kolo_fetch_add(&job->header->arrivals, 1) + 1;
    KOLO_POINT("job.arrived");
    if (arrivals == job->epoch * (job->ranks - 1))
        kolo_bell_ring_slowly(&job->header->arrivals_bell);
}

/* Keeps the name, on rank 0, until all ranks have found it, or have had the time to. */
static void await_seekers(const struct kolo_job *job) {
    uint32_t rank = 0;
    while (rank < job->ranks && kolo_clock_ns() < job->linked_ns + NAME_NS_MIN) {
        while (rank < job->ranks && !is_behind(job, rank, false))
            rank++;
        KOLO_POINT("job.lingering");
        if (rank < job->ranks)
            kolo_clock_sleep(PAUSE_NS_MAX);
    }
}

uint32_t kolo_job_culprit(const struct kolo_job *job) {
    const uint64_t outcome = job->header ? kolo_load_acquire(&job->header->outcome) : 0; /* pairs with conclude */
    return status_of(outcome) ? culprit_of(outcome) % job->ranks : job->culprit;
}

int kolo_job_fail(struct kolo_job *job, int status) {
    if (job->header)
        publish_failure(job, status, job->culprit);
    if (job->linked)
        await_seekers(job);
    return status;
}
