/* The socket at which processes ask to join: both sides of it. */
#include "api/groups/join_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "shm/memory_file.h"

#define REQUEST_MAGIC UINT64_C(0x326e696f6a6f6b6f)
#define ANSWER_MAGIC  UINT64_C(0x32737965736f6b6f)

#define PAUSE_NS (10 * KOLO_NS_PER_MS) /* between two looks whether there is room */

enum { WAITING_MAX = 128 }; /* that have not been looked at yet; the next one waits for room */

/* Returns the length of the address; 0: it is too long. */
static socklen_t name(struct sockaddr_un *address, const char *job) {
    return kolo_abstract_address(address, "kolo-join/%u/%s", (unsigned)geteuid(), job);
}

int kolo_join_listen(const char *job) {
    struct sockaddr_un address;
    const socklen_t bytes = name(&address, job);
    return bytes ? kolo_socket_listen(SOCK_SEQPACKET, &address, bytes, WAITING_MAX) : -ENAMETOOLONG;
}

/* Returns whether a process has sent a valid request and is still there: requests are sent at once, and a process that
 * has ended has closed its side. Another user's request is read, too: unread data would discard the answer. */
static bool read_request(int fd, struct kolo_join_request *request) {
    char spare;
    return recv(fd, request, sizeof *request, MSG_DONTWAIT | MSG_TRUNC) == (ssize_t)sizeof *request &&
           request->magic == REQUEST_MAGIC && request->message_bytes <= sizeof request->message &&
           recv(fd, &spare, sizeof spare, MSG_DONTWAIT) < 0;
}

bool kolo_join_accept(int listener, struct kolo_join_visitor *visitor) {
    *visitor = (struct kolo_join_visitor){.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (visitor->fd < 0)
        return false;
    struct ucred peer = {.uid = (uid_t)-1};
    (void)kolo_socket_peer(visitor->fd, &peer);
    visitor->valid = read_request(visitor->fd, &visitor->request);
    visitor->pid = peer.pid;
    visitor->user = peer.uid;
    return true;
}

void kolo_join_answer_to(const struct kolo_join_visitor *visitor, const struct kolo_join_answer *answer, int file) {
    struct kolo_join_answer sent = *answer;
    sent.magic = ANSWER_MAGIC;
    KOLO_POINT("join.answering");
    (void)kolo_descriptor_send(visitor->fd, &sent, sizeof sent, file); /* it may have ended */
    KOLO_POINT("join.answered");
}

void kolo_join_refuse(const struct kolo_join_visitor *visitor, const char *why) {
    struct kolo_join_answer answer = {.taken = 0};
    snprintf(answer.text, sizeof answer.text, "%s", why);
    kolo_join_answer_to(visitor, &answer, -1);
    close(visitor->fd);
}

/* Connects. Which user listens is known only once there is room, and another user may never make room. */
static int enter_line(int fd, const struct sockaddr_un *address, socklen_t address_bytes, int64_t timeout_ms) {
    const int64_t begin_ns = kolo_clock_ns();
    while (connect(fd, (const struct sockaddr *)address, address_bytes) < 0) {
        if (errno != EAGAIN || (timeout_ms && (kolo_clock_ns() - begin_ns) / KOLO_NS_PER_MS >= timeout_ms))
            return -errno;
        kolo_clock_sleep(PAUSE_NS);
    }
    return fcntl(fd, F_SETFL, 0) < 0 ? -errno : 0; /* the wait for an answer has no end of its own */
}

int kolo_join_ask(const char *job, const void *message, size_t message_bytes, int64_t timeout_ms) {
    struct kolo_join_request request = {
        .magic = REQUEST_MAGIC, .version = KOLO_VERSION_WORD, .message_bytes = (uint32_t)message_bytes};
    struct sockaddr_un address;
    const socklen_t address_bytes = name(&address, job);
    const int fd = address_bytes ? kolo_socket_open(SOCK_SEQPACKET) : -ENAMETOOLONG;
    struct ucred peer;
    if (fd < 0)
        return fd;
    if (message_bytes)
        memcpy(request.message, message, message_bytes);
    KOLO_POINT("join.connecting");
    int rc = enter_line(fd, &address, address_bytes, timeout_ms);
    KOLO_POINT("join.connected");
    if (rc == 0)
        rc = kolo_socket_peer(fd, &peer);
    if (rc == 0 && peer.uid != geteuid())
        rc = -EPERM;
    if (rc == 0 && send(fd, &request, sizeof request, MSG_NOSIGNAL) < 0)
        rc = -errno;
    KOLO_POINT("join.asked");
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

int kolo_join_await(int fd, struct kolo_join_answer *answer, int *file) {
    ssize_t bytes;
    do
        bytes = kolo_descriptor_receive(fd, answer, sizeof *answer, file);
    while (bytes == -EINTR);
    KOLO_POINT("join.taken");
    if (bytes <= 0)
        return bytes < 0 ? (int)bytes : -ECONNRESET;
    if (bytes == (ssize_t)sizeof *answer && answer->magic == ANSWER_MAGIC && (answer->taken == 1) == (*file >= 0) &&
        memchr(answer->text, '\0', sizeof answer->text))
        return 0;
    if (*file >= 0)
        close(*file);
    *file = -1;
    return -EBADMSG;
}
