/* Messages between two ranks: those that kolo_send, kolo_recv and kolo_sendrecv wait for, and those in the background.
 * Ranks are those of all nodes, here and in what a rank keeps (comm/channels/channels.h).
 *
 * Steps (comm/step/progress.h) are numbers that all ranks know from the plan alone. A message between two ranks has no
 * such number, since the other ranks do not know of it. So each ordered pair of ranks that talks has a ring of its own.
 * Nothing here touches the steps, slots, lines or stamps of collectives: sends may be made between any two collectives.
 *
 * Memory. The segment has a place for the ring of each pair and for the stream of each rank, behind all else, where the
 * file is long enough but has no memory. Where a limit forbids such a file or such a mapping (8 GiB with 1024 ranks),
 * the communicator has no rings: on the ranks concerned messages are KOLO_ERR_NO_SPACE, and all else works. A sender
 * gives memory to its ring before its first message to a rank, and to its stream before its first large message
 * (kolo_segment_provide); a lack of memory is KOLO_ERR_NO_SPACE for that call, and never a signal. So a pair that does
 * not talk costs nothing, and a pair that talks costs two pages. A directory of rings, or files that ranks make when
 * they first send, would have to be opened by ranks that may not look into each other's processes, when the sender
 * computes something else or has ended. A receiver never touches a ring before `senders` says that it has memory: even
 * a load would allocate it.
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
 * Messages. Message m of a pair goes to cell m % KOLO_CELLS of its ring, with tag, dtype and count. Up to
 * KOLO_CELL_PAYLOAD bytes lie in the cell, on the same lines as the sequence: one hop. A larger message goes through
 * the sender's stream in chunks, which the receiver empties while the sender fills the next. A rank sends one such
 * message at a time, so one stream is enough for all its receivers. A message must not occupy the stream before a
 * receive has matched it: otherwise two ranks that first receive from others would keep those waiting. So it waits
 * until its receiver, once it has matched the message, asks for it by its number; the sender then says at which chunk
 * of the stream it begins. A receiver asks for one message of a rank at a time. Only a blocking send, with no other
 * send in flight, fills the stream at once, and says in the cell where: its rank sends nothing else before it is done.
 *
 *   1. `sequence` is stored last, with release: a rank that has acquired number m has the cell of message m whole.
 *   2. s writes message m only once taken >= m - KOLO_CELLS, and chunk c only once taken > c - KOLO_CHUNKS: nothing is
 *      written while it is read. `taken` of the stream has one writer at a time: s names the next receiver, in a cell
 *      or by `served`, only after it has acquired the last `taken` of the one before.
 *   3. r takes the messages of a ring in order, as long as a receive in flight wants one from s. Each message goes to
 *      the first receive, in the order in which receives were begun, that it fits. Without such a receive it is put
 *      aside in r's own memory, in order; of a large message only what the cell says. A receive looks there first when
 *      it is begun. So receives, in their order, get messages with the same tag in the order of their sends.
 *   4. s posts the messages to one rank in the order in which their sends were begun.
 *
 * Waits. A rank that can go on only by one word of one rank sleeps at that rank's bell, as in collectives. A rank with
 * more than that in flight looks at all of it for a while and, before it sleeps, sets its `listens`, for good. From
 * then on a rank that publishes something for it also adds to `events` and rings the mailbox's bell. `events` was read
 * before everything was looked at, so that anything newer has changed it. The fence after setting `listens` pairs with
 * that of kolo_publish: either the publisher sees `listens`, or the rank, which looks at everything once more, sees
 * what was published.
 *
 * Several nodes. A pair on two nodes has its ring on both, and each node has the stream of every rank (rings.h). The
 * relay (internode/relay/relay.h) writes here what the other node's rank writes there, and rings the bell of the first
 * lane, where ranks sleep that wait for it. A rank that has published something for another node's rank tells the relay
 * (kolo_tell_relay). It also tells the relay before it first waits for a rank that may have sent nothing yet.
 *
 * No deadlock. A send of a small message waits only for a cell. It need not wait while fewer than KOLO_CELLS messages
 * to that rank are not taken, and a receive takes all messages up to the one that it wants. All that is in flight is
 * looked at in one loop, which waits only when nothing of it can go on; the loop also runs within the waits of
 * collectives (sync/wait.h, `work`) and of other communicators (`elsewhere`). A stream is held either by a message that
 * its receiver has matched and takes in any of its waits, or by a blocking send, whose rank has no other message that
 * could want the stream. So ranks that exchange messages by kolo_sendrecv or in the background never wait for each
 * other's earlier sends or receives. Plain sends of large messages that wait for each other do so until the deadline,
 * which names the rank that is waited for. A mismatch is found by the receiver, which has both calls: its own and, in
 * the cell, the sender's. It records both beside the failure, for the message on all ranks.
 *
 * A death leaves:
 *
 *     rank, and where it dies          what is left                        who finds it
 *     s, before the bit in `senders`   memory that nobody looks at         r, in its wait: kolo_failure_check
 *     s, while it writes a cell        a cell whose sequence is old        the same
 *     s, after `sequence`              a message that counts: r looks at   r, in a later wait
 *                                      the flag again before it believes
 *                                      a death
 *     s, or r, between two chunks      a stream that nobody moves on       the other, in its wait
 *     r, before `taken`                a ring that stays full              s, in its wait for a cell
 *     r, after `taken`                 nothing                             s, in a later wait
 *     either, before it adds to        a sleeper that is not rung: it      the same, a slice later
 *     `events`                         finds the death instead
 *
 * Once a failure is published the rings mean nothing any more; kolo_comm_shrink makes a new segment, with new ones. */
#ifndef KOLO_COMM_CHANNELS_TRANSFER_H
#define KOLO_COMM_CHANNELS_TRANSFER_H

#include "comm/comm.h"

/* Gives memory to the ring and the stream that a message to another rank needs. Returns 0, or KOLO_ERR_NO_SPACE:
 * nothing was sent. */
int kolo_sending_prepare(kolo_comm *comm, const struct kolo_sending *sending);

/* Puts a send to another rank, for which memory is there, in flight. */
void kolo_sending_begin(kolo_comm *comm, struct kolo_sending *sending);

/* Puts a receive in flight. Returns 0, or the status with which the communicator broke. */
int kolo_receiving_begin(kolo_comm *comm, struct kolo_receiving *receiving);

/* Sends a rank's message to itself: either a receive in flight gets it, and the send is done, or a copy is put aside.
 * Returns false where there is no memory for the copy. */
bool kolo_send_to_self(kolo_comm *comm, struct kolo_sending *sending);

/* Advances all that is in flight as far as possible, without waiting. Returns 0, or the status with which the
 * communicator broke. */
int kolo_transfer_advance(kolo_comm *comm);
void kolo_sends_advance(kolo_comm *comm);
int kolo_receives_advance(kolo_comm *comm);

/* Carries on with all that is in flight until `until` returns true or nothing is in flight. Returns 0, or the status
 * with which the communicator broke. is_interruptible: kolo_transfer_interrupt by another thread of this rank makes
 * this call ask `until` again. */
typedef bool kolo_transfer_until_fn(void *argument);
int kolo_transfer_run(kolo_comm *comm, kolo_transfer_until_fn *until, void *argument, bool is_interruptible);
void kolo_transfer_interrupt(kolo_comm *comm);

/* For a rank that does not wait: advances, and looks once whether a failure is published, or a rank has ended or left
 * without which what is in flight cannot go on. Returns 0, or the status with which the communicator broke. */
int kolo_transfer_look(kolo_comm *comm);

/* Forgets what is in flight, in a communicator that is broken or about to be freed. */
void kolo_transfer_drop(kolo_comm *comm);

#endif
