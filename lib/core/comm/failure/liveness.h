/* The liveness of the other ranks: whether their processes still run the same program or how they have ended. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "comm/failure/peers.h"
#include "comm/failure/process.h"

/* Returns false if a process is known to have ended. A process that is guarded locks byte `guard_place` of file
 * `guard_fd`. own_namespace: see kolo_process_own_namespace. */
bool kolo_liveness_is_alive(const struct kolo_shared_process *process, uint64_t own_namespace, int guard_fd,
                            uint64_t guard_place);

/* Returns whether kolo_liveness_is_alive could see that the process has ended. */
bool kolo_liveness_can_see(const struct kolo_shared_process *process, uint64_t own_namespace);

/* Fills in *self for this process, which has no guard yet. */
void kolo_liveness_introduce(struct kolo_shared_process *self, uint64_t own_namespace, bool guarded);

/* Returns whether that process's pid means the same process here; false if that is not known. */
static inline bool kolo_liveness_knows_pid(const struct kolo_shared_process *process, uint64_t own_namespace) {
    return process->pid_namespace == own_namespace && own_namespace != 0;
}

/* Returns true if both are one process, of which ranks are threads. False if their pids' namespaces are not known. */
static inline bool kolo_liveness_is_same(const struct kolo_shared_process *a, const struct kolo_shared_process *b) {
    return a->pid == b->pid && a->start == b->start && kolo_liveness_knows_pid(a, b->pid_namespace);
}

/* The record of one watched rank. */
struct kolo_watched {
    struct kolo_peer *peer;         /* NULL: not yet */
    struct kolo_shared_guard guard; /* place 0: it has none */
    struct kolo_ending ending;      /* cause NONE: the rank lives, as far as is known */
    int64_t lost_ns;                /* when its guard was seen to be lost; 0: the guard is not lost */
    int64_t closely_ns;             /* when this rank last looked at it closely */
};

/* The watched peers of one communicator. */
struct kolo_liveness {
    struct kolo_watched *watched;             /* one a rank */
    const struct kolo_shared_member *members; /* one a rank; set once the segment is there */
    uint32_t ranks, self;
    uint64_t own_namespace;
    struct kolo_shared_guard guard; /* of this process, which the communicator uses; place 0: none */
};

int kolo_liveness_create(struct kolo_liveness *liveness, uint32_t ranks, uint32_t self);

/* inherited: in a forked child, whose parent goes on. */
void kolo_liveness_destroy(struct kolo_liveness *liveness, bool inherited);

/* Returns whether the ranks' processes have guards in one and the same file from earlier communicators. */
bool kolo_liveness_guards_agree(const struct kolo_shared_member *members, uint32_t ranks);

/* Makes the liveness use those guards from now on. */
void kolo_liveness_use_guards(struct kolo_liveness *liveness);

/* Makes the liveness use the locks of this creation, which are in file `device`, `inode`. */
void kolo_liveness_use_locks(struct kolo_liveness *liveness, uint64_t device, uint64_t inode, uint64_t epoch);

/* Looks at `count` ranks from `first` on, round the ring, and marks those that have ended; never blocks. `self` is
 * skipped, as are threads of this process. Costs a poll, and a close look at those that have not had one for a while,
 * which checks their descriptors and guards. The first look opens the pidfds: only a pidfd that was opened before the
 * parent has waited for the process tells how it ended. False: nothing tells whether one of them lives. */
bool kolo_liveness_look_at(struct kolo_liveness *liveness, uint32_t first, uint32_t count);

/* Returns whether a look has found that `rank` has ended. */
static inline bool kolo_liveness_has_ended(const struct kolo_liveness *liveness, uint32_t rank) {
    return liveness->watched[rank].ending.cause != KOLO_CAUSE_NONE;
}

/* Returns the activity of `rank`, just found alive: see kolo_process_activity. 0 also for threads of this process. */
char kolo_liveness_activity(const struct kolo_liveness *liveness, uint32_t rank);
