/* Processes as the system shows them. A process is named by pid and start time, since the kernel gives a dead process's
 * pid to another. A pid is valid within its pid namespace: those of another namespace must not be looked up here. /proc
 * may be of another namespace, too (unshare --pid without mounting it anew); then it is not believed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct kolo_process {
    uint64_t start;      /* in clock ticks since boot */
    uint32_t parent;     /* pid */
    uint32_t threads;    /* a zombie with more than one lives: only its first thread has ended */
    int32_t wait_status; /* of a zombie, as waitpid tells it; -1: the system does not say */
    char state;          /* 'R', 'S', 'Z', ... of its first thread */
    bool is_exiting;     /* that thread is becoming a zombie */
    char name[32];
};

/* Reads what /proc says of a process. -ESRCH: there is no such process; another negative errno: it cannot be read. */
int kolo_process_read(uint32_t pid, struct kolo_process *process);

/* Returns true if the process has ended and only waits for its parent's wait. */
bool kolo_process_is_zombie(const struct kolo_process *process);

/* Returns the caller's start time; 0, which matches any start time, if /proc does not tell. */
uint64_t kolo_process_own_start(void);

/* Returns a number for the caller's pid namespace, different from any other existing one's; 0 if not known. */
uint64_t kolo_process_own_namespace(void);

/* Returns true if that very process is still there and not a zombie. */
bool kolo_process_alive(uint32_t pid, uint64_t start);

/* Returns what the threads of a process do together: 'T' if all are stopped, else 'R' if one runs, else 'D' if one is
 * in the kernel and cannot be woken, else 'S'; 0 where that cannot be read. */
char kolo_process_activity(uint32_t pid);

/* Returns how a process has ended, as waitpid does; -1 if the system does not tell. pidfd: of it, or negative. */
int kolo_process_wait_status(int pidfd, uint32_t pid, uint64_t start);
