/* The connections of an assembly: rank 0 has one to every other rank, and each other rank has one to rank 0. They carry
 * messages and failures. Whatever the other ranks do, a wait ends with a message, the end of a connection, or the
 * deadline. This header is private to assembly_*.c. */
#ifndef KOLO_INTERNODE_ASSEMBLY_ASSEMBLY_PEERS_H
#define KOLO_INTERNODE_ASSEMBLY_ASSEMBLY_PEERS_H

#include <poll.h>

#include "internode/assembly/assembly.h"

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
    char place[KOLO_ADDRESS_TEXT_BYTES]; /* where the listener is, or was */
    unsigned awaited;                    /* the kind of message without which a rank is late */
    uint32_t counts[KOLO_MESSAGE_KINDS]; /* how many ranks have sent one */
    struct pollfd *polled;               /* [size] */
};

/* Sends a message, and waits until it is sent. */
int kolo_assembly_send(struct kolo_assembly *assembly, uint32_t rank, const struct kolo_assembly_message *message);

/* Asks kolorun and the rejoin, if there are any. Returns 0, or the reason why this rank need not wait any more. */
int kolo_assembly_look(struct kolo_assembly *assembly);

/* Rank 0: waits for at most wait_ns until something comes, and takes all that has come. */
int kolo_assembly_serve(struct kolo_assembly *assembly, int64_t wait_ns);

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

#endif
