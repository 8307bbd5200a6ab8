/* The history: which calls each rank made last, when, and which rank it waited for. It lies in the segment, so that it
 * outlives its rank. Ranks read it for the log when a failure is found, and tools read it from outside (kolo_watch.h).
 *
 * Every call writes its key into the history. Its times, and the rank that it waited for, are recorded only
 * for calls that take long anyway, since reading a clock would take a third of the time of the smallest call, or, with
 * KOLO_DUMP, for all. These are calls of KOLO_TIMED_BYTES_MIN and more, and calls with a wait beyond spinning. For the
 * latter the recorded time begins when the first such wait went beyond spinning, and ends with the last such wait.
 *
 * Only the owner writes. A reader reads the number of the rank's last call, then the key and record of the call that it
 * wants, then the number again. Key and record are of that call if it still is one of the last KOLO_HISTORY.
 *   - keys: the key of call c takes the place of that of c - 2 * KOLO_HISTORY, and is stored before `calls` is c.
 *   - records: the first store to the record of call c comes after `calls` is c, and is a release: a reader that sees
 *     that store also sees `calls`.
 * A death leaves at worst a record with the `number` of an older call: then the last call's times are not known. */
#pragma once

#include "comm/comm.h"
#include "comm/step/call_key.h"

#define KOLO_TIMED_BYTES_MIN ((size_t)256 << 10) /* two looks at the clock are half a percent of such a call */

/* A past call. Calls are numbered from 1, as in kolo_call.number. */
struct kolo_past_call {
    uint64_t number;
    struct kolo_call_key key;
    int64_t began_ns;  /* 0: not known */
    int64_t ended_ns;  /* 0: not known, or not ended */
    int64_t waited_ns; /* of its longest wait beyond spinning; 0: there was none */
    int32_t waited_for;
};

/* Note when the present call began and ended; for calls of KOLO_TIMED_BYTES_MIN and more. */
void kolo_history_begin(kolo_comm *comm);
void kolo_history_end(kolo_comm *comm);

/* The waiter's note; waiter->owner is the communicator. */
void kolo_history_note_wait(kolo_waiter *waiter, const struct kolo_wait *wait, bool over);

/* Reads call `number` of the rank that `signal` and `history` belong to. Returns false if it is none of its last
 * KOLO_HISTORY. If both are copies, signal's must be the later one. */
bool kolo_history_read(const struct kolo_shared_signal *signal, const struct kolo_shared_history *history,
                       uint64_t number, struct kolo_past_call *call);

/* Finds for whom a rank waits by its `waiting` word (KOLO_RANKS_MAX: any), and since when. Returns false: for none. */
bool kolo_history_waits(uint64_t waiting, uint32_t *peer, int64_t *since_ns);

/* Logs where the ranks stand: a line for each rank or, with more than 16, for all ranks in the same state. */
void kolo_history_log(const kolo_comm *comm, kolo_log_level level);
