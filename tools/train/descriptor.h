/* Open files that one process hands to another through a Unix socket. Both ends are this user's; what anybody else
 * sends is dropped. */
#ifndef KOLO_TRAIN_DESCRIPTOR_H
#define KOLO_TRAIN_DESCRIPTOR_H

#include "kolo.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Sends a message with a descriptor, -1: without one, as far as that can be done without waiting. `to` NULL: to whom
 * the socket is connected. Returns 0 or a negative errno. */
int descriptor_send(int socket, const struct sockaddr *to, socklen_t to_bytes, const void *message,
                    size_t message_bytes, int fd);

/* Receives a message, with recvmsg's flags. Returns its length, more than message_bytes if it was cut off, or a
 * negative errno. *fd is the descriptor that came with it, which the caller closes, or -1. *sender is the user who sent
 * it, where the socket has SO_PASSCRED, or -1. */
ssize_t descriptor_receive(int socket, int flags, void *message, size_t message_bytes, int *fd, uid_t *sender);

/* Gives rank 0's *fd to all ranks whose own is -1. Collective. Where it cannot be had, -1 stays. Returns 0, or -1
 * (COMPLAIN_LOST if the communicator broke), having said why. */
int descriptor_share(kolo_comm *comm, int *fd);

#endif
