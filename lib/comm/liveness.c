#include "comm/liveness.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "shm/guard.h"
#include "shm/layout.h"
#include "sync/point.h"

enum {
    NOT_OPENED = -1, /* poll ignores negative descriptors */
    NO_PIDFD = -2,
    POLL_BATCH = 64 /* poll refuses more than RLIMIT_NOFILE at once */
};

/* By what one process can tell whether another lives. */
enum reach {
    REACH_NONE,  /* by nothing: it counts as alive */
    REACH_PID,   /* both are in one pid namespace */
    REACH_GUARD, /* by its lock, see shm/guard.h */
};

/* Where neither namespace is known both are taken for the same, unless there is a lock to go by: only an old kernel
 * without /proc leaves one so. */
static enum reach reach_of(const struct kolo_shared_process *process, uint64_t own_namespace) {
    const bool is_equal = process->pid_namespace == own_namespace;
    if (is_equal && own_namespace != 0)
        return REACH_PID;
    if (process->guarded)
        return REACH_GUARD;
    return is_equal ? REACH_PID : REACH_NONE;
}

void kolo_liveness_introduce(struct kolo_shared_process *self, uint64_t own_namespace, bool guarded) {
    *self = (struct kolo_shared_process){.pid = (uint32_t)getpid(),
                                         .guarded = guarded,
                                         .start = kolo_process_own_start(),
                                         .pid_namespace = own_namespace};
}

bool kolo_liveness_is_alive(const struct kolo_shared_process *process, uint64_t own_namespace, int guard_fd,
                            uint64_t guard_place) {
    switch (reach_of(process, own_namespace)) {
    case REACH_PID:
        return kolo_process_alive(process->pid, process->start);
    case REACH_GUARD:
        return kolo_guard_held(guard_fd, guard_place);
    default:
        return true;
    }
}

int kolo_liveness_create(struct kolo_liveness *liveness, uint32_t ranks) {
    struct rlimit limit;
    liveness->ranks = ranks;
    liveness->guard_fd = -1;
    liveness->pidfds = getrlimit(RLIMIT_NOFILE, &limit) < 0 || ranks <= limit.rlim_cur / 2;
    liveness->own_namespace = kolo_process_own_namespace();
    liveness->peers = malloc(ranks * sizeof *liveness->peers);
    liveness->ended = calloc(ranks, sizeof *liveness->ended);
    liveness->endings = calloc(ranks, sizeof *liveness->endings);
    if (!liveness->peers || !liveness->ended || !liveness->endings)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    for (uint32_t rank = 0; rank < ranks; rank++)
        liveness->peers[rank] = (struct pollfd){.fd = NOT_OPENED, .events = POLLIN};
    return 0;
}

void kolo_liveness_destroy(struct kolo_liveness *liveness) {
    for (uint32_t rank = 0; liveness->peers && rank < liveness->ranks; rank++)
        if (liveness->peers[rank].fd >= 0)
            close(liveness->peers[rank].fd);
    free(liveness->peers);
    free(liveness->ended);
    free(liveness->endings);
}

static void drop_pidfd(struct pollfd *peer) {
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = NO_PIDFD;
}

/* wait_status: as waitpid tells it; -1: not known. */
static void note_end(struct kolo_liveness *liveness, uint32_t rank, int wait_status) {
    struct kolo_ending *ending = &liveness->endings[rank];
    liveness->ended[rank] = true;
    *ending = (struct kolo_ending){.cause = KOLO_CAUSE_ENDED};
    if (wait_status >= 0 && WIFSIGNALED(wait_status))
        *ending = (struct kolo_ending){KOLO_CAUSE_KILLED, WTERMSIG(wait_status)};
    else if (wait_status >= 0 && WIFEXITED(wait_status))
        *ending = (struct kolo_ending){KOLO_CAUSE_EXITED, WEXITSTATUS(wait_status)};
    drop_pidfd(&liveness->peers[rank]);
}

/* Opens a pidfd for a peer. The start time is checked after that: from then on the descriptor stands for that process
 * and no other. */
static void watch(struct kolo_liveness *liveness, uint32_t rank, const struct kolo_shared_process *process) {
    struct pollfd *peer = &liveness->peers[rank];
    struct kolo_process found;
    KOLO_POINT("liveness.opening");
    errno = EMFILE;
    peer->fd = liveness->pidfds ? (int)syscall(SYS_pidfd_open, process->pid, 0) : -1;
    const int error = errno;
    KOLO_POINT("liveness.opened");
    if (peer->fd >= 0) { /* poll says when it ends, unless it is another process */
        if (kolo_process_read(process->pid, &found) == 0 && process->start != 0 && found.start != process->start)
            note_end(liveness, rank, -1);
    } else if (error == ESRCH) {
        note_end(liveness, rank, -1);
    } else {
        peer->fd = NO_PIDFD;
    }
}

static void poll_batch(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t first) {
    uint32_t left = liveness->ranks - first, count = left < POLL_BATCH ? left : POLL_BATCH;
    if (poll(&liveness->peers[first], count, 0) <= 0)
        return;
    for (uint32_t rank = first; rank < first + count; rank++) {
        const struct pollfd *peer = &liveness->peers[rank];
        const struct kolo_shared_process *process = &members[rank].process;
        if (peer->fd >= 0 && peer->revents)
            note_end(liveness, rank, kolo_process_wait_status(peer->fd, process->pid, process->start));
    }
}

static void look_at(struct kolo_liveness *liveness, uint32_t rank, const struct kolo_shared_process *process) {
    switch (reach_of(process, liveness->own_namespace)) {
    case REACH_PID:
        if (liveness->peers[rank].fd == NOT_OPENED)
            watch(liveness, rank, process);
        if (liveness->peers[rank].fd == NO_PIDFD && !liveness->ended[rank] &&
            !kolo_process_alive(process->pid, process->start))
            note_end(liveness, rank, kolo_process_wait_status(-1, process->pid, process->start));
        break;
    case REACH_GUARD:
        if (liveness->guard_fd >= 0 && !kolo_guard_held(liveness->guard_fd, liveness->guard_place + rank))
            note_end(liveness, rank, -1);
        break;
    case REACH_NONE:
        break;
    }
}

void kolo_liveness_look(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self) {
    for (uint32_t rank = 0; rank < liveness->ranks; rank++)
        if (!liveness->ended[rank] && !kolo_liveness_is_same(&members[rank].process, &members[self].process))
            look_at(liveness, rank, &members[rank].process);
    KOLO_POINT("liveness.polling");
    for (uint32_t first = 0; first < liveness->ranks; first += POLL_BATCH)
        poll_batch(liveness, members, first);
}

char kolo_liveness_activity(const struct kolo_liveness *liveness, const struct kolo_shared_member *members,
                            uint32_t self, uint32_t rank) {
    const struct kolo_shared_process *process = &members[rank].process;
    const bool visible =
        process->pid_namespace == liveness->own_namespace && !kolo_liveness_is_same(process, &members[self].process);
    return visible ? kolo_process_activity(process->pid) : 0;
}
