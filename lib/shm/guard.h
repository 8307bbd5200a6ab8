/* Locks that say that a process lives: for ranks that cannot see each other's pids, since they run in different pid
 * namespaces (containers that share /dev/shm).
 *
 * A rank locks one byte of the job's file, far behind its end, by an open file description of its own. The kernel lets
 * go of the lock when the last descriptor of that description is closed, which an end of the process at any instruction
 * does. Locks of a process (F_SETLK) would not do: they go when any descriptor of the file is closed.
 *
 * What it cannot see: a forked child that has not called exec keeps the description, so the end of its parent shows
 * only once that child has ended too (until then there is the deadline). A process that closes descriptors which are
 * not its own, as closefrom(3) does, is taken for dead. So pidfds go first, where they reach. */
#ifndef KOLO_SHM_GUARD_H
#define KOLO_SHM_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Which byte stands for `rank` in creation number `epoch` of a job. */
uint64_t kolo_guard_place(uint64_t epoch, uint32_t rank);

/* Locks it by fd's open file description. False where that fails. */
bool kolo_guard_take(int fd, uint64_t place);

/* True unless it is known that nobody, but perhaps the caller by the same description, holds it. */
bool kolo_guard_held(int fd, uint64_t place);

#endif
