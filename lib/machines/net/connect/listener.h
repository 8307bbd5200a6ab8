/* Connections between processes of a job, over TCP, made only with processes that know its secret, as both sides prove
 * (net/connect/handshake.h). One side opens a listener at a given address, and the other side connects. Messages are of
 * fixed size; nothing is allocated, and no length is believed, before the proof. A process that has not yet proved
 * itself has one of KOLO_LISTENER_PENDING places, for KOLO_LISTENER_PENDING_NS or until a newcomer needs it: so
 * strangers, scanners and slow processes block nobody for long.
 *
 * Data that is sent after the handshake is neither encrypted nor authenticated. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "base/clock.h"
#include "base/status.h"
#include "net/connect/address.h"
#include "net/connect/handshake.h"
#include "net/connect/secret.h"

#define KOLO_LISTENER_PENDING    64
#define KOLO_LISTENER_PENDING_NS INT64_C(5000000000)
struct kolo_listener;

/* Listens at `address`, whose port may be 0. *bound is then the address at which it listens, and undefined where this
 * fails. KOLO_ERR_SYSTEM: the message says what to do. */
int kolo_listener_open(struct kolo_listener **listener, const struct kolo_address *address,
                       const struct kolo_secret *secret, struct kolo_address *bound);

/* Makes the listener admit processes that know that secret from now on; *bound is where it listens. Closes pending
 * connections. KOLO_ERR_SYSTEM. */
int kolo_listener_reopen(struct kolo_listener *listener, const struct kolo_secret *secret, struct kolo_address *bound);

/* Logs refused connections at level warn from here on: the first ones, and then each time that their number doubles. */
void kolo_listener_log(struct kolo_listener *listener, kolo_log_level level, int rank);

/* Waits for the next process that has proved that it knows the secret: 0, with the connected socket (non-blocking,
 * TCP_NODELAY) and the process's introduction, even if it is of another version; 1 after wait_ns. Refuses all other
 * processes. KOLO_ERR_SYSTEM. */
int kolo_listener_accept(struct kolo_listener *listener, int64_t wait_ns, int *fd, struct kolo_introduction *who);

/* The number of refused connections, and the last one with its reason ("10.0.0.7:40312: wrong secret"), for messages
 * about ranks that never came. The text is the listener's. */
uint64_t kolo_listener_refused(const struct kolo_listener *listener, const char **reason);

void kolo_listener_close(struct kolo_listener *listener);

/* Another descriptor of its socket, for kolo_listener_thin; or a negative errno. */
int kolo_listener_share(const struct kolo_listener *listener);

/* Ends the connections that wait in the kernel's queue of a listener, where they are more than `most`, or more than
 * half of what the queue holds. While no thread accepts at a listener, connections of strangers wait there, and once
 * the queue is full the kernel turns all newcomers away. The other side of an honest connection tries again. Any thread
 * may call this at any time, also while another thread accepts. */
void kolo_listener_thin(int fd, uint32_t most);

/* The connection that a process wants. */
struct kolo_connecting {
    const struct kolo_address *to;
    const struct kolo_address *from; /* the local address to connect from, whose port is ignored; NULL: any */
    const struct kolo_secret *secret;
    struct kolo_introduction self;
    struct kolo_awake *awake;
    int64_t deadline_ns; /* in that awake time */
    bool is_open;        /* the listener is known to have been opened: KOLO_ERR_PEER_DEAD as soon as nobody listens */
    int64_t reach_ns;    /* the address itself must be reached within that, or 3 s where it refuses: KOLO_ERR_TIMEOUT;
                            0: by the deadline */
    int alert_fd;        /* 1 as soon as it is readable; -1: none */
};

/* Connects to a listener, and proves that this process knows the secret. It begins again while no process listens
 * there, or if the listener has hung up before it has said anything. *fd is as kolo_listener_accept gives it.
 * KOLO_ERR_TIMEOUT at the deadline, or after reach_ns, with the last reason; KOLO_ERR_PEER_DEAD where a process has
 * listened, and for 3 s none does; KOLO_ERR_SYSTEM where the other side has not proved that it knows the secret, or has
 * refused this process; KOLO_ERR_VERSION; KOLO_ERR_ARG. */
int kolo_connect(const struct kolo_connecting *wanted, int *fd);

/* Sends only a hello to a listener; a process that serves it will reply. 0 or a negative errno. */
int kolo_connect_hello(int fd, const struct kolo_secret *secret);
