/* The receiver's part: it matches messages with receives, and takes matched messages as far as possible. */
#include <string.h>

#include "comm/channels/transfer.h"
#include "comm/channels/rings.h"
#include "comm/failure/failure.h"
#include "reduce/copy.h"

static bool fits(const struct kolo_receiving *receiving, const struct kolo_envelope *message) {
    return message->dtype == (uint32_t)receiving->dtype && message->count <= receiving->count;
}

/* Whether a receive without a message would take one from `from` with that tag (KOLO_ANY_TAG: any). */
static bool takes(const struct kolo_receiving *receiving, uint32_t from, int tag) {
    return !receiving->is_matched && (receiving->from == from || receiving->from == KOLO_RANKS_MAX) &&
           (tag == KOLO_ANY_TAG || receiving->tag == tag || receiving->tag == KOLO_ANY_TAG);
}

/* Returns the first one, or with a message the first that it fits. */
static struct kolo_receiving *find(const struct kolo_channels *channels, uint32_t from, int tag,
                                   const struct kolo_envelope *message) {
    struct kolo_receiving *found = channels->receives;
    while (found && !(takes(found, from, tag) && (!message || fits(found, message))))
        found = found->next;
    return found;
}

static struct kolo_envelope to_self(const kolo_comm *comm, const struct kolo_sending *sending) {
    return (struct kolo_envelope){
        .from = comm->global_rank, .tag = sending->tag, .dtype = sending->dtype, .count = sending->count};
}

bool kolo_receiving_is_wrong(kolo_comm *comm, struct kolo_receiving *receiving, const struct kolo_sending *sending) {
    const uint32_t self = comm->global_rank;
    struct kolo_aside **place = kolo_aside_find(&comm->channels, receiving->from, receiving->tag);
    const struct kolo_envelope sent = sending ? to_self(comm, sending) : (struct kolo_envelope){.from = self};
    const bool takes_sent = !place && sending && sending->to == self && takes(receiving, self, sending->tag) &&
                            !find(&comm->channels, self, sending->tag, &sent); /* those before only fail */
    if (!place && !takes_sent)
        return receiving->from == self;
    receiving->message = place ? (*place)->envelope : sent;
    receiving->is_matched = receiving->message.from == self && !fits(receiving, &receiving->message);
    return receiving->is_matched;
}

/* Gives this message to a receive; `payload` has a small one, else is NULL. KOLO_ERR_MISMATCH: no match. */
static int match(kolo_comm *comm, struct kolo_receiving *receiving, const struct kolo_envelope *message,
                 const uint8_t *payload) {
    const bool is_right = fits(receiving, message);
    receiving->is_matched = true;
    receiving->message = *message;
    if (!is_right && message->from == comm->global_rank) { /* no other rank is concerned */
        receiving->is_done = true;
        receiving->status = KOLO_ERR_ARG;
        return 0;
    }
    if (!is_right) {
        comm->channels.own =
            kolo_call_key_of_pair(KOLO_RECV, receiving->dtype, message->from, receiving->tag, receiving->count);
        comm->channels.theirs = kolo_call_key_of_pair(KOLO_SEND, (kolo_dtype)message->dtype, comm->global_rank,
                                                      message->tag, message->count);
        return kolo_failure_publish_pair(comm, message->from);
    }
    receiving->is_done = payload != NULL;
    if (payload && message->count)
        memcpy(receiving->data, payload, kolo_elements_bytes(receiving->dtype, message->count));
    return 0;
}

/* Tells the relays that this rank may wait for the node of rank `from`: they see to it that deaths there are found. */
static void introduce(kolo_comm *comm, uint32_t from) {
    struct kolo_pair *pair = &comm->channels.pairs[from];
    if (kolo_is_near(comm, from) || pair->is_awaited)
        return;
    pair->is_awaited = true;
    kolo_tell_relay(comm, from);
}

static void introduce_to_all(kolo_comm *comm, uint32_t from) {
    if (from < comm->global_size)
        introduce(comm, from);
    else
        for (uint32_t node = 0; node < comm->nodes->nodes; node++)
            introduce(comm, kolo_nodes_rank(comm->nodes, node, 0));
}

int kolo_receiving_begin(kolo_comm *comm, struct kolo_receiving *receiving) {
    struct kolo_channels *channels = &comm->channels;
    struct kolo_receiving **end = &channels->receives;
    while (*end)
        end = &(*end)->next;
    *end = receiving;
    struct kolo_aside **place = kolo_aside_find(channels, receiving->from, receiving->tag);
    if (!place && comm->nodes)
        introduce_to_all(comm, receiving->from);
    if (!place)
        return 0;
    const struct kolo_aside *aside = *place;
    const int rc = match(comm, receiving, &aside->envelope, aside->is_whole ? aside->payload : NULL);
    if (rc == 0 && receiving->status == 0)
        kolo_aside_remove(channels, place);
    return rc;
}

bool kolo_send_to_self(kolo_comm *comm, struct kolo_sending *sending) {
    const struct kolo_envelope message = to_self(comm, sending);
    static const uint8_t nothing;
    const uint8_t *payload = sending->count ? sending->data : &nothing;
    for (struct kolo_receiving *receiving; (receiving = find(&comm->channels, message.from, message.tag, NULL));) {
        match(comm, receiving, &message, payload);
        if (receiving->status == 0)
            return true;
    }
    return kolo_aside_add(&comm->channels, &message, payload, kolo_elements_bytes(sending->dtype, sending->count));
}

/* Takes messages from `from` as long as a receive wants one. Returns 0, or why the communicator broke. */
static int look_at(kolo_comm *comm, uint32_t from) {
    struct kolo_pair *pair = &comm->channels.pairs[from];
    struct kolo_shared_ring *ring = kolo_ring(comm, from, comm->global_rank);
    int rc = 0;
    while (rc == 0 && find(&comm->channels, from, KOLO_ANY_TAG, NULL)) {
        const uint64_t number = pair->received + 1;
        const struct kolo_shared_cell *cell = &ring->cells[number % KOLO_CELLS];
        if (kolo_load_acquire(&cell->sequence) < number) /* pairs with post */
            break;
        const struct kolo_envelope message = {.from = from,
                                              .tag = cell->tag,
                                              .dtype = cell->dtype,
                                              .count = cell->count,
                                              .number = number,
                                              .chunks_before = cell->chunks_before};
        const size_t bytes = kolo_elements_bytes((kolo_dtype)message.dtype, message.count);
        const uint8_t *payload = bytes <= KOLO_CELL_PAYLOAD ? cell->payload : NULL;
        struct kolo_receiving *receiving = find(&comm->channels, from, message.tag, NULL);
        KOLO_POINT("transfer.taking");
        if (receiving)
            rc = match(comm, receiving, &message, payload);
        else if (!kolo_aside_add(&comm->channels, &message, payload, payload ? bytes : 0))
            rc = kolo_failure_publish(comm, KOLO_ERR_SYSTEM, 0);
        pair->received = number;
        if (rc == 0)
            kolo_publish_to(comm, &ring->taken, number, from);
    }
    return rc;
}

/* Looks for the message that a receive wants. */
static int look_for(kolo_comm *comm, struct kolo_receiving *receiving) {
    struct kolo_channels *channels = &comm->channels;
    const kolo_atomic_u64 *senders = comm->segment.mailboxes[comm->rank].senders;
    const bool any = receiving->from == KOLO_RANKS_MAX;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && !receiving->is_matched && i < (any ? comm->global_size : 1); i++) {
        const uint32_t from = any ? (channels->next + i) % comm->global_size : receiving->from;
        const uint64_t word = kolo_load_acquire(&senders[from / 64]); /* pairs with kolo_sending_prepare */
        struct kolo_obstacle obstacle = {&senders[from / 64], word + 1, from};
        if (word >> from % 64 & 1) {
            rc = look_at(comm, from);
            const uint64_t number = channels->pairs[from].received + 1;
            obstacle.flag = &kolo_ring(comm, from, comm->global_rank)->cells[number % KOLO_CELLS].sequence;
            obstacle.target = number;
        }
        if (!any && !receiving->is_matched)
            receiving->obstacle = obstacle;
    }
    if (any && receiving->is_matched)
        channels->next = receiving->message.from + 1;
    return rc;
}

/* Asks for a message that waits for that. Returns false while another receive asks, or this is not served. */
static bool ask(kolo_comm *comm, struct kolo_receiving *receiving) {
    struct kolo_pair *pair = &comm->channels.pairs[receiving->message.from];
    struct kolo_shared_ring *ring = kolo_ring(comm, receiving->message.from, comm->global_rank);
    if (pair->asking && pair->asking != receiving)
        return false;
    if (!pair->asking) {
        pair->asking = receiving;
        ring->asked_number = receiving->message.number;
        kolo_publish_to(comm, &ring->asked, ++pair->asked, receiving->message.from); /* pairs with serve */
    }
    if (kolo_load_acquire(&ring->served) < pair->asked) { /* pairs with serve */
        receiving->obstacle = (struct kolo_obstacle){&ring->served, pair->asked, receiving->message.from};
        return false;
    }
    receiving->message.chunks_before = ring->served_chunks_before;
    return true;
}

/* Empties chunks, as far as they are filled. Returns true if another receive may ask the sender now. */
static bool receive_chunks(kolo_comm *comm, struct kolo_receiving *receiving) {
    const struct kolo_envelope *message = &receiving->message;
    struct kolo_pair *pair = &comm->channels.pairs[message->from];
    struct kolo_shared_stream *stream = &comm->segment.streams[message->from];
    const size_t bytes = kolo_elements_bytes(receiving->dtype, message->count);
    for (const uint64_t chunks = kolo_chunks_of(bytes); receiving->taken < chunks; receiving->taken++) {
        const uint64_t number = message->chunks_before + receiving->taken;
        if (kolo_load_acquire(&stream->filled) <= number) { /* pairs with send_chunks */
            receiving->obstacle = (struct kolo_obstacle){&stream->filled, number + 1, message->from};
            return false;
        }
        kolo_copy_take(receiving->data + receiving->taken * KOLO_CHUNK_BYTES, stream->chunks[number % KOLO_CHUNKS],
                       kolo_chunk_bytes(bytes, receiving->taken), false);
        KOLO_POINT("transfer.emptied");
        kolo_publish_to(comm, &stream->taken, number + 1, message->from);
    }
    receiving->is_done = true;
    if (pair->asking != receiving)
        return false;
    pair->asking = NULL;
    return true;
}

/* Looks at all receives. *again: one that was looked at before may ask now, and nothing else would bring it up. */
static int look_at_all(kolo_comm *comm, bool *again) {
    int rc = 0;
    *again = false;
    for (struct kolo_receiving *receiving = comm->channels.receives; rc == 0 && receiving;
         receiving = receiving->next) {
        receiving->obstacle.flag = NULL;
        if (!receiving->is_matched && comm->global_size > 1 && receiving->from != comm->global_rank)
            rc = look_for(comm, receiving);
        if (rc == 0 && receiving->is_matched && !receiving->is_done &&
            (receiving->message.chunks_before != KOLO_NOT_STREAMED || ask(comm, receiving)))
            *again |= receive_chunks(comm, receiving);
    }
    return rc;
}

int kolo_receives_advance(kolo_comm *comm) {
    bool again = true;
    int rc = 0;
    while (rc == 0 && again)
        rc = look_at_all(comm, &again);
    if (rc == 0)
        kolo_receives_end(comm);
    return rc;
}

void kolo_receives_end(kolo_comm *comm) {
    for (struct kolo_receiving **place = &comm->channels.receives, *receiving; (receiving = *place);) {
        if (!receiving->is_done) {
            place = &receiving->next;
            continue;
        }
        *place = receiving->next;
        receiving->over(receiving->owner);
    }
}
