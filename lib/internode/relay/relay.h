/* The relay: the part of the leader's first proxy that carries sends and receives between nodes.
 *
 * Ranks send and receive as within a node (comm/channels/transfer.h), by rings and streams. A pair of ranks on two
 * nodes has its ring on both, and a rank that sends has its stream on each node; the two relays keep them alike. What
 * one rank publishes for another on its own node, the relay publishes there in that rank's place, and back. So a
 * message that is under way needs no memory but its cell, which is free on the other node whenever it is free here, and
 * nothing that arrives ever has to wait for room.
 *
 *     frame      by, to                    says
 *     MESSAGE    sender's node, taker's    a cell: its number, tag, dtype, count, payload
 *     CHUNK      sender's node, taker's    a chunk of a large message, by its number
 *     PROGRESS   taker's node, sender's    how many messages of the pair are taken, or how many chunks of the sender;
 *                                          or which message its receiver asks for
 *                sender's node, taker's    where the chunks of that one begin
 *                a rank's node, all        the rank has left, after all it has sent
 *
 * All go by the control stream, in order. On a data stream they would come behind exchanges that may have to wait until
 * a rank makes its next call, for which it may need the message first. In a rank's stream chunks are numbered over all
 * that it sends; between two nodes over what it sends there, so that a node knows which one comes next.
 *
 * A rank that has published something for a rank of another node sets a bit for that in its mailbox, one for itself in
 * kolo_shared_relay.news, adds to `events`, and rings the bell. The relay clears the bits before it looks.
 *
 * Threads. All runs in the thread that drives the proxy. Until somebody here sends, or waits, beyond the node, or a
 * frame for it comes, the proxy's thread looks every 20 ms, or when that bell rings. From then on, for good, it drives
 * all the time (kolo_relay_talks): asleep in its engine, out of which another thread wakes it when the bell rings. So
 * communicators without such messages pay nothing for them; with them, collectives are driven by that thread, too.
 *
 * What a look leaves undone (kolo_relay_serve), and who goes on with it:
 *     chunks that their rank has not filled      that rank, which says so when it has
 *     chunks that the engine still has           the engine, when they have gone (kolo_relay_sent)
 *     chunks that are not taken yet              the taker's node, by TAKEN_CHUNKS
 *     a large message behind another one         its rank: only ranks put messages into streams. The relay has given up
 *                                                the message in front before it frees that one's last chunk
 *     a message asked for meanwhile              its rank, when its stream is free (comm/channels/sending.c)
 *     news that comes during the look            the next look: `events` is read before the bits are cleared, and
 *                                                ranks publish, set the bits and add to `events` in that order
 *
 * Deaths. From then on the relay looks every 20 ms whether the ranks of its node live, since none of them may wait for
 * one for which others wait elsewhere. It tells the other nodes which ranks have left. What comes of it, and which
 * nodes can no longer be reached, is in kolo_shared_relay, where ranks look that wait (comm/failure/failure.c). A rank
 * that waits for another node for the first time says so: then the relay there does all this as well.
 *
 *     death of                     is found by
 *     a rank that is not a leader  its node's relay, which publishes it; what the rank had published goes first
 *     a leader                     the other nodes: their connections to it end. On its node: as any death
 *     a rank, which had left       who needs it still: the bit in `left`
 *
 * Frames come from nodes that have proved to know the secret, and are checked all the same: that the ranks are on those
 * nodes, that there is room, that nothing comes twice, that a message is what it says. Else the sender is given up. */
#ifndef KOLO_INTERNODE_RELAY_RELAY_H
#define KOLO_INTERNODE_RELAY_RELAY_H

#include "comm/failure/failure.h"
#include "internode/internode.h"
#include "net/engine.h"

struct kolo_relay;

/* KOLO_ERR_SYSTEM. */
int kolo_relay_create(struct kolo_relay **relay, kolo_comm *comm, kolo_engine *engine);

/* Ends its thread, and gives up what it watches; then the engine may go, and then it is freed. In a forked child it is
 * only freed. NULL is fine. */
void kolo_relay_stop(struct kolo_relay *relay);
void kolo_relay_free(struct kolo_relay *relay);

/* Where the proxy's thread sleeps while it has nothing to drive, and whether there is news since the last serve. */
kolo_bell *kolo_relay_bell(struct kolo_relay *relay);
bool kolo_relay_has_news(const struct kolo_relay *relay);

/* Whether the proxy's thread is to drive all the time. Any thread. */
bool kolo_relay_talks(const struct kolo_relay *relay);

/* Passes on what ranks of this node have published. */
void kolo_relay_serve(struct kolo_relay *relay);

/* Asked every 20 ms: tells who has left. True if a rank has died: *found says which, and how. */
bool kolo_relay_look(struct kolo_relay *relay, struct kolo_failure_report *found);

/* A chunk arrives: 0 and *where, or KOLO_ERR_VERSION. */
int kolo_relay_place(struct kolo_relay *relay, uint32_t node, const struct kolo_frame *frame, void **where);

/* A frame has come: 0, KOLO_ERR_VERSION where it cannot be, KOLO_ERR_NO_SPACE. */
int kolo_relay_take(struct kolo_relay *relay, uint32_t node, const struct kolo_frame *frame, const uint8_t *payload);

/* A chunk has been handed over. */
void kolo_relay_sent(struct kolo_relay *relay, const struct kolo_frame *frame);

/* All connections to a node have ended. left: it had said so. */
void kolo_relay_end(struct kolo_relay *relay, uint32_t node, bool left);

#endif
