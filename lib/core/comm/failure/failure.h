/* The failure: a communicator breaks by one failure. It is published once, by compare-and-swap, in the segment's
 * header, and every other rank finds it when a wait gets long. A rank looks at least every KOLO_SLICE_NS.
 *
 * What kolo_failure_check finds for a rank that waits for `peer`:
 *   a failure has been published       this rank returns it, too
 *   a process has ended, not left      PEER_DEAD, that rank, and how it ended, if the system tells
 *   `peer` has left (destroyed)        PEER_DEAD, `peer`; in a send or a receive: one that it needs
 *   `peer` makes a different call of   MISMATCH, `peer`
 *   the same number
 *   the deadline has passed            TIMEOUT, the rank that is furthest behind, and whether it is stopped; in a send
 *                                      or a receive the one that it waits for in the end
 * The failure is in one word, so that every rank reports the same: two ranks that look at the same death may see
 * different things, since the parent may wait for the dead process meanwhile. Before it believes any finding but the
 * first, the check looks at the flag once more: what `peer` published before it died or left still counts.
 *
 * All lanes of a communicator (api/lanes/lanes.h) have one failure, in the header of lane 0's segment. A rank's lanes
 * are threads of one process; the one that first has something to publish writes down what there is to tell. */
#pragma once

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/step/call_key.h"

/* Publishes a failure of this rank unless there is one already, breaks this rank's communicator and sets the error
 * message. Returns the status of the published failure. Status PEER_DEAD: this rank leaves, with a call under way. */
int kolo_failure_publish(kolo_comm *comm, int status, int64_t code);

/* Likewise, of `rank` of this node. */
int kolo_failure_publish_near(kolo_comm *comm, int status, uint32_t rank, int64_t code);

/* Publishes a MISMATCH: a message of `rank`, among all nodes, does not fit this rank's receive; see comm->channels. */
int kolo_failure_publish_pair(kolo_comm *comm, uint32_t rank);

/* Publishes a MISMATCH: `rank` sends this rank `sent` elements where it expects `expected`. */
int kolo_failure_publish_counts(kolo_comm *comm, uint32_t rank, uint64_t sent, uint64_t expected);

/* Returns the two counts as the code of a report, each as far as there is room; 0 means that there are none. */
int64_t kolo_failure_counts(uint64_t sent, uint64_t expected);

/* The waiter's check; waiter->owner is the communicator. */
int kolo_failure_check(kolo_waiter *waiter, const struct kolo_wait *wait);

/* Like kolo_failure_check, for a call that has waited for `peer` itself by other means for waited_ns. */
int kolo_failure_look(kolo_comm *comm, uint32_t peer, int64_t waited_ns);

/* The time between two questions whether the program was interrupted. */
#define KOLO_INTERRUPT_NS (100 * KOLO_NS_PER_MS)

/* Asks the program's own check (kolo_hooks.interrupt), if that is this thread's and the time for it has come.
 * Returns the code of an abort, from the check or from one in the wait of another thread, or 0. */
int kolo_failure_ask(struct kolo_interrupt *interrupt);

/* A report: all that is known of a failure. It is for other nodes and, where the proxy or another node has found the
 * failure, for this one. Ranks are numbered among all nodes, as in the header's word. */
struct kolo_failure_report {
    int status;
    uint32_t rank, reporter;
    kolo_cause cause;
    int detail;    /* as kolo_failure.code; for a whole node that has ENDED, the errno of its connections, 0: closed */
    uint32_t node; /* the number, plus one, of a whole node, whose leader is `rank`; 0: the rank alone */
    uint32_t pid;  /* of `rank`; 0: not known */
    uint32_t lane; /* the lane whose calls are counted */
    int64_t code;
    uint64_t call, peer_calls;
    struct kolo_packed_key keys[2], pair[2]; /* as kolo_shared_member.failure_keys and failure_pair */
};

/* Collects the published failure. Returns false if there is none. */
bool kolo_failure_collect(const kolo_comm *comm, struct kolo_failure_report *report);

/* For other threads of a leader: publishes a failure unless there is one already, without touching the leader's own
 * data. Of communicators of several nodes. */
void kolo_failure_relay(kolo_comm *comm, const struct kolo_failure_report *report);

/* Convert a report to and from the KOLO_REPORT_BYTES that nodes send. kolo_failure_parse refuses nonsense. */
void kolo_failure_pack(const struct kolo_failure_report *report, uint8_t *bytes);
bool kolo_failure_parse(const uint8_t *bytes, uint32_t ranks, struct kolo_failure_report *report);

/* Fills in what the header's failure word says, and nothing else. */
void kolo_failure_unpack(uint64_t word, struct kolo_failure_report *report);

/* Describes the published failure; status 0 if there is none. */
void kolo_failure_describe(const kolo_comm *comm, kolo_failure *failure);

/* Writes its record (record.c), if KOLO_DUMP asks for it, once for a communicator. That it cannot be is a warning. */
void kolo_failure_record(kolo_comm *comm, const kolo_failure *failure);
