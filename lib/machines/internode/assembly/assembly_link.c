/* The second part of an assembly: the leaders of all nodes connect to each other.
 *
 * Nothing deadlocks: node i connects only to the nodes before it, in their order, and then answers the nodes after it.
 * So node 0 answers at once, node 1 as soon as node 0 has answered it, and so on. A node gives up a connect only if the
 * creation fails, so that no side keeps a socket that the other side does not have. */
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/status.h"
#include "internode/assembly/assembly.h"
#include "sync/point.h"

#define REACH_NS (15000 * KOLO_NS_PER_MS) /* for an address that does not answer: packets may be lost for a while */

struct meeting {
    struct kolo_assembly *assembly;
    const struct kolo_membership *membership;
    uint32_t sockets; /* to one node */
    int *fds;
    struct kolo_secret key; /* of this session */
    struct kolo_listener *listener;
    bool is_kept;            /* the listener is older than this creation */
    struct kolo_address own; /* where the listener is */
};

static uint32_t leader(const struct meeting *meeting, uint32_t node) {
    return kolo_nodes_rank(&meeting->membership->nodes, node, 0);
}

static struct kolo_address *listener_of(const struct meeting *meeting, uint32_t node) {
    return &meeting->assembly->peers[leader(meeting, node)].listener;
}

static int check_limit(const struct meeting *meeting) {
    const uint32_t others = meeting->membership->nodes.nodes - 1;
    const uint64_t needed = (uint64_t)others * meeting->sockets + 1; /* and the listener */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > needed)
        return 0;
    return kolo_assembly_say(
        meeting->assembly, KOLO_ERR_SYSTEM,
        "%" PRIu64
        " sockets are needed to %u other machines, and this process may open %llu files: raise it (ulimit -n %" PRIu64
        "), or set threads:N or streams:N of KOLO_NET lower",
        needed, others, (unsigned long long)files.rlim_cur, 2 * needed + 64);
}

/* Listeners. */

static int open_listener(struct meeting *meeting) {
    struct kolo_assembly *assembly = meeting->assembly;
    const int family = assembly->rendezvous.storage.ss_family;
    const char *text = kolo_environment_text(KOLO_VARIABLE_NET_ADDR);
    struct kolo_address address = assembly->rendezvous;
    int rc = 0;
    if (text)
        rc = kolo_address_of_interface(kolo_environment_name(KOLO_VARIABLE_NET_ADDR), text, family, &address);
    else if (assembly->rank != 0 && (rc = kolo_address_of_socket(assembly->peers[0].fd, &address)) < 0)
        rc = kolo_fail_system(-rc, "reading a socket's address");
    if (rc < 0)
        return rc;
    kolo_address_set_port(&address, 0);
    if (meeting->is_kept) {
        kolo_listener_log(meeting->listener, KOLO_LOG_OFF,
                          0); /* connections that were given up meanwhile are not worth a message */
        return kolo_listener_reopen(meeting->listener, &meeting->key, &meeting->own);
    }
    rc = kolo_listener_open(&meeting->listener, &address, &meeting->key, &meeting->own);
    if (rc == 0)
        kolo_listener_log(meeting->listener, assembly->settings.log_level, (int)assembly->rank);
    return rc;
}

/* Rank 0 learns all listeners and tells each other leader. */
static int spread_listeners(struct meeting *meeting) {
    struct kolo_assembly *assembly = meeting->assembly;
    const uint32_t nodes = meeting->membership->nodes.nodes;
    *listener_of(meeting, 0) = meeting->own;
    int rc = kolo_assembly_serve_until(assembly, KOLO_MESSAGE_LISTENERS, nodes - 1);
    for (uint32_t first = 0; first < nodes; first += KOLO_MESSAGE_LISTENERS_MAX) {
        struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_LISTENERS};
        message.first = first;
        message.count = nodes - first < KOLO_MESSAGE_LISTENERS_MAX ? nodes - first : KOLO_MESSAGE_LISTENERS_MAX;
        for (uint32_t i = 0; i < message.count; i++)
            message.listener[i] = *listener_of(meeting, first + i);
        for (uint32_t node = 1; rc == 0 && node < nodes; node++)
            rc = kolo_assembly_send(assembly, leader(meeting, node), &message);
    }
    return rc;
}

/* The others tell rank 0 of theirs and learn all. */
static int learn_listeners(struct meeting *meeting) {
    struct kolo_assembly *assembly = meeting->assembly;
    const uint32_t nodes = meeting->membership->nodes.nodes;
    struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_LISTENERS};
    message.first = meeting->membership->node;
    message.count = 1;
    message.listener[0] = meeting->own;
    int rc = kolo_assembly_send(assembly, 0, &message);
    for (uint32_t first = 0; rc == 0 && first < nodes; first += message.count) {
        rc = kolo_assembly_await(assembly, KOLO_MESSAGE_LISTENERS, &message);
        if (rc == 0 && (message.first != first || message.count > nodes - first))
            rc = kolo_assembly_say(assembly, KOLO_ERR_VERSION, "rank 0 sent a list of addresses that is damaged");
        for (uint32_t i = 0; rc == 0 && i < message.count; i++) {
            *listener_of(meeting, first + i) = message.listener[i];
            rc = kolo_address_localize(listener_of(meeting, first + i), assembly->peers[0].fd);
            if (rc < 0)
                rc = kolo_fail_system(-rc, "reading a socket's address");
        }
    }
    return rc;
}

/* Sockets. */

static int *place_of(const struct meeting *meeting, uint32_t node, uint32_t socket) {
    return &meeting->fds[node * meeting->sockets + socket];
}

/* Tells all ranks which node's address cannot be reached: rank 0 knows only which ranks wait. */
static int fail_unreached(const struct meeting *meeting, uint32_t node) {
    char text[KOLO_ADDRESS_TEXT_BYTES];
    return kolo_assembly_say(meeting->assembly, KOLO_ERR_TIMEOUT,
                             "rank %u cannot reach rank %u, which listens at %s (%s): does a firewall block ports "
                             "between these machines, or is that the wrong one of its addresses? KOLO_NET_ADDR on its "
                             "machine chooses another",
                             meeting->assembly->rank, leader(meeting, node),
                             kolo_address_text(listener_of(meeting, node), text), kolo_error_message());
}

static int connect_to(struct meeting *meeting, uint32_t node, uint32_t socket) {
    struct kolo_assembly *assembly = meeting->assembly;
    const int64_t left_ns = assembly->deadline_ns - kolo_awake_ns(&assembly->awake);
    struct kolo_connecting wanted = {
        .to = listener_of(meeting, node),
        .from = kolo_address_is_any(&meeting->own) ? NULL : &meeting->own,
        .secret = &meeting->key,
        .self = {.role = KOLO_ROLE_LINK, .rank = assembly->rank, .size = assembly->size, .stream = socket},
        .awake = &assembly->awake,
        .deadline_ns = assembly->deadline_ns,
        .reach_ns = left_ns / 4 * 3 < REACH_NS ? left_ns / 4 * 3 : REACH_NS, /* in time for all to hear of it */
        .alert_fd = assembly->peers[0].fd,
    };
    wanted.self.node = meeting->membership->node;
    memcpy(wanted.self.session, meeting->membership->session, sizeof wanted.self.session);
    const int rc = kolo_connect(&wanted, place_of(meeting, node, socket));
    struct kolo_assembly_message message;
    if (rc == 1) /* rank 0 can only have said that the creation has failed */
        return kolo_assembly_await(assembly, KOLO_MESSAGE_FAILED, &message);
    if (rc == KOLO_ERR_TIMEOUT && kolo_awake_ns(&assembly->awake) >= assembly->deadline_ns)
        return kolo_assembly_timeout(assembly);
    if (rc == KOLO_ERR_TIMEOUT)
        return fail_unreached(meeting, node);
    if (rc < 0)
        return kolo_assembly_say(assembly, rc, "reaching rank %u: %s", leader(meeting, node), kolo_error_message());
    return 0;
}

/* Keeps a socket that has come. Returns 1 if the socket was still to come; 0 if the other side has come again. The
 * other side comes again if it has not learnt that it was admitted, if its node has not noticed yet that the others go
 * on (internode/assembly/shrink_nodes.c), or if the socket is of an earlier attempt. */
static int keep(void *owner, int fd, const struct kolo_introduction *who) {
    struct meeting *meeting = owner;
    const struct kolo_membership *membership = meeting->membership;
    if (!who->foreign && who->role == KOLO_ROLE_LINK && who->stream < meeting->sockets &&
        who->size == meeting->assembly->size && memcmp(who->session, membership->session, sizeof who->session) == 0 &&
        who->node > membership->node && who->node < membership->nodes.nodes &&
        who->rank == leader(meeting, who->node)) {
        int *place = place_of(meeting, who->node, who->stream);
        const bool is_new = *place < 0;
        if (!is_new)
            close(*place);
        *place = fd;
        KOLO_POINT("assembly.kept");
        return is_new;
    }
    close(fd);
    if (meeting->is_kept &&
        (who->role == KOLO_ROLE_SHRINK || memcmp(who->session, membership->session, sizeof who->session) != 0))
        return 0;
    return kolo_assembly_say(meeting->assembly, KOLO_ERR_MISMATCH,
                             "node %u (rank %u) came for a connection that is not awaited", who->node, who->rank);
}

static int connect_all(struct meeting *meeting) {
    struct kolo_assembly *assembly = meeting->assembly;
    int rc = check_limit(meeting);
    if (rc == 0)
        rc = open_listener(meeting);
    if (rc == 0)
        rc = assembly->rank == 0 ? spread_listeners(meeting) : learn_listeners(meeting);
    KOLO_POINT("assembly.led_to_listeners");
    assembly->awaited = KOLO_MESSAGE_READY;
    for (uint32_t node = 0; rc == 0 && node < meeting->membership->node; node++)
        for (uint32_t socket = 0; rc == 0 && socket < meeting->sockets; socket++)
            rc = connect_to(meeting, node, socket);
    if (rc == 0)
        rc = kolo_assembly_answer(assembly, meeting->listener,
                                  (meeting->membership->nodes.nodes - 1 - meeting->membership->node) * meeting->sockets,
                                  keep, meeting);
    KOLO_POINT("assembly.linked");
    return rc;
}

static int fail(struct kolo_assembly *assembly, int status) {
    if (!assembly->reason[0])
        kolo_assembly_say(assembly, status, "%s", kolo_error_message());
    return kolo_assembly_fail(assembly, status);
}

int kolo_assembly_link(struct kolo_assembly *assembly, const struct kolo_membership *membership, int *fds,
                       struct kolo_listener **listener, uint8_t *listeners) {
    struct meeting meeting = {.assembly = assembly,
                              .membership = membership,
                              .sockets = kolo_assembly_sockets(&membership->terms),
                              .fds = fds,
                              .listener = listener ? *listener : NULL,
                              .is_kept = listener && *listener};
    const uint32_t count = membership->nodes.nodes * meeting.sockets;
    for (uint32_t i = 0; i < count; i++)
        fds[i] = -1;
    kolo_secret_derive(&assembly->secret, membership->session, sizeof membership->session, &meeting.key);
    const int rc = connect_all(&meeting);
    for (uint32_t node = 0; rc == 0 && listeners && node < membership->nodes.nodes; node++)
        kolo_address_pack(listener_of(&meeting, node), listeners + (size_t)node * KOLO_ADDRESS_WIRE_BYTES);
    if (rc == 0 && listener)
        *listener = meeting.listener;
    else if (meeting.listener && !meeting.is_kept)
        kolo_listener_close(meeting.listener);
    kolo_secret_forget(&meeting.key);
    if (rc == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
    return fail(assembly, rc);
}

int kolo_assembly_agree(struct kolo_assembly *assembly, const struct kolo_membership *membership) {
    const struct kolo_nodes *nodes = &membership->nodes;
    struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_READY};
    int rc;
    if (assembly->rank != 0) {
        rc = kolo_assembly_send(assembly, 0, &message);
        rc = rc < 0 ? rc : kolo_assembly_await(assembly, KOLO_MESSAGE_GO, &message);
    } else {
        rc = kolo_assembly_serve_until(assembly, KOLO_MESSAGE_READY, nodes->nodes - 1);
        message.kind = KOLO_MESSAGE_GO;
        for (uint32_t node = 1; rc == 0 && node < nodes->nodes; node++)
            rc = kolo_assembly_send(assembly, kolo_nodes_rank(nodes, node, 0), &message);
    }
    KOLO_POINT("assembly.agreed");
    return rc < 0 ? fail(assembly, rc) : 0;
}
