/* Looks whether peers live, by pidfds and by guards' locks. */
#include "comm/failure/liveness.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "shm/guard.h"
#include "sync/atomic.h"
#include "sync/point.h"

enum { BATCH = 64 };

/* A rank is looked at closely when so long has passed since the last close look, and since it last showed that it
 * waits, and so lives. */
#define CLOSELY_NS (40 * KOLO_NS_PER_MS)

/* A dying process releases its guard a moment before the system tells that it has died, and how. */
#define DYING_NS_MAX (40 * KOLO_NS_PER_MS)

/* How one process can tell whether another lives. */
enum reach {
    REACH_NONE,  /* not at all: it counts as alive */
    REACH_PID,   /* both are in one pid namespace */
    REACH_GUARD, /* by its lock, see shm/guard.h */
};

/* If neither namespace is known both count as the same, unless there is a lock: this happens only with an old kernel
 * without /proc. */
static enum reach reach_of(const struct kolo_shared_process *process, uint64_t own_namespace, bool has_lock) {
    const bool is_equal = process->pid_namespace == own_namespace;
    if (is_equal && own_namespace != 0)
        return REACH_PID;
    if (has_lock)
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

int kolo_liveness_create(struct kolo_liveness *liveness, uint32_t ranks) {
    liveness->ranks = ranks;
    liveness->own_namespace = kolo_process_own_namespace();
    liveness->watched = calloc(ranks, sizeof *liveness->watched);
    liveness->ended = calloc(ranks, sizeof *liveness->ended);
    liveness->endings = calloc(ranks, sizeof *liveness->endings);
    if (!liveness->watched || !liveness->ended || !liveness->endings)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    return 0;
}

void kolo_liveness_destroy(struct kolo_liveness *liveness, bool inherited) {
    if (!inherited && liveness->watched) {
        kolo_peers_lock();
        for (uint32_t rank = 0; rank < liveness->ranks; rank++)
            if (liveness->watched[rank].peer)
                kolo_peer_release(liveness->watched[rank].peer);
        kolo_peers_unlock();
    }
    if (!inherited && liveness->guarded)
        kolo_guards_leave();
    free(liveness->watched);
    free(liveness->ended);
    free(liveness->endings);
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

void kolo_liveness_use_guards(struct kolo_liveness *liveness, const struct kolo_shared_member *members) {
    for (uint32_t rank = 0; rank < liveness->ranks; rank++)
        liveness->watched[rank].guard = members[rank].process.guard;
}

void kolo_liveness_use_locks(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint64_t device,
                             uint64_t inode, uint64_t epoch) {
    for (uint32_t rank = 0; rank < liveness->ranks; rank++)
        if (members[rank].process.guarded)
            liveness->watched[rank].guard = (struct kolo_shared_guard){device, inode, kolo_guard_place(epoch, rank)};
}

static void note_end(struct kolo_liveness *liveness, uint32_t rank, kolo_cause cause) {
    liveness->ended[rank] = true;
    liveness->endings[rank] = (struct kolo_ending){.cause = cause};
}

/* Polls those of up to BATCH ranks that pids reach, and takes over how they have ended. With the lock. */
static void look_at_batch(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self,
                          uint32_t first, uint32_t count, int64_t now_ns) {
    struct kolo_peer *peers[BATCH] = {NULL};
    for (uint32_t i = 0; i < count; i++) {
        const struct kolo_shared_process *process = &members[first + i].process;
        struct kolo_watched *watch = &liveness->watched[first + i];
        if (liveness->ended[first + i] || kolo_liveness_is_same(process, &members[self].process) ||
            reach_of(process, liveness->own_namespace, watch->guard.place) != REACH_PID)
            continue;
        if (!watch->peer && (watch->peer = kolo_peer_hold(process))) {
            kolo_peer_examine(watch->peer);
            watch->closely_ns = now_ns;
        }
        peers[i] = watch->peer;
    }
    KOLO_POINT("liveness.polling");
    kolo_peers_poll(peers, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct kolo_ending *ending = peers[i] ? kolo_peer_ending(peers[i]) : NULL;
        if (ending) {
            liveness->ended[first + i] = true;
            liveness->endings[first + i] = *ending;
        }
    }
}

/* A rank whose pid can be watched has released its guard without leaving: its process is about to die, or has
 * exec'd. */
static void look_at_loss(struct kolo_liveness *liveness, uint32_t rank, const struct kolo_shared_process *process) {
    struct kolo_watched *watch = &liveness->watched[rank];
    struct kolo_process found;
    const int64_t now_ns = kolo_clock_ns();
    const int rc = kolo_process_read(process->pid, &found);
    if (watch->lost_ns == 0)
        watch->lost_ns = now_ns;
    if (rc == 0 && found.start == process->start && !found.is_exiting && found.state != 'Z' && found.state != 'X')
        note_end(liveness, rank, KOLO_CAUSE_EXECED);
    else if (now_ns - watch->lost_ns >= DYING_NS_MAX)
        note_end(liveness, rank, KOLO_CAUSE_ENDED);
}

static bool can_see(const struct kolo_liveness *liveness, const struct kolo_shared_process *process,
                    const struct kolo_watched *watch) {
    const enum reach reach = reach_of(process, liveness->own_namespace, watch->guard.place);
    return reach == REACH_PID ||
           (reach == REACH_GUARD && kolo_guards_have_file(watch->guard.device, watch->guard.inode));
}

static void look_closely(struct kolo_liveness *liveness, const struct kolo_shared_member *member, uint32_t rank) {
    struct kolo_watched *watch = &liveness->watched[rank];
    const enum reach reach = reach_of(&member->process, liveness->own_namespace, watch->guard.place);
    if (reach == REACH_PID && watch->peer) {
        kolo_peers_lock();
        kolo_peer_examine(watch->peer);
        const struct kolo_ending *ending = kolo_peer_ending(watch->peer);
        liveness->ended[rank] = ending;
        if (ending)
            liveness->endings[rank] = *ending;
        kolo_peers_unlock();
    }
    /* A rank that leaves says so before it releases its guard. */
    if (liveness->ended[rank] || !kolo_guard_is_lost(&watch->guard) ||
        kolo_load_acquire(&member->state) == KOLO_MEMBER_DEPARTED)
        return;
    if (reach == REACH_PID)
        look_at_loss(liveness, rank, &member->process);
    else
        note_end(liveness, rank, KOLO_CAUSE_ENDED);
}

/* A time in the future, by the clock of another time namespace, is not recent. */
static bool is_recent(int64_t ns, int64_t now_ns) {
    return (uint64_t)now_ns - (uint64_t)ns < CLOSELY_NS;
}

/* Not round the ring. */
static bool look_at_some(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self,
                         uint32_t first, uint32_t end) {
    const int64_t now_ns = kolo_clock_ns();
    bool sees_all = true;
    kolo_peers_lock();
    for (uint32_t rank = first; rank < end; rank += BATCH)
        look_at_batch(liveness, members, self, rank, end - rank < BATCH ? end - rank : BATCH, now_ns);
    kolo_peers_unlock();
    for (uint32_t rank = first; rank < end; rank++) {
        struct kolo_watched *watch = &liveness->watched[rank];
        if (liveness->ended[rank] || kolo_liveness_is_same(&members[rank].process, &members[self].process))
            continue;
        if (!can_see(liveness, &members[rank].process, watch))
            sees_all = false;
        if (is_recent(watch->closely_ns, now_ns) ||
            is_recent((int64_t)kolo_load_relaxed(&members[rank].looked_ns), now_ns))
            continue;
        watch->closely_ns = now_ns;
        look_closely(liveness, &members[rank], rank);
    }
    return sees_all;
}

bool kolo_liveness_look_at(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self,
                           uint32_t first, uint32_t count) {
    first %= liveness->ranks;
    const uint32_t end = first + count, over = end > liveness->ranks ? end - liveness->ranks : 0;
    const bool sees_tail = look_at_some(liveness, members, self, first, end - over);
    return (over == 0 || look_at_some(liveness, members, self, 0, over)) && sees_tail;
}

void kolo_liveness_look(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self) {
    kolo_liveness_look_at(liveness, members, self, 0, liveness->ranks);
}

char kolo_liveness_activity(const struct kolo_liveness *liveness, const struct kolo_shared_member *members,
                            uint32_t self, uint32_t rank) {
    const struct kolo_shared_process *process = &members[rank].process;
    const bool visible =
        process->pid_namespace == liveness->own_namespace && !kolo_liveness_is_same(process, &members[self].process);
    return visible ? kolo_process_activity(process->pid) : 0;
}
