/* What strangers can send to a listener, or to who connects to one, before they have proved anything
 * (net/connect/handshake.h): each message as which it may be taken. What is let through is within its bounds and is
 * what would be sent to say the same.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "fuzz_target.h"
#include "net/connect/handshake.h"

static void take_as_handshake(const uint8_t *bytes, kolo_handshake_kind kind) {
    struct kolo_handshake handshake;
    uint8_t again[KOLO_HANDSHAKE_BYTES];
    const int rc = kolo_handshake_parse(bytes, kind, &handshake);
    REQUIRE(rc == 0 || rc == -EPROTO || rc == -EPROTONOSUPPORT);
    if (rc == -EPROTONOSUPPORT) {
        char text[KOLO_RELEASE_TEXT_BYTES];
        REQUIRE(strlen(kolo_handshake_release(handshake.version, handshake.layout, text)) < sizeof text - 1);
    }
    if (rc != 0)
        return;
    kolo_handshake_pack(&handshake, kind, again);
    REQUIRE(memcmp(bytes, again, sizeof again) == 0);
}

static void take_as_introduction(const uint8_t *bytes) {
    struct kolo_introduction who;
    uint8_t again[KOLO_INTRODUCTION_BYTES];
    if (kolo_introduction_parse(bytes, &who) < 0)
        return;
    REQUIRE(who.role >= KOLO_ROLE_JOIN && who.role <= KOLO_ROLE_SHRINK);
    REQUIRE(who.size <= KOLO_RANKS_MAX && who.rank < who.size && who.node < who.size);
    REQUIRE(memchr(who.job, '\0', sizeof who.job));
    for (const char *c = who.job; *c; c++)
        REQUIRE(isgraph((unsigned char)*c));
    kolo_introduction_pack(&who, again);
    REQUIRE(memcmp(bytes, again, sizeof again - KOLO_KEY_BYTES) == 0);
}

static void take_as_verdict(const uint8_t *bytes) {
    uint8_t again[KOLO_VERDICT_BYTES];
    uint32_t verdict;
    if (kolo_verdict_parse(bytes, &verdict) < 0)
        return;
    kolo_verdict_pack(verdict, again);
    REQUIRE(memcmp(bytes, again, sizeof again - KOLO_KEY_BYTES) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes == KOLO_HANDSHAKE_BYTES) {
        take_as_handshake(data, KOLO_HELLO);
        take_as_handshake(data, KOLO_WELCOME);
        take_as_verdict(data);
    } else if (bytes == KOLO_INTRODUCTION_BYTES) {
        take_as_introduction(data);
    }
    return 0;
}
