/* Connections between processes of a job, over TCP, made only with whoever knows its secret.
 *
 * One side opens a listener, at an address that it was told, and lets in whoever proves to know the secret; the other
 * side connects. Both prove it: each sends a nonce of 32 bytes, and then an HMAC-SHA-256, keyed with the secret, over
 * both nonces, its side, and all that it says of itself (struct kolo_introduction, the version, the layout), so that
 * neither a replay nor a reflection nor a proof for another session, role or rank is worth anything. Messages are of
 * fixed size; nothing is allocated, and no length is believed, before the proof. A listener has KOLO_LISTENER_PENDING
 * places for those who have not yet proved themselves; each is shown out after KOLO_LISTENER_PENDING_NS, and the oldest
 * where all are taken, so that strangers, scanners and the slow keep nobody out for long.
 *
 * What is sent after that is neither encrypted nor authenticated. */
#ifndef KOLO_NET_CONNECT_LISTENER_H
#define KOLO_NET_CONNECT_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "base/awake.h"
#include "base/log.h"
#include "net/connect/address.h"
#include "net/connect/handshake.h"
#include "net/connect/secret.h"

#define KOLO_LISTENER_PENDING    64
#define KOLO_LISTENER_PENDING_NS INT64_C(5000000000)
struct kolo_listener;

/* Listens at `address`, whose port may be 0; *bound is where it listens then. KOLO_ERR_SYSTEM, with the address and
 * what to do in the message (another KOLO_RENDEZVOUS port, KOLO_NET_ADDR). */
int kolo_listener_open(struct kolo_listener **listener, const struct kolo_address *address,
                       const struct kolo_secret *secret, struct kolo_address *bound);

/* From now on the listener is for who knows that secret; *bound is where it listens. Whoever was about to prove itself
 * is shown out. KOLO_ERR_SYSTEM. */
int kolo_listener_reopen(struct kolo_listener *listener, const struct kolo_secret *secret, struct kolo_address *bound);

/* From here on, who is turned away is logged as KOLO_LOG=warn, by address and reason: the first ones, and then each
 * time that their number doubles. */
void kolo_listener_log(struct kolo_listener *listener, kolo_log_level level, int rank);

/* Waits for the next one that has proved itself: 0, with the connected socket (non-blocking, TCP_NODELAY) and who it
 * is, also if it is of another version; 1 after wait_ns. Others are turned away. KOLO_ERR_SYSTEM. */
int kolo_listener_accept(struct kolo_listener *listener, int64_t wait_ns, int *fd, struct kolo_introduction *who);

/* How many were turned away, and who was the last one and why ("10.0.0.7:40312: wrong secret"), for messages about
 * ranks that never came. The text is the listener's. */
uint64_t kolo_listener_refused(const struct kolo_listener *listener, const char **reason);

void kolo_listener_close(struct kolo_listener *listener);

/* Connects to a listener and proves itself; tries again, from the start, while nobody listens there, or who does has
 * hung up before it has said anything. `from`, unless NULL, is the local address to connect from (its port counts for
 * nothing). *fd is as kolo_listener_accept gives it. 1 as soon as alert_fd, unless -1, is readable. KOLO_ERR_TIMEOUT at
 * the deadline, in awake time, with the last reason; KOLO_ERR_SYSTEM where the other side has not proved to know the
 * secret, or has turned this one down, with what to do (KOLO_SECRET_FILE on both); KOLO_ERR_VERSION for another
 * version; KOLO_ERR_ARG. */
int kolo_connect(const struct kolo_address *to, const struct kolo_address *from, const struct kolo_secret *secret,
                 const struct kolo_introduction *self, struct kolo_awake *awake, int64_t deadline_ns, int alert_fd,
                 int *fd);

/* The same at a listener that is known to have been opened: KOLO_ERR_PEER_DEAD as soon as nobody listens there. */
int kolo_connect_again(const struct kolo_address *to, const struct kolo_address *from, const struct kolo_secret *secret,
                       const struct kolo_introduction *self, struct kolo_awake *awake, int64_t deadline_ns,
                       int alert_fd, int *fd);

/* Says hello through a connection to a listener, and no more: who answers the listener will reply. 0 or a negative
 * errno. */
int kolo_connect_hello(int fd, const struct kolo_secret *secret);

#endif
