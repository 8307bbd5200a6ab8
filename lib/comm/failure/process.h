/* Processes as the system shows them: by pid and start time, since the kernel gives a dead process's pid to another.
 * Pids are valid within a pid namespace: those of another one must not be looked up here. /proc may be of another
 * namespace, too (unshare --pid without mounting it anew); then it is not believed. */
#ifndef KOLO_COMM_FAILURE_PROCESS_H
#define KOLO_COMM_FAILURE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct kolo_process {
    uint64_t start;      /* in clock ticks since boot */
    uint32_t parent;     /* pid */
    uint32_t threads;    /* a zombie with others than itself lives: its first thread alone has ended */
    int32_t wait_status; /* of a zombie, as waitpid tells it; -1: the system does not say */
    char state;          /* 'R', 'S', 'Z', ... of its first thread */
    bool is_exiting;     /* that thread is on its way to being a zombie */
    char name[32];
};

/* Reads what /proc says of a process. -ESRCH: no such process; another negative errno: cannot be read. */
int kolo_process_read(uint32_t pid, struct kolo_process *process);

/* True if all that is left of it is what its parent may wait for. */
bool kolo_process_is_zombie(const struct kolo_process *process);

/* The caller's start time; 0 if /proc does not tell, which matches any start time. */
uint64_t kolo_process_own_start(void);

/* A number for the caller's pid namespace, different from that of any other existing one; 0 if the system does not
 * tell. */
uint64_t kolo_process_own_namespace(void);

/* True if that very process is still there and not a zombie. */
bool kolo_process_alive(uint32_t pid, uint64_t start);

/* What all its threads together do: 'T' if they are stopped, else 'R' if one runs, 'D' if one is in the kernel and
 * cannot be woken, else 'S'; 0 where it cannot be read. */
char kolo_process_activity(uint32_t pid);

/* How a process has ended, as waitpid tells it; -1 where nobody says. pidfd: of that process, or negative. */
int kolo_process_wait_status(int pidfd, uint32_t pid, uint64_t start);

#endif
