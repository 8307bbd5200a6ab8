/* The messages between rank 0 and the others while a communicator on several machines is created
 * (internode/assembly/assembly.h), and between nodes while they shrink it (internode/assembly/shrink_nodes.c), after
 * the handshake. All have one size, are little-endian, and begin with mark, version and kind. Numbers are checked on
 * arrival. Unused bytes are zero, so that a message has only one form. */
#pragma once

#include "comm/creation/options.h"
#include "net/connect/address.h"
#include "net/connect/listener.h"
#include "shm/layout.h"

#define KOLO_MESSAGE_BYTES         512
#define KOLO_MESSAGE_ROSTER_RANKS  240
#define KOLO_MESSAGE_LISTENERS_MAX 16
#define KOLO_MESSAGE_TEXT_BYTES    480

enum {
    KOLO_MESSAGE_IDENTITY = 1, /* a rank to rank 0: where its shared memory is */
    KOLO_MESSAGE_TERMS,        /* rank 0 to a rank: what binds all; then as many rosters as all ranks take */
    KOLO_MESSAGE_ROSTER,       /* which node each of some ranks is on */
    KOLO_MESSAGE_LISTENERS,    /* a leader to rank 0: its own listener; rank 0 to a leader: those of all, in pieces */
    KOLO_MESSAGE_READY,        /* a leader to rank 0: it has all that it needs */
    KOLO_MESSAGE_GO,           /* rank 0 to a leader: all leaders have */
    KOLO_MESSAGE_FAILED,       /* either way: the creation has failed, and why */
    KOLO_MESSAGE_SURVIVORS,    /* between nodes that shrink, see internode/assembly/shrink_nodes.c */
    KOLO_MESSAGE_WAIT,         /* the same: the coordinator is still waiting for some nodes */
    KOLO_MESSAGE_KINDS
};

/* The identity of a node's shared memory. Ranks can reach each other's shared memory where these are equal. */
struct kolo_node_identity {
    bool known;       /* false: equal to no other */
    uint8_t boot[16]; /* the kernel's boot id */
    uint64_t device;  /* of the inherited file, else of /dev/shm */
    uint64_t inode;   /* of the inherited file, else 0 */
    uint32_t user;
};

/* The settings that rank 0 decides on for all ranks. */
struct kolo_terms {
    size_t slot_bytes;
    uint32_t threads;
    kolo_algorithm algorithm;
    struct kolo_net_settings net; /* but for rendezvous, engine and zero_copy, which are each rank's own */
};

struct kolo_assembly_message {
    unsigned kind;
    union {
        struct kolo_node_identity identity;
        struct {
            uint8_t session[KOLO_SESSION_BYTES];
            struct kolo_terms terms;
        };
        struct { /* LISTENERS: of nodes; ROSTER: of ranks */
            uint32_t first, count;
            union {
                uint16_t node_of[KOLO_MESSAGE_ROSTER_RANKS];
                struct kolo_address listener[KOLO_MESSAGE_LISTENERS_MAX];
            };
        };
        struct { /* SURVIVORS: who is left, of the sender's node or of all, and where they can be met or shall meet */
            uint64_t ranks[KOLO_RANK_WORDS];
            struct kolo_address meeting;
        };
        struct {
            int status;
            char text[KOLO_MESSAGE_TEXT_BYTES];
        };
    };
};

/* Writes KOLO_MESSAGE_BYTES. Unprintable characters in a text become '?'. */
void kolo_assembly_message_pack(const struct kolo_assembly_message *message, uint8_t *bytes);

/* 0, or -EPROTO: the KOLO_MESSAGE_BYTES are no message of this version, or a number is out of bounds. */
int kolo_assembly_message_parse(const uint8_t *bytes, struct kolo_assembly_message *message);
