/* The difference of two ranks: the first item that they pass differently in a call (comm/step/items.h). Messages name
 * it once a mismatch is published.
 *
 * The two ranks that the mismatch names show each other digests of KOLO_SHOWN_WORDS blocks of their items, while they
 * are still in that call. Both find the first block that differs, and show that one in as many smaller blocks; in the
 * last level a word is an item's value. The other ranks of the node only read. No rank waits for longer than SHOWN_NS
 * in all, or for a rank that has left the call: then the message names no item. It also names none where all the items
 * that the levels have room for are equal.
 *
 * A communicator has one failure, so that each rank writes its words once. They are written before `levels` (release),
 * and read after it (acquire). Only the words of a message depend on them: the communicator is broken already, and the
 * others do without a rank that dies here. */
#ifndef KOLO_COMM_FAILURE_DIFFERENCE_H
#define KOLO_COMM_FAILURE_DIFFERENCE_H

#include "comm/comm.h"

/* The thread that is in call `call`, which has items, calls this: finds the item in which ranks[0] and ranks[1] of this
 * node differ, and keeps it in words for messages. `names`: the numbers by which messages call those ranks. */
void kolo_difference_find(kolo_comm *comm, uint64_t call, const uint32_t ranks[2], const uint32_t names[2]);

#endif
