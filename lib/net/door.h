/* Connections between processes of a job, over TCP, made only with whoever knows its secret.
 *
 * One side opens a door, at an address that it was told, and lets in whoever proves to know the secret; the other side
 * knocks. Both prove it: each sends a nonce of 32 bytes, and then an HMAC-SHA-256, keyed with the secret, over both
 * nonces, its side, and all that it says of itself (struct kolo_introduction, the version, the layout), so that neither
 * a replay nor a reflection nor a proof for another session, role or rank is worth anything. Messages are of fixed
 * size; nothing is allocated, and no length is believed, before the proof. A door has KOLO_DOOR_PENDING places for
 * those who have not yet proved themselves; each is shown out after KOLO_DOOR_PENDING_NS, and the oldest where all are
 * taken, so that strangers, scanners and the slow keep nobody out for long.
 *
 * What is sent after that is neither encrypted nor authenticated. */
#ifndef KOLO_NET_DOOR_H
#define KOLO_NET_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "base/awake.h"
#include "base/log.h"
#include "net/address.h"
#include "net/secret.h"

#define KOLO_DOOR_PENDING    64
#define KOLO_DOOR_PENDING_NS INT64_C(5000000000)
#define KOLO_SESSION_BYTES   16
#define KOLO_NET_JOB_BYTES   128

/* What a connection is for. */
enum { KOLO_ROLE_JOIN = 1, KOLO_ROLE_CONTROL = 2, KOLO_ROLE_DATA = 3, KOLO_ROLE_SHRINK = 4 };

/* What who knocks says of itself. */
struct kolo_introduction {
    uint32_t role;
    uint32_t rank, size; /* of all */
    uint32_t node;       /* CONTROL, DATA, SHRINK: which node it is */
    uint32_t stream;     /* CONTROL, DATA: which of that role, from 0 */
    uint8_t
        session[KOLO_SESSION_BYTES]; /* CONTROL, DATA, SHRINK: which creation; JOIN: random: who comes again shows */
    char job[KOLO_NET_JOB_BYTES];    /* name of the job; "" where ranks have none */

    bool foreign; /* set by the door: it is of another version, this one, and there is no more to be said to it */
    uint32_t version, layout;
};

struct kolo_door;

/* Listens at `address`, whose port may be 0; *bound is where it listens then. KOLO_ERR_SYSTEM, with the address and
 * what to do in the message (another KOLO_RENDEZVOUS port, KOLO_NET_ADDR). */
int kolo_door_open(struct kolo_door **door, const struct kolo_address *address, const struct kolo_secret *secret,
                   struct kolo_address *bound);

/* From now on the door is for who knows that secret; *bound is where it listens. Whoever was about to prove itself is
 * shown out. KOLO_ERR_SYSTEM. */
int kolo_door_reopen(struct kolo_door *door, const struct kolo_secret *secret, struct kolo_address *bound);

/* From here on, who is turned away is logged as KOLO_LOG=warn, by address and reason: the first ones, and then each
 * time that their number doubles. */
void kolo_door_log(struct kolo_door *door, kolo_log_level level, int rank);

/* Waits for the next one that has proved itself: 0, with the connected socket (non-blocking, TCP_NODELAY) and who it
 * is, also if it is of another version; 1 after wait_ns. Others are turned away. KOLO_ERR_SYSTEM. */
int kolo_door_answer(struct kolo_door *door, int64_t wait_ns, int *fd, struct kolo_introduction *who);

/* How many were turned away, and who was the last one and why ("10.0.0.7:40312: wrong secret"), for messages about
 * ranks that never came. The text is the door's. */
uint64_t kolo_door_refused(const struct kolo_door *door, const char **reason);

void kolo_door_close(struct kolo_door *door);

/* Connects to a door and proves itself; tries again, from the start, while nobody listens there, or who does has hung
 * up before it has said anything. `from`, unless NULL, is the local address to connect from (its port counts for
 * nothing). *fd is as kolo_door_answer gives it. 1 as soon as alert_fd, unless -1, is readable. KOLO_ERR_TIMEOUT at the
 * deadline, in awake time, with the last reason; KOLO_ERR_SYSTEM where the other side has not proved to know the
 * secret, or has turned this one down, with what to do (KOLO_SECRET_FILE on both); KOLO_ERR_VERSION for another
 * version; KOLO_ERR_ARG. */
int kolo_door_knock(const struct kolo_address *to, const struct kolo_address *from, const struct kolo_secret *secret,
                    const struct kolo_introduction *self, struct kolo_awake *awake, int64_t deadline_ns, int alert_fd,
                    int *fd);

/* The same at a door that is known to have been opened: KOLO_ERR_PEER_DEAD as soon as nobody listens there. */
int kolo_door_knock_again(const struct kolo_address *to, const struct kolo_address *from,
                          const struct kolo_secret *secret, const struct kolo_introduction *self,
                          struct kolo_awake *awake, int64_t deadline_ns, int alert_fd, int *fd);

/* Says hello through a connection to a door, and no more: who answers the door will reply. 0 or a negative errno. */
int kolo_door_hail(int fd, const struct kolo_secret *secret);

#endif
