/* Locks that say that a process lives and still runs the program that created its communicators: for ranks that cannot
 * see each other's pids, since they run in different pid namespaces (containers that share /dev/shm); and for those
 * that can, since a process that execs keeps its pid.
 *
 * A rank locks one byte of a file that all have, far behind its end, by an open file description of its own. The kernel
 * lets go of the lock when nothing refers to that description any more: neither a descriptor nor a mapping. Once the
 * communicator is there a mapping alone does, of one page that nobody touches. So the lock goes with the address space:
 * by an end of the process at any instruction, and by exec. It does not go by closing descriptors (closefrom(3)), nor
 * is it kept by a forked child, which does not inherit that mapping.
 *
 * During a creation every rank locks the byte of its number in the job's file, by the descriptor that it has of it.
 * Afterwards these locks become guards of the process, or go:
 *   all ranks' processes have a guard in one and the same file already, from an earlier communicator
 *       -> those serve this communicator too, and the new locks go;
 *   otherwise -> each new lock is one more guard of its process.
 * Rank 0 decides that, when all have said which guard they have, and all go by it. So as many communicators as may be
 * of the same processes cost one guard and one descriptor, by which the process looks at the locks in that file. A
 * process keeps its guards until it has left its last communicator: whoever looks at one is in one with it, or is told
 * there that it has left.
 *
 * What it cannot see: a child that is forked in the middle of a creation and does not exec keeps the lock (until the
 * child has ended there is the deadline). A process that closes descriptors which are not its own can no longer look at
 * the others' locks. */
#ifndef KOLO_SHM_GUARD_H
#define KOLO_SHM_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"

/* Which byte stands for `rank` in creation number `epoch` of a job. */
uint64_t kolo_guard_place(uint64_t epoch, uint32_t rank);

/* Locks it by fd's open file description. False where that fails. */
bool kolo_guard_take(int fd, uint64_t place);

/* Lets go of it. */
void kolo_guard_drop(int fd, uint64_t place);

/* True unless it is known that nobody, but perhaps the caller by the same description, holds it. */
bool kolo_guard_held(int fd, uint64_t place);

/* The guards of this process. Any thread may call these at any time. */

/* Counts one communicator more that needs them, and tells the newest; place 0: it has none. */
void kolo_guards_enter(struct kolo_shared_guard *newest);

/* One less: the last one to leave lets go of all. */
void kolo_guards_leave(void);

/* Makes the lock on byte `place`, which fd's open file description holds, a guard of this process from now on; after
 * kolo_guards_enter. False where the system lacks what that takes: then it stays with the descriptor. */
bool kolo_guards_add(int fd, uint64_t place, struct kolo_shared_guard *added);

/* Whether another process has let go of its guard. False where nothing tells, as for a file in which this process has
 * none itself. */
bool kolo_guard_is_lost(const struct kolo_shared_guard *guard);

/* Whether this process has a descriptor of that file, to look at locks. */
bool kolo_guards_have_file(uint64_t device, uint64_t inode);

#endif
