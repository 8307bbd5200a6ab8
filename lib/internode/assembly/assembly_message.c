/* An assembly's messages as bytes, and back, with every field checked. */
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

static void put_bytes(uint8_t **at, const void *bytes, size_t count) {
    memcpy(*at, bytes, count);
    *at += count;
}

static void take_bytes(const uint8_t **at, void *bytes, size_t count) {
    memcpy(bytes, *at, count);
    *at += count;
}

static bool take_address(const uint8_t **at, struct kolo_address *address) {
    *at += KOLO_ADDRESS_WIRE_BYTES;
    return kolo_address_unpack(*at - KOLO_ADDRESS_WIRE_BYTES, address);
}

static void put_address(uint8_t **at, const struct kolo_address *address) {
    kolo_address_pack(address, *at);
    *at += KOLO_ADDRESS_WIRE_BYTES;
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
    kolo_wire_append(at, terms->rank_order, 4);
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
    terms->rank_order = kolo_wire_take(at, 4) == 1;
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
    case KOLO_MESSAGE_LISTENERS:
        kolo_wire_append(&at, message->first, 4);
        kolo_wire_append(&at, message->count, 4);
        for (uint32_t i = 0; i < message->count; i++)
            put_address(&at, &message->listener[i]);
        break;
    case KOLO_MESSAGE_SURVIVORS:
        for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
            kolo_wire_append(&at, message->ranks[word], 8);
        put_address(&at, &message->meeting);
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
    case KOLO_MESSAGE_LISTENERS:
        good = take_range(&at, message, KOLO_MESSAGE_LISTENERS_MAX);
        for (uint32_t i = 0; good && i < message->count; i++)
            good = take_address(&at, &message->listener[i]);
        return good;
    case KOLO_MESSAGE_SURVIVORS:
        for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
            message->ranks[word] = kolo_wire_take(&at, 8);
        return take_address(&at, &message->meeting);
    case KOLO_MESSAGE_FAILED:
        message->status = -(int)(kolo_wire_take(&at, 4) & 0xff);
        take_bytes(&at, message->text, sizeof message->text);
        return message->status <= KOLO_ERR_ARG && message->status >= KOLO_ERR_STATE &&
               memchr(message->text, '\0', sizeof message->text);
    default:
        return message->kind == KOLO_MESSAGE_READY || message->kind == KOLO_MESSAGE_GO ||
               message->kind == KOLO_MESSAGE_WAIT;
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
