/* SPDX-License-Identifier: Apache-2.0 */
#include "join_socket.h"

#include "descriptor.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_MAGIC UINT64_C(0x316e696f6a6f6b6f)
#define ANSWER_MAGIC  UINT64_C(0x31737965736f6b6f)

enum { WAITING_MAX = 128 }; /* that have not been looked at yet; the next one's connect waits */

/* An abstract name begins with a NUL and ends with the address. */
static int name_address(const char *job, struct sockaddr_un *address, socklen_t *address_bytes) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length =
        snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "kolo-train/%u/%s", (unsigned)geteuid(), job);
    if ((size_t)length >= sizeof(address->sun_path) - 1)
        return -ENAMETOOLONG;
    *address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return 0;
}

int join_socket_listen(const char *job) {
    struct sockaddr_un address;
    socklen_t address_bytes;
    int rc = name_address(job, &address, &address_bytes);
    if (rc < 0)
        return rc;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address, address_bytes) == 0 && listen(fd, WAITING_MAX) == 0)
        return fd;
    rc = -errno;
    close(fd);
    return rc;
}

static int peer_of(int fd, struct ucred *peer) {
    socklen_t bytes = sizeof(*peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &bytes) == 0 ? 0 : -errno;
}

/* A request is there from the start, for it is sent at once; and who has sent it and is gone has closed. Another user's
 * is read, too: closing a socket with something unread in it would cost them the answer. */
static int read_request(int fd, join_request *request) {
    char spare;
    return recv(fd, request, sizeof(*request), MSG_DONTWAIT | MSG_TRUNC) == (ssize_t)sizeof(*request) &&
           request->magic == REQUEST_MAGIC && request->version[JOIN_VERSION_BYTES - 1] == '\0' &&
           recv(fd, &spare, sizeof(spare), MSG_DONTWAIT) < 0;
}

int join_socket_accept(int listener, join_visitor *visitor) {
    *visitor = (join_visitor){.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (visitor->fd < 0)
        return 0;
    struct ucred peer = {.uid = (uid_t)-1};
    (void)peer_of(visitor->fd, &peer);
    visitor->valid = read_request(visitor->fd, &visitor->request);
    visitor->pid = peer.pid;
    visitor->user = peer.uid;
    return 1;
}

void join_socket_answer(const join_visitor *visitor, const join_answer *answer, int file) {
    join_answer sent = *answer;
    sent.magic = ANSWER_MAGIC;
    (void)descriptor_send(visitor->fd, NULL, 0, &sent, sizeof(sent), file); /* it may have ended */
}

int join_socket_ask(const char *job, const train_settings *settings, uint64_t given) {
    join_request request = {.magic = REQUEST_MAGIC, .settings = *settings, .given = given};
    snprintf(request.version, sizeof(request.version), "%s", kolo_version());
    struct sockaddr_un address;
    socklen_t address_bytes;
    struct ucred peer;
    int rc = name_address(job, &address, &address_bytes);
    if (rc < 0)
        return rc;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&address, address_bytes) != 0)
        rc = -errno;
    if (rc == 0)
        rc = peer_of(fd, &peer);
    if (rc == 0 && peer.uid != geteuid())
        rc = -EPERM;
    if (rc == 0 && send(fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

int join_socket_await(int fd, join_answer *answer, int *file) {
    uid_t sender;
    ssize_t bytes;
    do
        bytes = descriptor_receive(fd, 0, answer, sizeof(*answer), file, &sender);
    while (bytes == -EINTR);
    if (bytes <= 0)
        return bytes < 0 ? (int)bytes : -ECONNRESET;
    if (bytes == (ssize_t)sizeof(*answer) && answer->magic == ANSWER_MAGIC &&
        (answer->verdict == JOIN_WELCOME) == (*file >= 0) && memchr(answer->text, '\0', sizeof(answer->text)) != NULL)
        return 0;
    if (*file >= 0)
        close(*file);
    *file = -1;
    return -EBADMSG;
}
