/* The engine's output: cuts messages into frames, and stripes them over the streams of a node. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/engine_state.h"
#include "sync/point.h"

void kolo_message_queue_append(struct kolo_message_queue *queue, struct kolo_queued_message *message) {
    message->next = NULL;
    if (queue->first)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
}

static bool make_messages(struct kolo_engine *engine) {
    if (engine->messages_count == engine->messages_max) {
        const uint32_t max = engine->messages_max ? engine->messages_max * 2 : 64;
        struct kolo_queued_message **messages = realloc(engine->messages, max * sizeof(struct kolo_queued_message *));
        if (!messages)
            return false;
        engine->messages = messages;
        engine->messages_max = max;
    }
    struct kolo_queued_message *message = calloc(1, sizeof *message);
    if (!message)
        return false;
    message->index = engine->messages_count;
    engine->messages[engine->messages_count++] = message;
    message->next = engine->free_messages;
    engine->free_messages = message;
    return true;
}

struct kolo_queued_message *kolo_message_take(struct kolo_engine *engine, uint32_t node,
                                              const struct kolo_frame *frame) {
    if (!engine->free_messages && !make_messages(engine))
        return NULL;
    struct kolo_queued_message *message = engine->free_messages;
    engine->free_messages = message->next;
    message->node = node;
    message->frame = *frame;
    message->begun_bytes = 0;
    message->holds = 0;
    message->cut = false;
    return message;
}

/* Gives the owner the memory of a message back once all of it has gone, or will never go. */
static void settle_message(struct kolo_engine *engine, struct kolo_queued_message *message) {
    if (!message->cut || message->holds)
        return;
    if (message->payload != message->control && !engine->closing) {
        engine->told++;
        engine->events.sent(engine->owner, message->node, &message->frame);
    }
    message->next = engine->free_messages;
    engine->free_messages = message;
}

void kolo_message_release(struct kolo_engine *engine, struct kolo_queued_message *message) {
    message->holds--;
    settle_message(engine, message);
}

void kolo_message_queue_drop(struct kolo_engine *engine, struct kolo_message_queue *queue) {
    while (queue->first) {
        struct kolo_queued_message *message = queue->first;
        queue->first = message->next;
        message->cut = true;
        settle_message(engine, message);
    }
}

/* The number of bytes of a message that a stream takes: a piece; the last one includes a rest of less than a stripe. */
static uint32_t next_piece_bytes(const struct kolo_queued_message *message) {
    const uint32_t left_bytes = message->frame.bytes - message->begun_bytes;
    return left_bytes < message->piece_bytes + KOLO_STRIPE_BYTES ? left_bytes : message->piece_bytes;
}

static void start_sending(struct kolo_stream *stream) {
    stream->sending = true;
    KOLO_POINT("engine.sending");
    stream->engine->backend->send(stream);
}

static void send_next_piece(struct kolo_stream *stream, struct kolo_message_queue *queue) {
    struct kolo_queued_message *message = queue->first;
    struct kolo_frame frame = message->frame;
    frame.bytes = next_piece_bytes(message);
    frame.offset += message->begun_bytes;
    kolo_frame_pack(&frame, stream->header);
    stream->output_parts[0] = (struct iovec){stream->header, KOLO_FRAME_HEADER_BYTES};
    stream->output_parts[1] = (struct iovec){(void *)(message->payload + message->begun_bytes), frame.bytes};
    stream->output_message = (struct msghdr){.msg_iov = stream->output_parts, .msg_iovlen = 2};
    stream->message = message;
    message->holds++;
    message->begun_bytes += frame.bytes;
    message->cut = message->begun_bytes == message->frame.bytes;
    if (message->cut)
        queue->first = message->next;
    start_sending(stream);
}

static bool can_send(const struct kolo_stream *stream) {
    return stream->fd >= 0 && !stream->message && stream->input != KOLO_INPUT_ENDED && !stream->shut;
}

void kolo_output_start(struct kolo_neighbour *neighbour) {
    if (neighbour->given_up || neighbour->mute)
        return;
    for (uint32_t i = 0; i < neighbour->streams_count; i++) {
        struct kolo_message_queue *queue = i == 0 ? &neighbour->control : &neighbour->data;
        if (queue->first && can_send(neighbour->streams[i]))
            send_next_piece(neighbour->streams[i], queue);
    }
}

/* Removes the bytes that have been sent from the parts; true if there are more to send. */
static bool more_to_send(struct kolo_stream *stream, size_t sent_bytes) {
    size_t left_bytes = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct iovec *part = &stream->output_parts[i];
        const size_t bytes = sent_bytes < part->iov_len ? sent_bytes : part->iov_len;
        part->iov_base = (uint8_t *)part->iov_base + bytes;
        part->iov_len -= bytes;
        sent_bytes -= bytes;
        left_bytes += part->iov_len;
    }
    return left_bytes > 0;
}

void kolo_output_done(struct kolo_stream *stream, int result) {
    struct kolo_neighbour *neighbour = stream->neighbour;
    const bool stopped = stream->engine->data_stopped && !stream->control;
    const int error = result < 0 && result != -EINTR && result != -EAGAIN && !stopped ? -result : 0;
    const size_t sent_bytes = result > 0 ? (size_t)result : 0;
    stream->sending = false;
    KOLO_POINT("engine.sent");
    stream->engine->counts.sent_bytes += sent_bytes;
    if (!error && !stopped && more_to_send(stream, sent_bytes)) {
        start_sending(stream);
        return;
    }
    struct kolo_queued_message *message = stream->message;
    stream->message = NULL;
    kolo_message_release(stream->engine, message);
    if (error && (neighbour->left || stream->engine->closing))
        neighbour->mute = true;
    else if (error)
        kolo_stream_fail(stream, error);
    kolo_stream_settle(stream);
    kolo_output_start(neighbour);
}
