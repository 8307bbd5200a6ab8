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

kolo_reach kolo_liveness_reach(uint64_t own, uint64_t theirs, bool guarded) {
    if (own == theirs && own != 0)
        return KOLO_REACH_PID;
    if (guarded)
        return KOLO_REACH_GUARD;
    return own == theirs ? KOLO_REACH_PID : KOLO_REACH_NONE;
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
static void watch(struct kolo_liveness *liveness, uint32_t rank, const struct kolo_shared_member *member) {
    struct pollfd *peer = &liveness->peers[rank];
    struct kolo_process process;
    KOLO_POINT("liveness.opening");
    errno = EMFILE;
    peer->fd = liveness->pidfds ? (int)syscall(SYS_pidfd_open, member->pid, 0) : -1;
    const int error = errno;
    KOLO_POINT("liveness.opened");
    if (peer->fd >= 0) { /* poll says when it ends, unless it is another process */
        if (kolo_process_read(member->pid, &process) == 0 && member->start != 0 && process.start != member->start)
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
        if (peer->fd >= 0 && peer->revents)
            note_end(liveness, rank, kolo_process_wait_status(peer->fd, members[rank].pid, members[rank].start));
    }
}

/* True for this rank and for threads of its process, which cannot be seen to end. */
static bool is_self(const struct kolo_shared_member *member, const struct kolo_shared_member *self) {
    return member->pid == self->pid && member->start == self->start && member->pid_namespace == self->pid_namespace &&
           self->pid_namespace != 0;
}

static void look_at(struct kolo_liveness *liveness, uint32_t rank, const struct kolo_shared_member *member) {
    switch (kolo_liveness_reach(liveness->own_namespace, member->pid_namespace, member->guarded)) {
    case KOLO_REACH_PID:
        if (liveness->peers[rank].fd == NOT_OPENED)
            watch(liveness, rank, member);
        if (liveness->peers[rank].fd == NO_PIDFD && !liveness->ended[rank] &&
            !kolo_process_alive(member->pid, member->start))
            note_end(liveness, rank, kolo_process_wait_status(-1, member->pid, member->start));
        break;
    case KOLO_REACH_GUARD:
        if (liveness->guard_fd >= 0 && !kolo_guard_held(liveness->guard_fd, liveness->guard_place + rank))
            note_end(liveness, rank, -1);
        break;
    case KOLO_REACH_NONE:
        break;
    }
}

void kolo_liveness_look(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self) {
    for (uint32_t rank = 0; rank < liveness->ranks; rank++)
        if (!liveness->ended[rank] && !is_self(&members[rank], &members[self]))
            look_at(liveness, rank, &members[rank]);
    KOLO_POINT("liveness.polling");
    for (uint32_t first = 0; first < liveness->ranks; first += POLL_BATCH)
        poll_batch(liveness, members, first);
}

char kolo_liveness_activity(const struct kolo_liveness *liveness, const struct kolo_shared_member *members,
                            uint32_t self, uint32_t rank) {
    const struct kolo_shared_member *member = &members[rank];
    const bool visible = member->pid_namespace == liveness->own_namespace && !is_self(member, &members[self]);
    return visible ? kolo_process_activity(member->pid) : 0;
}
