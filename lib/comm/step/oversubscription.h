/* Which ranks run on this one's processor, where ranks outnumber processors: whether giving way lets one of them go on.
 *
 * Each rank shows in its member on which processor it last waited, and looks at one other rank's in each wait, so that
 * it knows of all after as many waits as there are ranks. What it knows may be old: nothing depends on it but whether
 * some microseconds go by spinning or with switching to another process. For the same reason it needs no order.
 *
 * A neighbour is behind if it has begun fewer calls or published fewer steps: it has something to do. One that is as
 * far as this rank most likely waits for what this one waits for. What tells lies in lines that the neighbour has
 * written on this same processor. */
#ifndef KOLO_COMM_STEP_OVERSUBSCRIPTION_H
#define KOLO_COMM_STEP_OVERSUBSCRIPTION_H

#include "comm/comm.h"

/* True if one is behind, or if the processor is not known. The waiter's `oversubscribed`: its owner is the
 * communicator. */
bool kolo_oversubscription_is_behind(kolo_waiter *waiter);

#endif
