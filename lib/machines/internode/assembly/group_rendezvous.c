/* Opens listeners for ranks that make another communicator, and says at which addresses they listen. */
#include "internode/assembly/group_rendezvous.h"

#include "base/status.h"
#include "sync/point.h"

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

int kolo_rendezvous_open(kolo_comm *comm, struct kolo_listener **listener, uint64_t *port) {
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

int kolo_rendezvous_name(const kolo_comm *comm, uint32_t node, uint64_t port, char *rendezvous) {
    struct kolo_address address;
    const int rc = kolo_leader_address(comm, node, &address);
    if (rc < 0)
        return rc;
    kolo_address_set_port(&address, (uint16_t)port);
    kolo_address_text(&address, rendezvous);
    return 0;
}
