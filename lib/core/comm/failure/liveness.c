/* The liveness of peers, by pidfds and by guards' locks. */
#include "comm/failure/liveness.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "shm/guard.h"
#include "sync/thread.h"

/* The time after which a rank is looked at closely: since the last such look, and since it last showed itself. */
#define CLOSELY_NS (40 * KOLO_NS_PER_MS)

/* The longest time from the release of a dying process's guard until the system tells how it has died. */
#define DYING_NS_MAX (40 * KOLO_NS_PER_MS)

/* The means by which one process can tell whether another lives. */
enum reach {
    REACH_NONE,  /* none: the other counts as alive */
    REACH_PID,   /* the pid: both are in one pid namespace */
    REACH_GUARD, /* the other's lock, see shm/guard.h */
};

/* Two unknown namespaces count as the same, unless there is a lock. Both are unknown only on old kernels without
 * /proc. */
static enum reach reach_of(const struct kolo_shared_process *process, uint64_t own_namespace, bool has_lock) {
    if (kolo_liveness_knows_pid(process, own_namespace))
        return REACH_PID;
    if (has_lock)
        return REACH_GUARD;
    return process->pid_namespace == own_namespace ? REACH_PID : REACH_NONE;
}

void kolo_liveness_introduce(struct kolo_shared_process *self, uint64_t own_namespace, bool guarded) {
    *self = (struct kolo_shared_process){.pid = (uint32_t)getpid(),
                                         .guarded = guarded,
                                         .start = kolo_process_own_start(),
                                         .pid_namespace = own_namespace};
}

bool kolo_liveness_is_alive(const struct kolo_shared_process *process, uint64_t own_namespace, int guard_fd,
                            uint64_t guard_place) {
    switch (reach_of(process, own_namespace, process->guarded)) {
    case REACH_PID:
        return kolo_process_alive(process->pid, process->start);
    case REACH_GUARD:
        return kolo_guard_held(guard_fd, guard_place);
    default:
        return true;
    }
}

bool kolo_liveness_can_see(const struct kolo_shared_process *process, uint64_t own_namespace) {
    return reach_of(process, own_namespace, process->guarded) != REACH_NONE;
}

int kolo_liveness_create(struct kolo_liveness *liveness, uint32_t ranks, uint32_t self) {
    *liveness = (struct kolo_liveness){.watched = calloc(ranks, sizeof *liveness->watched),
                                       .ranks = ranks,
                                       .self = self,
                                       .own_namespace = kolo_process_own_namespace()};
    return liveness->watched ? 0 : kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
}

void kolo_liveness_destroy(struct kolo_liveness *liveness, bool inherited) {
    if (!inherited && liveness->watched) {
        kolo_peers_lock();
        for (uint32_t rank = 0; rank < liveness->ranks; rank++)
            if (liveness->watched[rank].peer)
                kolo_peer_release(liveness->watched[rank].peer);
        kolo_common_unlock();
    }
    if (!inherited && liveness->guard.place)
        kolo_guards_leave(&liveness->guard);
    free(liveness->watched);
}

bool kolo_liveness_guards_agree(const struct kolo_shared_member *members, uint32_t ranks) {
    const struct kolo_shared_guard *first = &members[0].process.guard;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct kolo_shared_guard *guard = &members[rank].process.guard;
        if (guard->place == 0 || guard->device != first->device || guard->inode != first->inode)
            return false;
    }
    return true;
}

void kolo_liveness_use_guards(struct kolo_liveness *liveness) {
    for (uint32_t rank = 0; rank < liveness->ranks; rank++)
        liveness->watched[rank].guard = liveness->members[rank].process.guard;
}

void kolo_liveness_use_locks(struct kolo_liveness *liveness, uint64_t device, uint64_t inode, uint64_t epoch) {
    for (uint32_t rank = 0; rank < liveness->ranks; rank++)
        if (liveness->members[rank].process.guarded)
            liveness->watched[rank].guard = (struct kolo_shared_guard){device, inode, kolo_guard_place(epoch, rank)};
}

/* Returns true for the caller, and for ranks that are threads of its process. */
static bool is_own(const struct kolo_liveness *liveness, uint32_t rank) {
    return kolo_liveness_is_same(&liveness->members[rank].process, &liveness->members[liveness->self].process);
}

static enum reach reach_to(const struct kolo_liveness *liveness, uint32_t rank) {
    return reach_of(&liveness->members[rank].process, liveness->own_namespace, liveness->watched[rank].guard.place);
}

/* Polls the ranks, up to KOLO_PEERS_POLLED, that pids reach, and records how they ended. The caller has the lock. */
static void look_at_batch(struct kolo_liveness *liveness, uint32_t first, uint32_t count, int64_t now_ns) {
    struct kolo_peer *peers[KOLO_PEERS_POLLED] = {NULL};
    for (uint32_t i = 0; i < count; i++) {
        struct kolo_watched *watch = &liveness->watched[first + i];
        if (watch->ending.cause || is_own(liveness, first + i) || reach_to(liveness, first + i) != REACH_PID)
            continue;
        if (!watch->peer && (watch->peer = kolo_peer_hold(&liveness->members[first + i].process))) {
            kolo_peer_examine(watch->peer);
            watch->closely_ns = now_ns;
        }
        peers[i] = watch->peer;
    }
    KOLO_POINT("liveness.polling");
    kolo_peers_poll(peers, count);
    for (uint32_t i = 0; i < count; i++)
        if (peers[i])
            liveness->watched[first + i].ending = kolo_peer_ending(peers[i]);
}

/* Returns why a rank whose pid can be watched has released its guard without leaving: dying, or exec. NONE: not
 * known. */
static kolo_cause cause_of_loss(struct kolo_watched *watch, const struct kolo_shared_process *process) {
    struct kolo_process found;
    const int64_t now_ns = kolo_clock_ns();
    const int rc = kolo_process_read(process->pid, &found);
    if (watch->lost_ns == 0)
        watch->lost_ns = now_ns;
    if (rc == 0 && found.start == process->start && !found.is_exiting && found.state != 'Z' && found.state != 'X')
        return KOLO_CAUSE_EXECED;
    return now_ns - watch->lost_ns >= DYING_NS_MAX ? KOLO_CAUSE_ENDED : KOLO_CAUSE_NONE;
}

static bool can_see(const struct kolo_liveness *liveness, uint32_t rank) {
    const enum reach reach = reach_to(liveness, rank);
    const struct kolo_shared_guard *guard = &liveness->watched[rank].guard;
    return reach == REACH_PID || (reach == REACH_GUARD && kolo_guards_have_file(guard->device, guard->inode));
}

static void look_closely(struct kolo_liveness *liveness, uint32_t rank) {
    struct kolo_watched *watch = &liveness->watched[rank];
    const struct kolo_shared_member *member = &liveness->members[rank];
    const bool by_pid = reach_to(liveness, rank) == REACH_PID;
    if (by_pid && watch->peer) {
        kolo_peers_lock();
        kolo_peer_examine(watch->peer);
        watch->ending = kolo_peer_ending(watch->peer);
        kolo_common_unlock();
    }
    /* A rank that leaves stores that before it releases its guard. */
    if (watch->ending.cause || !kolo_guard_is_lost(&watch->guard) ||
        kolo_load_acquire(&member->state) == KOLO_MEMBER_DEPARTED)
        return;
    watch->ending.cause = by_pid ? cause_of_loss(watch, &member->process) : KOLO_CAUSE_ENDED;
}

/* A time in the future, by the clock of another time namespace, is not recent. */
static bool is_recent(int64_t ns, int64_t now_ns) {
    return (uint64_t)now_ns - (uint64_t)ns < CLOSELY_NS;
}

/* Looks at the ranks from `first` to before `end`, which do not wrap round. */
static bool look_at_some(struct kolo_liveness *liveness, uint32_t first, uint32_t end) {
    const int64_t now_ns = kolo_clock_ns();
    bool sees_all = true;
    kolo_peers_lock();
    for (uint32_t rank = first; rank < end; rank += KOLO_PEERS_POLLED)
        look_at_batch(liveness, rank, end - rank < KOLO_PEERS_POLLED ? end - rank : KOLO_PEERS_POLLED, now_ns);
    kolo_common_unlock();
    for (uint32_t rank = first; rank < end; rank++) {
        struct kolo_watched *watch = &liveness->watched[rank];
        if (watch->ending.cause || is_own(liveness, rank))
            continue;
        sees_all &= can_see(liveness, rank);
        if (is_recent(watch->closely_ns, now_ns) ||
            is_recent((int64_t)kolo_load_relaxed(&liveness->members[rank].looked_ns), now_ns))
            continue;
        watch->closely_ns = now_ns;
        look_closely(liveness, rank);
    }
    return sees_all;
}

bool kolo_liveness_look_at(struct kolo_liveness *liveness, uint32_t first, uint32_t count) {
    first %= liveness->ranks;
    const uint32_t end = first + count, over = end > liveness->ranks ? end - liveness->ranks : 0;
    const bool sees_tail = look_at_some(liveness, first, end - over);
    return (over == 0 || look_at_some(liveness, 0, over)) && sees_tail;
}

char kolo_liveness_activity(const struct kolo_liveness *liveness, uint32_t rank) {
    const struct kolo_shared_process *process = &liveness->members[rank].process;
    const bool visible = process->pid_namespace == liveness->own_namespace && !is_own(liveness, rank);
    return visible ? kolo_process_activity(process->pid) : 0;
}
