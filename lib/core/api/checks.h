/* Checks which thread is in a call, and why a communicator cannot be used. */
#ifndef KOLO_API_CHECKS_H
#define KOLO_API_CHECKS_H

#include "comm/comm.h"

/* A call takes this at its begin and gives it up at its end where assertions are on. Where two threads are in one
 * communicator at once, the second gets KOLO_ERR_STATE. */
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

/* Says why `function` cannot use the communicator, and returns the status. */
__attribute__((cold)) int kolo_unusable(const char *function, const kolo_comm *comm);

#endif
