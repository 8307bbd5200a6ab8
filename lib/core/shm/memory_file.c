/* Nameless files: their making, opening those of others through /proc, and the handover through a socket. */
#include "shm/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

int kolo_memory_file_create(const char *title, unsigned flags) {
    const int fd = kolo_file_raise(memfd_create(title, flags | MFD_CLOEXEC));
    if (fd < 0)
        return -errno;
    if (fchmod(fd, 0600) == 0) /* by default any process that may look into /proc/PID/fd can open the file */
        return fd;
    const int error = errno;
    close(fd);
    return -error;
}

int kolo_memory_file_name(int fd, struct kolo_memory_file *file) {
    struct stat found;
    if (fstat(fd, &found) < 0)
        return -errno;
    *file = (struct kolo_memory_file){(uint64_t)gettid(), (uint64_t)fd, found.st_dev, found.st_ino};
    return 0;
}

int kolo_memory_file_open(const struct kolo_memory_file *file, int access) {
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/fd/%" PRIu64, file->pid, file->fd);
    const int fd = kolo_file_raise(open(path, access | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0)
        return -errno;
    if (fstat(fd, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode)
        return fd;
    close(fd);
    return -ESRCH;
}

enum { CALLERS_MAX = 4096 /* strangers may connect, too: as many as the kernel lets wait */ };

/* A message that may carry one descriptor. */
struct parcel {
    struct msghdr message;
    struct iovec part;
    union {
        struct cmsghdr aligned;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
};

uint64_t kolo_random_number(void) {
    uint64_t number;
    return getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number ? number : 0;
}

socklen_t kolo_abstract_address(struct sockaddr_un *address, const char *format, ...) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX}; /* the name begins with a NUL */
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(address->sun_path + 1, sizeof address->sun_path - 1, format, arguments);
    va_end(arguments);
    return (size_t)length < sizeof address->sun_path - 1
               ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)
               : 0;
}

static socklen_t name(struct sockaddr_un *address, uint64_t secret, uint32_t rank) {
    return kolo_abstract_address(address, "kolo-%016" PRIx64 "-%u", secret, rank);
}

static void wrap(struct parcel *parcel, const void *message, size_t bytes) {
    memset(parcel, 0, sizeof *parcel);
    parcel->part = (struct iovec){.iov_base = (void *)message, .iov_len = bytes};
    parcel->message.msg_iov = &parcel->part;
    parcel->message.msg_iovlen = 1;
    parcel->message.msg_control = &parcel->control;
    parcel->message.msg_controllen = CMSG_LEN(sizeof(int)); /* CMSG_SPACE has room for a second descriptor */
}

int kolo_socket_open(int type) {
    const int fd = kolo_file_raise(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return fd < 0 ? -errno : fd;
}

int kolo_socket_listen(int type, const struct sockaddr_un *address, socklen_t address_bytes, int waiting_max) {
    const int fd = kolo_socket_open(type);
    if (fd < 0 || (bind(fd, (const struct sockaddr *)address, address_bytes) == 0 && listen(fd, waiting_max) == 0))
        return fd;
    const int error = errno;
    close(fd);
    return -error;
}

int kolo_handover_listen(uint64_t secret, uint32_t rank) {
    struct sockaddr_un address;
    const socklen_t length = name(&address, secret, rank);
    KOLO_POINT("handover.listening");
    return kolo_socket_listen(SOCK_STREAM, &address, length, CALLERS_MAX);
}

int kolo_descriptor_send(int socket, const void *message, size_t bytes, int fd) {
    struct parcel parcel;
    wrap(&parcel, message, bytes);
    if (fd < 0) {
        parcel.message.msg_controllen = 0;
    } else {
        struct cmsghdr *header = CMSG_FIRSTHDR(&parcel.message);
        *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    return sendmsg(socket, &parcel.message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int kolo_socket_peer(int socket, struct ucred *peer) {
    socklen_t bytes = sizeof *peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, peer, &bytes) < 0 ? -errno : 0;
}

int kolo_handover_give(uint64_t secret, uint32_t rank, uint32_t pid, int fd) {
    struct sockaddr_un address;
    struct ucred listener;
    const socklen_t length = name(&address, secret, rank);
    const int connection = kolo_socket_open(SOCK_STREAM);
    if (connection < 0)
        return connection;
    KOLO_POINT("handover.connecting");
    int rc =
        connect(connection, (struct sockaddr *)&address, length) < 0 ? -errno : kolo_socket_peer(connection, &listener);
    /* A stranger sees the name, and may have taken it when the taker died. */
    if (rc == 0 && (pid ? listener.pid != (pid_t)pid : listener.uid != geteuid()))
        rc = -EPERM;
    KOLO_POINT("handover.giving");
    if (rc == 0)
        rc = kolo_descriptor_send(connection, "", 1, fd);
    KOLO_POINT("handover.given");
    close(connection);
    return rc;
}

ssize_t kolo_descriptor_receive(int socket, void *message, size_t bytes, int *fd) {
    struct parcel parcel;
    wrap(&parcel, message, bytes);
    *fd = -1;
    const ssize_t got = recvmsg(socket, &parcel.message, MSG_CMSG_CLOEXEC | MSG_TRUNC);
    if (got < 0)
        return -errno;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&parcel.message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof *fd)) {
        memcpy(fd, CMSG_DATA(header), sizeof *fd);
        *fd = kolo_file_raise(*fd);
    }
    return got;
}

/* Returns the descriptor that a caller has sent, or a negative errno. */
static int receive_fd(int connection) {
    char byte;
    int fd;
    const ssize_t got = kolo_descriptor_receive(connection, &byte, sizeof byte, &fd);
    return got < 0 ? (int)got : fd < 0 ? -ENOMSG : fd;
}

int kolo_handover_take(int listener, uint32_t user, const struct kolo_memory_file *file) {
    int rc = -ENOENT;
    struct ucred caller;
    KOLO_POINT("handover.taking");
    for (int i = 0; rc < 0 && i <= CALLERS_MAX; i++) {
        const int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (connection < 0)
            break;
        /* A descriptor from a stranger is not even received, since closing it might take any time. */
        rc = kolo_socket_peer(connection, &caller) == 0 && caller.uid == user ? receive_fd(connection) : -EPERM;
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
