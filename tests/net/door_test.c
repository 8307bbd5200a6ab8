/* Doors and those who may, or may not, come in: what comes out on both sides, and what is said of what went wrong. */
#include "doors.h"

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
#include "base/version.h"

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
    struct kolo_door *door = open_door(family, secret, &bound);
    struct knocker knocker = make_knocker(&bound, secret, 3);
    knocker.self = (struct kolo_introduction){.role = KOLO_ROLE_DATA,
                                              .rank = 3,
                                              .size = 7,
                                              .node = 2,
                                              .stream = 5,
                                              .session = "fifteen letters",
                                              .job = "a.job-1"};
    start_knocker(&knocker);
    struct kolo_introduction who;
    int fd = -1;
    assert_int_equal(kolo_door_answer(door, 10 * S, &fd, &who), 0);
    pthread_join(knocker.thread, NULL);
    if (knocker.rc < 0)
        fail_msg("%s", knocker.message);
    assert_memory_equal(&who, &knocker.self, sizeof who);
    assert_socket(fd);
    assert_socket(knocker.fd);
    /* Nothing of the dialogue is left in either direction. */
    char byte = 'k';
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(recv(knocker.fd, &byte, 1, 0), -1);
    send_by_hand(fd, "d", 1);
    assert_true(receive_by_hand(knocker.fd, &byte, 1));
    assert_int_equal(byte, 'd');
    const char *reason;
    assert_int_equal(kolo_door_refused(door, &reason), 0);
    assert_string_equal(reason, "");
    close(fd);
    close(knocker.fd);
    kolo_door_close(door);
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
    struct kolo_door *door = open_door(AF_INET, &secret, &bound);
    struct knocker knocker = make_knocker(&bound, &secret, 1);
    (void)state;
    assert_int_equal(kolo_address_parse("from", "127.0.0.77:9", &knocker.from), 0);
    start_knocker(&knocker);
    int fd = -1;
    assert_int_equal(kolo_door_answer(door, 10 * S, &fd, &who), 0);
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    assert_int_equal(getpeername(fd, (struct sockaddr *)&peer, &bytes), 0);
    assert_int_equal(ntohl(peer.sin_addr.s_addr), 0x7f00004d);
    assert_int_not_equal(ntohs(peer.sin_port), 9);
    await_knocker(&knocker);
    close(fd);
    kolo_door_close(door);
}

static void test_from_elsewhere(void **state) {
    const struct kolo_secret secret = usual_secret();
    const struct kolo_address to = loopback(AF_INET, 9);
    const struct kolo_introduction self = introduce(1);
    struct kolo_address from;
    int fd = -1;
    (void)state;
    assert_int_equal(kolo_address_parse("from", "192.0.2.1:9", &from), 0);
    assert_int_equal(kolo_door_knock(&to, &from, &secret, &self, fresh_awake(), kolo_clock_ns() + 10 * S, -1, &fd),
                     KOLO_ERR_SYSTEM);
    assert_words(kolo_error_message(), "192.0.2.1:0");
    assert_int_equal(kolo_address_parse("from", "[::1]:9", &from), 0);
    assert_int_equal(kolo_door_knock(&to, &from, &secret, &self, fresh_awake(), kolo_clock_ns() + 10 * S, -1, &fd),
                     KOLO_ERR_ARG);
    assert_words(kolo_error_message(), "127.0.0.1:9 cannot be reached from [::1]:9");
    assert_int_equal(fd, -1);
}

/* One knocker is turned down: what it returns and says, and what the door says. */
static void turn_down(const struct kolo_secret *inside, const struct kolo_secret *outside, const char *words,
                      const char *reason_words) {
    struct kolo_address bound;
    struct kolo_door *door = open_door(AF_INET, inside, &bound);
    struct knocker knocker = make_knocker(&bound, outside, 1);
    const char *reason;
    start_knocker(&knocker);
    for (int i = 0; i < 100 && kolo_door_refused(door, &reason) == 0; i++)
        assert_int_equal(answer_rank(door, 100 * MS), -1);
    await_knocker(&knocker);
    assert_int_equal(knocker.rc, KOLO_ERR_SYSTEM);
    assert_words(knocker.message, "127.0.0.1:");
    assert_words(knocker.message, words);
    assert_int_equal(kolo_door_refused(door, &reason), 1);
    assert_words(reason, "127.0.0.1:");
    assert_words(reason, reason_words);
    assert_true(knocker.took_ns < 5 * S);
    kolo_door_close(door);
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

/* A door of another version says so; the knocker names both. */
static void test_version_of_door(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    struct knocker knocker = make_knocker(&bound, &secret, 1);
    uint8_t bytes[KOLO_GREETING_BYTES];
    (void)state;
    start_knocker(&knocker);
    const int fd = accept_by_hand(listener);
    assert_true(receive_by_hand(fd, bytes, sizeof bytes));
    struct kolo_greeting greeting;
    assert_int_equal(kolo_greeting_parse(bytes, KOLO_HELLO, &greeting), 0);
    greeting.version = 9 << 16 | 8 << 8 | 7;
    greeting.layout = 65;
    kolo_greeting_pack(&greeting, KOLO_WELCOME, bytes);
    send_by_hand(fd, bytes, sizeof bytes);
    uint8_t introduction[KOLO_INTRODUCTION_BYTES];
    assert_true(receive_by_hand(fd, introduction, sizeof introduction)); /* so that those behind it know, too */
    await_knocker(&knocker);
    assert_int_equal(knocker.rc, KOLO_ERR_VERSION);
    char own[KOLO_RELEASE_TEXT_BYTES];
    assert_words(knocker.message, "kolo 9.8.7 (wire layout 65)");
    assert_words(knocker.message, kolo_greeting_release(KOLO_VERSION_WORD, KOLO_WIRE_LAYOUT, own));
    close(fd);
    close(listener);
}

/* To a knocker of another version a door says its own. It is turned away where it does not prove who it is. */
static void test_version_of_knocker(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    struct kolo_door *door = open_door(AF_INET, &secret, &bound);
    struct kolo_greeting greeting = {.version = KOLO_VERSION_WORD + 1, .layout = KOLO_WIRE_LAYOUT, .secret = true};
    uint8_t bytes[KOLO_GREETING_BYTES];
    char text[KOLO_RELEASE_TEXT_BYTES];
    (void)state;
    for (int i = 0; i < 2; i++) {
        const int fd = connect_by_hand(&bound);
        kolo_greeting_pack(&greeting, KOLO_HELLO, bytes);
        memset(bytes + 16, 0xee, sizeof bytes - 16); /* whatever else another version says there */
        send_by_hand(fd, bytes, sizeof bytes);
        assert_int_equal(answer_rank(door, 200 * MS), -1);
        assert_true(receive_by_hand(fd, bytes, sizeof bytes));
        struct kolo_greeting welcome;
        assert_int_equal(kolo_greeting_parse(bytes, KOLO_WELCOME, &welcome), 0);
        uint8_t nonsense[KOLO_INTRODUCTION_BYTES];
        memset(nonsense, 0xee, sizeof nonsense);
        send_by_hand(fd, nonsense, i == 0 ? sizeof nonsense : 1); /* the first one says too much, the second one goes */
        shutdown(fd, SHUT_WR);
        assert_int_equal(answer_rank(door, 200 * MS), -1);
        assert_true(is_hung_up(fd, 5 * S));
        const char *reason;
        assert_int_equal(kolo_door_refused(door, &reason), i + 1);
        assert_words(reason, kolo_greeting_release(greeting.version, greeting.layout, text));
        assert_words(reason, ", and here is ");
        assert_words(reason, kolo_greeting_release(KOLO_VERSION_WORD, KOLO_WIRE_LAYOUT, text));
        close(fd);
        greeting = (struct kolo_greeting){.version = KOLO_VERSION_WORD, .layout = KOLO_WIRE_LAYOUT + 1};
    }
    kolo_door_close(door);
}

/* One that does prove who it is, as knockers do, is let in to be named. */
static void test_version_proved(void **state) {
    const struct kolo_secret secret = usual_secret();
    const struct kolo_introduction self = introduce(2);
    struct kolo_address bound;
    struct kolo_door *door = open_door(AF_INET, &secret, &bound);
    struct kolo_greeting greeting = {.version = KOLO_VERSION_WORD + 1, .layout = 77, .secret = true};
    struct kolo_dialogue dialogue;
    struct kolo_introduction who;
    int admitted = -1;
    (void)state;
    const int fd = connect_by_hand(&bound);
    kolo_greeting_pack(&greeting, KOLO_HELLO, dialogue.hello);
    send_by_hand(fd, dialogue.hello, sizeof dialogue.hello);
    assert_int_equal(answer_rank(door, 200 * MS), -1);
    assert_true(receive_by_hand(fd, dialogue.welcome, sizeof dialogue.welcome));
    kolo_introduction_pack(&self, dialogue.introduction);
    kolo_dialogue_prove_introduction(&dialogue, &secret);
    send_by_hand(fd, dialogue.introduction, sizeof dialogue.introduction);
    assert_int_equal(kolo_door_answer(door, 10 * S, &admitted, &who), 0);
    assert_int_equal(who.rank, 2);
    assert_true(who.foreign);
    assert_int_equal(who.version, KOLO_VERSION_WORD + 1);
    assert_int_equal(who.layout, 77);
    close(admitted);
    close(fd);
    kolo_door_close(door);
}

static void test_nobody_comes(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    struct kolo_door *door = open_door(AF_INET, &secret, &bound);
    const int64_t begin_ns = kolo_clock_ns();
    (void)state;
    assert_int_equal(answer_rank(door, 150 * MS), -1);
    const int64_t took_ns = kolo_clock_ns() - begin_ns;
    assert_true(took_ns >= 150 * MS && took_ns < 20 * S);
    assert_int_equal(answer_rank(door, -S), -1);
    kolo_door_close(door);
}

static void test_nobody_answers(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    kolo_door_close(open_door(AF_INET, &secret, &bound)); /* a port at which nobody listens */
    struct knocker knocker = make_knocker(&bound, &secret, 1);
    (void)state;
    knocker.deadline_ns = kolo_clock_ns() + S;
    start_knocker(&knocker);
    await_knocker(&knocker);
    assert_int_equal(knocker.rc, KOLO_ERR_TIMEOUT);
    assert_words(knocker.message, "connecting: Connection refused");
    assert_true(knocker.ended_ns >= knocker.deadline_ns && knocker.took_ns < 20 * S);
}

/* A door whose process is stopped: the kernel still takes connections. */
static void test_silent_door(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    struct knocker knocker = make_knocker(&bound, &secret, 1);
    (void)state;
    knocker.deadline_ns = kolo_clock_ns() + S;
    start_knocker(&knocker);
    await_knocker(&knocker);
    assert_int_equal(knocker.rc, KOLO_ERR_TIMEOUT);
    assert_words(knocker.message, "connected, but the other side does not answer");
    close(listener);
}

/* Whether nobody listens or nobody answers, a knock ends as soon as its alert comes. */
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
        struct knocker knocker = make_knocker(&bound, &secret, 1);
        knocker.alert_fd = alert[0];
        start_knocker(&knocker);
        kolo_clock_sleep(100 * MS);
        assert_int_equal(pthread_tryjoin_np(knocker.thread, NULL), EBUSY);
        close(alert[1]);
        await_knocker(&knocker);
        assert_int_equal(knocker.rc, 1);
        assert_true(knocker.took_ns < 5 * S);
        close(alert[0]);
        if (silent)
            close(listener);
    }
}

static void test_door_opens_late(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound, again;
    kolo_door_close(open_door(AF_INET, &secret, &bound));
    struct knocker knocker = make_knocker(&bound, &secret, 2);
    struct kolo_door *door = NULL;
    (void)state;
    start_knocker(&knocker);
    kolo_clock_sleep(200 * MS);
    assert_int_equal(kolo_door_open(&door, &bound, &secret, &again), 0);
    assert_int_equal(answer_rank(door, 10 * S), 2);
    await_knocker(&knocker);
    assert_int_equal(knocker.rc, 0);
    kolo_door_close(door);
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
static int knock_at_own_port(void) {
    const struct kolo_secret secret = usual_secret();
    const struct kolo_address to = loopback(AF_INET, 40000);
    const struct kolo_introduction self = introduce(1);
    int fd = -1;
    if (!enter_own_network())
        return 77;
    const int rc = kolo_door_knock(&to, NULL, &secret, &self, fresh_awake(), kolo_clock_ns() + 3 * S / 2, -1, &fd);
    if (rc == KOLO_ERR_TIMEOUT && strstr(kolo_error_message(), "Connection refused"))
        return 0;
    fprintf(stderr, "%d: %s\n", rc, kolo_error_message());
    return 1;
}

/* A door with a new secret: who knows the old one is turned down, and who waited is shown out. */
static void test_reopened(void **state) {
    const struct kolo_secret before = usual_secret(), after = secret_of("another secret than the usual one");
    struct kolo_address bound, again;
    struct kolo_introduction who;
    struct kolo_door *door = open_door(AF_INET, &before, &bound);
    struct knocker late = make_knocker(&bound, &before, 1), knocker = make_knocker(&bound, &after, 2);
    int fd = -1;
    (void)state;
    assert_int_equal(kolo_door_reopen(door, &after, &again), 0);
    assert_memory_equal(&again.storage, &bound.storage, bound.bytes);
    start_knocker(&late);
    assert_int_equal(kolo_door_answer(door, 200 * MS, &fd, &who), 1);
    await_knocker(&late);
    assert_int_equal(late.rc, KOLO_ERR_SYSTEM);
    start_knocker(&knocker);
    assert_int_equal(kolo_door_answer(door, 10 * S, &fd, &who), 0);
    assert_int_equal(who.rank, 2);
    await_knocker(&knocker);
    close(fd);
    kolo_door_close(door);
}

/* Where a door was, and is closed: nobody waits there, also who has knocked while it was open and not answered. */
static void test_closed_for_good(void **state) {
    const struct kolo_secret secret = usual_secret();
    const struct kolo_introduction self = introduce(1);
    struct kolo_address bound;
    int fd = -1;
    (void)state;
    kolo_door_close(open_door(AF_INET, &secret, &bound));
    const int64_t begin_ns = kolo_clock_ns();
    assert_int_equal(kolo_door_knock_again(&bound, NULL, &secret, &self, fresh_awake(), begin_ns + 10 * S, -1, &fd),
                     KOLO_ERR_PEER_DEAD);
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
        _exit(knock_at_own_port());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("no network namespaces here\n");
        skip();
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* All ranks of a large job at once, twice as many as there are places. */
static void test_crowd(void **state) {
    enum { KNOCKERS = 2 * KOLO_DOOR_PENDING };
    static struct knocker knockers[KNOCKERS];
    static bool came[KNOCKERS];
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    struct kolo_door *door = open_door(AF_INET, &secret, &bound);
    (void)state;
    for (uint32_t i = 0; i < KNOCKERS; i++) {
        knockers[i] = make_knocker(&bound, &secret, i);
        knockers[i].self.size = KNOCKERS;
        start_knocker(&knockers[i]);
    }
    for (uint32_t i = 0; i < KNOCKERS; i++) {
        const int rank = answer_rank(door, 10 * S);
        assert_in_range(rank, 0, KNOCKERS - 1);
        assert_false(came[rank]);
        came[rank] = true;
    }
    for (uint32_t i = 0; i < KNOCKERS; i++) {
        await_knocker(&knockers[i]);
        assert_int_equal(knockers[i].rc, 0);
    }
    kolo_door_close(door);
}

static void test_busy_port(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound, other;
    struct kolo_door *door = open_door(AF_INET, &secret, &bound), *second = NULL;
    struct knocker knocker = make_knocker(&bound, &secret, 1);
    char text[KOLO_ADDRESS_TEXT_BYTES];
    (void)state;
    assert_int_equal(kolo_door_open(&second, &bound, &secret, &other), KOLO_ERR_SYSTEM);
    assert_null(second);
    assert_words(kolo_error_message(), kolo_address_text(&bound, text));
    assert_words(kolo_error_message(), "choose another port");
    /* At once again, though a connection of before is still being ended. */
    start_knocker(&knocker);
    assert_int_equal(answer_rank(door, 10 * S), 1);
    kolo_door_close(door);
    await_knocker(&knocker);
    assert_int_equal(kolo_door_open(&second, &bound, &secret, &other), 0);
    kolo_door_close(second);
}

static void test_no_address_of_ours(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address address, bound;
    struct kolo_door *door = NULL;
    (void)state;
    assert_int_equal(kolo_address_parse("address", "192.0.2.1:29500", &address), 0);
    assert_int_equal(kolo_door_open(&door, &address, &secret, &bound), KOLO_ERR_SYSTEM);
    assert_words(kolo_error_message(), "192.0.2.1:29500, which is no address of this machine");
}

/* A door at [::] takes no IPv4, and one at 127.0.0.1 nothing for 127.0.0.2. */
static void test_only_there(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address any = loopback(AF_INET6, 0), bound;
    struct kolo_door *door = NULL;
    struct sockaddr_in other = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    (void)state;
    for (int v6 = 0; v6 < 1 + has_ipv6(); v6++) {
        assert_int_equal(kolo_address_parse("any", v6 ? "[::]:1" : "127.0.0.1:1", &any), 0);
        kolo_address_set_port(&any, 0);
        assert_int_equal(kolo_door_open(&door, &any, &secret, &bound), 0);
        other.sin_port = htons(kolo_address_port(&bound));
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&other, sizeof other), -1);
        assert_int_equal(errno, ECONNREFUSED);
        close(fd);
        kolo_door_close(door);
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
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(kolo_door_knock(&to, NULL, &secret, &wrong[i], fresh_awake(), kolo_clock_ns() + S, -1, &fd),
                         KOLO_ERR_ARG);
    assert_int_equal(fd, -1);
}

int main(void) {
    const struct CMUnitTest always[] = {
        cmocka_unit_test(test_ipv4),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_without_secret),
        cmocka_unit_test(test_from),
        cmocka_unit_test(test_from_elsewhere),
        cmocka_unit_test(test_version_of_door),
        cmocka_unit_test(test_version_of_knocker),
        cmocka_unit_test(test_version_proved),
        cmocka_unit_test(test_nobody_comes),
        cmocka_unit_test(test_nobody_answers),
        cmocka_unit_test(test_silent_door),
        cmocka_unit_test(test_door_opens_late),
        cmocka_unit_test(test_alert),
        cmocka_unit_test(test_own_port),
        cmocka_unit_test(test_reopened),
        cmocka_unit_test(test_closed_for_good),
        cmocka_unit_test(test_crowd),
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
