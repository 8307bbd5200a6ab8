/* The calls that comm/ makes of the layer between nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/failure/failure.h"
#include "internode/assembly/assembly.h"
#include "internode/hierarchy/hierarchy.h"
#include "internode/proxy.h"
#include "net/engine.h"
#include "sync/point.h"

struct creation {
    struct kolo_remote_ranks remote; /* first */
    struct kolo_assembly *assembly;
    struct kolo_membership membership;
    bool extended; /* membership.nodes is the communicator's to free */
    struct kolo_rejoin *rejoin;
};

static struct creation *creation_of(struct kolo_remote_ranks *remote) {
    return (struct creation *)remote;
}

static void end(struct kolo_remote_ranks *remote, int status) {
    struct creation *creation = creation_of(remote);
    if (status < 0)
        kolo_assembly_fail(creation->assembly, status);
    kolo_assembly_close(creation->assembly);
    if (!creation->extended)
        kolo_nodes_free(&creation->membership.nodes);
    free(creation);
}

/* Fills in the settings with which the ranks of this node go on: their local ranks, and what rank 0 has decided. */
static void localize(struct kolo_settings *settings, const struct kolo_membership *membership) {
    settings->place.rank = kolo_nodes_local_rank(&membership->nodes, (uint32_t)settings->place.rank);
    settings->place.size = kolo_nodes_local_size(&membership->nodes, membership->node);
    settings->slot_bytes = membership->terms.slot_bytes;
    settings->algorithm = membership->terms.algorithm;
    settings->threads = membership->terms.threads;
    const struct kolo_net_settings own = settings->net;
    settings->net = membership->terms.net;
    memcpy(settings->net.rendezvous, own.rendezvous, sizeof own.rendezvous);
    settings->net.engine = own.engine;
    settings->net.zero_copy = own.zero_copy;
    if (settings->shm_fd < 0)
        snprintf(settings->place.job, sizeof settings->place.job, "%s", membership->job);
}

static int meet(struct kolo_remote_ranks **remote, struct kolo_settings *settings, struct kolo_rejoin *rejoin) {
    struct creation *creation = calloc(1, sizeof *creation);
    if (!creation)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    struct kolo_membership *membership = &creation->membership;
    const int rc = kolo_assembly_gather(&creation->assembly, settings, rejoin, membership);
    if (rc == 0)
        localize(settings, membership);
    if (rc < 0 || membership->nodes.nodes == 1) {
        end(&creation->remote, 0);
        return rc;
    }
    creation->rejoin = rejoin;
    creation->remote = (struct kolo_remote_ranks){
        .calls = &kolo_internode_calls,
        .nodes = &membership->nodes,
        .node = membership->node,
        .awake = &creation->assembly->awake,
        .deadline_ns = kolo_assembly_deadline_ns(creation->assembly, settings->place.rank == 0)};
    *remote = &creation->remote;
    return 0;
}

static void depart(struct kolo_remote_ranks *remote) {
    kolo_assembly_depart(creation_of(remote)->assembly);
}

static int check(struct kolo_remote_ranks *remote, bool *asked) {
    struct kolo_assembly *assembly = creation_of(remote)->assembly;
    const int rc = kolo_assembly_check(assembly);
    *asked = rc == KOLO_ERR_TIMEOUT && kolo_assembly_is_asked(assembly);
    return *asked ? 0 : rc;
}

static int extend(struct kolo_remote_ranks *remote, kolo_comm *comm) {
    struct creation *creation = creation_of(remote);
    const struct kolo_membership *membership = &creation->membership;
    struct kolo_internode *internode = calloc(1, sizeof *internode);
    if (!internode)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    *internode = (struct kolo_internode){
        .nodes = membership->nodes, .node = membership->node, .lanes = membership->terms.net.lanes};
    memcpy(internode->session, membership->session, sizeof internode->session);
    memcpy(&comm->identity, membership->session, sizeof comm->identity);
    creation->extended = true;
    comm->internode = internode;
    comm->nodes = &internode->nodes;
    comm->node = internode->node;
    int rc = kolo_subtrees_make(&internode->subtrees, &internode->nodes, KOLO_RANKS_MAX);
    if (rc == 0)
        rc = kolo_subtrees_make(&internode->inputs, &internode->nodes, 1);
    for (int kind = 0; rc == 0 && kind < KOLO_PREFIXES_KINDS; kind++)
        rc = kolo_prefixes_make(&internode->prefixes[kind], &internode->nodes, internode->node, kind);
    return rc;
}

/* Makes the connections to the other leaders, and the threads that use them. */
static int connect_leaders(struct kolo_remote_ranks *remote, kolo_comm *comm) {
    struct creation *creation = creation_of(remote);
    struct kolo_internode *internode = comm->internode;
    const uint32_t count = internode->nodes.nodes * kolo_assembly_sockets(&creation->membership.terms);
    int *fds = malloc(count * sizeof *fds);
    if (!fds)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    struct kolo_listener *none = NULL, **listener = creation->rejoin ? &creation->rejoin->listener : &none;
    int rc = kolo_assembly_link(creation->assembly, &creation->membership, fds, listener,
                                comm->segment.internode->listeners[0]);
    if (rc == 0) {
        comm->listener = *listener;
        *listener = NULL;
    }
    KOLO_POINT("listener.handed_over");
    for (uint32_t lane = 0; rc == 0 && lane < internode->lanes; lane++)
        rc = kolo_proxy_create(&internode->proxies[lane], comm, lane, fds);
    for (uint32_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(fds);
    return rc;
}

/* Tells the other nodes which leader has ended. They know already that all leaders are ready, and go on without this
 * node: so they learn why it is gone, not only that it leaves. */
static void blame_ended(kolo_comm *comm, const struct kolo_assembly *assembly) {
    const uint32_t ended = assembly->ended;
    const struct kolo_failure_report report = {
        .status = KOLO_ERR_PEER_DEAD,
        .rank = ended,
        .reporter = comm->global_rank,
        .cause = KOLO_CAUSE_ENDED,
        .node = ended < comm->nodes->size ? comm->nodes->node_of[ended] + UINT32_C(1) : 0,
    };
    if (report.node)
        kolo_failure_relay(comm, &report);
}

static int agree(struct kolo_remote_ranks *remote, kolo_comm *comm) {
    struct creation *creation = creation_of(remote);
    const int rc = kolo_assembly_agree(creation->assembly, &creation->membership);
    if (rc < 0)
        blame_ended(comm, creation->assembly);
    for (uint32_t lane = 0; rc == 0 && lane < comm->internode->lanes; lane++)
        kolo_proxy_watch(comm->internode->proxies[lane]);
    return rc;
}

/* The rendezvous of ranks that make another communicator. */

int kolo_leader_address(const kolo_comm *comm, uint32_t node, struct kolo_address *address) {
    if (kolo_address_unpack(comm->segment.internode->listeners[node], address))
        return 0;
    return kolo_fail(KOLO_ERR_VERSION, "rank %u: the address of node %u is damaged", comm->global_rank, node);
}

int kolo_rendezvous_listen(kolo_comm *comm, const struct kolo_secret *secret, struct kolo_listener **listener,
                           struct kolo_address *bound) {
    struct kolo_address own;
    int rc = kolo_leader_address(comm, comm->node, &own);
    if (rc < 0)
        return rc;
    kolo_address_set_port(&own, 0);
    rc = kolo_listener_open(listener, &own, secret, bound);
    if (rc == 0)
        kolo_listener_log(*listener, comm->log_level, (int)comm->global_rank);
    return rc;
}

static int open_rendezvous(kolo_comm *comm, struct kolo_listener **listener, uint64_t *port) {
    struct kolo_secret secret;
    struct kolo_address bound;
    int rc = kolo_secret_read(&secret);
    if (rc == 0)
        rc = kolo_rendezvous_listen(comm, &secret, listener, &bound);
    kolo_secret_forget(&secret);
    if (rc == 0)
        *port = kolo_address_port(&bound);
    KOLO_POINT("rendezvous.opened");
    return rc;
}

static int name_rendezvous(const kolo_comm *comm, uint32_t node, uint64_t port, char *rendezvous) {
    struct kolo_address address;
    const int rc = kolo_leader_address(comm, node, &address);
    if (rc < 0)
        return rc;
    kolo_address_set_port(&address, (uint16_t)port);
    kolo_address_text(&address, rendezvous);
    return 0;
}

static void free_part(kolo_comm *comm, bool forked) {
    struct kolo_internode *internode = comm->internode;
    for (uint32_t lane = 0; internode && lane < internode->lanes && internode->proxies[lane]; lane++)
        if (forked)
            kolo_proxy_forget(internode->proxies[lane]);
        else
            kolo_proxy_destroy(internode->proxies[lane]);
    kolo_listener_close(comm->listener); /* after the proxy: a closed listener means that this rank is gone */
    if (!internode)
        return;
    kolo_nodes_free(&internode->nodes);
    free(internode->subtrees);
    free(internode->inputs);
    for (int i = 0; i < KOLO_PREFIXES_KINDS; i++)
        free(internode->prefixes[i]);
    free(internode);
}

const struct kolo_internode_calls kolo_internode_calls = {
    .meet = meet,
    .depart = depart,
    .check = check,
    .extend = extend,
    .connect = connect_leaders,
    .agree = agree,
    .end = end,
    .run = kolo_hierarchy_run,
    .free = free_part,
    .close_listener = kolo_listener_close,
    .probe_uring = kolo_engine_probe_uring,
    .agree_on_survivors = kolo_nodes_agreement_reach,
    .agreement_ns_max = kolo_nodes_agreement_ns_max,
    .agreement_lives = kolo_nodes_agreement_lives,
    .end_agreement = kolo_nodes_agreement_close,
    .open_rendezvous = open_rendezvous,
    .name_rendezvous = name_rendezvous,
};
