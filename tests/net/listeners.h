/* What tests of listeners share: secrets, listeners on loopback, clients in threads of their own, and peers that speak
 * by hand. All of it fails the test where it cannot do its work. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/connect/listener.h"
#include "net/connect/handshake.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

/* The secret of KOLO_SECRET=words; NULL: of KOLO_SECRET=none. */
struct kolo_secret secret_of(const char *words);

/* The secret of most tests, or none in a build without libsodium. */
struct kolo_secret usual_secret(void);

/* "127.0.0.1:port" or, of family AF_INET6, "[::1]:port". */
struct kolo_address loopback(int family, uint16_t port);
bool has_ipv6(void);

/* A listener at a port of the kernel's choice. */
struct kolo_listener *open_listener(int family, const struct kolo_secret *secret, struct kolo_address *bound);

/* Rank `rank` of 4 of job "job", to join. */
struct kolo_introduction introduce(uint32_t rank);

struct client {
    struct kolo_address to, from;
    struct kolo_secret secret;
    struct kolo_introduction self;
    int64_t deadline_ns;
    int alert_fd;
    pthread_t thread;
    int rc, fd;
    int64_t took_ns, ended_ns;
    char message[1024];
};

/* Fills it: from anywhere, for 10 s, without an alert. */
/* This thread's, begun anew. */
struct kolo_awake *fresh_awake(void);

struct client make_client(const struct kolo_address *to, const struct kolo_secret *secret, uint32_t rank);
void start_client(struct client *client);
void await_client(struct client *client); /* and closes its socket, if it has one */

/* Answers for up to ns: the rank that came, whose socket is closed; or -1. */
int answer_rank(struct kolo_listener *listener, int64_t ns);

/* By hand. */
int listen_by_hand(struct kolo_address *bound);
int accept_by_hand(int listener);
int connect_by_hand(const struct kolo_address *to);
void send_by_hand(int fd, const void *bytes, size_t count);

/* True if just these many bytes come; false if the peer ends the connection before. */
bool receive_by_hand(int fd, void *bytes, size_t count);

/* True if the peer ends the connection within ns, without another byte. */
bool is_hung_up(int fd, int64_t ns);

void assert_words(const char *text, const char *words);
