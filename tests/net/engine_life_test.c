/* Making, waking, waiting for and destroying engines, and what is left for the kernel to reach afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine_fixture.h"
#include "kolo.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

enum { CONTROL, DATA, STREAMS = 2 };

static struct side side;
static int raw[1 + STREAMS];

static void open_side(kolo_net_engine kind) {
    side_open_raw(&side, kind, STREAMS, 100 * SECOND, raw);
}

static void close_raw(void) {
    for (int i = 0; i <= STREAMS; i++)
        close(raw[i]);
}

static void close_side(void) {
    side_close(&side, 0);
    close_raw();
}

/* Waiting. */

static void waits(kolo_net_engine kind) {
    open_side(kind);
    side_run_idle(&side);
    const int64_t begin_ns = fixture_now_ns();
    assert_int_equal(kolo_engine_run(side.engine, 100 * MS), 0);
    assert_true(fixture_now_ns() - begin_ns >= 99 * MS);
    const struct kolo_engine_counts before = *kolo_engine_counts(side.engine);
    const int64_t middle_ns = fixture_now_ns();
    for (int i = 0; i < 1000; i++)
        assert_int_equal(kolo_engine_run(side.engine, 0), 0);
    assert_true(fixture_now_ns() - middle_ns < 5 * SECOND);
    const uint64_t calls = kolo_engine_counts(side.engine)->system_calls - before.system_calls;
    assert_true(kind == KOLO_NET_ENGINE_URING ? calls == 0 : calls <= 1000);
    close_side();
}

static void test_waits(void **state) {
    (void)state;
    fixture_with_each(&side, waits);
}

struct waker {
    kolo_engine *engine;
    _Atomic unsigned wanted, made;
};

static void *wake_once(void *argument) {
    struct waker *waker = argument;
    usleep(50000);
    kolo_engine_wake(waker->engine);
    return NULL;
}

static void wake_ends_wait(kolo_net_engine kind) {
    pthread_t thread;
    open_side(kind);
    struct waker waker = {.engine = side.engine};
    assert_int_equal(pthread_create(&thread, NULL, wake_once, &waker), 0);
    const int64_t begin_ns = fixture_now_ns();
    assert_int_equal(kolo_engine_run(side.engine, 20 * SECOND), 0);
    pthread_join(thread, NULL);
    assert_true(fixture_now_ns() - begin_ns < 10 * SECOND);
    kolo_engine_wake(side.engine); /* ends the next one */
    assert_int_equal(kolo_engine_run(side.engine, 20 * SECOND), 0);
    assert_true(fixture_now_ns() - begin_ns < 10 * SECOND);
    close_side();
}

static void test_wake(void **state) {
    (void)state;
    fixture_with_each(&side, wake_ends_wait);
}

/* A thread asks for one thing after another and waits, spinning, until each is made; the engine's thread waits in the
 * engine for the next. Each wake-up that is lost costs a second. */
enum { THINGS = 3000 };

static void *want(void *argument) {
    struct waker *waker = argument;
    for (unsigned i = 1; i <= THINGS; i++) {
        atomic_store_explicit(&waker->wanted, i, memory_order_release);
        kolo_engine_wake(waker->engine);
        while (atomic_load_explicit(&waker->made, memory_order_acquire) < i)
            sched_yield();
    }
    return NULL;
}

static void no_wake_is_lost(kolo_net_engine kind) {
    pthread_t thread;
    open_side(kind);
    struct waker waker = {.engine = side.engine};
    const int64_t begin_ns = fixture_now_ns();
    assert_int_equal(pthread_create(&thread, NULL, want, &waker), 0);
    unsigned made = 0, slow = 0;
    while (made < THINGS) {
        const unsigned wanted = atomic_load_explicit(&waker.wanted, memory_order_acquire);
        if (wanted > made) {
            made = wanted;
            atomic_store_explicit(&waker.made, made, memory_order_release);
            continue;
        }
        const int64_t wait_ns = fixture_now_ns();
        assert_int_equal(kolo_engine_run(side.engine, SECOND), 0);
        slow += fixture_now_ns() - wait_ns >= SECOND;
    }
    pthread_join(thread, NULL);
    assert_true(slow < 3 && fixture_now_ns() - begin_ns < 60 * SECOND); /* a busy machine is slow, too */
    close_side();
}

static void test_no_wake_is_lost(void **state) {
    (void)state;
    fixture_with_each(&side, no_wake_is_lost);
}

static void *own_the_engine(void *argument) {
    (void)argument;
    side_run_until(&side, &side.arrived, 1);
    side_close(&side, 0);
    return NULL;
}

/* Made and filled here, run and destroyed by another thread. */
static void handed_over(kolo_net_engine kind) {
    static const struct kolo_frame frame = {.kind = KOLO_FRAME_FAILURE};
    pthread_t thread;
    open_side(kind);
    assert_true(raw_put(raw[CONTROL], &frame, NULL));
    assert_int_equal(pthread_create(&thread, NULL, own_the_engine, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(side.arrived, 1);
    close_raw();
}

static void test_handed_over(void **state) {
    (void)state;
    fixture_with_each(&side, handed_over);
}

/* Two engines, each run of which is made by a thread that ends at once, often amid messages: all arrives. */

static struct side peer;

static void *run_once(void *argument) {
    struct side *const sides[] = {&side, &peer};
    int *rc = argument;
    for (int i = 0; i < 2 && *rc == 0; i++)
        *rc = kolo_engine_run(sides[i]->engine, MS);
    return NULL;
}

static void run_by_threads(const unsigned *word, unsigned value) {
    const int64_t until_ns = fixture_now_ns() + 20 * SECOND;
    while (*word < value && side.ended[0] + peer.ended[0] == 0 && fixture_now_ns() < until_ns) {
        pthread_t thread;
        int rc = 0;
        assert_int_equal(pthread_create(&thread, NULL, run_once, &rc), 0);
        pthread_join(thread, NULL);
        assert_int_equal(rc, 0);
    }
}

static void threads_end(kolo_net_engine kind, int zero_copy) {
    enum { MESSAGES = 6, BUFFER_BYTES = 1 << 16 };
    static const uint32_t bytes[MESSAGES] = {8, 5 << 20, 100, 70000, 3 << 20, 8};
    const struct kolo_engine_options options = {
        .kind = kind, .nodes = 1, .streams_max = STREAMS, .silence_ns = 100 * SECOND, .zero_copy = zero_copy};
    assert_int_equal(side_open(&side, 0, &options), 0);
    assert_int_equal(side_open(&peer, 1, &options), 0);
    for (int i = 0; i <= STREAMS; i++) {
        int fds[2];
        fixture_sockets(SOCKETS_TCP, BUFFER_BYTES, fds);
        assert_int_equal(kolo_engine_add(side.engine, 0, fds[0]), 0);
        assert_int_equal(kolo_engine_add(peer.engine, 0, fds[1]), 0);
    }
    for (unsigned i = 0; i < MESSAGES; i++) {
        const struct kolo_frame frame = {.kind = KOLO_FRAME_DATA, .ticket = i, .bytes = bytes[i]};
        uint8_t *payload = fixture_payload(0, 1, i, bytes[i]);
        side_expect(&peer, 0, i, bytes[i]);
        assert_int_equal(kolo_engine_send(side.engine, 0, &frame, payload), 0);
        run_by_threads(&side.sent, i + 1);
        free(payload);
        assert_int_equal(side.sent, i + 1);
        for (int tries = 0; tries < 2000 && !side_has(&peer, 0, i); tries++)
            run_by_threads(&peer.arrived, peer.arrived + 1);
        assert_true(side_has(&peer, 0, i));
    }
    assert_int_equal(side.ended[0] + peer.ended[0], 0);
    side_close(&peer, 0);
    side_close(&side, 0);
}

static void copying_threads_end(kolo_net_engine kind) {
    threads_end(kind, 0);
    threads_end(kind, 1);
}

static void test_threads_end(void **state) {
    (void)state;
    fixture_with_each(&side, copying_threads_end);
}

static void never_run(kolo_net_engine kind) {
    open_side(kind);
    close_side();
    const struct kolo_engine_options options = {.kind = kind, .nodes = 2, .streams_max = 4, .silence_ns = SECOND};
    assert_int_equal(side_open(&side, 0, &options), 0);
    side_close(&side, SECOND);
}

static void test_never_run(void **state) {
    (void)state;
    fixture_with_each(&side, never_run);
}

/* Heartbeats. */

static void idle_engines(kolo_net_engine kind) {
    static struct side other;
    const struct kolo_engine_options options = {.kind = kind, .nodes = 1, .streams_max = 1, .silence_ns = 2 * SECOND};
    assert_int_equal(side_open(&side, 0, &options), 0);
    assert_int_equal(side_open(&other, 0, &options), 0);
    for (int i = 0; i < 2; i++) {
        int fds[2];
        fixture_sockets(SOCKETS_TCP, 0, fds);
        assert_int_equal(kolo_engine_add(side.engine, 0, fds[0]), 0);
        assert_int_equal(kolo_engine_add(other.engine, 0, fds[1]), 0);
    }
    kolo_engine_watch(side.engine);
    kolo_engine_watch(other.engine);
    const int64_t begin_ns = fixture_now_ns();
    while (fixture_now_ns() - begin_ns < 3 * SECOND) {
        assert_int_equal(kolo_engine_run(side.engine, 10 * MS), 0);
        assert_int_equal(kolo_engine_run(other.engine, 10 * MS), 0);
    }
    assert_true(side.ended[0] == 0 && other.ended[0] == 0);
    assert_in_range(kolo_engine_counts(side.engine)->sent_bytes, 3 * KOLO_FRAME_HEADER_BYTES,
                    10 * KOLO_FRAME_HEADER_BYTES);
    side_close(&side, 0);
    assert_true(side_run_until(&other, &other.ended[0], 1));
    assert_int_equal(other.error[0], 0);
    side_close(&other, 0);
}

static void test_idle_engines(void **state) {
    (void)state;
    fixture_with_each(&side, idle_engines);
}

/* Paths. */

enum { BUSY, IDLE, LATE, OTHERS };

/* Of that socket the kernel takes no more packets. */
static void cut(int fd) {
    struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog program = {.len = 1, .filter = &none};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

static void link_sides(struct side *other, uint32_t node) {
    static const int at_once = 1;
    int fds[2];
    for (int stream = 0; stream < 2; stream++) {
        fixture_sockets(SOCKETS_TCP, 0, fds);
        assert_int_equal(kolo_engine_add(side.engine, node, fds[0]), 0);
        assert_int_equal(kolo_engine_add(other->engine, 0, fds[1]), 0);
    }
    setsockopt(fds[0], IPPROTO_TCP, TCP_KEEPIDLE, &at_once, sizeof at_once);
    for (int i = 0; i < 2 && node != LATE; i++)
        cut(fds[i]);
}

static void run_sides(struct side *others, int64_t for_ns) {
    const int64_t until_ns = fixture_now_ns() + for_ns;
    while (fixture_now_ns() < until_ns) {
        assert_int_equal(kolo_engine_run(side.engine, 5 * MS), 0);
        for (int i = 0; i < OTHERS; i++)
            assert_int_equal(kolo_engine_run(others[i].engine, 5 * MS), 0);
    }
}

/* The data stream alone of two neighbours has no path, while one sends by it, or nobody does. A third one takes no data
 * for so long that the kernel's probes are further apart than silence may be. */
static void paths_end(kolo_net_engine kind) {
    enum { BYTES = 8 << 20 };
    static struct side others[OTHERS];
    const struct kolo_engine_options options = {
        .kind = kind, .nodes = OTHERS, .streams_max = 1, .silence_ns = 600 * MS};
    struct kolo_engine_options of_others = options;
    const struct kolo_frame frame = {.kind = KOLO_FRAME_DATA, .bytes = BYTES};
    uint8_t *payload = fixture_payload(0, LATE, 0, BYTES);
    of_others.nodes = 1;
    assert_int_equal(side_open(&side, 0, &options), 0);
    for (uint32_t i = 0; i < OTHERS; i++) {
        assert_int_equal(side_open(&others[i], i, &of_others), 0);
        link_sides(&others[i], i);
        kolo_engine_watch(others[i].engine);
    }
    kolo_engine_watch(side.engine);
    others[LATE].closed = true;
    side_expect(&others[LATE], 0, 0, BYTES);
    assert_int_equal(kolo_engine_send(side.engine, BUSY, &frame, payload), 0);
    assert_int_equal(kolo_engine_send(side.engine, LATE, &frame, payload), 0);
    run_sides(others, 500 * MS);
    for (int i = 0; i < OTHERS; i++)
        assert_int_equal(side.ended[i], 0);
    for (int tries = 0; tries < 200 && (tries < 40 || !side.ended[BUSY] || !side.ended[IDLE]); tries++)
        run_sides(others, 100 * MS);
    for (int i = 0; i < LATE; i++) {
        assert_int_equal(side.ended[i], 1);
        assert_int_equal(side.error[i], ETIMEDOUT);
    }
    assert_int_equal(side.ended[LATE] + others[LATE].ended[0], 0);
    others[LATE].closed = false;
    kolo_engine_resume(others[LATE].engine);
    for (int tries = 0; tries < 100 && !side_has(&others[LATE], 0, 0); tries++)
        run_sides(others, 100 * MS);
    assert_true(side_has(&others[LATE], 0, 0));
    for (int i = 0; i < OTHERS; i++)
        side_close(&others[i], 0);
    side_close(&side, 0);
    free(payload);
}

static void test_paths_end(void **state) {
    (void)state;
    fixture_with_each(&side, paths_end);
}

/* Destruction. */

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0 || errno != EBADF;
}

/* Sends that nobody takes, and a payload that comes in part: after the end nothing is read or written any more. */
static void destroy_in_flight(kolo_net_engine kind) {
    enum { BYTES = 16 << 20, PART = 100000 };
    const struct kolo_frame frame = {.kind = KOLO_FRAME_DATA, .bytes = BYTES};
    open_side(kind);
    side_expect(&side, 0, 0, BYTES);
    uint8_t *memory = side.inbox[0][0].bytes, *payload = fixture_payload(0, 1, 0, BYTES),
            header[KOLO_FRAME_HEADER_BYTES];
    for (int i = 0; i < 4; i++)
        assert_int_equal(kolo_engine_send(side.engine, 0, &frame, payload), 0);
    kolo_frame_pack(&frame, header);
    assert_int_equal(send(raw[DATA], header, sizeof header, 0), sizeof header);
    assert_int_equal(send(raw[DATA], payload, PART, 0), PART);
    assert_true(side_run_until(&side, &side.placed, 1));
    side_run_idle(&side);
    assert_true(side.sent < 4);    /* more than the kernel's buffers hold */
    side.inbox[0][0].bytes = NULL; /* it is looked at afterwards */
    const int64_t begin_ns = fixture_now_ns();
    side_close(&side, 0);
    assert_true(fixture_now_ns() - begin_ns < 5 * SECOND);
    memset(memory, 0x5a, BYTES);
    if (send(raw[DATA], payload, PART, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        assert_true(errno == EPIPE || errno == ECONNRESET);
    usleep(20000);
    for (size_t i = 0; i < BYTES; i++)
        if (memory[i] != 0x5a)
            fail_msg("byte %zu was written to after kolo_engine_destroy", i);
    free(memory);
    free(payload);
    close_raw();
}

static void test_destroy_in_flight(void **state) {
    (void)state;
    fixture_with_each(&side, destroy_in_flight);
}

/* Operations that end late, as the kernel ends them in the thread that has submitted them, and that one is in the
 * kernel until the first socket is closed. No descriptor is closed twice: the second time it may be another thread's
 * file. */

static int closed[2]; /* a pipe that tells of the next close, if `tells_close` */
static bool tells_close;
static unsigned closed_twice;

/* In place of the C library's, which the library calls. */
int close(int fd) {
    const int rc = (int)syscall(SYS_close, fd);
    if (rc < 0 && errno == EBADF)
        closed_twice++;
    if (rc == 0 && tells_close && write(closed[1], &rc, 1) < 0)
        abort();
    tells_close = false;
    return rc;
}

static void *run_and_fork(void *argument) {
    sem_t *ready = argument;
    side_run_idle(&side);
    sem_post(ready);
    char byte;
    const long child = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0L, 0L, 0L, 0L); /* returns when the child ends */
    if (child == 0)
        _exit(read(closed[0], &byte, 1) == 1 ? 0 : 1);
    waitpid((pid_t)child, NULL, 0);
    return NULL;
}

static void test_late_operations(void **state) {
    kolo_net_engine kinds[2];
    pthread_t thread;
    sem_t ready;
    (void)state;
    if (fixture_kinds(kinds) < 2)
        skip();
    open_side(KOLO_NET_ENGINE_URING);
    assert_int_equal(pipe2(closed, O_CLOEXEC), 0);
    assert_int_equal(sem_init(&ready, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_and_fork, &ready), 0);
    sem_wait(&ready);
    usleep(20000);
    tells_close = true;
    closed_twice = 0;
    side_close(&side, 0);
    pthread_join(thread, NULL);
    close_raw();
    close(closed[0]);
    close(closed[1]);
    assert_int_equal(closed_twice, 0);
}

static int option_of(int fd, int level, int name) {
    int value = -1;
    socklen_t bytes = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &bytes), 0);
    return value;
}

/* The kernel must not take a stream that the flow control holds back for a dead one, nor an idle one too early. */
static void expect_limits_lifted(int fd, int silence_s) {
    assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    assert_int_equal(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_in_range(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 1, 60); /* firewalls forget within minutes */
    assert_true(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL) * option_of(fd, IPPROTO_TCP, TCP_KEEPCNT) > silence_s);
}

static void closes_sockets(kolo_net_engine kind) {
    int pairs[2][2];
    const struct kolo_engine_options options = {.kind = kind, .nodes = 1, .streams_max = 1, .silence_ns = 100 * SECOND};
    assert_int_equal(side_open(&side, 1, &options), 0);
    for (int i = 0; i < 2; i++) {
        fixture_sockets(SOCKETS_TCP, 0, pairs[i]);
        assert_int_equal(kolo_engine_add(side.engine, 0, pairs[i][1]), 0);
        expect_limits_lifted(pairs[i][1], 100);
    }
    int extra[2];
    fixture_sockets(SOCKETS_TCP, 0, extra);
    assert_int_equal(kolo_engine_add(side.engine, 0, extra[1]), KOLO_ERR_SYSTEM); /* more than streams_max */
    assert_true(!is_open(extra[1]));
    side_run_idle(&side);
    side_close(&side, 0);
    for (int i = 0; i < 2; i++) {
        uint8_t byte;
        assert_true(!is_open(pairs[i][1]));
        assert_int_equal(recv(pairs[i][0], &byte, 1, 0), 0);
        close(pairs[i][0]);
    }
    close(extra[0]);
}

static void test_closes_sockets(void **state) {
    (void)state;
    fixture_with_each(&side, closes_sockets);
}

/* Control that is queued still goes, though much that was sent to this side has not been read. */
static void lingers(kolo_net_engine kind) {
    enum { FRAMES = 20 };
    const struct kolo_frame failure = {.kind = KOLO_FRAME_FAILURE, .bytes = KOLO_CONTROL_BYTES_MAX},
                            data = {.kind = KOLO_FRAME_DATA, .bytes = 100000};
    uint8_t *payload = fixture_payload(0, 1, 0, data.bytes), got[KOLO_FRAME_HEADER_BYTES + KOLO_CONTROL_BYTES_MAX];
    open_side(kind);
    side.closed = true;
    assert_true(raw_put(raw[DATA], &data, payload));
    side_run_idle(&side);
    for (int i = 0; i < FRAMES; i++)
        assert_int_equal(kolo_engine_tell(side.engine, 0, &failure, payload), 0);
    const int64_t begin_ns = fixture_now_ns();
    side_close(&side, 200 * MS); /* the other side does not close */
    const int64_t took_ns = fixture_now_ns() - begin_ns;
    assert_true(took_ns >= 190 * MS && took_ns < 10 * SECOND);
    for (int i = 0; i < FRAMES; i++) {
        assert_int_equal(recv(raw[CONTROL], got, sizeof got, MSG_WAITALL), sizeof got);
        assert_memory_equal(got + KOLO_FRAME_HEADER_BYTES, payload, KOLO_CONTROL_BYTES_MAX);
    }
    assert_int_equal(recv(raw[CONTROL], got, sizeof got, 0), 0);
    assert_int_equal(recv(raw[DATA], got, sizeof got, 0), 0);
    free(payload);
    close_raw();
}

static void test_lingers(void **state) {
    (void)state;
    fixture_with_each(&side, lingers);
}

static void send_to_ended(kolo_net_engine kind) {
    const struct kolo_frame frame = {.kind = KOLO_FRAME_DATA, .bytes = 8 << 20}, control = {.kind = KOLO_FRAME_FAILURE};
    uint8_t *payload = fixture_payload(1, 0, 0, frame.bytes);
    open_side(kind);
    for (int i = 0; i < 5; i++)
        assert_int_equal(kolo_engine_send(side.engine, 0, &frame, payload), 0);
    side_run_idle(&side);
    assert_true(side.sent < 5); /* more than the kernel's buffers hold */
    close_raw();
    assert_true(side_run_until(&side, &side.ended[0], 1));
    assert_true(side_run_until(&side, &side.sent, 5)); /* all memory comes back */
    assert_true(side.error[0] == ECONNRESET || side.error[0] == EPIPE);
    assert_int_equal(kolo_engine_send(side.engine, 0, &frame, payload), 0);
    assert_int_equal(kolo_engine_tell(side.engine, 0, &control, NULL), 0);
    assert_int_equal(side.sent, 5); /* callbacks come from kolo_engine_run */
    assert_true(side_run_until(&side, &side.sent, 6));
    assert_int_equal(side.ended[0], 1);
    free(payload);
    side_close(&side, SECOND);
}

static void test_send_to_ended(void **state) {
    (void)state;
    fixture_with_each(&side, send_to_ended);
}

/* Where io_uring is refused. */

static bool refuse_io_uring(int error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum { CHILD_GOOD, CHILD_NO_SECCOMP, CHILD_AUTO, CHILD_NAME, CHILD_URING, CHILD_MESSAGE, CHILD_POLL };

static int create_without_io_uring(int error) {
    struct kolo_engine_options options = {.nodes = 2, .streams_max = 4, .silence_ns = SECOND};
    const int probed = kolo_engine_probe_uring(); /* it may be refused without this test, too */
    if (!refuse_io_uring(error))
        return CHILD_NO_SECCOMP;
    if (side_open(&side, 0, &options) != 0)
        return CHILD_AUTO;
    if (strcmp(kolo_engine_name(side.engine), "poll") != 0)
        return CHILD_NAME;
    side_close(&side, 0);
    options.kind = KOLO_NET_ENGINE_URING;
    if (side_open(&side, 0, &options) != KOLO_ERR_UNSUPPORTED || side.engine)
        return CHILD_URING;
    if (!strstr(kolo_error_message(), strerror(probed < 0 ? -probed : error)))
        return CHILD_MESSAGE;
    options.kind = KOLO_NET_ENGINE_POLL;
    if (side_open(&side, 0, &options) != 0)
        return CHILD_POLL;
    side_close(&side, 0);
    return CHILD_GOOD;
}

static void test_io_uring_refused(void **state) {
    static const int errors[] = {EPERM, ENOSYS};
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        int status;
        const pid_t child = fork();
        if (child == 0)
            _exit(create_without_io_uring(errors[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == CHILD_NO_SECCOMP)
            skip();
        assert_int_equal(WEXITSTATUS(status), CHILD_GOOD);
    }
}

static void test_names(void **state) {
    (void)state;
    kolo_net_engine kinds[2];
    const unsigned count = fixture_kinds(kinds);
    struct kolo_engine_options options = {.nodes = 1, .streams_max = 1, .silence_ns = SECOND};
    for (unsigned i = 0; i < count; i++) {
        options.kind = kinds[i];
        assert_int_equal(side_open(&side, 0, &options), 0);
        assert_string_equal(kolo_engine_name(side.engine), kinds[i] == KOLO_NET_ENGINE_POLL ? "poll" : "uring");
        side_close(&side, 0);
    }
    options.kind = KOLO_NET_ENGINE_AUTO;
    assert_int_equal(side_open(&side, 0, &options), 0);
    assert_string_equal(kolo_engine_name(side.engine), count == 2 ? "uring" : "poll");
    side_close(&side, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_wake),
        cmocka_unit_test(test_no_wake_is_lost),
        cmocka_unit_test(test_handed_over),
        cmocka_unit_test(test_threads_end),
        cmocka_unit_test(test_never_run),
        cmocka_unit_test(test_idle_engines),
        cmocka_unit_test(test_paths_end),
        cmocka_unit_test(test_destroy_in_flight),
        cmocka_unit_test(test_late_operations),
        cmocka_unit_test(test_closes_sockets),
        cmocka_unit_test(test_lingers),
        cmocka_unit_test(test_send_to_ended),
        cmocka_unit_test(test_io_uring_refused),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
