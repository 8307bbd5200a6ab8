/* The relay: the part of the leader's first proxy that carries sends and receives between nodes.
 *
 * Ranks send and receive as within a node (comm/channels/transfer.h), by rings and streams. A pair of ranks on two
 * nodes has its ring on both nodes, and a rank that sends has its stream on each node; the two relays keep them alike.
 * A rank publishes on its own node; the relay of the peer's node publishes the same there in that rank's place, and the
 * other way round. So a message under way needs no memory but its cell, which is free on the other node whenever it is
 * free here, and nothing that arrives ever waits for room.
 *
 *     frame      by, to                    says
 *     MESSAGE    sender's node, taker's    a cell: its number, tag, dtype, count, payload
 *     CHUNK      sender's node, taker's    a chunk of a large message, by its number
 *     PROGRESS   taker's node, sender's    how many messages of the pair are taken, or how many chunks of the sender;
 *                                          or which message its receiver asks for
 *                sender's node, taker's    where the chunks of that one begin
 *                a rank's node, all        the rank has left, after all it has sent
 *
 * All frames go by the control stream, in order. On a data stream they would come behind exchanges that may have to
 * wait until a rank makes its next call, and the rank may need the message before that call. Chunks in a rank's stream
 * are numbered over all that the rank sends. Between two nodes they are numbered over what the rank sends to that node,
 * so that the node knows which one comes next.
 *
 * A rank that has published something for a rank of another node sets a bit for that in its mailbox, one for itself in
 * kolo_shared_relay.news, adds to `events`, and rings the bell. The relay clears the bits before it looks.
 *
 * Threads. The relay runs in the thread that drives the proxy. At first the proxy's thread looks every 20 ms, or when
 * that bell rings. It drives all the time (kolo_relay_talks), for good, once a rank here sends or waits beyond the
 * node, or a frame for the relay comes. It then sleeps in its engine, out of which another thread wakes it when the
 * bell rings. So communicators without such messages pay nothing for them.
 *
 * Frames come from nodes that have proved that they know the secret. The relay checks them all the same, and gives up a
 * node that sends another frame. machines/README.md, "Messages between ranks of two nodes", says which party goes on
 * with what a look leaves undone, and who finds which death. */
#pragma once

#include "comm/failure/failure.h"
#include "internode/internode.h"
#include "net/engine.h"

struct kolo_relay;

/* KOLO_ERR_SYSTEM. */
int kolo_relay_create(struct kolo_relay **relay, kolo_comm *comm, kolo_engine *engine);

/* Ends the relay's thread, and gives up what it watches. After that the engine may go, and then the relay is freed. In
 * a forked child the relay is only freed. NULL is fine. */
void kolo_relay_stop(struct kolo_relay *relay);
void kolo_relay_free(struct kolo_relay *relay);

/* The bell by which an idle proxy's thread sleeps, and whether there is news since the last serve. */
kolo_bell *kolo_relay_bell(struct kolo_relay *relay);
bool kolo_relay_has_news(const struct kolo_relay *relay);

/* Whether the proxy's thread is to drive all the time. Any thread. */
bool kolo_relay_talks(const struct kolo_relay *relay);

/* Passes on what ranks of this node have published. */
void kolo_relay_serve(struct kolo_relay *relay);

/* If it talks, tells the other nodes which ranks have left, every 20 ms. True if a rank has died, or, whether it talks
 * or not, has ended before it has begun the call `awaited` (0: none): *found says which, and how. So it does where the
 * relay had no memory for a frame. */
bool kolo_relay_look(struct kolo_relay *relay, uint64_t awaited, struct kolo_failure_report *found);

/* Finds the place of a chunk that arrives: 0 and *where, or KOLO_ERR_VERSION, KOLO_ERR_NO_SPACE. */
int kolo_relay_place(struct kolo_relay *relay, uint32_t node, const struct kolo_frame *frame, void **where);

/* Takes a frame that has come: 0, KOLO_ERR_VERSION where the frame is not valid, KOLO_ERR_NO_SPACE. */
int kolo_relay_take(struct kolo_relay *relay, uint32_t node, const struct kolo_frame *frame, const uint8_t *payload);

/* The engine has handed over a chunk. */
void kolo_relay_sent(struct kolo_relay *relay, const struct kolo_frame *frame);

/* All connections to a node have ended. left: the node had said that it leaves. */
void kolo_relay_end(struct kolo_relay *relay, uint32_t node, bool left);
