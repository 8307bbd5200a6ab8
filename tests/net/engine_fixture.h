/* Sides: an engine, and an owner that keeps what arrives in inboxes of just the expected size and counts what it is
 * told. Payloads follow from seed, sender, receiver, ticket and position. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/engine.h"

enum { SIDES_MAX = 3, TICKETS_MAX = 48 };

struct inbox {
    uint8_t *bytes;
    uint32_t room;
    uint64_t arrived_bytes;
    unsigned frames;
    struct kolo_frame last;
};

struct side {
    kolo_engine *engine;
    uint32_t self;
    unsigned later_one_in; /* place says KOLO_PLACE_LATER once in so many; 0: never */
    bool closed;           /* place says so always */
    int verdict;           /* what place returns instead, if not 0 */
    uint64_t random;
    uint8_t control[KOLO_CONTROL_BYTES_MAX]; /* where payloads of control go */
    struct inbox inbox[SIDES_MAX][TICKETS_MAX];
    unsigned arrived, placed, sent, held;
    unsigned left;
    unsigned ended[SIDES_MAX];
    int error[SIDES_MAX];
    const char *complaint; /* the first thing that was wrong; asserts are for the main thread */
};

typedef enum sockets_kind { SOCKETS_TCP, SOCKETS_UNIX } sockets_kind;

extern uint64_t fixture_seed;

/* The kinds of engine that there are here. */
unsigned fixture_kinds(kolo_net_engine kinds[2]);

/* Calls a test with each of them, and fails where `side` has a complaint afterwards. */
void fixture_with_each(const struct side *side, void (*test)(kolo_net_engine kind));

/* Memory of just that size, to be freed; never NULL. */
uint8_t *fixture_payload(uint32_t from, uint32_t to, uint64_t ticket, uint32_t bytes);

/* Two connected sockets; buffer_bytes: of the kernel's buffers, 0: as they are. */
void fixture_sockets(sockets_kind kind, int buffer_bytes, int fds[2]);

int side_open(struct side *side, uint32_t self, const struct kolo_engine_options *options);

/* A side with one neighbour, number 0, which the test plays itself with raw sockets: fds[0] is control, then data. */
void side_open_raw(struct side *side, kolo_net_engine kind, uint32_t streams, int64_t silence_ns, int *fds);

void side_expect(struct side *side, uint32_t from, uint64_t ticket, uint32_t bytes);

/* True where all of it has arrived, and is right. */
bool side_has(const struct side *side, uint32_t from, uint64_t ticket);

/* Runs until the word is at least the value, for at most five seconds; true if it is. */
bool side_run_until(struct side *side, const unsigned *word, unsigned value);

/* Runs for a while in which the test expects nothing to happen. */
void side_run_idle(struct side *side);

void side_close(struct side *side, int64_t linger_ns);

/* A frame as bytes: 0 if it could not be written as a whole. */
bool raw_put(int fd, const struct kolo_frame *frame, const void *payload);

int64_t fixture_now_ns(void);
