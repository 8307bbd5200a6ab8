/* What a machine that others keep busy has taken from a team since a mark: how long its processes could have run while
 * others had the processor, and how late a short sleep of the parent has ended.
 *
 * News of an event passes through a few processes, one after another: who ends, who sees it and tells, who is told.
 * Each of them may have had to wait for a processor, so that what counts is the sum of those three that waited longest.
 * On a machine with nothing else to do it is next to nothing. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* In the parent, before the first team; and before each team, which forgets the one before. */
void held_begin(void);
void held_team(void);

/* The process of a rank has begun, as the parent knows, or all ranks begin as threads of one; and it is about to end,
 * as it says itself. */
void held_enter(int rank, pid_t pid);
void held_leave(int rank);

/* Waits until the process has ended, which it leaves to be reaped, and sees meanwhile how late the machine is. */
void held_await(pid_t pid);

/* Begins the time that counts; for any process or thread of the team. */
void held_mark(void);

/* What was taken since the mark; 0 without one, and where the kernel does not tell. */
int64_t held_since_mark_ns(void);
