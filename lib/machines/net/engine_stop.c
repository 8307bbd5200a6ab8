/* Stops all data of an engine for good, while its control streams go on. An owner whose exchanges have failed stops the
 * data before it gives back the buffers of those exchanges.
 *
 * Three things reach the payload of a data message, and end as follows:
 *
 *   The thread that runs the engine copies what has come with a header, makes small sends itself and, with poll, all
 *   others. Threads run the engine in turn: none runs it while one stops it, and later ones find no stream of data that
 *   receives or sends.
 *
 *   Operations of io_uring, at most one receive and one send of each stream, are cancelled, and the stop waits until
 *   each has completed. That needs nothing of the other side. An operation completes in the thread that has submitted
 *   it, when that is next in the kernel: a thread that sleeps is woken for it, one that computes gets there with the
 *   next tick of the clock, and for one that has ended a thread of the kernel does it. A cancel does not find an
 *   operation that moves bytes at that moment, and so is repeated. All that takes a few milliseconds; STOP_NS bounds
 * it.
 *
 *   Sends without a copy leave their pages with the kernel until the other side has acknowledged them, which may be
 *   never. Only the end of the connection makes the kernel let go: the data streams of such a neighbour are reset.
 *
 * Consequences. Frames are cut off in the middle in both directions, and later data stays in the sockets until they are
 * closed. The other side waits, as for a frame that has no place. It hears by its control stream of the failure for
 * which data is stopped, and stops its own. A side whose data streams are reset before it has heard takes that for an
 * error, but listens to the control stream a little longer (kolo_stream_fail); once it has stopped its own data, that
 * error does not count any more. So on both sides failures, heartbeats and silence go by the control streams as before,
 * and a neighbour ends with its control stream. */
#include "base/clock.h"
#include "net/engine_state.h"
#include "sync/point.h"

#define STOP_NS INT64_C(2000000000)
#define TURN_NS KOLO_NS_PER_MS /* between two attempts to cancel */

static bool is_data(const struct kolo_stream *stream) {
    return !stream->control && stream->fd >= 0;
}

/* Returns how many streams of data have operations in flight. */
static uint32_t cancel_all(struct kolo_engine *engine) {
    uint32_t busy = 0;
    for (uint32_t i = 0; i < engine->streams_count; i++) {
        struct kolo_stream *stream = engine->streams[i];
        if (!is_data(stream))
            continue;
        engine->backend->cancel(stream);
        busy += stream->receiving || stream->sending;
    }
    return busy;
}

/* Resets the connections by which the kernel still holds messages. Returns how many it holds. */
static uint32_t reset_held(struct kolo_engine *engine) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < engine->messages_count; i++) {
        const struct kolo_queued_message *message = engine->messages[i];
        const struct kolo_neighbour *neighbour = &engine->neighbours[message->node];
        if (!message->holds || message->frame.kind < KOLO_FRAME_DATA)
            continue;
        held++;
        for (uint32_t s = 1; s < neighbour->streams_count; s++)
            if (neighbour->streams[s]->fd >= 0) {
                neighbour->streams[s]->input = KOLO_INPUT_ENDED;
                kolo_stream_settle(neighbour->streams[s]);
            }
    }
    return held;
}

/* Repeats `attempt`, and waits in between, until nothing is left of what it counts. */
static bool repeat(struct kolo_engine *engine, uint32_t (*attempt)(struct kolo_engine *)) {
    const int64_t until_ns = kolo_clock_ns() + STOP_NS;
    for (int64_t wait_ns = 0; attempt(engine) > 0; wait_ns = TURN_NS) {
        if (kolo_clock_ns() >= until_ns)
            return false;
        KOLO_POINT("engine.stopping_data");
        for (int i = 0; i < 2; i++) { /* the first one submits */
            if (engine->backend->wait(engine, i * wait_ns) < 0)
                return false;
            engine->backend->reap(engine);
        }
    }
    return true;
}

/* Lets a neighbour go on of which only data streams have failed. */
static void go_on(struct kolo_neighbour *neighbour) {
    if (neighbour->streams_count == 0) /* this node */
        return;
    if (neighbour->streams[0]->fd >= 0 && neighbour->streams[0]->input != KOLO_INPUT_ENDED) {
        neighbour->given_up = false;
        neighbour->grace_ns = 0;
        kolo_output_start(neighbour);
    }
    kolo_neighbour_settle(neighbour);
}

bool kolo_engine_stop_data(kolo_engine *engine) {
    engine->now_ns = kolo_awake_ns(&engine->awake);
    engine->data_stopped = true;
    for (uint32_t i = 0; i < engine->streams_count; i++)
        if (is_data(engine->streams[i]) && engine->streams[i]->input != KOLO_INPUT_ENDED)
            engine->streams[i]->input = KOLO_INPUT_STOPPED;
    for (uint32_t i = 0; i < engine->options.nodes; i++)
        kolo_message_queue_drop(engine, &engine->neighbours[i].data);
    const bool all = repeat(engine, cancel_all) && repeat(engine, reset_held);
    for (uint32_t i = 0; i < engine->options.nodes; i++)
        go_on(&engine->neighbours[i]);
    KOLO_POINT("engine.data_stopped");
    return all;
}
