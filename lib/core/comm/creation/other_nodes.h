/* The calls that communicators of several nodes need from the layer that connects the nodes, lib/machines/internode.
 * They are function pointers, so that this layer does not depend on that one. All calls return 0 or a negative status
 * with its message, unless they say otherwise. */
#pragma once

#include "base/clock.h"
#include "comm/comm.h"

struct kolo_internode_calls;
struct kolo_message;    /* see algo/algo.h */
struct kolo_descriptor; /* see plan/plan.h */

/* The ranks of other nodes with which a communicator is being created. The layer above extends this struct. */
struct kolo_remote_ranks {
    const struct kolo_internode_calls *calls;
    const struct kolo_nodes *nodes; /* at least two */
    uint32_t node;                  /* this one */
    struct kolo_awake *awake;       /* the scale of the deadline */
    int64_t deadline_ns;
};

/* The listeners and checks of ranks that meet again, after a failure, to make another communicator. */
struct kolo_rejoin {
    struct kolo_listener *rendezvous;  /* rank 0's: open at settings->net.rendezvous; the meeting takes it */
    struct kolo_listener *listener;    /* that a leader has kept; NULL: it opens one */
    int (*look)(struct kolo_rejoin *); /* ranks that wait call it: 0, or the status of the end of their wait */
    void *owner;                       /* for `look` */
    uint32_t culprit; /* UINT32_MAX, until `look` or a creation that fails sets it: the rank at fault, by its number
                         among this node's ranks in the new communicator */
};

/* The agreement of the nodes of a broken communicator. */
struct kolo_nodes_agreement {
    struct kolo_shrink_offer offer;   /* without its file, which is for one node */
    struct kolo_listener *rendezvous; /* open at the offered place, if the lowest survivor is of this node */
    int *lifelines;                   /* [nodes]: connections to others that have agreed; or -1 */
    uint32_t nodes;
};

struct kolo_internode_calls {
    /* Creation, in this order. */

    /* Makes all ranks of the job meet. *settings becomes the settings for the ranks of this node: their local ranks, a
     * name of their own, and what rank 0 has decided for all. *remote: NULL if all ranks are on this node. */
    int (*meet)(struct kolo_remote_ranks **remote, struct kolo_settings *settings, struct kolo_rejoin *rejoin);
    /* For a rank that is not the leader, which is the lowest of its node: leaves the meeting, since the rank has found
     * the other ranks of its node. */
    void (*depart)(struct kolo_remote_ranks *remote);
    /* Looks, without waiting, whether the creation has failed elsewhere. *asked: it has not failed, but a rank of
     * another node asks which ranks it has to wait for, and the caller has to fail with the answer. */
    int (*check)(struct kolo_remote_ranks *remote, bool *asked);
    /* Extends the communicator to several nodes. */
    int (*extend)(struct kolo_remote_ranks *remote, kolo_comm *comm);
    /* For the leader, once its node's ranks are attached and know how to wait: connects with the other leaders. */
    int (*connect)(struct kolo_remote_ranks *remote, kolo_comm *comm);
    /* For the leader: returns when all nodes are ready. */
    int (*agree)(struct kolo_remote_ranks *remote, kolo_comm *comm);
    /* Ends the meeting, and tells the others of a failed creation. */
    void (*end)(struct kolo_remote_ranks *remote, int status);

    /* Runs a call, which has begun, of a communicator of several nodes. */
    int (*run)(kolo_comm *comm, const struct kolo_descriptor *descriptor, const struct kolo_message *message);
    /* Frees that layer's part of a communicator. forked: in a child, which leaves the parent's part alone. */
    void (*free)(kolo_comm *comm, bool forked);
    void (*close_listener)(struct kolo_listener *listener);
    /* Returns 0 where io_uring can be used, else the negative errno with which it is refused. */
    int (*probe_uring)(void);

    /* Shrinking, see comm/creation/shrink.c: one rank of each node calls this. `survivors` has a bit for each local
     * rank of the node. The caller must end the agreement, also where this fails. KOLO_ERR_TIMEOUT: others may be going
     * on without this node; PEER_DEAD: no leader is left; SYSTEM, VERSION. */
    int (*agree_on_survivors)(struct kolo_nodes_agreement *agreement, kolo_comm *comm, const uint64_t *survivors);
    /* Returns how long agree_on_survivors takes at most, in a communicator with that timeout. */
    int64_t (*agreement_ns_max)(int64_t timeout_ns);
    /* Returns false once another node that has agreed has ended without a message. */
    bool (*agreement_lives)(struct kolo_nodes_agreement *agreement);
    /* Ends an agreement. done: there is a new communicator here, which has the listener. */
    void (*end_agreement)(struct kolo_nodes_agreement *agreement, kolo_comm *comm, bool done);

    /* Groups, see api/groups/split.c. Opens a listener of this rank's at which some of comm's ranks can meet; *port is
     * for the next call. KOLO_ERR_SYSTEM, VERSION. */
    int (*open_rendezvous)(kolo_comm *comm, struct kolo_listener **listener, uint64_t *port);
    /* Names, as net.rendezvous does, the place where this node reaches the listener of a rank of `node`. */
    int (*name_rendezvous)(const kolo_comm *comm, uint32_t node, uint64_t port, char *rendezvous);
};
