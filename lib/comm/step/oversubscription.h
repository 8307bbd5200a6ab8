/* Oversubscription: where ranks outnumber processors, which ranks run on this one's processor, and whether yielding
 * lets one of them go on.
 *
 * Each rank stores in its member on which processor it last waited. In each wait it looks at one other rank's, so that
 * it knows all after as many waits as there are ranks. What it knows may be old. That only decides whether some
 * microseconds are spent spinning or switching to another process. For the same reason it needs no memory order.
 *
 * A rank on the same processor is behind if it has begun fewer calls or published fewer steps: then it has work to do.
 * One that is as far as this rank most likely waits for the same peer. The words that tell are in lines that the other
 * rank has written on this same processor. */
#ifndef KOLO_COMM_STEP_OVERSUBSCRIPTION_H
#define KOLO_COMM_STEP_OVERSUBSCRIPTION_H

#include "comm/comm.h"

/* True if one is behind, or if the processor is not known. The waiter's `oversubscribed`: its owner is the
 * communicator. */
bool kolo_oversubscription_is_behind(kolo_waiter *waiter);

#endif
