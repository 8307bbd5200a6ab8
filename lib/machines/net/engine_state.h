/* The state of an engine, for the files net/engine*.c only.
 *
 * engine_run.c has the neighbours and the run, engine_input.c what arrives by one stream, engine_output.c the queues of
 * messages to send, engine_stop.c the end of all data after a failure. engine_uring.c and engine_poll.c are backends,
 * which move bytes and know no frames. Input and output start operations at a backend, at most one of each per stream.
 * The backend tells them how each one ended, from `reap`, `submit` and `wait`. The kernel has the operations started so
 * far after `wait`, and sends also after `submit`. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/engine.h"
#include "sync/atomic.h"

#define KOLO_STAGING_BYTES    4096              /* most bytes behind a header that are received with it */
#define KOLO_STRIPE_BYTES_MAX ((size_t)1 << 20) /* of one frame of data that is sent */

/* A frame that waits for streams, or is on its way through them in pieces. */
struct kolo_queued_message {
    struct kolo_queued_message *next; /* in a queue, or among the free ones */
    uint32_t index;                   /* in engine->messages */
    uint32_t node;
    struct kolo_frame frame; /* as the owner gave it */
    const uint8_t *payload;
    uint32_t piece_bytes; /* size of the pieces into which it is cut */
    uint32_t begun_bytes; /* bytes that streams have taken so far */
    uint32_t holds;       /* pieces that are being sent, and those that the kernel has not let go of yet */
    bool cut;             /* no stream takes more of the message */
    uint8_t control[KOLO_CONTROL_BYTES_MAX];
};

struct kolo_message_queue {
    struct kolo_queued_message *first, *last;
};

typedef enum kolo_input_state {
    KOLO_INPUT_HEADER,  /* a header is to come, or the rest of one */
    KOLO_INPUT_PLACING, /* `frame` is there; its payload has no place yet */
    KOLO_INPUT_PAYLOAD, /* `rest_bytes` of payload are to come, to `where`; NULL: they are thrown away */
    KOLO_INPUT_STOPPED, /* of a data stream: nothing that comes is looked at any more */
    KOLO_INPUT_ENDED
} kolo_input_state;

struct kolo_stream {
    struct kolo_engine *engine;
    struct kolo_neighbour *neighbour;
    int fd;         /* -1 once closed */
    uint32_t index; /* in engine->streams */
    bool control;
    bool shut; /* for sending; of an engine that is being destroyed */

    kolo_input_state input;
    bool receiving; /* an operation is in flight, into input_parts */
    bool readable;  /* poll's: there may be something to receive */
    struct kolo_frame frame;
    uint8_t *where;
    size_t rest_bytes;
    uint32_t staged_begin, staged_end; /* bytes in `staging` that have not been looked at */
    struct iovec input_parts[2];       /* payload and staging; or staging alone */
    struct msghdr input_message;
    bool input_whole; /* the first part is large: wait until it is full, and leave the second alone, if possible */

    bool sending;                        /* an operation is in flight, from output_parts */
    bool writable;                       /* poll's: there may be room to send */
    int64_t answered_ns;                 /* until then the other machine's kernel has answered all */
    struct kolo_stream *next;            /* io_uring's: with a small send that is to be tried */
    struct kolo_queued_message *message; /* a piece of it is being sent; NULL: idle */
    struct iovec output_parts[2];        /* what is left of header and payload */
    struct msghdr output_message;
    uint8_t header[KOLO_FRAME_HEADER_BYTES];
    uint8_t staging[KOLO_STAGING_BYTES];
};

struct kolo_neighbour {
    struct kolo_engine *engine;
    uint32_t node;
    uint32_t streams_count;
    struct kolo_stream **streams; /* [1 + options.streams_max]: control, then data */
    struct kolo_message_queue control, data;
    int64_t heard_ns, heartbeat_ns; /* the last ones */
    int64_t grace_ns;               /* until then only some streams may be closed; 0: all are open */
    int error;                      /* the first */
    bool left;                      /* has said that it sends nothing more: broken sockets are no error then */
    bool mute;                      /* nothing can be sent to it any more */
    bool given_up;                  /* its sockets are shut; what had arrived is still delivered */
    bool ended;                     /* all is closed, and the owner knows */
};

struct kolo_engine {
    const struct kolo_backend *backend;
    void *moving; /* the backend's own */
    struct kolo_engine_options options;
    struct kolo_engine_events events;
    void *owner;
    struct kolo_neighbour *neighbours; /* [options.nodes] */
    struct kolo_stream **streams;      /* of all neighbours, as they were added */
    struct kolo_stream **streams_of_neighbours;
    uint32_t streams_count, streams_max;
    struct kolo_queued_message **messages; /* all that there are */
    uint32_t messages_count, messages_max;
    struct kolo_queued_message *free_messages;
    struct kolo_message_queue returned; /* sent to neighbours that had ended */
    struct kolo_awake awake; /* so that a machine that was stopped itself does not take its neighbours for silent */
    int64_t now_ns;          /* by `awake`, like all other times here */
    int64_t timer_ns;        /* no heartbeat or silence is due before */
    uint64_t told;           /* counts events that the owner may have to act upon: each ends a run */
    uint64_t in_flight;      /* operations that the kernel has */
    struct kolo_engine_counts counts;
    bool resumed;
    bool watches;      /* see kolo_engine_watch */
    bool data_stopped; /* see engine_stop.c */
    bool closing;      /* the owner is told nothing more, and what arrives is thrown away */
    int wake_fd;
    uint64_t wakes_seen;
    kolo_atomic_u64 wakes, sleeping; /* see kolo_engine_wake */
};

/* A backend, which moves bytes. All functions return 0 or a negative errno; `wait` and `submit` return an errno only
 * where the engine cannot go on. */
struct kolo_backend {
    const char *name;
    int (*open)(struct kolo_engine *engine);
    int (*attach)(struct kolo_stream *stream);
    void (*receive)(struct kolo_stream *stream); /* of stream->input_parts */
    void (*send)(struct kolo_stream *stream);    /* of stream->output_parts */
    void (*cancel)(struct kolo_stream *stream);  /* cancels the operations in flight, which may take a few waits */
    int (*submit)(struct kolo_engine *engine);
    int (*wait)(struct kolo_engine *engine, int64_t wait_ns); /* submits, then waits for anything to reap */
    void (*reap)(struct kolo_engine *engine);
    void (*close)(struct kolo_engine *engine);
    void (*forget)(struct kolo_engine *engine); /* in a forked child, whose copy of this it is */
};

extern const struct kolo_backend kolo_backend_uring, kolo_backend_poll;

/* engine_input.c */

/* Whether nothing is to be read from the stream for now. */
static inline bool kolo_input_is_held(const struct kolo_stream *stream) {
    return stream->input == KOLO_INPUT_PLACING || stream->input == KOLO_INPUT_STOPPED;
}

/* Starts the receive that the stream's state asks for; nothing where an operation is in flight, or none can be. */
void kolo_input_start(struct kolo_stream *stream);

/* Takes the end of a receive: so many bytes, 0 at the stream's end, or a negative errno. */
void kolo_input_done(struct kolo_stream *stream, int result);

/* Asks again where the payload belongs. */
void kolo_input_resume(struct kolo_stream *stream);

/* engine_output.c */

struct kolo_queued_message *kolo_message_take(struct kolo_engine *engine, uint32_t node,
                                              const struct kolo_frame *frame);
void kolo_message_queue_append(struct kolo_message_queue *queue, struct kolo_queued_message *message);

/* Gives back the queued messages, as if they had been sent. */
void kolo_message_queue_drop(struct kolo_engine *engine, struct kolo_message_queue *queue);

/* Makes idle streams take what is queued. */
void kolo_output_start(struct kolo_neighbour *neighbour);

/* Takes the end of a send: so many bytes, or a negative errno. */
void kolo_output_done(struct kolo_stream *stream, int result);

/* The kernel has let go of a piece, which had been counted in message->holds. */
void kolo_message_release(struct kolo_engine *engine, struct kolo_queued_message *message);

/* engine_run.c */

/* Shuts all sockets of the stream's neighbour because of `error`, a positive errno. After the failure of a data stream
 * the control stream is still read for a while: the neighbour may be about to tell why. */
void kolo_stream_fail(struct kolo_stream *stream, int error);

/* Closes the stream if nothing comes or goes by it any more. The last stream to close ends its neighbour. */
void kolo_stream_settle(struct kolo_stream *stream);

/* Ends the neighbour if its streams have ended. A stream whose payload has no place does not count where no process is
 * left to wait for, since the place may never come. */
void kolo_neighbour_settle(struct kolo_neighbour *neighbour);
