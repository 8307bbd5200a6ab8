/* The handshake between a connector and a listener (net/connect/listener.h): four messages of fixed size,
 * little-endian.
 *
 *     hello          connector   version, layout, whether a secret is wanted, a nonce
 *     welcome        listener    the same of its own
 *     introduction   connector   struct kolo_introduction, and a proof
 *     verdict        listener    admitted or not, and a proof
 *
 * A proof is an HMAC-SHA-256, keyed with the secret, over all bytes of the dialogue before it. So it is worthless in
 * another dialogue, where the other side's nonce differs; or if it is sent back to the side that made it, which expects
 * a proof over more bytes or fewer; or if any byte of the dialogue was changed. The connector sends its proof first: a
 * process that merely connects gets nothing that was computed with the secret.
 *
 * Some things never change: the sizes of the first three messages, their marks, the places of version, layout, role,
 * rank and size in them, and the proof. So processes of all versions can tell each other their version, and prove it. A
 * connector that finds a listener of another version introduces itself, and hangs up: so the listener knows, too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "net/connect/secret.h"

#define KOLO_WIRE_LAYOUT        7u /* changes with every change to what processes on different machines send each other */
#define KOLO_HANDSHAKE_BYTES    64
#define KOLO_INTRODUCTION_BYTES 256
#define KOLO_VERDICT_BYTES      64
#define KOLO_SESSION_BYTES      16
#define KOLO_NET_JOB_BYTES      128

/* The purposes of a connection. */
enum { KOLO_ROLE_JOIN = 1, KOLO_ROLE_LINK = 2, KOLO_ROLE_SHRINK = 3 };

/* The connector's description of itself. */
struct kolo_introduction {
    uint32_t role;
    uint32_t rank, size;                 /* of all */
    uint32_t node;                       /* LINK, SHRINK: the connector's node */
    uint32_t stream;                     /* LINK: which of the sockets between the two nodes, from 0 */
    uint8_t session[KOLO_SESSION_BYTES]; /* LINK, SHRINK: which creation; JOIN: random, for a rank that comes again */
    char job[KOLO_NET_JOB_BYTES];        /* name of the job; "" where ranks have none */

    bool foreign; /* set by the listener: the connector is of another version, `version`, and gets no further answer */
    uint32_t version, layout;
};

/* The bytes of all four messages, as they are sent. */
struct kolo_dialogue {
    uint8_t hello[KOLO_HANDSHAKE_BYTES];
    uint8_t welcome[KOLO_HANDSHAKE_BYTES];
    uint8_t introduction[KOLO_INTRODUCTION_BYTES];
    uint8_t verdict[KOLO_VERDICT_BYTES];
};

typedef enum kolo_handshake_kind { KOLO_HELLO = 1, KOLO_WELCOME = 2 } kolo_handshake_kind;

struct kolo_handshake {
    uint32_t version, layout;
    bool secret; /* false: KOLO_SECRET=none */
    uint8_t nonce[KOLO_KEY_BYTES];
};

enum { KOLO_VERDICT_ADMITTED = 1, KOLO_VERDICT_WRONG_SECRET = 2, KOLO_VERDICT_MALFORMED = 3 };

/* A handshake of this version, with a new nonce. KOLO_ERR_SYSTEM. */
int kolo_handshake_make(struct kolo_handshake *handshake, const struct kolo_secret *secret);

void kolo_handshake_pack(const struct kolo_handshake *handshake, kolo_handshake_kind kind, uint8_t *bytes);

/* Returns 0; -EPROTO where the bytes are no handshake of that kind; -EPROTONOSUPPORT where the handshake is of another
 * version. Then only that version and layout are set. */
int kolo_handshake_parse(const uint8_t *bytes, kolo_handshake_kind kind, struct kolo_handshake *handshake);

/* Packs all but the proof. */
void kolo_introduction_pack(const struct kolo_introduction *who, uint8_t *bytes);

/* Returns 0, or -EPROTO where the bytes are no introduction: an unknown role, numbers beyond their bounds, text that is
 * not printable. `stream` may be any number. */
int kolo_introduction_parse(const uint8_t *bytes, struct kolo_introduction *who);

/* Packs all but the proof. */
void kolo_verdict_pack(uint32_t verdict, uint8_t *bytes);
int kolo_verdict_parse(const uint8_t *bytes, uint32_t *verdict); /* 0 or -EPROTO */

/* The connector's proof is in the introduction, the listener's in the verdict. */
typedef enum kolo_proof { KOLO_PROOF_OF_CONNECTOR, KOLO_PROOF_OF_LISTENER } kolo_proof;

/* Writes a proof, or checks it, once all bytes before it are there. */
void kolo_dialogue_prove(struct kolo_dialogue *dialogue, kolo_proof proof, const struct kolo_secret *secret);
bool kolo_dialogue_check(const struct kolo_dialogue *dialogue, kolo_proof proof, const struct kolo_secret *secret);

/* Writes "kolo 0.1.0 (wire layout 2)" into text of KOLO_RELEASE_TEXT_BYTES, and returns it. */
#define KOLO_RELEASE_TEXT_BYTES 64
const char *kolo_handshake_release(uint32_t version, uint32_t layout, char *text);

/* The sockets of both sides. */

/* Sends small messages at once, and notices within KOLO_SOCKET_SILENCE_MS when the other machine no longer answers, or
 * reads nothing more. An engine lifts these limits (kolo_engine_add). Returns 0 or a negative errno. */
#define KOLO_SOCKET_SILENCE_MS 10000
int kolo_socket_prepare(int fd);

/* Whether a socket is connected to itself. A connection to a port of this machine at which nobody listens may by chance
 * get that very port as its own. */
bool kolo_socket_is_to_itself(int fd);

/* Sends all bytes to a socket that has just been connected, which has room for them: 0 or a negative errno. */
int kolo_socket_send(int fd, const uint8_t *bytes, size_t count);

/* Receives what has come of a message, of which *received bytes are there already. Returns 1 when it is whole, 0 before
 * that; -ENODATA where the peer has ended the connection, or another negative errno. Never blocks. */
int kolo_socket_receive(int fd, uint8_t *bytes, size_t count, size_t *received);

/* The timeout for poll: rounded up, and at least 0. */
int kolo_socket_wait_ms(int64_t ns);
