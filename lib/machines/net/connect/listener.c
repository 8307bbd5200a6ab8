/* A listener: accepts connections and runs its side of the handshake.
 *
 * A process that has not proved that it knows the secret cannot make a listener wait, allocate, or leave its loop. Each
 * such process has one place of fixed size. It loses the place when it has proved that it knows the secret, has sent
 * something wrong, or has been there too long, whatever it sends in between. All sockets are non-blocking, so that only
 * poll waits: until one of them is ready, or is late.
 *
 * If all places are taken, the listener gives one up for a newcomer, but none that is spared: an honest process may be
 * about to speak, and many may come at once. Until a place is free newcomers wait in the kernel's queue. A process that
 * has said hello is spared for GRACE_NS and two round trips, as the kernel has measured them, and is given up only
 * where all have said hello. A process that has not said hello is spared for GRACE_NS from the connection on, also
 * while the connection waits in the queue: a hello comes right behind a connection, however long the way. So idle
 * strangers, however many, go as fast as they can be accepted.
 *
 * Where resources to accept with are missing, there are only as many places as are taken: honest processes that come
 * at once are let in one after another, and do not push each other out. */
#include "net/connect/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/wire.h"
#include "sync/point.h"

#define GONE "has gone before it said who it is"

enum { BACKLOG = 4096, REASON_BYTES = 192, LOGGED_MAX = 16 };

#define GRACE_NS     (50 * KOLO_NS_PER_MS)
#define DISTANCE_MAX (1000 * KOLO_NS_PER_MS) /* of two round trips so much counts */

/* A process that has not yet proved itself. */
struct pending {
    int fd;
    int64_t since_ns, spared_ns; /* since and until when */
    struct kolo_address from;
    bool greeted; /* the hello has been answered, and the introduction is due */
    bool foreign; /* the process is of another version: `version` */
    uint32_t version, layout;
    size_t received; /* of the message that is due */
    struct kolo_dialogue dialogue;
};

struct kolo_listener {
    int fd;
    int log_rank;
    kolo_log_level log_level;
    struct kolo_secret secret;
    uint64_t refused;
    char reason[REASON_BYTES];
    uint32_t places; /* fewer than KOLO_LISTENER_PENDING where resources are missing */
    uint32_t count;
    struct pending pending[KOLO_LISTENER_PENDING]; /* `count` of them, the oldest first */
};

typedef enum progress { WAITS, REFUSED, ADMITTED } progress;

/* Opening and closing. */

static const char *remedy(int errno_value) {
    return errno_value == EADDRINUSE ? ", where something else listens: choose another port (KOLO_RENDEZVOUS)"
           : errno_value == EADDRNOTAVAIL
               ? ", which is no address of this machine: KOLO_RENDEZVOUS must name the one on"
                 " which rank 0 runs, and KOLO_NET_ADDR an interface or address of its own"
           : errno_value == EACCES ? ", where this user may not: choose a port above 1023 (KOLO_RENDEZVOUS)"
                                   : "";
}

static int listen_at(int fd, const struct kolo_address *address) {
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        return -errno;
    /* An IPv6 listener takes IPv6 only: [::] must not take connections to IPv4 addresses that were not named. */
    if (address->storage.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)&address->storage, address->bytes) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return 0;
}

int kolo_listener_open(struct kolo_listener **listener, const struct kolo_address *address,
                       const struct kolo_secret *secret, struct kolo_address *bound) {
    char text[KOLO_ADDRESS_TEXT_BYTES];
    const int fd = kolo_file_raise(socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return kolo_fail_system(errno, "a socket to listen at %s", kolo_address_text(address, text));
    struct kolo_listener *made = calloc(1, sizeof *made);
    int rc = made ? listen_at(fd, address) : -ENOMEM;
    if (rc < 0) {
        rc = kolo_fail_system(-rc, "cannot listen at %s%s", kolo_address_text(address, text), remedy(-rc));
    } else {
        made->fd = fd;
        rc = kolo_listener_reopen(made, secret, bound);
    }
    if (rc < 0) {
        close(fd);
        free(made);
        return rc;
    }
    *listener = made;
    KOLO_POINT("listener.opened");
    return 0;
}

int kolo_listener_reopen(struct kolo_listener *listener, const struct kolo_secret *secret, struct kolo_address *bound) {
    const int rc = kolo_address_of_socket(listener->fd, bound);
    if (rc < 0)
        return kolo_fail_system(-rc, "reading the address of a socket that listens");
    for (uint32_t i = 0; i < listener->count; i++)
        close(listener->pending[i].fd);
    listener->count = 0;
    listener->secret = *secret;
    KOLO_POINT("listener.reopened");
    return 0;
}

void kolo_listener_log(struct kolo_listener *listener, kolo_log_level level, int rank) {
    listener->log_level = level;
    listener->log_rank = rank;
}

uint64_t kolo_listener_refused(const struct kolo_listener *listener, const char **reason) {
    *reason = listener->reason;
    return listener->refused;
}

void kolo_listener_close(struct kolo_listener *listener) {
    if (!listener)
        return;
    for (uint32_t i = 0; i < listener->count; i++)
        close(listener->pending[i].fd);
    close(listener->fd);
    KOLO_POINT("listener.closed");
    kolo_secret_forget(&listener->secret);
    free(listener);
}

/* Pending connections. */

static void remove_pending(struct kolo_listener *listener, uint32_t index) {
    listener->count--;
    memmove(&listener->pending[index], &listener->pending[index + 1],
            (listener->count - index) * sizeof listener->pending[0]);
}

/* Refuses a process, for a reason. Where the process is of another version, the message says that instead. */
static progress refuse(struct kolo_listener *listener, const struct pending *one, const char *why) {
    char from[KOLO_ADDRESS_TEXT_BYTES], theirs[KOLO_RELEASE_TEXT_BYTES], ours[KOLO_RELEASE_TEXT_BYTES];
    kolo_address_text(&one->from, from);
    if (one->foreign)
        snprintf(listener->reason, sizeof listener->reason, "%s: %s, and here is %s", from,
                 kolo_handshake_release(one->version, one->layout, theirs),
                 kolo_handshake_release(KOLO_VERSION_WORD, KOLO_WIRE_LAYOUT, ours));
    else
        snprintf(listener->reason, sizeof listener->reason, "%s: %s", from, why);
    listener->refused++;
    /* The log tells the first ones, and then ever fewer, so that frequent connections do not fill it. */
    if (listener->refused <= LOGGED_MAX || (listener->refused & (listener->refused - 1)) == 0)
        kolo_log(listener->log_level, KOLO_LOG_WARN, listener->log_rank, "turned away (%" PRIu64 " so far): %s",
                 listener->refused, listener->reason);
    return REFUSED;
}

static void show_out(struct kolo_listener *listener, uint32_t index, const char *why) {
    refuse(listener, &listener->pending[index], why);
    close(listener->pending[index].fd);
    remove_pending(listener, index);
}

/* The kernel's measurements of a connection. They are zeros, as if it were new and near, where the kernel has none. */
static struct tcp_info measured(int fd) {
    struct tcp_info found = {.tcpi_rtt = 0};
    socklen_t bytes = sizeof found;
    (void)getsockopt(fd, IPPROTO_TCP, TCP_INFO, &found, &bytes);
    return found;
}

/* Takes a hello. */
static progress greet(struct kolo_listener *listener, struct pending *one) {
    struct kolo_handshake hello, welcome;
    const int rc = kolo_handshake_parse(one->dialogue.hello, KOLO_HELLO, &hello);
    if (rc == -EPROTO)
        return refuse(listener, one, "speaks no language of kolo's");
    if (kolo_handshake_make(&welcome, &listener->secret) < 0)
        return refuse(listener, one, kolo_error_message());
    one->foreign = rc < 0;
    one->version = hello.version;
    one->layout = hello.layout;
    kolo_handshake_pack(&welcome, KOLO_WELCOME, one->dialogue.welcome);
    KOLO_POINT("listener.welcoming");
    const int sent = kolo_socket_send(one->fd, one->dialogue.welcome, sizeof one->dialogue.welcome);
    if (!one->foreign && hello.secret != welcome.secret)
        return refuse(listener, one, hello.secret ? "wants a secret, and here is none" : "has no secret");
    if (sent < 0)
        return refuse(listener, one, "takes no answer");
    const int64_t two_ns = KOLO_NS_PER_MS / 500 * (int64_t)measured(one->fd).tcpi_rtt;
    one->spared_ns = kolo_clock_ns() + GRACE_NS + (two_ns < DISTANCE_MAX ? two_ns : DISTANCE_MAX);
    one->greeted = true;
    one->received = 0;
    KOLO_POINT("listener.welcomed");
    return WAITS;
}

/* Takes the introduction of a process of another version, which expects no answer. */
static progress recognise(struct kolo_listener *listener, const struct pending *one, struct kolo_introduction *who) {
    struct kolo_introduction said;
    if (!kolo_dialogue_check(&one->dialogue, KOLO_PROOF_OF_CONNECTOR, &listener->secret) ||
        kolo_introduction_parse(one->dialogue.introduction, &said) < 0)
        return refuse(listener, one, "");
    *who = said;
    who->foreign = true;
    who->version = one->version;
    who->layout = one->layout;
    return ADMITTED;
}

/* Takes an introduction. */
static progress judge(struct kolo_listener *listener, struct pending *one, struct kolo_introduction *who) {
    struct kolo_dialogue *dialogue = &one->dialogue;
    const bool proved = kolo_dialogue_check(dialogue, KOLO_PROOF_OF_CONNECTOR, &listener->secret);
    struct kolo_introduction said;
    const bool good = proved && kolo_introduction_parse(dialogue->introduction, &said) == 0;
    kolo_verdict_pack(good     ? KOLO_VERDICT_ADMITTED
                      : proved ? KOLO_VERDICT_MALFORMED
                               : KOLO_VERDICT_WRONG_SECRET,
                      dialogue->verdict);
    if (proved)
        kolo_dialogue_prove(dialogue, KOLO_PROOF_OF_LISTENER, &listener->secret);
    KOLO_POINT("listener.judging");
    const int sent = kolo_socket_send(one->fd, dialogue->verdict, sizeof dialogue->verdict);
    if (!good)
        return refuse(listener, one, proved ? "has said nothing sensible" : "wrong secret");
    if (sent < 0)
        return refuse(listener, one, "takes no answer");
    *who = said;
    KOLO_POINT("listener.judged");
    return ADMITTED;
}

/* Advances a new connection, from which something may have come, up to its hello. */
static progress begin(struct kolo_listener *listener, struct pending *one) {
    struct kolo_dialogue *dialogue = &one->dialogue;
    const int rc = kolo_socket_receive(one->fd, dialogue->hello, sizeof dialogue->hello, &one->received);
    if (rc < 0)
        return refuse(listener, one, GONE);
    return rc == 0 ? WAITS : greet(listener, one);
}

/* Advances a connection from which something has come. */
static progress advance(struct kolo_listener *listener, struct pending *one, struct kolo_introduction *who) {
    struct kolo_dialogue *dialogue = &one->dialogue;
    const progress begun = one->greeted ? WAITS : begin(listener, one);
    if (begun == REFUSED || !one->greeted)
        return begun;
    const int rc = kolo_socket_receive(one->fd, dialogue->introduction, sizeof dialogue->introduction, &one->received);
    if (rc < 0)
        return refuse(listener, one, GONE);
    return rc == 0 ? WAITS : one->foreign ? recognise(listener, one, who) : judge(listener, one, who);
}

/* Newcomers. */

/* The place that is given up for a newcomer: of those that have not said hello, or else of all, the oldest one that is
 * not spared. KOLO_LISTENER_PENDING: none. */
static uint32_t find_victim(const struct kolo_listener *listener, int64_t now_ns) {
    uint32_t oldest[2] = {KOLO_LISTENER_PENDING, KOLO_LISTENER_PENDING};
    bool all_greeted = true;
    for (uint32_t i = listener->count; i-- > 0;) {
        const struct pending *one = &listener->pending[i];
        all_greeted = all_greeted && one->greeted;
        if (now_ns >= one->spared_ns)
            oldest[one->greeted] = i;
    }
    return oldest[all_greeted];
}

static bool has_room(const struct kolo_listener *listener, int64_t now_ns) {
    return listener->count < listener->places || find_victim(listener, now_ns) < KOLO_LISTENER_PENDING;
}

/* Whether the error is that of a connection in the queue, which accept reports as its own. */
static bool is_of_peer(int errno_value) {
    return errno_value == ECONNABORTED || errno_value == EINTR || errno_value == EPROTO || errno_value == EPERM ||
           errno_value == ENETDOWN || errno_value == ENOPROTOOPT || errno_value == EHOSTDOWN || errno_value == ENONET ||
           errno_value == EHOSTUNREACH || errno_value == EOPNOTSUPP || errno_value == ENETUNREACH;
}

/* 0, or KOLO_ERR_SYSTEM: resources to accept with are missing, and no connection is pending that may give some back. */
static int let_in(struct kolo_listener *listener, int64_t now_ns) {
    for (int tries = 0; tries < KOLO_LISTENER_PENDING && has_room(listener, now_ns); tries++) {
        struct kolo_address from = {.bytes = sizeof from.storage};
        const int fd = kolo_file_raise(
            accept4(listener->fd, (struct sockaddr *)&from.storage, &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                return 0;
            if (is_of_peer(errno))
                continue;
            if (listener->count == 0)
                return kolo_fail_system(errno, "accepting a connection");
            listener->places = listener->count;
            if (has_room(listener, now_ns))
                show_out(listener, find_victim(listener, now_ns), "was given up, as there are too few resources");
            continue;
        }
        if (listener->count == KOLO_LISTENER_PENDING)
            show_out(listener, find_victim(listener, now_ns),
                     "was given up for another, as too many have not said who they are");
        struct pending *one = &listener->pending[listener->count++];
        one->fd = fd;
        one->since_ns = now_ns;
        /* Less the time that the connection has waited since it was made, or since something came by it. */
        one->spared_ns = now_ns + GRACE_NS - (int64_t)measured(fd).tcpi_last_data_recv * KOLO_NS_PER_MS;
        one->from = from;
        one->greeted = false;
        one->foreign = false;
        one->received = 0;
        KOLO_POINT("listener.accepted");
        if (begin(listener, one) == REFUSED) {
            close(fd);
            listener->count--;
        }
    }
    return 0;
}

int kolo_listener_share(const struct kolo_listener *listener) {
    const int fd = fcntl(listener->fd, F_DUPFD_CLOEXEC, 3);
    return fd < 0 ? -errno : fd;
}

void kolo_listener_thin(int fd, uint32_t most) {
    const struct tcp_info queue = measured(fd); /* of a listener: how many wait, and how many may */
    const bool is_filled = queue.tcpi_unacked > most || queue.tcpi_unacked > queue.tcpi_sacked / 2;
    for (uint32_t i = 0; is_filled && i < queue.tcpi_unacked; i++) {
        const int stranger = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (stranger >= 0)
            close(stranger);
    }
}

/* Waiting. */

/* Waits until something has come, or a pending connection is late. */
static int watch(const struct kolo_listener *listener, int64_t now_ns, int64_t until_ns, struct pollfd *polled) {
    const bool room = has_room(listener, now_ns);
    for (uint32_t i = 0; i < listener->count; i++) {
        const struct pending *one = &listener->pending[i];
        const bool gets_late = room || one->spared_ns <= now_ns;
        const int64_t late_ns = gets_late ? one->since_ns + KOLO_LISTENER_PENDING_NS : one->spared_ns;
        until_ns = late_ns < until_ns ? late_ns : until_ns;
    }
    polled[0] = (struct pollfd){.fd = room ? listener->fd : -1, .events = POLLIN};
    for (uint32_t i = 0; i < listener->count; i++)
        polled[1 + i] = (struct pollfd){.fd = listener->pending[i].fd, .events = POLLIN};
    KOLO_POINT("listener.watching");
    if (poll(polled, 1 + listener->count, kolo_socket_wait_ms(until_ns - now_ns)) >= 0)
        return 0;
    for (uint32_t i = 0; i <= listener->count; i++)
        polled[i].revents = 0;
    return errno == EINTR ? 0 : kolo_fail_system(errno, "waiting for connections");
}

int kolo_listener_accept(struct kolo_listener *listener, int64_t wait_ns, int *fd, struct kolo_introduction *who) {
    const int64_t until_ns = kolo_clock_ns() + wait_ns;
    struct pollfd polled[1 + KOLO_LISTENER_PENDING];
    listener->places = KOLO_LISTENER_PENDING;
    do {
        int64_t now_ns = kolo_clock_ns();
        while (listener->count > 0 && now_ns - listener->pending[0].since_ns >= KOLO_LISTENER_PENDING_NS)
            show_out(listener, 0, "has not said who it is in time");
        int rc = watch(listener, now_ns, until_ns, polled);
        if (rc < 0)
            return rc;
        const uint32_t count = listener->count;
        for (uint32_t i = 0, index = 0; i < count; i++) {
            struct pending *one = &listener->pending[index];
            const progress made = polled[1 + i].revents ? advance(listener, one, who) : WAITS;
            if (made == WAITS) {
                index++;
                continue;
            }
            const int settled = one->fd;
            remove_pending(listener, index);
            if (made == ADMITTED && kolo_socket_prepare(settled) == 0) {
                *fd = settled;
                return 0;
            }
            close(settled);
        }
        rc = polled[0].revents ? let_in(listener, kolo_clock_ns()) : 0;
        if (rc < 0)
            return rc;
    } while (kolo_clock_ns() < until_ns);
    return 1;
}
