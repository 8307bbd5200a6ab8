/* The ends of a channel: how sender and receiver publish, see comm/channels/transfer.h. */
#ifndef KOLO_COMM_CHANNELS_ENDS_H
#define KOLO_COMM_CHANNELS_ENDS_H

#include "comm/channels/rings.h"
#include "sync/point.h"

/* Tells the relay that this rank has news for a rank of another node. */
static inline void kolo_tell_relay(kolo_comm *comm, uint32_t peer) {
    struct kolo_shared_relay *relay = &comm->segment.internode->relay;
    KOLO_POINT("transfer.telling");
    kolo_set_bits(&comm->segment.mailboxes[comm->rank].news[peer / 64], UINT64_C(1) << peer % 64);
    kolo_set_bits(&relay->news[comm->rank / 64], UINT64_C(1) << comm->rank % 64);
    kolo_fetch_add(&relay->events, 1);
    kolo_bell_ring(&comm->waiter, &relay->bell);
    KOLO_POINT("transfer.told");
}

/* Publishes `value` in this rank's own flag, for `peer`. */
static inline void kolo_publish_to(kolo_comm *comm, kolo_atomic_u64 *flag, uint64_t value, uint32_t peer) {
    comm->channels.moves++;
    if (!kolo_is_near(comm, peer)) {
        kolo_store_release(flag, value); /* pairs with the relay's look */
        kolo_tell_relay(comm, peer);
        return;
    }
    struct kolo_shared_mailbox *mailbox = &comm->segment.mailboxes[kolo_local_of(comm, peer)];
    kolo_publish(&comm->waiter, flag, value, &comm->signal->bell);
    if (kolo_load_relaxed(&mailbox->listens)) {
        KOLO_POINT("transfer.counting");
        kolo_fetch_add(&mailbox->events, 1);
        kolo_bell_ring(&comm->waiter, &mailbox->bell);
    }
    KOLO_POINT("transfer.published");
}

#endif
