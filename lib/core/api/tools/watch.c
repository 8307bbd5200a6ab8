/* kolo_watch.h: reads segments that other processes write.
 *
 * Segments are read with pread, not mapped:
 *   - A file that is cut short gives a short read, where a mapping would give SIGBUS.
 *   - The hole that the last rank leaves in its place reads as zeros and stays a hole.
 *   - This process has nothing through which it could write.
 * All checks are made on the copies. A word is copied whole: it is aligned, and the kernel copies at least a word at a
 * time.
 *
 * Signals are read twice, before and after the histories. The later copy tells the reader of a history which of its
 * calls were still among the last ones when they had been copied. The fences keep the three reads in order. */
#include "api/tools/watch.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "api/other_parts.h"
#include "base/file.h"
#include "base/sized.h"
#include "comm/failure/failure.h"
#include "comm/step/history.h"

static_assert(KOLO_WATCH_CALLS == KOLO_HISTORY, "kolo_watch.h says how many calls there are");
static_assert(sizeof((kolo_watched_comm *)0)->job == KOLO_JOB_NAME_BYTES, "a job's name fits");

/* The last reading of one communicator: copies, with the same structs as the segment. The arrays lie behind it. */
struct kolo_reading {
    KOLO_ALIGNED struct kolo_shared_member *members;
    struct kolo_shared_signal *signals, *later_signals;
    struct kolo_shared_history *histories;
    char *processes; /* states, as kolo_watched_rank.process */
    int64_t read_ns;
    bool over;
};

/* NULL: out of memory. */
static struct kolo_reading *make_reading(uint32_t ranks) {
    struct kolo_reading *reading;
    const size_t lines = ranks / KOLO_LINE_BYTES + 1; /* of processes */
    const size_t a_rank = sizeof *reading->members + 2 * sizeof *reading->signals + sizeof *reading->histories;
    const size_t bytes = sizeof *reading + ranks * a_rank + lines * KOLO_LINE_BYTES;
    reading = aligned_alloc(KOLO_LINE_BYTES, bytes);
    if (!reading)
        return NULL;
    memset(reading, 0, bytes);
    reading->members = (void *)(reading + 1);
    reading->signals = (void *)(reading->members + ranks);
    reading->later_signals = reading->signals + ranks;
    reading->histories = (void *)(reading->later_signals + ranks);
    reading->processes = (void *)(reading->histories + ranks);
    return reading;
}

int kolo_watch_open(kolo_watch **watch, const char *target) {
    if (!watch)
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_open: watch is NULL");
    if (target && !*target)
        return kolo_fail(KOLO_ERR_ARG, "'' is neither a process nor the name of a job");
    if (target && strlen(target) >= KOLO_JOB_NAME_BYTES)
        return kolo_fail(KOLO_ERR_ARG, "'%.64s...' is neither a process nor the name of a job: it is too long", target);
    kolo_watch *made = calloc(1, sizeof *made);
    if (!made)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    strcpy(made->target, target ? target : "");
#if KOLO_HAVE_TABLE
    made->observer.find = kolo_observed_table_find;
#endif
    *watch = made;
    return 0;
}

int kolo_watch_search(kolo_watch *watch, int *tables) {
    if (!watch)
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_search: watch is NULL");
    struct kolo_observer *observer = &watch->observer;
    for (size_t i = observer->count; i-- > 0;)
        if (observer->list[i].reading->over)
            kolo_observer_drop(observer, i);
    int rc = kolo_observer_search(observer, watch->target);
    for (size_t i = observer->count; i-- > 0 && !observer->list[i].reading;) {
        observer->list[i].reading = make_reading(observer->list[i].ranks);
        if (observer->list[i].reading)
            continue;
        rc = kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", observer->list[i].ranks);
        kolo_observer_drop(observer, i);
    }
    if (tables)
        *tables = (int)observer->files_count;
    return rc < 0 ? rc : (int)observer->count;
}

void kolo_watch_close(kolo_watch *watch) {
    if (!watch)
        return;
    kolo_observer_close(&watch->observer);
    free(watch);
}

/* Reads `bytes`; what lies beyond the end of the file is zero. */
static void read_or_zero(int fd, void *to, size_t bytes, uint64_t offset) {
    const ssize_t got = kolo_file_read_at(fd, to, bytes, offset);
    const size_t done = got > 0 ? (size_t)got : 0;
    memset((uint8_t *)to + done, 0, bytes - done);
}

static uint32_t member_pid(const struct kolo_shared_member *member) {
    return member->process.pid <= INT32_MAX ? member->process.pid : 0;
}

static double seconds_since_boot(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* True if a rank lives that has not left. *age_s is the age of the oldest process, -1 if none is left. */
static bool look_at_processes(struct kolo_reading *reading, uint32_t ranks, double *age_s) {
    const double now_s = seconds_since_boot(), ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    bool lives = false;
    *age_s = -1;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct kolo_shared_member *member = &reading->members[rank];
        const uint32_t pid = member_pid(member);
        struct kolo_process process;
        const bool found = pid && kolo_process_read(pid, &process) == 0 && !kolo_process_is_zombie(&process) &&
                           (member->process.start == 0 || member->process.start == process.start);
        reading->processes[rank] = found ? process.state : '\0';
        if (found && now_s - (double)process.start / ticks_per_s > *age_s)
            *age_s = now_s - (double)process.start / ticks_per_s;
        lives |= found && kolo_load_acquire(&member->state) != KOLO_MEMBER_DEPARTED;
    }
    return lives;
}

static bool is_index(const kolo_watch *watch, int index) {
    return watch && index >= 0 && (size_t)index < watch->observer.count;
}

int kolo_watch_read(kolo_watch *watch, int index, kolo_watched_comm *comm) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_watched_comm, comm_bytes, failure_reporter);
    if (!is_index(watch, index))
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_read: no such communicator");
    const int rc = kolo_sized_check(&sized, "kolo_watch_read", comm);
    if (rc < 0)
        return rc;
    const struct kolo_observed *seen = &watch->observer.list[index];
    struct kolo_reading *reading = seen->reading;
    struct kolo_shared_header header;
    const size_t signals_bytes = seen->ranks * sizeof *reading->signals;
    read_or_zero(seen->fd, reading->members, seen->ranks * sizeof *reading->members,
                 seen->offset + seen->layout.members);
    read_or_zero(seen->fd, reading->signals, signals_bytes, seen->offset + seen->layout.signals);
    kolo_fence_full();
    read_or_zero(seen->fd, reading->histories, seen->ranks * sizeof *reading->histories,
                 seen->offset + seen->layout.histories);
    kolo_fence_full();
    read_or_zero(seen->fd, reading->later_signals, signals_bytes, seen->offset + seen->layout.signals);
    reading->read_ns = kolo_clock_ns();
    read_or_zero(seen->fd, &header, sizeof header, seen->offset);
    kolo_watched_comm now;
    memset(&now, 0, sizeof now);
    now.ranks = (int)seen->ranks;
    now.file = seen->inode;
    now.offset = seen->offset;
    now.segment_bytes = seen->layout.allocated;
    now.read_ns = reading->read_ns;
    memcpy(now.job, seen->job, sizeof now.job);
    const bool lives = look_at_processes(reading, seen->ranks, &now.age_s);
    reading->over = !lives || kolo_load_acquire(&header.magic) != KOLO_SEGMENT_MAGIC;
    now.over = reading->over;
    const uint64_t failure = kolo_load_acquire(&header.failure);
    if (failure) {
        struct kolo_failure_report report;
        kolo_failure_unpack(failure, &report);
        now.failure = report.status;
        now.failure_rank = (int)report.rank;
        now.failure_reporter = (int)report.reporter;
    }
    kolo_sized_fill(&sized, comm, &now);
    return 0;
}

static bool is_rank(const kolo_watch *watch, int index, int rank) {
    return is_index(watch, index) && rank >= 0 && (uint32_t)rank < watch->observer.list[index].ranks;
}

int kolo_watch_rank(const kolo_watch *watch, int index, int rank, kolo_watched_rank *seen) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_watched_rank, rank_bytes, waits_since_ns);
    if (!is_rank(watch, index, rank))
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_rank: no such communicator or rank");
    const struct kolo_reading *reading = watch->observer.list[index].reading;
    const struct kolo_shared_member *member = &reading->members[rank];
    const struct kolo_shared_signal *signal = &reading->signals[rank];
    kolo_watched_rank now;
    memset(&now, 0, sizeof now);
    now.pid = (int)member_pid(member);
    now.process = reading->processes[rank];
    now.left = kolo_load_acquire(&member->state) == KOLO_MEMBER_DEPARTED;
    now.calls = kolo_load_acquire(&signal->calls);
    now.calls_ended = kolo_load_acquire(&signal->ended);
    now.steps = kolo_load_acquire(&signal->progress);
    now.payload_bytes = kolo_load_acquire(&signal->payload_bytes);
    now.sent_bytes = kolo_load_acquire(&signal->sent_bytes);
    now.received_bytes = kolo_load_acquire(&signal->received_bytes);
    now.waited_ns = kolo_load_acquire(&reading->histories[rank].waited_ns);
    now.spun_ns = kolo_load_acquire(&reading->histories[rank].spun_ns);
    for (int i = 0; i < KOLO_COLLECTIVES; i++) {
        now.calls_by_collective[i] = kolo_load_acquire(&reading->histories[rank].totals[i].calls);
        now.payload_by_collective[i] = kolo_load_acquire(&reading->histories[rank].totals[i].payload_bytes);
    }
    now.waits_for = -1;
    if (now.calls_ended > now.calls)
        now.calls_ended = now.calls; /* it went on while it was copied */
    uint32_t peer;
    int64_t since_ns;
    if (kolo_history_waits(kolo_load_acquire(&signal->waiting), &peer, &since_ns) &&
        peer < watch->observer.list[index].ranks) {
        now.waits_for = (int)peer;
        now.waits_since_ns = since_ns < reading->read_ns ? since_ns : reading->read_ns;
    }
    return kolo_sized_give(&sized, "kolo_watch_rank", seen, &now);
}

int kolo_watch_call(const kolo_watch *watch, int index, int rank, uint64_t number, kolo_watched_call *call) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_watched_call, call_bytes, waited_ns);
    if (!is_rank(watch, index, rank))
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_call: no such communicator or rank");
    const struct kolo_reading *reading = watch->observer.list[index].reading;
    struct kolo_past_call past;
    if (!kolo_history_read(&reading->later_signals[rank], &reading->histories[rank], number, &past))
        return kolo_fail(KOLO_ERR_ARG, "call %llu of rank %d is not among its last %d", (unsigned long long)number,
                         rank, KOLO_HISTORY);
    const kolo_collective collective = kolo_call_key_collective(past.key);
    const bool is_known = collective < KOLO_COLLECTIVES;
    const bool known_peer = past.waited_for >= 0 && (uint32_t)past.waited_for < watch->observer.list[index].ranks;
    kolo_watched_call seen;
    memset(&seen, 0, sizeof seen);
    seen.number = number;
    seen.collective = collective;
    if (is_known) {
        seen.dtype = (kolo_dtype)past.key.dtype;
        seen.op = kolo_call_key_op(past.key);
        seen.root = past.key.root;
        seen.count = past.key.count;
    }
    seen.began_ns = past.began_ns;
    seen.ended_ns = past.ended_ns;
    seen.waited_for = known_peer ? past.waited_for : -1;
    seen.waited_ns = known_peer ? past.waited_ns : 0;
    return kolo_sized_give(&sized, "kolo_watch_call", call, &seen);
}
