/* Whether a communicator can be used, which every call asks first. */
#ifndef KOLO_API_CHECKS_H
#define KOLO_API_CHECKS_H

#include "comm/comm.h"

static inline bool kolo_usable(const kolo_comm *comm) {
    return __builtin_expect(comm && comm->token->usable, 1);
}

/* Why it cannot be, for `function`: the status to return. */
__attribute__((cold)) int kolo_unusable(const char *function, const kolo_comm *comm);

#endif
