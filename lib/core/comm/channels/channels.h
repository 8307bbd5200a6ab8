/* A rank's channels (comm/channels/transfer.h): its sends and receives in flight, and the messages put aside. */
#pragma once

#include <stdbool.h>

#include "kolo.h"
#include "comm/step/call_key.h"
#include "shm/layout.h"

/* The envelope of a message, as its cell has it. */
struct kolo_envelope {
    uint32_t from;
    int32_t tag;
    uint32_t dtype;
    uint64_t count;
    uint64_t number;        /* among those of its pair */
    uint64_t chunks_before; /* as in kolo_shared_cell */
};

/* Called when a send or a receive is done and no longer in flight. */
typedef void kolo_transfer_over_fn(void *owner);

/* The reason why a send or a receive cannot go on: *flag of `peer` has not reached `target`. NULL: several flags. */
struct kolo_obstacle {
    const kolo_atomic_u64 *flag;
    uint64_t target;
    uint32_t peer;
};

struct kolo_sending {
    const uint8_t *data;
    uint64_t count;
    kolo_dtype dtype;
    uint32_t to;
    int tag;
    bool is_blocking; /* this rank begins nothing else before it is done */
    kolo_transfer_over_fn *over;
    void *owner;

    /* Its progress; 0 at the beginning. */
    struct kolo_sending *next; /* the one that was begun after it */
    uint64_t number;           /* of the message, once it is posted */
    uint64_t filled;           /* chunks */
    bool is_streamed, is_done;
    struct kolo_obstacle obstacle;
};

struct kolo_receiving {
    uint8_t *data;
    uint64_t count; /* elements that `data` has room for */
    kolo_dtype dtype;
    uint32_t from; /* KOLO_RANKS_MAX: any */
    int tag;       /* KOLO_ANY_TAG: any */
    kolo_transfer_over_fn *over;
    void *owner;

    /* Its progress; 0 at the beginning. */
    struct kolo_receiving *next;
    struct kolo_envelope message; /* once it is matched: what is received */
    uint64_t taken;               /* chunks */
    bool is_matched, is_done;
    int status; /* once it is done: 0, or KOLO_ERR_ARG, of a message of the own rank's */
    struct kolo_obstacle obstacle;
};

/* A rank's progress with one other rank. */
struct kolo_pair {
    uint64_t sent;                 /* messages to it */
    uint64_t taken;                /* of those, as far as this rank has seen */
    uint64_t served;               /* of those, messages that it has asked for and got */
    struct kolo_sending *blocked;  /* the first one to it that waits for a cell */
    uint64_t received;             /* messages from it, those put aside included */
    uint64_t asked;                /* of those, messages that this rank has asked for */
    struct kolo_receiving *asking; /* the receive that has asked last, until it is done */
    bool has_ring;                 /* the ring to it has memory */
    bool is_awaited;               /* of another node: the relays know that this rank may wait for it */
};

/* A message put aside: one that was taken before a receive wanted it, or that a rank has sent to itself. */
struct kolo_aside {
    struct kolo_aside *next; /* the one that came after it */
    struct kolo_envelope envelope;
    bool is_whole; /* its data is in `payload`; otherwise its sender still has it */
    uint8_t payload[];
};

struct kolo_channels {
    struct kolo_pair *pairs; /* one for each rank; NULL: nothing has been sent or received */
    struct kolo_sending *sends;
    struct kolo_receiving *receives;      /* sends and receives in flight, in the order in which they were begun */
    struct kolo_aside *aside;             /* the one that came first */
    struct kolo_aside **end;              /* where the next one's address goes; NULL: there has been none */
    uint64_t chunks;                      /* of this rank's stream that earlier messages took */
    const struct kolo_sending *streaming; /* the send whose message goes through the stream; NULL: none does */
    uint64_t moves;                       /* counts what this rank has published */
    bool has_stream;                      /* this rank's stream has memory */
    bool listens;                         /* as in kolo_shared_mailbox */
    uint32_t next;                        /* the rank to begin with when a message from any rank is looked for */

    /* For checks and messages, while this rank waits for sends and receives and not for a collective. */
    struct kolo_call_key own;          /* one of these calls; or none: this rank does not wait for them */
    struct kolo_call_key theirs;       /* the call that `own` was found not to match; or none */
    uint64_t awaited[KOLO_RANK_WORDS]; /* the ranks that it waits for, as a set (comm/ranks.h) */
    bool awaits_any;                   /* it also waits for a message from any rank */
};

/* Returns whether this rank waits for sends and receives, and so for no collective. */
static inline bool kolo_channels_busy(const struct kolo_channels *channels) {
    return channels->own.collective != 0;
}

static inline bool kolo_channels_in_flight(const struct kolo_channels *channels) {
    return channels->sends || channels->receives;
}

/* Makes `pairs`, once: 0 or KOLO_ERR_NO_SPACE. */
int kolo_channels_prepare(struct kolo_channels *channels, uint32_t ranks);

/* Puts a message aside, as the last one, with so many bytes of `payload`; NULL: not whole. False: no memory. */
bool kolo_aside_add(struct kolo_channels *channels, const struct kolo_envelope *envelope, const uint8_t *payload,
                    size_t bytes);

/* Finds the first message from `from` (KOLO_RANKS_MAX: any rank) with that tag (KOLO_ANY_TAG: any). Returns the place
 * that holds its address, for kolo_aside_remove; NULL: there is none. */
struct kolo_aside **kolo_aside_find(struct kolo_channels *channels, uint32_t from, int tag);
void kolo_aside_remove(struct kolo_channels *channels, struct kolo_aside **place);

void kolo_channels_destroy(struct kolo_channels *channels);
