/* kolo_comm_shrink: the survivors of a broken communicator agree on who is left and make one of them. How, and why it
 * holds whoever dies when, is told in shrink.c. */
#ifndef KOLO_COMM_CREATION_SHRINK_H
#define KOLO_COMM_CREATION_SHRINK_H

#include "comm/comm.h"

/* See kolo_comm_shrink. `comm` is broken, and this process's own. KOLO_ERR_TIMEOUT, NO_SPACE, SYSTEM, VERSION. */
int kolo_shrink_run(kolo_comm *comm, kolo_comm **shrunk);

/* Frees the places of ranks whose processes have ended, so that the last one that leaves finds itself to be that. */
void kolo_shrink_mark_dead(kolo_comm *comm);

#endif
