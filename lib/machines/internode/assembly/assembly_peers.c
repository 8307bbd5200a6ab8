/* An assembly's connections: sending and receiving messages, and making a failure on one rank a failure on all. */
#include "internode/assembly/assembly.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/ranks.h"
#include "sync/point.h"

#define ANSWER_NS  INT64_C(1000000000)   /* time for rank 0 to say which ranks are missing */
#define HEARING_NS INT64_C(250000000)    /* time for a leader to receive a failure, and for its node to learn it */
#define LOOK_NS    (50 * KOLO_NS_PER_MS) /* between two looks at a rejoin, or at ranks while others come */

/* Failing. */

int kolo_assembly_say(struct kolo_assembly *assembly, int status, const char *format, ...) {
    char text[sizeof assembly->reason]; /* the arguments may quote the present one */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(assembly->reason, text, sizeof text);
    return kolo_fail(status, "rank %u: %s", assembly->rank, assembly->reason);
}

static int fail_ended(struct kolo_assembly *assembly, uint32_t rank, int error) {
    assembly->over |= assembly->rank != 0; /* this rank has lost rank 0, and can tell no other rank */
    assembly->ended = rank;
    return kolo_assembly_say(
        assembly, KOLO_ERR_PEER_DEAD,
        "rank %u closed its connection while the communicator was being created, and did not say why%s%s", rank,
        error ? ": " : "", error ? strerror(error) : "");
}

static int fail_protocol(struct kolo_assembly *assembly, uint32_t rank) {
    return kolo_assembly_say(
        assembly, KOLO_ERR_VERSION,
        "rank %u sent what is no message, or not the next one, of kolo %s: use one version on all ranks", rank,
        kolo_version());
}

static int fail_told(struct kolo_assembly *assembly, const struct kolo_assembly_message *message) {
    if (assembly->rank == 0 && message->status == KOLO_ERR_TIMEOUT && message->text[0] == '\0') {
        assembly->asked = true;
        return kolo_assembly_timeout(assembly); /* the other side asks which ranks are missing */
    }
    assembly->over |= assembly->rank != 0;
    return kolo_assembly_say(assembly, message->status, "%s", message->text);
}

/* A failure is sent once, and only if the socket takes it at once. */
static void send_failure(int fd, int status, const char *text) {
    struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_FAILED, .status = status};
    uint8_t bytes[KOLO_MESSAGE_BYTES];
    snprintf(message.text, sizeof message.text, "%.*s", (int)sizeof message.text - 1, text);
    kolo_assembly_message_pack(&message, bytes);
    (void)kolo_socket_send(fd, bytes, sizeof bytes);
}

int kolo_assembly_fail(struct kolo_assembly *assembly, int status) {
    if (!assembly || assembly->over)
        return status;
    assembly->over = true;
    /* Rank 0 reports for the rank at fault, the others for themselves. */
    const bool has_reason = assembly->rank == 0 && assembly->reason[0];
    KOLO_POINT("assembly.failing");
    for (uint32_t rank = 0; rank < assembly->size; rank++)
        if (assembly->peers[rank].fd >= 0)
            send_failure(assembly->peers[rank].fd, status, has_reason ? assembly->reason : kolo_error_message());
    KOLO_POINT("assembly.failed");
    return status;
}

void kolo_assembly_turn_away(const struct kolo_assembly *assembly, int fd, int status) {
    send_failure(fd, status, assembly->reason);
    close(fd);
}

void kolo_assembly_part(struct kolo_assembly *assembly, uint32_t rank) {
    if (assembly->peers[rank].fd >= 0)
        close(assembly->peers[rank].fd);
    assembly->peers[rank].fd = -1;
    KOLO_POINT("assembly.parted");
}

/* The deadline. */

/* While the listener is open, ranks that have not come are late; then, ranks that have not sent what is awaited. */
static bool is_late(const struct kolo_assembly *assembly, uint32_t rank) {
    const struct kolo_assembly_peer *peer = &assembly->peers[rank];
    if (rank == 0 || assembly->listener)
        return rank != 0 && peer->fd < 0;
    return peer->fd >= 0 && peer->heard < assembly->awaited;
}

static void list_late(const struct kolo_assembly *assembly, char *text, size_t text_bytes) {
    uint64_t late[KOLO_RANK_WORDS] = {0};
    for (uint32_t rank = 0; rank < assembly->size; rank++)
        if (is_late(assembly, rank))
            kolo_ranks_add(late, rank);
    kolo_ranks_list(late, text, text_bytes);
}

static int fail_missing(struct kolo_assembly *assembly, const char *late, int64_t ms) {
    char refused[160] = "";
    const char *reason, *loopback = "";
    const uint64_t count = kolo_listener_refused(assembly->listener, &reason);
    if (count)
        snprintf(refused, sizeof refused, " %" PRIu64 " connections were refused, the last one: %s.", count, reason);
    if (strncmp(assembly->place, "127.", 4) == 0 || strncmp(assembly->place, "[::1]", 5) == 0)
        loopback = " That address is reached from this machine alone.";
    return kolo_assembly_say(assembly, KOLO_ERR_TIMEOUT,
                             "rank %s never came to %s within %" PRId64
                             " ms: were all %u ranks started, with the same KOLO_RENDEZVOUS and secret?%s%s "
                             "(KOLO_CREATE_TIMEOUT_MS sets the time)",
                             late, assembly->place, ms, assembly->size, refused, loopback);
}

int kolo_assembly_timeout(struct kolo_assembly *assembly) {
    char late[320];
    const int64_t ms = assembly->settings.create_timeout_ns / KOLO_NS_PER_MS;
    struct kolo_assembly_message answer;
    if (assembly->rank != 0)
        return kolo_assembly_await(assembly, KOLO_MESSAGE_FAILED, &answer);
    list_late(assembly, late, sizeof late);
    if (assembly->listener && late[0])
        return fail_missing(assembly, late, ms);
    return kolo_assembly_say(assembly, KOLO_ERR_TIMEOUT,
                             "rank %s came, but was not ready within %" PRId64
                             " ms: is it stopped, or does it get no processor? (KOLO_CREATE_TIMEOUT_MS sets the time)",
                             late[0] ? late : "0", ms);
}

bool kolo_assembly_is_asked(struct kolo_assembly *assembly) {
    if (assembly->asked)
        assembly->reason[0] = '\0';
    return assembly->asked;
}

int64_t kolo_assembly_deadline_ns(const struct kolo_assembly *assembly, bool leads) {
    return assembly->deadline_ns + (leads ? 0 : ANSWER_NS + HEARING_NS);
}

/* Messages. */

/* Takes the bytes that have come of a rank's next message. Returns 1 once the message is whole, 0 before that, or the
 * failure that the message tells of. */
static int receive(struct kolo_assembly *assembly, uint32_t rank, struct kolo_assembly_message *message) {
    struct kolo_assembly_peer *peer = &assembly->peers[rank];
    const int rc = kolo_socket_receive(peer->fd, peer->bytes, sizeof peer->bytes, &peer->got);
    if (rc <= 0)
        return rc == 0 ? 0 : fail_ended(assembly, rank, rc == -ENODATA ? 0 : -rc);
    KOLO_POINT("assembly.received");
    peer->got = 0;
    if (kolo_assembly_message_parse(peer->bytes, message) < 0)
        return fail_protocol(assembly, rank);
    return message->kind == KOLO_MESSAGE_FAILED ? fail_told(assembly, message) : 1;
}

/* The time to pass to poll: a wait is checked again after each slice. */
static int wait_ms(struct kolo_assembly *assembly, int64_t until_ns) {
    const int64_t left_ns = until_ns - kolo_awake_ns(&assembly->awake);
    return kolo_socket_wait_ms(kolo_awake_slice(&assembly->awake, left_ns));
}

/* The same where a rejoin or kolorun may have something to say meanwhile. */
static int wait_ms_or_look(struct kolo_assembly *assembly, int64_t until_ns) {
    const bool looks = (assembly->rejoin || assembly->settings.shm_fd >= 0) && assembly->look_ns < until_ns;
    return wait_ms(assembly, looks ? assembly->look_ns : until_ns);
}

/* Asks kolorun and the rejoin, if there are any. Returns 0, or the reason why this rank need not wait any more. */
static int look(struct kolo_assembly *assembly) {
    const struct kolo_settings *settings = &assembly->settings;
    const int64_t now_ns = kolo_awake_ns(&assembly->awake);
    char why[160];
    int64_t ended = -1;
    if (now_ns < assembly->look_ns)
        return 0;
    assembly->look_ns = now_ns + LOOK_NS;
    if (settings->shm_fd >= 0 && kolo_launcher_ended(&settings->place, settings->shm_fd, &ended, why, sizeof why))
        return kolo_assembly_say(assembly, KOLO_ERR_PEER_DEAD, "%s", why);
    const int rc = assembly->rejoin ? assembly->rejoin->look(assembly->rejoin) : 0;
    return rc < 0 ? kolo_assembly_say(assembly, rc, "%s", kolo_error_message()) : 0;
}

int kolo_assembly_send(struct kolo_assembly *assembly, uint32_t rank, const struct kolo_assembly_message *message) {
    uint8_t bytes[KOLO_MESSAGE_BYTES];
    size_t sent = 0;
    const int fd = assembly->peers[rank].fd;
    kolo_assembly_message_pack(message, bytes);
    KOLO_POINT("assembly.sending");
    while (sent < sizeof bytes) {
        const ssize_t more = send(fd, bytes + sent, sizeof bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (more >= 0) {
            sent += (size_t)more;
        } else if (errno == EAGAIN) {
            struct pollfd polled = {.fd = fd, .events = POLLOUT};
            if (kolo_awake_ns(&assembly->awake) >= assembly->deadline_ns)
                return kolo_assembly_timeout(assembly);
            (void)poll(&polled, 1, wait_ms(assembly, assembly->deadline_ns));
        } else if (errno != EINTR) {
            struct kolo_assembly_message last; /* the rank's last message before it ended */
            const int error = errno, rc = receive(assembly, rank, &last);
            return rc < 0 ? rc : fail_ended(assembly, rank, error);
        }
    }
    KOLO_POINT("assembly.sent");
    return 0;
}

static int keep_listener(struct kolo_assembly *assembly, uint32_t rank, const struct kolo_assembly_message *message) {
    struct kolo_assembly_peer *peer = &assembly->peers[rank];
    peer->listener = message->listener[0];
    if (message->count != 1)
        return fail_protocol(assembly, rank);
    const int rc = kolo_address_localize(&peer->listener, peer->fd);
    return rc < 0 ? fail_ended(assembly, rank, -rc) : 0;
}

static int heed(struct kolo_assembly *assembly, uint32_t rank, const struct kolo_assembly_message *message) {
    static const unsigned next[KOLO_MESSAGE_KINDS] = {[0] = KOLO_MESSAGE_IDENTITY,
                                                      [KOLO_MESSAGE_IDENTITY] = KOLO_MESSAGE_LISTENERS,
                                                      [KOLO_MESSAGE_LISTENERS] = KOLO_MESSAGE_READY};
    struct kolo_assembly_peer *peer = &assembly->peers[rank];
    if (peer->departs && message->kind == KOLO_MESSAGE_READY) {
        kolo_assembly_part(assembly, rank);
        return 0;
    }
    if (message->kind != next[peer->heard])
        return fail_protocol(assembly, rank);
    peer->heard = message->kind;
    assembly->counts[message->kind]++;
    if (message->kind == KOLO_MESSAGE_IDENTITY)
        peer->identity = message->identity;
    return message->kind == KOLO_MESSAGE_LISTENERS ? keep_listener(assembly, rank, message) : 0;
}

/* Waiting. */

/* Rank 0: waits for at most wait_ns until something comes, and takes all that has come. */
static int serve(struct kolo_assembly *assembly, int64_t wait_ns) {
    struct kolo_assembly_message message;
    const int looked = look(assembly);
    if (looked < 0)
        return looked;
    for (uint32_t rank = 0; rank < assembly->size; rank++)
        assembly->polled[rank] = (struct pollfd){.fd = assembly->peers[rank].fd, .events = POLLIN};
    KOLO_POINT("assembly.serving");
    const int64_t until_ns = kolo_awake_ns(&assembly->awake) + wait_ns;
    if (poll(assembly->polled, assembly->size, wait_ms_or_look(assembly, until_ns)) <= 0)
        return 0;
    for (uint32_t rank = 0; rank < assembly->size; rank++) {
        int more = assembly->polled[rank].revents != 0, rc = 0;
        while (more > 0 && rc == 0 && assembly->peers[rank].fd >= 0) {
            more = receive(assembly, rank, &message);
            rc = more > 0 ? heed(assembly, rank, &message) : more;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

int kolo_assembly_serve_until(struct kolo_assembly *assembly, unsigned kind, uint32_t count) {
    assembly->awaited = kind;
    while (assembly->counts[kind] < count) {
        const int64_t left_ns = assembly->deadline_ns - kolo_awake_ns(&assembly->awake);
        if (left_ns <= 0)
            return kolo_assembly_timeout(assembly);
        const int rc = serve(assembly, left_ns);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int kolo_assembly_answer(struct kolo_assembly *assembly, struct kolo_listener *listener, uint32_t missing,
                         int (*take)(void *owner, int fd, const struct kolo_introduction *who), void *owner) {
    int64_t now_ns = kolo_awake_ns(&assembly->awake), look_ns = now_ns + LOOK_NS;
    while (missing > 0) {
        struct kolo_introduction who;
        int fd;
        const int64_t until_ns = look_ns < assembly->deadline_ns ? look_ns : assembly->deadline_ns;
        int rc = kolo_listener_accept(listener, until_ns - now_ns, &fd, &who);
        now_ns = kolo_awake_ns(&assembly->awake);
        if (rc == 0) {
            rc = take(owner, fd, &who);
            missing -= rc > 0;
        } else if (rc > 0) {
            rc = now_ns >= assembly->deadline_ns ? kolo_assembly_timeout(assembly) : 0;
        }
        if (rc >= 0 && now_ns >= look_ns) {
            rc = kolo_assembly_check(assembly);
            now_ns = kolo_awake_ns(&assembly->awake);
            look_ns = now_ns + LOOK_NS;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

int kolo_assembly_await(struct kolo_assembly *assembly, unsigned kind, struct kolo_assembly_message *message) {
    int64_t until_ns = assembly->deadline_ns;
    bool asked = false;
    int rc;
    while ((rc = receive(assembly, 0, message)) == 0 && (rc = look(assembly)) == 0) {
        struct pollfd polled = {.fd = assembly->peers[0].fd, .events = POLLIN};
        const int64_t now_ns = kolo_awake_ns(&assembly->awake);
        if (now_ns >= until_ns && asked)
            return kolo_assembly_say(assembly, KOLO_ERR_TIMEOUT,
                                     "rank 0 does not answer: is it stopped, or does it get no processor?");
        if (now_ns >= until_ns) {
            send_failure(assembly->peers[0].fd, KOLO_ERR_TIMEOUT, "");
            until_ns = now_ns + ANSWER_NS;
            asked = true;
        }
        KOLO_POINT("assembly.awaiting");
        (void)poll(&polled, 1, wait_ms_or_look(assembly, until_ns));
    }
    if (rc < 0)
        return rc;
    return message->kind == kind ? 0 : fail_protocol(assembly, 0);
}

/* Where sending fails, rank 0 or the creation has ended. The leader, which is still connected, finds that out, too. */
void kolo_assembly_depart(struct kolo_assembly *assembly) {
    const struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_READY};
    if (assembly->peers[0].fd >= 0)
        (void)kolo_assembly_send(assembly, 0, &message);
    kolo_assembly_part(assembly, 0);
}

int kolo_assembly_check(struct kolo_assembly *assembly) {
    struct kolo_assembly_message message;
    if (assembly->rank == 0)
        return serve(assembly, 0);
    const int looked = look(assembly);
    if (looked < 0 || assembly->peers[0].fd < 0)
        return looked;
    const int rc = receive(assembly, 0, &message);
    return rc > 0 ? fail_protocol(assembly, 0) : rc;
}
