/* The agreement of the ranks of a broken communicator that are on one node: which of them go on. comm/creation/shrink.c
 * says what they then make, and how that can fail.
 *
 * Roles. Each rank that calls kolo_comm_shrink takes part. The author of a generation is the rank whose view counts.
 * The leader is the lowest rank of that view. All words of the agreement are in the broken communicator's segment. Each
 * rank writes words of its own, and all write two words of the header by compare-and-swap.
 *
 * Generations, 1, 2, ...: each is one attempt to make a communicator. In one, a rank
 *   1. arrives: it stores the generation in its `shrink_arrived`, and waits until every rank that was left has arrived,
 *      has ended or has departed, until a decision is there, or until the deadline has passed. A rank that lives but
 *      has not arrived is left out.
 *   2. decides: it writes its view, the set of the ranks that it saw arrive, into its own proposal, and tries to write
 *      its number into the header's `shrink_decision`. The first rank that does is the author, whose view holds even if
 *      it has died.
 *   3. takes part: the leader offers a file, in its own proposal, and the others open it. All of them make a
 *      communicator over it.
 *   4. concludes, unless it has that communicator: it writes into the header's `shrink_outcome`
 *        ABORTED  with the rank that is gone or was not ready in time, if one is known: the next generation begins
 *                 without that rank,
 *        FAILED   with the status of a rank that lacks memory, a descriptor or the like: the call fails on all.
 *      Only the first outcome counts; all ranks go by it.
 *
 * Invariants.
 *   - Both words hold the generation above all else, and only grow: a generation has one decision and outcome at most.
 *   - A rank is in generation g + 1 only if it has read the outcome of g. So a rank that finds a later generation than
 *     its own in either word knows that the others went on without it.
 *   - There is an outcome of g only where no rank of this node gets a communicator in g: its writer has not registered
 *     in the creation and will not, or the writer's creation has failed, which it then does on all.
 *   - A rank's two proposals alternate. That of g is written again in g + 2, after the decision of g + 1. A rank that
 *     copies a view or an offer, and finds the words still at g after that, has copied what was written for g.
 *   - There are no more generations than ranks, and each wait ends by the communicator's timeout.
 *   death of                          leaves
 *   a rank that has not arrived       a view without it
 *   an author                         its view, which counts
 *   the leader, before its offer      an outcome ABORTED by a rank that waits for the offer
 *   the leader, after its offer       a file that nobody fills, or that cannot be opened any more: the others find the
 *                                     leader gone, and conclude ABORTED
 *   a rank that has not registered    the others find it gone while they wait in the creation: ABORTED
 *   a rank that has registered        as in any creation (comm/creation/outcome.h): it fails on all, ABORTED; or all
 *                                     were attached, and the first call finds the death */
#pragma once

#include "base/clock.h"
#include "comm/comm.h"

#define KOLO_NOBODY UINT32_MAX

/* This result takes the place of a status: no communicator in this generation, as a rank is gone or was not ready. */
enum { KOLO_AGREEMENT_OVER = 1 };

/* One generation. */
struct kolo_agreement {
    kolo_comm *comm; /* the broken one */
    uint64_t generation;
    uint32_t leader;
    struct kolo_awake awake; /* the present wait's */
    int64_t deadline_ns;     /* likewise */
    int64_t look_ns;         /* when to look next which ranks live */
    int64_t pause_ns;
};

/* Steps 1 and 2 of the next generation: comm->survivors becomes the view, a bit for each rank. KOLO_ERR_TIMEOUT: the
 * others went on without this rank. KOLO_ERR_VERSION: the segment is damaged. */
int kolo_agreement_reach(struct kolo_agreement *agreement, kolo_comm *comm);

/* Step 3, the leader's part: it keeps the file open until its creation is over. */
void kolo_agreement_offer(const struct kolo_agreement *agreement, const struct kolo_shrink_offer *offer);

/* Step 3, the others' part: they wait for `more_ns` beyond the timeout. *fd is a descriptor of the file, for the caller
 * to close. KOLO_AGREEMENT_OVER: the leader has not offered one. KOLO_ERR_SYSTEM: it cannot be opened. */
int kolo_agreement_accept(struct kolo_agreement *agreement, int64_t more_ns, struct kolo_shrink_offer *offer, int *fd);

/* For a rank that waits in the creation: returns 0, or why it stops; *culprit: the rank at fault, or KOLO_NOBODY. */
int kolo_agreement_look(struct kolo_agreement *agreement, uint32_t *culprit);

/* Step 4, for a rank whose part has ended with `rc`: an error that all ranks get, or KOLO_AGREEMENT_OVER. `culprit`:
 * the rank at fault, or KOLO_NOBODY. Returns KOLO_AGREEMENT_OVER: the next generation begins; or the call's error. */
int kolo_agreement_conclude(const struct kolo_agreement *agreement, int rc, uint32_t culprit);

/* Returns KOLO_ERR_VERSION, with the message that what `rank` wrote is damaged. */
int kolo_agreement_fail_damaged(const struct kolo_agreement *agreement, uint32_t rank);
