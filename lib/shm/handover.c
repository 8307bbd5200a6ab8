/* Passes a descriptor through a socket of the abstract namespace. */
#include "shm/handover.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "sync/point.h"

enum { CALLERS_MAX = 8 /* strangers may connect, too */ };

/* A message of one byte that carries one descriptor. */
struct parcel {
    struct msghdr message;
    struct iovec part;
    char byte;
    union {
        struct cmsghdr aligned;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
};

uint64_t kolo_handover_secret(void) {
    uint64_t secret;
    return getrandom(&secret, sizeof secret, 0) == (ssize_t)sizeof secret ? secret : 0;
}

/* Names of the abstract namespace begin with a NUL. Returns the length of what is filled in. */
static socklen_t name(struct sockaddr_un *address, uint64_t secret, uint32_t rank) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "kolo-%016" PRIx64 "-%" PRIu32, secret, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void wrap(struct parcel *parcel) {
    memset(parcel, 0, sizeof *parcel);
    parcel->part = (struct iovec){.iov_base = &parcel->byte, .iov_len = 1};
    parcel->message.msg_iov = &parcel->part;
    parcel->message.msg_iovlen = 1;
    parcel->message.msg_control = &parcel->control;
    parcel->message.msg_controllen = sizeof parcel->control;
}

static int open_socket(void) {
    const int fd = kolo_file_raise(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return fd < 0 ? -errno : fd;
}

int kolo_handover_listen(uint64_t secret, uint32_t rank) {
    struct sockaddr_un address;
    const socklen_t length = name(&address, secret, rank);
    const int fd = open_socket();
    if (fd < 0)
        return fd;
    KOLO_POINT("handover.listening");
    if (bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, CALLERS_MAX) == 0)
        return fd;
    const int error = errno;
    close(fd);
    return -error;
}

static int send_fd(int connection, int fd) {
    struct parcel parcel;
    wrap(&parcel);
    struct cmsghdr *header = CMSG_FIRSTHDR(&parcel.message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(connection, &parcel.message, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

int kolo_handover_give(uint64_t secret, uint32_t rank, uint32_t pid, int fd) {
    struct sockaddr_un address;
    struct ucred listener;
    socklen_t size = sizeof listener;
    const socklen_t length = name(&address, secret, rank);
    const int connection = open_socket();
    if (connection < 0)
        return connection;
    KOLO_POINT("handover.connecting");
    int rc = connect(connection, (struct sockaddr *)&address, length) < 0 ||
                     getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &listener, &size) < 0
                 ? -errno
                 : 0;
    if (rc == 0 && pid && listener.pid != (pid_t)pid)
        rc = -EPERM;
    KOLO_POINT("handover.giving");
    if (rc == 0)
        rc = send_fd(connection, fd);
    KOLO_POINT("handover.given");
    close(connection);
    return rc;
}

/* The descriptor that a caller has sent, or a negative errno. */
static int receive_fd(int connection) {
    struct parcel parcel;
    int fd;
    wrap(&parcel);
    if (recvmsg(connection, &parcel.message, MSG_CMSG_CLOEXEC) < 0)
        return -errno;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&parcel.message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof fd))
        return -ENOMSG;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return kolo_file_raise(fd);
}

int kolo_handover_take(int listener, const struct kolo_memory_file *file) {
    int rc = -ENOENT;
    KOLO_POINT("handover.taking");
    for (int i = 0; rc < 0 && i < CALLERS_MAX; i++) {
        const int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (connection < 0)
            break;
        rc = receive_fd(connection);
        close(connection);
        if (rc >= 0 && !kolo_file_is(rc, file->device, file->inode)) {
            close(rc);
            rc = -ESRCH;
        }
    }
    KOLO_POINT("handover.taken");
    close(listener);
    return rc;
}
