/* What communicators of several nodes need from the layer that connects the nodes, lib/internode: one table of calls,
 * so that this layer does not depend on it. All calls return 0 or a negative status with its message, unless they say
 * otherwise. */
#ifndef KOLO_COMM_CREATION_OTHER_NODES_H
#define KOLO_COMM_CREATION_OTHER_NODES_H

#include "base/awake.h"
#include "comm/comm.h"
#include "comm/creation/options.h"
#include "comm/nodes.h"

struct kolo_internode_calls;
struct kolo_message; /* see algo/algo.h */

/* The ranks of other nodes with which a communicator is being created. The layer above knows more of them. */
struct kolo_remote_ranks {
    const struct kolo_internode_calls *calls;
    const struct kolo_nodes *nodes; /* at least two */
    uint32_t node;                  /* this one */
    struct kolo_awake *awake;       /* by which the deadline is */
    int64_t deadline_ns;
};

/* What already exists when ranks of a communicator meet again to make another one. */
struct kolo_rejoin {
    struct kolo_listener *rendezvous;  /* rank 0's: open at settings->net.rendezvous; the meeting takes it */
    struct kolo_listener *listener;    /* that a leader has kept; NULL: it opens one */
    int (*look)(struct kolo_rejoin *); /* called by ranks that wait: 0, or the status with which to stop waiting */
    void *owner;                       /* for `look` */
    uint32_t culprit; /* UINT32_MAX, until `look` or a creation that fails sets it: who is at fault, by its number among
                         this node's ranks in the new communicator */
};

/* What the nodes of a broken communicator have agreed on. */
struct kolo_nodes_agreement {
    struct kolo_shrink_offer offer;   /* without its file, which is for one node */
    struct kolo_listener *rendezvous; /* open there, if the lowest of them is of this node */
    int *lifelines;                   /* [nodes]: connections to others that have agreed; or -1 */
    uint32_t nodes;
};

struct kolo_internode_calls {
    /* Creation, in this order. */

    /* All ranks of the job meet. *settings becomes the settings for the ranks of this node: their local ranks, a name
     * of their own, and what rank 0 has decided for all. *remote: NULL if all are on this node. */
    int (*meet)(struct kolo_remote_ranks **remote, struct kolo_settings *settings, struct kolo_rejoin *rejoin);
    /* For a rank that is not the leader, the lowest of its node: it has found its node's other ranks. */
    void (*depart)(struct kolo_remote_ranks *remote);
    /* Looks, without waiting, whether the creation has failed elsewhere. *asked: it has not, but a rank of another node
     * asks which ranks it has to wait for, and the caller has to fail with the answer. */
    int (*check)(struct kolo_remote_ranks *remote, bool *asked);
    /* Makes the communicator one of several nodes. */
    int (*extend)(struct kolo_remote_ranks *remote, kolo_comm *comm);
    /* For the leader, once its node's ranks are attached and know how to wait: connects it with the other leaders. */
    int (*connect)(struct kolo_remote_ranks *remote, kolo_comm *comm);
    /* For the leader: returns when all nodes are ready. */
    int (*agree)(struct kolo_remote_ranks *remote, kolo_comm *comm);
    /* Ends it; a failed creation is told to the others. */
    void (*end)(struct kolo_remote_ranks *remote, int status);

    /* Runs a call of a communicator of several nodes, which has begun. */
    int (*run)(kolo_comm *comm, kolo_collective collective, const struct kolo_message *message);
    /* Frees that layer's part of a communicator. forked: in a child, which leaves the parent's part alone. */
    void (*free)(kolo_comm *comm, bool forked);
    void (*close_listener)(struct kolo_listener *listener);
    /* 0 where io_uring can be used; else the negative errno with which it is refused. */
    int (*probe_uring)(void);

    /* Shrinking, see comm/creation/shrink.c: for one rank of each node. `survivors` has a bit for each of its local
     * ranks. The agreement must be ended, also where this fails. KOLO_ERR_TIMEOUT: others may be going on without this
     * node; PEER_DEAD: no leader is left; SYSTEM, VERSION. */
    int (*agree_on_survivors)(struct kolo_nodes_agreement *agreement, kolo_comm *comm, const uint64_t *survivors);
    /* How long that takes at most, in a communicator with that timeout. */
    int64_t (*agreement_ns_max)(int64_t timeout_ns);
    /* False once another node that has agreed has ended without a message. */
    bool (*agreement_lives)(struct kolo_nodes_agreement *agreement);
    /* done: there is a new communicator here, which has the listener. */
    void (*end_agreement)(struct kolo_nodes_agreement *agreement, kolo_comm *comm, bool done);

    /* Groups, see api/groups/split.c. Opens a listener of this rank's at which some of comm's ranks can meet; *port is
     * for the next call. KOLO_ERR_SYSTEM, VERSION. */
    int (*open_rendezvous)(kolo_comm *comm, struct kolo_listener **listener, uint64_t *port);
    /* Says, as net.rendezvous does, where this node reaches the listener that a rank of `node` has opened. */
    int (*name_rendezvous)(const kolo_comm *comm, uint32_t node, uint64_t port, char *rendezvous);
};

#endif
