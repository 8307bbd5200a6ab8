/* What messages tell beside the failure: the item that two ranks pass differently, and where the ranks stand. */
#pragma once

#include "comm/comm.h"

/* The difference of two ranks: the first item that they pass differently in a call (comm/step/items.h), for messages.
 *
 * The two ranks that the mismatch names show each other digests of KOLO_SHOWN_WORDS blocks of their items, while they
 * are still in that call. Both find the first block that differs, and show that one in as many smaller blocks; in the
 * last level a word is an item's value. The other ranks of the node only read. No rank waits for longer than SHOWN_NS
 * in all, or for a rank that has left the call: then the message names no item. It also names none where all the items
 * that the levels have room for are equal.
 *
 * A communicator has one failure, so that each rank writes its words once. They are written before `levels` (release),
 * and read after it (acquire). Only the words of a message depend on them: the communicator is broken already, and the
 * others do without a rank that dies here. */

/* The thread that is in call `call`, which has items, calls this: finds the item in which ranks[0] and ranks[1] of this
 * node differ, and keeps it in words for messages. `names`: the numbers by which messages call those ranks. */
void kolo_difference_find(kolo_comm *comm, uint64_t call, const uint32_t ranks[2], const uint32_t names[2]);

/* Progress reports: how far the ranks have come, in words, for warnings about long waits and for deadlines. */

/* Returns the rank, other than this one, that is furthest behind: fewest calls, then fewest steps. Among equals that is
 * a stopped one, since steps do not show how far a rank has come in lines; else the peer. Where that rank itself waits
 * for another one that is no further, it is the one waited for in the end, as in a send or receive, unless any rank
 * will do there. */
uint32_t kolo_progress_report_last(const kolo_comm *comm, const struct kolo_wait *wait);

/* Returns the node, plus one, that is late according to the lane for which `wait` waits; 0: none, or none is known. */
uint32_t kolo_progress_report_node(const kolo_comm *comm, const struct kolo_wait *wait);

/* Returns the words for what kolo_process_activity says: "stopped (by a signal such as SIGSTOP, or a debugger)". */
const char *kolo_progress_report_activity(char activity);

/* Logs a warning if `wait` has lasted for long, and another each time that it has doubled. */
void kolo_progress_report_warn(kolo_comm *comm, const struct kolo_wait *wait);
