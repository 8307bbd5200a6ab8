#include "comm/assembly_message.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/wire.h"
#include "shm/layout.h"

#define MARK    UINT32_C(0x616c6f6b) /* "kola" */
#define VERSION 1

enum { HEADER_BYTES = 8, RANGE_BYTES = 8, ADDRESS_BYTES = 24 };
enum { FAMILY_IPV4 = 4, FAMILY_IPV6 = 6 };

static_assert(HEADER_BYTES + RANGE_BYTES + KOLO_MESSAGE_ROSTER_RANKS * 2 <= KOLO_MESSAGE_BYTES, "a roster fits");
static_assert(HEADER_BYTES + RANGE_BYTES + KOLO_MESSAGE_DOORS_MAX * ADDRESS_BYTES <= KOLO_MESSAGE_BYTES, "doors fit");
static_assert(HEADER_BYTES + 4 + KOLO_MESSAGE_TEXT_BYTES <= KOLO_MESSAGE_BYTES, "a text fits");

static void put_bytes(uint8_t **at, const void *bytes, size_t count) {
    memcpy(*at, bytes, count);
    *at += count;
}

static void take_bytes(const uint8_t **at, void *bytes, size_t count) {
    memcpy(bytes, *at, count);
    *at += count;
}

/* Addresses: family, port, scope, and 16 bytes, of which IPv4 uses the first four. */

static void put_address(uint8_t **at, const struct kolo_address *address) {
    uint8_t bytes[16] = {0};
    uint32_t scope = 0;
    const bool ipv6 = address->storage.ss_family == AF_INET6;
    if (ipv6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->storage;
        memcpy(bytes, &in6->sin6_addr, sizeof in6->sin6_addr);
        scope = in6->sin6_scope_id;
    } else {
        memcpy(bytes, &((const struct sockaddr_in *)&address->storage)->sin_addr, sizeof(struct in_addr));
    }
    kolo_wire_append(at, ipv6 ? FAMILY_IPV6 : FAMILY_IPV4, 2);
    kolo_wire_append(at, kolo_address_port(address), 2);
    kolo_wire_append(at, scope, 4);
    put_bytes(at, bytes, sizeof bytes);
}

static bool take_address(const uint8_t **at, struct kolo_address *address) {
    uint8_t bytes[16];
    const uint64_t family = kolo_wire_take(at, 2), port = kolo_wire_take(at, 2), scope = kolo_wire_take(at, 4);
    take_bytes(at, bytes, sizeof bytes);
    memset(address, 0, sizeof *address);
    if (family == FAMILY_IPV6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->storage;
        in6->sin6_family = AF_INET6;
        in6->sin6_scope_id = (uint32_t)scope;
        memcpy(&in6->sin6_addr, bytes, sizeof in6->sin6_addr);
        address->bytes = sizeof *in6;
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&address->storage;
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, bytes, sizeof in->sin_addr);
        address->bytes = sizeof *in;
    }
    kolo_address_set_port(address, (uint16_t)port);
    return port != 0;
}

/* What each kind holds. */

static void put_terms(uint8_t **at, const struct kolo_terms *terms) {
    kolo_wire_append(at, terms->slot_bytes, 8);
    kolo_wire_append(at, terms->algorithm, 4);
    kolo_wire_append(at, terms->streams, 4);
    kolo_wire_append(at, terms->exchange, 4);
    kolo_wire_append(at, terms->servers, 4);
    kolo_wire_append(at, terms->half_on_wire, 4);
    kolo_wire_append(at, (uint64_t)terms->silence_ns, 8);
    kolo_wire_append(at, terms->lanes, 4);
}

static bool take_terms(const uint8_t **at, struct kolo_terms *terms) {
    terms->slot_bytes = kolo_wire_take(at, 8);
    const uint64_t algorithm = kolo_wire_take(at, 4);
    terms->streams = (uint32_t)kolo_wire_take(at, 4);
    const uint64_t exchange = kolo_wire_take(at, 4);
    terms->servers = (uint32_t)kolo_wire_take(at, 4);
    terms->half_on_wire = kolo_wire_take(at, 4) == 1;
    terms->silence_ns = (int64_t)kolo_wire_take(at, 8);
    terms->lanes = (uint32_t)kolo_wire_take(at, 4);
    if (algorithm >= KOLO_ALGORITHMS || exchange >= KOLO_EXCHANGES)
        return false;
    terms->algorithm = (kolo_algorithm)algorithm;
    terms->exchange = (kolo_exchange)exchange;
    return terms->slot_bytes > 0 && terms->slot_bytes % KOLO_PAGE_BYTES == 0 &&
           terms->slot_bytes <= KOLO_SLOT_BYTES_MAX && terms->lanes >= 1 && terms->lanes <= KOLO_LANES_MAX &&
           terms->streams >= 1 && terms->streams <= KOLO_STREAMS_MAX && terms->servers >= 1 &&
           terms->servers <= KOLO_RANKS_MAX && terms->silence_ns > 0;
}

static bool take_range(const uint8_t **at, struct kolo_assembly_message *message, uint32_t count_max) {
    message->first = (uint32_t)kolo_wire_take(at, 4);
    message->count = (uint32_t)kolo_wire_take(at, 4);
    return message->count >= 1 && message->count <= count_max && message->first <= KOLO_RANKS_MAX - message->count;
}

static void put_text(uint8_t **at, const char *text) {
    char clean[KOLO_MESSAGE_TEXT_BYTES] = "";
    for (size_t i = 0; i + 1 < sizeof clean && text[i]; i++)
        clean[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    put_bytes(at, clean, sizeof clean);
}

void kolo_assembly_message_pack(const struct kolo_assembly_message *message, uint8_t *bytes) {
    uint8_t *at = bytes;
    memset(bytes, 0, KOLO_MESSAGE_BYTES);
    kolo_wire_append(&at, MARK, 4);
    kolo_wire_append(&at, VERSION, 2);
    kolo_wire_append(&at, message->kind, 2);
    switch (message->kind) {
    case KOLO_MESSAGE_IDENTITY:
        kolo_wire_append(&at, message->identity.known, 4);
        kolo_wire_append(&at, message->identity.user, 4);
        kolo_wire_append(&at, message->identity.device, 8);
        kolo_wire_append(&at, message->identity.inode, 8);
        put_bytes(&at, message->identity.boot, sizeof message->identity.boot);
        break;
    case KOLO_MESSAGE_TERMS:
        put_bytes(&at, message->session, sizeof message->session);
        put_terms(&at, &message->terms);
        break;
    case KOLO_MESSAGE_ROSTER:
        kolo_wire_append(&at, message->first, 4);
        kolo_wire_append(&at, message->count, 4);
        for (uint32_t i = 0; i < message->count; i++)
            kolo_wire_append(&at, message->node_of[i], 2);
        break;
    case KOLO_MESSAGE_DOORS:
        kolo_wire_append(&at, message->first, 4);
        kolo_wire_append(&at, message->count, 4);
        for (uint32_t i = 0; i < message->count; i++)
            put_address(&at, &message->door[i]);
        break;
    case KOLO_MESSAGE_FAILED:
        kolo_wire_append(&at, (uint64_t)-message->status, 4);
        put_text(&at, message->text);
        break;
    default:
        break;
    }
}

/* Takes what a message of its kind holds, checked but for what packing it again shows. */
static bool take_content(const uint8_t *at, struct kolo_assembly_message *message) {
    bool good = true;
    switch (message->kind) {
    case KOLO_MESSAGE_IDENTITY:
        message->identity.known = kolo_wire_take(&at, 4) == 1;
        message->identity.user = (uint32_t)kolo_wire_take(&at, 4);
        message->identity.device = kolo_wire_take(&at, 8);
        message->identity.inode = kolo_wire_take(&at, 8);
        take_bytes(&at, message->identity.boot, sizeof message->identity.boot);
        return true;
    case KOLO_MESSAGE_TERMS:
        take_bytes(&at, message->session, sizeof message->session);
        return take_terms(&at, &message->terms);
    case KOLO_MESSAGE_ROSTER:
        good = take_range(&at, message, KOLO_MESSAGE_ROSTER_RANKS);
        for (uint32_t i = 0; good && i < message->count; i++) {
            message->node_of[i] = (uint16_t)kolo_wire_take(&at, 2);
            good = message->node_of[i] < KOLO_RANKS_MAX;
        }
        return good;
    case KOLO_MESSAGE_DOORS:
        good = take_range(&at, message, KOLO_MESSAGE_DOORS_MAX);
        for (uint32_t i = 0; good && i < message->count; i++)
            good = take_address(&at, &message->door[i]);
        return good;
    case KOLO_MESSAGE_FAILED:
        message->status = -(int)(kolo_wire_take(&at, 4) & 0xff);
        take_bytes(&at, message->text, sizeof message->text);
        return message->status <= KOLO_ERR_ARG && message->status >= KOLO_ERR_STATE &&
               memchr(message->text, '\0', sizeof message->text);
    default:
        return message->kind == KOLO_MESSAGE_READY || message->kind == KOLO_MESSAGE_GO;
    }
}

int kolo_assembly_message_parse(const uint8_t *bytes, struct kolo_assembly_message *message) {
    const uint8_t *at = bytes + HEADER_BYTES - 2;
    uint8_t again[KOLO_MESSAGE_BYTES];
    memset(message, 0, sizeof *message);
    message->kind = (unsigned)kolo_wire_take(&at, 2);
    if (!take_content(at, message))
        return -EPROTO;
    kolo_assembly_message_pack(message, again);
    return memcmp(again, bytes, sizeof again) == 0 ? 0 : -EPROTO;
}
