/* Whether other processes still live: by pid and start time, since the kernel gives a dead process's pid to another. */
#ifndef KOLO_COMM_LIVENESS_H
#define KOLO_COMM_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

struct pollfd;
struct kolo_shared_member;

struct kolo_process {
    uint64_t start;  /* in clock ticks since boot */
    uint32_t parent; /* pid */
    char state;      /* 'R', 'S', 'Z', ... */
    char name[32];
};

/* Reads what /proc says of a process. -ESRCH: no such process; another negative errno: cannot be read. */
int kolo_process_read(uint32_t pid, struct kolo_process *process);

/* The caller's start time; 0 where /proc does not tell, which then counts as any. */
uint64_t kolo_process_own_start(void);

/* True if that very process is still there and not a zombie. */
bool kolo_process_alive(uint32_t pid, uint64_t start);

/* Watches the peers of one communicator through pidfds, which are opened when first needed. */
struct kolo_liveness {
    struct pollfd *peers; /* one a rank; NULL until first needed */
    bool *ended;          /* one a rank: known to be gone */
    uint32_t ranks;
};

int kolo_liveness_create(struct kolo_liveness *liveness, uint32_t ranks);
void kolo_liveness_destroy(struct kolo_liveness *liveness);

/* Looks at all peers and marks those that have ended; never blocks. `self` is skipped, as are threads of this process.
 * Costs one poll, and a look into /proc for each peer that has no pidfd. */
void kolo_liveness_look(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self);

#endif
