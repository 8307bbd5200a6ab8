/* The one failure that breaks a communicator: published once, by compare-and-swap, in the segment's header, and found
 * by every other rank when a wait gets long. A rank that waits looks here at least every KOLO_SLICE_NS.
 *
 * Who finds what, in kolo_failure_check on behalf of a rank that waits for `peer`:
 *   somebody's failure is published       -> it is this rank's result too
 *   a process has ended and not left      -> PEER_DEAD, that rank, and how it ended, where the system tells
 *   `peer` has left (destroyed) properly  -> PEER_DEAD, `peer`
 *   `peer` is in the call of the same number, and that is a different call -> MISMATCH, `peer`
 *   the deadline has passed               -> TIMEOUT, the rank that is furthest behind, and whether it is stopped
 * All of it is in one word, so that every rank tells the same: two that looked at the same death may have seen
 * different things, since its parent may wait for it meanwhile. It looks at the flag once more before it believes any
 * but the first: what `peer` published before it died or left still counts. */
#ifndef KOLO_COMM_FAILURE_FAILURE_H
#define KOLO_COMM_FAILURE_FAILURE_H

#include "comm/comm.h"
#include "comm/step/call_word.h"

/* Publishes a failure unless there is one already, breaks this rank's communicator and sets the error message. Returns
 * the status of the published failure. */
int kolo_failure_publish(kolo_comm *comm, int status, uint32_t rank, int64_t code);

/* The waiter's check; waiter->owner is the communicator. */
int kolo_failure_check(kolo_waiter *waiter, const struct kolo_wait *wait);

/* The same in a call that waits for `peer` elsewhere, for so long by now: 0, or the status with which the communicator
 * broke. */
int kolo_failure_look(kolo_comm *comm, uint32_t peer, int64_t waited_ns);

/* All that is known of a failure, for other nodes, and here where it was found by the proxy or on another node. Ranks
 * are those of all nodes, as in the header's word. */
struct kolo_failure_report {
    int status;
    uint32_t rank, reporter;
    kolo_cause cause;
    int detail;
    uint32_t node; /* as a whole, whose leader is `rank`, plus one; 0: the rank alone */
    uint32_t pid;  /* of `rank`; 0: not known */
    int64_t code;
    uint64_t call, peer_calls;
    uint64_t rank_call, reporter_call; /* kolo_call_word; 0: not known */
};

/* What is published here; false if nothing is. */
bool kolo_failure_collect(const kolo_comm *comm, struct kolo_failure_report *report);

/* The proxy's: publishes a failure unless there is one already, without touching what is the leader's own. */
void kolo_failure_relay(kolo_comm *comm, const struct kolo_failure_report *report);

/* To and from the KOLO_REPORT_BYTES that nodes send each other. False: no such report is possible among `ranks` ranks.
 */
void kolo_failure_pack(const struct kolo_failure_report *report, uint8_t *bytes);
bool kolo_failure_parse(const uint8_t *bytes, uint32_t ranks, struct kolo_failure_report *report);

/* What the header's failure word says; nothing else is filled. */
void kolo_failure_unpack(uint64_t word, struct kolo_failure_report *report);

/* Describes the published failure, status 0 if there is none. */
void kolo_failure_describe(const kolo_comm *comm, kolo_failure *failure);

#endif
