/* Messages between ranks on several machines (internode/assembly/assembly_message.h): the input, filled up with zeros.
 * What is let through is within its bounds, and packed again it is the same bytes. */
#include <errno.h>
#include <string.h>

#include "internode/assembly/assembly_message.h"
#include "fuzz_target.h"
#include "shm/layout.h"

static void require_good(const struct kolo_assembly_message *message) {
    const struct kolo_terms *terms = &message->terms;
    switch (message->kind) {
    case KOLO_MESSAGE_TERMS:
        REQUIRE(terms->slot_bytes > 0 && terms->slot_bytes % KOLO_PAGE_BYTES == 0);
        REQUIRE(terms->slot_bytes <= KOLO_SLOT_BYTES_MAX && (unsigned)terms->algorithm < KOLO_ALGORITHMS);
        REQUIRE(terms->net.lanes >= 1 && terms->net.lanes <= KOLO_LANES_MAX);
        REQUIRE(terms->net.streams >= 1 && terms->net.streams <= KOLO_STREAMS_MAX && terms->net.servers >= 1);
        REQUIRE((unsigned)terms->net.exchange < KOLO_EXCHANGES && terms->net.silence_ns > 0);
        break;
    case KOLO_MESSAGE_ROSTER:
        REQUIRE(message->count >= 1 && message->count <= KOLO_MESSAGE_ROSTER_RANKS);
        REQUIRE(message->first + message->count <= KOLO_RANKS_MAX);
        for (uint32_t i = 0; i < message->count; i++)
            REQUIRE(message->node_of[i] < KOLO_RANKS_MAX);
        break;
    case KOLO_MESSAGE_LISTENERS:
        REQUIRE(message->count >= 1 && message->count <= KOLO_MESSAGE_LISTENERS_MAX);
        REQUIRE(message->first + message->count <= KOLO_RANKS_MAX);
        for (uint32_t i = 0; i < message->count; i++) {
            char text[KOLO_ADDRESS_TEXT_BYTES];
            REQUIRE(kolo_address_port(&message->listener[i]) != 0 && kolo_address_text(&message->listener[i], text)[0]);
        }
        break;
    case KOLO_MESSAGE_SURVIVORS:
        REQUIRE(kolo_address_port(&message->meeting) != 0);
        break;
    case KOLO_MESSAGE_FAILED:
        REQUIRE(message->status < 0 && message->status >= KOLO_ERR_STATE);
        REQUIRE(memchr(message->text, '\0', sizeof message->text));
        for (const char *c = message->text; *c; c++)
            REQUIRE(*c >= ' ' && *c <= '~');
        break;
    default:
        REQUIRE(message->kind >= KOLO_MESSAGE_IDENTITY && message->kind < KOLO_MESSAGE_KINDS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    uint8_t wire[KOLO_MESSAGE_BYTES] = {0}, again[KOLO_MESSAGE_BYTES];
    struct kolo_assembly_message message;
    if (bytes > sizeof wire)
        return 0;
    memcpy(wire, data, bytes);
    const int rc = kolo_assembly_message_parse(wire, &message);
    REQUIRE(rc == 0 || rc == -EPROTO);
    if (rc < 0)
        return 0;
    require_good(&message);
    kolo_assembly_message_pack(&message, again);
    REQUIRE(memcmp(again, wire, sizeof wire) == 0);
    return 0;
}
