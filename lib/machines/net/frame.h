/* Frames: the header before each payload that nodes send each other, little-endian, bounds-checked on arrival. */
#pragma once

#include <stdint.h>

#include "comm/step/call_key.h"

#define KOLO_FRAME_HEADER_BYTES 64
#define KOLO_FRAME_BYTES_MAX    (UINT32_C(1) << 30) /* of one payload */
#define KOLO_MESSAGE_BYTES_MAX  (UINT64_C(1) << 48) /* what offsets count in: more than a machine can address */
#define KOLO_CONTROL_BYTES_MAX  512
#define KOLO_CHUNK_BYTES_MAX    32768

/* The kind says which stream a frame uses: kinds below KOLO_FRAME_DATA are control frames. */
enum {
    KOLO_FRAME_HEARTBEAT = 1, /* the engine's own, never shown to its owner */
    KOLO_FRAME_FAILURE = 2,   /* the communicator is broken, and how */
    KOLO_FRAME_LEAVE = 3,     /* this node sends nothing more */
    KOLO_FRAME_BEGUN = 4,     /* this node has begun the exchange of that ticket; no payload */
    KOLO_FRAME_CLOCK = 5,     /* part: a kolo_clock_part; ticket: a question's time, by its sender's clock; stamp: of an
                                 answer: the time, by its sender's clock; no payload */
    /* Of sends and receives, see internode/relay/relay.h. */
    KOLO_FRAME_MESSAGE = 6,  /* what a message is and, of a small one, the payload */
    KOLO_FRAME_PROGRESS = 7, /* how far a rank has got with messages; no payload */
    KOLO_FRAME_CHUNK = 8,    /* of a large message: at most KOLO_CHUNK_BYTES_MAX */
    KOLO_FRAME_DATA = 9,     /* from here on what the algorithms name */
    KOLO_FRAME_KINDS = 32
};

typedef enum kolo_clock_part { KOLO_CLOCK_QUESTION, KOLO_CLOCK_ANSWER, KOLO_CLOCK_PARTS } kolo_clock_part;

struct kolo_frame {
    uint16_t kind;
    uint16_t part;            /* which slice or step, as the algorithm counts */
    uint32_t bytes;           /* of the payload */
    uint64_t offset;          /* of the payload in its message */
    uint64_t ticket;          /* over all calls, see comm/step/progress.h */
    uint64_t stamp;           /* a mix of the keys of all calls so far */
    struct kolo_call_key key; /* of the present one */
};

/* Writes the header of KOLO_FRAME_HEADER_BYTES. */
void kolo_frame_pack(const struct kolo_frame *frame, uint8_t *header);

/* 0, or -EPROTO: no header of this version: wrong mark, kind, reserved bits, or bytes and offset beyond any message. */
int kolo_frame_parse(const uint8_t *header, struct kolo_frame *frame);
