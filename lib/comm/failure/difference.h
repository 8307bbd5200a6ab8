/* Names the first thing that two ranks pass differently in a call (comm/step/items.h), once a mismatch is published.
 *
 * The two ranks that it names, while they are still in that call, show each other digests of KOLO_SHOWN_WORDS blocks of
 * their items. Both find the first block that differs, and show that one in as many smaller blocks; in the last level a
 * word is an item's value. The other ranks of the node only read. Nobody waits for longer than SHOWN_NS in all, or for
 * a rank that has left the call: then the message names no item. So it does where more items are equal than all levels
 * have.
 *
 * A communicator has one failure, so that each word is written once, by its rank. It is written before `levels`
 * (release), and read after that (acquire). Only words of a message depend on it: the communicator is broken already,
 * and a rank that dies here is one that the others do without. */
#ifndef KOLO_COMM_FAILURE_DIFFERENCE_H
#define KOLO_COMM_FAILURE_DIFFERENCE_H

#include "comm/comm.h"

/* For the thread that is in call `call`, which has items: finds what ranks[0] and ranks[1] of this node differ in, and
 * keeps it in words for messages. `names` are what messages call those ranks. */
void kolo_difference_find(kolo_comm *comm, uint64_t call, const uint32_t ranks[2], const uint32_t names[2]);

#endif
