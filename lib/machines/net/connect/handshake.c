/* Packs and parses the messages of a handshake, and handles the sockets of both sides. */
#include "net/connect/handshake.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/wire.h"
#include "net/connect/address.h"

#define MARK "kolo" /* a message begins with this and its kind */

enum { INTRODUCTION = 3, VERDICT = 4 }; /* kinds, beside KOLO_HELLO and KOLO_WELCOME */

/* Places of fields in messages. The bytes between them are zero, so that a message has only one form: a message that
 * was read is good if packing it again gives the same bytes. */
enum { KIND_AT = 4, BODY_AT = 8 };
enum { VERSION_AT = BODY_AT, LAYOUT_AT = 12, SECRET_AT = 16, NONCE_AT = 32 };
enum {
    ROLE_AT = BODY_AT,
    RANK_AT = 12,
    SIZE_AT = 16,
    NODE_AT = 20,
    STREAM_AT = 24,
    SESSION_AT = 32,
    JOB_AT = SESSION_AT + KOLO_SESSION_BYTES,
    JOB_END = JOB_AT + KOLO_NET_JOB_BYTES,
    INTRODUCTION_PROOF_AT = KOLO_INTRODUCTION_BYTES - KOLO_KEY_BYTES
};
enum { VERDICT_AT = BODY_AT, VERDICT_PROOF_AT = KOLO_VERDICT_BYTES - KOLO_KEY_BYTES };

_Static_assert(NONCE_AT + KOLO_KEY_BYTES == KOLO_HANDSHAKE_BYTES, "a handshake ends with its nonce");
_Static_assert(JOB_END <= INTRODUCTION_PROOF_AT, "an introduction has room for all that is said");
_Static_assert(sizeof(struct kolo_dialogue) == 2 * KOLO_HANDSHAKE_BYTES + KOLO_INTRODUCTION_BYTES + KOLO_VERDICT_BYTES,
               "a proof is over bytes that have been sent, and no others");

static void begin(uint8_t *bytes, size_t count, uint32_t kind) {
    memset(bytes, 0, count);
    memcpy(bytes, MARK, KIND_AT);
    kolo_wire_put(bytes + KIND_AT, kind, 4);
}

static bool begins(const uint8_t *bytes, uint32_t kind) {
    return memcmp(bytes, MARK, KIND_AT) == 0 && (uint32_t)kolo_wire_get(bytes + KIND_AT, 4) == kind;
}

int kolo_handshake_make(struct kolo_handshake *handshake, const struct kolo_secret *secret) {
    *handshake =
        (struct kolo_handshake){.version = KOLO_VERSION_WORD, .layout = KOLO_WIRE_LAYOUT, .secret = secret->used};
    return kolo_random_bytes(handshake->nonce, sizeof handshake->nonce);
}

void kolo_handshake_pack(const struct kolo_handshake *handshake, kolo_handshake_kind kind, uint8_t *bytes) {
    begin(bytes, KOLO_HANDSHAKE_BYTES, kind);
    kolo_wire_put(bytes + VERSION_AT, handshake->version, 4);
    kolo_wire_put(bytes + LAYOUT_AT, handshake->layout, 4);
    kolo_wire_put(bytes + SECRET_AT, handshake->secret, 4);
    memcpy(bytes + NONCE_AT, handshake->nonce, sizeof handshake->nonce);
}

int kolo_handshake_parse(const uint8_t *bytes, kolo_handshake_kind kind, struct kolo_handshake *handshake) {
    *handshake = (struct kolo_handshake){0};
    if (!begins(bytes, kind))
        return -EPROTO;
    handshake->version = (uint32_t)kolo_wire_get(bytes + VERSION_AT, 4);
    handshake->layout = (uint32_t)kolo_wire_get(bytes + LAYOUT_AT, 4);
    if (handshake->version != KOLO_VERSION_WORD || handshake->layout != KOLO_WIRE_LAYOUT)
        return -EPROTONOSUPPORT;
    uint8_t again[KOLO_HANDSHAKE_BYTES];
    handshake->secret = kolo_wire_get(bytes + SECRET_AT, 4) == 1;
    memcpy(handshake->nonce, bytes + NONCE_AT, sizeof handshake->nonce);
    kolo_handshake_pack(handshake, kind, again);
    return memcmp(bytes, again, sizeof again) == 0 ? 0 : -EPROTO;
}

void kolo_introduction_pack(const struct kolo_introduction *who, uint8_t *bytes) {
    begin(bytes, KOLO_INTRODUCTION_BYTES, INTRODUCTION);
    kolo_wire_put(bytes + ROLE_AT, who->role, 4);
    kolo_wire_put(bytes + RANK_AT, who->rank, 4);
    kolo_wire_put(bytes + SIZE_AT, who->size, 4);
    kolo_wire_put(bytes + NODE_AT, who->node, 4);
    kolo_wire_put(bytes + STREAM_AT, who->stream, 4);
    memcpy(bytes + SESSION_AT, who->session, sizeof who->session);
    memcpy(bytes + JOB_AT, who->job, strnlen(who->job, KOLO_NET_JOB_BYTES - 1));
}

/* Names are shown in messages, and so have to be printable. */
static bool is_printable(const char *name) {
    while (*name > ' ' && *name < 0x7f)
        name++;
    return *name == '\0';
}

int kolo_introduction_parse(const uint8_t *bytes, struct kolo_introduction *who) {
    uint8_t again[KOLO_INTRODUCTION_BYTES];
    *who = (struct kolo_introduction){.role = (uint32_t)kolo_wire_get(bytes + ROLE_AT, 4),
                                      .rank = (uint32_t)kolo_wire_get(bytes + RANK_AT, 4),
                                      .size = (uint32_t)kolo_wire_get(bytes + SIZE_AT, 4),
                                      .node = (uint32_t)kolo_wire_get(bytes + NODE_AT, 4),
                                      .stream = (uint32_t)kolo_wire_get(bytes + STREAM_AT, 4)};
    memcpy(who->session, bytes + SESSION_AT, sizeof who->session);
    memcpy(who->job, bytes + JOB_AT, sizeof who->job);
    kolo_introduction_pack(who, again);
    if (memcmp(bytes, again, INTRODUCTION_PROOF_AT) != 0 || !is_printable(who->job) || who->role < KOLO_ROLE_JOIN ||
        who->role > KOLO_ROLE_SHRINK)
        return -EPROTO;
    return who->size <= KOLO_RANKS_MAX && who->rank < who->size && who->node < who->size ? 0 : -EPROTO;
}

void kolo_verdict_pack(uint32_t verdict, uint8_t *bytes) {
    begin(bytes, KOLO_VERDICT_BYTES, VERDICT);
    kolo_wire_put(bytes + VERDICT_AT, verdict, 4);
}

int kolo_verdict_parse(const uint8_t *bytes, uint32_t *verdict) {
    uint8_t again[KOLO_VERDICT_BYTES];
    *verdict = (uint32_t)kolo_wire_get(bytes + VERDICT_AT, 4);
    kolo_verdict_pack(*verdict, again);
    return memcmp(bytes, again, VERDICT_PROOF_AT) == 0 && *verdict >= KOLO_VERDICT_ADMITTED &&
                   *verdict <= KOLO_VERDICT_MALFORMED
               ? 0
               : -EPROTO;
}

static uint8_t *proof_of(struct kolo_dialogue *dialogue, kolo_proof proof) {
    return proof == KOLO_PROOF_OF_CONNECTOR ? dialogue->introduction + INTRODUCTION_PROOF_AT
                                            : dialogue->verdict + VERDICT_PROOF_AT;
}

void kolo_dialogue_prove(struct kolo_dialogue *dialogue, kolo_proof proof, const struct kolo_secret *secret) {
    uint8_t *at = proof_of(dialogue, proof);
    kolo_secret_prove(secret, dialogue, (size_t)(at - dialogue->hello), at);
}

bool kolo_dialogue_check(const struct kolo_dialogue *dialogue, kolo_proof proof, const struct kolo_secret *secret) {
    const uint8_t *at = proof_of((struct kolo_dialogue *)dialogue, proof);
    return kolo_secret_check(secret, dialogue, (size_t)(at - dialogue->hello), at);
}

const char *kolo_handshake_release(uint32_t version, uint32_t layout, char *text) {
    snprintf(text, KOLO_RELEASE_TEXT_BYTES, "kolo %u.%u.%u (wire layout %u)", (unsigned)(version >> 16),
             (unsigned)(version >> 8 & 255), (unsigned)(version & 255), (unsigned)layout);
    return text;
}

int kolo_socket_prepare(int fd) {
    const struct {
        int level, name, value;
    } wanted[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, KOLO_SOCKET_SILENCE_MS},
        {IPPROTO_TCP, TCP_KEEPIDLE, KOLO_SOCKET_SILENCE_MS / 2000},
        {IPPROTO_TCP, TCP_KEEPINTVL, 1},
        {IPPROTO_TCP, TCP_KEEPCNT, KOLO_SOCKET_SILENCE_MS / 2000},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (setsockopt(fd, wanted[i].level, wanted[i].name, &wanted[i].value, sizeof wanted[i].value) < 0)
            return -errno;
    return 0;
}

bool kolo_socket_is_to_itself(int fd) {
    struct kolo_address own, peer;
    return kolo_address_of_socket(fd, &own) == 0 && kolo_address_of_peer(fd, &peer) == 0 && own.bytes == peer.bytes &&
           memcmp(&own.storage, &peer.storage, own.bytes) == 0;
}

int kolo_socket_send(int fd, const uint8_t *bytes, size_t count) {
    ssize_t sent;
    do
        sent = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : (size_t)sent < count ? -ENOBUFS : 0;
}

int kolo_socket_receive(int fd, uint8_t *bytes, size_t count, size_t *received) {
    while (*received < count) {
        const ssize_t more = recv(fd, bytes + *received, count - *received, MSG_DONTWAIT);
        if (more > 0)
            *received += (size_t)more;
        else if (more == 0)
            return -ENODATA;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        else if (errno != EINTR)
            return -errno;
    }
    return 1;
}

int kolo_socket_wait_ms(int64_t ns) {
    if (ns <= 0)
        return 0;
    const int64_t whole_ms = (ns - 1) / KOLO_NS_PER_MS + 1;
    return whole_ms < INT_MAX ? (int)whole_ms : INT_MAX;
}
