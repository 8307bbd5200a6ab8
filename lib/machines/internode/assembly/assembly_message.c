/* Packs an assembly's messages into bytes, and parses them, with every field checked. */
#include "internode/assembly/assembly_message.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "shm/layout.h"

#define MARK    UINT32_C(0x616c6f6b) /* "kola" */
#define VERSION 1

enum { HEADER_BYTES = 8, RANGE_BYTES = 8 };

static_assert(HEADER_BYTES + RANGE_BYTES + KOLO_MESSAGE_ROSTER_RANKS * 2 <= KOLO_MESSAGE_BYTES, "a roster fits");
static_assert(HEADER_BYTES + RANGE_BYTES + KOLO_MESSAGE_LISTENERS_MAX * KOLO_ADDRESS_WIRE_BYTES <= KOLO_MESSAGE_BYTES,
              "listeners fit");
static_assert(HEADER_BYTES + 4 + KOLO_MESSAGE_TEXT_BYTES <= KOLO_MESSAGE_BYTES, "a text fits");

/* Each of these functions writes or reads a part of a message. It returns false where a value read is out of bounds. */

static bool carry_address(struct kolo_wire *wire, struct kolo_address *address) {
    bool good = true;
    if (wire->reads)
        good = kolo_address_unpack(wire->at, address);
    else
        kolo_address_pack(address, wire->at);
    wire->at += KOLO_ADDRESS_WIRE_BYTES;
    return good;
}

static bool carry_identity(struct kolo_wire *wire, struct kolo_node_identity *identity) {
    identity->known = kolo_wire_number(wire, identity->known, 4) == 1;
    identity->user = (uint32_t)kolo_wire_number(wire, identity->user, 4);
    identity->device = kolo_wire_number(wire, identity->device, 8);
    identity->inode = kolo_wire_number(wire, identity->inode, 8);
    kolo_wire_bytes(wire, identity->boot, sizeof identity->boot);
    return true;
}

static bool carry_terms(struct kolo_wire *wire, struct kolo_terms *terms) {
    struct kolo_net_settings *net = &terms->net;
    terms->slot_bytes = kolo_wire_number(wire, terms->slot_bytes, 8);
    terms->algorithm = (kolo_algorithm)kolo_wire_number(wire, terms->algorithm, 4);
    net->streams = (uint32_t)kolo_wire_number(wire, net->streams, 4);
    net->exchange = (kolo_exchange)kolo_wire_number(wire, net->exchange, 4);
    net->servers = (uint32_t)kolo_wire_number(wire, net->servers, 4);
    net->half_on_wire = kolo_wire_number(wire, net->half_on_wire, 4) == 1;
    net->silence_ns = (int64_t)kolo_wire_number(wire, (uint64_t)net->silence_ns, 8);
    net->lanes = (uint32_t)kolo_wire_number(wire, net->lanes, 4);
    const uint64_t flags = kolo_wire_number(wire, net->rank_order | (uint64_t)net->any_part << 1, 4);
    net->rank_order = flags & 1;
    net->any_part = flags >> 1 & 1;
    terms->threads = (uint32_t)kolo_wire_number(wire, terms->threads, 4);
    return (unsigned)terms->algorithm < KOLO_ALGORITHMS && (unsigned)net->exchange < KOLO_EXCHANGES &&
           terms->slot_bytes > 0 && terms->slot_bytes % KOLO_PAGE_BYTES == 0 &&
           terms->slot_bytes <= KOLO_SLOT_BYTES_MAX && net->lanes >= 1 && net->lanes <= KOLO_LANES_MAX &&
           net->streams >= 1 && net->streams <= KOLO_STREAMS_MAX && net->servers >= 1 &&
           net->servers <= KOLO_RANKS_MAX && net->silence_ns > 0 && terms->threads <= KOLO_THREADS_MAX;
}

static bool carry_range(struct kolo_wire *wire, struct kolo_assembly_message *message, uint32_t count_max) {
    message->first = (uint32_t)kolo_wire_number(wire, message->first, 4);
    message->count = (uint32_t)kolo_wire_number(wire, message->count, 4);
    return message->count >= 1 && message->count <= count_max && message->first <= KOLO_RANKS_MAX - message->count;
}

static bool carry_failure(struct kolo_wire *wire, struct kolo_assembly_message *message) {
    message->status = -(int)(kolo_wire_number(wire, (uint64_t)-message->status, 4) & 0xff);
    kolo_wire_bytes(wire, message->text, sizeof message->text);
    return message->status <= KOLO_ERR_ARG && message->status >= KOLO_ERR_STATE &&
           memchr(message->text, '\0', sizeof message->text);
}

/* All that a message of its kind holds. */
static bool carry(struct kolo_wire *wire, struct kolo_assembly_message *message) {
    bool good = true;
    switch (message->kind) {
    case KOLO_MESSAGE_IDENTITY:
        return carry_identity(wire, &message->identity);
    case KOLO_MESSAGE_TERMS:
        kolo_wire_bytes(wire, message->session, sizeof message->session);
        return carry_terms(wire, &message->terms);
    case KOLO_MESSAGE_ROSTER:
        good = carry_range(wire, message, KOLO_MESSAGE_ROSTER_RANKS);
        for (uint32_t i = 0; good && i < message->count; i++) {
            message->node_of[i] = (uint16_t)kolo_wire_number(wire, message->node_of[i], 2);
            good = message->node_of[i] < KOLO_RANKS_MAX;
        }
        return good;
    case KOLO_MESSAGE_LISTENERS:
        good = carry_range(wire, message, KOLO_MESSAGE_LISTENERS_MAX);
        for (uint32_t i = 0; good && i < message->count; i++)
            good = carry_address(wire, &message->listener[i]);
        return good;
    case KOLO_MESSAGE_SURVIVORS:
        for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
            message->ranks[word] = kolo_wire_number(wire, message->ranks[word], 8);
        return carry_address(wire, &message->meeting);
    case KOLO_MESSAGE_FAILED:
        return carry_failure(wire, message);
    default:
        return message->kind == KOLO_MESSAGE_READY || message->kind == KOLO_MESSAGE_GO ||
               message->kind == KOLO_MESSAGE_WAIT;
    }
}

/* Unprintable characters become '?', and nothing follows the text. */
static void clean(char *text) {
    const size_t length = strnlen(text, KOLO_MESSAGE_TEXT_BYTES - 1);
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
    memset(text + length, 0, KOLO_MESSAGE_TEXT_BYTES - length);
}

void kolo_assembly_message_pack(const struct kolo_assembly_message *message, uint8_t *bytes) {
    struct kolo_assembly_message sent = *message;
    struct kolo_wire wire = {.at = bytes};
    memset(bytes, 0, KOLO_MESSAGE_BYTES);
    kolo_wire_number(&wire, MARK, 4);
    kolo_wire_number(&wire, VERSION, 2);
    kolo_wire_number(&wire, message->kind, 2);
    if (message->kind == KOLO_MESSAGE_FAILED)
        clean(sent.text);
    carry(&wire, &sent);
}

/* A field that is out of place, too long or not zero shows when the message is packed again. */
int kolo_assembly_message_parse(const uint8_t *bytes, struct kolo_assembly_message *message) {
    struct kolo_wire wire = {.at = (uint8_t *)bytes + HEADER_BYTES - 2, .reads = true};
    uint8_t again[KOLO_MESSAGE_BYTES];
    memset(message, 0, sizeof *message);
    message->kind = (unsigned)kolo_wire_number(&wire, 0, 2);
    if (!carry(&wire, message))
        return -EPROTO;
    kolo_assembly_message_pack(message, again);
    return memcmp(again, bytes, sizeof again) == 0 ? 0 : -EPROTO;
}
