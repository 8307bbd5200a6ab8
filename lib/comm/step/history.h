/* The black box: what each rank did last, when, and whom it waited for. In the segment, so that it outlives its rank,
 * for the log when a failure is found and for tools that look from outside (kolo_watch.h).
 *
 * What a call is stands in the history's words, written by every call. When it was, and what it waited for, is known
 * only of calls that take long anyway, since reading a clock would take a third of the time of the smallest: those of
 * KOLO_TIMED_BYTES_MIN and more, and those that had a wait beyond spinning. A call known only by its waits began, as
 * far as is known, when the first of them had gone beyond spinning, and ended when the last was over.
 *
 * Only the owner writes. A reader takes the number of a rank's last call, then word and record of whichever call it
 * wants, then the number again: those two are of that call if it still is one of the last KOLO_HISTORY.
 *   - words: the word of call c takes the place of that of c - 2 * KOLO_HISTORY, and is stored before `calls` is c.
 *   - records: the first store to the record of call c comes after `calls` is c, and is a release: who sees it sees
 * that. A death at any point leaves at worst a record whose `number` is that of an older call: then nothing is known of
 * the times of the last one. */
#ifndef KOLO_COMM_STEP_HISTORY_H
#define KOLO_COMM_STEP_HISTORY_H

#include "comm/comm.h"
#include "comm/step/call_word.h"

#define KOLO_TIMED_BYTES_MIN ((size_t)256 << 10) /* two looks at the clock are half a percent of such a call */

/* Calls are numbered from 1, as in kolo_comm.calls. */
struct kolo_past_call {
    uint64_t number;
    uint64_t word;     /* kolo_call_word */
    int64_t began_ns;  /* 0: not known */
    int64_t ended_ns;  /* 0: not known, or not ended */
    int64_t waited_ns; /* of its longest wait beyond spinning; 0: there was none */
    int32_t waited_for;
};

/* Notes when the present call began and ended; for calls of KOLO_TIMED_BYTES_MIN and more. */
void kolo_history_begin(kolo_comm *comm);
void kolo_history_end(kolo_comm *comm);

/* The waiter's note; waiter->owner is the communicator. */
void kolo_history_note_wait(kolo_waiter *waiter, const struct kolo_wait *wait, bool over);

/* Reads call `number` of the rank that signal and history belong to; false if it is none of its last KOLO_HISTORY. Of
 * copies, signal's must be the later one. */
bool kolo_history_read(const struct kolo_shared_signal *signal, const struct kolo_shared_history *history,
                       uint64_t number, struct kolo_past_call *call);

/* Whom a rank waits for by its `waiting` word, and since when; false: for nobody. */
bool kolo_history_waits(uint64_t waiting, uint32_t *peer, int64_t *since_ns);

/* Logs where the ranks stand: a line for each or, of more than 16, for all that stand alike. */
void kolo_history_log(const kolo_comm *comm, kolo_log_level level);

#endif
