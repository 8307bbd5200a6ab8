/* The engine's input: cuts a stream of bytes into frames. */
#include <errno.h>
#include <string.h>

#include "kolo.h"
#include "net/engine_state.h"
#include "sync/point.h"

static uint32_t staged_bytes(const struct kolo_stream *stream) {
    return stream->staged_end - stream->staged_begin;
}

static void compact_staging(struct kolo_stream *stream) {
    const uint32_t bytes = staged_bytes(stream);
    if (bytes && stream->staged_begin)
        memmove(stream->staging, stream->staging + stream->staged_begin, bytes);
    stream->staged_begin = 0;
    stream->staged_end = bytes;
}

/* True once heartbeats end, which come until the neighbour leaves. Before that data does not count as heard: where
 * heartbeats do not come, news of a failure would not come either. */
static bool speaks_by_data(const struct kolo_stream *stream) {
    return stream->neighbour->streams[0]->fd < 0;
}

void kolo_input_start(struct kolo_stream *stream) {
    const bool to_payload = stream->input == KOLO_INPUT_PAYLOAD && stream->where && !stream->engine->closing;
    if (stream->receiving || stream->input == KOLO_INPUT_ENDED ||
        (kolo_input_is_held(stream) && !stream->engine->closing))
        return;
    compact_staging(stream);
    struct iovec *part = stream->input_parts;
    if (to_payload)
        *part++ = (struct iovec){stream->where, stream->rest_bytes};
    *part++ = (struct iovec){stream->staging + stream->staged_end, KOLO_STAGING_BYTES - stream->staged_end};
    stream->input_message = (struct msghdr){
        .msg_iov = stream->input_parts,
        .msg_iovlen = (size_t)(part - stream->input_parts),
    };
    stream->input_whole = to_payload && stream->rest_bytes >= KOLO_STAGING_BYTES && !speaks_by_data(stream);
    stream->receiving = true;
    stream->engine->backend->receive(stream);
}

/* Ends a stream's input. error: 0 where the stream's end was read, else a positive errno. */
static void end_input(struct kolo_stream *stream, int error) {
    const bool at_boundary = stream->input == KOLO_INPUT_HEADER && staged_bytes(stream) == 0;
    KOLO_POINT("engine.input_ended");
    stream->input = KOLO_INPUT_ENDED;
    if (error == 0 && !at_boundary)
        error = ECONNRESET;
    if (error && !(stream->neighbour->left && at_boundary) && !stream->engine->closing)
        kolo_stream_fail(stream, error);
    kolo_stream_settle(stream);
}

static bool read_header(struct kolo_stream *stream) {
    if (staged_bytes(stream) < KOLO_FRAME_HEADER_BYTES)
        return false;
    if (kolo_frame_parse(stream->staging + stream->staged_begin, &stream->frame) < 0 ||
        stream->control != (stream->frame.kind < KOLO_FRAME_DATA)) {
        end_input(stream, EPROTO);
        return false;
    }
    KOLO_POINT("engine.header_read");
    stream->staged_begin += KOLO_FRAME_HEADER_BYTES;
    stream->input = KOLO_INPUT_PLACING;
    return true;
}

static void arrive(struct kolo_stream *stream) {
    struct kolo_engine *engine = stream->engine;
    stream->input = KOLO_INPUT_HEADER;
    if (stream->frame.kind == KOLO_FRAME_HEARTBEAT)
        return;
    if (stream->frame.kind == KOLO_FRAME_LEAVE)
        stream->neighbour->left = true;
    engine->told++;
    engine->events.arrived(engine->owner, stream->neighbour->node, &stream->frame);
}

static bool place(struct kolo_stream *stream) {
    struct kolo_engine *engine = stream->engine;
    void *where = NULL;
    int rc = 0;
    if (stream->frame.bytes > 0 || !stream->control)
        rc = engine->events.place(engine->owner, stream->neighbour->node, &stream->frame, &where);
    if (rc == KOLO_PLACE_LATER) {
        engine->told++;
        kolo_neighbour_settle(stream->neighbour);
        return false;
    }
    if (rc < 0) {
        end_input(stream, EPROTO);
        return false;
    }
    stream->where = rc == KOLO_PLACE_NOWHERE ? NULL : where;
    engine->told += rc == KOLO_PLACE_NOWHERE;
    if (stream->frame.bytes == 0) {
        arrive(stream);
        return true;
    }
    stream->rest_bytes = stream->frame.bytes;
    stream->input = KOLO_INPUT_PAYLOAD;
    return true;
}

static bool fill_payload(struct kolo_stream *stream) {
    const uint32_t staged = staged_bytes(stream);
    const size_t bytes = staged < stream->rest_bytes ? staged : stream->rest_bytes;
    if (bytes && stream->where) {
        memcpy(stream->where, stream->staging + stream->staged_begin, bytes);
        stream->where += bytes;
    }
    stream->staged_begin += (uint32_t)bytes;
    stream->rest_bytes -= bytes;
    if (stream->rest_bytes > 0)
        return false;
    if (stream->where)
        arrive(stream);
    else
        stream->input = KOLO_INPUT_HEADER;
    return true;
}

/* Takes one step with the bytes that have been received; returns false where more must come first. */
static bool step(struct kolo_stream *stream) {
    switch (stream->input) {
    case KOLO_INPUT_HEADER:
        return read_header(stream);
    case KOLO_INPUT_PLACING:
        return place(stream);
    case KOLO_INPUT_PAYLOAD:
        return fill_payload(stream);
    case KOLO_INPUT_STOPPED:
    case KOLO_INPUT_ENDED:
        break;
    }
    return false;
}

void kolo_input_resume(struct kolo_stream *stream) {
    while (step(stream)) /* each header takes some of what is staged */
        ;
    kolo_input_start(stream);
}

void kolo_input_done(struct kolo_stream *stream, int result) {
    stream->receiving = false;
    if (stream->input == KOLO_INPUT_STOPPED && !stream->engine->closing)
        return;
    if (result == -EINTR || result == -EAGAIN) {
        kolo_input_start(stream);
        return;
    }
    if (result <= 0) {
        end_input(stream, -result);
        return;
    }
    size_t bytes = (size_t)result;
    if (stream->control || speaks_by_data(stream))
        stream->neighbour->heard_ns = stream->engine->now_ns;
    stream->engine->counts.received_bytes += bytes;
    KOLO_POINT("engine.received");
    if (stream->engine->closing) {
        stream->staged_begin = stream->staged_end = 0;
        kolo_input_start(stream);
        return;
    }
    if (stream->input == KOLO_INPUT_PAYLOAD && stream->where) {
        const size_t straight = bytes < stream->rest_bytes ? bytes : stream->rest_bytes;
        stream->where += straight;
        stream->rest_bytes -= straight;
        bytes -= straight;
    }
    stream->staged_end += (uint32_t)bytes;
    kolo_input_resume(stream);
}
