/* The engine: moves frames between this node and the other nodes of a job, its neighbours. It uses io_uring, or poll
 * where io_uring is refused, with one state machine for both. The engine knows nothing of collectives: its owner says
 * what a frame means.
 *
 * Each neighbour has one control stream and one or more data streams: connected sockets that the owner gives to the
 * engine. A frame is a header (net/frame.h) and its payload. Control frames go by the control stream, in order. Data
 * frames wait in one queue a neighbour; a message of more than KOLO_STRIPE_BYTES is cut into frames of at least that
 * many, and whichever data stream is idle takes the next one, so that frames may arrive in another order than they were
 * sent in. On each stream at most one send and one receive is in flight.
 *
 * A header that arrives is parsed and checked, then shown to `place`, which says where the payload belongs. The payload
 * is received straight into that memory. Until there is room for it the engine reads nothing more from the stream, and
 * the sender's socket fills up: that is the flow control.
 *
 * Threads may use an engine in turn, one at a time; kolo_engine_wake alone may be called at any time. Callbacks come
 * from kolo_engine_run or kolo_engine_stop_data, and may call only send, tell, resume and counts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/creation/options.h"
#include "net/frame.h"

#define KOLO_STRIPE_BYTES ((size_t)64 << 10) /* a message of data is not cut into smaller pieces */

typedef struct kolo_engine kolo_engine;

enum { KOLO_PLACE_LATER = 1, KOLO_PLACE_NOWHERE };

/* The events that an engine reports to its owner. `node` is the neighbour's index. */
struct kolo_engine_events {
    /* Decides where frame->bytes of payload go. Returns 0 and *where (meaningless if bytes is 0; not called for a
     * control frame of 0 bytes); or KOLO_PLACE_LATER: ask again after kolo_engine_resume; or KOLO_PLACE_NOWHERE: the
     * payload, which is not empty, is thrown away, and the frame does not arrive; or a negative KOLO_ERR_*: the frame
     * is invalid, and the neighbour is given up. */
    int (*place)(void *owner, uint32_t node, const struct kolo_frame *frame, void **where);
    /* The whole payload is there. */
    void (*arrived)(void *owner, uint32_t node, const struct kolo_frame *frame);
    /* All of a message has been handed to the kernel: its memory may be used again. `frame` is the one that was given
     * to kolo_engine_send. Messages that kolo_engine_tell has copied are not reported. */
    void (*sent)(void *owner, uint32_t node, const struct kolo_frame *frame);
    /* All streams of a neighbour have ended, and all that had arrived has been delivered. Reported once. error: 0 where
     * the peer closed each stream at a frame's boundary; else the first error as a positive errno (ECONNRESET,
     * ETIMEDOUT for silence, EPROTO for bytes that make no frame, EPIPE ...), at which all sockets of the neighbour
     * were shut. A neighbour that closes some of its streams, but not all of them within half a second, is given up
     * (ECONNRESET).
     *
     * A neighbour that has sent KOLO_FRAME_LEAVE is expected to close its sockets: that they break between frames is no
     * error, and the engine waits for the place of frames that have none yet. Without KOLO_FRAME_LEAVE such frames are
     * lost with the neighbour (ECONNRESET): the place may depend on what it can no longer send. */
    void (*ended)(void *owner, uint32_t node, int error);
    /* A neighbour is about to be given up for silence. If it is there after all, it receives what kolo_engine_tell
     * tells it now. NULL: the engine tells it nothing. */
    void (*silent)(void *owner, uint32_t node);
};

struct kolo_engine_options {
    kolo_net_engine kind; /* AUTO: io_uring unless it is refused */
    uint32_t nodes;       /* neighbours are numbered below it */
    uint32_t streams_max; /* data streams of one neighbour */
    int64_t silence_ns;   /* heartbeats go four times as often; from kolo_engine_watch on a neighbour whose control
                             stream says nothing for so long is given up, and so is one whose kernel answers nothing
                             that it gets by a data stream */
    int zero_copy;        /* 1: io_uring's zero-copy send for whole stripes, where the kernel has it */
    const void *memory;   /* where most payloads come from: registered for zero-copy sends where memlock allows it */
    size_t memory_bytes;  /* 0: nothing to register */
};

struct kolo_engine_counts {
    uint64_t system_calls;
    uint64_t sent_bytes, received_bytes; /* headers and control included */
};

/* Creates an engine. KOLO_ERR_UNSUPPORTED where io_uring was asked for and is refused; KOLO_ERR_SYSTEM. */
int kolo_engine_create(kolo_engine **engine, const struct kolo_engine_options *options,
                       const struct kolo_engine_events *events, void *owner);

/* Stops all data for good, in both directions; control goes on. When it returns, neither the engine nor the kernel
 * reaches the payload of any data message any more, but some frames may be cut off in the middle. It waits for this
 * machine only, for a few milliseconds (net/engine_stop.c). From then on a neighbour ends with its control stream.
 * `sent` reports all that had been sent or queued, and all that is sent later; control frames may arrive meanwhile, and
 * neighbours end. Data streams are reset when they are closed, so that the kernel does not go on trying to deliver what
 * is on its way. False: the kernel has not let go of all payloads in two seconds. */
bool kolo_engine_stop_data(kolo_engine *engine);

/* Shuts all sockets down, reaps every operation that is in flight, then closes and frees. When it returns, the kernel
 * reaches no payload any more. Unless linger_ns is 0, it first sends queued control frames, tells the others that
 * nothing more comes, and discards what comes until they do so too. No callbacks. */
void kolo_engine_destroy(kolo_engine *engine, int64_t linger_ns);

/* In a forked child: closes its copies of the sockets, which stay the parent's, and frees its copy of the engine. */
void kolo_engine_forget(kolo_engine *engine);

/* Gives a connected socket to the engine, which closes it. The first one of a neighbour is its control stream. */
int kolo_engine_add(kolo_engine *engine, uint32_t node, int fd);

/* All neighbours have engines that run: each of them must be heard from now on. */
void kolo_engine_watch(kolo_engine *engine);

/* Queues a message of frame->bytes at `payload`, which must not change until `sent`. A message of data is cut into
 * frames, in which frame->offset continues. KOLO_ERR_SYSTEM: out of memory. Sending to a neighbour that has ended
 * returns 0, and `sent` comes all the same. */
int kolo_engine_send(kolo_engine *engine, uint32_t node, const struct kolo_frame *frame, const void *payload);

/* Queues a control frame of at most KOLO_CONTROL_BYTES_MAX of payload, which is copied. */
int kolo_engine_tell(kolo_engine *engine, uint32_t node, const struct kolo_frame *frame, const void *payload);

/* Does all work that is ready; where none is, waits for at most wait_ns, or until kolo_engine_wake. Returns 0, or
 * KOLO_ERR_SYSTEM where the engine itself has failed. */
int kolo_engine_run(kolo_engine *engine, int64_t wait_ns);

/* Streams that were told KOLO_PLACE_LATER ask again in the next run. */
void kolo_engine_resume(kolo_engine *engine);

/* Ends the present or the next wait of kolo_engine_run. Any thread may call it. */
void kolo_engine_wake(kolo_engine *engine);

/* Counts of all neighbours together. */
const struct kolo_engine_counts *kolo_engine_counts(const kolo_engine *engine);
const char *kolo_engine_name(const kolo_engine *engine); /* "uring" or "poll" */

/* 0 where a ring can be set up; else the negative errno of the refusal (-ENOSYS in a build without io_uring). */
int kolo_engine_probe_uring(void);
