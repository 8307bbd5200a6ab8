/* The one failure that breaks a communicator: published once, by compare-and-swap, in the segment's header, and found
 * by every other rank when a wait gets long. A rank that waits looks here at least every KOLO_SLICE_NS.
 *
 * What kolo_failure_check finds for a rank that waits for `peer`:
 *   a failure has been published       this rank returns it, too
 *   a process has ended, not left      PEER_DEAD, that rank, and how it ended, if the system tells
 *   `peer` has left (destroyed)        PEER_DEAD, `peer`; in a send or a receive: one that it needs
 *   `peer` makes a different call of   MISMATCH, `peer`
 *   the same number
 *   the deadline has passed            TIMEOUT, the rank that is furthest behind, and whether it is stopped; in a send
 *                                      or a receive the one that it waits for in the end
 * The result is in one word, so that every rank reports the same: two ranks that look at the same death may see
 * different things, since the parent may wait for the dead process meanwhile. Before it believes any finding but the
 * first, the check looks at the flag once more: what `peer` published before it died or left still counts.
 *
 * All lanes of a communicator (api/lanes/lanes.h) have one failure, in the header of lane 0's segment. A rank's lanes
 * are threads of one process; the one that first has something to publish writes down what there is to tell. */
#ifndef KOLO_COMM_FAILURE_FAILURE_H
#define KOLO_COMM_FAILURE_FAILURE_H

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/step/call_word.h"

/* Publishes a failure unless there is one already, breaks this rank's communicator and sets the error message. Returns
 * the status of the published failure. PEER_DEAD: this rank leaves, with a call under way. */
int kolo_failure_publish(kolo_comm *comm, int status, uint32_t rank, int64_t code);

/* MISMATCH: a message of `rank`, of all nodes, does not fit this rank's receive; comm->channels has both calls. */
int kolo_failure_publish_pair(kolo_comm *comm, uint32_t rank);

/* MISMATCH: `rank` sends this one `sent` elements where it expects another number. */
int kolo_failure_publish_counts(kolo_comm *comm, uint32_t rank, uint64_t sent, uint64_t expected);

/* The same as the code of a report: of two counts, each as far as there is room; 0 for none. */
int64_t kolo_failure_counts(uint64_t sent, uint64_t expected);

/* The waiter's check; waiter->owner is the communicator. */
int kolo_failure_check(kolo_waiter *waiter, const struct kolo_wait *wait);

/* The same for a call that waits for `peer` by other means, and has done so for waited_ns: 0, or the status with which
 * the communicator broke. */
int kolo_failure_look(kolo_comm *comm, uint32_t peer, int64_t waited_ns);

/* Between two questions whether the program was interrupted. */
#define KOLO_INTERRUPT_NS (100 * KOLO_NS_PER_MS)

/* What the program's own check says (kolo_comm_set_interrupt), if it is this thread's and its turn, or has said in the
 * wait of another thread: the code of an abort, or 0. */
int kolo_failure_ask(struct kolo_interrupt *interrupt);

/* All that is known of a failure, for other nodes, and here where it was found by the proxy or on another node. Ranks
 * are those of all nodes, as in the header's word. */
struct kolo_failure_report {
    int status;
    uint32_t rank, reporter;
    kolo_cause cause;
    int detail;    /* as kolo_failure.code; of a whole node that has ENDED the errno of its connections, 0: closed */
    uint32_t node; /* a whole node, whose leader is `rank`, plus one; 0: the rank alone */
    uint32_t pid;  /* of `rank`; 0: not known */
    uint32_t lane; /* in which the calls are counted */
    int64_t code;
    uint64_t call, peer_calls;
    uint64_t rank_call, reporter_call; /* kolo_call_word; 0: not known */
    struct kolo_pair_call pair[2];     /* as kolo_shared_member.failure_pair */
};

/* What is published here; false if nothing is. */
bool kolo_failure_collect(const kolo_comm *comm, struct kolo_failure_report *report);

/* For the proxy: publishes a failure unless there is one already, without touching the leader's own data. */
void kolo_failure_relay(kolo_comm *comm, const struct kolo_failure_report *report);

/* Convert a report to and from the KOLO_REPORT_BYTES that nodes send each other. False: the report makes no sense for
 * `ranks` ranks. */
void kolo_failure_pack(const struct kolo_failure_report *report, uint8_t *bytes);
bool kolo_failure_parse(const uint8_t *bytes, uint32_t ranks, struct kolo_failure_report *report);

/* What the header's failure word says; nothing else is filled. */
void kolo_failure_unpack(uint64_t word, struct kolo_failure_report *report);

/* Describes the published failure, status 0 if there is none. */
void kolo_failure_describe(const kolo_comm *comm, kolo_failure *failure);

#endif
