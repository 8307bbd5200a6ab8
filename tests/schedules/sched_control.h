/* Negative controls: faults that the seam puts into the protocol, one at a time, to show that the schedules find them.
 * Each stands for a line of the library that somebody might leave out or get wrong. */
#pragma once

#include <stdbool.h>

typedef enum sched_control {
    SCHED_SOUND,
    SCHED_CLAIM_AT_ONCE,       /* kolo_slot_claim does not wait */
    SCHED_RETIRE_EARLY,        /* a slot counts as free one step too early */
    SCHED_SUCCESSION_EARLY,    /* so does one that the first step of another call sets free */
    SCHED_STEP_WAIT_SKIPPED,   /* some waits for a step end at once */
    SCHED_LINE_WAIT_SKIPPED,   /* some waits for a line end at once */
    SCHED_STEP_EARLY,          /* a step is published before it is done */
    SCHED_STEP_RELAXED,        /* a step is published without release */
    SCHED_LINE_RELAXED,        /* a line's round is stored without release */
    SCHED_LINES_ONE_SET,       /* each round uses the same set of lines */
    SCHED_PASSES_UNBOUNDED,    /* the sets for passes are used again without a round */
    SCHED_TURN_WRONG,          /* one of two ranks is wrong about whose turn a slot is */
    SCHED_SWAPS_GO_ON,         /* broadcasts and scatters do not stop exchanges */
    SCHED_NO_MEMBARRIER,       /* the sleeper's fence is its own only */
    SCHED_NO_FULL_FENCE,       /* without membarrier, the publisher does not fence either */
    SCHED_BELL_UNSEEN,         /* who publishes never sees a sleeper */
    SCHED_RINGS_STILL,         /* waking changes nothing in the futex word */
    SCHED_FUTEX_UNCHECKED,     /* the sleeper does not look at the futex word again */
    SCHED_STAMPS_EQUAL,        /* what a call is does not get into the stamp */
    SCHED_STEP_STAMP_UNSEEN,   /* the stamp of a step is not compared */
    SCHED_CLAIM_STAMP_UNSEEN,  /* nor is it when a slot is claimed */
    SCHED_CLAIM_LOOKS_ONCE,    /* such a stamp counts even if the peer has gone on since */
    SCHED_KEY_UNSEEN,          /* what a peer calls is not compared in long waits */
    SCHED_KEY_LATE,            /* the history's key is stored after the number of its call */
    SCHED_DEATH_UNSEEN,        /* no one learns that a rank has died */
    SCHED_FAILURE_OVERWRITTEN, /* a second failure replaces the first */
    SCHED_FAILURE_UNSEEN,      /* no one looks for a failure but in long waits */
    SCHED_LEAVING_UNAWAITED,   /* who gives a call up does not wait for the others to leave it */
    SCHED_UNSETTLED,           /* after the wait for clocks queues are not looked at */
    SCHED_REACHED_EARLY,       /* a worker says that it has ended one clock more than it has */
    SCHED_SEQUENCE_ONCE,       /* a piece's sequence is not compared after the copy */
    SCHED_PENDING_UNSEEN,      /* who gives a role back does not look at `pending` again */
    SCHED_ROOM_UNSEEN,         /* a queue always has room */
    SCHED_FILLED_RELAXED,      /* what is filled of a queue is published without release */
    SCHED_TAKEN_RELAXED,       /* what is taken of it is */
    SCHED_FOLD_UNAWAITED,      /* a clock ends before all shards are folded */
    SCHED_PLACE_UNSEEN         /* who takes a role over does not look at what has been applied */
} sched_control;

/* Which one is in force. */
extern sched_control sched_control_now;

static inline bool sched_breaks(sched_control control) {
    return __builtin_expect(sched_control_now == control, 0);
}
