/* Which thread is in a call, and why a communicator cannot be used. */
#ifndef KOLO_API_CHECKS_H
#define KOLO_API_CHECKS_H

#include "comm/comm.h"

/* Taken at a call's begin and given up at its end where assertions are on: two threads in one communicator at once is
 * KOLO_ERR_STATE for the second. */
#ifdef NDEBUG
static inline int kolo_enter(const char *function, kolo_comm *comm) {
    (void)function, (void)comm;
    return 0;
}

static inline void kolo_leave(kolo_comm *comm) {
    (void)comm;
}
#else
int kolo_enter(const char *function, kolo_comm *comm);
void kolo_leave(kolo_comm *comm);
#endif

/* Why it cannot be, for `function`: the status to return. */
__attribute__((cold)) int kolo_unusable(const char *function, const kolo_comm *comm);

#endif
