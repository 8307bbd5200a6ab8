/* Whether the other ranks' processes still live, and how those ended that do not. */
#ifndef KOLO_COMM_LIVENESS_H
#define KOLO_COMM_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "comm/process.h"
#include "shm/layout.h"

struct pollfd;

/* False if a process, which locks that byte of a file where it is guarded, is known to have ended. own_namespace: see
 * kolo_process_own_namespace. */
bool kolo_liveness_is_alive(const struct kolo_shared_process *process, uint64_t own_namespace, int guard_fd,
                            uint64_t guard_place);

/* Says which process this one is. */
void kolo_liveness_introduce(struct kolo_shared_process *self, uint64_t own_namespace, bool guarded);

/* True if both are one process, of which ranks are threads. Not where it is not known what their pids mean. */
static inline bool kolo_liveness_is_same(const struct kolo_shared_process *a, const struct kolo_shared_process *b) {
    return a->pid == b->pid && a->start == b->start && a->pid_namespace == b->pid_namespace && a->pid_namespace != 0;
}

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
