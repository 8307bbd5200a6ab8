/* Packs a frame's header into bytes, and parses it. */
#include "net/frame.h"

#include <errno.h>
#include <stdbool.h>

#include "base/wire.h"

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

#define MARK UINT32_C(0x026c6f6b)

void kolo_frame_pack(const struct kolo_frame *frame, uint8_t *header) {
    kolo_wire_put(header + MARK_AT, MARK, 4);
    kolo_wire_put(header + KIND_AT, frame->kind, 2);
    kolo_wire_put(header + PART_AT, frame->part, 2);
    kolo_wire_put(header + BYTES_AT, frame->bytes, 4);
    kolo_wire_put(header + RESERVED_AT, 0, 4);
    kolo_wire_put(header + OFFSET_AT, frame->offset, 8);
    kolo_wire_put(header + TICKET_AT, frame->ticket, 8);
    kolo_wire_put(header + STAMP_AT, frame->stamp, 8);
    kolo_wire_put(header + CALL_AT, frame->call, 8);
}

static bool bytes_fit(uint16_t kind, uint32_t bytes) {
    switch (kind) {
    case KOLO_FRAME_HEARTBEAT:
    case KOLO_FRAME_BEGUN:
    case KOLO_FRAME_PROGRESS:
        return bytes == 0;
    case KOLO_FRAME_FAILURE:
    case KOLO_FRAME_LEAVE:
    case KOLO_FRAME_MESSAGE:
        return bytes <= KOLO_CONTROL_BYTES_MAX;
    case KOLO_FRAME_CHUNK:
        return bytes > 0 && bytes <= KOLO_CHUNK_BYTES_MAX;
    default:
        return kind >= KOLO_FRAME_DATA && kind < KOLO_FRAME_KINDS && bytes <= KOLO_FRAME_BYTES_MAX;
    }
}

int kolo_frame_parse(const uint8_t *header, struct kolo_frame *frame) {
    const struct kolo_frame read = {
        .kind = (uint16_t)kolo_wire_get(header + KIND_AT, 2),
        .part = (uint16_t)kolo_wire_get(header + PART_AT, 2),
        .bytes = (uint32_t)kolo_wire_get(header + BYTES_AT, 4),
        .offset = kolo_wire_get(header + OFFSET_AT, 8),
        .ticket = kolo_wire_get(header + TICKET_AT, 8),
        .stamp = kolo_wire_get(header + STAMP_AT, 8),
        .call = kolo_wire_get(header + CALL_AT, 8),
    };
    if (kolo_wire_get(header + MARK_AT, 4) != MARK || kolo_wire_get(header + RESERVED_AT, 4) != 0 ||
        !bytes_fit(read.kind, read.bytes) || read.offset > KOLO_MESSAGE_BYTES_MAX - read.bytes)
        return -EPROTO;
    *frame = read;
    return 0;
}
