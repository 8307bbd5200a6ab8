#include "net/frame.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Where the fields are. The mark's last byte is the version of what goes over the wire. */
enum {
    MARK_AT = 0,
    KIND_AT = 4,
    PART_AT = 6,
    BYTES_AT = 8,
    RESERVED_AT = 12,
    OFFSET_AT = 16,
    TICKET_AT = 24,
    STAMP_AT = 32,
    CALL_AT = 40
};
_Static_assert(CALL_AT + sizeof(uint64_t) == KOLO_FRAME_HEADER_BYTES, "the fields fill the header");

#define MARK UINT32_C(0x016c6f6b)

static void put16(uint8_t *to, uint16_t value) {
    value = htole16(value);
    memcpy(to, &value, sizeof value);
}

static void put32(uint8_t *to, uint32_t value) {
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static void put64(uint8_t *to, uint64_t value) {
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static uint16_t get16(const uint8_t *from) {
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return le16toh(value);
}

static uint32_t get32(const uint8_t *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static uint64_t get64(const uint8_t *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

void kolo_frame_pack(const struct kolo_frame *frame, uint8_t *header) {
    put32(header + MARK_AT, MARK);
    put16(header + KIND_AT, frame->kind);
    put16(header + PART_AT, frame->part);
    put32(header + BYTES_AT, frame->bytes);
    put32(header + RESERVED_AT, 0);
    put64(header + OFFSET_AT, frame->offset);
    put64(header + TICKET_AT, frame->ticket);
    put64(header + STAMP_AT, frame->stamp);
    put64(header + CALL_AT, frame->call);
}

static bool bytes_fit(uint16_t kind, uint32_t bytes) {
    switch (kind) {
    case KOLO_FRAME_HEARTBEAT:
        return bytes == 0;
    case KOLO_FRAME_FAILURE:
    case KOLO_FRAME_LEAVE:
        return bytes <= KOLO_CONTROL_BYTES_MAX;
    default:
        return kind >= KOLO_FRAME_DATA && kind < KOLO_FRAME_KINDS && bytes <= KOLO_FRAME_BYTES_MAX;
    }
}

int kolo_frame_parse(const uint8_t *header, struct kolo_frame *frame) {
    const struct kolo_frame read = {
        .kind = get16(header + KIND_AT),
        .part = get16(header + PART_AT),
        .bytes = get32(header + BYTES_AT),
        .offset = get64(header + OFFSET_AT),
        .ticket = get64(header + TICKET_AT),
        .stamp = get64(header + STAMP_AT),
        .call = get64(header + CALL_AT),
    };
    if (get32(header + MARK_AT) != MARK || get32(header + RESERVED_AT) != 0 || !bytes_fit(read.kind, read.bytes) ||
        read.offset > KOLO_MESSAGE_BYTES_MAX - read.bytes)
        return -EPROTO;
    *frame = read;
    return 0;
}
