/* Messages between two ranks: those that kolo_send, kolo_recv and kolo_sendrecv wait for, and those in the background.
 * Ranks are those of all nodes, here and in what a rank keeps (comm/channels/channels.h).
 *
 * Steps (comm/step/progress.h) are numbers that all ranks know from the plan alone. A message between two ranks has no
 * such number, since the other ranks do not know of it. So each ordered pair of ranks that talks has a ring of its own.
 * Nothing here touches the steps, slots, lines or stamps of collectives: sends may be made between any two collectives.
 *
 * In the pair (s, r) rank s produces and rank r consumes. Words have one writer each, unless said, and only grow:
 *
 *     word                  where             writer                        readers
 *     senders[s]: a bit     mailbox of r      s, once, by addition          r
 *     cell.sequence         ring (s, r)       s, after the cell's rest      r
 *     taken                 ring (s, r)       r                             s
 *     asked, asked_number   ring (s, r)       r, the number first           s
 *     served, and where     ring (s, r)       s, where first                r
 *     filled                stream of s       s, after the chunk            r, of the message under way
 *     taken                 stream of s       r, of the message under way   s
 *     listens               mailbox of r      r, once                       all
 *     events                mailbox of r      all, by addition              r
 *
 * Several nodes. A pair on two nodes has its ring on both, and each node has the stream of every rank (rings.h). The
 * relay (internode/relay/relay.h) writes here what the other node's rank writes there, and rings the bell of the first
 * lane, where ranks sleep that wait for it. A rank that has published something for another node's rank tells the relay
 * (kolo_tell_relay). It also tells the relay before it first waits for a rank that may have sent nothing yet.
 *
 * comm/README.md, "Messages between two ranks", says how a message goes through a ring or a stream, why no order is
 * lost and nothing deadlocks, and what each death leaves. */
#pragma once

#include "comm/comm.h"

/* Gives memory to the ring and the stream that a message needs. Returns 0, or KOLO_ERR_NO_SPACE: nothing was sent. */
int kolo_sending_prepare(kolo_comm *comm, const struct kolo_sending *sending);

/* Puts a send to another rank, for which memory is there, in flight. */
void kolo_sending_begin(kolo_comm *comm, struct kolo_sending *sending);

/* Returns whether a receive cannot succeed: the message of the own rank that it would get, of those put aside or the
 * one that the same call sends (sending; NULL: none), does not fit, or there is none and none can come. In the first
 * case is_matched is set, and `message` is that one. */
bool kolo_receiving_is_wrong(kolo_comm *comm, struct kolo_receiving *receiving, const struct kolo_sending *sending);

/* Puts a receive in flight. Returns 0, or the status with which the communicator broke. */
int kolo_receiving_begin(kolo_comm *comm, struct kolo_receiving *receiving);

/* Sends a rank's message to itself: either a receive in flight gets it, and the send is done, or a copy is put aside.
 * Returns false where there is no memory for the copy. */
bool kolo_send_to_self(kolo_comm *comm, struct kolo_sending *sending);

/* Advances all that is in flight, without waiting. Returns 0, or the status with which the communicator broke. */
int kolo_transfer_advance(kolo_comm *comm);
void kolo_sends_advance(kolo_comm *comm);
int kolo_receives_advance(kolo_comm *comm);

/* Ends the receives that have their message, without looking for more. */
void kolo_receives_end(kolo_comm *comm);

/* Carries on with all that is in flight until `until` returns true or nothing is in flight. Returns 0, or the status
 * with which the communicator broke. is_interruptible: kolo_transfer_interrupt by another thread makes it ask again. */
typedef bool kolo_transfer_until_fn(void *argument);
int kolo_transfer_run(kolo_comm *comm, kolo_transfer_until_fn *until, void *argument, bool is_interruptible);
void kolo_transfer_interrupt(kolo_comm *comm);

/* For a rank that does not wait: advances, and looks once whether a failure is published, or a rank has ended or left
 * without which what is in flight cannot go on. Returns 0, or the status with which the communicator broke. */
int kolo_transfer_look(kolo_comm *comm);
