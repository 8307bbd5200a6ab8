/* For tests of exchanges: a network in the engine's place. It hands messages over, cuts them into frames and delivers
 * those in any order, as a seed says. All nodes are in this process. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "internode/exchange.h"

enum { NODES_MAX = 10, LANES_MAX = 3, SENDS_MAX = 4096 };

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A message on its way. */
struct send {
    uint32_t from, to, lane;
    struct kolo_frame frame;
    const void *payload; /* until handed over; NULL then */
    uint8_t *copy;
    uint32_t delivered; /* bytes; all of them and a frame without any: over */
    bool over;
};

extern uint64_t seed;
extern struct send sends[SENDS_MAX];
extern uint32_t send_count;
extern struct kolo_exchange_state *states[NODES_MAX][LANES_MAX];
extern uint64_t sent_bytes[NODES_MAX][NODES_MAX]; /* of data, from one to the other */
extern uint32_t told;                             /* control frames, which arrive at once */

uint32_t draw(uint32_t end);

/* Makes the states of all lanes; comms[node] has what they look at. */
void create_states(kolo_comm *comms, uint32_t nodes, uint32_t lanes);
void destroy_states(uint32_t nodes, uint32_t lanes);

/* How many lanes of all nodes have found a mismatch; *number, unless NULL, of which call, as the finder counts. */
uint32_t count_mismatches(uint64_t *number);

/* Hands a message over to the network. */
void hand_over(struct send *send);

/* Delivers a piece of a message, if there is room for it. */
bool deliver(struct send *send);

/* Delivers all that is under way to a node. */
void deliver_to(uint32_t node);

/* Forgets all that is under way. */
void drop_sends(void);

/* All tickets of a node below it are over. */
uint64_t done_by(uint32_t node, uint32_t lanes);

struct run {
    const char *name;
    uint32_t nodes, lanes, tickets;
    void (*begin)(const void *context, uint32_t node, uint32_t ticket); /* calls kolo_exchange_begin */
    const void *context;
};

/* Runs all tickets to their end, the nodes in any order. */
void run_network(const struct run *run);
