/* Packs a frame's header into bytes, and parses it. */
#include "net/frame.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#include "base/wire.h"

#define MARK UINT32_C(0x036c6f6b) /* the last byte is the version of what goes over the wire */

/* Writes or reads all fields. False: these bytes are no header of this version. */
static bool carry(uint8_t *header, bool reads, struct kolo_frame *frame) {
    struct kolo_wire wire = {.at = header, .reads = reads};
    const bool has_mark = kolo_wire_number(&wire, MARK, 4) == MARK;
    frame->kind = (uint16_t)kolo_wire_number(&wire, frame->kind, 2);
    frame->part = (uint16_t)kolo_wire_number(&wire, frame->part, 2);
    frame->bytes = (uint32_t)kolo_wire_number(&wire, frame->bytes, 4);
    const bool is_reserved = kolo_wire_number(&wire, 0, 4) == 0;
    frame->offset = kolo_wire_number(&wire, frame->offset, 8);
    frame->ticket = kolo_wire_number(&wire, frame->ticket, 8);
    frame->stamp = kolo_wire_number(&wire, frame->stamp, 8);
    struct kolo_packed_key key = kolo_call_key_pack(frame->key);
    for (int word = 0; word < 3; word++)
        key.words[word] = kolo_wire_number(&wire, key.words[word], 8);
    frame->key = kolo_call_key_unpack(&key);
    assert(wire.at == header + KOLO_FRAME_HEADER_BYTES);
    return has_mark && is_reserved;
}

void kolo_frame_pack(const struct kolo_frame *frame, uint8_t *header) {
    struct kolo_frame sent = *frame;
    carry(header, false, &sent);
}

static bool bytes_fit(uint16_t kind, uint16_t part, uint32_t bytes) {
    switch (kind) {
    case KOLO_FRAME_HEARTBEAT:
    case KOLO_FRAME_BEGUN:
    case KOLO_FRAME_PROGRESS:
        return bytes == 0;
    case KOLO_FRAME_CLOCK:
        return bytes == 0 && part < KOLO_CLOCK_PARTS;
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
    struct kolo_frame read = {0};
    if (!carry((uint8_t *)header, true, &read) || !bytes_fit(read.kind, read.part, read.bytes) ||
        read.offset > KOLO_MESSAGE_BYTES_MAX - read.bytes)
        return -EPROTO;
    *frame = read;
    return 0;
}
