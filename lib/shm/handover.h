/* Hands a descriptor to a process of the same machine that may not open it through /proc: after setuid, where the giver
 * is not dumpable, or from another pid namespace. It goes through a socket of the abstract namespace, so that no name
 * is left anywhere; the two have to be in one network namespace.
 *
 * The taker listens, under a name that both know and nobody can guess; the giver, told that it does, connects, sends
 * and closes; the taker, told so, finds the descriptor waiting. Nobody waits at the socket: that a side has done its
 * part, or has died, the two find out elsewhere. What comes through the socket is believed only if it is the very file.
 */
#ifndef KOLO_SHM_HANDOVER_H
#define KOLO_SHM_HANDOVER_H

#include <stdint.h>
#include <sys/types.h>

#include "shm/memory_file.h"

/* Sends a message to whom the socket is connected, with a descriptor unless that is -1, as far as it can be done
 * without waiting: 0 or a negative errno. */
int kolo_descriptor_send(int socket, const void *message, size_t bytes, int fd);

/* Receives one: its length, more than `bytes` if it was cut off, or a negative errno. *fd: the descriptor that came
 * with it, for the caller to close; or -1. */
ssize_t kolo_descriptor_receive(int socket, void *message, size_t bytes, int *fd);

/* A number for the socket's name; 0 where the system has none to give. */
uint64_t kolo_handover_secret(void);

/* The taker, which is `rank`: returns a descriptor, for kolo_handover_take to close, or a negative errno. */
int kolo_handover_listen(uint64_t secret, uint32_t rank);

/* The giver: 0 or a negative errno. pid: of the taker, which must be the one that listens; 0: not known here. */
int kolo_handover_give(uint64_t secret, uint32_t rank, uint32_t pid, int fd);

/* The taker: returns a descriptor of that file, or a negative errno. Closes the listener. */
int kolo_handover_take(int listener, const struct kolo_memory_file *file);

#endif
