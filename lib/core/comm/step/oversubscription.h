/* Oversubscription: where ranks outnumber processors, which ranks run on this one's processor, and whether yielding
 * lets one of them go on.
 *
 * Each rank stores in its member on which processor it last waited. In each wait it looks at one other rank's
 * processor, so that it knows all of them after as many waits as there are ranks. Its knowledge may be old: it only
 * decides whether some microseconds are spent spinning or switching to another process. For the same reason it needs no
 * memory order.
 *
 * A rank on the same processor is behind if it has begun fewer calls or published fewer steps: then it has work to do.
 * A rank that is as far as this one most likely waits for the same peer. The other rank has written its words for this
 * on the same processor, so that reading them costs little. */
#ifndef KOLO_COMM_STEP_OVERSUBSCRIPTION_H
#define KOLO_COMM_STEP_OVERSUBSCRIPTION_H

#include "comm/comm.h"

/* Returns true if a rank on this processor is behind, or if the processor is not known. This is the waiter's
 * `oversubscribed`; the waiter's owner is the communicator. */
bool kolo_oversubscription_is_behind(kolo_waiter *waiter);

#endif
