/* A guard is a lock that says that a process lives and still runs the program that created its communicators. Ranks in
 * different pid namespaces (containers that share /dev/shm) need guards because they cannot see each other's pids. All
 * other ranks need them, too, because a process that execs keeps its pid.
 *
 * A rank locks one byte of a file that all ranks have open, far behind the file's end, through an open file description
 * of its own. The kernel releases the lock when neither a descriptor nor a mapping refers to that description any more.
 * Once the communicator is made, only a mapping refers to it, of one page that nobody touches. So the lock is released
 * with the address space: when the process ends, at whatever instruction, and by exec. Closing descriptors
 * (closefrom(3)) does not release it, and a forked child does not keep it, since it does not inherit that mapping.
 *
 * During a creation every rank locks the byte of its number in the job's file, through its descriptor of that file.
 * Afterwards these locks become guards of the process, or are dropped:
 *   - If all ranks' processes have a guard in one and the same file from an earlier communicator, those guards serve
 *     this communicator too, and the new locks are dropped.
 *   - Otherwise each new lock becomes one more guard of its process.
 * Rank 0 decides between the two, once all ranks have said which guard they have. So the same processes need one guard
 * and one descriptor each, however many communicators they make; through that descriptor a process looks at the locks
 * in the file. A process keeps a guard until it has left the last communicator that uses it. So any process that looks
 * at a guard shares a communicator with its owner, or reads there that the owner has left.
 *
 * Limits:
 *   - A child that is forked in the middle of a creation and does not exec keeps the lock. Until it ends, only
 *     deadlines find the parent's death.
 *   - A process that closes descriptors which are not its own can no longer look at the others' locks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"

/* Returns the byte that stands for `rank` in creation number `epoch` of a job. */
uint64_t kolo_guard_place(uint64_t epoch, uint32_t rank);

/* Locks the byte `place` through fd's open file description. Returns false if that fails. */
bool kolo_guard_take(int fd, uint64_t place);

/* Releases that lock. */
void kolo_guard_drop(int fd, uint64_t place);

/* Returns false only if certainly nobody holds the lock, except perhaps the caller through the same description. */
bool kolo_guard_held(int fd, uint64_t place);

/* The guards of this process. Any thread may call these at any time. */

/* Gives one more communicator the newest guard to use; place 0: there is none. */
void kolo_guards_enter(struct kolo_shared_guard *used);

/* Counts one communicator that uses that guard less; after the last one, releases the guard. */
void kolo_guards_leave(const struct kolo_shared_guard *used);

/* Makes the lock on byte `place`, which fd's open file description holds, a guard of this process from now on, which
 * the communicator uses instead of *used. Returns false if the system cannot do that: then the lock stays with the
 * descriptor. */
bool kolo_guards_add(int fd, uint64_t place, struct kolo_shared_guard *used);

/* Returns whether another process has certainly released its guard. False also if that cannot be seen. */
bool kolo_guard_is_lost(const struct kolo_shared_guard *guard);

/* Returns whether this process has a descriptor of that file, to look at locks. */
bool kolo_guards_have_file(uint64_t device, uint64_t inode);
