/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptor.h"

#include "complain.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { DELIVERIES_MAX = 16 }; /* that a rank looks at for rank 0's; others may send something, too */

/* Room for what comes with a message: the sender's user, a descriptor. */
typedef union control {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
} control;

int descriptor_send(int socket, const struct sockaddr *to, socklen_t to_bytes, const void *message,
                    size_t message_bytes, int fd) {
    struct iovec payload = {(void *)(uintptr_t)message, message_bytes};
    struct sockaddr_un address;
    control room = {0};
    struct msghdr sent = {.msg_iov = &payload, .msg_iovlen = 1};
    if (to != NULL) {
        memcpy(&address, to, to_bytes);
        sent.msg_name = &address;
        sent.msg_namelen = to_bytes;
    }
    if (fd >= 0) {
        sent.msg_control = room.bytes;
        sent.msg_controllen = CMSG_SPACE(sizeof(fd));
        struct cmsghdr *header = CMSG_FIRSTHDR(&sent);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
    return sendmsg(socket, &sent, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t descriptor_receive(int socket, int flags, void *message, size_t message_bytes, int *fd, uid_t *sender) {
    struct iovec payload = {message, message_bytes};
    control room = {0};
    struct msghdr received = {
        .msg_iov = &payload, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof(room.bytes)};
    *fd = -1;
    *sender = (uid_t)-1;
    ssize_t bytes = recvmsg(socket, &received, flags | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    if (bytes < 0)
        return -errno;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&received); header != NULL; header = CMSG_NXTHDR(&received, header)) {
        struct ucred credentials;
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
            memcpy(fd, CMSG_DATA(header), sizeof(*fd));
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&credentials, CMSG_DATA(header), sizeof(credentials));
            *sender = credentials.uid;
        }
    }
    return bytes;
}

/* How a rank gets a descriptor: it opens a socket, to which rank 0 sends it. The kernel draws the name, five characters
 * after a NUL. */
typedef struct inbox_name {
    char text[6];
    uint8_t taken;
    uint8_t unused;
} inbox_name;

enum { INBOX_ADDRESS_BYTES = offsetof(struct sockaddr_un, sun_path) + sizeof(((inbox_name *)0)->text) };

static int inbox_open(inbox_name *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t address_bytes = sizeof(address);
    const int on = 1;
    int inbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (inbox < 0)
        return -1;
    if (setsockopt(inbox, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
        bind(inbox, (struct sockaddr *)&address, sizeof(address.sun_family)) == 0 &&
        getsockname(inbox, (struct sockaddr *)&address, &address_bytes) == 0 && address_bytes == INBOX_ADDRESS_BYTES) {
        memcpy(name->text, address.sun_path, sizeof(name->text));
        name->taken = 1;
        return inbox;
    }
    close(inbox);
    return -1;
}

/* Who does not get it finds that out. */
static void deliver(const inbox_name *names, int ranks, int fd) {
    const char byte = 0;
    int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (int rank = 1; from >= 0 && rank < ranks; rank++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        memcpy(address.sun_path, names[rank].text, sizeof(names[rank].text));
        if (names[rank].taken)
            (void)descriptor_send(from, (struct sockaddr *)&address, INBOX_ADDRESS_BYTES, &byte, sizeof(byte), fd);
    }
    if (from >= 0)
        close(from);
}

static int collect(int inbox) {
    for (int i = 0; i < DELIVERIES_MAX; i++) {
        char byte;
        int fd;
        uid_t sender;
        if (descriptor_receive(inbox, MSG_DONTWAIT, &byte, sizeof(byte), &fd, &sender) < 0)
            return -1;
        if (fd >= 0 && sender == getuid())
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

int descriptor_share(kolo_comm *comm, int *fd) {
    int ranks = kolo_comm_size(comm), rank = kolo_comm_rank(comm);
    inbox_name *names = calloc((size_t)ranks, sizeof(*names));
    if (names == NULL)
        return complain(comm, "not enough memory for %d ranks", ranks);
    int inbox = rank != 0 && *fd < 0 ? inbox_open(&names[rank]) : -1;
    int rc = kolo_allreduce(comm, names, names, (size_t)ranks * sizeof(*names), KOLO_U8, KOLO_BOR);
    if (rc == 0 && rank == 0 && *fd >= 0)
        deliver(names, ranks, *fd);
    if (rc == 0)
        rc = kolo_barrier(comm);
    if (rc == 0 && inbox >= 0)
        *fd = collect(inbox);
    if (inbox >= 0)
        close(inbox);
    free(names);
    return rc < 0 ? complain_kolo(comm, "cannot hand a descriptor to all ranks") : 0;
}
