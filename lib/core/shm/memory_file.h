/* Nameless files of memory that processes of one user share: segments for which /dev/shm has no room, those of
 * kolo_comm_shrink, buffers of kolo_alloc. The process that makes such a file tells the others its pid and descriptor,
 * and they open the file through /proc. By then, or in another pid namespace, the pid or the descriptor may mean
 * something else; so the opened file is compared with the one named. Else the maker hands it over. */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "shm/layout.h"

/* Makes an empty file that only this user may open, by memfd_create. Returns a descriptor or a negative errno. */
int kolo_memory_file_create(const char *title, unsigned flags);

/* Fills in *file for descriptor `fd`, which others can open while this thread lives. Returns 0 or a negative errno. */
int kolo_memory_file_name(int fd, struct kolo_memory_file *file);

/* Opens that file for O_RDONLY or O_RDWR. A descriptor or a negative errno: -ESRCH: it is another file by now. */
int kolo_memory_file_open(const struct kolo_memory_file *file, int access);

/* A handover gives a descriptor to a process of the same machine that may not open it through /proc: after setuid, if
 * the giver is not dumpable, or from another pid namespace. The descriptor goes through a socket of the abstract
 * namespace, so that no name is left anywhere. Both processes have to be in one network namespace.
 *
 *   1. The taker listens, under a name that both know and nobody can guess; from then on anybody can read the name in
 *      /proc/net/unix.
 *   2. The giver, once it is told that the taker listens, connects, sends and closes.
 *   3. The taker, once it is told that the giver has sent, finds the descriptor waiting.
 * Nobody waits at the socket: each side learns elsewhere that the other has done its part or has died. The giver sends
 * only to the taker's process or, where pids say nothing, to a process of its own user. So a taker in another pid
 * namespace that has changed its user gets nothing. The taker accepts only the file expected, from the giver's user. */

/* Makes an address of the abstract namespace, where names belong to no files. Returns its length; 0: it is too long. */
socklen_t kolo_abstract_address(struct sockaddr_un *address, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens a Unix socket that does not block. Returns its descriptor or a negative errno. */
int kolo_socket_open(int type);

/* Opens one that listens there, for up to waiting_max connections at a time. */
int kolo_socket_listen(int type, const struct sockaddr_un *address, socklen_t address_bytes, int waiting_max);

/* Fills *peer with the process that has listened or connected at the other end of a socket. Returns 0 or a negative
 * errno. pid 0: the process is not known here, or of another pid namespace. */
int kolo_socket_peer(int socket, struct ucred *peer);

/* Sends a message through a connected socket, with a descriptor unless it is -1. Never waits. 0 or a negative errno. */
int kolo_descriptor_send(int socket, const void *message, size_t bytes, int fd);

/* Receives a message. Returns its length, more than `bytes` if it was cut off, or a negative errno. *fd: the descriptor
 * that came with the message, for the caller to close; or -1. */
ssize_t kolo_descriptor_receive(int socket, void *message, size_t bytes, int *fd);

/* Returns a random number, as for the socket's name; 0 if the system has none. */
uint64_t kolo_random_number(void);

/* The taker, `rank`, calls this first. Returns a descriptor, for kolo_handover_take to close, or a negative errno. */
int kolo_handover_listen(uint64_t secret, uint32_t rank);

/* The giver calls this. Returns 0 or a negative errno. pid: the taker's, which must be who listens; 0: not known. */
int kolo_handover_give(uint64_t secret, uint32_t rank, uint32_t pid, int fd);

/* The taker calls this last. Returns a descriptor of the file, or a negative errno. Closes the listener. user: of the
 * giver. */
int kolo_handover_take(int listener, uint32_t user, const struct kolo_memory_file *file);
