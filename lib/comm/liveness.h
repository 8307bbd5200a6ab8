/* Whether the other ranks' processes still live, and how those ended that do not. */
#ifndef KOLO_COMM_LIVENESS_H
#define KOLO_COMM_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "comm/process.h"

struct pollfd;
struct kolo_shared_member;

/* By what one process can tell whether another lives. */
typedef enum kolo_reach {
    KOLO_REACH_NONE,  /* by nothing: it counts as alive */
    KOLO_REACH_PID,   /* both are in one pid namespace */
    KOLO_REACH_GUARD, /* by its lock, see shm/guard.h */
} kolo_reach;

/* own, theirs: numbers of pid namespaces. Where neither is known both are taken for the same, unless there is a lock to
 * go by: only an old kernel without /proc leaves one so. */
kolo_reach kolo_liveness_reach(uint64_t own, uint64_t theirs, bool guarded);

struct kolo_ending {
    kolo_cause cause; /* KOLO_CAUSE_KILLED, EXITED or ENDED */
    int code;         /* the signal, the exit status */
};

/* Watches the peers of one communicator through pidfds. */
struct kolo_liveness {
    struct pollfd *peers; /* one a rank; NULL until first needed */
    bool *ended;          /* one a rank: known to be gone */
    struct kolo_ending *endings;
    uint32_t ranks;
    bool pidfds; /* not with so many ranks that they would take what the program may open */
    uint64_t own_namespace;
    int guard_fd;         /* whose file holds the ranks' locks; -1: none */
    uint64_t guard_place; /* rank 0's */
};

int kolo_liveness_create(struct kolo_liveness *liveness, uint32_t ranks);
void kolo_liveness_destroy(struct kolo_liveness *liveness);

/* Looks at all peers and marks those that have ended; never blocks. `self` is skipped, as are threads of this process.
 * Costs one poll, and a system call or a look into /proc for each peer that has no pidfd. The first look opens the
 * pidfds: how a process ended is only told to whoever opened one before its parent waited for it. */
void kolo_liveness_look(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self);

/* What `rank`, found alive just before, does: see kolo_process_activity. 0 too for threads of this process. */
char kolo_liveness_activity(const struct kolo_liveness *liveness, const struct kolo_shared_member *members,
                            uint32_t self, uint32_t rank);

#endif
