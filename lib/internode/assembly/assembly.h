/* How the ranks of a job on several machines find each other, before those of each node meet in shared memory
 * (comm/creation/rendezvous.h).
 *
 * Roles. Rank 0 keeps a connection to every other rank. The lowest rank of each node is its leader.
 *
 *   1. Rank 0 opens a listener at the rendezvous address. Every other rank connects there and says, as JOIN, who it is,
 *      and then where its shared memory is: the kernel's boot id, and device and inode of the place where its node's
 *      ranks would meet (the inherited file, or else /dev/shm). Ranks with equal ones are one node.
 *   2. Once all have come, rank 0 closes the listener. It tells each rank which ranks are on which node, a session
 *      (random, new for each creation), and what binds all (struct kolo_terms).
 *   3. Each node's ranks meet in shared memory. A rank that is no leader then says READY, and closes its connection as
 *      soon as the others can see in shared memory whether it lives; until then rank 0 sees it.
 *   4. Each leader, once all ranks of its node are attached, opens a listener at its own address, tells rank 0 that
 *      address and gets those of all leaders. Node i connects to nodes 0 .. i - 1, as CONTROL and then as DATA for each
 *      stream of each lane, with a key derived from secret and session, and answers the others' connections.
 *   5. Each leader makes all that it needs to begin with, tells rank 0 that it is ready, and goes on when rank 0 says
 *      that all are. Only then does KOLO_NET_SILENCE_MS begin: a leader that is linked already may wait for long. It
 *      keeps its listener, and answers there only if the communicator is to be shrunk
 *      (internode/assembly/shrink_nodes.h).
 *
 * Any failure, including the end of a connection and the deadline, ends the creation on all: rank 0 tells the others,
 * and a leader tells its node through the job file. A rank whose time is up asks rank 0 which ranks are missing before
 * it gives up. */
#ifndef KOLO_INTERNODE_ASSEMBLY_ASSEMBLY_H
#define KOLO_INTERNODE_ASSEMBLY_ASSEMBLY_H

#include "base/awake.h"
#include "internode/assembly/assembly_message.h"
#include "comm/nodes.h"
#include "comm/creation/other_nodes.h"

struct kolo_assembly; /* see internode/assembly/assembly_peers.h */

/* The result of the first part; `nodes` is the caller's to free. */
struct kolo_membership {
    struct kolo_nodes nodes;
    uint32_t node; /* this rank's */
    uint8_t session[KOLO_SESSION_BYTES];
    struct kolo_terms terms;
    char job[KOLO_JOB_NAME_BYTES]; /* a name of this creation's, under which the ranks of a node can meet in /dev/shm */
};

/* The first part, for every rank: settings->rendezvous is set. `rejoin` is NULL but after a failure; it must outlive
 * the assembly. The assembly must be closed, also if this fails (closing NULL is fine). KOLO_ERR_TIMEOUT lists the
 * ranks that never came; MISMATCH: duplicate rank, different sizes or jobs; PEER_DEAD; VERSION; SYSTEM; ARG. */
int kolo_assembly_gather(struct kolo_assembly **assembly, const struct kolo_settings *settings,
                         struct kolo_rejoin *rejoin, struct kolo_membership *membership);

/* From one leader to another. */
static inline uint32_t kolo_assembly_sockets(const struct kolo_terms *terms) {
    return terms->net.lanes * (1 + terms->net.streams);
}

/* Looks, without waiting, whether the creation has failed elsewhere: 0, or the status. For all ranks, while their nodes
 * meet. */
int kolo_assembly_check(struct kolo_assembly *assembly);

/* For a rank that is no leader, when it has met the ranks of its node. */
void kolo_assembly_depart(struct kolo_assembly *assembly);

/* For rank 0, after kolo_assembly_check has failed with TIMEOUT: true if it failed only because another rank asks which
 * ranks it has to wait for. Then the caller, which waits for ranks of its node, has to answer. */
bool kolo_assembly_is_asked(struct kolo_assembly *assembly);

/* The deadline of the creation, and the clock for it. A rank that is no leader waits for a moment more, for what its
 * leader hears then. */
int64_t kolo_assembly_deadline_ns(const struct kolo_assembly *assembly, bool leads);
struct kolo_awake *kolo_assembly_awake(struct kolo_assembly *assembly);

/* The second part, for leaders of two nodes or more: fds[node * kolo_assembly_sockets(terms)] is the control socket of
 * lane 0 to that node, its data sockets follow, then those of the other lanes; -1 for this node's own, and all where it
 * fails. *listener, which is NULL or the one that has been kept, becomes the one at which this leader can be reached;
 * on failure it stays as it was. listener NULL: it is closed. listeners, unless NULL, gets the addresses of all nodes'
 * listeners, KOLO_ADDRESS_WIRE_BYTES each. */
int kolo_assembly_link(struct kolo_assembly *assembly, const struct kolo_membership *membership, int *fds,
                       struct kolo_listener **listener, uint8_t *listeners);

/* The last part, for the same leaders, once they have all that they need to begin. Returns when all are ready, at the
 * same moment as far as messages allow. If a leader ends between the others' return and its own, its node has no
 * communicator. */
int kolo_assembly_agree(struct kolo_assembly *assembly, const struct kolo_membership *membership);

/* The leader whose end has made the creation fail; UINT32_MAX if it was something else. */
uint32_t kolo_assembly_ended(const struct kolo_assembly *assembly);

/* Tells the others, as far as can be, that the creation has failed here with `status`, which it returns. */
int kolo_assembly_fail(struct kolo_assembly *assembly, int status);

void kolo_assembly_close(struct kolo_assembly *assembly);

#endif
