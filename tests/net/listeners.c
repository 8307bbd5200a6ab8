#include "listeners.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

enum { BY_HAND_MS = 30000 };

struct kolo_secret secret_of(const char *words) {
    struct kolo_secret secret;
    unsetenv("KOLO_SECRET_FILE");
    setenv("KOLO_SECRET", words ? words : "none", 1);
    if (kolo_secret_read(&secret) < 0)
        fail_msg("%s", kolo_error_message());
    return secret;
}

struct kolo_secret usual_secret(void) {
    return secret_of(KOLO_HAVE_SODIUM ? "what only ranks of the job know" : NULL);
}

struct kolo_address loopback(int family, uint16_t port) {
    struct kolo_address address;
    assert_int_equal(kolo_address_parse("loopback", family == AF_INET ? "127.0.0.1:1" : "[::1]:1", &address), 0);
    kolo_address_set_port(&address, port);
    return address;
}

bool has_ipv6(void) {
    const int fd = socket(AF_INET6, SOCK_STREAM, 0);
    const struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&own, sizeof own) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

struct kolo_listener *open_listener(int family, const struct kolo_secret *secret, struct kolo_address *bound) {
    struct kolo_listener *listener = NULL;
    const struct kolo_address address = loopback(family, 0);
    if (kolo_listener_open(&listener, &address, secret, bound) < 0)
        fail_msg("%s", kolo_error_message());
    assert_non_null(listener);
    assert_int_not_equal(kolo_address_port(bound), 0);
    return listener;
}

struct kolo_introduction introduce(uint32_t rank) {
    return (struct kolo_introduction){.role = KOLO_ROLE_JOIN, .rank = rank, .size = 4, .job = "job"};
}

struct client make_client(const struct kolo_address *to, const struct kolo_secret *secret, uint32_t rank) {
    return (struct client){.to = *to,
                           .secret = *secret,
                           .self = introduce(rank),
                           .deadline_ns = kolo_clock_ns() + 10 * S,
                           .alert_fd = -1,
                           .fd = -1};
}

struct kolo_awake *fresh_awake(void) {
    static _Thread_local struct kolo_awake awake;
    kolo_awake_begin(&awake, S);
    return &awake;
}

static void *connect_client(void *argument) {
    struct client *client = argument;
    const int64_t begin_ns = kolo_clock_ns();
    const struct kolo_connecting wanted = {.to = &client->to,
                                           .from = client->from.bytes ? &client->from : NULL,
                                           .secret = &client->secret,
                                           .self = client->self,
                                           .awake = fresh_awake(),
                                           .deadline_ns = client->deadline_ns,
                                           .alert_fd = client->alert_fd};
    client->rc = kolo_connect(&wanted, &client->fd);
    client->ended_ns = kolo_clock_ns();
    client->took_ns = client->ended_ns - begin_ns;
    snprintf(client->message, sizeof client->message, "%s", client->rc < 0 ? kolo_error_message() : "");
    return NULL;
}

void start_client(struct client *client) {
    assert_int_equal(pthread_create(&client->thread, NULL, connect_client, client), 0);
}

void await_client(struct client *client) {
    assert_int_equal(pthread_join(client->thread, NULL), 0);
    assert_int_equal(client->rc == 0, client->fd >= 0);
    if (client->fd >= 0)
        close(client->fd);
}

int answer_rank(struct kolo_listener *listener, int64_t ns) {
    struct kolo_introduction who;
    int fd = -1;
    const int rc = kolo_listener_accept(listener, ns, &fd, &who);
    if (rc < 0)
        fail_msg("%s", kolo_error_message());
    if (rc == 1)
        return -1;
    assert_true(fd >= 0);
    assert_string_equal(who.job, "job");
    close(fd);
    return (int)who.rank;
}

int listen_by_hand(struct kolo_address *bound) {
    *bound = loopback(AF_INET, 0);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&bound->storage, bound->bytes), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&bound->storage, &bound->bytes), 0);
    return fd;
}

int accept_by_hand(int listener) {
    struct pollfd polled = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, BY_HAND_MS), 1);
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

int connect_by_hand(const struct kolo_address *to) {
    const int fd = socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&to->storage, to->bytes) < 0)
        fail_msg("connect: %s", strerror(errno));
    return fd;
}

void send_by_hand(int fd, const void *bytes, size_t count) {
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

bool receive_by_hand(int fd, void *bytes, size_t count) {
    for (size_t received = 0; received < count;) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        if (poll(&polled, 1, BY_HAND_MS) != 1)
            fail_msg("nothing has come for %d ms", BY_HAND_MS);
        const ssize_t more = recv(fd, (char *)bytes + received, count - received, 0);
        if (more <= 0)
            return false;
        received += (size_t)more;
    }
    return true;
}

bool is_hung_up(int fd, int64_t ns) {
    char byte;
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, (int)(ns / MS)) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

void assert_words(const char *text, const char *words) {
    if (!strstr(text, words))
        fail_msg("'%s' is not in '%s'", words, text);
}
