/* Listeners beset by strangers, and clients deceived by them: nobody gets in, and who may come in does so in good time.
 */
#include "listeners.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define NOWHERE SIZE_MAX

/* A listener, and what its ranks know. */
struct house {
    struct kolo_secret secret;
    struct kolo_address bound;
    struct kolo_listener *listener;
};

static void open_house(struct house *house) {
    house->secret = usual_secret();
    house->listener = open_listener(AF_INET, &house->secret, &house->bound);
}

static void close_house(struct house *house) {
    kolo_listener_close(house->listener);
}

static uint64_t refused(const struct house *house, const char *words) {
    const char *reason;
    const uint64_t count = kolo_listener_refused(house->listener, &reason);
    if (count > 0)
        assert_words(reason, words);
    return count;
}

/* Answers until `count` have been turned away, the last one so; nobody comes in meanwhile. */
static void await_refused(struct house *house, uint64_t count, const char *words) {
    const char *reason;
    for (int i = 0; i < 100 && kolo_listener_refused(house->listener, &reason) < count; i++)
        assert_int_equal(answer_rank(house->listener, 100 * MS), -1);
    assert_int_equal(refused(house, words), count);
}

/* A good one comes in, and how long that takes. */
static int64_t let_good_one_in(struct house *house) {
    struct client client = make_client(&house->bound, &house->secret, 2);
    start_client(&client);
    assert_int_equal(answer_rank(house->listener, 10 * S), 2);
    await_client(&client);
    if (client.rc != 0)
        fail_msg("%s", client.message);
    return client.took_ns;
}

/* A dialogue by hand. */

static void make_hello(const struct house *house, uint8_t hello[KOLO_HANDSHAKE_BYTES]) {
    struct kolo_handshake handshake;
    assert_int_equal(kolo_handshake_make(&handshake, &house->secret), 0);
    kolo_handshake_pack(&handshake, KOLO_HELLO, hello);
}

/* Connects and says hello. */
static int greet_by_hand(const struct house *house, struct kolo_dialogue *dialogue) {
    const int fd = connect_by_hand(&house->bound);
    make_hello(house, dialogue->hello);
    send_by_hand(fd, dialogue->hello, sizeof dialogue->hello);
    return fd;
}

/* After the welcome. */
static void introduce_by_hand(const struct house *house, int fd, const struct kolo_introduction *self,
                              struct kolo_dialogue *dialogue) {
    kolo_introduction_pack(self, dialogue->introduction);
    kolo_dialogue_prove(dialogue, KOLO_PROOF_OF_CONNECTOR, &house->secret);
    send_by_hand(fd, dialogue->introduction, sizeof dialogue->introduction);
}

/* Strangers. */

static void test_garbage(void **state) {
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: what looks at everything that listens\r\n\r\n",
        "SSH-2.0-scanner of everything that there is in the whole wide world and beyond\r\n",
        "kolo\2\0\0\0 a welcome where a hello is due, which is not what comes first at all. And so on.",
    };
    struct house house;
    (void)state;
    open_house(&house);
    for (uint64_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const int fd = connect_by_hand(&house.bound);
        send_by_hand(fd, texts[i], KOLO_HANDSHAKE_BYTES);
        await_refused(&house, i + 1, "speaks no language of kolo's");
        assert_true(is_hung_up(fd, 5 * S)); /* and has been told nothing */
        close(fd);
    }
    let_good_one_in(&house);
    close_house(&house);
}

static void test_port_scanner(void **state) {
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct house house;
    (void)state;
    open_house(&house);
    for (int i = 0; i < 100; i++) {
        const int fd = connect_by_hand(&house.bound);
        if (i % 2)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    let_good_one_in(&house);
    close_house(&house);
}

static void test_half_open(void **state) {
    enum { OPEN = 3 * KOLO_LISTENER_PENDING };
    struct house house;
    int fds[OPEN];
    (void)state;
    open_house(&house);
    for (int i = 0; i < OPEN; i++)
        fds[i] = connect_by_hand(&house.bound);
    const int64_t took_ns = let_good_one_in(&house);
    if (took_ns >= KOLO_LISTENER_PENDING_NS) /* nobody waits for them to be shown out */
        fail_msg("took %lld ms", (long long)(took_ns / MS));
    assert_true(refused(&house, "was given up for another") >= OPEN - KOLO_LISTENER_PENDING);
    for (int i = 0; i < OPEN; i++)
        close(fds[i]);
    close_house(&house);
}

/* Descriptors are missing: whoever has come keeps its place, and the listener says what is missing once all are in. */
static void test_few_descriptors(void **state) {
    enum { COMING = 3 };
    struct house house = {.secret = secret_of(NULL)}; /* so that introductions need no welcome */
    struct kolo_introduction who;
    struct rlimit before, few;
    int fds[COMING], fd;
    (void)state;
    house.listener = open_listener(AF_INET, &house.secret, &house.bound);
    for (uint32_t i = 0; i < COMING; i++) {
        struct kolo_dialogue dialogue;
        const struct kolo_introduction self = introduce(i);
        fds[i] = greet_by_hand(&house, &dialogue);
        introduce_by_hand(&house, fds[i], &self, &dialogue);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)dup(fds[0]) + 1; /* one more can be opened */
    close((int)few.rlim_cur - 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(answer_rank(house.listener, 10 * S), 0);
    assert_int_equal(kolo_listener_accept(house.listener, 10 * S, &fd, &who), 0);
    assert_int_equal(who.rank, 1);
    assert_int_equal(kolo_listener_accept(house.listener, 10 * S, &fd, &who), KOLO_ERR_SYSTEM);
    assert_words(kolo_error_message(), strerror(EMFILE));
    close(fd);
    assert_int_equal(answer_rank(house.listener, 10 * S), 2);
    assert_int_equal(refused(&house, ""), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < COMING; i++)
        close(fds[i]);
    close_house(&house);
}

/* One that says a byte now and then has its place no longer than others. */
static void test_dribbler(void **state) {
    struct house house;
    uint8_t hello[KOLO_HANDSHAKE_BYTES];
    (void)state;
    open_house(&house);
    make_hello(&house, hello);
    const int fd = connect_by_hand(&house.bound);
    const int64_t begin_ns = kolo_clock_ns();
    let_good_one_in(&house);
    for (size_t i = 0; refused(&house, "has not said who it is in time") == 0; i++) {
        assert_true(i < sizeof hello);
        send_by_hand(fd, hello + i, 1);
        assert_int_equal(answer_rank(house.listener, 200 * MS), -1);
    }
    const int64_t took_ns = kolo_clock_ns() - begin_ns;
    assert_true(took_ns >= KOLO_LISTENER_PENDING_NS && took_ns < KOLO_LISTENER_PENDING_NS + 7 * S);
    assert_true(is_hung_up(fd, S));
    close(fd);
    let_good_one_in(&house);
    close_house(&house);
}

/* Bytes one by one, but in good time, make a good dialogue. */
static void test_slow_but_good(void **state) {
    struct house house;
    struct kolo_dialogue dialogue;
    const struct kolo_introduction self = introduce(3);
    (void)state;
    open_house(&house);
    const int fd = connect_by_hand(&house.bound);
    make_hello(&house, dialogue.hello);
    for (size_t i = 0; i < sizeof dialogue.hello; i++) {
        send_by_hand(fd, dialogue.hello + i, 1);
        assert_int_equal(answer_rank(house.listener, MS), -1);
    }
    assert_int_equal(answer_rank(house.listener, 100 * MS), -1);
    assert_true(receive_by_hand(fd, dialogue.welcome, sizeof dialogue.welcome));
    kolo_introduction_pack(&self, dialogue.introduction);
    kolo_dialogue_prove(&dialogue, KOLO_PROOF_OF_CONNECTOR, &house.secret);
    for (size_t i = 0; i + 1 < sizeof dialogue.introduction; i++) {
        send_by_hand(fd, dialogue.introduction + i, 1);
        if (i % 16 == 0)
            assert_int_equal(answer_rank(house.listener, MS), -1);
    }
    send_by_hand(fd, dialogue.introduction + sizeof dialogue.introduction - 1, 1);
    assert_int_equal(answer_rank(house.listener, 10 * S), 3);
    assert_true(receive_by_hand(fd, dialogue.verdict, sizeof dialogue.verdict));
    assert_true(kolo_dialogue_check(&dialogue, KOLO_PROOF_OF_LISTENER, &house.secret));
    close(fd);
    close_house(&house);
}

/* One who is far away, and so needs long for an answer, keeps its place while strangers come who say nothing. */
static void test_far(void **state) {
    enum { OPEN = 2 * KOLO_LISTENER_PENDING, ROUNDS = 4 };
    struct house house;
    struct kolo_dialogue dialogue;
    const struct kolo_introduction self = introduce(3);
    int fds[ROUNDS][OPEN];
    (void)state;
    open_house(&house);
    const int fd = greet_by_hand(&house, &dialogue);
    assert_int_equal(answer_rank(house.listener, 100 * MS), -1);
    assert_true(receive_by_hand(fd, dialogue.welcome, sizeof dialogue.welcome));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OPEN; i++)
            fds[round][i] = connect_by_hand(&house.bound);
        assert_int_equal(answer_rank(house.listener, 100 * MS), -1);
    }
    assert_true(refused(&house, "was given up for another") > 0);
    introduce_by_hand(&house, fd, &self, &dialogue);
    assert_int_equal(answer_rank(house.listener, 10 * S), 3);
    for (int i = 0; i < ROUNDS * OPEN; i++)
        close(fds[i / OPEN][i % OPEN]);
    close(fd);
    close_house(&house);
}

/* Those who have heard or changed what others said. */

/* Answers until there is something to read, or an end, on the other side of a connection. */
static int answer_until_readable(struct house *house, int fd) {
    for (int i = 0; i < 500; i++) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        const int rank = answer_rank(house->listener, 20 * MS);
        if (rank >= 0 || poll(&polled, 1, 0) > 0)
            return rank;
    }
    fail_msg("the listener says nothing");
    return -1;
}

/* Lets one come in through a relay, which notes the dialogue and changes a bit of the byte that is `at` in it. Returns
 * the rank that was let in, or -1; the client's side of it is in *client. */
static int relay(struct house *house, size_t at, struct kolo_dialogue *dialogue, struct client *client) {
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    *client = make_client(&bound, &house->secret, 1);
    if (at != NOWHERE)
        client->deadline_ns = kolo_clock_ns() + 3 * S / 2; /* it may well try again until then */
    start_client(client);
    const int outside = accept_by_hand(listener), inside = connect_by_hand(&house->bound);
    const struct {
        uint8_t *bytes;
        size_t count;
        int from, to;
    } message[] = {
        {dialogue->hello, sizeof dialogue->hello, outside, inside},
        {dialogue->welcome, sizeof dialogue->welcome, inside, outside},
        {dialogue->introduction, sizeof dialogue->introduction, outside, inside},
        {dialogue->verdict, sizeof dialogue->verdict, inside, outside},
    };
    int rank = -1;
    for (size_t i = 0; i < 4 && receive_by_hand(message[i].from, message[i].bytes, message[i].count); i++) {
        const size_t begin = (size_t)(message[i].bytes - (uint8_t *)dialogue);
        if (at >= begin && at < begin + message[i].count)
            ((uint8_t *)dialogue)[at] ^= 0x10;
        send_by_hand(message[i].to, message[i].bytes, message[i].count);
        if (message[i].to == inside)
            rank = answer_until_readable(house, inside);
    }
    close(listener);
    close(outside);
    close(inside);
    await_client(client);
    return rank;
}

static void test_replay(void **state) {
    struct house house;
    struct kolo_dialogue heard, answer;
    struct client client;
    (void)state;
    open_house(&house);
    assert_int_equal(relay(&house, NOWHERE, &heard, &client), 1);
    assert_int_equal(client.rc, 0);
    const int fd = connect_by_hand(&house.bound);
    send_by_hand(fd, heard.hello, sizeof heard.hello);
    send_by_hand(fd, heard.introduction, sizeof heard.introduction);
    await_refused(&house, 1, "wrong secret");
    assert_true(receive_by_hand(fd, answer.welcome, sizeof answer.welcome));
    assert_memory_not_equal(answer.welcome, heard.welcome, sizeof answer.welcome);
    uint32_t verdict;
    assert_true(receive_by_hand(fd, answer.verdict, sizeof answer.verdict));
    assert_int_equal(kolo_verdict_parse(answer.verdict, &verdict), 0);
    assert_int_equal(verdict, KOLO_VERDICT_WRONG_SECRET);
    assert_true(is_hung_up(fd, 5 * S));
    close(fd);
    close_house(&house);
}

/* The same of a false listener, which has heard a good one: to the client its welcome looks right, its verdict does
 * not.
 */
static void test_replay_of_listener(void **state) {
    struct house house;
    struct kolo_dialogue heard;
    struct client client;
    struct kolo_address bound;
    uint8_t said[KOLO_INTRODUCTION_BYTES];
    (void)state;
    open_house(&house);
    assert_int_equal(relay(&house, NOWHERE, &heard, &client), 1);
    const int listener = listen_by_hand(&bound);
    client = make_client(&bound, &house.secret, 1);
    start_client(&client);
    const int fd = accept_by_hand(listener);
    assert_true(receive_by_hand(fd, said, KOLO_HANDSHAKE_BYTES));
    send_by_hand(fd, heard.welcome, sizeof heard.welcome);
    assert_true(receive_by_hand(fd, said, KOLO_INTRODUCTION_BYTES));
    assert_memory_not_equal(said, heard.introduction, sizeof said);
    send_by_hand(fd, heard.verdict, sizeof heard.verdict);
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_SYSTEM);
    assert_words(client.message, "has not proved to know the secret: KOLO_SECRET_FILE");
    close(fd);
    close(listener);
    close_house(&house);
}

/* Whatever bit a relay changes, either nobody comes in, or who connects does not believe the listener. */
static void test_changed_on_the_way(void **state) {
    static const size_t places[] = {
        20,                             /* a hello that is to be zero there */
        40,                             /* its nonce */
        64 + 4,                         /* a welcome's kind */
        64 + 16,                        /* whether it wants a secret */
        64 + 63,                        /* its nonce */
        128 + 8,                        /* an introduction's role */
        128 + 12,                       /* rank */
        128 + 16,                       /* size */
        128 + 20,                       /* node */
        128 + 24,                       /* stream */
        128 + 32,                       /* session */
        128 + 50,                       /* job */
        128 + 200,                      /* zeros */
        128 + 224, 128 + 255,           /* proof */
        384 + 8,   384 + 32,  384 + 63, /* verdict, its proof */
    };
    struct house house;
    (void)state;
    open_house(&house);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct kolo_dialogue dialogue;
        struct client client;
        const int rank = relay(&house, places[i], &dialogue, &client);
        if (client.rc == 0 || (rank >= 0) != (places[i] >= 384))
            fail_msg("byte %zu: rank %d has come in, status %d", places[i], rank, client.rc);
    }
    close_house(&house);
}

/* No byte can be changed of what a proof is over, nor of the proof, which is what a message ends with. */
static void test_proofs_are_over_all(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_dialogue dialogue;
    uint8_t *bytes = (uint8_t *)&dialogue;
    const size_t introduced = offsetof(struct kolo_dialogue, verdict);
    (void)state;
    memset(&dialogue, 'x', sizeof dialogue);
    kolo_dialogue_prove(&dialogue, KOLO_PROOF_OF_CONNECTOR, &secret);
    kolo_dialogue_prove(&dialogue, KOLO_PROOF_OF_LISTENER, &secret);
    assert_true(kolo_dialogue_check(&dialogue, KOLO_PROOF_OF_CONNECTOR, &secret));
    assert_true(kolo_dialogue_check(&dialogue, KOLO_PROOF_OF_LISTENER, &secret));
    for (size_t i = 0; i < sizeof dialogue; i++) {
        bytes[i] ^= 1;
        assert_int_equal(kolo_dialogue_check(&dialogue, KOLO_PROOF_OF_CONNECTOR, &secret), i >= introduced);
        assert_false(kolo_dialogue_check(&dialogue, KOLO_PROOF_OF_LISTENER, &secret));
        bytes[i] ^= 1;
    }
}

/* Reflection: what who is asked says itself is sent back to it. */

static void *echo(void *argument) {
    const int fd = *(int *)argument;
    uint8_t bytes[512];
    for (ssize_t count; (count = recv(fd, bytes, sizeof bytes, 0)) > 0;)
        send(fd, bytes, (size_t)count, MSG_NOSIGNAL);
    return NULL;
}

static void test_echo(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    struct client client = make_client(&bound, &secret, 1);
    pthread_t thread;
    (void)state;
    start_client(&client);
    int fd = accept_by_hand(listener);
    assert_int_equal(pthread_create(&thread, NULL, echo, &fd), 0);
    await_client(&client);
    pthread_join(thread, NULL);
    assert_int_equal(client.rc, KOLO_ERR_SYSTEM);
    assert_words(client.message, "is no process of kolo's");
    close(fd);
    close(listener);
}

/* A false listener says all as it should, and sends the client's own proof back as its own. */
static void test_own_proof_back(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    struct client client = make_client(&bound, &secret, 1);
    struct kolo_dialogue dialogue;
    struct kolo_handshake handshake;
    (void)state;
    start_client(&client);
    const int fd = accept_by_hand(listener);
    assert_true(receive_by_hand(fd, dialogue.hello, sizeof dialogue.hello));
    assert_int_equal(kolo_handshake_parse(dialogue.hello, KOLO_HELLO, &handshake), 0);
    kolo_handshake_pack(&handshake, KOLO_WELCOME, dialogue.welcome); /* with the client's nonce */
    send_by_hand(fd, dialogue.welcome, sizeof dialogue.welcome);
    assert_true(receive_by_hand(fd, dialogue.introduction, sizeof dialogue.introduction));
    kolo_verdict_pack(KOLO_VERDICT_ADMITTED, dialogue.verdict);
    memcpy(dialogue.verdict + 32, dialogue.introduction + 224, KOLO_KEY_BYTES);
    send_by_hand(fd, dialogue.verdict, sizeof dialogue.verdict);
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_SYSTEM);
    assert_words(client.message, "has not proved");
    close(fd);
    close(listener);
}

/* A stranger gets nothing that was computed with the secret, to try guesses on. */
static void test_listener_proves_nothing_first(void **state) {
    struct house house;
    struct kolo_dialogue dialogue;
    const struct kolo_introduction self = introduce(1);
    static const uint8_t zeros[KOLO_KEY_BYTES];
    (void)state;
    open_house(&house);
    const int fd = greet_by_hand(&house, &dialogue);
    kolo_introduction_pack(&self, dialogue.introduction);
    memset(dialogue.introduction + 224, 0, KOLO_KEY_BYTES);
    send_by_hand(fd, dialogue.introduction, sizeof dialogue.introduction);
    await_refused(&house, 1, "wrong secret");
    assert_true(receive_by_hand(fd, dialogue.welcome, sizeof dialogue.welcome));
    assert_true(receive_by_hand(fd, dialogue.verdict, sizeof dialogue.verdict));
    assert_memory_equal(dialogue.verdict + 32, zeros, sizeof zeros);
    close(fd);
    close_house(&house);
}

/* A proof that is right, of something that no rank says. */
static void test_malformed(void **state) {
    struct house house;
    struct kolo_dialogue dialogue;
    struct kolo_introduction self = introduce(1);
    uint32_t verdict;
    (void)state;
    open_house(&house);
    self.rank = self.size;
    const int fd = greet_by_hand(&house, &dialogue);
    assert_int_equal(answer_rank(house.listener, 200 * MS), -1);
    assert_true(receive_by_hand(fd, dialogue.welcome, sizeof dialogue.welcome));
    introduce_by_hand(&house, fd, &self, &dialogue);
    await_refused(&house, 1, "nothing sensible");
    assert_true(receive_by_hand(fd, dialogue.verdict, sizeof dialogue.verdict));
    assert_int_equal(kolo_verdict_parse(dialogue.verdict, &verdict), 0);
    assert_int_equal(verdict, KOLO_VERDICT_MALFORMED);
    close(fd);
    close_house(&house);
}

/* Listeners that do not answer as they should. */

/* Something else first listens there, and hangs up on everybody; the listener comes later. */
static void test_hung_up_at_first(void **state) {
    struct kolo_secret secret = usual_secret();
    struct kolo_address bound, again;
    int socket = listen_by_hand(&bound);
    struct client client = make_client(&bound, &secret, 1);
    struct kolo_listener *listener = NULL;
    (void)state;
    start_client(&client);
    for (int i = 0; i < 3; i++)
        close(accept_by_hand(socket));
    close(socket);
    assert_int_equal(kolo_listener_open(&listener, &bound, &secret, &again), 0);
    assert_int_equal(answer_rank(listener, 10 * S), 1);
    await_client(&client);
    assert_int_equal(client.rc, 0);
    kolo_listener_close(listener);
}

/* Or nobody: who has been reached once is not waited for to the deadline. */
static void test_hung_up_and_gone(void **state) {
    struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int socket = listen_by_hand(&bound);
    struct client client = make_client(&bound, &secret, 1);
    (void)state;
    client.deadline_ns = kolo_clock_ns() + 60 * S;
    start_client(&client);
    close(accept_by_hand(socket));
    close(socket);
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_PEER_DEAD);
    assert_words(client.message, "nobody listens at 127.0.0.1");
    assert_true(client.took_ns < 30 * S);
}

/* Or it hangs up on everybody for ever. */
static void test_always_hung_up(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    struct client client = make_client(&bound, &secret, 1);
    (void)state;
    client.deadline_ns = kolo_clock_ns() + 3 * S / 2;
    start_client(&client);
    while (kolo_clock_ns() < client.deadline_ns + 200 * MS) {
        struct pollfd polled = {.fd = listener, .events = POLLIN};
        uint8_t hello[KOLO_HANDSHAKE_BYTES];
        if (poll(&polled, 1, 50) != 1)
            continue;
        const int fd = accept_by_hand(listener);
        receive_by_hand(fd, hello, sizeof hello); /* or the kernel would say that it has not been read */
        close(fd);
    }
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_TIMEOUT);
    assert_words(client.message, "connected, but the other side hung up");
    close(listener);
}

static void test_something_else_listens(void **state) {
    const struct kolo_secret secret = usual_secret();
    struct kolo_address bound;
    const int listener = listen_by_hand(&bound);
    struct client client = make_client(&bound, &secret, 1);
    (void)state;
    start_client(&client);
    const int fd = accept_by_hand(listener);
    send_by_hand(fd, "HTTP/1.1 400 Bad Request\r\nServer: of pages\r\nConnection: close\r\n\r\n", 64);
    await_client(&client);
    assert_int_equal(client.rc, KOLO_ERR_SYSTEM);
    assert_words(client.message, "is no process of kolo's: choose another port");
    close(fd);
    close(listener);
}

int main(void) {
    const struct CMUnitTest always[] = {
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_port_scanner),
        cmocka_unit_test(test_half_open),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_dribbler),
        cmocka_unit_test(test_slow_but_good),
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_hung_up_at_first),
        cmocka_unit_test(test_hung_up_and_gone),
        cmocka_unit_test(test_always_hung_up),
        cmocka_unit_test(test_something_else_listens),
    };
    const struct CMUnitTest with_libsodium[] = {
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_replay_of_listener),
        cmocka_unit_test(test_changed_on_the_way),
        cmocka_unit_test(test_proofs_are_over_all),
        cmocka_unit_test(test_own_proof_back),
        cmocka_unit_test(test_listener_proves_nothing_first),
    };
    int failed = cmocka_run_group_tests(always, NULL, NULL);
    if (KOLO_HAVE_SODIUM)
        failed += cmocka_run_group_tests(with_libsodium, NULL, NULL);
    return failed;
}
