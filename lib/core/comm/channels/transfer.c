/* The life of sends and receives in flight: beginning, advancing, waiting. */
#include "comm/channels/transfer.h"

#include "comm/channels/rings.h"
#include "comm/failure/failure.h"

void kolo_sending_begin(kolo_comm *comm, struct kolo_sending *sending) {
    struct kolo_sending **end = &comm->channels.sends;
    while (*end)
        end = &(*end)->next;
    *end = sending;
}

int kolo_transfer_advance(kolo_comm *comm) {
    if (comm->channels.sends)
        kolo_sends_advance(comm);
    return comm->channels.receives ? kolo_receives_advance(comm) : 0;
}

/* Describes this wait, for the message of a failure. */
static void describe(kolo_comm *comm) {
    struct kolo_channels *channels = &comm->channels;
    const struct kolo_sending *sending = channels->sends;
    const struct kolo_receiving *receiving = channels->receives;
    memset(channels->awaited, 0, sizeof channels->awaited);
    channels->awaits_any = false;
    for (; sending; sending = sending->next)
        kolo_ranks_add(channels->awaited, sending->to);
    for (; receiving; receiving = receiving->next) {
        const bool any = receiving->from == KOLO_RANKS_MAX && !receiving->is_matched;
        channels->awaits_any |= any;
        if (!any && receiving->from != comm->global_rank)
            kolo_ranks_add(channels->awaited, receiving->is_matched ? receiving->message.from : receiving->from);
    }
    sending = channels->sends;
    receiving = channels->receives;
    channels->own =
        receiving
            ? kolo_call_key_of_pair(KOLO_RECV, receiving->dtype, receiving->from, receiving->tag, receiving->count)
            : kolo_call_key_of_pair(KOLO_SEND, sending->dtype, sending->to, sending->tag, sending->count);
}

/* Returns the one flag without which nothing in flight can go on; flag NULL: there is no such flag. */
static struct kolo_obstacle only_obstacle(const struct kolo_channels *channels) {
    const struct kolo_sending *sending = channels->sends;
    const struct kolo_receiving *receiving = channels->receives;
    if (!receiving && !sending->next)
        return sending->obstacle;
    if (!sending && !receiving->next)
        return receiving->obstacle;
    return (struct kolo_obstacle){0};
}

/* Returns the peer of a wait for `rank`: a local rank, or the proxy, which runs the relay. */
static uint32_t peer_of(const kolo_comm *comm, uint32_t rank) {
    return kolo_is_near(comm, rank) ? kolo_local_of(comm, rank) : KOLO_PEER_PROXY;
}

/* Returns a peer that something in flight waits for: this rank itself, where it waits for no other. */
static uint32_t awaited_peer(const kolo_comm *comm) {
    const uint32_t all = comm->global_size, first = kolo_ranks_lowest(comm->channels.awaited, all);
    return peer_of(comm, first < all ? first : (comm->global_rank + comm->channels.awaits_any) % all);
}

/* Makes `events` count from now on. Returns whether it has counted before. */
static bool listen(kolo_comm *comm) {
    struct kolo_channels *channels = &comm->channels;
    const bool has_listened = channels->listens;
    if (!has_listened) {
        KOLO_POINT("transfer.listening");
        channels->listens = true;
        kolo_store_release(&comm->segment.mailboxes[comm->rank].listens, 1);
        kolo_fence_sleeper();
    }
    return has_listened;
}

/* Waits until `events` has gone beyond `seen`. */
static int await_event(kolo_comm *comm, uint64_t seen) {
    struct kolo_shared_mailbox *mailbox = &comm->segment.mailboxes[comm->rank];
    if (!listen(comm))
        return 0; /* the caller looks at everything again */
    KOLO_POINT("transfer.awaiting_event");
    return kolo_wait_at_least(&comm->waiter, &mailbox->events, seen + 1, &mailbox->bell, awaited_peer(comm));
}

/* Waits for the one flag. */
static int await_flag(kolo_comm *comm, const struct kolo_obstacle *obstacle) {
    const uint32_t peer = peer_of(comm, obstacle->peer);
    KOLO_POINT("transfer.awaiting");
    return kolo_wait_at_least(
        &comm->waiter, obstacle->flag, obstacle->target,
        peer == KOLO_PEER_PROXY ? &comm->segment.internode->lanes[0].bell : &comm->segment.signals[peer].bell, peer);
}

int kolo_transfer_look(kolo_comm *comm) {
    struct kolo_shared_mailbox *mailbox = &comm->segment.mailboxes[comm->rank];
    listen(comm);
    const uint64_t seen = kolo_load_acquire(&mailbox->events); /* pairs with kolo_publish_to */
    int rc = kolo_transfer_advance(comm);
    if (rc < 0 || !kolo_channels_in_flight(&comm->channels))
        return rc;
    describe(comm);
    /* A message that a rank published before it ended or left still counts: then there is an event. */
    const struct kolo_wait wait = {
        .flag = &mailbox->events, .target = seen + 1, .bell = &mailbox->bell, .peer = awaited_peer(comm)};
    rc = kolo_failure_check(&comm->waiter, &wait);
    comm->channels.own = (struct kolo_call_key){0};
    return rc;
}

/* Returns whether to look at everything again, for the `turn`th time, before this rank sleeps. */
static bool may_spin(kolo_waiter *waiter, uint32_t turn) {
    return turn < waiter->spins && kolo_wait_neighbours(waiter, UINT32_MAX, INT64_MAX) != KOLO_NEIGHBOUR_BEHIND;
}

int kolo_transfer_run(kolo_comm *comm, kolo_transfer_until_fn *until, void *argument, bool is_interruptible) {
    const kolo_atomic_u64 *events = &comm->segment.mailboxes[comm->rank].events;
    struct kolo_channels *channels = &comm->channels;
    int rc = 0;
    for (uint32_t turn = 0; rc == 0; turn++) {
        const uint64_t seen = kolo_load_acquire(events), moves = channels->moves; /* pairs with kolo_publish_to */
        rc = kolo_transfer_advance(comm);
        if (rc < 0 || until(argument) || !kolo_channels_in_flight(channels))
            break;
        if (moves != channels->moves)
            turn = 0;
        const struct kolo_obstacle only = only_obstacle(channels);
        describe(comm);
        if (only.flag && !is_interruptible) {
            rc = await_flag(comm, &only);
        } else if (may_spin(&comm->waiter, turn)) {
            kolo_pause();
        } else {
            rc = await_event(comm, seen);
            turn = 0;
        }
    }
    channels->own = (struct kolo_call_key){0};
    return rc;
}

void kolo_transfer_interrupt(kolo_comm *comm) {
    struct kolo_shared_mailbox *mailbox = &comm->segment.mailboxes[comm->rank];
    kolo_fetch_add(&mailbox->events, 1);
    kolo_bell_ring_slowly(&mailbox->bell);
}
