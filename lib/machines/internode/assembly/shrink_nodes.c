/* The nodes of a broken communicator agree on the ranks that go on: a coordinator collects them, and needs a quorum.
 * One rank of each node takes part, after the ranks of its node have agreed in their own memory
 * (comm/creation/agreement.h). tests/models/nodes_agreement.pml is a model of this protocol.
 *
 * Roles
 *   leader         the lowest rank of a node. It keeps its listener from the creation; all ranks know its address.
 *   leaderless     the lowest rank that is left of a node whose leader is not. It takes part in the leader's place, but
 *                  never coordinates, since no other node knows its address.
 *   coordinator    a leader that answers at its listener. It collects which ranks are left, and concludes.
 *   participant    a rank that has come to a coordinator.
 *
 * Messages between a participant and the coordinator. Their connection is made with a key derived from the secret and
 * the broken communicator's session.
 *   SURVIVORS      participant: these ranks of my node are left, and this is where I listen for a new communicator
 *   WAIT           coordinator, four times in KOLO_NET_SILENCE_MS: I am there
 *   SURVIVORS      coordinator, its answer: these ranks of all nodes go on, and meet there
 *   FAILED         coordinator, its answer: you cannot go on, for that reason
 *
 * machines/README.md, "Which nodes go on after a failure", says how a coordinator is found, whom it waits for, why at
 * most one part goes on, and what each failure leaves. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "comm/ranks.h"
#include "internode/assembly/assembly_message.h"
#include "internode/proxy.h"
#include "net/connect/listener.h"
#include "sync/point.h"

#ifndef KOLO_LEADERLESS_MS /* tests/faults wait less */
#define KOLO_LEADERLESS_MS 2000
#endif

#define LEADERLESS_NS (KOLO_LEADERLESS_MS * KOLO_NS_PER_MS)
#define MARGIN_NS     (1000 * KOLO_NS_PER_MS)
#define LOOK_NS       (20 * KOLO_NS_PER_MS)
#define PAUSE_NS      (50 * KOLO_NS_PER_MS) /* between two attempts to reach a node */
#define ANSWERS_MAX   1024                  /* connects that are answered before anything else */

enum { BEATS_PER_SILENCE = 4, RENDEZVOUS_TRIES = 16 };

/* The coordinator waits COMING_NS for all nodes. A participant waits COORDINATOR_NS for a coordinator, since some ranks
 * begin later than others, and then ANSWER_NS for the answer. */
#define COMING_NS(timeout_ns)      (2 * (timeout_ns) + MARGIN_NS)
#define COORDINATOR_NS(timeout_ns) (COMING_NS(timeout_ns) + (timeout_ns))
#define ANSWER_NS(timeout_ns)      (COMING_NS(timeout_ns) + LEADERLESS_NS + MARGIN_NS)

enum { AGAIN = 1, NOT_KNOWN = UINT16_MAX, NOBODY = UINT16_MAX - 1 };

typedef enum leader_state { TRYING, LIVES, REFUSED, SILENT } leader_state;

/* The state of another node, as this rank knows it. */
struct other {
    struct kolo_address listener;
    leader_state leader;
    int probe;        /* -1: none */
    bool answers;     /* the leader has answered the hello, as a coordinator does */
    int64_t since_ns; /* when this rank began to try */
    int64_t heard_ns; /* when the leader last answered; before that, when the agreement began */
    int64_t again_ns;
    int participant; /* the coordinator's: connection to the participant from there; -1: none */
    size_t received;
    uint8_t bytes[KOLO_MESSAGE_BYTES];
    bool came;
    uint64_t left[KOLO_RANK_WORDS];
    struct kolo_address meeting;
};

struct agreement {
    kolo_comm *comm;
    const struct kolo_nodes *nodes;
    uint32_t node;
    struct kolo_secret secret, key;
    struct kolo_nodes_agreement *result;
    struct kolo_address meeting; /* of this node */
    uint64_t left[KOLO_RANK_WORDS];
    struct kolo_awake *awake; /* for all times here */
    int64_t begun_ns;
    int64_t deadline_ns;  /* to come to a coordinator */
    int64_t beat_ns;      /* the coordinator's: when to beat next */
    struct other *others; /* [nodes] */
    struct pollfd *polled;
};

/* Probes. */

static void drop(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Notes how an attempt to connect has ended: with that errno, or, where it is 0, with a connection. */
static void settle_probe(const struct agreement *c, struct other *other, int error) {
    if (error == 0 && kolo_socket_is_to_itself(other->probe))
        error = ECONNREFUSED;
    KOLO_POINT("agreement.probed");
    if (error == 0 && kolo_socket_prepare(other->probe) == 0 && kolo_connect_hello(other->probe, &c->key) == 0) {
        other->leader = LIVES;
        return;
    }
    drop(&other->probe);
    other->again_ns = kolo_awake_ns(c->awake) + PAUSE_NS;
    if (error == ECONNREFUSED)
        other->leader = REFUSED;
}

static void begin_probe(const struct agreement *c, struct other *other) {
    KOLO_POINT("agreement.probing");
    other->probe =
        kolo_file_raise(socket(other->listener.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (other->probe < 0)
        other->again_ns = kolo_awake_ns(c->awake) + PAUSE_NS;
    else if (connect(other->probe, (const struct sockaddr *)&other->listener.storage, other->listener.bytes) == 0)
        settle_probe(c, other, 0);
    else if (errno != EINPROGRESS)
        settle_probe(c, other, errno);
}

/* Probes the leader again, since its state may have changed. */
static void doubt(const struct agreement *c, struct other *other) {
    drop(&other->probe);
    other->leader = TRYING;
    other->answers = false;
    other->since_ns = other->again_ns = kolo_awake_ns(c->awake);
}

/* Takes an answer through a probe, or finds that the probe has broken. */
static void hear_probe(const struct agreement *c, struct other *other) {
    uint8_t bytes[KOLO_HANDSHAKE_BYTES];
    const ssize_t more = recv(other->probe, bytes, sizeof bytes, MSG_DONTWAIT);
    if (more > 0) {
        other->answers = true;
        other->heard_ns = kolo_awake_ns(c->awake);
    } else if (more == 0 || (errno != EAGAIN && errno != EINTR)) {
        doubt(c, other);
    }
}

static void heed_probe(const struct agreement *c, struct other *other) {
    int error = 0;
    socklen_t bytes = sizeof error;
    if (other->leader == LIVES) {
        hear_probe(c, other);
        return;
    }
    if (getsockopt(other->probe, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
        error = errno;
    settle_probe(c, other, error);
}

/* Looks at all probes, and waits at most that long until one has news. */
static void look_around(struct agreement *c, int64_t wait_ns) {
    const int64_t now_ns = kolo_awake_ns(c->awake), silence_ns = c->comm->origin.net.silence_ns;
    for (uint32_t node = 0; node < c->nodes->nodes; node++) {
        struct other *other = &c->others[node];
        if (node != c->node && other->leader == TRYING && other->probe < 0 && now_ns >= other->again_ns)
            begin_probe(c, other);
        if (other->leader == TRYING && now_ns - other->since_ns >= silence_ns) {
            drop(&other->probe);
            other->leader = SILENT;
        }
        c->polled[node] = (struct pollfd){.fd = other->probe, .events = other->leader == TRYING ? POLLOUT : POLLIN};
    }
    KOLO_POINT("agreement.looking");
    if (poll(c->polled, c->nodes->nodes, (int)(wait_ns / KOLO_NS_PER_MS)) <= 0)
        return;
    for (uint32_t node = 0; node < c->nodes->nodes; node++)
        if (c->polled[node].revents && c->others[node].probe >= 0)
            heed_probe(c, &c->others[node]);
}

/* Whether this rank is its node's leader, and has kept its listener. */
static bool is_leader(const struct agreement *c) {
    return c->comm->listener != NULL;
}

/* Whether the other leader counts as unresponsive, as above. A leader that has closed the broken communicator's streams
 * may be going on without this node, which then has nothing to coordinate. */
static bool is_unresponsive(const struct agreement *c, uint32_t node) {
    const struct other *other = &c->others[node];
    if (!is_leader(c) || other->leader != LIVES || other->answers)
        return false;
    const int64_t quiet_ns = kolo_awake_ns(c->awake) - other->heard_ns;
    const kolo_pulse pulse = kolo_proxy_pulse(c->comm->internode->proxies[0], node);
    return (pulse == KOLO_PULSE_LOST && quiet_ns >= c->comm->origin.net.silence_ns) ||
           (pulse == KOLO_PULSE_BEATS && quiet_ns >= COMING_NS(kolo_waiter_timeout_ns(&c->comm->waiter)));
}

/* The first leader that is a coordinator; or this rank, if no leader before it may still become one. */
static uint32_t find_coordinator(const struct agreement *c) {
    bool coordinates = is_leader(c), any = false;
    for (uint32_t node = 0; node < c->nodes->nodes; node++) {
        const struct other *other = &c->others[node];
        const bool lives = node != c->node && (other->leader == LIVES || other->leader == TRYING);
        if (lives && other->answers)
            return node;
        coordinates = coordinates && (node >= c->node || !lives || is_unresponsive(c, node));
        any |= lives;
    }
    return coordinates ? c->node : any ? NOT_KNOWN : NOBODY;
}

/* Messages. */

static int send_message(int fd, const struct kolo_assembly_message *message) {
    uint8_t bytes[KOLO_MESSAGE_BYTES];
    kolo_assembly_message_pack(message, bytes);
    return kolo_socket_send(fd, bytes, sizeof bytes);
}

/* Whether `set` has ranks of `node` only (UINT32_MAX: of any node), and some. */
static bool are_of(const struct agreement *c, const uint64_t *set, uint32_t node) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < KOLO_RANKS_MAX; rank++) {
        if (!kolo_ranks_have(set, rank))
            continue;
        if (rank >= c->nodes->size || (node != UINT32_MAX && c->nodes->node_of[rank] != node))
            return false;
        count++;
    }
    return count > 0;
}

/* The coordinator's part. */

static void forget_participant(struct other *other) {
    drop(&other->participant);
    other->received = 0;
    other->came = false;
}

static void admit(struct agreement *c, int fd, const struct kolo_introduction *who) {
    const struct kolo_internode *internode = c->comm->internode;
    if (who->foreign || who->role != KOLO_ROLE_SHRINK || who->size != c->nodes->size || who->node >= c->nodes->nodes ||
        who->node == c->node || c->nodes->node_of[who->rank] != who->node ||
        memcmp(who->session, internode->session, sizeof who->session) != 0) {
        close(fd); /* of another communicator of the same listener */
        return;
    }
    forget_participant(&c->others[who->node]); /* the one that came before has ended */
    c->others[who->node].participant = fd;
    KOLO_POINT("agreement.admitted");
}

/* Takes what a node has sent. The node has come once its message is whole. */
static void hear(struct agreement *c, uint32_t node) {
    struct other *other = &c->others[node];
    struct kolo_assembly_message message;
    if (other->came) { /* the participant sends nothing more, but may have ended */
        size_t extra = 0;
        if (kolo_socket_receive(other->participant, other->bytes, 1, &extra) < 0)
            forget_participant(other);
        return;
    }
    const int rc = kolo_socket_receive(other->participant, other->bytes, sizeof other->bytes, &other->received);
    if (rc == 0)
        return;
    if (rc < 0 || kolo_assembly_message_parse(other->bytes, &message) < 0 || message.kind != KOLO_MESSAGE_SURVIVORS ||
        !are_of(c, message.ranks, node)) {
        forget_participant(other);
        return;
    }
    memcpy(other->left, message.ranks, sizeof other->left);
    other->meeting = message.meeting;
    (void)kolo_address_localize(&other->meeting, other->participant); /* it fails where the participant has gone */
    other->came = true;
    KOLO_POINT("agreement.heard");
}

/* Answers ranks that connect, for a moment. */
static int receive_participants(struct agreement *c) {
    struct kolo_introduction who;
    int fd, rc = 0;
    int64_t wait_ns = LOOK_NS;
    for (int i = 0; i < ANSWERS_MAX && (rc = kolo_listener_accept(c->comm->listener, wait_ns, &fd, &who)) == 0; i++) {
        admit(c, fd, &who);
        wait_ns = 0;
    }
    for (uint32_t node = 0; node < c->nodes->nodes; node++)
        if (c->others[node].participant >= 0)
            hear(c, node);
    return rc < 0 ? rc : 0;
}

static bool has_come(const struct agreement *c, uint32_t node) {
    return node == c->node || c->others[node].came;
}

static uint32_t count_nodes(const struct agreement *c) {
    uint32_t nodes = 0;
    for (uint32_t node = 0; node < c->nodes->nodes; node++)
        nodes += has_come(c, node);
    return nodes;
}

/* Whether the nodes that have come are a quorum. */
static bool are_enough(const struct agreement *c) {
    const uint32_t here = count_nodes(c), all = c->nodes->nodes;
    return c->comm->origin.net.any_part || 2 * here > all || (2 * here == all && has_come(c, 0));
}

typedef enum awaited { NONE, LEADERLESS, LEADERS } awaited;

/* The nodes that the coordinator still waits for. The other ranks of a node whose leader is unresponsive may come once
 * they have left the leader out. The leader of a node of one rank is waited for only if the quorum needs it. */
static awaited find_awaited(const struct agreement *c) {
    bool leaderless = false, unresponsive = false;
    for (uint32_t node = 0; node < c->nodes->nodes; node++) {
        const struct other *other = &c->others[node];
        if (has_come(c, node) || other->leader == SILENT)
            continue;
        if (other->leader == REFUSED)
            leaderless |= kolo_nodes_local_size(c->nodes, node) > 1;
        else if (is_unresponsive(c, node) && kolo_nodes_local_size(c->nodes, node) == 1)
            unresponsive = true;
        else
            return LEADERS;
    }
    return unresponsive && !are_enough(c) ? LEADERS : leaderless ? LEADERLESS : NONE;
}

/* Shows all participants, now and then, that this coordinator is there. */
static void beat(struct agreement *c, int64_t now_ns) {
    static const struct kolo_assembly_message wait = {.kind = KOLO_MESSAGE_WAIT};
    if (now_ns < c->beat_ns)
        return;
    c->beat_ns = now_ns + c->comm->origin.net.silence_ns / BEATS_PER_SILENCE;
    for (uint32_t node = 0; node < c->nodes->nodes; node++) {
        KOLO_POINT("agreement.beating");
        if (c->others[node].participant >= 0 && send_message(c->others[node].participant, &wait) < 0)
            forget_participant(&c->others[node]);
    }
}

/* Returns AGAIN if this rank need not be the coordinator, since a lower leader is. */
static int await_participants(struct agreement *c) {
    int64_t now_ns = kolo_awake_ns(c->awake),
            until_ns = c->begun_ns + COMING_NS(kolo_waiter_timeout_ns(&c->comm->waiter)), leaderless_end_ns = 0;
    if (until_ns < now_ns + MARGIN_NS)
        until_ns = now_ns + MARGIN_NS;
    for (;;) { /* ends at until_ns */
        const int rc = receive_participants(c);
        look_around(c, 0);
        now_ns = kolo_awake_ns(c->awake);
        beat(c, now_ns);
        if (rc < 0)
            return rc;
        if (find_coordinator(c) < c->node)
            return AGAIN;
        const awaited awaited = find_awaited(c);
        if (now_ns >= until_ns || awaited == NONE)
            return 0;
        if (awaited == LEADERS)
            leaderless_end_ns = 0;
        else if (leaderless_end_ns == 0)
            leaderless_end_ns = now_ns + LEADERLESS_NS;
        else if (now_ns >= leaderless_end_ns)
            return 0;
    }
}

/* "1 (its leader has ended or left, or a firewall refuses), 2 (not reached)" */
static void list_absent(const struct agreement *c, char *list, size_t list_bytes) {
    list[0] = '\0';
    for (uint32_t node = 0; node < c->nodes->nodes; node++)
        if (!has_come(c, node) && strlen(list) + 80 < list_bytes)
            kolo_text_add(list, list_bytes, "%s%u (%s)", *list ? ", " : "", node,
                          c->others[node].leader == REFUSED  ? "its leader has ended or left, or a firewall refuses"
                          : c->others[node].leader == SILENT ? "not reached"
                          : is_unresponsive(c, node)         ? "does not answer"
                                                             : "did not come in time");
}

/* Decides the answer to all participants. */
static void conclude(const struct agreement *c, struct kolo_assembly_message *answer) {
    char list[224];
    if (!are_enough(c)) {
        list_absent(c, list, sizeof list);
        *answer = (struct kolo_assembly_message){.kind = KOLO_MESSAGE_FAILED, .status = KOLO_ERR_TIMEOUT};
        snprintf(answer->text, sizeof answer->text,
                 "%u of %u nodes are left here, and the others may be going on without them: node %s. More than half "
                 "go on, or half with node 0; any, with KOLO_NET=quorum:any, where something else ends the other parts",
                 count_nodes(c), c->nodes->nodes, list);
        return;
    }
    *answer = (struct kolo_assembly_message){.kind = KOLO_MESSAGE_SURVIVORS};
    memcpy(answer->ranks, c->left, sizeof c->left);
    for (uint32_t node = 0; node < c->nodes->nodes; node++)
        for (uint32_t word = 0; c->others[node].came && word < KOLO_RANK_WORDS; word++)
            answer->ranks[word] |= c->others[node].left[word];
    const uint32_t lowest = c->nodes->node_of[kolo_ranks_lowest(answer->ranks, c->nodes->size)];
    answer->meeting = lowest == c->node ? c->meeting : c->others[lowest].meeting;
}

/* Takes the answer. It came through `fd`, which is -1 if this rank is the coordinator. */
static int take(struct agreement *c, struct kolo_assembly_message *answer, int fd) {
    struct kolo_nodes_agreement *result = c->result;
    if (answer->kind == KOLO_MESSAGE_FAILED)
        return KOLO_FAIL_IN(c->comm, "kolo_comm_shrink", answer->status, "%s", answer->text);
    if (fd >= 0)
        (void)kolo_address_localize(&answer->meeting, fd);
    memcpy(result->offer.left, answer->ranks, sizeof result->offer.left);
    const uint32_t lowest = kolo_ranks_lowest(result->offer.left, c->nodes->size);
    const bool is_here = c->nodes->node_of[lowest] == c->node;
    kolo_address_text(is_here ? &c->meeting : &answer->meeting, result->offer.meeting);
    if (is_here)
        return 0;
    kolo_listener_close(result->rendezvous);
    result->rendezvous = NULL;
    return 0;
}

static int coordinate(struct agreement *c) {
    struct kolo_address bound;
    struct kolo_assembly_message answer;
    KOLO_POINT("agreement.coordinating");
    kolo_listener_log(c->comm->listener, KOLO_LOG_OFF, 0); /* probes that are given up are not worth a message */
    int rc = kolo_listener_reopen(c->comm->listener, &c->key, &bound);
    if (rc == 0)
        rc = await_participants(c);
    KOLO_POINT("agreement.gathered");
    for (uint32_t node = 0; rc != 0 && node < c->nodes->nodes; node++)
        forget_participant(&c->others[node]);
    if (rc != 0)
        return rc;
    KOLO_POINT("agreement.concluding");
    conclude(c, &answer);
    for (uint32_t node = 0; node < c->nodes->nodes; node++) {
        struct other *other = &c->others[node];
        KOLO_POINT("agreement.answering");
        if (!other->came)
            continue;
        (void)send_message(other->participant, &answer); /* where it fails, so does the lifeline */
        c->result->lifelines[node] = other->participant;
        other->participant = -1;
    }
    KOLO_POINT("agreement.answered");
    return take(c, &answer, -1);
}

/* The others' part. */

static int fail_late(const struct agreement *c, const char *why) {
    return KOLO_FAIL_IN(c->comm, "kolo_comm_shrink", KOLO_ERR_TIMEOUT,
                        "the others went on without this node, or have not come within %" PRId64
                        " ms (three times KOLO_TIMEOUT_MS): %s",
                        3 * kolo_waiter_timeout_ns(&c->comm->waiter) / KOLO_NS_PER_MS, why);
}

/* Obeys a message of the coordinator. Returns 0, AGAIN where another message is to come, or a failure. */
static int heed_coordinator(struct agreement *c, const uint8_t *bytes, int fd) {
    struct kolo_assembly_message answer;
    KOLO_POINT("agreement.told");
    if (kolo_assembly_message_parse(bytes, &answer) < 0 ||
        (answer.kind != KOLO_MESSAGE_FAILED && answer.kind != KOLO_MESSAGE_WAIT &&
         (answer.kind != KOLO_MESSAGE_SURVIVORS || !are_of(c, answer.ranks, UINT32_MAX))))
        return KOLO_FAIL_IN(c->comm, "kolo_comm_shrink", KOLO_ERR_VERSION, "the answer is damaged");
    if (answer.kind == KOLO_MESSAGE_WAIT)
        return AGAIN;
    for (uint32_t word = 0; answer.kind == KOLO_MESSAGE_SURVIVORS && word < KOLO_RANK_WORDS; word++)
        if (c->left[word] & ~answer.ranks[word])
            return fail_late(c, "their answer leaves it out");
    return take(c, &answer, fd);
}

/* Returns 0, AGAIN if this coordinator will not answer any more, or a failure. */
static int await_answer(struct agreement *c, struct other *coordinator, int fd) {
    uint8_t bytes[KOLO_MESSAGE_BYTES];
    size_t received = 0;
    const int64_t silence_ns = c->comm->origin.net.silence_ns;
    /* The coordinator may have begun just now. */
    const int64_t until_ns = kolo_awake_ns(c->awake) + ANSWER_NS(kolo_waiter_timeout_ns(&c->comm->waiter));
    coordinator->heard_ns = kolo_awake_ns(c->awake);
    for (;;) { /* ends at until_ns */
        int rc = kolo_socket_receive(fd, bytes, sizeof bytes, &received);
        const int64_t now_ns = kolo_awake_ns(c->awake), silent_ns = coordinator->heard_ns + silence_ns;
        if (rc > 0) {
            rc = heed_coordinator(c, bytes, fd);
            if (rc != AGAIN)
                return rc;
            coordinator->heard_ns = now_ns;
            received = 0;
            continue;
        }
        if (rc < 0 || now_ns >= silent_ns)
            return AGAIN;
        if (now_ns >= until_ns)
            return fail_late(c, "their coordinator does not answer");
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        KOLO_POINT("agreement.awaiting");
        const int64_t left_ns = (silent_ns < until_ns ? silent_ns : until_ns) - now_ns;
        (void)poll(&polled, 1, kolo_socket_wait_ms(kolo_awake_slice(c->awake, left_ns)));
    }
}

static int attend(struct agreement *c, uint32_t coordinator) {
    struct other *other = &c->others[coordinator];
    struct kolo_connecting wanted = {
        .to = &other->listener,
        .secret = &c->key,
        .self = {.role = KOLO_ROLE_SHRINK, .rank = c->comm->global_rank, .size = c->nodes->size, .node = c->node},
        .awake = c->awake,
        .deadline_ns = kolo_awake_ns(c->awake) + c->comm->origin.net.silence_ns,
        .is_open = true,
        .alert_fd = other->probe,
    };
    struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_SURVIVORS};
    int fd = -1;
    memcpy(wanted.self.session, c->comm->internode->session, sizeof wanted.self.session);
    memcpy(message.ranks, c->left, sizeof message.ranks);
    message.meeting = c->meeting;
    KOLO_POINT("agreement.connecting");
    int rc = kolo_connect(&wanted, &fd);
    if (rc != 0) { /* the coordinator has ended, is unresponsive, or is creating with others and may come back */
        kolo_clock_sleep(PAUSE_NS);
        doubt(c, other);
        return AGAIN;
    }
    KOLO_POINT("agreement.stating");
    rc = send_message(fd, &message) < 0 ? AGAIN : 0;
    KOLO_POINT("agreement.stated");
    if (rc == 0)
        rc = await_answer(c, other, fd);
    if (rc == 0)
        c->result->lifelines[coordinator] = fd;
    else
        close(fd);
    if (rc == AGAIN)
        doubt(c, other);
    return rc;
}

static int agree(struct agreement *c) {
    for (;;) { /* ends by the deadline */
        const uint32_t chosen = find_coordinator(c);
        if (chosen == NOBODY)
            return KOLO_FAIL_IN(
                c->comm, "kolo_comm_shrink", KOLO_ERR_PEER_DEAD,
                "this node goes on without its leader, and no other node's can be reached to go on with");
        const int rc = chosen == NOT_KNOWN ? AGAIN : chosen == c->node ? coordinate(c) : attend(c, chosen);
        if (rc != AGAIN)
            return rc;
        if (kolo_awake_ns(c->awake) >= c->deadline_ns)
            return fail_late(c, "no leader answers");
        look_around(c, LOOK_NS);
    }
}

/* Beginning and ending. */

static int read_listeners(struct agreement *c) {
    int rc = 0;
    for (uint32_t node = 0; rc == 0 && node < c->nodes->nodes; node++) {
        struct other *other = &c->others[node];
        other->probe = other->participant = -1;
        other->since_ns = other->heard_ns = c->begun_ns;
        rc = kolo_leader_address(c->comm, node, &other->listener);
    }
    return rc;
}

static bool is_of_leader(const struct agreement *c, uint16_t port) {
    for (uint32_t node = 0; node < c->nodes->nodes; node++)
        if (kolo_address_port(&c->others[node].listener) == port)
            return true;
    return false;
}

/* Listens for the new communicator, but not at the port of a leader that has ended, which the kernel may give where
 * nodes share an address: ranks that probe that port would think that the leader lives. */
static int open_rendezvous(struct agreement *c) {
    struct kolo_listener *refused[RENDEZVOUS_TRIES]; /* open until the end, so that each attempt gets another port */
    int count = 0;
    int rc = kolo_rendezvous_listen(c->comm, &c->secret, &c->result->rendezvous, &c->meeting);
    while (rc == 0 && is_of_leader(c, kolo_address_port(&c->meeting)) && count < RENDEZVOUS_TRIES) {
        refused[count++] = c->result->rendezvous;
        c->result->rendezvous = NULL;
        rc = kolo_rendezvous_listen(c->comm, &c->secret, &c->result->rendezvous, &c->meeting);
    }
    while (count > 0)
        kolo_listener_close(refused[--count]);
    return rc;
}

static int begin(struct agreement *c, const uint64_t *survivors) {
    kolo_comm *comm = c->comm;
    const struct kolo_internode *internode = comm->internode;
    c->others = calloc(c->nodes->nodes, sizeof *c->others);
    c->polled = calloc(c->nodes->nodes, sizeof *c->polled);
    c->result->lifelines = calloc(c->nodes->nodes, sizeof *c->result->lifelines);
    if (!c->others || !c->polled || !c->result->lifelines)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    c->result->nodes = c->nodes->nodes;
    for (uint32_t node = 0; node < c->nodes->nodes; node++)
        c->result->lifelines[node] = -1;
    for (uint32_t local = 0; local < comm->size; local++)
        if (kolo_ranks_have(survivors, local))
            kolo_ranks_add(c->left, kolo_rank_global(comm, local));
    const int64_t silence_ns = comm->origin.net.silence_ns, timeout_ns = kolo_waiter_timeout_ns(&comm->waiter);
    c->begun_ns = kolo_awake_begin(c->awake, silence_ns < timeout_ns ? silence_ns : timeout_ns);
    c->deadline_ns = c->begun_ns + COORDINATOR_NS(timeout_ns);
    int rc = read_listeners(c);
    if (rc == 0)
        rc = kolo_secret_read(&c->secret);
    if (rc < 0)
        return rc;
    kolo_secret_derive(&c->secret, internode->session, sizeof internode->session, &c->key);
    rc = open_rendezvous(c);
    KOLO_POINT("agreement.begun");
    return rc;
}

int kolo_nodes_agreement_reach(struct kolo_nodes_agreement *result, kolo_comm *comm, const uint64_t *survivors) {
    struct kolo_awake awake;
    struct agreement c = {.comm = comm,
                          .nodes = &comm->internode->nodes,
                          .node = comm->internode->node,
                          .result = result,
                          .awake = &awake};
    *result = (struct kolo_nodes_agreement){.rendezvous = NULL};
    int rc = begin(&c, survivors);
    const bool begun = rc == 0;
    if (rc == 0)
        rc = agree(&c);
    for (uint32_t node = 0; begun && node < c.nodes->nodes; node++) {
        drop(&c.others[node].probe);
        drop(&c.others[node].participant);
    }
    kolo_secret_forget(&c.secret);
    kolo_secret_forget(&c.key);
    free(c.others);
    free(c.polled);
    return rc;
}

int64_t kolo_nodes_agreement_ns_max(int64_t timeout_ns) {
    return COORDINATOR_NS(timeout_ns) + ANSWER_NS(timeout_ns);
}

bool kolo_nodes_agreement_lives(struct kolo_nodes_agreement *result) {
    for (uint32_t node = 0; node < result->nodes; node++) {
        uint8_t word;
        size_t received = 0;
        const int fd = result->lifelines[node], rc = fd < 0 ? 0 : kolo_socket_receive(fd, &word, 1, &received);
        if (rc != 0)
            drop(&result->lifelines[node]); /* 1: the other side is done with it */
        if (rc < 0)
            return false;
    }
    return true;
}

void kolo_nodes_agreement_close(struct kolo_nodes_agreement *result, kolo_comm *comm, bool done) {
    KOLO_POINT("agreement.parting");
    if (done && kolo_internode_leads(comm->internode))
        kolo_proxy_leave_listener(comm->internode->proxies[0]);
    for (uint32_t node = 0; node < result->nodes; node++) {
        if (done && result->lifelines[node] >= 0)
            (void)send(result->lifelines[node], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        drop(&result->lifelines[node]);
    }
    KOLO_POINT("agreement.parted");
    free(result->lifelines);
    kolo_listener_close(result->rendezvous);
    *result = (struct kolo_nodes_agreement){.rendezvous = NULL};
}
