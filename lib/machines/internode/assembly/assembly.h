/* An assembly: the ranks of a job on several machines find each other, before those of each node meet in shared memory
 * (comm/creation/rendezvous.h).
 *
 * Roles. Rank 0 keeps a connection to every other rank. The lowest rank of each node is its leader.
 *
 *   1. Rank 0 opens a listener at the rendezvous address. Every other rank connects there, sends JOIN with its rank,
 *      and then says where its shared memory is: the kernel's boot id, and device and inode of the place where its
 *      node's ranks would meet (the inherited file, or else /dev/shm). Ranks for which these are equal are one node.
 *   2. Rank 0 closes the listener once all ranks have come. It tells each rank which ranks are on which node, a session
 *      (random, new for each creation), and the settings that bind all ranks (struct kolo_terms).
 *   3. Each node's ranks meet in shared memory. A rank that is no leader then sends READY, and closes its connection as
 *      soon as the others can see in shared memory whether it lives; until then rank 0 watches it.
 *   4. Each leader opens a listener at its own address once all ranks of its node are attached, tells rank 0 that
 *      address, and gets those of all leaders. Node i connects to nodes 0 .. i - 1, by the control stream and
 *      then the data streams of each lane, with a key derived from secret and session, and answers the others.
 *   5. Each leader makes all that it needs to begin with, tells rank 0 that it is ready, and goes on when rank 0 says
 *      that all leaders are. KOLO_NET_SILENCE_MS begins only then: a leader that is linked already may wait for long.
 *      The leader keeps its listener, and answers there only if the communicator is to be shrunk
 *      (internode/assembly/shrink_nodes.c).
 *
 * Any failure, including the end of a connection and the deadline, ends the creation on all ranks: rank 0 tells the
 * other ranks, and a leader tells its node through the job file. A rank whose deadline has passed asks rank 0 which
 * ranks are missing before it gives up. */
#pragma once

#include <poll.h>

#include "base/clock.h"
#include "internode/assembly/assembly_message.h"
#include "comm/ranks.h"
#include "comm/creation/other_nodes.h"

struct kolo_assembly_peer {
    int fd;                              /* -1: none, or none any more */
    uint8_t session[KOLO_SESSION_BYTES]; /* rank 0: as in its introduction */
    bool departs;                        /* rank 0: the peer leads no node, and parts when it is READY */
    unsigned heard;                      /* rank 0: the kind of the last message from it; 0: none yet */
    size_t got;                          /* of the next message */
    uint8_t bytes[KOLO_MESSAGE_BYTES];
    struct kolo_node_identity identity; /* rank 0: where the peer runs */
    struct kolo_address listener;       /* of a leader */
};

struct kolo_assembly {
    struct kolo_settings settings;
    uint32_t rank, size;
    struct kolo_awake awake; /* for all times here */
    int64_t deadline_ns;
    struct kolo_address rendezvous;
    struct kolo_secret secret;
    struct kolo_rejoin *rejoin;       /* NULL: none */
    int64_t look_ns;                  /* when to ask kolorun and the rejoin next */
    bool over;                        /* the creation has failed, and the others know */
    bool asked;                       /* rank 0: another rank, whose time is up, asks which ranks are missing */
    char reason[1024];                /* of the failure, as the others are told */
    uint32_t ended;                   /* the rank whose end that was; UINT32_MAX: none */
    struct kolo_assembly_peer *peers; /* [size]; a rank that is not 0 is connected with rank 0 alone */
    /* Rank 0's. */
    struct kolo_listener *listener;      /* NULL: not open */
    int spare;                           /* a descriptor to give up for those that must be told of a failure; or < 0 */
    char place[KOLO_ADDRESS_TEXT_BYTES]; /* where the listener is, or was */
    unsigned awaited;                    /* the kind of message without which a rank is late */
    uint32_t counts[KOLO_MESSAGE_KINDS]; /* how many ranks have sent one */
    struct pollfd *polled;               /* [size] */
};

/* The result of the first part; `nodes` is the caller's to free. */
struct kolo_membership {
    struct kolo_nodes nodes;
    uint32_t node; /* of this rank */
    uint8_t session[KOLO_SESSION_BYTES];
    struct kolo_terms terms;
    char job[KOLO_JOB_NAME_BYTES]; /* a name of this creation's, under which the ranks of a node can meet in /dev/shm */
};

/* The first part of the assembly, which every rank takes; settings->rendezvous is set. `rejoin` is NULL but after a
 * failure, and must outlive the assembly. The caller must close the assembly, even if this fails (closing NULL is
 * fine). KOLO_ERR_TIMEOUT lists the ranks that never came; MISMATCH: duplicate rank, different sizes or jobs;
 * PEER_DEAD; VERSION; SYSTEM; ARG. */
int kolo_assembly_gather(struct kolo_assembly **assembly, const struct kolo_settings *settings,
                         struct kolo_rejoin *rejoin, struct kolo_membership *membership);

/* Sockets from one leader to another. */
static inline uint32_t kolo_assembly_sockets(const struct kolo_terms *terms) {
    return terms->net.lanes * (1 + terms->net.streams);
}

/* Looks, without waiting, whether the creation has failed elsewhere: 0, or the status. For ranks whose nodes meet. */
int kolo_assembly_check(struct kolo_assembly *assembly);

/* A rank that is no leader calls this when it has met the ranks of its node. */
void kolo_assembly_depart(struct kolo_assembly *assembly);

/* Rank 0 calls this after kolo_assembly_check has failed with TIMEOUT. True if the check failed only because another
 * rank asks which ranks are missing. Then the caller, which waits for ranks of its node, has to answer. */
bool kolo_assembly_is_asked(struct kolo_assembly *assembly);

/* The deadline of the creation. A rank that is no leader waits a moment longer, to hear what its leader hears. */
int64_t kolo_assembly_deadline_ns(const struct kolo_assembly *assembly, bool leads);

/* The second part, for leaders of two nodes or more: fds[node * kolo_assembly_sockets(terms)] becomes the control
 * socket of lane 0 to that node, and its data sockets and those of the other lanes follow. Entries of this node are -1,
 * and all entries are where the call fails. *listener is NULL or a listener that the leader has kept. It becomes the
 * one at which this leader can be reached, and stays as it was on failure; where `listener` is NULL, the listener is
 * closed. `listeners`, unless NULL, gets the addresses of all nodes' listeners, KOLO_ADDRESS_WIRE_BYTES each. */
int kolo_assembly_link(struct kolo_assembly *assembly, const struct kolo_membership *membership, int *fds,
                       struct kolo_listener **listener, uint8_t *listeners);

/* The last part: the same leaders call it once they have all that they need to begin. It returns when all leaders are
 * ready, on all of them at the same moment as far as messages allow. If a leader ends between the others' return and
 * its own, its node has no communicator. */
int kolo_assembly_agree(struct kolo_assembly *assembly, const struct kolo_membership *membership);

/* Tells the others, as far as possible, that the creation has failed here with `status`, and returns `status`. */
int kolo_assembly_fail(struct kolo_assembly *assembly, int status);

void kolo_assembly_close(struct kolo_assembly *assembly);

/* The connections, for assembly_*.c. They carry messages and failures. Whatever the other ranks do, a wait ends with a
 * message, the end of a connection, or the deadline. */

/* Sends a message, and waits until it is sent. */
int kolo_assembly_send(struct kolo_assembly *assembly, uint32_t rank, const struct kolo_assembly_message *message);

/* Rank 0: waits until `count` ranks have sent a message of that kind. */
int kolo_assembly_serve_until(struct kolo_assembly *assembly, unsigned kind, uint32_t count);

/* Answers at a listener until `missing` of those awaited have come, and looks at the other connections now and then.
 * `take` gets each process that has proved that it knows the secret, and its socket to keep or close. It returns 1 if
 * the process is one of those awaited, 0 if it is another one, or a failure. */
int kolo_assembly_answer(struct kolo_assembly *assembly, struct kolo_listener *listener, uint32_t missing,
                         int (*take)(void *owner, int fd, const struct kolo_introduction *who), void *owner);

/* Ranks other than 0: waits for rank 0's next message, which must be of that kind. */
int kolo_assembly_await(struct kolo_assembly *assembly, unsigned kind, struct kolo_assembly_message *message);

/* Fails with "rank R: text", and keeps the text for the others. */
int kolo_assembly_say(struct kolo_assembly *assembly, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Fails, after the deadline, with the ranks that were missing. */
int kolo_assembly_timeout(struct kolo_assembly *assembly);

/* Tells a process that is no peer why it is refused, and closes its connection. */
void kolo_assembly_turn_away(const struct kolo_assembly *assembly, int fd, int status);

/* Closes the connection to a rank; one that is closed is fine. */
void kolo_assembly_part(struct kolo_assembly *assembly, uint32_t rank);
