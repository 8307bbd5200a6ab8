/* Connects to a listener: the other half of net/connect/listener.c.
 *
 * An attempt ends in one of three ways:
 *   - The listener admits this process.
 *   - The attempt is refused for good: the other side has said so, or has not answered as a listener of this job does.
 *   - The attempt fails for a reason that may pass, and is made again until the deadline: no process listens yet, the
 *     network is not up yet, or the connection has ended without a message, as it does if strangers occupy a
 *     listener. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/wire.h"
#include "net/connect/listener.h"
#include "sync/point.h"

#define CONNECT_NS_MAX (3000 * KOLO_NS_PER_MS) /* the kernel asks ever more seldom whether somebody is there */
#define PAUSE_NS_FIRST (5 * KOLO_NS_PER_MS)
#define PAUSE_NS_MAX   (200 * KOLO_NS_PER_MS)
#define REFUSED_NS     (3000 * KOLO_NS_PER_MS) /* time in which a process may still begin to listen */

enum { AGAIN = 1, REASON_BYTES = 160 };

struct connector {
    const struct kolo_connecting *wanted;
    bool alerted;       /* alert_fd is readable */
    bool reached;       /* somebody has listened at the address */
    int64_t reach_ns;   /* time by which the address must have been reached; if it has been, the deadline */
    int64_t refused_ns; /* begin of the time in which all attempts were refused; 0: the last one was not */
    int fd;             /* -1: no attempt is being made */
    char place[KOLO_ADDRESS_TEXT_BYTES];
    char reason[REASON_BYTES]; /* why the last attempt failed */
};

static int again(struct connector *connector, const char *why, int errno_value) {
    if (errno_value != ECONNREFUSED)
        connector->refused_ns = 0;
    else if (connector->refused_ns == 0)
        connector->refused_ns = kolo_awake_ns(connector->wanted->awake);
    snprintf(connector->reason, sizeof connector->reason, "%s%s%s", why, errno_value ? ": " : "",
             errno_value ? strerror(errno_value) : "");
    return AGAIN;
}

/* Waits for events of the socket: false once until_ns has passed, or the attempt is to be given up. */
static bool wait_until(struct connector *connector, short events, int64_t until_ns) {
    for (;;) {
        struct pollfd polled[] = {{.fd = connector->fd, .events = events},
                                  {.fd = connector->wanted->alert_fd, .events = POLLIN}};
        struct kolo_awake *awake = connector->wanted->awake;
        const int64_t now_ns = kolo_awake_ns(awake);
        const int ready = poll(polled, 2, kolo_socket_wait_ms(kolo_awake_slice(awake, until_ns - now_ns)));
        if (ready > 0 && polled[0].revents)
            return true;
        connector->alerted = ready > 0 && polled[1].revents;
        if (connector->alerted || now_ns >= until_ns)
            return false;
    }
}

/* Connecting. */

/* Errors that may pass: of the network, or since the listener may open later. */
static bool may_pass(int errno_value) {
    return errno_value == ECONNREFUSED || errno_value == ECONNRESET || errno_value == ECONNABORTED ||
           errno_value == ETIMEDOUT || errno_value == ENETUNREACH || errno_value == EHOSTUNREACH ||
           errno_value == ENETDOWN || errno_value == EHOSTDOWN || errno_value == EADDRNOTAVAIL ||
           errno_value == EAGAIN || errno_value == ENOBUFS || errno_value == EPIPE;
}

static int fail_left(const struct connector *connector) {
    return kolo_fail(KOLO_ERR_PEER_DEAD, "nobody listens at %s any more", connector->place);
}

static int connect_failed(struct connector *connector, int errno_value) {
    if (connector->wanted->is_open && errno_value == ECONNREFUSED)
        return fail_left(connector);
    if (may_pass(errno_value))
        return again(connector, "connecting", errno_value);
    return kolo_fail_system(errno_value, "connecting to %s", connector->place);
}

static int bind_from(const struct connector *connector) {
    struct kolo_address from = *connector->wanted->from;
    char text[KOLO_ADDRESS_TEXT_BYTES];
    const int on = 1;
    kolo_address_set_port(&from, 0);
    /* The kernel chooses the port at connect, when it knows the destination: there are more that way. It may fail. */
    setsockopt(connector->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(connector->fd, (const struct sockaddr *)&from.storage, from.bytes) < 0)
        return kolo_fail_system(errno, "connecting from %s, which must be an address of this machine (KOLO_NET_ADDR)",
                                kolo_address_text(&from, text));
    return 0;
}

static int connect_socket(struct connector *connector) {
    const struct kolo_connecting *wanted = connector->wanted;
    int rc = wanted->from ? bind_from(connector) : 0;
    if (rc < 0)
        return rc;
    KOLO_POINT("connect.connecting");
    if (connect(connector->fd, (const struct sockaddr *)&wanted->to->storage, wanted->to->bytes) < 0) {
        if (errno != EINPROGRESS && errno != EINTR)
            return connect_failed(connector, errno);
        const int64_t longest_ns = kolo_awake_ns(wanted->awake) + CONNECT_NS_MAX;
        if (!wait_until(connector, POLLOUT, longest_ns < connector->reach_ns ? longest_ns : connector->reach_ns))
            return again(connector, "connecting", ETIMEDOUT);
        int error = 0;
        socklen_t bytes = sizeof error;
        if (getsockopt(connector->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
            error = errno;
        if (error)
            return connect_failed(connector, error);
    }
    if (kolo_socket_is_to_itself(connector->fd))
        return connect_failed(connector, ECONNREFUSED);
    connector->reached = true;
    connector->reach_ns = wanted->deadline_ns;
    return 0;
}

/* The dialogue. */

static int receive(struct connector *connector, uint8_t *message, size_t bytes) {
    size_t received = 0;
    for (;;) {
        const int rc = kolo_socket_receive(connector->fd, message, bytes, &received);
        if (rc == 1)
            return 0;
        if (rc == -ENODATA)
            return again(connector, "connected, but the other side hung up", 0);
        if (rc < 0)
            return again(connector, "connected, but the other side was lost", -rc);
        if (!wait_until(connector, POLLIN, connector->wanted->deadline_ns))
            return again(connector, "connected, but the other side does not answer", 0);
    }
}

static int check_welcome(const struct connector *connector, const uint8_t *bytes) {
    struct kolo_handshake welcome;
    char theirs[KOLO_RELEASE_TEXT_BYTES], ours[KOLO_RELEASE_TEXT_BYTES];
    const int rc = kolo_handshake_parse(bytes, KOLO_WELCOME, &welcome);
    if (rc == -EPROTONOSUPPORT)
        return kolo_fail(KOLO_ERR_VERSION, "%s has %s, and this process %s: all machines need the same",
                         connector->place, kolo_handshake_release(welcome.version, welcome.layout, theirs),
                         kolo_handshake_release(KOLO_VERSION_WORD, KOLO_WIRE_LAYOUT, ours));
    if (rc < 0)
        return kolo_fail(KOLO_ERR_SYSTEM,
                         "what listens at %s is no process of kolo's: choose another port (KOLO_RENDEZVOUS)",
                         connector->place);
    if (welcome.secret != connector->wanted->secret->used)
        return kolo_fail(KOLO_ERR_SYSTEM,
                         "%s %s secret, and this process %s: set KOLO_SECRET_FILE, or KOLO_SECRET=none, "
                         "for all ranks",
                         connector->place, welcome.secret ? "wants a" : "has no",
                         connector->wanted->secret->used ? "wants one" : "has none");
    return 0;
}

static int check_verdict(const struct connector *connector, const struct kolo_dialogue *dialogue) {
    uint32_t verdict;
    if (kolo_verdict_parse(dialogue->verdict, &verdict) < 0)
        return kolo_fail(KOLO_ERR_SYSTEM, "what listens at %s does not speak as kolo does", connector->place);
    if (verdict == KOLO_VERDICT_MALFORMED)
        return kolo_fail(KOLO_ERR_SYSTEM, "%s could not make sense of what this process said of itself",
                         connector->place);
    if (verdict == KOLO_VERDICT_WRONG_SECRET)
        return kolo_fail(KOLO_ERR_SYSTEM,
                         "%s has another secret: KOLO_SECRET_FILE, or KOLO_SECRET, must be the same for all ranks",
                         connector->place);
    if (!kolo_dialogue_check(dialogue, KOLO_PROOF_OF_LISTENER, connector->wanted->secret))
        return kolo_fail(KOLO_ERR_SYSTEM,
                         "%s has not proved to know the secret: KOLO_SECRET_FILE, or KOLO_SECRET, must be the same for "
                         "all ranks",
                         connector->place);
    return 0;
}

static int converse(struct connector *connector) {
    struct kolo_dialogue dialogue;
    struct kolo_handshake hello;
    int rc = kolo_handshake_make(&hello, connector->wanted->secret);
    if (rc < 0)
        return rc;
    kolo_handshake_pack(&hello, KOLO_HELLO, dialogue.hello);
    KOLO_POINT("connect.handshake");
    int sent = kolo_socket_send(connector->fd, dialogue.hello, sizeof dialogue.hello);
    if (sent < 0)
        return again(connector, "connected, but the other side was lost", -sent);
    KOLO_POINT("connect.greeted");
    rc = receive(connector, dialogue.welcome, sizeof dialogue.welcome);
    if (rc == 0)
        rc = check_welcome(connector, dialogue.welcome);
    if (rc != 0 && rc != KOLO_ERR_VERSION)
        return rc;
    kolo_introduction_pack(&connector->wanted->self, dialogue.introduction);
    kolo_dialogue_prove(&dialogue, KOLO_PROOF_OF_CONNECTOR, connector->wanted->secret);
    KOLO_POINT("connect.introducing");
    sent = kolo_socket_send(connector->fd, dialogue.introduction, sizeof dialogue.introduction);
    if (rc < 0) /* the other side has been told, and has nothing to answer */
        return rc;
    if (sent < 0)
        return again(connector, "connected, but the other side was lost", -sent);
    KOLO_POINT("connect.introduced");
    rc = receive(connector, dialogue.verdict, sizeof dialogue.verdict);
    return rc == 0 ? check_verdict(connector, &dialogue) : rc;
}

/* Returns 0, AGAIN or a failure. */
static int attempt(struct connector *connector) {
    connector->fd = kolo_file_raise(
        socket(connector->wanted->to->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (connector->fd < 0)
        return kolo_fail_system(errno, "a socket to connect to %s", connector->place);
    int rc = kolo_socket_prepare(connector->fd);
    if (rc < 0)
        rc = kolo_fail_system(-rc, "setting up a socket");
    if (rc == 0)
        rc = connect_socket(connector);
    if (rc == 0)
        rc = converse(connector);
    KOLO_POINT("connect.attempted");
    if (rc == 0)
        return 0;
    close(connector->fd);
    connector->fd = -1;
    return rc;
}

/* The time until which attempts are repeated. */
static int64_t trying_ns(const struct connector *connector) {
    const bool is_awaited =
        !connector->wanted->reach_ns && !connector->reached; /* the other side may begin to listen at any time */
    const int64_t refused_ns = connector->refused_ns + REFUSED_NS;
    return is_awaited || !connector->refused_ns || refused_ns > connector->reach_ns ? connector->reach_ns : refused_ns;
}

/* Whether a listener would take the bytes for an introduction at all. */
static bool is_sensible(const struct kolo_introduction *self) {
    uint8_t bytes[KOLO_INTRODUCTION_BYTES];
    struct kolo_introduction read;
    kolo_introduction_pack(self, bytes);
    return memchr(self->job, '\0', sizeof self->job) && kolo_introduction_parse(bytes, &read) == 0;
}

int kolo_connect(const struct kolo_connecting *wanted, int *fd) {
    struct connector connector = {.wanted = wanted, .fd = -1};
    const struct kolo_introduction *self = &wanted->self;
    const struct kolo_address *from = wanted->from;
    char text[KOLO_ADDRESS_TEXT_BYTES];
    kolo_address_text(wanted->to, connector.place);
    if (!is_sensible(self))
        return kolo_fail(KOLO_ERR_ARG, "rank %u of %u, job '%.128s': no rank can say this of itself",
                         (unsigned)self->rank, (unsigned)self->size, self->job);
    if (from && from->storage.ss_family != wanted->to->storage.ss_family)
        return kolo_fail(KOLO_ERR_ARG, "%s cannot be reached from %s: one is of IPv4 and the other of IPv6",
                         connector.place, kolo_address_text(from, text));
    const int64_t reach_ns = kolo_awake_ns(wanted->awake) + wanted->reach_ns;
    connector.reach_ns = wanted->reach_ns && reach_ns < wanted->deadline_ns ? reach_ns : wanted->deadline_ns;
    for (int64_t pause_ns = PAUSE_NS_FIRST;;) {
        const int rc = attempt(&connector);
        if (rc == 0) {
            KOLO_POINT("connect.admitted");
            *fd = connector.fd;
        }
        if (rc != AGAIN)
            return rc;
        /* An attempt with no time left would only report that there is none left. */
        const int64_t now_ns = kolo_awake_ns(wanted->awake), until_ns = trying_ns(&connector);
        const bool is_last = until_ns - now_ns < 2 * pause_ns;
        KOLO_POINT("connect.pausing");
        if (!connector.alerted)
            wait_until(&connector, 0, is_last ? until_ns : now_ns + pause_ns);
        if (connector.alerted)
            return 1;
        if (is_last && connector.reached && connector.refused_ns)
            return fail_left(&connector);
        if (is_last)
            return kolo_fail(KOLO_ERR_TIMEOUT, "nobody at %s has let this process in: %s", connector.place,
                             connector.reason);
        pause_ns = 2 * pause_ns < PAUSE_NS_MAX ? 2 * pause_ns : PAUSE_NS_MAX;
    }
}

int kolo_connect_hello(int fd, const struct kolo_secret *secret) {
    struct kolo_handshake hello;
    uint8_t bytes[KOLO_HANDSHAKE_BYTES];
    if (kolo_handshake_make(&hello, secret) < 0)
        return -EIO;
    kolo_handshake_pack(&hello, KOLO_HELLO, bytes);
    KOLO_POINT("connect.hello");
    return kolo_socket_send(fd, bytes, sizeof bytes);
}
