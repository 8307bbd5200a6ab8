/* kolo_comm_shrink: the survivors of a broken communicator agree on which ranks are left, and make a communicator of
 * them. shrink.c says how they do that, and why it holds whichever rank dies, and when. */
#ifndef KOLO_COMM_CREATION_SHRINK_H
#define KOLO_COMM_CREATION_SHRINK_H

#include "comm/comm.h"

/* See kolo_comm_shrink. `comm` is broken, and this process's own. KOLO_ERR_TIMEOUT, NO_SPACE, SYSTEM, VERSION. */
int kolo_shrink_run(kolo_comm *comm, kolo_comm **shrunk);

/* Frees the places of ranks whose processes have ended, so that the last rank that leaves knows that it is the last. */
void kolo_shrink_mark_dead(kolo_comm *comm);

#endif
