/* The engine's state machine of connections, for both backends. */
#include "net/engine.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/minimum.h"
#include "base/status.h"
#include "net/engine_state.h"
#include "sync/fence.h"
#include "sync/point.h"

enum { HEARTBEATS_PER_SILENCE = 4, PROBES_PER_SILENCE = 5, KEEPALIVE_S_MAX = 32767 };
enum { LOSSES = 3 }; /* one after another: what the kernel has sent so often for nothing has no path */

#define REAP_NS  INT64_C(2000000000) /* bounds the wait for operations on sockets that are shut, which end at once */
#define GRACE_NS INT64_C(500000000)  /* a neighbour that closes a stream without having left closes all within that */
#define NEWS_NS  INT64_C(100000000)  /* a failure that breaks connections is told by the control stream within that */

static bool is_held(const struct kolo_stream *stream) {
    return kolo_input_is_held(stream) && !stream->receiving;
}

/* The end of a neighbour. */

static void end_neighbour(struct kolo_neighbour *neighbour) {
    struct kolo_engine *engine = neighbour->engine;
    KOLO_POINT("engine.ended");
    neighbour->ended = true;
    kolo_message_queue_drop(engine, &neighbour->control);
    kolo_message_queue_drop(engine, &neighbour->data);
    engine->told++;
    if (!engine->closing)
        engine->events.ended(engine->owner, neighbour->node, neighbour->error);
}

/* Makes closing reset the connection: then the kernel releases memory that it has taken without a copy. */
static void reset_at_close(const struct kolo_stream *stream) {
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

/* True if no process needs any more what the kernel has not delivered yet. A neighbour that has been given up because
 * this engine ends may still get it. */
static bool is_moot(const struct kolo_stream *stream) {
    const struct kolo_neighbour *neighbour = stream->neighbour;
    const struct kolo_engine *engine = stream->engine;
    if (neighbour->given_up && (engine->options.zero_copy || neighbour->error != ECONNABORTED))
        return true;
    return engine->data_stopped && !stream->control;
}

static void set_grace(struct kolo_neighbour *neighbour, int64_t ns) {
    struct kolo_engine *engine = neighbour->engine;
    if (neighbour->grace_ns)
        return;
    neighbour->grace_ns = engine->now_ns + ns;
    engine->timer_ns = kolo_minimum_ns(engine->timer_ns, neighbour->grace_ns);
}

void kolo_stream_settle(struct kolo_stream *stream) {
    struct kolo_neighbour *neighbour = stream->neighbour;
    if (stream->fd < 0 || stream->input != KOLO_INPUT_ENDED || stream->receiving || stream->sending)
        return;
    if (is_moot(stream))
        reset_at_close(stream);
    close(stream->fd);
    KOLO_POINT("engine.closed");
    stream->fd = -1;
    set_grace(neighbour, GRACE_NS);
    kolo_neighbour_settle(neighbour);
}

static void end_held_streams(struct kolo_neighbour *neighbour) {
    for (uint32_t i = 0; i < neighbour->streams_count; i++) {
        struct kolo_stream *stream = neighbour->streams[i];
        if (is_held(stream)) {
            stream->input = KOLO_INPUT_ENDED;
            kolo_stream_settle(stream);
        }
    }
}

static void shut_streams(struct kolo_neighbour *neighbour, uint32_t first, int error) {
    if (!neighbour->given_up) {
        neighbour->given_up = true;
        neighbour->error = error;
    }
    for (uint32_t i = first; i < neighbour->streams_count; i++)
        if (neighbour->streams[i]->fd >= 0)
            shutdown(neighbour->streams[i]->fd, SHUT_RDWR);
    end_held_streams(neighbour);
}

static void give_up(struct kolo_neighbour *neighbour, int error) {
    shut_streams(neighbour, 0, error);
}

void kolo_stream_fail(struct kolo_stream *stream, int error) {
    struct kolo_neighbour *neighbour = stream->neighbour;
    const struct kolo_stream *control = neighbour->streams[0];
    const bool listens = !stream->control && control->fd >= 0 && control->input != KOLO_INPUT_ENDED;
    if (neighbour->given_up && !stream->control)
        return;
    if (listens)
        set_grace(neighbour, NEWS_NS);
    shut_streams(neighbour, listens, error);
}

void kolo_neighbour_settle(struct kolo_neighbour *neighbour) {
    const bool stopped = neighbour->engine->data_stopped;
    uint32_t open = 0, held = 0;
    for (uint32_t i = 0; i < neighbour->streams_count; i++) {
        open += neighbour->streams[i]->fd >= 0;
        held += is_held(neighbour->streams[i]);
    }
    if (open == 0 && !neighbour->ended)
        end_neighbour(neighbour);
    else if (held > 0 && neighbour->given_up)
        end_held_streams(neighbour);
    else if (held > 0 && open == held && neighbour->streams[0]->fd < 0 && (stopped || !neighbour->left))
        give_up(neighbour, stopped ? neighbour->error : ECONNRESET);
}

/* Creation. */

static int open_backend(struct kolo_engine *engine) {
    const bool uring_only = engine->options.kind == KOLO_NET_ENGINE_URING;
    if (engine->options.kind != KOLO_NET_ENGINE_POLL) {
        engine->backend = &kolo_backend_uring;
        const int rc = engine->backend->open(engine);
        if (rc == 0)
            return 0;
        if (uring_only)
            return kolo_fail(KOLO_ERR_UNSUPPORTED, "io_uring is refused: %s", strerror(-rc));
    }
    engine->backend = &kolo_backend_poll;
    const int rc = engine->backend->open(engine);
    return rc == 0 ? 0 : kolo_fail_system(-rc, "cannot prepare to poll sockets");
}

static void free_engine(struct kolo_engine *engine) {
    if (engine->wake_fd >= 0)
        close(engine->wake_fd);
    for (uint32_t i = 0; i < engine->messages_count; i++)
        free(engine->messages[i]);
    free(engine->messages);
    for (uint32_t i = 0; i < engine->streams_count; i++)
        free(engine->streams[i]);
    free(engine->streams);
    free(engine->streams_of_neighbours);
    free(engine->neighbours);
    free(engine);
}

static bool make_neighbours(struct kolo_engine *engine) {
    const size_t streams_max = 1 + (size_t)engine->options.streams_max;
    engine->streams_max = (uint32_t)(engine->options.nodes * streams_max);
    engine->streams = calloc(engine->streams_max, sizeof(struct kolo_stream *));
    engine->streams_of_neighbours = calloc(engine->streams_max, sizeof(struct kolo_stream *));
    engine->neighbours = calloc(engine->options.nodes, sizeof *engine->neighbours);
    if (!engine->streams || !engine->streams_of_neighbours || !engine->neighbours)
        return false;
    for (uint32_t i = 0; i < engine->options.nodes; i++) {
        struct kolo_neighbour *neighbour = &engine->neighbours[i];
        neighbour->engine = engine;
        neighbour->node = i;
        neighbour->streams = engine->streams_of_neighbours + i * streams_max;
    }
    return true;
}

int kolo_engine_create(kolo_engine **created, const struct kolo_engine_options *options,
                       const struct kolo_engine_events *events, void *owner) {
    struct kolo_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return kolo_fail_system(ENOMEM, "cannot allocate an engine");
    engine->options = *options;
    engine->events = *events;
    engine->owner = owner;
    kolo_awake_begin(&engine->awake, options->silence_ns);
    engine->wake_fd = kolo_file_raise(eventfd(0, EFD_CLOEXEC));
    int rc = 0;
    if (engine->wake_fd < 0)
        rc = kolo_fail_system(errno, "cannot make an eventfd");
    else if (!make_neighbours(engine))
        rc = kolo_fail_system(ENOMEM, "cannot allocate an engine");
    else
        rc = open_backend(engine);
    if (rc < 0) {
        free_engine(engine);
        return rc;
    }
    *created = engine;
    return 0;
}

/* Lifts the kernel's limits (kolo_socket_prepare): the engine itself watches for silence, and with a time-out the
 * kernel takes a stream that the flow control holds back for a dead one. Keepalive stays, by which firewalls remember
 * an idle stream, and is_unanswered finds one whose path is gone, before the kernel does. */
static void lift_limits(int fd, int64_t silence_ns) {
    static const int none = 0, probes = 4 * PROBES_PER_SILENCE;
    const int64_t silence_s = silence_ns / INT64_C(1000000000), each_s = silence_s / PROBES_PER_SILENCE;
    const int interval_s = each_s < 1 ? 1 : (int)kolo_minimum_ns(each_s, KEEPALIVE_S_MAX);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

int kolo_engine_add(kolo_engine *engine, uint32_t node, int fd) {
    struct kolo_neighbour *neighbour = &engine->neighbours[node];
    int rc = -ENOBUFS;
    if (neighbour->streams_count > engine->options.streams_max)
        goto close_it;
    struct kolo_stream *stream = calloc(1, sizeof *stream);
    rc = -ENOMEM;
    if (!stream)
        goto close_it;
    lift_limits(fd, engine->options.silence_ns);
    stream->engine = engine;
    stream->neighbour = neighbour;
    stream->fd = fd;
    stream->index = engine->streams_count;
    stream->control = neighbour->streams_count == 0;
    rc = engine->backend->attach(stream);
    if (rc < 0) {
        free(stream);
        goto close_it;
    }
    engine->streams[engine->streams_count++] = stream;
    neighbour->streams[neighbour->streams_count++] = stream;
    neighbour->heartbeat_ns = kolo_awake_ns(&engine->awake);
    engine->timer_ns = 0;
    kolo_input_start(stream);
    KOLO_POINT("engine.added");
    return 0;
close_it:
    close(fd);
    return kolo_fail_system(-rc, "cannot use the connection to node %u", node);
}

void kolo_engine_watch(kolo_engine *engine) {
    const int64_t now_ns = kolo_awake_ns(&engine->awake);
    for (uint32_t node = 0; node < engine->options.nodes; node++)
        engine->neighbours[node].heard_ns = now_ns;
    engine->watches = true;
    engine->timer_ns = 0;
}

/* Sending. */

static uint32_t piece_bytes(const struct kolo_neighbour *neighbour, uint32_t bytes) {
    const size_t streams = neighbour->streams_count > 1 ? neighbour->streams_count - 1 : 1;
    const size_t share = (bytes / streams + 4095) & ~(size_t)4095;
    if (share > KOLO_STRIPE_BYTES_MAX)
        return KOLO_STRIPE_BYTES_MAX;
    return share > KOLO_STRIPE_BYTES ? (uint32_t)share : (uint32_t)KOLO_STRIPE_BYTES;
}

int kolo_engine_send(kolo_engine *engine, uint32_t node, const struct kolo_frame *frame, const void *payload) {
    struct kolo_neighbour *neighbour = &engine->neighbours[node];
    struct kolo_queued_message *message = kolo_message_take(engine, node, frame);
    const bool is_control = frame->kind < KOLO_FRAME_DATA;
    if (!message)
        return kolo_fail_system(ENOMEM, "cannot queue a message");
    message->payload = payload;
    message->piece_bytes = is_control ? frame->bytes : piece_bytes(neighbour, frame->bytes);
    if (neighbour->ended || (engine->data_stopped && !is_control)) {
        kolo_message_queue_append(&engine->returned, message);
        return 0;
    }
    kolo_message_queue_append(is_control ? &neighbour->control : &neighbour->data, message);
    kolo_output_start(neighbour);
    return 0;
}

int kolo_engine_tell(kolo_engine *engine, uint32_t node, const struct kolo_frame *frame, const void *payload) {
    struct kolo_neighbour *neighbour = &engine->neighbours[node];
    assert(frame->kind < KOLO_FRAME_DATA && frame->bytes <= KOLO_CONTROL_BYTES_MAX);
    if (neighbour->ended)
        return 0;
    struct kolo_queued_message *message = kolo_message_take(engine, node, frame);
    if (!message)
        return kolo_fail_system(ENOMEM, "cannot queue a message");
    if (frame->bytes)
        memcpy(message->control, payload, frame->bytes);
    message->payload = message->control;
    message->piece_bytes = frame->bytes;
    kolo_message_queue_append(&neighbour->control, message);
    kolo_output_start(neighbour);
    return 0;
}

/* Time. */

static bool is_live(const struct kolo_neighbour *neighbour) {
    return neighbour->streams_count > 0 && !neighbour->ended && !neighbour->given_up;
}

static int64_t heartbeat_due_ns(const struct kolo_neighbour *neighbour) {
    return neighbour->heartbeat_ns + neighbour->engine->options.silence_ns / HEARTBEATS_PER_SILENCE;
}

static int64_t silence_due_ns(const struct kolo_neighbour *neighbour) {
    return neighbour->heard_ns + neighbour->engine->options.silence_ns;
}

static void beat(struct kolo_neighbour *neighbour) {
    static const struct kolo_frame heartbeat = {.kind = KOLO_FRAME_HEARTBEAT};
    const struct kolo_stream *control = neighbour->streams[0];
    neighbour->heartbeat_ns = neighbour->engine->now_ns;
    KOLO_POINT("engine.beating");
    if (control->fd >= 0 && !control->message && !neighbour->control.first && !neighbour->mute)
        kolo_engine_tell(neighbour->engine, neighbour->node, &heartbeat, NULL); /* where it fails, the next follows */
}

/* Streams that are held back for lack of a place do not make the neighbour silent. */
static bool can_be_heard(const struct kolo_neighbour *neighbour) {
    const struct kolo_stream *control = neighbour->streams[0];
    if (control->fd >= 0)
        return !is_held(control);
    for (uint32_t i = 1; i < neighbour->streams_count; i++)
        if (is_held(neighbour->streams[i]))
            return false;
    return true;
}

/* Decides on a neighbour of which some streams have ended. */
static void judge_closing(struct kolo_neighbour *neighbour) {
    struct kolo_engine *engine = neighbour->engine;
    if (neighbour->ended || neighbour->grace_ns == 0 || (neighbour->left && !neighbour->given_up))
        return;
    if (engine->now_ns < neighbour->grace_ns) {
        engine->timer_ns = kolo_minimum_ns(engine->timer_ns, neighbour->grace_ns);
        return;
    }
    neighbour->grace_ns = INT64_MAX;
    give_up(neighbour, ECONNRESET);
}

/* Tells a neighbour why it is given up, if it is there after all. */
static void lose(struct kolo_neighbour *neighbour) {
    struct kolo_engine *engine = neighbour->engine;
    if (engine->events.silent && !engine->closing) {
        engine->events.silent(engine->owner, neighbour->node);
        (void)engine->backend->submit(engine); /* where that fails, so does the run's own */
    }
    give_up(neighbour, ETIMEDOUT);
}

/* True where the other machine's kernel has long answered nothing that this one sent by the stream: neither data nor,
 * where the stream is idle or the flow control holds it back, probes. The time since the last answer alone says
 * nothing: probes of a stream that is held back, and repeated data, come as far apart as two minutes. */
static bool is_unanswered(struct kolo_stream *stream) {
    const struct kolo_engine *engine = stream->engine;
    const int64_t silence_ns = engine->options.silence_ns;
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    const int rc = getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes);
    const int64_t since_ns = info.tcpi_last_ack_recv * KOLO_NS_PER_MS, again_ns = info.tcpi_rto * INT64_C(1000);
    if (rc < 0 || (info.tcpi_unacked == 0 && info.tcpi_probes == 0))
        stream->answered_ns = engine->now_ns;
    else if (stream->answered_ns < engine->now_ns - since_ns)
        stream->answered_ns = engine->now_ns - since_ns;
    return engine->now_ns - stream->answered_ns >= silence_ns &&
           (info.tcpi_probes >= LOSSES || info.tcpi_retransmits >= LOSSES) &&
           since_ns >= again_ns + silence_ns / HEARTBEATS_PER_SILENCE;
}

/* Heartbeats go by the control stream alone: whether the data streams have paths is for the kernel to say. */
static void judge_data(struct kolo_neighbour *neighbour) {
    const struct kolo_engine *engine = neighbour->engine;
    for (uint32_t i = 1; i < neighbour->streams_count && engine->watches && !engine->data_stopped; i++)
        if (neighbour->streams[i]->fd >= 0 && is_unanswered(neighbour->streams[i])) {
            lose(neighbour);
            return;
        }
}

static void judge(struct kolo_neighbour *neighbour) {
    struct kolo_engine *engine = neighbour->engine;
    if (!engine->watches)
        return;
    if (!can_be_heard(neighbour))
        neighbour->heard_ns = engine->now_ns;
    if (engine->now_ns < silence_due_ns(neighbour)) {
        engine->timer_ns = kolo_minimum_ns(engine->timer_ns, silence_due_ns(neighbour));
        return;
    }
    lose(neighbour);
}

/* Serves the timers that are due, once all that had arrived until now_ns has been looked at. */
static void serve_timers(struct kolo_engine *engine) {
    if (engine->now_ns < engine->timer_ns)
        return;
    engine->timer_ns = INT64_MAX;
    for (uint32_t i = 0; i < engine->options.nodes; i++) {
        struct kolo_neighbour *neighbour = &engine->neighbours[i];
        judge_closing(neighbour);
        if (!is_live(neighbour))
            continue;
        if (engine->now_ns >= heartbeat_due_ns(neighbour)) {
            beat(neighbour);
            judge_data(neighbour);
        }
        engine->timer_ns = kolo_minimum_ns(engine->timer_ns, heartbeat_due_ns(neighbour));
        if (is_live(neighbour))
            judge(neighbour);
    }
}

/* The run.
 *
 * A thread that wakes the engine adds to `wakes`, then looks at `sleeping`. The engine, before it waits in the kernel,
 * sets `sleeping`, then looks at `wakes`. A full fence between the two on both sides makes sure that one of them sees
 * the other's store. So a wake-up is not lost, and costs a system call only where the engine waits, or is about to. */

void kolo_engine_wake(kolo_engine *engine) {
    static const uint64_t one = 1;
    KOLO_POINT("engine.waking");
    kolo_fetch_add(&engine->wakes, 1); /* pairs with the load in was_woken */
    kolo_fence_full();
    if (kolo_load_relaxed(&engine->sleeping) && write(engine->wake_fd, &one, sizeof one) < 0)
        return; /* only if the count is full, and then it wakes, too */
}

static bool was_woken(const struct kolo_engine *engine) {
    return kolo_load_acquire(&engine->wakes) != engine->wakes_seen; /* pairs with kolo_engine_wake */
}

static int wait_in_kernel(struct kolo_engine *engine, int64_t wait_ns) {
    if (wait_ns <= 0)
        return engine->backend->wait(engine, 0);
    kolo_store_relaxed(&engine->sleeping, 1);
    kolo_fence_full();
    KOLO_POINT("engine.waiting");
    const int rc = engine->backend->wait(engine, was_woken(engine) ? 0 : wait_ns);
    KOLO_POINT("engine.waited");
    kolo_store_relaxed(&engine->sleeping, 0);
    engine->now_ns = kolo_awake_ns(&engine->awake);
    return rc;
}

static void resume_placing(struct kolo_engine *engine) {
    engine->resumed = false;
    for (uint32_t i = 0; i < engine->streams_count; i++)
        if (is_held(engine->streams[i]))
            kolo_input_resume(engine->streams[i]);
}

static int look(struct kolo_engine *engine, int64_t until_ns) {
    const uint64_t told = engine->told;
    engine->backend->reap(engine);
    /* Ends at until_ns. */
    while (engine->told == told || engine->now_ns >= engine->timer_ns) {
        const bool last = engine->told != told || engine->now_ns >= until_ns;
        const int64_t due_ns = kolo_minimum_ns(until_ns, engine->timer_ns);
        const int rc = wait_in_kernel(engine, last ? 0 : kolo_awake_slice(&engine->awake, due_ns - engine->now_ns));
        if (rc < 0)
            return rc;
        engine->backend->reap(engine);
        serve_timers(engine);
        if (last || was_woken(engine) || engine->now_ns >= until_ns)
            break;
    }
    engine->wakes_seen = kolo_load_acquire(&engine->wakes);
    return engine->backend->submit(engine);
}

int kolo_engine_run(kolo_engine *engine, int64_t wait_ns) {
    engine->now_ns = kolo_awake_ns(&engine->awake);
    const uint64_t told = engine->told;
    kolo_message_queue_drop(engine, &engine->returned);
    if (engine->resumed)
        resume_placing(engine);
    const bool waits = wait_ns > 0 && engine->told == told;
    const int rc =
        look(engine, waits ? engine->now_ns + kolo_minimum_ns(wait_ns, INT64_MAX - engine->now_ns) : engine->now_ns);
    return rc < 0 ? kolo_fail_system(-rc, "cannot wait for the network") : 0;
}

void kolo_engine_resume(kolo_engine *engine) {
    engine->resumed = true;
}

const struct kolo_engine_counts *kolo_engine_counts(const kolo_engine *engine) {
    return &engine->counts;
}

const char *kolo_engine_name(const kolo_engine *engine) {
    return engine->backend->name;
}

/* Destruction. */

static void shut_idle_streams(struct kolo_engine *engine) {
    for (uint32_t i = 0; i < engine->streams_count; i++) {
        struct kolo_stream *stream = engine->streams[i];
        const bool queued = stream->control && stream->neighbour->control.first && !stream->neighbour->mute;
        if (stream->fd >= 0 && !stream->message && !queued && !stream->shut) {
            stream->shut = true;
            KOLO_POINT("engine.shutting");
            shutdown(stream->fd, SHUT_WR);
        }
    }
}

static bool all_ended(const struct kolo_engine *engine) {
    for (uint32_t i = 0; i < engine->streams_count; i++)
        if (engine->streams[i]->fd >= 0)
            return false;
    return true;
}

/* Sends the queued control frames, tells the others that nothing more comes, and waits until they have said so. A side
 * that closes a socket before it has read everything resets the connection, and what was just sent may be lost. */
static void linger(struct kolo_engine *engine, int64_t until_ns) {
    while (!all_ended(engine) && engine->now_ns < until_ns) {
        shut_idle_streams(engine);
        KOLO_POINT("engine.lingering");
        if (engine->backend->wait(engine, kolo_awake_slice(&engine->awake, until_ns - engine->now_ns)) < 0)
            break;
        engine->backend->reap(engine);
        engine->now_ns = kolo_awake_ns(&engine->awake);
    }
}

static void abort_all(struct kolo_engine *engine) {
    const int64_t until_ns = kolo_clock_ns() + REAP_NS;
    KOLO_POINT("engine.aborting");
    for (uint32_t i = 0; i < engine->options.nodes; i++)
        give_up(&engine->neighbours[i], ECONNABORTED);
    while ((!all_ended(engine) || engine->in_flight > 0) && kolo_clock_ns() < until_ns)
        if (engine->backend->wait(engine, until_ns - kolo_clock_ns()) == 0)
            engine->backend->reap(engine);
}

/* Closes what is open yet. Operations that end later find streams that have ended. */
static void close_all(struct kolo_engine *engine) {
    for (uint32_t i = 0; i < engine->streams_count; i++) {
        struct kolo_stream *stream = engine->streams[i];
        if (stream->fd >= 0)
            close(stream->fd);
        stream->fd = -1;
        stream->input = KOLO_INPUT_ENDED;
    }
}

void kolo_engine_forget(kolo_engine *engine) {
    close_all(engine);
    engine->backend->forget(engine);
    free_engine(engine);
}

void kolo_engine_destroy(kolo_engine *engine, int64_t linger_ns) {
    engine->closing = true;
    engine->now_ns = kolo_awake_ns(&engine->awake);
    for (uint32_t i = 0; i < engine->options.nodes; i++)
        kolo_message_queue_drop(engine, &engine->neighbours[i].data);
    if (linger_ns > 0) {
        for (uint32_t i = 0; i < engine->streams_count; i++)
            kolo_input_start(engine->streams[i]);
        linger(engine, engine->now_ns + linger_ns);
    }
    abort_all(engine);
    close_all(engine);
    engine->backend->close(engine);
    if (engine->in_flight > 0)
        close(engine->wake_fd); /* and the memory stays, into which the kernel may still write */
    else
        free_engine(engine);
}
