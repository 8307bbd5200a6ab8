/* Listeners and those who may, or may not, come in: what comes out on both sides, and what is said of what went wrong.
 */
#include "listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/wire.h"

static void assert_socket(int fd) {
    static const struct {
        int level, name, least;
    } set[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
               {IPPROTO_TCP, TCP_USER_TIMEOUT, KOLO_SOCKET_SILENCE_MS},
               {SOL_SOCKET, SO_KEEPALIVE, 1}};
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        int value = 0;
        socklen_t bytes = sizeof value;
        assert_int_equal(getsockopt(fd, set[i].level, set[i].name, &value, &bytes), 0);
        assert_true(value >= set[i].least);
    }
}

static void come_in(int family, const struct kolo_secret *secret) {
    struct kolo_address bound;
    struct kolo_listener *listener = open_listener(family, secret, &bound);
    struct client client = make_client(&bound, secret, 3);
    client.self = (struct kolo_introduction){.role = KOLO_ROLE_LINK,
                                             .rank = 3,
                                             .size = 7,
                                             .node = 2,
                                             .stream = 5,
                                             .session = "fifteen letters",
                                             .job = "a.job-1"};
    start_client(&client);
    struct kolo_introduction who;
    int fd = -1;
    assert_int_equal(kolo_listener_accept(listener, 10 * S, &fd, &who), 0);
    pthread_join(client.thread, NULL);
    if (client.rc < 0)
        fail_msg("%s", client.message);
    assert_memory_equal(&who, &client.self, sizeof who);
    assert_socket(fd);
    assert_socket(client.fd);
    /* Nothing of the dialogue is left in either direction. */
    char byte = 'k';
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(recv(client.fd, &byte, 1, 0), -1);
    send_by_hand(fd, "d", 1);
    assert_true(receive_by_hand(client.fd, &byte, 1));
    assert_int_equal(byte, 'd');
    const char *reason;
    assert_int_equal(kolo_listener_refused(listener, &reason), 0);
    assert_string_equal(reason, "");
    close(fd);
    close(client.fd);
    kolo_listener_close(listener);
}

static void test_ipv4(void **state) {
    const struct kolo_secret secret = usual_secret();
    (void)state;
    come_in(AF_INET, &secret);
}

static void test_ipv6(void **state) {
    const struct kolo_secret secret = usual_secret();
    (void)state;
    if (!has_ipv6()) {
        print_message("this machine has no IPv6\n");
        skip();
    }
    come_in(AF_INET6, &secret);
}

static void test_without_secret(void **state) {
    const struct kolo_secret none = secret_of(NULL);
    (void)state;
    come_in(AF_INET, &none);
}

static void test_from(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    struct kolo_introduction who;
    struct kolo_listener *listener = open_listener(AF_INET, &secret, &bound);
    struct client client = make_client(&bound, &secret, 1);
    (void)state;
    assert_int_equal(kolo_address_parse("from", "127.0.0.77:9", &client.from), 0);
    start_client(&client);
    int fd = -1;
    assert_int_equal(kolo_listener_accept(listener, 10 * S, &fd, &who), 0);
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    assert_int_equal(getpeername(fd, (struct sockaddr *)&peer, &bytes), 0);
    assert_int_equal(ntohl(peer.sin_addr.s_addr), 0x7f00004d);
    assert_int_not_equal(ntohs(peer.sin_port), 9);
    await_client(&client);
    close(fd);
    kolo_listener_close(listener);
}

static void test_from_elsewhere(void **state) {
    const struct kolo_secret secret = usual_secret();
    const struct kolo_address to = loopback(AF_INET, 9);
    struct kolo_address from;
    const struct kolo_connecting wanted = {.to = &to,
                                           .from = &from,
                                           .secret = &secret,
                                           .self = introduce(1),
                                           .awake = fresh_awake(),
                                           .deadline_ns = kolo_clock_ns() + 10 * S,
                                           .alert_fd = -1};
    int fd = -1;
    (void)state;
    assert_int_equal(kolo_address_parse("from", "192.0.2.1:9", &from), 0);
    assert_int_equal(kolo_connect(&wanted, &fd), KOLO_ERR_SYSTEM);
    assert_words(kolo_error_message(), "192.0.2.1:0");
    assert_int_equal(kolo_address_parse("from", "[::1]:9", &from), 0);
    assert_int_equal(kolo_connect(&wanted, &fd), KOLO_ERR_ARG);
    assert_words(kolo_error_message(), "127.0.0.1:9 cannot be reached from [::1]:9");
    assert_int_equal(fd, -1);
}

/* Answers until somebody was refused, whenever that one comes. */
static void await_refusal(struct kolo_listener *listener) {
    const char *reason;
    for (int i = 0; i < 100 && kolo_listener_refused(listener, &reason) == 0; i++)
        assert_int_equal(answer_rank(listener, 100 * MS), -1);
}

/* One client is turned down: what it returns and says, and what the listener says. */
static void turn_down(const struct kolo_secret *inside, const struct kolo_secret *outside, const char *words,
                      const char *reason_words) {
    struct kolo_address bound;
    struct kolo_listener *listener = open_listener(AF_INET, inside, &bound);
    struct client client = make_client(&bound, outside, 1);
    const char *reason;
    start_client(&client);
    await_refusal(listener);
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_SYSTEM);
    assert_words(client.message, "127.0.0.1:");
    assert_words(client.message, words);
    assert_int_equal(kolo_listener_refused(listener, &reason), 1);
    assert_words(reason, "127.0.0.1:");
    assert_words(reason, reason_words);
    assert_true(client.took_ns < 5 * S);
    kolo_listener_close(listener);
}

static void test_wrong_secret(void **state) {
    const struct kolo_secret inside = secret_of("what only ranks of the job know");
    const struct kolo_secret outside = secret_of("what others guess it might be");
    (void)state;
    turn_down(&inside, &outside, "has another secret: KOLO_SECRET_FILE", "wrong secret");
}

static void test_derived_secret(void **state) {
    const struct kolo_secret inside = usual_secret();
    struct kolo_secret outside;
    (void)state;
    kolo_secret_derive(&inside, "session", 7, &outside);
    turn_down(&inside, &outside, "has another secret", "wrong secret");
}

static void test_secret_on_one_side(void **state) {
    const struct kolo_secret some = usual_secret(), none = secret_of(NULL);
    (void)state;
    turn_down(&some, &none, "wants a secret", "has no secret");
    turn_down(&none, &some, "has no secret", "wants a secret");
}

/* A listener of another version says so; the client names both. */
static void test_version_of_listener(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    struct client client = make_client(&bound, &secret, 1);
    uint8_t bytes[KOLO_HANDSHAKE_BYTES];
    (void)state;
    start_client(&client);
    const int fd = accept_by_hand(listener);
    assert_true(receive_by_hand(fd, bytes, sizeof bytes));
    struct kolo_handshake handshake;
    assert_int_equal(kolo_handshake_parse(bytes, KOLO_HELLO, &handshake), 0);
    handshake.version = 9 << 16 | 8 << 8 | 7;
    handshake.layout = 65;
    kolo_handshake_pack(&handshake, KOLO_WELCOME, bytes);
    send_by_hand(fd, bytes, sizeof bytes);
    uint8_t introduction[KOLO_INTRODUCTION_BYTES];
    assert_true(receive_by_hand(fd, introduction, sizeof introduction)); /* so that those behind it know, too */
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_VERSION);
    char own[KOLO_RELEASE_TEXT_BYTES];
    assert_words(client.message, "kolo 9.8.7 (wire layout 65)");
    assert_words(client.message, kolo_handshake_release(KOLO_VERSION_WORD, KOLO_WIRE_LAYOUT, own));
    close(fd);
    close(listener);
}

/* To a client of another version a listener says its own. It is turned away where it does not prove who it is. */
static void test_version_of_client(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    struct kolo_listener *listener = open_listener(AF_INET, &secret, &bound);
    struct kolo_handshake handshake = {.version = KOLO_VERSION_WORD + 1, .layout = KOLO_WIRE_LAYOUT, .secret = true};
    uint8_t bytes[KOLO_HANDSHAKE_BYTES];
    char text[KOLO_RELEASE_TEXT_BYTES];
    (void)state;
    for (int i = 0; i < 2; i++) {
        const int fd = connect_by_hand(&bound);
        kolo_handshake_pack(&handshake, KOLO_HELLO, bytes);
        memset(bytes + 16, 0xee, sizeof bytes - 16); /* whatever else another version says there */
        send_by_hand(fd, bytes, sizeof bytes);
        assert_int_equal(answer_rank(listener, 200 * MS), -1);
        assert_true(receive_by_hand(fd, bytes, sizeof bytes));
        struct kolo_handshake welcome;
        assert_int_equal(kolo_handshake_parse(bytes, KOLO_WELCOME, &welcome), 0);
        uint8_t nonsense[KOLO_INTRODUCTION_BYTES];
        memset(nonsense, 0xee, sizeof nonsense);
        send_by_hand(fd, nonsense, i == 0 ? sizeof nonsense : 1); /* the first one says too much, the second one goes */
        shutdown(fd, SHUT_WR);
        assert_int_equal(answer_rank(listener, 200 * MS), -1);
        assert_true(is_hung_up(fd, 5 * S));
        const char *reason;
        assert_int_equal(kolo_listener_refused(listener, &reason), i + 1);
        assert_words(reason, kolo_handshake_release(handshake.version, handshake.layout, text));
        assert_words(reason, ", and here is ");
        assert_words(reason, kolo_handshake_release(KOLO_VERSION_WORD, KOLO_WIRE_LAYOUT, text));
        close(fd);
        handshake = (struct kolo_handshake){.version = KOLO_VERSION_WORD, .layout = KOLO_WIRE_LAYOUT + 1};
    }
    kolo_listener_close(listener);
}

/* One that does prove who it is, as clients do, is let in to be named. */
static void test_version_proved(void **state) {
    const struct kolo_secret secret = usual_secret();
    const struct kolo_introduction self = introduce(2);
    struct kolo_address bound;
    struct kolo_listener *listener = open_listener(AF_INET, &secret, &bound);
    struct kolo_handshake handshake = {.version = KOLO_VERSION_WORD + 1, .layout = 77, .secret = true};
    struct kolo_dialogue dialogue;
    struct kolo_introduction who;
    int admitted = -1;
    (void)state;
    const int fd = connect_by_hand(&bound);
    kolo_handshake_pack(&handshake, KOLO_HELLO, dialogue.hello);
    send_by_hand(fd, dialogue.hello, sizeof dialogue.hello);
    assert_int_equal(answer_rank(listener, 200 * MS), -1);
    assert_true(receive_by_hand(fd, dialogue.welcome, sizeof dialogue.welcome));
    kolo_introduction_pack(&self, dialogue.introduction);
    kolo_dialogue_prove(&dialogue, KOLO_PROOF_OF_CONNECTOR, &secret);
    send_by_hand(fd, dialogue.introduction, sizeof dialogue.introduction);
    assert_int_equal(kolo_listener_accept(listener, 10 * S, &admitted, &who), 0);
    assert_int_equal(who.rank, 2);
    assert_true(who.foreign);
    assert_int_equal(who.version, KOLO_VERSION_WORD + 1);
    assert_int_equal(who.layout, 77);
    close(admitted);
    close(fd);
    kolo_listener_close(listener);
}

static void test_nobody_comes(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    struct kolo_listener *listener = open_listener(AF_INET, &secret, &bound);
    const int64_t begin_ns = kolo_clock_ns();
    (void)state;
    assert_int_equal(answer_rank(listener, 150 * MS), -1);
    const int64_t took_ns = kolo_clock_ns() - begin_ns;
    assert_true(took_ns >= 150 * MS && took_ns < 20 * S);
    assert_int_equal(answer_rank(listener, -S), -1);
    kolo_listener_close(listener);
}

static void test_nobody_answers(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    kolo_listener_close(open_listener(AF_INET, &secret, &bound)); /* a port at which nobody listens */
    struct client client = make_client(&bound, &secret, 1);
    (void)state;
    client.deadline_ns = kolo_clock_ns() + S;
    start_client(&client);
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_TIMEOUT);
    assert_words(client.message, "connecting: Connection refused");
    assert_true(client.ended_ns >= client.deadline_ns && client.took_ns < 20 * S);
}

/* A listener whose process is stopped: the kernel still takes connections. */
static void test_silent_listener(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    struct client client = make_client(&bound, &secret, 1);
    (void)state;
    client.deadline_ns = kolo_clock_ns() + S;
    start_client(&client);
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_TIMEOUT);
    assert_words(client.message, "connected, but the other side does not answer");
    close(listener);
}

/* Whether nobody listens or nobody answers, a connect ends as soon as its alert comes. */
static void test_alert(void **state) {
    (void)state;
    const struct kolo_secret secret = usual_secret();
    for (int silent = 0; silent < 2; silent++) {
        struct kolo_address bound;
        const int listener = listen_by_hand(&bound);
        if (!silent)
            close(listener);
        int alert[2];
        assert_int_equal(pipe(alert), 0);
        struct client client = make_client(&bound, &secret, 1);
        client.alert_fd = alert[0];
        start_client(&client);
        kolo_clock_sleep(100 * MS);
        assert_int_equal(pthread_tryjoin_np(client.thread, NULL), EBUSY);
        close(alert[1]);
        await_client(&client);
        assert_int_equal(client.rc, 1);
        assert_true(client.took_ns < 5 * S);
        close(alert[0]);
        if (silent)
            close(listener);
    }
}

static void test_listener_opens_late(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound, again;
    kolo_listener_close(open_listener(AF_INET, &secret, &bound));
    struct client client = make_client(&bound, &secret, 2);
    struct kolo_listener *listener = NULL;
    (void)state;
    start_client(&client);
    kolo_clock_sleep(200 * MS);
    assert_int_equal(kolo_listener_open(&listener, &bound, &secret, &again), 0);
    assert_int_equal(answer_rank(listener, 10 * S), 2);
    await_client(&client);
    assert_int_equal(client.rc, 0);
    kolo_listener_close(listener);
}

/* A network of our own, with loopback alone, where connections are made from port 40000 or 40001. */
static bool enter_own_network(void) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    static const char range[] = "40000 40001";
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        return false;
    const int control = socket(AF_INET, SOCK_DGRAM, 0);
    const int file = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
    return control >= 0 && ioctl(control, SIOCSIFFLAGS, &lo) == 0 && file >= 0 &&
           write(file, range, sizeof range - 1) == sizeof range - 1;
}

/* Nobody listens at port 40000, so one that connects to it from there would be connected to itself. */
static int connect_to_own_port(void) {
    const struct kolo_secret secret = usual_secret();
    const struct kolo_address to = loopback(AF_INET, 40000);
    int fd = -1;
    if (!enter_own_network())
        return 77;
    const struct kolo_connecting wanted = {.to = &to,
                                           .secret = &secret,
                                           .self = introduce(1),
                                           .awake = fresh_awake(),
                                           .deadline_ns = kolo_clock_ns() + 3 * S / 2,
                                           .alert_fd = -1};
    const int rc = kolo_connect(&wanted, &fd);
    if (rc == KOLO_ERR_TIMEOUT && strstr(kolo_error_message(), "Connection refused"))
        return 0;
    fprintf(stderr, "%d: %s\n", rc, kolo_error_message());
    return 1;
}

/* A listener with a new secret: who knows the old one is turned down, and who waited is shown out. */
static void test_reopened(void **state) {
    const struct kolo_secret before = usual_secret(), after = secret_of("another secret than the usual one");
    struct kolo_address bound, again;
    struct kolo_introduction who;
    struct kolo_listener *listener = open_listener(AF_INET, &before, &bound);
    struct client late = make_client(&bound, &before, 1), client = make_client(&bound, &after, 2);
    int fd = -1;
    (void)state;
    assert_int_equal(kolo_listener_reopen(listener, &after, &again), 0);
    assert_memory_equal(&again.storage, &bound.storage, bound.bytes);
    start_client(&late);
    await_refusal(listener);
    await_client(&late);
    assert_int_equal(late.rc, KOLO_ERR_SYSTEM);
    start_client(&client);
    assert_int_equal(kolo_listener_accept(listener, 10 * S, &fd, &who), 0);
    assert_int_equal(who.rank, 2);
    await_client(&client);
    close(fd);
    kolo_listener_close(listener);
}

/* Where a listener was, and is closed: nobody waits there, also who has connected while it was open and not answered.
 */
static void test_closed_for_good(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    int fd = -1;
    (void)state;
    kolo_listener_close(open_listener(AF_INET, &secret, &bound));
    const int64_t begin_ns = kolo_clock_ns();
    const struct kolo_connecting wanted = {.to = &bound,
                                           .secret = &secret,
                                           .self = introduce(1),
                                           .awake = fresh_awake(),
                                           .deadline_ns = begin_ns + 10 * S,
                                           .is_open = true,
                                           .alert_fd = -1};
    assert_int_equal(kolo_connect(&wanted, &fd), KOLO_ERR_PEER_DEAD);
    assert_words(kolo_error_message(), "nobody listens");
    assert_true(kolo_clock_ns() - begin_ns < 5 * S);
    assert_int_equal(fd, -1);
}

static void test_own_port(void **state) {
    int status = -1;
    const pid_t child = fork();
    (void)state;
    assert_true(child >= 0);
    if (child == 0)
        _exit(connect_to_own_port());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("no network namespaces here\n");
        skip();
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* All ranks of a large job at once, twice as many as there are places. */
static void test_oversubscription(void **state) {
    enum { CLIENTS = 2 * KOLO_LISTENER_PENDING };
    static struct client clients[CLIENTS];
    static bool came[CLIENTS];
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    struct kolo_listener *listener = open_listener(AF_INET, &secret, &bound);
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = make_client(&bound, &secret, i);
        clients[i].self.size = CLIENTS;
        start_client(&clients[i]);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const int rank = answer_rank(listener, 10 * S);
        assert_in_range(rank, 0, CLIENTS - 1);
        assert_false(came[rank]);
        came[rank] = true;
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        await_client(&clients[i]);
        assert_int_equal(clients[i].rc, 0);
    }
    kolo_listener_close(listener);
}

static void test_busy_port(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound, other;
    struct kolo_listener *listener = open_listener(AF_INET, &secret, &bound), *second = NULL;
    struct client client = make_client(&bound, &secret, 1);
    char text[KOLO_ADDRESS_TEXT_BYTES];
    (void)state;
    assert_int_equal(kolo_listener_open(&second, &bound, &secret, &other), KOLO_ERR_SYSTEM);
    assert_null(second);
    assert_words(kolo_error_message(), kolo_address_text(&bound, text));
    assert_words(kolo_error_message(), "choose another port");
    /* At once again, though a connection of before is still being ended. */
    start_client(&client);
    assert_int_equal(answer_rank(listener, 10 * S), 1);
    kolo_listener_close(listener);
    await_client(&client);
    assert_int_equal(kolo_listener_open(&second, &bound, &secret, &other), 0);
    kolo_listener_close(second);
}

static void test_no_address_of_ours(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address address, bound;
    struct kolo_listener *listener = NULL;
    (void)state;
    assert_int_equal(kolo_address_parse("address", "192.0.2.1:29500", &address), 0);
    assert_int_equal(kolo_listener_open(&listener, &address, &secret, &bound), KOLO_ERR_SYSTEM);
    assert_words(kolo_error_message(), "192.0.2.1:29500, which is no address of this machine");
}

/* A listener at [::] takes no IPv4, and one at 127.0.0.1 nothing for 127.0.0.2. */
static void test_only_there(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address any = loopback(AF_INET6, 0), bound;
    struct kolo_listener *listener = NULL;
    struct sockaddr_in other = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    (void)state;
    for (int v6 = 0; v6 < 1 + has_ipv6(); v6++) {
        assert_int_equal(kolo_address_parse("any", v6 ? "[::]:1" : "127.0.0.1:1", &any), 0);
        kolo_address_set_port(&any, 0);
        assert_int_equal(kolo_listener_open(&listener, &any, &secret, &bound), 0);
        other.sin_port = htons(kolo_address_port(&bound));
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&other, sizeof other), -1);
        assert_int_equal(errno, ECONNREFUSED);
        close(fd);
        kolo_listener_close(listener);
    }
}

static void test_senseless_introduction(void **state) {
    const struct kolo_secret secret = usual_secret();
    const struct kolo_address to = loopback(AF_INET, 9);
    struct kolo_introduction wrong[6];
    int fd = -1;
    (void)state;
    for (size_t i = 0; i < 6; i++)
        wrong[i] = introduce(1);
    wrong[0].role = 0;
    wrong[1].role = KOLO_ROLE_SHRINK + 1;
    wrong[2].rank = wrong[2].size;
    wrong[3].size = KOLO_RANKS_MAX + 1;
    wrong[4].job[0] = ' ';
    memset(wrong[5].job, 'x', sizeof wrong[5].job);
    for (size_t i = 0; i < 6; i++) {
        const struct kolo_connecting wanted = {.to = &to,
                                               .secret = &secret,
                                               .self = wrong[i],
                                               .awake = fresh_awake(),
                                               .deadline_ns = kolo_clock_ns() + S,
                                               .alert_fd = -1};
        assert_int_equal(kolo_connect(&wanted, &fd), KOLO_ERR_ARG);
    }
    assert_int_equal(fd, -1);
}

int main(void) {
    const struct CMUnitTest always[] = {
        cmocka_unit_test(test_ipv4),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_without_secret),
        cmocka_unit_test(test_from),
        cmocka_unit_test(test_from_elsewhere),
        cmocka_unit_test(test_version_of_listener),
        cmocka_unit_test(test_version_of_client),
        cmocka_unit_test(test_version_proved),
        cmocka_unit_test(test_nobody_comes),
        cmocka_unit_test(test_nobody_answers),
        cmocka_unit_test(test_silent_listener),
        cmocka_unit_test(test_listener_opens_late),
        cmocka_unit_test(test_alert),
        cmocka_unit_test(test_own_port),
        cmocka_unit_test(test_reopened),
        cmocka_unit_test(test_closed_for_good),
        cmocka_unit_test(test_oversubscription),
        cmocka_unit_test(test_busy_port),
        cmocka_unit_test(test_no_address_of_ours),
        cmocka_unit_test(test_only_there),
        cmocka_unit_test(test_senseless_introduction),
    };
    const struct CMUnitTest with_libsodium[] = {
        cmocka_unit_test(test_wrong_secret),
        cmocka_unit_test(test_derived_secret),
        cmocka_unit_test(test_secret_on_one_side),
    };
    int failed = cmocka_run_group_tests(always, NULL, NULL);
    if (KOLO_HAVE_SODIUM)
        failed += cmocka_run_group_tests(with_libsodium, NULL, NULL);
    return failed;
}
